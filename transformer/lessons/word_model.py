"""A small encoder that says what `it` stands for, reading nothing but the vector at `it`; and how it is trained.

Nothing here tells the model where to look. Its loss is the surprise at the right noun, and attention is whatever that
has made of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tinygrad_attn as ta
from tinygrad_attn import nn
from tinygrad_attn.errors import NotFiniteError
from tinygrad_attn.optim import AdamW, clip_grad_norm, decay_groups
from tinygrad_attn.schedules import warmup_cosine
from transformer import Encoder, InputEmbedding, padding_mask
from transformer.tasks import Score
from transformer.tasks.coreference import CoreferenceTask, Sentence

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class ReferentConfig:
    """Sizes of the model, and how it is trained.

    Args:
        layers, d_model, num_heads, d_ff: sizes of the encoder.
        steps, batch_size: optimiser steps, and sentences in each.
        examples: how many training sentences are drawn; the batches come from these.
        learning_rate, warmup, weight_decay: of AdamW; the rate falls along a cosine.
        seed: decides first values and sentences.
    """

    layers: int = 2
    d_model: int = 32
    num_heads: int = 2
    d_ff: int = 64
    steps: int = 1000
    batch_size: int = 64
    examples: int = 8000
    learning_rate: float = 8e-3
    warmup: int = 40
    weight_decay: float = 0.01
    seed: int = 0

    def learning_rate_at(self, step: int) -> float:
        """Learning rate of a step, counted from 1; the warm-up is at most half of all steps."""
        warmup = min(self.warmup, self.steps // 2)
        return self.learning_rate * warmup_cosine(step, warmup_steps=warmup, total_steps=self.steps + 1)


class ReferentModel(nn.Module):
    """An encoder, and a comparison of what stands at `it` with the vector of every noun.

    logits = encoder(x)[it] Eᵀ,  where E holds the embeddings of the nouns

    Args:
        task: whose words it reads and whose nouns it names.
        config: sizes.
        rng: draws the first values.
    """

    def __init__(
        self, task: CoreferenceTask, config: ReferentConfig, *, rng: np.random.Generator | None = None
    ) -> None:
        self.embedding = InputEmbedding(
            len(task.tokenizer), config.d_model, task.max_length, positions="learned", rng=rng
        )
        self.encoder = Encoder(config.layers, config.d_model, config.num_heads, config.d_ff, norm_first=True, rng=rng)
        self.noun_ids = task.noun_ids

    def forward(self, ids: Ids, lengths: Ids, pronoun: Ids, *, hidden: Ids | None = None) -> Any:
        """How much each noun speaks for itself.

        Args:
            ids: (batch, length), int64.
            lengths: (batch,), words of each sentence.
            pronoun: (batch,), where `it` stands.
            hidden: (batch,), one word of each sentence that no word may look at; None hides none.
        Returns:
            logits (batch, nouns).
        """
        mask = padding_mask(lengths, ids.shape[1])  # (batch, 1, 1, length)
        if hidden is not None:
            mask = mask & (np.arange(ids.shape[1]) != hidden[:, None])[:, None, None]
        x = self.encoder(self.embedding(ids), mask=mask)  # (batch, length, d_model)
        return self.compare(x[np.arange(len(ids)), pronoun])  # (batch, nouns)

    def compare(self, vectors: Any) -> Any:
        """(batch, d_model), what stands at `it` -> (batch, nouns), its likeness with each noun's vector."""
        return vectors @ self.embedding.tokens.weight[self.noun_ids].T


@dataclass(frozen=True, eq=False)
class Training:
    """A model that has been trained, and what happened meanwhile.

    Args:
        model: in 64-bit numbers, those of a browser's arithmetic; their values are the 32-bit ones of the training.
        config: how it was trained.
        losses: of each step, in nats.
        seconds: how long it took.
    """

    model: ReferentModel
    config: ReferentConfig
    losses: list[float] = field(repr=False)
    seconds: float


def train(
    task: CoreferenceTask,
    config: ReferentConfig | None = None,
    *,
    on_step: Callable[[int, float], None] | None = None,
) -> Training:
    """Trains a model; a function of task and configuration.

    Args:
        on_step: told the step, from 1, and its loss; what it raises ends the training.
    Raises:
        NotFiniteError: the loss is NaN or infinite.
    """
    config = ReferentConfig() if config is None else config
    model = ReferentModel(task, config, rng=np.random.default_rng([config.seed, 0]))
    random = np.random.default_rng([config.seed, 1])
    optimizer = AdamW(decay_groups(model, config.weight_decay), lr=config.learning_rate, betas=(0.9, 0.98))
    started, losses = time.perf_counter(), []
    examples = task.encode(task.draw(random, config.examples))
    for step in range(1, config.steps + 1):
        chosen = random.integers(config.examples, size=config.batch_size)
        optimizer.zero_grad()
        logits = model(examples.ids[chosen], examples.lengths[chosen], examples.pronoun[chosen])
        loss = ta.cross_entropy(logits, examples.answer[chosen])
        losses.append(float(loss))
        if not math.isfinite(losses[-1]):
            raise NotFiniteError(f"step {step}: the loss is {losses[-1]}\n  lower the learning rate")
        loss.backward(retain_graph=False)
        clip_grad_norm(model.parameters(), 1.0)
        optimizer.set_lr(config.learning_rate_at(step))
        optimizer.step()
        if on_step is not None:
            on_step(step, losses[-1])
    return Training(model.eval().to(np.float64), config, losses, time.perf_counter() - started)


def answers(model: ReferentModel, task: CoreferenceTask, sentences: list[Sentence]) -> list[str]:
    """The noun that the model names for each sentence, out of all nouns."""
    batch = task.encode(sentences)
    with ta.no_grad():
        logits = np.asarray(model(batch.ids, batch.lengths, batch.pronoun))  # (batch, nouns)
    return [task.nouns[index] for index in logits.argmax(axis=1)]


def score(model: ReferentModel, task: CoreferenceTask, sentences: list[Sentence]) -> dict[str, Score]:
    """How many sentences are answered right: of each family, under its name, and "all"."""
    given = answers(model, task, sentences)
    right: dict[str, list[bool]] = {"meaning": [], "role": []}
    for sentence, answer in zip(sentences, given, strict=True):
        right[sentence.family].append(answer == sentence.referent)
    scores = {family: Score(sum(found), len(found)) for family, found in right.items()}
    return {**scores, "all": Score(sum(s.right for s in scores.values()), len(sentences))}


def mean_looks(model: ReferentModel, task: CoreferenceTask, sentences: list[Sentence]) -> tuple[float, float]:
    """How much `it` looks at the noun it stands for, and at the other: last layer, mean over heads and sentences."""
    batch = task.encode(sentences)
    with ta.no_grad():
        mask = padding_mask(batch.lengths, batch.ids.shape[1])
        _, weights = model.encoder(model.embedding(batch.ids), mask=mask, return_weights=True)
    rows = np.arange(len(sentences))
    looks = np.asarray(weights[-1]).mean(axis=1)[rows, batch.pronoun]  # (batch, length)
    words = [sentence.text.lower().split() for sentence in sentences]
    referents = [row.index(sentence.referent) for row, sentence in zip(words, sentences, strict=True)]
    others = [row.index(sentence.other) for row, sentence in zip(words, sentences, strict=True)]
    return float(looks[rows, referents].mean()), float(looks[rows, others].mean())
