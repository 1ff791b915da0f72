"""Scaled dot-product attention with all its usual arguments: checks them and chooses the operation that computes it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.masks import Align, causal_mask, causal_shift, check_bias, check_mask
from tinygrad_attn.operands import with_shape
from tinygrad_attn.ops.attention import attention, attention_weights, weighted_sum
from tinygrad_attn.ops.chunked import chunked_attention
from tinygrad_attn.ops.dropout import keep_mask
from tinygrad_attn.tensor import Tensor, plain


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    causal: bool | Align = False,
    scale: float | Tensor | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
    chunk: int | None = None,
    rng: np.random.Generator | None = None,
) -> Any:
    """Attention with all its usual arguments: softmax(Q Kᵀ/√d + bias, masked) V.

    Args:
        query: (..., query_len, d).
        key: (..., key_len, d).
        value: (..., key_len, d_value).
        mask: boolean, True = may attend, broadcastable to (..., query_len, key_len). A query that may see nothing gets
            a zero output, zero weights and zero gradients. What stands at a key that a query may not see, NaN included,
            has no influence on it.
        bias: added to the scores, broadcastable to them like the mask; may require a gradient.
        causal: True hides later keys; with unequal lengths say "lower_right" or "upper_left" (see `causal_mask`).
        scale: factor of Q Kᵀ; 1/√d if None. A Tensor can be learned: a temperature.
        dropout: probability of dropping a weight.
        return_weights: also return the weights, (..., query_len, key_len), part of the graph like every Tensor.
        chunk: compute so many queries at a time: the same result, with memory linear in the length. Not together with
            `return_weights`, since the weights are what is not kept.
        rng: where dropout draws from.
    Returns:
        (..., query_len, d_value), or a pair of it and the weights.
    Raises:
        MaskError: the mask is not boolean or does not fit.
        ShapeError: query, key and value do not fit one another, or the bias does not fit.
        DtypeError: the bias is boolean.
        OptionError: chunk is not positive, or given with `return_weights`.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, equation 1.
    """
    query, key, value = with_shape(query), with_shape(key), with_shape(value)
    scores_shape = _scores_shape(query.shape, key.shape, value.shape)
    if mask is not None:
        mask = np.asarray(plain(mask))
        check_mask(mask, scores_shape)
    if bias is not None:
        bias = with_shape(bias)
        check_bias(bias, scores_shape)
    if isinstance(scale, Tensor):
        query, scale = query * scale, 1.0  # a factor of the queries, so that it gets its gradient
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    keep = keep_mask(scores_shape, dropout, query.dtype, rng) if dropout > 0.0 else None
    if keep is not None and not any(isinstance(x, Tensor) for x in (query, key, value, bias)):
        keep = plain(keep)
    align = None if causal is True else causal or None
    if chunk is not None:
        if chunk < 1 or return_weights:
            raise OptionError(
                "attention: chunk is a positive number of queries, and cannot go with return_weights\n"
                f"  given chunk={chunk}, return_weights={return_weights}"
            )
        shift = causal_shift(*scores_shape[-2:], align=align) if causal else None
        return chunked_attention(query, key, value, mask, bias, keep, scale=scale, chunk=chunk, causal_shift=shift)
    if causal:
        past = causal_mask(*scores_shape[-2:], align=align)
        mask = past if mask is None else mask & past
    if not return_weights:
        return attention(query, key, value, mask, bias, keep, scale=scale)
    weights = attention_weights(query, key, mask, bias, scale=scale)
    return weighted_sum(weights if keep is None else weights * keep, value, mask), weights


def _scores_shape(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the scores, (..., query_len, key_len).

    Raises:
        ShapeError: the three do not fit; the message says which axis and why.
    """
    rows = f"    query  {query}\n    key    {key}\n    value  {value}"
    if min(len(query), len(key), len(value)) < 2:
        raise ShapeError(f"attention: each input needs (..., length, d)\n{rows}")
    if query[-1] != key[-1]:
        raise ShapeError(f"attention: query and key must have the same d: {query[-1]} ≠ {key[-1]}\n{rows}")
    if key[-2] != value[-2]:
        raise ShapeError(
            f"attention: one value per key: {key[-2]} ≠ {value[-2]}\n{rows}\n"
            "  key and value must come from the same source: did one of them come from the decoder?"
        )
    if key[-2] == 0 or query[-1] == 0:
        raise ShapeError(f"attention: there is nothing to attend to: an empty sequence, or d = 0\n{rows}")
    try:
        lead = np.broadcast_shapes(query[:-2], key[:-2], value[:-2])
    except ValueError:
        raise ShapeError(f"attention: the leading axes (batch, heads) do not broadcast\n{rows}") from None
    return (*lead, query[-2], key[-2])
