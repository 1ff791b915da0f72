"""Sequences of numbers between two ends or from one base, and arrays laid out anew from their elements in order."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.lib.stride_tricks import sliding_window_view

from tinygrad_attn.arguments import in_dtype, refuse_out
from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.ops.index import at_axis
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import as_array, plain


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` values from `start` to `stop` at equal distances, along a new axis.

    yₖ = start + (stop − start) k / (num − 1)
    """
    num = operator.index(num)
    if num < 0:
        raise OptionError(f"linspace: num must not be negative\n  given {num}")
    start, stop = as_array(start), as_array(stop)
    if dtype is not None:
        start, stop = (in_dtype(np.linspace, end, dtype) for end in (start, stop))
    pieces = num - 1 if endpoint else num
    shape = np.broadcast_shapes(np.shape(start), np.shape(stop))
    kind = np.result_type(plain(start), plain(stop), 0.0)
    parts = np.reshape(np.arange(num, dtype=kind) / max(pieces, 1), (num,) + (1,) * len(shape))
    y = start * (1.0 - parts) + stop * parts
    y = y if axis == 0 else np.moveaxis(y, 0, axis)
    return (y, (stop - start) / pieces if pieces > 0 else np.nan) if retstep else y


@implements(np.logspace)
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Powers of `base` whose exponents lie at equal distances.

    yₖ = baseᶻ, z = start + (stop − start) k / (num − 1)
    """
    base = as_array(base)
    if np.ndim(base):
        ends = np.broadcast_shapes(np.shape(start), np.shape(stop), np.shape(base))
        start, stop, base = (np.broadcast_to(as_array(x), ends) for x in (start, stop, base))
        base = np.expand_dims(base, axis)
    powers = np.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return powers if dtype is None else in_dtype(np.logspace, powers, dtype)


@implements(np.geomspace)
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """`num` values from `start` to `stop`, each the same multiple of the one before.

    yₖ = start (stop / start)ᵗ, t = k / (num − 1)

    Raises:
        OptionError: an end is 0, or the ends differ in sign.
    """
    start, stop = as_array(start), as_array(stop)
    if np.any(np.sign(plain(start)) * np.sign(plain(stop)) <= 0):
        raise OptionError("geomspace: both ends must be above 0, or both below")
    t = linspace(np.zeros_like(plain(start) * 1.0), np.ones_like(plain(stop) * 1.0), num, endpoint, axis=axis)
    first, last = (
        np.expand_dims(np.broadcast_to(end, np.broadcast_shapes(np.shape(start), np.shape(stop))), axis)
        for end in (start, stop)
    )
    y = np.sign(plain(first)) * np.power(np.absolute(first), 1.0 - t) * np.power(np.absolute(last), t)
    return y if dtype is None else in_dtype(np.geomspace, y, dtype)


@implements(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of each element of a vector, one column per power, the highest first unless `increasing`.

    Y[i, j] = xᵢ^(N − 1 − j)
    """
    if np.ndim(x) != 1:
        raise ShapeError(f"vander: a vector\n  given shape {np.shape(x)}")
    width = np.shape(x)[0] if N is None else N
    ones = np.ones((np.shape(x)[0], 1), x.dtype)
    factors = np.concatenate([ones, np.repeat(np.expand_dims(x, 1), max(width - 1, 0), 1)], 1)
    powers = np.cumprod(factors, axis=1)[:, :width]
    return powers if increasing else np.flip(powers, 1)


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    """The elements in order, again from the first when they run out, in another shape."""
    sides = (operator.index(new_shape),) if np.ndim(new_shape) == 0 else tuple(new_shape)
    count = int(np.prod(sides, dtype=int))
    places = np.arange(count) % np.size(a) if np.size(a) else np.arange(0)
    if count and not np.size(a):
        return np.broadcast_to(np.zeros((), np.result_type(a)), sides)
    return np.reshape(np.ravel(a)[places], sides)


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences between neighbours of all elements in order, with values put before and behind them."""
    parts = [to_begin, np.diff(np.ravel(ary)), to_end]
    return np.concatenate([np.ravel(as_array(part)) for part in parts if part is not None])


@implements(sliding_window_view)
def _sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    if writeable:
        raise OptionError("sliding_window_view: windows of a Tensor cannot be written to")
    sizes = (operator.index(window_shape),) if np.ndim(window_shape) == 0 else tuple(window_shape)
    axes = normalize_axis_tuple(range(x.ndim) if axis is None else axis, x.ndim, allow_duplicate=True)
    if len(sizes) != len(axes):
        raise ShapeError(f"sliding_window_view: one window length per axis\n  given {sizes} for axes {axes}")
    for size, along in zip(sizes, axes, strict=True):
        starts = x.shape[along] - size + 1
        if size < 0 or starts < 1:
            raise ShapeError(f"sliding_window_view: a window of {size} does not fit\n    x  {x.shape}  axis {along}")
        places = np.arange(starts)[:, None] + np.arange(size)  # (starts, size)
        x = np.moveaxis(x[at_axis(along, places)], along + 1, -1)
    return x


def _running(x: Any, axis: int | None, dtype: Any, include_initial: bool, running: Any, first: float) -> Any:
    if axis is None:
        if np.ndim(x) > 1:
            raise OptionError(f"{running.__name__}: axis must be said of more than one\n  given shape {np.shape(x)}")
        axis = 0
    y = running(x, axis=axis, dtype=dtype)
    if not include_initial:
        return y
    border = [1 if i == axis % np.ndim(x) else n for i, n in enumerate(np.shape(x))]
    return np.concatenate([np.full(border, first, y.dtype), y], axis)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: None = None, include_initial: bool = False
) -> Any:
    """Running sum along `axis`, beginning with 0 if `include_initial`."""
    refuse_out(cumulative_sum, out)
    return _running(x, axis, dtype, include_initial, np.cumsum, 0.0)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: None = None, include_initial: bool = False
) -> Any:
    """Running product along `axis`, beginning with 1 if `include_initial`."""
    refuse_out(cumulative_prod, out)
    return _running(x, axis, dtype, include_initial, np.cumprod, 1.0)


for _name, _function in (("cumulative_sum", cumulative_sum), ("cumulative_prod", cumulative_prod)):
    if hasattr(np, _name):  # since NumPy 2.1
        implements(getattr(np, _name))(_function)
