"""The Transformer: an encoder that reads, a decoder that writes, and a map from vectors to logits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tinygrad_attn import nn
from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.operands import with_shape
from transformer.cache import DecoderCache
from transformer.config import TransformerConfig
from transformer.decoder import Decoder
from transformer.embedding import InputEmbedding, check_ids
from transformer.encoder import Encoder
from transformer.masks import token_mask
from transformer.steps import EncoderDecoderSteps, check_room

__all__ = ["Transformer", "TransformerConfig"]


class Transformer(nn.Module):
    """Reads a source sequence and writes a target sequence.

    memory = encode(source);  logits = decode(target so far, memory)

    Args:
        config: sizes and choices.
        rng: draws the first values; the shared generator if left out.
    Attributes:
        encoder, decoder: the two stacks.
        source_embedding, target_embedding: ids to vectors.
        to_logits: vectors to logits; with `tie_embeddings` its weight *is* the target embedding's.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, figure 1.

    >>> model = Transformer(TransformerConfig(source_vocab=10, target_vocab=7, d_model=8, num_heads=2, d_ff=16))
    >>> model([[4, 5, 6]], [[1, 3]]).shape
    (1, 2, 7)
    """

    def __init__(self, config: TransformerConfig, *, rng: np.random.Generator | None = None) -> None:
        self.config = config
        layers: dict[str, Any] = {
            "dropout": config.dropout,
            "norm_first": config.norm_first,
            "activation": config.activation,
            "rotary": config.positions == "rotary",
            "rng": rng,
        }
        around: dict[str, Any] = {"positions": config.positions, "dropout": config.dropout, "rng": rng}
        sizes = (config.d_model, config.num_heads, config.d_ff)
        self.source_embedding = InputEmbedding(config.source_vocab, config.d_model, config.max_length, **around)
        self.target_embedding = InputEmbedding(config.target_vocab, config.d_model, config.max_length, **around)
        self.encoder = Encoder(config.encoder_layers, *sizes, **layers)
        self.decoder = Decoder(config.decoder_layers, *sizes, **layers)
        self.to_logits = nn.Linear(config.d_model, config.target_vocab, bias=not config.tie_embeddings, rng=rng)
        if config.share_embeddings:
            self.target_embedding.tokens.weight = self.source_embedding.tokens.weight
        if config.tie_embeddings:
            self.to_logits.weight = self.target_embedding.tokens.weight

    def forward(
        self,
        src: ArrayLike,
        tgt: ArrayLike,
        *,
        src_mask: Any = None,
        src_lengths: ArrayLike | None = None,
        tgt_mask: Any = None,
    ) -> Any:
        """Logits of every next target token, all at once, given the ones before it: teacher forcing.

        Args:
            src: (batch, source_len), ids.
            tgt: (batch, target_len), ids: the target shifted right, so that it begins with the start id.
            src_mask, src_lengths, tgt_mask: as in `encode` and `decode`.
        Returns:
            (batch, target_len, target_vocab); place t holds the logits of the token that follows tgt[:, t].
        """
        src = check_ids("src", src, self.config.source_vocab)
        src_mask = token_mask("src_mask", src.shape, src_mask, src_lengths)  # (batch, 1, 1, source_len)
        memory = self.encode(src, src_mask=src_mask)  # (batch, source_len, d_model)
        return self.decode(tgt, memory, src_mask=src_mask, tgt_mask=tgt_mask)

    def encode(
        self,
        src: ArrayLike,
        *,
        src_mask: Any = None,
        src_lengths: ArrayLike | None = None,
        return_weights: bool = False,
    ) -> Any:
        """The memory, also called the latent z: one vector per source token, each of which has seen all the others.

        Args:
            src: (batch, source_len), ids.
            src_mask: boolean, (batch, source_len) or (batch, 1, 1, source_len), True = real token; or
            src_lengths: (batch,), how many tokens of each row are real, if rows are padded on the right.
            return_weights: also return the attention weights.
        Returns:
            (batch, source_len, d_model), or a pair of it and a tuple with the weights of each layer,
            (batch, heads, source_len, source_len).
        Raises:
            ShapeError, DtypeError, IndexRangeError: src is empty, too long, or not of ids in the vocabulary.
            MaskError, OptionError: the mask or the lengths do not fit.
        """
        ids = check_ids("src", src, self.config.source_vocab)
        mask = token_mask("src_mask", ids.shape, src_mask, src_lengths)  # (batch, 1, 1, source_len)
        x = self.source_embedding(ids, real=mask)  # (batch, source_len, d_model)
        return self.encoder(x, mask=mask, return_weights=return_weights)

    def decode(
        self,
        tgt: ArrayLike,
        memory: Any,
        *,
        src_mask: Any = None,
        src_lengths: ArrayLike | None = None,
        tgt_mask: Any = None,
        cache: DecoderCache | None = None,
        return_weights: bool = False,
    ) -> Any:
        """Logits of the token that follows each target token.

        Args:
            tgt: (batch, target_len), ids; with a cache, only those that it does not hold yet.
            memory: (batch, source_len, d_model), from `encode`.
            src_mask, src_lengths: the same as in `encode`: they say which vectors of the memory are real.
            tgt_mask: which target tokens are real, boolean, (batch, n) or (batch, 1, 1, n), where n counts the tokens
                in the cache too. Needed only for padding on the left: nobody looks into the future, so padding on the
                right is never seen.
            cache: from `new_cache`; filled on the way. Only under `no_grad()`.
            return_weights: also return the attention weights.
        Returns:
            (batch, target_len, target_vocab), or a pair of it and a tuple with the `LayerWeights` of each layer.
        Raises:
            ShapeError, DtypeError, IndexRangeError: tgt is empty, too long, or not of ids in the vocabulary, or has
                another number of rows than the memory.
            MaskError, OptionError: the mask or the lengths do not fit.
        """
        ids = check_ids("tgt", tgt, self.config.target_vocab)
        memory = with_shape(memory)
        if memory.ndim != 3 or memory.shape[0] != ids.shape[0]:
            raise ShapeError(
                f"decode: each target row reads the memory of its own source row\n"
                f"    tgt     {ids.shape}, (batch, target_len)\n"
                f"    memory  {memory.shape}, (batch, source_len, d_model)"
            )
        offset = 0 if cache is None else cache.length
        memory_mask = token_mask("src_mask", memory.shape[:2], src_mask, src_lengths)  # (batch, 1, 1, source_len)
        mask = token_mask("tgt_mask", (len(ids), offset + ids.shape[1]), tgt_mask)  # (batch, 1, 1, offset + target_len)
        x = self.target_embedding(ids, offset=offset, real=mask)  # (batch, target_len, d_model)
        decoded = self.decoder(
            x, memory, mask=mask, memory_mask=memory_mask, cache=cache, return_weights=return_weights
        )  # (batch, target_len, d_model)
        x, weights = decoded if return_weights else (decoded, None)
        logits = self.to_logits(x)  # (batch, target_len, target_vocab)
        return (logits, weights) if return_weights else logits

    def new_cache(self) -> DecoderCache:
        """An empty cache for `decode`."""
        return DecoderCache(self.config.decoder_layers)

    def begin_decoding(
        self,
        src: ArrayLike,
        *,
        src_lengths: ArrayLike | None = None,
        max_new_tokens: int,
        start_id: int | None = None,
        pad_id: int | None = None,
        cache: bool = True,
    ) -> EncoderDecoderSteps:
        """Read the source once and get ready to write; `generate` asks for this.

        Raises:
            OptionError: no start id, or more new tokens than the model has positions.
        """
        if start_id is None:
            raise OptionError(
                "an encoder–decoder begins to write with a start token\n  pass start_id=tokenizer.start_id"
            )
        check_room(1, max_new_tokens, self.config.max_length)
        ids = check_ids("src", src, self.config.source_vocab)
        mask = token_mask("src_lengths", ids.shape, None, src_lengths)  # (batch, 1, 1, source_len)
        memory = self.encode(ids, src_mask=mask)  # (batch, source_len, d_model)
        prompt = np.full((len(ids), 1), start_id, dtype=np.int64)
        return EncoderDecoderSteps(self, prompt, memory, mask, self.new_cache() if cache else None)
