"""Convolution over any number of spatial axes, and its transpose: one matrix product over all windows.

A window of the input, written as a column, is multiplied with the weight, written as a matrix:

    columns  (groups, in / groups · size, batch · places)
    weight   (groups, out / groups, in / groups · size)
    product  (groups, out / groups, batch · places)

The gradient by the input is the transposed convolution, whose own gradient is the convolution again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_attn.domain import Chooser, Shape, one_of
from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.operation import op
from tinygrad_attn.ops.windows import number_of_windows, overlap_add, steps, whole, windows

Steps = int | Sequence[int]
Padding = int | str | Sequence[int]


class Layout(NamedTuple):
    """How windows lie on the input: steps between and within them, borders before and after, groups of channels."""

    size: Shape
    stride: tuple[int, ...]
    borders: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int

    def padded(self, spatial: Shape) -> Shape:
        """The spatial shape with its borders."""
        return tuple(n + before + after for n, (before, after) in zip(spatial, self.borders, strict=True))


def _images(choose: Chooser) -> tuple[Any, ...]:
    axes, channels = choose.integer(1, 2), 2 * choose.integer(1, 2)
    batch = choose.shape(0, 1, 0, 2)
    kernel = (choose.pick([2, 4]), choose.pick([channels, channels // 2]), *choose.shape(axes, axes, 1, 2))
    bias = choose.reals(kernel[:1]) if choose.integer(0, 1) else None
    return choose.reals((*batch, channels, *choose.shape(axes, axes, 3, 4))), choose.reals(kernel), bias


def _groups(choose: Chooser, inputs: tuple[Any, ...]) -> int:
    spatial = inputs[1].ndim - 2
    return int(inputs[0].shape[-spatial - 1] // inputs[1].shape[1])


@op(
    symbol="conv",
    domain=_images,
    options={
        "stride": one_of(1, 2),
        "padding": one_of(0, 1),
        "dilation": one_of(1, 2),
        "groups": _groups,
    },
)
def conv(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    stride: Steps = 1,
    padding: Padding = 0,
    dilation: Steps = 1,
    groups: int = 1,
) -> Any:
    """Convolution: the same weighted sum of every window; as conv1d, conv2d and conv3d of PyTorch, in one function.

    y[…, o, i] = bias[o] + Σ over c, k of weight[o, c, k] · x[…, c, stride · i + dilation · k − padding]

    Args:
        x: (..., in_channels, *spatial); any number of batch axes.
        weight: (out_channels, in_channels / groups, *size); as many spatial axes as here has x.
        bias: (out_channels,) or None.
        stride: steps from a window to the next; one number for all spatial axes or one for each.
        padding: zeros put before and after each spatial axis, or "same": as many as keep its length if stride is 1.
        dilation: steps from an element of a window to the next.
        groups: groups of channels that are kept apart; in_channels gives one filter, or several, for each channel.
    Returns:
        (..., out_channels, *out), out = ⌊(spatial + 2 padding − dilation (size − 1) − 1) / stride⌋ + 1.
    Raises:
        ShapeError: the channels do not match, or a window does not fit.
        OptionError: an impossible stride, padding, dilation or number of groups.
    Source:
        LeCun et al. (1998), "Gradient-based learning applied to document recognition"; as one matrix product:
        Chellapilla, Puri and Simard (2006). Not flipped, as everywhere in this field; `np.convolve` flips.

    >>> conv(np.array([[[1.0, 2.0, 4.0, 8.0]]]), np.array([[[-1.0, 1.0]]])).tolist()
    [[[1.0, 2.0, 4.0]]]
    """
    layout = _layout("conv", x, weight, bias, stride, padding, dilation, groups, in_axis=1)
    columns, places = _columns(x, layout)
    return _with_bias(_unrolled(_as_matrix(weight, layout) @ columns, _batch(x, layout), places), bias, layout)


@conv.gradient("x", formula="dx = Wᵀ dy, every window at its place: the transposed convolution")
def _(g: Any, y: Any, x: Any, weight: Any, bias: Any, *, groups: int, **how: Any) -> Any:
    layout = _layout("conv", x, weight, bias, groups=groups, in_axis=1, **how)
    matrix = np.swapaxes(_as_matrix(weight, layout), -1, -2)
    return _overlapped(matrix @ _rolled(g, layout), _batch(x, layout), _spatial(x, layout), layout)


@conv.gradient("weight", formula="dW = dy columnsᵀ, over all windows")
def _(g: Any, y: Any, x: Any, weight: Any, bias: Any, *, groups: int, **how: Any) -> Any:
    layout = _layout("conv", x, weight, bias, groups=groups, in_axis=1, **how)
    columns, _ = _columns(x, layout)
    return np.reshape(_rolled(g, layout) @ np.swapaxes(columns, -1, -2), weight.shape)


@conv.gradient("bias", formula="db = Σ dy over all windows")
def _(g: Any, y: Any, x: Any, weight: Any, bias: Any, **how: Any) -> Any:
    return _sum_of_channels(g, weight.ndim - 2)


def _small_images(choose: Chooser) -> tuple[Any, ...]:
    axes, channels = choose.integer(1, 2), 2 * choose.integer(1, 2)
    kernel = (channels, choose.integer(1, 2), *choose.shape(axes, axes, 2, 3))
    bias = choose.reals(kernel[1:2]) if choose.integer(0, 1) else None
    return (
        choose.reals((*choose.shape(0, 1, 0, 2), channels, *choose.shape(axes, axes, 2, 3))),
        choose.reals(kernel),
        bias,
    )


def _groups_without_bias(choose: Chooser, inputs: tuple[Any, ...]) -> int:
    return 1 if inputs[2] is not None else choose.pick([1, 2])


@op(
    symbol="convᵀ",
    domain=_small_images,
    options={
        "stride": one_of(2, 3),
        "padding": one_of(0, 1),
        "output_padding": one_of(0, 1),
        "dilation": one_of(1, 2),
        "groups": _groups_without_bias,
    },
)
def conv_transpose(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    stride: Steps = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: Steps = 1,
    groups: int = 1,
) -> Any:
    """Transposed convolution: every element lays the weight, times itself, over the result. It enlarges where `conv`
    with a stride shrinks.

    y[…, o, stride · i + dilation · k − padding] = bias[o] + Σ over c, i, k of weight[c, o, k] · x[…, c, i]

    Args:
        x: (..., in_channels, *spatial); any number of batch axes.
        weight: (in_channels, out_channels / groups, *size), as a convolution from out to in has it.
        bias: (out_channels,) or None.
        stride, dilation, groups: of that convolution.
        padding: of that convolution: cut off before and after each spatial axis.
        output_padding: how much longer the result is at its end: with a stride, several lengths shrink to one.
    Returns:
        (..., out_channels, *out), out = stride (spatial − 1) + dilation (size − 1) + 1 − 2 padding + output_padding.
    Raises:
        ShapeError, OptionError: as `conv`; or nothing is left of the result.
    Source:
        Dumoulin and Visin (2016), "A guide to convolution arithmetic for deep learning", arXiv:1603.07285, §4.

    >>> conv_transpose(np.array([[[1.0, 2.0]]]), np.array([[[1.0, 1.0]]]), stride=2).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    layout = _layout("conv_transpose", x, weight, bias, stride, padding, dilation, groups, in_axis=0)
    out = _enlarged(_spatial(x, layout), layout, output_padding)
    matrix = np.swapaxes(_as_matrix(weight, layout), -1, -2)
    return _with_bias(_overlapped(matrix @ _rolled(x, layout), _batch(x, layout), out, layout), bias, layout)


