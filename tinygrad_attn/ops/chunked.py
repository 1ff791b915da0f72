"""Attention for a few queries at a time: the same numbers, with memory that grows with the length, not its square."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser
from tinygrad_attn.operation import op
from tinygrad_attn.ops.attention import attention, attention_definition, draw_attended


def chunked_attention_definition(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    bias: Any,
    keep: Any,
    *,
    scale: float,
    chunk: int,
    causal_shift: int | None = None,
) -> Any:
    """Attention for all queries at once: what `chunked_attention` must equal."""
    if causal_shift is not None:
        past = np.tri(query.shape[-2], key.shape[-2], causal_shift, dtype=bool)
        mask = past if mask is None else np.logical_and(mask, past)
    return attention_definition(query, key, value, mask, bias, keep, scale=scale)


def _shift(choose: Chooser, inputs: tuple[Any, ...]) -> int | None:
    choices: list[int | None] = [None, 0, -1, int(inputs[1].shape[-2] - inputs[0].shape[-2])]
    return choose.pick(choices)


@op(
    reference=chunked_attention_definition,
    domain=draw_attended,
    options={
        "scale": lambda choose, inputs: choose.pick([1.0, 0.5]),
        "chunk": lambda choose, inputs: choose.integer(1, 4),
        "causal_shift": _shift,
    },
)
def chunked_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    bias: Any,
    keep: Any,
    *,
    scale: float,
    chunk: int,
    causal_shift: int | None = None,
) -> Any:
    """What each query reads, computed for `chunk` queries at a time; nothing is kept for the backward pass.

    O = P V,  P = softmax(Q Kᵀ · scale + bias, masked), row by row

    A row of P depends on no other row, so any number of rows can be done at a time. Backward, each group's weights are
    computed again: one more product for (query_len × key_len) numbers less in memory.

    Args:
        query, key, value, mask, bias, keep, scale: as in `attention`.
        chunk: how many queries at a time.
        causal_shift: query i sees keys up to i + causal_shift; keys after that are not even multiplied. None: all.
    Source:
        Rabe and Staats (2021), arXiv:2112.05682, without their second split, over the keys.
    """
    lead = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    dtype = np.result_type(*(x for x in (query, key, value, bias, keep) if x is not None))
    out = np.zeros((*lead, query.shape[-2], value.shape[-1]), dtype)
    for rows, seen, part in _parts(query, key, value, mask, bias, keep, chunk, causal_shift):
        if seen.stop:
            out[..., rows, :] = attention.forward(*part, scale=scale)[0]
    return out, None


@chunked_attention.gradients(
    "query",
    "key",
    "value",
    "bias",
    formula="dQ = dS K · scale; dK = dSᵀ Q · scale; dV = Pᵀ dO; dbias = dS = P ∘ (dO Vᵀ − Σ dO∘O)",
)
def _(
    g: Any,
    saved: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    bias: Any,
    keep: Any,
    *,
    scale: float,
    chunk: int,
    causal_shift: int | None,
) -> Any:
    lead = g.shape[:-2]
    d_query, d_key, d_value = (np.zeros((*lead, *x.shape[-2:]), g.dtype) for x in (query, key, value))
    d_bias = None if bias is None else np.zeros((*lead, query.shape[-2], key.shape[-2]), g.dtype)
    for rows, seen, part in _parts(query, key, value, mask, bias, keep, chunk, causal_shift):
        if not seen.stop:
            continue
        again = attention.forward(*part, scale=scale)[1]
        dq, dk, dv, db = attention.joint_rule(g[..., rows, :], again, *part, scale=scale)  # type: ignore[misc]
        d_query[..., rows, :] = dq
        d_key[..., seen, :] += dk
        d_value[..., seen, :] += dv
        if d_bias is not None:
            d_bias[..., rows, seen] = db
    return d_query, d_key, d_value, d_bias


def _parts(
    query: Any, key: Any, value: Any, mask: Any, bias: Any, keep: Any, chunk: int, causal_shift: int | None
) -> Iterator[tuple[slice, slice, tuple[Any, ...]]]:
    """The queries `chunk` at a time: which rows, which keys they may see at most, and the operands cut to both."""
    query_len, key_len = query.shape[-2], key.shape[-2]
    for start in range(0, query_len, chunk):
        rows = slice(start, min(start + chunk, query_len))
        last = key_len if causal_shift is None else min(key_len, max(0, rows.stop + causal_shift))
        seen = slice(0, last)
        allowed = _cut(mask, rows, seen)
        if causal_shift is not None:
            past = np.tri(rows.stop - start, last, start + causal_shift, dtype=bool)
            allowed = past if allowed is None else allowed & past
        cut = (_cut(bias, rows, seen), _cut(keep, rows, seen))
        yield rows, seen, (query[..., rows, :], key[..., seen, :], value[..., seen, :], allowed, *cut)


def _cut(scores: Any, rows: slice, seen: slice) -> Any:
    """The part of a (..., query_len, key_len) array for some queries and keys; axes of length 1 stay."""
    if scores is None:
        return None
    if scores.ndim > 1 and scores.shape[-2] > 1:
        scores = scores[..., rows, :]
    return scores[..., seen] if scores.ndim and scores.shape[-1] > 1 else scores
