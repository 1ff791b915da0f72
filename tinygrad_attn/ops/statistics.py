"""Statistics that NumPy has names for: spread, quantiles, weighted means, covariances; each from sums and sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tinygrad_attn.arguments import refuse_out
from tinygrad_attn.errors import GradientError, OptionError, ShapeError
from tinygrad_attn.modes import is_grad_enabled
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import as_array, plain


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """Distance from the smallest element to the largest.

    y = maxᵢ xᵢ − minᵢ xᵢ
    """
    refuse_out(np.ptp, out)
    return np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)


@implements(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """Mean in which each element counts with its weight; weights of one axis may be a vector.

    y = Σᵢ wᵢ xᵢ / Σᵢ wᵢ
    """
    a = as_array(a)
    if weights is None:
        mean = np.mean(a, axis=axis, keepdims=keepdims)
        number = np.full(mean.shape, np.size(a) / max(np.size(mean), 1), mean.dtype)
        return (mean, number) if returned else mean
    weights = as_array(weights)
    if np.shape(weights) != np.shape(a):
        if axis is None or np.shape(weights) != tuple(np.shape(a)[i] for i in np.atleast_1d(axis)):
            raise ShapeError(
                f"average: weights need the shape of a, or of its axes that are averaged over\n"
                f"    a        {np.shape(a)}\n    weights  {np.shape(weights)}"
            )
        places = normalize_axis_tuple(axis, np.ndim(a))
        weights = np.transpose(weights, np.argsort(places))
        weights = np.reshape(weights, tuple(n if i in places else 1 for i, n in enumerate(np.shape(a))))
        weights = np.broadcast_to(weights, np.shape(a))
    total = np.sum(weights, axis=axis, keepdims=keepdims)
    mean = np.sum(a * weights, axis=axis, keepdims=keepdims) / total
    return (mean, total) if returned else mean


# --- quantiles -------------------------------------------------------------------------------------------------------

# Where between its neighbours a quantile lies that falls between two elements, given how far behind the first.
_BETWEEN: dict[str, Callable[[Any], Any]] = {
    "linear": lambda t: t,
    "lower": lambda t: np.zeros_like(t),
    "higher": lambda t: np.ceil(t),
    "midpoint": lambda t: np.where(t > 0, 0.5, 0.0),
}


@implements(np.quantile)
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: None = None,
) -> Any:
    """The value that a share `q` of the elements does not exceed, between two elements on the line through them.

    y = (1 − t) x₍ₖ₎ + t x₍ₖ₊₁₎ of the sorted elements, with k + t = q (n − 1)

    Args:
        a: at least one element.
        q: shares in [0, 1], a constant; its axes come first in the result.
        axis: one axis, several, or all together.
        out: must be None.
        overwrite_input: accepted for NumPy's sake; nothing is overwritten.
        method: "linear", "lower", "higher" or "midpoint".
        keepdims: keep the axes, with length 1.
        weights: must be None.
    """
    refuse_out(np.quantile, out)
    if method not in _BETWEEN or weights is not None:
        raise OptionError(f"quantile: method must be one of {', '.join(_BETWEEN)}, without weights\n  given {method!r}")
    if getattr(q, "requires_grad", False) and is_grad_enabled():
        raise GradientError("quantile: q is a constant and gets no gradient\n  pass q.detach()")
    q = np.asarray(q) if isinstance(q, (list, tuple)) else plain(q)
    shares = np.asarray(q, np.result_type(plain(a), q, 0.0))
    if shares.size and not (np.min(shares) >= 0.0 and np.max(shares) <= 1.0):
        raise OptionError(f"quantile: shares lie in [0, 1]\n  given {shares}")
    ordered, axes = _sorted_behind(a, axis)  # (..., n)
    length = ordered.shape[-1]
    at = shares * (length - 1)
    t = _BETWEEN[method](at - np.floor(at))
    below = np.floor(at).astype(int)
    low, high = ordered[..., below], ordered[..., np.minimum(below + 1, length - 1)]  # (..., *q)
    step = high - low
    y = np.where(t < 0.5, low + step * t, high - step * (1.0 - t))  # as NumPy does it, exact at both ends
    spoilt = np.isnan(plain(ordered)[..., -1]).reshape(ordered.shape[:-1] + (1,) * shares.ndim)  # NaN is sorted last
    y = np.moveaxis(np.where(spoilt, np.nan, y), range(y.ndim - shares.ndim, y.ndim), range(shares.ndim))
    return np.expand_dims(y, tuple(shares.ndim + i for i in axes)) if keepdims else y


def _sorted_behind(a: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """The elements of `axes` sorted along one last axis, and those axes."""
    a = as_array(a)
    axes = tuple(range(a.ndim)) if axis is None else normalize_axis_tuple(axis, a.ndim)
    if not np.size(a):
        raise ShapeError(f"quantile: no elements\n  given shape {np.shape(a)}")
    kept = tuple(i for i in range(a.ndim) if i not in axes)
    rows = np.reshape(np.transpose(a, kept + axes), (*(a.shape[i] for i in kept), -1))
    return np.sort(rows, axis=-1), axes


@implements(np.percentile)
def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: None = None,
) -> Any:
    """`quantile` with shares in percent."""
    share = np.true_divide(q, 100)
    return quantile(a, share, axis, out, overwrite_input, method, keepdims, weights=weights)


@implements(np.median)
def median(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The middle one of the sorted elements; of an even number, the mean of the middle two."""
    return quantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


# --- covariances -----------------------------------------------------------------------------------------------------


@implements(np.cov)
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: None = None,
    aweights: None = None,
    *,
    dtype: None = None,
) -> Any:
    """Covariances of variables, one per row of `m`, or per column if not `rowvar`.

    C = (M − M̄) conj(M − M̄)ᵀ / (n − ddof), ddof = 1, or 0 with `bias`
    """
    if fweights is not None or aweights is not None or dtype is not None:
        raise OptionError(
            "cov: weights and dtype have no gradient rule\n  np.average has weights; t.astype(dtype) converts"
        )
    variables = _variables(m, rowvar)
    if y is not None:
        variables = np.concatenate([variables, _variables(y, rowvar)], 0)
    centred = variables - np.mean(variables, axis=1, keepdims=True)
    number = variables.shape[1] - (ddof if ddof is not None else 0 if bias else 1)
    return np.squeeze(centred @ centred.T.conj() / number)


def _variables(m: Any, rowvar: bool) -> Any:
    rows = np.atleast_2d(as_array(m))
    if rows.ndim > 2:
        raise ShapeError(f"cov: variables in the rows of a matrix\n  given shape {np.shape(m)}")
    return rows if rowvar or np.ndim(m) < 2 else rows.T


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: None = None) -> Any:
    """Covariances divided by both deviations, within [−1, 1].

    R[i, j] = C[i, j] / √(C[i, i] C[j, j])
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    deviations = np.sqrt(np.diagonal(c).real)
    return c / np.expand_dims(deviations, 1) / deviations
