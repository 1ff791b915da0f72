"""Scaled dot-product attention: its definition with primitive operations, and the kernel that must equal it."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser
from tinygrad_attn.operation import op
from tinygrad_attn.ops.piecewise import masked_fill
from tinygrad_attn.ops.softmax import softmax


def attention_weights(query: Any, key: Any, mask: Any, bias: Any, *, scale: float) -> Any:
    """How much each query looks at each key; a query that may see nothing has zero weights.

    P = softmax(Q Kᵀ · scale + bias, masked), (..., query_len, d) and (..., key_len, d) -> (..., query_len, key_len)
    """
    if mask is not None and not np.all(np.isfinite(key)):
        key, bias = quarantine(key, bias)
    scores = query @ np.swapaxes(key, -1, -2) * scale  # (..., query_len, key_len)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = masked_fill(scores, np.logical_not(mask), value=-math.inf)
    return softmax(scores, axis=-1)


def attention_definition(query: Any, key: Any, value: Any, mask: Any, bias: Any, keep: Any, *, scale: float) -> Any:
    """Weighted sum of the values, written with primitives: what `attention` must equal."""
    weights = attention_weights(query, key, mask, bias, scale=scale)
    if keep is not None:
        weights = weights * keep
    return weighted_sum(weights, value, mask)


def weighted_sum(weights: Any, value: Any, mask: Any) -> Any:
    """The values, weighted; with a mask, a weight of zero silences even NaN and infinity, though 0 · NaN is NaN.

    O = P V, (..., query_len, key_len) and (..., key_len, d_value) -> (..., query_len, d_value)
    """
    if mask is None or np.all(np.isfinite(value)):
        return weights @ value
    finite = np.isfinite(value)
    reached = np.greater(weights, 0.0).astype(value.dtype) @ np.logical_not(finite).astype(value.dtype) > 0.0
    return np.where(reached, np.nan, weights @ np.where(finite, value, 0.0))


def quarantine(key: Any, bias: Any) -> tuple[Any, Any]:
    """Keys without NaN and infinity, and a bias that puts NaN into the scores of those that had one.

    The scores are the same; but a masked score passes no gradient, and 0 · NaN in dQ = dS K would.
    """
    finite = np.all(np.isfinite(key), axis=-1)  # (..., key_len)
    marks = np.where(finite, 0.0, np.nan)[..., None, :].astype(key.dtype)  # (..., 1, key_len)
    return np.where(finite[..., None], key, 0.0), marks if bias is None else bias + marks


def draw_attended(choose: Chooser) -> tuple[Any, ...]:
    """Operands that fit: with and without mask, bias and dropout, broadcast or not."""
    lead = choose.shape(0, 2, 1, 2)
    queries, keys, d, d_value = (choose.integer(1, 3) for _ in range(4))
    scores = (*lead, queries, keys)
    mask = choose.booleans(choose.pick([scores, (queries, keys), (1, keys)])) if choose.pick([True, False]) else None
    bias = choose.reals(choose.pick([scores, (queries, keys)])) if choose.pick([True, False]) else None
    keep = choose.pick([0.0, 2.0]) * choose.booleans(scores) if choose.integer(0, 3) == 0 else None
    return (
        choose.reals((*lead, queries, d)),
        choose.reals((*lead, keys, d)),
        choose.reals((*lead, keys, d_value)),
        mask,
        bias,
        keep,
    )


@op(
    reference=attention_definition,
    domain=draw_attended,
    options={"scale": lambda choose, inputs: choose.pick([1.0, 1.0 / math.sqrt(inputs[0].shape[-1])])},
)
def attention(query: Any, key: Any, value: Any, mask: Any, bias: Any, keep: Any, *, scale: float) -> Any:
    """What each query reads: the values, weighted by how well their keys match the query.

    O = P V,  P = softmax(Q Kᵀ · scale + bias, masked)

    Args:
        query: (..., query_len, d).
        key: (..., key_len, d).
        value: (..., key_len, d_value).
        mask: boolean, True = may attend, or None.
        bias: added to the scores, or None.
        keep: dropout mask of the weights, or None.
        scale: 1/√d unless there is a reason.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, equation 1. The backward pass uses Σ dP∘P = Σ dO∘O, as in
        Dao et al. (2022), arXiv:2205.14135, appendix B.2.
    """
    with contextlib.nullcontext() if mask is None else np.errstate(invalid="ignore"):  # of NaN at masked keys
        weights = (query * scale) @ np.swapaxes(key, -1, -2)  # (..., query_len, key_len), still scores
    if bias is not None:
        weights = weights + bias
    if mask is not None:
        np.copyto(weights, -np.inf, where=~mask)
    peak = np.max(weights, axis=-1, keepdims=True)
    weights -= np.where(peak == -np.inf, 0.0, peak)
    np.exp(weights, out=weights)
    total = weights @ np.ones((weights.shape[-1], 1), weights.dtype)  # (..., query_len, 1)
    weights /= np.where(total == 0.0, 1.0, total)
    used = weights if keep is None else weights * keep
    out = weighted_sum(used, value, mask)  # (..., query_len, d_value)
    return out, (weights, out)


@attention.gradients(
    "query",
    "key",
    "value",
    "bias",
    formula="dQ = dS K · scale; dK = dSᵀ Q · scale; dV = Pᵀ dO; dbias = dS = P ∘ (dO Vᵀ − Σ dO∘O)",
)
def _(g: Any, saved: Any, query: Any, key: Any, value: Any, mask: Any, bias: Any, keep: Any, *, scale: float) -> Any:
    weights, out = saved
    if mask is not None and not (np.isfinite(key).all() and np.isfinite(value).all()):
        key, value = np.where(np.isfinite(key), key, 0.0), np.where(np.isfinite(value), value, 0.0)
    used = weights if keep is None else weights * keep
    d_value = np.swapaxes(used, -1, -2) @ g  # (..., key_len, d_value)
    d_scores = g @ np.swapaxes(value, -1, -2)  # (..., query_len, key_len), still dL/dweights
    if keep is not None:
        d_scores *= keep
    row_sum = (g * out) @ np.ones((g.shape[-1], 1), g.dtype)  # (..., query_len, 1)
    d_scores -= row_sum
    d_scores *= weights
    d_bias = None if bias is None else d_scores
    d_scores = d_scores * scale if bias is not None else np.multiply(d_scores, scale, out=d_scores)
    return d_scores @ key, np.swapaxes(d_scores, -1, -2) @ query, d_value, d_bias
