"""Reductions: what many elements share, and how its gradient is handed back to each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tinygrad_attn.domain import any_axes, any_axis_or_none, distinct, flag, one_of, reals
from tinygrad_attn.operation import op
from tinygrad_attn.ops.choose import keep_where

Axis = int | tuple[int, ...] | None
_AXES: dict[str, Any] = {"axis": any_axes, "keepdims": flag}
_SPREAD: dict[str, Any] = {**_AXES, "correction": one_of(0.0, 0.5)}  # n − 0.5 is positive, however few there are


def spread(g: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    """Give every element of `x` the gradient of the result that it went into: (reduced) -> x.shape."""
    return np.broadcast_to(g if keepdims else np.expand_dims(g, reduced_axes(x, axis)), x.shape)


def reduced_axes(x: Any, axis: Axis) -> tuple[int, ...]:
    """The axes that go, counted from the front; a single number has none, whichever NumPy lets one name."""
    return tuple(range(x.ndim)) if axis is None or x.ndim == 0 else normalize_axis_tuple(axis, x.ndim)


def centred(x: Any, axis: Axis) -> Any:
    """`x` minus its mean over `axis`.

    The mean is taken off twice: the first one is rounded, and beside it small differences would drown.
    """
    once = x - np.mean(x, axis=axis, keepdims=True)
    return once - np.mean(once, axis=axis, keepdims=True)


def count(x: Any, axis: Axis) -> int:
    """How many elements go into one result."""
    return int(np.prod([x.shape[i] for i in reduced_axes(x, axis)], dtype=int))


@op(np.sum, symbol="Σ", moves=True, domain=reals(), options=_AXES)
def sum(x: Any, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Sum over `axis`.

    y = Σᵢ xᵢ
    """
    return np.sum(x, axis=axis, keepdims=keepdims)


@sum.gradient("x", formula="dxᵢ = dy")
def _(g: Any, out: Any, x: Any, *, axis: Axis, keepdims: bool) -> Any:
    return spread(g, x, axis, keepdims)


