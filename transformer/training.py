"""The training loop: batches, a loss over the tokens that count, a step, and from time to time a look at new examples.

A run is a function of its configuration. The batch of step t is drawn from (seed, t) and nothing else, so that a run
that was interrupted, saved and resumed ends in the very same numbers as one that was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tinygrad_attn import Tensor
from tinygrad_attn.errors import NotFiniteError, OptionError
from tinygrad_attn.optim import AdamW, clip_grad_norm, decay_groups
from tinygrad_attn.schedules import warmup_cosine
from transformer.decoding import generate
from transformer.model import Transformer, TransformerConfig
from transformer.targets import sequence_loss
from transformer.tasks import Batch, Example, Score, Task, score

# Streams of random numbers that must not meet: each kind of draw has its own.
_FIRST_VALUES, _BATCHES, _VALIDATION = 0, 1, 2


@dataclass(frozen=True)
class TrainingConfig:
    """How a model is trained.

    Args:
        steps: optimiser steps, unless something below ends the training earlier.
        batch_size: examples per step.
        long_share: share of each batch that is the longest of eight times as many draws. Long texts are rare, and a
            model reads badly at positions that it has hardly ever seen.
        learning_rate: the highest one, reached at the end of the warm-up.
        warmup: steps during which the learning rate rises, at most half of all; afterwards it falls along a cosine.
        betas, weight_decay: of AdamW; biases, norms and embeddings are not decayed.
        max_norm: gradients longer than this are shortened to it.
        label_smoothing: share of each target that is spread over all tokens.
        validate_every: steps between looks at `validation_size` examples that training has not drawn itself; 0 for
            none. They come from the training days, so that the held-out examples stay untouched until the end.
        patience: end the training after so many looks in a row without a mistake; 0 for never.
        max_seconds: end the training after so much time; the result then depends on the machine. None for never.
        seed: decides first values, batches and validation examples.
    Raises:
        OptionError: a number that cannot be.
    """

    steps: int = 800
    batch_size: int = 64
    long_share: float = 0.25
    learning_rate: float = 4e-3
    warmup: int = 100
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    max_norm: float = 1.0
    label_smoothing: float = 0.0
    validate_every: int = 100
    validation_size: int = 256
    patience: int = 0
    max_seconds: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch_size", 1), ("warmup", 0), ("validate_every", 0), ("patience", 0)):
            if getattr(self, name) < least:
                raise OptionError(f"{name} is {getattr(self, name)}: expected {least} or more")
        for name in ("validation_size", "learning_rate", "max_norm"):
            if not getattr(self, name) > 0:
                raise OptionError(f"{name} is {getattr(self, name)}: expected more than 0")
        if not 0.0 <= self.long_share <= 1.0:
            raise OptionError(f"long_share is {self.long_share}: expected a share between 0 and 1")
        if self.seed < 0:
            raise OptionError(f"seed is {self.seed}: expected 0 or more")

    def learning_rate_at(self, step: int) -> float:
        """Learning rate of a step, counted from 1."""
        warmup = min(self.warmup, self.steps // 2)
        return self.learning_rate * warmup_cosine(step, warmup_steps=warmup, total_steps=self.steps + 1)


@dataclass(frozen=True)
class Progress:
    """Where a training stands after a step.

    Args:
        step: number of the step, from 1.
        steps: how many there will be.
        loss: of this step's batch, in nats per token.
        learning_rate: of this step.
        gradient_norm: before it was shortened.
        validation: the look at new examples, if this step had one.
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    gradient_norm: float
    validation: Score | None = None


Ending = Literal["steps", "patience", "time", "stopped"]


