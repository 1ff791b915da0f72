"""Activation functions and changes of shape as modules, for `Sequential`; elsewhere call the operation itself."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_attn import ops
from tinygrad_attn.errors import AxisRangeError, OptionError
from tinygrad_attn.nn.module import Module
from tinygrad_attn.operands import with_shape


class ReLU(Module):
    """Rectified linear unit.

    y = max(x, 0)

    >>> from tinygrad_attn import Tensor, nn
    >>> nn.ReLU()(Tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, x: Any) -> Any:
        """Same shape."""
        return ops.relu(x)


class LeakyReLU(Module):
    """Relu that lets a little through below 0.

    y = x if x > 0 else negative_slope · x

    Args:
        negative_slope: the slope below 0.
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        if not math.isfinite(negative_slope):
            raise OptionError(f"LeakyReLU: negative_slope must be a finite number\n  given {negative_slope}")
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Any:
        """Same shape."""
        return ops.leaky_relu(x, negative_slope=self.negative_slope)

    def extra_repr(self) -> str:
        """The slope."""
        return f"negative_slope={self.negative_slope}"


class GELU(Module):
    """Gaussian error linear unit.

    y = x Φ(x)

    Args:
        approximate: "none" for the exact function, as in BERT; "tanh" for the form in GPT-2.
    """

    def __init__(self, approximate: str = "none") -> None:
        if approximate not in ("none", "tanh"):
            raise OptionError(f"GELU: approximate must be 'none' or 'tanh'\n  given {approximate!r}")
        self.approximate = approximate

    def forward(self, x: Any) -> Any:
        """Same shape."""
        return ops.gelu(x) if self.approximate == "none" else ops.gelu_tanh(x)

    def extra_repr(self) -> str:
        """Which of the two forms."""
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """Sigmoid linear unit, also called swish.

    y = x σ(x)
    """

    def forward(self, x: Any) -> Any:
        """Same shape."""
        return ops.silu(x)


class Sigmoid(Module):
    """Logistic function.

    y = 1 / (1 + e⁻ˣ)
    """

    def forward(self, x: Any) -> Any:
        """Same shape."""
        return ops.sigmoid(x)


class Tanh(Module):
    """Hyperbolic tangent.

    y = tanh x
    """

    def forward(self, x: Any) -> Any:
        """Same shape."""
        return ops.tanh(x)


class Softplus(Module):
    """Smooth relu.

    y = ln(1 + eˣ)
    """

    def forward(self, x: Any) -> Any:
        """Same shape."""
        return ops.softplus(x)


class Identity(Module):
    """Hands on what it gets: for a place that may be empty.

    y = x
    """

    def forward(self, x: Any) -> Any:
        """The very same object."""
        return x


class Flatten(Module):
    """Several neighbouring axes made one; by default all but the batch.

    (batch, a, b, …) -> (batch, a · b · …)

    Args:
        start_axis, end_axis: the first and the last of them, counted from either end.
    """

    def __init__(self, start_axis: int = 1, end_axis: int = -1) -> None:
        self.start_axis, self.end_axis = start_axis, end_axis

    def forward(self, x: Any) -> Any:
        """Fewer axes, the same elements in the same order."""
        x = with_shape(x)
        shape = x.shape
        bounds = (self.start_axis, self.end_axis)
        start, end = (axis + len(shape) if axis < 0 else axis for axis in bounds)
        if not 0 <= start <= end < len(shape):
            raise AxisRangeError(
                f"Flatten: no axes from {self.start_axis} to {self.end_axis}\n"
                f"  given shape {shape}; the first axis is 0, the last {len(shape) - 1} or -1"
            )
        return ops.reshape(x, shape=(*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))

    def extra_repr(self) -> str:
        """Its bounds."""
        return f"start_axis={self.start_axis}, end_axis={self.end_axis}"
