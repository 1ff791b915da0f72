"""A decoder-only language model: the encoder's layers, made causal, that continue the text they read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tinygrad_attn import nn
from tinygrad_attn.errors import OptionError
from transformer.cache import DecoderCache
from transformer.config import CausalConfig
from transformer.embedding import InputEmbedding, check_ids
from transformer.encoder import Encoder
from transformer.masks import Mask, token_mask
from transformer.steps import CausalSteps, check_room

_ON_THE_LEFT = "a decoder-only model takes prompts padded on the left, since what comes next is written on the right"


class CausalLM(nn.Module):
    """Says, for every token of a text, which one comes next.

    Args:
        config: sizes and choices.
        rng: draws the first values; the shared generator if left out.
    Attributes:
        embedding: ids to vectors.
        decoder: the layers. A decoder without a memory to read is an encoder whose tokens see no future.
        to_logits: vectors to logits; with `tie_embeddings` its weight *is* the embedding's.
    Source:
        Radford et al. (2018), "Improving language understanding by generative pre-training".

    >>> model = CausalLM(CausalConfig(vocab=7, d_model=8, num_heads=2, d_ff=16))
    >>> model([[4, 5, 6]]).shape
    (1, 3, 7)
    """

    def __init__(self, config: CausalConfig, *, rng: np.random.Generator | None = None) -> None:
        self.config = config
        self.embedding = InputEmbedding(
            *(config.vocab, config.d_model, config.max_length),
            positions=config.positions,
            scaled=config.scale_embeddings,
            dropout=config.dropout,
            rng=rng,
        )
        self.decoder = Encoder(
            *(config.layers, config.d_model, config.num_heads, config.d_ff),
            dropout=config.dropout,
            norm_first=config.norm_first,
            activation=config.activation,
            rotary=config.positions == "rotary",
            rng=rng,
        )
        self.to_logits = nn.Linear(config.d_model, config.vocab, bias=not config.tie_embeddings, rng=rng)
        if config.tie_embeddings:
            self.to_logits.weight = self.embedding.tokens.weight

    def forward(
        self,
        ids: ArrayLike,
        *,
        mask: Any = None,
        cache: DecoderCache | None = None,
        return_weights: bool = False,
    ) -> Any:
        """Logits of the token that follows each token.

        Args:
            ids: (batch, length); with a cache, only those that it does not hold yet.
            mask: which tokens are real, boolean, (batch, n) or (batch, 1, 1, n), where n counts the tokens in the cache
                too; for rows padded on the left.
            cache: from `new_cache`; filled on the way. Only under `no_grad()`.
            return_weights: also return the attention weights.
        Returns:
            (batch, length, vocab), or a pair of it and a tuple with the weights of each layer,
            (batch, heads, length, n).
        """
        tokens = check_ids("ids", ids, self.config.vocab)
        offset = 0 if cache is None else cache.length
        real = token_mask("mask", (len(tokens), offset + tokens.shape[1]), mask)  # (batch, 1, 1, offset + length)
        x = self.embedding(tokens, offset=offset, real=real)  # (batch, length, d_model)
        decoded = self.decoder(x, mask=real, causal=True, cache=cache, return_weights=return_weights)
        x, weights = decoded if return_weights else (decoded, None)  # (batch, length, d_model)
        logits = self.to_logits(x)  # (batch, length, vocab)
        return (logits, weights) if return_weights else logits

    def new_cache(self) -> DecoderCache:
        """An empty cache for `forward`."""
        return DecoderCache(self.config.layers)

    def begin_decoding(
        self,
        src: ArrayLike,
        *,
        src_lengths: ArrayLike | None = None,
        max_new_tokens: int,
        start_id: int | None = None,
        pad_id: int | None = None,
        cache: bool = True,
    ) -> CausalSteps:
        """Get ready to continue the texts in `src`, which are padded on the left; `generate` asks for this.

        Args:
            src: (batch, length), ids.
            src_lengths: (batch,), real tokens at the end of each row. Left out, the `pad_id` tokens that a row begins
                with are its padding; give the lengths where the model's text itself holds that token.
            max_new_tokens: how many are going to be asked for.
            start_id: None, since the text to continue is the start.
            pad_id: what fills the shorter rows.
            cache: keep keys and values between steps.
        Raises:
            OptionError: a start id, padding that is not on the left, or more tokens than the model has positions.
        """
        if start_id is not None:
            raise OptionError("a decoder-only model continues the text it is given\n  put the start token into src")
        prompt = check_ids("src", src, self.config.vocab)
        check_room(prompt.shape[1], max_new_tokens, self.config.max_length)
        real = _seen_padding(prompt, pad_id) if src_lengths is None else _left_padded(prompt, src_lengths, pad_id)
        return CausalSteps(self, prompt, real, self.new_cache() if cache else None)


def _left_padded(prompt: Any, lengths: ArrayLike, pad_id: int | None) -> Mask:
    """(batch, 1, 1, length), True for the last `lengths` tokens of each row, before which only padding may stand."""
    right_padded = token_mask("src_lengths", prompt.shape, None, lengths)
    real: Mask = np.asarray(right_padded)[..., ::-1]
    if pad_id is not None and (prompt[~real[:, 0, 0]] != pad_id).any():
        raise OptionError(
            f"{_ON_THE_LEFT}\n  src_lengths says that a row begins with padding, and another token stands there"
        )
    return real


def _seen_padding(prompt: Any, pad_id: int | None) -> Mask | None:
    """(batch, 1, 1, length), False for the padding that rows begin with; None if there is none.

    Raises:
        OptionError: padding after a real token, or nothing but padding.
    """
    if pad_id is None or not (prompt == pad_id).any():
        return None
    meant = f"if {pad_id} is a token of the text, say so with src_lengths"
    filled = prompt != pad_id  # (batch, length)
    real: Mask = np.logical_or.accumulate(filled, axis=1)  # from the first real token on
    if not real[:, -1].all():
        raise OptionError(
            f"empty sequence: row {int(np.argmin(real[:, -1]))} is nothing but pad_id={pad_id}\n  {meant}"
        )
    late = (real & ~filled).any(axis=1)  # (batch,)
    if late.any():
        raise OptionError(
            f"{_ON_THE_LEFT}\n  row {int(np.argmax(late))} has pad_id={pad_id} after a real token; {meant}"
        )
    return real[:, None, None, :]
