"""Attention with many heads. One head is `scaled_dot_product_attention`, an operation of the engine, named here too."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn import nn
from tinygrad_attn.errors import MaskError, OptionError, ShapeError
from tinygrad_attn.nn import init
from tinygrad_attn.nn.layers import check_probability, check_size
from tinygrad_attn.operands import with_shape
from tinygrad_attn.ops import rotate_pairs, scaled_dot_product_attention
from transformer.cache import KeyValueCache
from transformer.masks import Align
from transformer.positional import rotary_angles

__all__ = ["MultiHeadAttention", "scaled_dot_product_attention"]


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own small space, and a linear map that joins what they read.

    MultiHead(Q, K, V) = [head₁, …, headₕ] Wᴼ,  headᵢ = softmax(Qᵢ Kᵢᵀ / √d_head) Vᵢ

    Without a memory it is self-attention: queries, keys and values come from one sequence. With a memory it is
    cross-attention: queries come from the decoder, keys and values from what the encoder wrote. There is one class
    for both, because that is the only difference.

    Args:
        d_model: length of a token's vector, before and after.
        num_heads: how many heads; divides d_model, d_head = d_model / num_heads.
        dropout: probability of dropping an attention weight in training.
        bias: whether the four linear maps add a bias.
        rotary: turn queries and keys by their place in the sequence; for self-attention alone.
        rng: draws the first values; the shared generator if left out.
    Raises:
        OptionError: a size is no positive integer, num_heads does not divide d_model, or dropout is no probability.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, §3.2.2. First values as in Glorot and Bengio (2010), biases zero.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        rotary: bool = False,
        rng: np.random.Generator | None = None,
    ) -> None:
        check_size("MultiHeadAttention", d_model=d_model, num_heads=num_heads)
        check_probability("MultiHeadAttention", dropout=dropout)
        if d_model % num_heads:
            raise OptionError(
                f"MultiHeadAttention: each head gets d_model / num_heads numbers, which must be whole\n"
                f"  given d_model={d_model}, num_heads={num_heads}"
            )
        self.d_model, self.num_heads, self.d_head = d_model, num_heads, d_model // num_heads
        if rotary and self.d_head % 2:
            raise OptionError(
                "MultiHeadAttention: rotary positions turn pairs of numbers, so d_model / num_heads must be even\n"
                f"  given d_model={d_model}, num_heads={num_heads}"
            )
        self.dropout, self.rotary = dropout, rotary
        self.to_query = _projection(d_model, bias, rng)
        self.to_key = _projection(d_model, bias, rng)
        self.to_value = _projection(d_model, bias, rng)
        self.to_output = _projection(d_model, bias, rng)

    def forward(
        self,
        query: Any,
        memory: Any = None,
        *,
        mask: Any = None,
        bias: Any = None,
        causal: bool | Align = False,
        cache: KeyValueCache | None = None,
        return_weights: bool = False,
    ) -> Any:
        """What each token reads from the source.

        Args:
            query: (batch, query_len, d_model), who asks.
            memory: (batch, key_len, d_model), who is asked, if not the same sequence.
            mask: boolean, True = may attend, broadcastable to (batch, heads, query_len, key_len). Two axes are
                (query_len, key_len); which keys of each item are real is (batch, 1, 1, key_len), as `padding_mask` says
                it. With three axes the first one is the heads, and is refused where it could as well be the batch.
            bias: numbers added to the scores, with the axes of a mask; may require a gradient.
            causal: hide later tokens; the queries are the last of the keys, as they are with a cache.
            cache: keys and values from earlier calls. Self-attention adds the new tokens'; cross-attention computes the
                memory's once.
            return_weights: also return who looked where.
        Returns:
            (batch, query_len, d_model), or a pair of it and the weights, (batch, heads, query_len, key_len).
        Raises:
            MaskError, ShapeError, DtypeError: the mask, the bias or the sequences do not fit.
        """
        query = _sequence("query", query)
        memory = None if memory is None else _sequence("memory", memory)
        self._check_axes("mask", mask, query.shape, MaskError)
        self._check_axes("bias", bias, query.shape, ShapeError)
        source = query if memory is None else memory  # self-attention : cross-attention
        q = self._split_heads(self.to_query(query))  # (batch, heads, query_len, d_head)
        if memory is not None and cache is not None and cache.length:
            k, v = _kept(cache, memory)  # (batch, heads, key_len, d_head) each
        else:
            k = self._split_heads(self.to_key(source))  # (batch, heads, key_len, d_head)
            v = self._split_heads(self.to_value(source))  # (batch, heads, key_len, d_head)
            if self.rotary:
                q, k = self._turned(
                    q, k, 0 if cache is None else cache.length, memory
                )  # (batch, heads, length, d_head)
            if cache is not None:
                k, v = cache.append(k, v)  # (batch, heads, kept + key_len, d_head) each
        if causal is True and memory is None:
            causal = "lower_right"
        attended = scaled_dot_product_attention(
            *(q, k, v),
            mask=mask,
            bias=bias,
            causal=causal,
            dropout=self.dropout if self.training else 0.0,
            return_weights=return_weights,
        )  # (batch, heads, query_len, d_head)
        heads, weights = attended if return_weights else (attended, None)
        out = self.to_output(self._join_heads(heads))  # (batch, query_len, d_model)
        return (out, weights) if return_weights else out

    def _check_axes(self, name: str, given: Any, query: tuple[int, ...], error: type[MaskError | ShapeError]) -> None:
        """Raise where the first of three axes of a mask or a bias is, or could be meant as, the batch."""
        shape = np.shape(given)
        if len(shape) != 3 or len(query) != 3 or shape[0] == 1 or shape[0] != query[0]:
            return
        both = shape[0] == self.num_heads
        unclear = f"is the first axis, {shape[0]}, the batch or the heads?" if both else "it has no axis for the heads"
        heads = f", or {name}[None], (1, heads, query_len, key_len), for one {name} per head" if both else ""
        raise error(
            f"MultiHeadAttention: a {name} of three axes: {unclear}\n"
            f"  given shape {shape}, with a batch of {query[0]} and {self.num_heads} heads\n"
            f"  write {name}[:, None], (batch, 1, query_len, key_len), for one {name} per item of the batch{heads}"
        )

    def _turned(self, q: Any, k: Any, before: int, memory: Any) -> tuple[Any, Any]:
        """Queries and keys of one sequence, turned by their places, which begin after `before` tokens."""
        if memory is not None:
            raise OptionError(
                "MultiHeadAttention: rotary positions are places in one sequence, and a memory is another"
            )
        angles = rotary_angles(np.arange(before, before + q.shape[-2]), self.d_head).astype(
            q.dtype
        )  # (length, d_head / 2)
        return rotate_pairs(q, angles), rotate_pairs(k, angles)

    def _split_heads(self, x: Any) -> Any:
        """(batch, length, d_model) -> (batch, heads, length, d_head)."""
        return x.reshape(*x.shape[:-1], self.num_heads, self.d_head).swapaxes(-2, -3)

    def _join_heads(self, x: Any) -> Any:
        """(batch, heads, length, d_head) -> (batch, length, d_model)."""
        x = x.swapaxes(-2, -3)  # (batch, length, heads, d_head)
        return x.reshape(*x.shape[:-2], self.d_model)

    def extra_repr(self) -> str:
        """Sizes and dropout."""
        return f"d_model={self.d_model}, num_heads={self.num_heads}, dropout={self.dropout}"


def _projection(d_model: int, bias: bool, rng: np.random.Generator | None) -> nn.Linear:
    linear = nn.Linear(d_model, d_model, bias, rng=rng)
    linear.weight.data = init.xavier_uniform(linear.weight.shape, rng=rng)
    if linear.bias is not None:
        linear.bias.data = init.zeros(linear.bias.shape)
    return linear


def _sequence(name: str, x: Any) -> Any:
    x = with_shape(x)
    if x.ndim < 2:
        raise ShapeError(f"MultiHeadAttention: {name} must be (batch, length, d_model)\n  given {x.shape}")
    return x


def _kept(cache: KeyValueCache, memory: Any) -> tuple[Any, Any]:
    """The memory's keys and values from an earlier call, if they can be this memory's."""
    key = cache.key
    if key.shape[:-3] != memory.shape[:-2] or key.shape[-2] != memory.shape[-2]:
        raise ShapeError(
            f"the cache holds the keys of another memory\n    kept    {key.shape}, (batch, heads, key_len, d_head)\n"
            f"    memory  {memory.shape}, (batch, key_len, d_model)\n  call reset() before another source"
        )
    return key, cache.value
