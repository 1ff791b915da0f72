"""What the encoder and the decoder have in common: layers of one kind, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tinygrad_attn import nn
from tinygrad_attn.errors import OptionError
from tinygrad_attn.nn.layers import check_size
from transformer.cache import DecoderCache


class Stack(nn.Module):
    """Layers, each of which reads what the one before it wrote; with pre-norm, a last layer norm after them.

    Args:
        num_layers: how many layers.
        d_model, num_heads, d_ff: sizes.
        dropout: one probability for attention weights, the feed-forward networks and what is added.
        norm_first: pre-norm instead of the paper's post-norm.
        activation: of the feed-forward networks.
        rotary: self-attention turns queries and keys by their places.
        rng: draws the first values; the shared generator if left out.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, §3.1.
    """

    layer_type: ClassVar[Callable[..., nn.Module]]

    def __init__(
        self,
        num_layers: int,
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
        check_size(type(self).__name__, num_layers=num_layers)
        settings: dict[str, Any] = {"dropout": dropout, "norm_first": norm_first, "activation": activation}
        settings |= {"rotary": rotary, "rng": rng}
        self.layers = nn.ModuleList(self.layer_type(d_model, num_heads, d_ff, **settings) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model) if norm_first else None

    def through_layers(
        self, x: Any, *memory: Any, cache: DecoderCache | None, return_weights: bool, **options: Any
    ) -> Any:
        """All layers in their order.

        Args:
            x: (batch, length, d_model).
            memory, options: what every layer gets besides.
            cache: its layers' caches go to the layers.
            return_weights: also return the attention weights.
        Returns:
            (batch, length, d_model), or a pair of it and a tuple with what each layer returned as its weights.
        Raises:
            OptionError: the cache is for another number of layers.
        """
        if cache is not None and len(cache.layers) != len(self.layers):
            raise OptionError(
                f"the cache is for {len(cache.layers)} layers, and this {type(self).__name__} has {len(self.layers)}\n"
                "  take one from the model's new_cache()"
            )
        weights = []
        for number, layer in enumerate(self.layers):
            layer_cache = None if cache is None else cache.layers[number]
            x = layer(x, *memory, cache=layer_cache, return_weights=return_weights, **options)
            if return_weights:
                x, layer_weights = x
                weights.append(layer_weights)
        if self.norm is not None:
            x = self.norm(x)  # (batch, length, d_model)
        return (x, tuple(weights)) if return_weights else x
