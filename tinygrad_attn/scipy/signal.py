"""scipy.signal: convolution of arrays of any number of axes. Filters of many channels are `tinygrad_attn.conv`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal as theirs

from tinygrad_attn.domain import Chooser
from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.operation import op

__all__ = ["convolve"]


def _two(choose: Chooser) -> tuple[Any, ...]:
    axes = choose.integer(1, 2)
    return choose.reals(choose.shape(axes, axes, 1, 3)), choose.reals(choose.shape(axes, axes, 1, 3))


@op(symbol="∗", domain=_two)
def convolve_full(a: Any, b: Any) -> Any:
    """Every product of an element of one and an element of the other, added where their indices add up.

    y[k] = Σ over i + j = k of a[i] b[j]
    """
    return theirs.convolve(a, b, method="direct")


@convolve_full.gradient("a", formula="da = dy correlated with b")
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    return _inside(convolve_full(g, np.flip(b)), b.shape, a.shape)


@convolve_full.gradient("b", formula="db = dy correlated with a")
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    return _inside(convolve_full(g, np.flip(a)), a.shape, b.shape)


def _inside(full: Any, first: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """`shape` elements of the full convolution, from where an array of shape `first` lies on the other completely."""
    return full[tuple(slice(start - 1, start - 1 + n) for start, n in zip(first, shape, strict=True))]


def convolve(a: Any, b: Any, mode: str = "full") -> Any:
    """Convolution over all axes.

    y[k] = Σ over i + j = k of a[i] b[j]

    Args:
        a, b: of the same number of axes.
        mode: "full"; "valid" for the places where one lies in the other completely; "same" for the middle, in the shape
            of a.
    Raises:
        ShapeError: the numbers of axes differ, or, for "valid", neither fits into the other.
        OptionError: an unknown mode.

    >>> convolve(np.array([1.0, 2.0]), np.array([1.0, 10.0])).tolist()
    [1.0, 12.0, 20.0]
    """
    if np.ndim(a) != np.ndim(b) or np.ndim(a) == 0:
        raise ShapeError(f"convolve: both must have the same axes\n    a  {np.shape(a)}\n    b  {np.shape(b)}")
    full = convolve_full(a, b)
    if mode == "full":
        return full
    if mode == "same":
        starts = tuple((n - 1) // 2 + 1 for n in b.shape)
        return _inside(full, starts, a.shape)
    if mode != "valid":
        raise OptionError(f"convolve: mode must be 'full', 'same' or 'valid'\n  given {mode!r}")
    pairs = list(zip(a.shape, b.shape, strict=True))
    if not (all(n >= m for n, m in pairs) or all(n <= m for n, m in pairs)):
        raise ShapeError(f"convolve: for 'valid' one must fit into the other\n    a  {a.shape}\n    b  {b.shape}")
    return _inside(full, tuple(min(pair) for pair in pairs), tuple(abs(n - m) + 1 for n, m in pairs))
