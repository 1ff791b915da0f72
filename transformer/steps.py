"""The step interface of the decoder loop: tokens so far in, logits of the next one out.

`generate` knows nothing else of a model. Anything that can take steps can be generated from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_attn.errors import OptionError
from transformer.cache import DecoderCache
from transformer.masks import Mask

if TYPE_CHECKING:
    from transformer.causal import CausalLM
    from transformer.model import Transformer

Array = NDArray[Any]
Ids = NDArray[np.int64]


class StepOutput(NamedTuple):
    """What one step gives.

    Attributes:
        logits: (rows, vocabulary), of the next token.
        self_attention: for each layer, (rows, heads, tokens): where the newest token looked among the tokens so far;
            empty unless asked for.
        cross_attention: for each layer, (rows, heads, source_len): where it looked in the memory; empty in a
            decoder-only model and unless asked for.
    """

    logits: Array
    self_attention: tuple[Array, ...] = ()
    cross_attention: tuple[Array, ...] = ()


class Steps(Protocol):
    """A model in the middle of writing.

    Attributes:
        prompt: (batch, prompt_len), the tokens it starts from.
    """

    prompt: Ids

    def next(self, tokens: Ids, *, return_weights: bool = False) -> StepOutput:
        """Logits of what follows `tokens`, (rows, length): the prompt and everything chosen since."""

    def select(self, rows: Ids) -> None:
        """Go on with these rows only, in this order; a row may be taken more than once."""


class Writer(Protocol):
    """A model that `generate` can write with."""

    def begin_decoding(
        self,
        src: ArrayLike,
        *,
        src_lengths: ArrayLike | None = None,
        max_new_tokens: int,
        start_id: int | None = None,
        pad_id: int | None = None,
        cache: bool = True,
    ) -> Steps:
        """Read the source and get ready to write."""


class EncoderDecoderSteps:
    """Steps of a Transformer: the memory stands, the decoder goes on.

    Args:
        model: whose decoder writes.
        prompt: (batch, 1), the start token.
        memory: (batch, source_len, d_model).
        src_mask: (batch, 1, 1, source_len) or None.
        cache: an empty one, or None to compute everything again in every step.
    """

    def __init__(
        self, model: Transformer, prompt: Ids, memory: Any, src_mask: Mask | None, cache: DecoderCache | None
    ) -> None:
        self.model, self.prompt, self.memory, self.src_mask, self.cache = model, prompt, memory, src_mask, cache

    def next(self, tokens: Ids, *, return_weights: bool = False) -> StepOutput:
        """Logits of what follows `tokens`, (rows, length)."""
        new = tokens if self.cache is None else tokens[:, self.cache.length :]
        decoded = self.model.decode(
            new, self.memory, src_mask=self.src_mask, cache=self.cache, return_weights=return_weights
        )
        if not return_weights:
            return StepOutput(decoded.numpy()[:, -1])
        logits, layers = decoded
        return StepOutput(
            logits.numpy()[:, -1],
            tuple(layer.self_attention.numpy()[:, :, -1] for layer in layers),
            tuple(layer.cross_attention.numpy()[:, :, -1] for layer in layers),
        )

    def select(self, rows: Ids) -> None:
        """Go on with these rows only."""
        self.memory = self.memory[rows]
        self.src_mask = None if self.src_mask is None else self.src_mask[rows]
        if self.cache is not None:
            self.cache.select(rows)


class CausalSteps:
    """Steps of a decoder-only model, which continues its prompt.

    Args:
        model: which writes.
        prompt: (batch, prompt_len), padded on the left.
        real: (batch, 1, 1, prompt_len), which tokens of it are no padding; or None for all.
        cache: an empty one, or None to compute everything again in every step.
    """

    def __init__(self, model: CausalLM, prompt: Ids, real: Mask | None, cache: DecoderCache | None) -> None:
        self.model, self.prompt, self.real, self.cache = model, prompt, real, cache

    def next(self, tokens: Ids, *, return_weights: bool = False) -> StepOutput:
        """Logits of what follows `tokens`, (rows, length)."""
        new = tokens if self.cache is None else tokens[:, self.cache.length :]
        mask = None
        if self.real is not None:
            written = np.ones((len(tokens), 1, 1, tokens.shape[1] - self.real.shape[-1]), dtype=bool)
            mask = np.concatenate([self.real, written], axis=-1)  # (rows, 1, 1, length)
        decoded = self.model(new, mask=mask, cache=self.cache, return_weights=return_weights)
        if not return_weights:
            return StepOutput(decoded.numpy()[:, -1])
        logits, layers = decoded
        return StepOutput(logits.numpy()[:, -1], tuple(weights.numpy()[:, :, -1] for weights in layers))

    def select(self, rows: Ids) -> None:
        """Go on with these rows only."""
        self.real = None if self.real is None else self.real[rows]
        if self.cache is not None:
            self.cache.select(rows)


def check_room(prompt_len: int, max_new_tokens: int, max_length: int) -> None:
    """Raise unless the model has positions for everything it would read; the last new token is not read any more.

    Raises:
        OptionError: it has not.
    """
    if prompt_len + max_new_tokens - 1 > max_length:
        raise OptionError(
            f"max_new_tokens={max_new_tokens} after a prompt of {prompt_len} tokens is more than the model can read\n"
            f"  its max_length is {max_length}; ask for at most {max(0, max_length + 1 - prompt_len)}"
        )
