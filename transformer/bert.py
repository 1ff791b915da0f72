"""BERT's encoder: a sentence read in both directions at once, one vector per token at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tinygrad_attn import nn
from tinygrad_attn.errors import ShapeError
from transformer.config import BertConfig
from transformer.embedding import check_ids
from transformer.encoder import Encoder
from transformer.masks import token_mask
from transformer.positional import LearnedPositions


class BertEmbedding(nn.Module):
    """A vector for each token, one for its position and one for its sentence, added and normalised.

    x = norm(W[ids] + P[position] + S[segment])

    Args:
        config: sizes.
        rng: draws the first values; the shared generator if left out.
    Source:
        Devlin et al. (2019), arXiv:1810.04805, figure 2.
    """

    def __init__(self, config: BertConfig, *, rng: np.random.Generator | None = None) -> None:
        self.tokens = nn.Embedding(config.vocab, config.d_model, rng=rng)
        self.positions = LearnedPositions(config.d_model, config.max_length, rng=rng)
        self.segments = nn.Embedding(config.segments, config.d_model, rng=rng)
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Any, segments: Any) -> Any:
        """(batch, length) ids and segment numbers -> (batch, length, d_model)."""
        x = self.positions(self.tokens(ids)) + self.segments(segments)  # (batch, length, d_model)
        return self.dropout(self.norm(x))


class BertEncoder(nn.Module):
    """Reads tokens and gives each a vector that has seen all the others.

    Args:
        config: sizes and choices.
        rng: draws the first values; the shared generator if left out.
    Attributes:
        embedding: ids to vectors.
        encoder: the layers, post-norm.
    Source:
        Devlin et al. (2019), arXiv:1810.04805.

    >>> model = BertEncoder(BertConfig(vocab=7, d_model=8, num_heads=2, d_ff=16))
    >>> model([[4, 5, 6]]).shape
    (1, 3, 8)
    """

    def __init__(self, config: BertConfig, *, rng: np.random.Generator | None = None) -> None:
        self.config = config
        self.embedding = BertEmbedding(config, rng=rng)
        self.encoder = Encoder(
            *(config.layers, config.d_model, config.num_heads, config.d_ff),
            dropout=config.dropout,
            norm_first=False,
            activation=config.activation,
            rng=rng,
        )
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = config.norm_eps

    def forward(
        self,
        ids: ArrayLike,
        *,
        mask: Any = None,
        segments: ArrayLike | None = None,
        return_weights: bool = False,
    ) -> Any:
        """The vectors of a batch of texts.

        Args:
            ids: (batch, length).
            mask: which tokens are real, boolean, (batch, length) or (batch, 1, 1, length); all if left out.
            segments: (batch, length), which sentence a token is of; all of the first if left out.
            return_weights: also return the attention weights.
        Returns:
            (batch, length, d_model), or a pair of it and a tuple with the weights of each layer,
            (batch, heads, length, length).
        Raises:
            ShapeError, DtypeError, IndexRangeError: ids or segments that do not fit.
        """
        tokens = check_ids("ids", ids, self.config.vocab)  # (batch, length)
        kinds = np.zeros_like(tokens) if segments is None else check_ids("segments", segments, self.config.segments)
        if kinds.shape != tokens.shape:
            raise ShapeError(f"segments must have the shape of ids\n  expected {tokens.shape}, given {kinds.shape}")
        real = token_mask("mask", tokens.shape, mask)  # (batch, 1, 1, length)
        x = self.embedding(tokens, kinds)  # (batch, length, d_model)
        return self.encoder(x, mask=real, return_weights=return_weights)
