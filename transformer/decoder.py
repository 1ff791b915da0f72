"""The decoder: each target token looks at the target tokens before it, then at the memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinygrad_attn import nn
from transformer.attention import MultiHeadAttention
from transformer.cache import DecoderCache, LayerCache
from transformer.stack import Stack
from transformer.sublayers import AddAndNorm, FeedForward


class LayerWeights(NamedTuple):
    """Where the tokens of a decoder layer looked.

    Attributes:
        self_attention: (batch, heads, target_len, target_len), at the target's own past.
        cross_attention: (batch, heads, target_len, source_len), at the memory.
    """

    self_attention: Any
    cross_attention: Any


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the memory, a feed-forward network, each with Add & Norm around it.

    Args:
        d_model, num_heads, d_ff: sizes.
        dropout: one probability for attention weights, the feed-forward network and what is added.
        norm_first: pre-norm instead of the paper's post-norm.
        activation: of the feed-forward network.
        rotary: self-attention turns queries and keys by their places.
        rng: draws the first values; the shared generator if left out.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, figure 1, right.
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
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout=dropout, rng=rng)
        self.cross_attention_norm = AddAndNorm(d_model, dropout=dropout, norm_first=norm_first)
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation, dropout=dropout, rng=rng)
        self.feed_forward_norm = AddAndNorm(d_model, dropout=dropout, norm_first=norm_first)

    def forward(
        self,
        x: Any,
        memory: Any,
        *,
        mask: Any = None,
        memory_mask: Any = None,
        cache: LayerCache | None = None,
        return_weights: bool = False,
    ) -> Any:
        """One layer further.

        Args:
            x: (batch, target_len, d_model).
            memory: (batch, source_len, d_model), what the encoder wrote.
            mask: which target tokens may be looked at, besides that none may look into the future; broadcastable to
                (batch, heads, target_len, key_len).
            memory_mask: which source tokens may be looked at; broadcastable to (batch, heads, target_len, source_len).
            cache: keys and values of this layer from earlier calls.
            return_weights: also return the attention weights.
        Returns:
            (batch, target_len, d_model), or a pair of it and `LayerWeights`.
        """
        said = self.self_attention(
            self.self_attention_norm.before(x),
            mask=mask,
            causal=True,
            cache=None if cache is None else cache.self_attention,
            return_weights=return_weights,
        )  # (batch, target_len, d_model)
        said, self_weights = said if return_weights else (said, None)
        x = self.self_attention_norm.after(x, said)
        read = self.cross_attention(
            self.cross_attention_norm.before(x),
            memory,
            mask=memory_mask,
            cache=None if cache is None else cache.cross_attention,
            return_weights=return_weights,
        )  # (batch, target_len, d_model)
        read, cross_weights = read if return_weights else (read, None)
        x = self.cross_attention_norm.after(x, read)
        changed = self.feed_forward(self.feed_forward_norm.before(x))  # (batch, target_len, d_model)
        x = self.feed_forward_norm.after(x, changed)
        return (x, LayerWeights(self_weights, cross_weights)) if return_weights else x


class Decoder(Stack):
    """A stack of decoder layers, all of which read the same memory; with pre-norm, a last layer norm after them.

    Args:
        num_layers: how many layers.
        d_model, num_heads, d_ff, dropout, norm_first, activation, rotary, rng: as in `DecoderLayer`.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, §3.1.
    """

    layer_type = DecoderLayer

    def forward(
        self,
        x: Any,
        memory: Any,
        *,
        mask: Any = None,
        memory_mask: Any = None,
        cache: DecoderCache | None = None,
        return_weights: bool = False,
    ) -> Any:
        """What each target token knows when it is asked for the next one.

        Args:
            x: (batch, target_len, d_model), embedded target tokens.
            memory, mask, memory_mask: as in `DecoderLayer`.
            cache: keys and values from earlier calls; x then holds the new tokens only.
            return_weights: also return the attention weights.
        Returns:
            (batch, target_len, d_model), or a pair of it and a tuple with the `LayerWeights` of each layer.
        """
        return self.through_layers(
            x, memory, mask=mask, memory_mask=memory_mask, cache=cache, return_weights=return_weights
        )