@op(np.mean, moves=True, domain=reals(min_side=1), options=_AXES)
def mean(x: Any, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Mean over `axis`.

    y = Σᵢ xᵢ / n
    """
    return np.mean(x, axis=axis, keepdims=keepdims)


@mean.gradient("x", formula="dxᵢ = dy / n")
def _(g: Any, out: Any, x: Any, *, axis: Axis, keepdims: bool) -> Any:
    return spread(g, x, axis, keepdims) / count(x, axis)


@op(complex=True, domain=reals(min_side=1), options=_SPREAD)
def var(x: Any, *, axis: Axis = None, keepdims: bool = False, correction: float = 0.0) -> Any:
    """Variance over `axis`; divides by n − correction.

    y = Σᵢ |xᵢ − x̄|² / (n − c)
    """
    return np.var(x, axis=axis, keepdims=keepdims, correction=correction)


@var.gradient("x", formula="dxᵢ = 2 conj(xᵢ − x̄) / (n − c) · dy")
def _(g: Any, out: Any, x: Any, *, axis: Axis, keepdims: bool, correction: float) -> Any:
    return spread(g, x, axis, keepdims) * 2.0 * centred(x, axis).conj() / (count(x, axis) - correction)


@op(complex=True, domain=distinct(), options=_SPREAD)
def std(x: Any, *, axis: Axis = None, keepdims: bool = False, correction: float = 0.0) -> Any:
    """Standard deviation over `axis`; its slope where all elements are equal is taken as 0.

    y = √(Σᵢ |xᵢ − x̄|² / (n − c))
    """
    return np.std(x, axis=axis, keepdims=keepdims, correction=correction)


@std.gradient("x", formula="dxᵢ = conj(xᵢ − x̄) / ((n − c) y) · dy, and 0 where y = 0")
def _(g: Any, out: Any, x: Any, *, axis: Axis, keepdims: bool, correction: float) -> Any:
    per_element = g / (np.where(np.equal(out, 0), 1.0, out) * (count(x, axis) - correction))
    return spread(np.where(np.equal(out, 0), 0.0, per_element), x, axis, keepdims) * centred(x, axis).conj()


@op(np.max, np.amax, domain=distinct(), options=_AXES)
def max(x: Any, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Largest element over `axis`; equal ones share the gradient equally.

    y = maxᵢ xᵢ
    """
    return np.max(x, axis=axis, keepdims=keepdims)


@op(np.min, np.amin, domain=distinct(), options=_AXES)
def min(x: Any, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Smallest element over `axis`; equal ones share the gradient equally.

    y = minᵢ xᵢ
    """
    return np.min(x, axis=axis, keepdims=keepdims)


@max.gradient("x", formula="dxᵢ = dy / (number of maxima) where xᵢ = y, else 0")
@min.gradient("x", formula="dxᵢ = dy / (number of minima) where xᵢ = y, else 0")
def _(g: Any, out: Any, x: Any, *, axis: Axis, keepdims: bool) -> Any:
    chosen = np.equal(x, spread(out, x, axis, keepdims))
    number = np.sum(chosen, axis=axis, keepdims=True)  # how many share
    return keep_where(chosen, spread(g, x, axis, keepdims) / number.astype(x.dtype))


@op(np.prod, symbol="Π", complex=True, domain=reals(min_side=1), options=_AXES)
def prod(x: Any, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Product over `axis`; its gradient is exact also where elements are zero.

    y = Πᵢ xᵢ
    """
    return np.prod(x, axis=axis, keepdims=keepdims)


@prod.gradient("x", formula="dxᵢ = dy Πⱼ≠ᵢ xⱼ")
def _(g: Any, out: Any, x: Any, *, axis: Axis, keepdims: bool) -> Any:
    axes = reduced_axes(x, axis)
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    order = kept + axes
    length = count(x, axes)
    rows = np.reshape(np.transpose(x, order), (*(x.shape[i] for i in kept), 1, length))
    others = np.prod(np.where(np.eye(length, dtype=bool), 1.0, rows), axis=-1)  # row i leaves element i out
    back = np.transpose(np.reshape(others, tuple(x.shape[i] for i in order)), np.argsort(order))
    return spread(g, x, axis, keepdims) * back


@op(np.cumsum, moves=True, domain=reals(), options={"axis": any_axis_or_none})
def cumsum(x: Any, *, axis: int | None = None) -> Any:
    """Running sum along `axis` (over all elements in order if None).

    yᵢ = Σⱼ≤ᵢ xⱼ
    """
    return np.cumsum(x, axis=axis)


@cumsum.gradient("x", formula="dxⱼ = Σᵢ≥ⱼ dyᵢ")
def _(g: Any, out: Any, x: Any, *, axis: int | None) -> Any:
    along = 0 if axis is None else axis
    return np.reshape(np.flip(np.cumsum(np.flip(g, along), along), along), x.shape)


@op(np.cumprod, complex=True, domain=reals(), options={"axis": any_axis_or_none})
def cumprod(x: Any, *, axis: int | None = None) -> Any:
    """Running product along `axis` (over all elements in order if None); its gradient is exact also with zeros.

    yᵢ = Πⱼ≤ᵢ xⱼ
    """
    return np.cumprod(x, axis=axis)


@cumprod.gradient("x", formula="dxⱼ = (Πₖ<ⱼ xₖ) sⱼ, sⱼ = dyⱼ + xⱼ₊₁ sⱼ₊₁")
def _(g: Any, out: Any, x: Any, *, axis: int | None) -> Any:
    if x.size == 0:
        return np.reshape(g, x.shape)
    along = 0 if axis is None else axis
    g, y = np.moveaxis(g, along, 0), np.moveaxis(out, along, 0)  # (n, ...)
    factors = np.reshape(x, (-1,)) if axis is None or x.ndim == 0 else np.moveaxis(x, axis, 0)  # (n, ...)
    behind = [g[-1]]  # sₙ, …, s₁: all that follows, as in Horner's rule, with no division by x
    for i in range(len(factors) - 1, 0, -1):
        behind.append(g[i - 1] + factors[i] * behind[-1])
    before = np.concatenate([np.ones_like(factors[:1]), y[:-1]])
    return np.reshape(np.moveaxis(before * np.stack(behind[::-1]), 0, along), x.shape)


@op(floating=True, domain=reals(min_side=1), options=_AXES)
def logsumexp(x: Any, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Logarithm of a sum of exponentials, without overflow.

    y = ln Σᵢ e^xᵢ. Over nothing but −∞ the result is −∞ and the gradient 0.

    The largest, m, is taken out, and what is left of the sum is added to 1 inside the logarithm, as log1p does: beside
    a peak at 0, terms of 1e-18 are the whole result. Of k equal peaks, y = m + ln k + ln(1 + Σ e^(xᵢ − m) / k).
    """
    peak = np.max(x, axis=axis, keepdims=True)
    is_peak = np.equal(x, peak)
    number = np.sum(is_peak, axis=axis, keepdims=True).astype(peak.dtype)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # NaN counts no peak; distances may be infinite
        below = np.exp(np.subtract(x, peak, out=np.full_like(x, -np.inf), where=~is_peak))
        rest = np.sum(below, axis=axis, keepdims=True)
        out = np.log1p(rest / number) + np.log(number) + peak
    return out if keepdims else np.squeeze(out, axis=reduced_axes(x, axis))


@logsumexp.gradient("x", formula="dxᵢ = e^(xᵢ − y) dy")
def _(g: Any, out: Any, x: Any, *, axis: Axis, keepdims: bool) -> Any:
    shift = np.where(np.equal(out, -np.inf), 0.0, out)
    share = np.exp(x - spread(shift, x, axis, keepdims))
    total = np.sum(share, axis=axis, keepdims=True)  # 1 but for the rounding of a large y; 0 over nothing but −∞
    return spread(g, x, axis, keepdims) * share / np.where(np.equal(total, 0.0), 1.0, total)
