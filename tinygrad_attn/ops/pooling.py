"""Pooling: the largest element or the mean of every window. Each is what it says, written with `windows`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_attn.domain import Shape
from tinygrad_attn.errors import OptionError
from tinygrad_attn.ops.windows import whole, windows
from tinygrad_attn.tensor import as_array

Steps = int | Sequence[int]


def max_pool(
    x: Any, size: Steps, *, stride: Steps | None = None, padding: Steps = 0, dilation: Steps = 1, axes: int = 2
) -> Any:
    """The largest element of every window over the last axes; equal ones share the gradient, as in `max`.

    y[…, o] = max over k of x[…, stride · o + dilation · k − padding], (..., *spatial) -> (..., *out)

    Args:
        x: (..., *spatial).
        size: of the window, one number for each spatial axis; or one for all of them, `axes` in number.
        stride: steps from a window to the next; the size if left out, so that windows do not overlap.
        padding: places of −∞ before and after each spatial axis; at most half the size.
        dilation: steps from an element of a window to the next.
        axes: how many of the last axes are spatial, if `size` is one number.
    Raises:
        ShapeError: no window fits.
        OptionError: an impossible size, stride, padding or dilation.

    >>> max_pool(np.array([[1.0, 5.0, 2.0, 0.0], [3.0, 4.0, 7.0, 6.0]]), 2).tolist()
    [[5.0, 7.0]]
    """
    x = as_array(x)
    size, stride, borders = _window("max_pool", x, size, stride, padding, axes)
    if borders:
        floating = x.astype(np.float64) if x.dtype.kind in "iub" else x  # there is no whole −∞
        x = np.pad(floating, borders, constant_values=-math.inf)
    seen = windows(x, size=size, stride=stride, dilation=dilation)  # (..., *out, *size)
    return np.max(seen, axis=_last(size))


def avg_pool(
    x: Any,
    size: Steps,
    *,
    stride: Steps | None = None,
    padding: Steps = 0,
    count_include_pad: bool = True,
    axes: int = 2,
) -> Any:
    """The mean of every window over the last axes.

    y[…, o] = mean over k of x[…, stride · o + k − padding], (..., *spatial) -> (..., *out)

    Args:
        x, size, stride, axes: as in `max_pool`.
        padding: zeros before and after each spatial axis, at most half the size.
        count_include_pad: whether those zeros count, as they do by default in PyTorch.
    Raises:
        ShapeError, OptionError: as `max_pool`.

    >>> avg_pool(np.array([[1.0, 5.0, 2.0, 0.0], [3.0, 3.0, 7.0, 3.0]]), 2).tolist()
    [[3.0, 3.0]]
    """
    x = as_array(x)
    size, stride, borders = _window("avg_pool", x, size, stride, padding, axes)
    seen = windows(np.pad(x, borders) if borders else x, size=size, stride=stride)  # (..., *out, *size)
    if count_include_pad or not borders:
        return np.mean(seen, axis=_last(size))
    inside = np.pad(np.ones(x.shape[-len(size) :], x.dtype), borders[-len(size) :])
    number = windows(inside, size=size, stride=stride).sum(axis=_last(size))  # (*out,)
    return np.sum(seen, axis=_last(size)) / number


def _window(
    name: str, x: Any, size: Steps, stride: Steps | None, padding: Steps, axes: int
) -> tuple[tuple[int, ...], Steps, tuple[tuple[int, int], ...]]:
    """The size and the stride, and what np.pad is to add, which is nothing where nothing is to be."""
    size = whole(name, "size", size, axes if isinstance(size, (int, np.integer)) else len(tuple(size)))
    pads = whole(name, "padding", padding, len(size), least=0)
    if any(2 * pad > k for pad, k in zip(pads, size, strict=True)):
        raise OptionError(
            f"{name}: padding must be at most half the size: a window would hold nothing else\n"
            f"    size     {size}\n    padding  {pads}"
        )
    borders = ((0, 0),) * (np.ndim(x) - len(size)) + tuple((pad, pad) for pad in pads)
    return size, size if stride is None else stride, borders if any(pads) else ()


def _last(size: Shape) -> tuple[int, ...]:
    return tuple(range(-len(size), 0))