@dataclass
class History:
    """What happened so far.

    Args:
        losses: one per step.
        validations: (step, exactly right, of how many).
        held_out: exactly right and of how many, by language, once that was measured at the end.
        seconds, cpu_seconds: time spent in training, validation included, all processors added up in the latter.
    """

    losses: list[float] = field(default_factory=list)
    validations: list[tuple[int, int, int]] = field(default_factory=list)
    held_out: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Trainer:
    """A model in training on a task.

    Args:
        task: where examples come from.
        config: how to train.
        model: the model; made from `default_model_config(task)` and the seed if None.

    >>> from transformer.tasks import CopyTask
    >>> trainer = Trainer(CopyTask(), TrainingConfig(steps=2, batch_size=8, validate_every=0))
    >>> trainer.run()
    'steps'
    >>> trainer.step, len(trainer.history.losses)
    (2, 2)
    """

    def __init__(self, task: Task, config: TrainingConfig | None = None, model: Transformer | None = None) -> None:
        self.task = task
        self.config = config = TrainingConfig() if config is None else config
        if model is None:
            model = Transformer(default_model_config(task), rng=_stream(config.seed, _FIRST_VALUES))
        self.model = model
        groups = decay_groups(model, config.weight_decay)
        self.optimizer = AdamW(groups, lr=config.learning_rate, betas=config.betas, eps=1e-9)
        self.step = 0
        self.history = History()
        self.consistent = True  # False from the middle of a step on, until it is finished

    @property
    def faultless_looks(self) -> int:
        """How many of the last validations, in a row, were without a mistake."""
        looks = reversed(self.history.validations)
        return next((n for n, (_, right, total) in enumerate(looks) if right < total), len(self.history.validations))

    def run(
        self,
        *,
        until: int | None = None,
        on_step: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Ending:
        """Trains until the steps are done or something else ends it; call again to go on.

        Args:
            until: stop after this step; the configuration's last step if None. The schedule does not change.
            on_step: told about every step.
            should_stop: asked between steps.
        Returns:
            What ended it: "steps", "patience", "time", or "stopped" by `should_stop`.
        Raises:
            NotFiniteError: the loss or a gradient is NaN or infinite. Model and optimiser are as before that step.
        """
        last = self.config.steps if until is None else min(until, self.config.steps)
        self.model.train()
        try:
            while self.step < last:
                if self.config.patience and self.faultless_looks >= self.config.patience:
                    return "patience"
                if self.config.max_seconds is not None and self.history.seconds >= self.config.max_seconds:
                    return "time"
                if should_stop is not None and should_stop():
                    return "stopped"
                wall, cpu = time.perf_counter(), time.process_time()
                progress = self._next()
                self.history.seconds += time.perf_counter() - wall
                self.history.cpu_seconds += time.process_time() - cpu
                if on_step is not None:
                    on_step(progress)
        finally:
            self.model.eval()
        return "steps"

    def _next(self) -> Progress:
        step, config = self.step + 1, self.config
        batch = self.task.encode(self._draw(_stream(config.seed, _BATCHES, step)))
        self.optimizer.zero_grad()
        loss = batch_loss(self.model, self.task, batch, label_smoothing=config.label_smoothing)
        value = float(loss)
        if not math.isfinite(value):
            raise NotFiniteError(
                f"step {step}: the loss is {value}; the model is as it was after step {self.step}\n"
                "  lower the learning rate, or raise warmup"
            )
        loss.backward(retain_graph=False)
        norm = clip_grad_norm(self.model.parameters(), config.max_norm)
        rate = config.learning_rate_at(step)
        self.optimizer.set_lr(rate)
        self.consistent = False
        self.optimizer.step()
        self.step = step
        self.history.losses.append(value)
        self.consistent = True
        validation = None
        if config.validate_every and (step % config.validate_every == 0 or step == config.steps):
            validation = self._validate()
            self.history.validations.append((step, validation.right, validation.total))
        return Progress(step, config.steps, value, rate, norm, validation)

    def _draw(self, random: np.random.Generator) -> list[Example]:
        size = self.config.batch_size
        long = round(self.config.long_share * size)
        candidates = self.task.draw(random, 8 * long) if long else []
        longest = sorted(candidates, key=lambda example: -len(example.source))[:long]
        return longest + (self.task.draw(random, size - long) if size > long else [])

    def _validate(self) -> Score:
        examples = self.task.draw(_stream(self.config.seed, _VALIDATION), self.config.validation_size)
        return evaluate(self.model, self.task, examples)["all"]


def default_model_config(task: Task) -> TransformerConfig:
    """A small Transformer for a task: two layers on each side, 64 numbers per token, four heads, pre-norm."""
    return TransformerConfig(
        source_vocab=len(task.source_tokenizer),
        target_vocab=len(task.target_tokenizer),
        d_model=64,
        num_heads=4,
        d_ff=128,
        encoder_layers=2,
        decoder_layers=2,
        dropout=0.0,
        norm_first=True,
        max_length=max(64, task.max_source_length, task.max_target_length),
    )


def batch_loss(model: Transformer, task: Task, batch: Batch, *, label_smoothing: float = 0.0) -> Tensor:
    """Mean surprise per target token, in nats; padding does not count, so every token weighs the same.

    The decoder is given the right answer so far ("teacher forcing") and asked for the next token at every place.
    """
    logits = model(batch.src, batch.tgt_in, src_lengths=batch.src_lengths)  # (batch, target_len, vocabulary)
    loss: Tensor = sequence_loss(logits, batch.tgt_out, task.target_tokenizer.pad_id, label_smoothing=label_smoothing)
    return loss


def predict(model: Transformer, task: Task, sources: Sequence[str], *, batch_size: int = 128) -> list[str]:
    """What the model says to each text, by greedy decoding.

    Args:
        sources: texts that the task's tokenizer can read.
        batch_size: how many are decoded together; texts of like length are, and the answers come in the given order.
    """
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    answers = [""] * len(sources)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        for index, answer in zip(chosen, _answers(model, task, [sources[i] for i in chosen]), strict=True):
            answers[index] = answer
    return answers


def _answers(model: Transformer, task: Task, sources: Sequence[str]) -> list[str]:
    target = task.target_tokenizer
    src, lengths = task.source_tokenizer.encode_batch(sources)
    written = generate(
        model,
        src,
        src_lengths=lengths,
        max_new_tokens=task.max_target_length,
        start_id=target.start_id,
        end_id=target.end_id,
        pad_id=target.pad_id,
    )
    return [target.decode(row) for row in written.ids]


def evaluate(
    model: Transformer,
    task: Task,
    examples: Sequence[Example],
    *,
    by: Literal["language", "style", "all"] = "all",
) -> dict[str, Score]:
    """How many examples the model answers exactly right, decoding greedily; see `tasks.score`."""
    return score(examples, predict(model, task, [example.source for example in examples]), by=by)


def _stream(seed: int, *path: int) -> np.random.Generator:
    return np.random.default_rng([seed, *path])
