"""Windows that slide over the last axes, and their sum back into place: what convolution and pooling are made of.

The two are each other's gradient, since both are linear and move elements only: an element that lies in several windows
gets the sum of what they send back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser, Shape, one_of
from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.operation import op


def _spatial(choose: Chooser) -> tuple[Any, ...]:
    return (choose.reals((*choose.shape(0, 1), *choose.shape(1, 2, 3, 4))),)


def _some_size(choose: Chooser, inputs: tuple[Any, ...]) -> tuple[int, ...]:
    axes = 2 if inputs[0].ndim > 1 and inputs[0].shape[-2] >= 3 and choose.integer(0, 1) else 1
    return tuple(choose.integer(1, 2) for _ in range(axes))


@op(
    moves=True,
    domain=_spatial,
    options={"size": _some_size, "stride": one_of(1, 2, 3), "dilation": one_of(1, 2)},
)
def windows(x: Any, *, size: Sequence[int], stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1) -> Any:
    """Every window over the last axes; a view, so that nothing is copied.

    y[…, o, k] = x[…, stride · o + dilation · k], (..., *spatial) -> (..., *out, *size)

    As `np.lib.stride_tricks.sliding_window_view`, with steps between windows and within them.

    Args:
        x: (..., *spatial), with one spatial axis for each number in `size`.
        size: how many elements a window has along each spatial axis.
        stride: steps from a window to the next; one number for all spatial axes or one for each.
        dilation: steps from an element of a window to the next.
    Returns:
        (..., *out, *size), with out = ⌊(spatial − dilation (size − 1) − 1) / stride⌋ + 1.
    Raises:
        ShapeError: a window does not fit into x.
        OptionError: a size, a stride or a dilation below 1.

    >>> windows(np.arange(5), size=(2,), stride=2).tolist()
    [[0, 1], [2, 3]]
    """
    if not isinstance(size, Sequence):
        raise OptionError(
            f"windows: size must hold a number for each spatial axis\n  given {size!r}; write (3,) for one axis"
        )
    size = whole("windows", "size", size, len(size))
    stride, dilation = steps("windows", stride, dilation, len(size))
    number_of_windows("windows", x.shape, size, stride, dilation)  # raises where there is none
    extent = tuple(d * (k - 1) + 1 for d, k in zip(dilation, size, strict=True))
    axes = tuple(range(-len(size), 0))
    dense = np.lib.stride_tricks.sliding_window_view(x, extent, axes)  # (..., *all places, *extent)
    kept: tuple[Any, ...] = tuple(slice(None, None, step) for step in (*stride, *dilation))
    return dense[(..., *kept)]


@windows.gradient("x", formula="dx = Σ over the windows of dy, each at its place")
def _(g: Any, out: Any, x: Any, *, size: Any, stride: Any, dilation: Any) -> Any:
    return overlap_add(g, shape=x.shape[x.ndim - len(size) :], stride=stride, dilation=dilation)


def _windowed(choose: Chooser) -> tuple[Any, ...]:
    if choose.integer(0, 1):
        return (choose.reals((choose.integer(1, 2), choose.integer(1, 2), choose.integer(1, 3), choose.integer(1, 2))),)
    return (choose.reals((*choose.shape(0, 1), choose.integer(1, 3), choose.integer(1, 3))),)


def _covered(choose: Chooser, inputs: tuple[Any, ...]) -> tuple[int, ...]:
    axes = 2 if inputs[0].ndim == 4 else 1
    count, size = inputs[0].shape[-2 * axes : -axes], inputs[0].shape[-axes:]
    return tuple(2 * (o - 1) + 3 * (k - 1) + choose.integer(1, 2) for o, k in zip(count, size, strict=True))


@op(
    moves=True,
    domain=_windowed,
    options={"shape": _covered, "stride": one_of(2), "dilation": one_of(3)},
)
def overlap_add(y: Any, *, shape: Shape, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1) -> Any:
    """Windows added up, each at its place: the transpose of `windows`.

    x[…, i] = Σ of y[…, o, k] over all o, k with stride · o + dilation · k = i, (..., *out, *size) -> (..., *shape)

    Args:
        y: (..., *out, *size), as from `windows`.
        shape: spatial shape of the result.
        stride, dilation: as in `windows`.
    Raises:
        ShapeError: y has another number of windows than fit into `shape`.

    >>> overlap_add(np.ones((2, 3)), shape=(5,), stride=2).tolist()
    [1.0, 1.0, 2.0, 1.0, 1.0]
    """
    shape = tuple(shape)
    axes = len(shape)
    stride, dilation = steps("overlap_add", stride, dilation, axes)
    batch, count, size = y.shape[: -2 * axes], y.shape[-2 * axes : -axes], y.shape[-axes:]
    if number_of_windows("overlap_add", shape, size, stride, dilation) != count:
        raise ShapeError(f"overlap_add: {shape} has not the windows that are given\n  given {count} of size {size}")
    x = np.zeros((*batch, *shape), y.dtype)
    for place in np.ndindex(*size):  # a position in the window: all windows at once, since they do not meet there
        along = zip(dilation, place, stride, count, strict=True)
        reached: tuple[Any, ...] = (..., *(slice(d * k, d * k + s * n, s) for d, k, s, n in along))
        x[reached] += y[(..., *place)]
    return x


@overlap_add.gradient("y", formula="dy = the windows of dx")
def _(g: Any, out: Any, y: Any, *, shape: Any, stride: Any, dilation: Any) -> Any:
    return windows(g, size=y.shape[y.ndim - len(shape) :], stride=stride, dilation=dilation)


# --- sizes and steps -----------------------------------------------------------------------------------------------


def whole(name: str, option: str, value: Any, axes: int, least: int = 1) -> tuple[int, ...]:
    """One whole number for each spatial axis, given one for all or one for each.

    Raises:
        OptionError: another number of them, or one below `least`.
    """
    numbers = (value,) * axes if isinstance(value, (int, np.integer)) else tuple(value)
    if len(numbers) != axes or not all(isinstance(n, (int, np.integer)) and n >= least for n in numbers):
        raise OptionError(
            f"{name}: {option} must be a whole number of at least {least}, for each of the {axes} spatial axes or "
            f"for all\n  given {value!r}"
        )
    return tuple(int(n) for n in numbers)


def steps(name: str, stride: Any, dilation: Any, axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Stride and dilation, one number for each spatial axis."""
    return whole(name, "stride", stride, axes), whole(name, "dilation", dilation, axes)


def number_of_windows(
    name: str, shape: Shape, size: Shape, stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[int, ...]:
    """How many windows fit along each of the last axes.

    Raises:
        ShapeError: along one of them none does.
    """
    spatial = shape[len(shape) - len(size) :]
    room = [n - d * (k - 1) - 1 for n, k, d in zip(spatial, size, dilation, strict=False)]
    if len(spatial) != len(size) or any(r < 0 for r in room):
        apart = "" if set(dilation) == {1} else f" and its elements {dilation} apart"
        raise ShapeError(
            f"{name}: a window of {size}{apart} does not fit\n    spatial axes  {spatial} of {shape}\n"
            "  padding makes room at the ends"
        )
    return tuple(r // s + 1 for r, s in zip(room, stride, strict=True))
