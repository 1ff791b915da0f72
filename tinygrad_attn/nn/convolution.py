"""Convolutions with parameters of their own, and pooling; one, two and three spatial axes have PyTorch's names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tinygrad_attn import ops
from tinygrad_attn.errors import OptionError
from tinygrad_attn.nn import init
from tinygrad_attn.nn.layers import Input, check_size
from tinygrad_attn.nn.module import Module
from tinygrad_attn.nn.parameter import Parameter
from tinygrad_attn.ops.windows import whole

Steps = int | Sequence[int]


class Conv1d(Module):
    """Convolution over one spatial axis: the same weighted sum of every window.

    (..., in_channels, length) -> (..., out_channels, out)

    Args:
        in_channels, out_channels: numbers of channels before and after.
        kernel_size: of a window, one number for each spatial axis or one for all.
        stride, padding, dilation, groups: as in `tinygrad_attn.conv`.
        bias: whether to add one number per channel.
        rng: draws the first values; the shared generator if left out.
        dtype: of the parameters; the default dtype if left out.
    Attributes:
        weight: (out_channels, in_channels / groups, *kernel_size), as in PyTorch; U(−1/√n, 1/√n) at first, with n the
            numbers that one result is a sum of.
        bias: (out_channels,), drawn likewise; or None.
    """

    axes = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Steps,
        stride: Steps = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: Steps = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        rng: np.random.Generator | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        name = type(self).__name__
        check_size(name, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise OptionError(f"{name}: groups must divide both numbers of channels\n  given {groups}")
        self.kernel_size = whole(name, "kernel_size", kernel_size, self.axes)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        shape = self._weight_shape(in_channels, out_channels)
        self.weight = Parameter(init.kaiming_uniform(shape, slope=math.sqrt(5.0), rng=rng, dtype=dtype))
        bound = 1.0 / math.sqrt(math.prod(shape[1:]))
        self.bias = Parameter(init.uniform((out_channels,), -bound, bound, rng=rng, dtype=dtype)) if bias else None

    def _weight_shape(self, in_channels: int, out_channels: int) -> tuple[int, ...]:
        return (out_channels, in_channels // self.groups, *self.kernel_size)

    def forward(self, x: Input) -> Any:
        """(..., in_channels, *spatial) -> (..., out_channels, *out)."""
        how = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}
        return ops.conv(x, self.weight, self.bias, **how)

    def extra_repr(self) -> str:
        """Shape of the weight, and what is not as usual."""
        usual = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
        unusual = [f"{name}={getattr(self, name)!r}" for name, value in usual.items() if getattr(self, name) != value]
        return ", ".join([f"weight={self.weight.shape}", *unusual, f"bias={self.bias is not None}"])


class Conv2d(Conv1d):
    """Convolution over two spatial axes, such as the height and the width of an image; see `Conv1d`.

    (..., in_channels, height, width) -> (..., out_channels, *out)
    """

    axes = 2


class Conv3d(Conv1d):
    """Convolution over three spatial axes; see `Conv1d`."""

    axes = 3


class ConvTranspose1d(Conv1d):
    """Transposed convolution over one spatial axis: it enlarges where a convolution with a stride shrinks.

    (..., in_channels, length) -> (..., out_channels, out)

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, rng, dtype: as in `Conv1d`.
        output_padding: how much longer the result is at its end.
    Attributes:
        weight: (in_channels, out_channels / groups, *kernel_size), as in PyTorch.
        bias: (out_channels,) or None.
    """

    def __init__(self, *args: Any, output_padding: Steps = 0, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.output_padding = output_padding

    def _weight_shape(self, in_channels: int, out_channels: int) -> tuple[int, ...]:
        return (in_channels, out_channels // self.groups, *self.kernel_size)

    def forward(self, x: Input) -> Any:
        """(..., in_channels, *spatial) -> (..., out_channels, *out)."""
        how = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}
        return ops.conv_transpose(x, self.weight, self.bias, output_padding=self.output_padding, **how)


class ConvTranspose2d(ConvTranspose1d):
    """Transposed convolution over two spatial axes; see `ConvTranspose1d`."""

    axes = 2


class ConvTranspose3d(ConvTranspose1d):
    """Transposed convolution over three spatial axes; see `ConvTranspose1d`."""

    axes = 3


class MaxPool1d(Module):
    """The largest element of every window over one spatial axis.

    (..., length) -> (..., out)

    Args:
        kernel_size: of a window, one number for each spatial axis or one for all.
        stride: steps from a window to the next; the kernel size if left out.
        padding: places of −∞ before and after each spatial axis.
        dilation: steps from an element of a window to the next.
    """

    axes = 1

    def __init__(
        self, kernel_size: Steps, stride: Steps | None = None, padding: Steps = 0, dilation: Steps = 1
    ) -> None:
        self.kernel_size = whole(type(self).__name__, "kernel_size", kernel_size, self.axes)
        self.stride = self.kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation

    def forward(self, x: Input) -> Any:
        """(..., *spatial) -> (..., *out)."""
        return ops.max_pool(x, self.kernel_size, stride=self.stride, padding=self.padding, dilation=self.dilation)

    def extra_repr(self) -> str:
        """Size and steps."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(MaxPool1d):
    """The largest element of every window over two spatial axes; see `MaxPool1d`."""

    axes = 2


class MaxPool3d(MaxPool1d):
    """The largest element of every window over three spatial axes; see `MaxPool1d`."""

    axes = 3


class AvgPool1d(Module):
    """The mean of every window over one spatial axis.

    (..., length) -> (..., out)

    Args:
        kernel_size: of a window, one number for each spatial axis or one for all.
        stride: steps from a window to the next; the kernel size if left out.
        padding: zeros before and after each spatial axis.
        count_include_pad: whether those zeros count.
    """

    axes = 1

    def __init__(
        self, kernel_size: Steps, stride: Steps | None = None, padding: Steps = 0, count_include_pad: bool = True
    ) -> None:
        self.kernel_size = whole(type(self).__name__, "kernel_size", kernel_size, self.axes)
        self.stride = self.kernel_size if stride is None else stride
        self.padding, self.count_include_pad = padding, count_include_pad

    def forward(self, x: Input) -> Any:
        """(..., *spatial) -> (..., *out)."""
        return ops.avg_pool(
            x, self.kernel_size, stride=self.stride, padding=self.padding, count_include_pad=self.count_include_pad
        )

    def extra_repr(self) -> str:
        """Size and steps."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(AvgPool1d):
    """The mean of every window over two spatial axes; see `AvgPool1d`."""

    axes = 2


class AvgPool3d(AvgPool1d):
    """The mean of every window over three spatial axes; see `AvgPool1d`."""

    axes = 3
