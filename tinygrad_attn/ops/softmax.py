"""Softmax and its logarithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.domain import any_axis, reals
from tinygrad_attn.operation import op
from tinygrad_attn.ops.choose import keep_where


@op(floating=True, domain=reals(min_dims=1), options={"axis": any_axis})
def softmax(x: Any, *, axis: int = -1) -> Any:
    """Weights that are positive and sum to one along `axis`.

    yᵢ = e^xᵢ / Σⱼ e^xⱼ

    Args:
        x: (..., n, ...), floating. A slice that is −∞ throughout, a row with nothing to attend to, gives zeros.
        axis: the axis that sums to one.
    Returns:
        Same shape and dtype as `x`.
    Source:
        Bridle (1990), "Probabilistic interpretation of feedforward classification network outputs". The largest
        element is subtracted for range; since y does not change with it, its own gradient is zero.
    """
    peak = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    e = np.exp(x - np.where(np.equal(peak, -np.inf), 0.0, peak))
    total = np.sum(e, axis=axis, keepdims=True)
    return e / np.where(np.equal(total, 0.0), 1.0, total)


@softmax.gradient("x", formula="dx = y ∘ (dy − Σ y∘dy)")
def _(g: Any, y: Any, x: Any, *, axis: int) -> Any:
    return y * (g - np.sum(g * y, axis=axis, keepdims=True))


@op(floating=True, domain=reals(min_dims=1), options={"axis": any_axis})
def log_softmax(x: Any, *, axis: int = -1) -> Any:
    """Logarithm of the softmax, exact where the weight itself would round to zero.

    yᵢ = xᵢ − ln Σⱼ e^xⱼ. A slice that is −∞ throughout stays −∞, the logarithm of the zeros that softmax gives it, and
    its gradient is zero.
    """
    peak = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shifted = x - np.where(np.equal(peak, -np.inf), 0.0, peak)
    is_peak = np.equal(shifted, 0.0)
    number = np.maximum(np.sum(is_peak, axis=axis, keepdims=True, dtype=x.dtype), 1.0)
    rest = np.sum(keep_where(~is_peak, np.exp(shifted)), axis=axis, keepdims=True)
    return shifted - (np.log(number) + np.log1p(rest / number))  # as in `logsumexp`: rest may be tiny


@log_softmax.gradient("x", formula="dx = dy − softmax(x) Σ dy")
def _(g: Any, y: Any, x: Any, *, axis: int) -> Any:
    nothing = np.all(np.equal(y, -np.inf), axis=axis, keepdims=True)
    return np.where(nothing, 0.0, g - softmax(x, axis=axis) * np.sum(g, axis=axis, keepdims=True))
