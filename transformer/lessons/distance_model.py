"""Three small models that read letters one after the other and name, at the end, the one capital among them.

A plain recurrent network, a gated one (GRU) and a Transformer, trained alike on the same letters. Each reads the answer
off the vector at the last letter, and none can see what comes later.
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
from tinygrad_attn.optim import AdamW, clip_grad_norm
from tinygrad_attn.schedules import warmup_cosine
from transformer import Encoder, InputEmbedding
from transformer.cache import DecoderCache
from transformer.tasks import Score

Ids = NDArray[np.int64]
LETTERS = "abcdefgh"
KINDS = ("rnn", "gru", "transformer")


@dataclass(frozen=True)
class RecallConfig:
    """Sizes of the models, and how they are trained.

    Args:
        width: numbers in a letter's vector and in a state.
        layers, num_heads: of the Transformer; its feed-forward networks are twice as wide.
        shortest, longest: how many letters a training sequence has.
        steps, far_steps: optimiser steps, where the capital may stand anywhere and where it always stands first.
        batch_size: sequences in each step.
        seed: decides first values and sequences.
    """

    width: int = 32
    layers: int = 2
    num_heads: int = 2
    shortest: int = 4
    longest: int = 48
    steps: int = 200
    far_steps: int = 120
    batch_size: int = 32
    seed: int = 0


RATES = {"rnn": 1e-2, "gru": 1e-2, "transformer": 3e-3}
WARMUP = 20
MOST = 128  # letters that the Transformer has positions for


@dataclass(frozen=True, eq=False)
class Sequences:
    """A batch of sequences of one length.

    Args:
        ids: (batch, length); small letters are 0 to 7, capitals 8 to 15.
        answer: (batch,), which letter is the capital.
        place: (batch,), where it stands.
    """

    ids: Ids
    answer: Ids
    place: Ids


def draw(random: np.random.Generator, count: int, length: int, place: int | Ids | None = None) -> Sequences:
    """Random small letters with one capital among them.

    Args:
        place: where the capital stands, one place or (count,); anywhere if None.
    """
    count_letters = len(LETTERS)
    ids = random.integers(count_letters, size=(count, length))
    answer = random.integers(count_letters, size=count)
    places = random.integers(length, size=count) if place is None else np.broadcast_to(place, (count,))
    ids[np.arange(count), places] = count_letters + answer
    return Sequences(ids, answer, places)


def spell(ids: Ids) -> str:
    """The letters of one sequence.

    >>> spell(np.array([0, 10, 1]))
    'aCb'
    """
    return "".join((LETTERS + LETTERS.upper())[index] for index in ids)


class Reader(nn.Module):
    """What the three have in common: vectors for letters at the start, and a choice among letters at the end."""

    def __init__(self, config: RecallConfig, embedding: nn.Module, rng: np.random.Generator) -> None:
        self.embedding = embedding
        self.to_logits = nn.Linear(config.width, len(LETTERS), rng=rng)

    def forward(self, ids: Ids) -> Any:
        """(batch, length) -> logits of the letters, (batch, 8)."""
        return self.to_logits(self.read(self.embedding(ids)))

    def read(self, x: Any) -> Any:
        """All letters at once: (batch, length, width) -> what is known after the last, (batch, width)."""
        raise NotImplementedError

    def read_in_turn(self, x: Any) -> tuple[Any, int]:
        """The same one letter at a time, as in a decoder loop, and how many numbers are kept in the end."""
        raise NotImplementedError


class PlainReader(Reader):
    """h′ = tanh(W_ih x + b_ih + W_hh h + b_hh), letter by letter."""

    def __init__(self, config: RecallConfig, rng: np.random.Generator) -> None:
        super().__init__(config, nn.Embedding(2 * len(LETTERS), config.width, rng=rng), rng)
        self.cell = nn.RNNCell(config.width, config.width, rng=rng)

    def read(self, x: Any) -> Any:
        """See `Reader`."""
        return self.read_in_turn(x)[0]

    def read_in_turn(self, x: Any) -> tuple[Any, int]:
        """See `Reader`."""
        state: Any = None
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)  # (batch, width)
        return state, state.shape[-1]


class GatedReader(Reader):
    """A GRU."""

    def __init__(self, config: RecallConfig, rng: np.random.Generator) -> None:
        super().__init__(config, nn.Embedding(2 * len(LETTERS), config.width, rng=rng), rng)
        self.gru = nn.GRU(config.width, config.width, rng=rng)

    def read(self, x: Any) -> Any:
        """See `Reader`."""
        return self.gru(x)[1][0]

    def read_in_turn(self, x: Any) -> tuple[Any, int]:
        """See `Reader`."""
        state: Any = None
        for t in range(x.shape[1]):
            state = self.gru(x[:, t : t + 1], state)[1]  # (1, batch, width)
        return state[0], state.shape[-1]


class AttentionReader(Reader):
    """A Transformer without a look ahead; nothing but its mask makes it a reader from left to right."""

    def __init__(self, config: RecallConfig, rng: np.random.Generator) -> None:
        width, layers, heads = config.width, config.layers, config.num_heads
        super().__init__(config, InputEmbedding(2 * len(LETTERS), width, MOST, rng=rng), rng)
        self.encoder = Encoder(layers, width, heads, 2 * width, norm_first=True, rng=rng)

    def read(self, x: Any) -> Any:
        """See `Reader`."""
        return self.encoder(x, causal=True)[:, -1]

    def read_in_turn(self, x: Any) -> tuple[Any, int]:
        """See `Reader`."""
        cache = DecoderCache(len(self.encoder.layers))
        for t in range(x.shape[1]):
            last = self.encoder(x[:, t : t + 1], causal=True, cache=cache)  # (batch, 1, width)
        kept = [layer.self_attention for layer in cache.layers]
        return last[:, 0], sum(held[0].size for each in kept for held in (each.key, each.value))


READERS: dict[str, Callable[[RecallConfig, np.random.Generator], Reader]] = {
    "rnn": PlainReader,
    "gru": GatedReader,
    "transformer": AttentionReader,
}


def untrained(kind: str, config: RecallConfig) -> Reader:
    """A model with the first values from which `train` sets out."""
    return READERS[kind](config, np.random.default_rng([config.seed, KINDS.index(kind)]))


@dataclass(frozen=True, eq=False)
class Training:
    """A model that has been trained, and what happened meanwhile.

    Args:
        model: in 64-bit numbers, all of them 32-bit values.
        losses: of each step, in nats.
        seconds: how long it took.
    """

    model: Reader
    losses: list[float] = field(repr=False)
    seconds: float


def train(
    kind: str,
    config: RecallConfig,
    *,
    far: bool = False,
    on_step: Callable[[float], None] | None = None,
) -> Training:
    """Trains a model; a function of its arguments.

    Args:
        kind: one of `KINDS`.
        far: the capital always stands first in a sequence of the longest kind; otherwise anywhere in any length.
        on_step: told the loss of each step; what it raises ends the training.
    Raises:
        NotFiniteError: the loss is NaN or infinite.
    """
    model = untrained(kind, config)
    random = np.random.default_rng([config.seed, len(KINDS), far])  # the same letters for every kind
    optimizer = AdamW(model.parameters(), lr=RATES[kind], weight_decay=0.0)
    steps = config.far_steps if far else config.steps
    started, losses = time.perf_counter(), []
    for step in range(1, steps + 1):
        length = config.longest if far else int(random.integers(config.shortest, config.longest + 1))
        batch = draw(random, config.batch_size, length, 0 if far else None)
        optimizer.zero_grad()
        loss = ta.cross_entropy(model(batch.ids), batch.answer)
        losses.append(float(loss))
        if not math.isfinite(losses[-1]):
            raise NotFiniteError(f"step {step}: the loss is {losses[-1]}\n  lower the learning rate")
        loss.backward(retain_graph=False)
        clip_grad_norm(model.parameters(), 1.0)
        optimizer.set_lr(RATES[kind] * warmup_cosine(step, warmup_steps=min(WARMUP, steps), total_steps=steps + 1))
        optimizer.step()
        if on_step is not None:
            on_step(losses[-1])
    return Training(model.eval().to(np.float64), losses, time.perf_counter() - started)


def score(model: Reader, config: RecallConfig, length: int, count: int) -> Score:
    """How often the capital is named right that stands first in sequences of this length, none seen in training."""
    batch = draw(np.random.default_rng([config.seed, len(KINDS) + 1, length]), count, length, 0)
    with ta.no_grad():
        given = np.asarray(model(batch.ids)).argmax(axis=1)
    return Score(int((given == batch.answer).sum()), count)