@conv_transpose.gradient("x", formula="dx = W columns of dy: the convolution")
def _(g: Any, y: Any, x: Any, weight: Any, bias: Any, *, groups: int, output_padding: Any, **how: Any) -> Any:
    layout = _layout("conv_transpose", x, weight, bias, groups=groups, in_axis=0, **how)
    columns, places = _columns(g, layout)
    return _unrolled(_as_matrix(weight, layout) @ columns, _batch(x, layout), places)


@conv_transpose.gradient("weight", formula="dW = x (columns of dy)ᵀ, over all elements")
def _(g: Any, y: Any, x: Any, weight: Any, bias: Any, *, groups: int, output_padding: Any, **how: Any) -> Any:
    layout = _layout("conv_transpose", x, weight, bias, groups=groups, in_axis=0, **how)
    columns, _ = _columns(g, layout)
    return np.reshape(_rolled(x, layout) @ np.swapaxes(columns, -1, -2), weight.shape)


@conv_transpose.gradient("bias", formula="db = Σ dy over all places")
def _(g: Any, y: Any, x: Any, weight: Any, bias: Any, **how: Any) -> Any:
    return _sum_of_channels(g, weight.ndim - 2)


# --- between images and matrices -----------------------------------------------------------------------------------


def _as_matrix(weight: Any, layout: Layout) -> Any:
    """(first, second, *size) -> (groups, first / groups, second · size)."""
    groups, first, second = layout.groups, weight.shape[0], weight.shape[1]
    return np.reshape(weight, (groups, first // groups, second * math.prod(layout.size)))


def _columns(x: Any, layout: Layout) -> tuple[Any, Shape]:
    """Every window as a column: (..., channels, *spatial) -> (groups, channels / groups · size, batch · places)."""
    batch, axes = _batch(x, layout), len(layout.size)
    padded = np.pad(x, ((0, 0),) * (len(batch) + 1) + layout.borders) if any(map(any, layout.borders)) else x
    seen = windows(padded, size=layout.size, stride=layout.stride, dilation=layout.dilation)
    places = seen.shape[len(batch) + 1 : len(batch) + 1 + axes]
    first = np.transpose(seen, _window_first(len(batch), axes))  # (channels, *size, *batch, *places)
    rows = first.shape[0] // layout.groups * math.prod(layout.size)
    return np.reshape(first, (layout.groups, rows, math.prod(batch) * math.prod(places))), places


def _overlapped(columns: Any, batch: Shape, spatial: Shape, layout: Layout) -> Any:
    """The transpose of `_columns`: every column added to the places that its window has seen, borders cut off."""
    axes, padded = len(layout.size), layout.padded(spatial)
    places = number_of_windows("conv", padded, layout.size, layout.stride, layout.dilation)
    channels = columns.shape[0] * columns.shape[1] // math.prod(layout.size)
    order = _window_first(len(batch), axes)
    first = np.reshape(columns, (channels, *layout.size, *batch, *places))
    seen = np.transpose(first, tuple(int(axis) for axis in np.argsort(order)))  # (*batch, channels, *places, *size)
    image = overlap_add(seen, shape=padded, stride=layout.stride, dilation=layout.dilation)
    inside = (slice(before, before + n) for (before, _), n in zip(layout.borders, spatial, strict=True))
    return image[(..., *inside)]


def _window_first(batch: int, axes: int) -> tuple[int, ...]:
    """The order of axes that turns (*batch, channels, *places, *size) into (channels, *size, *batch, *places)."""
    channels = batch
    size = range(channels + 1 + axes, channels + 1 + 2 * axes)
    return (channels, *size, *range(batch), *range(channels + 1, channels + 1 + axes))


def _rolled(y: Any, layout: Layout) -> Any:
    """(*batch, channels, *places) -> (groups, channels / groups, batch · places)."""
    batch, axes = _batch(y, layout), len(layout.size)
    first = np.moveaxis(y, -axes - 1, 0)  # (channels, *batch, *places)
    return np.reshape(
        first, (layout.groups, first.shape[0] // layout.groups, math.prod(batch) * math.prod(y.shape[-axes:]))
    )


def _unrolled(rows: Any, batch: Shape, places: Shape) -> Any:
    """(groups, channels / groups, batch · places) -> (*batch, channels, *places)."""
    first = np.reshape(rows, (rows.shape[0] * rows.shape[1], *batch, *places))
    return np.moveaxis(first, 0, len(batch))


def _with_bias(y: Any, bias: Any, layout: Layout) -> Any:
    return y if bias is None else y + np.reshape(bias, (bias.size, *(1,) * len(layout.size)))


def _sum_of_channels(g: Any, axes: int) -> Any:
    """The sum over all but the channels."""
    channels = g.ndim - axes - 1
    return np.sum(g, axis=tuple(axis for axis in range(g.ndim) if axis != channels))


# --- what was given ------------------------------------------------------------------------------------------------


def _batch(x: Any, layout: Layout) -> Shape:
    return tuple(x.shape[: x.ndim - len(layout.size) - 1])


def _spatial(x: Any, layout: Layout) -> Shape:
    return tuple(x.shape[x.ndim - len(layout.size) :])


def _layout(
    name: str,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    *,
    in_axis: int,
) -> Layout:
    """What was given, checked; `in_axis` is the axis of the weight that belongs to the channels of x."""
    axes = weight.ndim - 2
    if axes < 1 or x.ndim < axes + 1:
        names = ("out_channels", "in_channels / groups") if in_axis else ("in_channels", "out_channels / groups")
        raise ShapeError(
            f"{name}: x must be (..., in_channels, *spatial) and weight ({', '.join(names)}, *size)\n"
            f"    x       {x.shape}\n    weight  {weight.shape}"
        )
    if not isinstance(groups, (int, np.integer)) or groups < 1 or weight.shape[0] % groups:
        raise OptionError(f"{name}: groups must divide the {weight.shape[0]} channels\n  given {groups!r}")
    channels = weight.shape[1] * groups if in_axis else weight.shape[0]
    if x.shape[-axes - 1] != channels:
        apart = f" in {groups} groups" if groups > 1 else ""
        raise ShapeError(
            f"{name}: weight is made for {channels} channels{apart}, x has {x.shape[-axes - 1]}\n"
            f"    x       {x.shape}  the channels stand before the {axes} spatial axes\n    weight  {weight.shape}"
        )
    results = weight.shape[0] if in_axis else weight.shape[1] * groups
    if bias is not None and bias.shape != (results,):
        raise ShapeError(f"{name}: bias must be one number per channel\n  expected ({results},), given {bias.shape}")
    size = tuple(weight.shape[2:])
    stride, dilation = steps(name, stride, dilation, axes)
    return Layout(size, stride, _borders(name, padding, size, stride, dilation), dilation, int(groups))


def _borders(
    name: str, padding: Any, size: Shape, stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    """Zeros before and after each spatial axis."""
    if isinstance(padding, str):
        if padding != "same" or name != "conv" or set(stride) != {1}:
            raise OptionError(
                f"{name}: padding must be whole numbers, or 'same' where stride is 1\n  given {padding!r}"
            )
        more = [d * (k - 1) for d, k in zip(dilation, size, strict=True)]
        return tuple((n // 2, n - n // 2) for n in more)
    return tuple((n, n) for n in whole(name, "padding", padding, len(size), least=0))


def _enlarged(spatial: Shape, layout: Layout, output_padding: Any) -> Shape:
    """The spatial shape of the transposed convolution."""
    more = whole("conv_transpose", "output_padding", output_padding, len(spatial), least=0)
    if any(m >= s for m, s in zip(more, layout.stride, strict=True)):
        raise OptionError(f"conv_transpose: output_padding must be smaller than stride\n  given {output_padding!r}")
    reach = zip(spatial, layout.stride, layout.dilation, layout.size, layout.borders, more, strict=True)
    out = tuple(s * (n - 1) + d * (k - 1) + 1 - before - after + m for n, s, d, k, (before, after), m in reach)
    if min(out) < 1:
        raise ShapeError(f"conv_transpose: nothing is left after padding is cut off\n  the result would be {out}")
    return out
