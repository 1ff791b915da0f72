"""The encoder: every token looks at every token, layer after layer; what comes out is the memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn import nn
from transformer.attention import MultiHeadAttention
from transformer.cache import DecoderCache, LayerCache
from transformer.stack import Stack
from transformer.sublayers import AddAndNorm, FeedForward


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each with Add & Norm around it.

    With `causal=True` and a cache it is the layer of a decoder-only model as well.

    Args:
        d_model, num_heads, d_ff: sizes.
        dropout: one probability for attention weights, the feed-forward network and what is added.
        norm_first: pre-norm instead of the paper's post-norm.
        activation: of the feed-forward network.
        rotary: self-attention turns queries and keys by their places.
        rng: draws the first values; the shared generator if left out.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, figure 1, left.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        dropout: float = 0.0,
        norm_first: bool = False,
        activation: str = "relu",
        rotary: bool = False,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout=dropout, rotary=rotary, rng=rng)
        self.self_attention_norm = AddAndNorm(d_model, dropout=dropout, norm_first=norm_first)
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation, dropout=dropout, rng=rng)
        self.feed_forward_norm = AddAndNorm(d_model, dropout=dropout, norm_first=norm_first)

    def forward(
        self,
        x: Any,
        *,
        mask: Any = None,
        causal: bool = False,
        cache: LayerCache | None = None,
        return_weights: bool = False,
    ) -> Any:
        """One layer further.

        Args:
            x: (batch, length, d_model).
            mask: boolean, True = may attend, broadcastable to (batch, heads, length, key_len).
            causal, cache: for a decoder-only model.
            return_weights: also return the attention weights.
        Returns:
            (batch, length, d_model), or a pair of it and the weights, (batch, heads, length, key_len).
        """
        attended = self.self_attention(
            self.self_attention_norm.before(x),
            mask=mask,
            causal=causal,
            cache=None if cache is None else cache.self_attention,
            return_weights=return_weights,
        )  # (batch, length, d_model)
        attended, weights = attended if return_weights else (attended, None)
        x = self.self_attention_norm.after(x, attended)
        changed = self.feed_forward(self.feed_forward_norm.before(x))  # (batch, length, d_model)
        x = self.feed_forward_norm.after(x, changed)
        return (x, weights) if return_weights else x


class Encoder(Stack):
    """A stack of encoder layers; with pre-norm, a last layer norm after them.

    Args:
        num_layers: how many layers.
        d_model, num_heads, d_ff, dropout, norm_first, activation, rotary, rng: as in `EncoderLayer`.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, §3.1.
    """

    layer_type = EncoderLayer

    def forward(
        self,
        x: Any,
        *,
        mask: Any = None,
        causal: bool = False,
        cache: DecoderCache | None = None,
        return_weights: bool = False,
    ) -> Any:
        """The memory: one vector per token, each of which has seen the others.

        Args:
            x: (batch, length, d_model), embedded tokens.
            mask: boolean, True = may attend, broadcastable to (batch, heads, length, key_len).
            causal, cache: for a decoder-only model.
            return_weights: also return the attention weights.
        Returns:
            (batch, length, d_model), or a pair of it and a tuple with the weights of each layer,
            (batch, heads, length, key_len).
        """
        return self.through_layers(x, mask=mask, causal=causal, cache=cache, return_weights=return_weights)
