"""The decoder loop: say a token, read it back, say the next one.

    tokens = [<Start of Sentence>]
    until <End of Sentence>:  tokens += choose(logits of what follows tokens)

One loop serves every model and every strategy; models take part through `steps.py`, strategies through `strategies.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_attn import nn
from tinygrad_attn.errors import OptionError
from tinygrad_attn.modes import no_grad
from transformer.beam import Hypothesis
from transformer.steps import Writer
from transformer.strategies import Beam, Greedy, Sample, Strategy, Task, log_probabilities

__all__ = ["Beam", "GenerationResult", "GenerationStep", "Greedy", "Hypothesis", "Sample", "evaluating", "generate"]

Array = NDArray[Any]
Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GenerationStep:
    """One turn of the loop, for pictures. With beam search there are several rows per item.

    Attributes:
        tokens: (rows, n), what the decoder had read: the prompt and the tokens chosen so far.
        active: (rows,), whether the row was still being written.
        top_ids: (rows, top), the most probable next tokens, best first.
        top_probs: (rows, top), their probabilities under the model, before temperature or filters.
        parents: (rows after,), which row each row of the next step continues.
        chosen: (rows after,), the token that it says.
        self_attention: for each layer, (rows, heads, n): where the newest token looked among `tokens`.
        cross_attention: for each layer, (rows, heads, source_len): where it looked in the memory; empty in a
            decoder-only model.
    """

    tokens: Ids
    active: NDArray[np.bool_]
    top_ids: Ids
    top_probs: Array
    parents: Ids
    chosen: Ids
    self_attention: tuple[Array, ...]
    cross_attention: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class GenerationResult:
    """What was written.

    Attributes:
        ids: (batch, length), the new tokens, the end token included, then padding. The prompt is not repeated.
        lengths: (batch,), tokens of each row of `ids`, the end token counted, padding not.
        finished: (batch,), whether the row ended with the end token, not at the limit.
        log_probs: (batch,), log of the probability that the model gives the row, the end token counted.
        prompt: (batch, prompt_len), what the decoder had read before: the start token, or the text to continue.
        hypotheses: with beam search, all that was kept for each item, best first; else empty.
        steps: with `trace=True`, one record per turn of the loop; else empty.
    """

    ids: Ids
    lengths: Ids
    finished: NDArray[np.bool_]
    log_probs: NDArray[np.float64]
    prompt: Ids
    hypotheses: tuple[tuple[Hypothesis, ...], ...] = ()
    steps: tuple[GenerationStep, ...] = ()

    @property
    def sequences(self) -> Ids:
        """(batch, prompt_len + length), the prompt and the new tokens."""
        return np.concatenate([self.prompt, self.ids], axis=1)

    def tokens(self, row: int) -> list[int]:
        """The new tokens of one row, without padding."""
        return [int(token) for token in self.ids[row, : self.lengths[row]]]


def generate(
    model: Writer,
    src: ArrayLike,
    *,
    strategy: Strategy = Greedy(),  # noqa: B008 (frozen)
    max_new_tokens: int,
    pad_id: int,
    start_id: int | None = None,
    end_id: int | None = None,
    src_lengths: ArrayLike | None = None,
    trace: bool = False,
    trace_top: int = 5,
    cache: bool = True,
) -> GenerationResult:
    """Write for each row of `src`, token by token, until the end token or the limit.

    Nothing is recorded and nothing is dropped meanwhile; the model's training switches are given back as they were.

    Args:
        model: a `Transformer`, a `CausalLM`, or anything else that can `begin_decoding`.
        src: (batch, source_len), ids: what to translate, padded on the right; for a decoder-only model what to
            continue, padded on the left.
        strategy: `Greedy()`, `Sample(temperature, top_k, top_p)` or `Beam(width, length_penalty)`.
        max_new_tokens: at most so many; 0 writes nothing.
        pad_id: what stands behind the end of the shorter rows that are written.
        start_id: what an encoder–decoder begins with; a decoder-only model has its prompt.
        end_id: the token that ends a row; None to go on until the limit.
        src_lengths: (batch,), real tokens of each row of `src`. None: all are; only a decoder-only model, whose prompts
            and answers share one vocabulary, takes the `pad_id` tokens before a prompt for padding. An encoder–decoder
            cannot: `pad_id` is the target's, and in the source the same number may be a word.
        trace: record every step.
        trace_top: how many of the most probable tokens to record.
        cache: keep keys and values between steps; False computes them again, with the same result.
    Returns:
        GenerationResult.
    Raises:
        OptionError: an impossible option, or more tokens than the model has positions.
        ShapeError, DtypeError, IndexRangeError: src is empty, too long, or not of ids in the vocabulary.
        NotFiniteError: the model's logits are NaN.
    """
    if max_new_tokens < 0 or trace_top < 1:
        raise OptionError(
            f"generate: max_new_tokens must be 0 or more, trace_top 1 or more\n"
            f"  given max_new_tokens={max_new_tokens}, trace_top={trace_top}"
        )
    records: list[GenerationStep] = []
    with no_grad(), evaluating(model):
        steps = model.begin_decoding(
            src,
            src_lengths=src_lengths,
            max_new_tokens=max_new_tokens,
            start_id=start_id,
            pad_id=pad_id,
            cache=cache,
        )
        search = strategy.begin(Task(len(steps.prompt), max_new_tokens, end_id, pad_id))
        tokens = steps.prompt  # (rows, length); one row per item, with beam search soon more
        for _ in range(max_new_tokens):
            active = search.active
            if not active.any():
                break
            output = steps.next(tokens, return_weights=trace)
            log_probs = log_probabilities(output.logits)  # (rows, vocabulary)
            _check_special(log_probs.shape[-1], end_id=end_id, pad_id=pad_id)
            parents, chosen = search.advance(log_probs)  # (rows,) each
            if trace:
                top = np.argsort(-log_probs, axis=-1, kind="stable")[:, :trace_top]  # (rows, top)
                probs = np.exp(np.take_along_axis(log_probs, top, axis=-1))
                records.append(GenerationStep(tokens, active, top, probs, parents, chosen, *output[1:]))
            if not np.array_equal(parents, np.arange(len(tokens))):
                steps.select(parents)
            tokens = np.concatenate([tokens[parents], chosen[:, None]], axis=1)  # (rows, length + 1)
    outcome = search.outcome()
    return GenerationResult(
        ids=outcome.ids,
        lengths=outcome.lengths,
        finished=outcome.finished,
        log_probs=outcome.log_probs,
        prompt=np.array(steps.prompt),
        hypotheses=outcome.hypotheses,
        steps=tuple(records),
    )


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Switch a model to evaluation inside; afterwards every module is as it was, also one that was frozen by itself."""
    before = [(module, module.training) for module in model.modules()] if isinstance(model, nn.Module) else []
    try:
        for module, _ in before:
            module.training = False
        yield
    finally:
        for module, training in before:
            module.training = training


def _check_special(vocabulary: int, **ids: int | None) -> None:
    for name, value in ids.items():
        if value is not None and not 0 <= value < vocabulary:
            raise OptionError(
                f"generate: {name} must be a token of the vocabulary, in [0, {vocabulary})\n  given {value}"
            )
