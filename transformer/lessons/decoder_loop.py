"""The decoder loop of one text, every step of it: tokens so far, what could come next, and where the decoder looked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn import no_grad
from transformer.decoding import generate
from transformer.model import Transformer
from transformer.tasks import Task

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class LoopStep:
    """One turn of the loop.

    Args:
        so_far: the tokens that the decoder has read, `<Start of Sentence>` first.
        choices: the most probable next tokens with their probabilities, best first; the first one is said.
        self_attention: (layers, heads, len(so_far)), where the newest token looks among the tokens so far.
        cross_attention: (layers, heads, source_len), where it looks in the source.
    """

    so_far: tuple[str, ...]
    choices: tuple[tuple[str, float], ...]
    self_attention: Array
    cross_attention: Array

    @property
    def says(self) -> str:
        """The token that this step adds."""
        return self.choices[0][0]


@dataclass(frozen=True, eq=False)
class DecoderLoop:
    """A text, what the encoder made of it, and how the decoder answered.

    Args:
        source: the source's tokens.
        memory: (source_len, d_model), the latent z.
        steps: the turns of the loop.
        answer: the tokens said, as text.
        finished: whether the loop ended with `<End of Sentence>`, not at its limit.
    """

    source: tuple[str, ...]
    memory: Array
    steps: tuple[LoopStep, ...]
    answer: str
    finished: bool

    @property
    def said(self) -> list[str]:
        """What each step added."""
        return [step.says for step in self.steps]

    def cross_attention(self) -> Array:
        """(layers, heads, steps, source_len)."""
        return np.stack([step.cross_attention for step in self.steps], axis=2)

    def last_layer(self) -> Array:
        """Cross-attention of the last layer, mean over its heads: (steps, source_len)."""
        mean: Array = self.cross_attention()[-1].mean(axis=0)
        return mean


def run_decoder_loop(model: Transformer, task: Task, text: str, *, choices: int = 5) -> DecoderLoop:
    """Lets a model answer one text greedily and records everything.

    Args:
        text: what the encoder reads; the task's tokenizer must know it.
        choices: how many of the most probable next tokens are recorded in each step.
    Raises:
        VocabularyError: the text holds something that has no token.
    """
    target = task.target_tokenizer
    src, lengths = task.source_tokenizer.encode_batch([text])  # (1, source_len)
    with no_grad():
        memory = np.array(model.encode(src)[0])  # (source_len, d_model)
    written = generate(
        model,
        src,
        src_lengths=lengths,
        max_new_tokens=task.max_target_length,
        start_id=target.start_id,
        end_id=target.end_id,
        pad_id=target.pad_id,
        trace=True,
        trace_top=min(choices, len(target)),
    )
    steps = tuple(
        LoopStep(
            so_far=tuple(target.tokens_of(step.tokens[0])),
            choices=tuple(zip(target.tokens_of(step.top_ids[0]), step.top_probs[0].tolist(), strict=True)),
            self_attention=np.stack([layer[0] for layer in step.self_attention]),
            cross_attention=np.stack([layer[0] for layer in step.cross_attention]),
        )
        for step in written.steps
    )
    source = tuple(task.source_tokenizer.tokens_of(src[0]))
    return DecoderLoop(source, memory, steps, target.decode(written.ids[0]), bool(written.finished[0]))
