"""How the next token is chosen: the most probable one, a random one, or several kept side by side (beam search).

A strategy is a setting; `begin` makes a `Search` of it, which keeps count during one generation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn import ops
from tinygrad_attn.errors import NotFiniteError, OptionError
from tinygrad_attn.rng import generator
from transformer.beam import BeamSearch, Hypothesis

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


class Task(NamedTuple):
    """What is fixed for one generation.

    Attributes:
        batch: how many items are written for.
        max_new_tokens: where writing stops at the latest.
        end_id: the token that ends an item, or None.
        pad_id: what stands after the end.
    """

    batch: int
    max_new_tokens: int
    end_id: int | None
    pad_id: int


class Outcome(NamedTuple):
    """What a search found.

    Attributes:
        ids: (batch, length), the new tokens, padded behind the end.
        lengths: (batch,), tokens of each row, the end token counted.
        finished: (batch,), whether the end token was said.
        log_probs: (batch,), log of the probability that the model gives the row, the end token counted.
        hypotheses: for each item all that beam search kept, best first; empty otherwise.
    """

    ids: Ids
    lengths: Ids
    finished: NDArray[np.bool_]
    log_probs: Floats
    hypotheses: tuple[tuple[Hypothesis, ...], ...] = ()


class Search(Protocol):
    """A strategy at work."""

    @property
    def active(self) -> NDArray[np.bool_]:
        """(rows,), whether each row is still being written."""

    def advance(self, log_probs: Floats) -> tuple[Ids, Ids]:
        """Choose, given log-probabilities (rows, vocabulary), the rows that go on and the token that each says."""

    def outcome(self) -> Outcome:
        """What was found, once no row is active or the limit is reached."""


class Strategy(Protocol):
    """A way to choose tokens."""

    def begin(self, task: Task) -> Search:
        """Start a generation."""


@dataclass(frozen=True)
class Greedy:
    """Always the most probable token; of equal ones the first."""

    def begin(self, task: Task) -> Search:
        """Start a generation."""
        return RowSearch(task, self)

    def choose(self, log_probs: Floats) -> Ids:
        """(rows, vocabulary) -> (rows,)."""
        return np.asarray(np.argmax(log_probs, axis=-1))


@dataclass(frozen=True)
class Sample:
    """A random token, drawn with the probability the model gives it, after some are left out.

    In this order: temperature, then the `top_k` most probable, made to sum to one again, then `top_p` of those. The
    most probable token always stays.

    Args:
        temperature: logits are divided by it; below 1 the probable becomes more so, 0 is greedy.
        top_k: keep only so many; of tokens that are as probable as the last one kept, the first ones.
        top_p: keep the smallest number of tokens, most probable first, whose probabilities reach this sum.
        rng: draws; the shared generator if left out.
    Raises:
        OptionError: an impossible value.
    Source:
        top-k: Fan, Lewis and Dauphin (2018), arXiv:1805.04833, §5.4; top-p: Holtzman et al. (2020), arXiv:1904.09751.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    rng: np.random.Generator | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < float("inf"):
            raise OptionError(f"Sample: temperature must be 0 or more, and finite\n  given {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise OptionError(f"Sample: top_k must be 1 or more\n  given {self.top_k}; leave it out to keep all tokens")
        if self.top_p is not None and not 0.0 <= self.top_p <= 1.0:
            raise OptionError(f"Sample: top_p is a probability, in [0, 1]\n  given {self.top_p}")

    def begin(self, task: Task) -> Search:
        """Start a generation."""
        return RowSearch(task, self)

    def distribution(self, log_probs: Any) -> Floats:
        """What is drawn from, (rows, vocabulary) logits or log-probabilities -> (rows, vocabulary) probabilities.

        >>> Sample(top_p=0.8).distribution(np.log([[0.4, 0.3, 0.2, 0.1]])).round(3).tolist()
        [[0.444, 0.333, 0.222, 0.0]]
        """
        logits = np.asarray(log_probs, dtype=np.float64)
        if self.temperature == 0.0:
            return np.asarray(np.eye(logits.shape[-1])[np.argmax(logits, axis=-1)])
        with np.errstate(over="ignore"):  # a tiny temperature sends all but the best to −∞, which is meant
            p: Floats = ops.softmax((logits - logits.max(axis=-1, keepdims=True)) / self.temperature, axis=-1)
        if self.top_k is None and self.top_p is None:
            return p
        order = np.argsort(-logits, axis=-1, kind="stable")  # most probable first
        ranked = np.take_along_axis(p, order, axis=-1)
        if self.top_k is not None:
            ranked[:, self.top_k :] = 0.0
            ranked /= ranked.sum(axis=-1, keepdims=True)
        if self.top_p is not None:
            before = np.cumsum(ranked, axis=-1) - ranked  # what the more probable tokens sum to
            reached = before >= self.top_p
            reached[:, 0] = False
            ranked[reached] = 0.0
            ranked /= ranked.sum(axis=-1, keepdims=True)
        kept = np.zeros_like(p)
        np.put_along_axis(kept, order, ranked, axis=-1)
        return kept

    def choose(self, log_probs: Floats) -> Ids:
        """(rows, vocabulary) -> (rows,)."""
        p = self.distribution(log_probs)
        u = generator(self.rng).random((len(p), 1))
        total = np.cumsum(p, axis=-1)
        total[:, -1] = np.maximum(total[:, -1], 1.0)  # sums end near 1, and u may lie in between
        chosen = np.argmax(total > u, axis=-1)  # the first token at which the running sum passes u
        impossible = np.take_along_axis(p, chosen[:, None], axis=-1)[:, 0] == 0.0
        return np.asarray(np.where(impossible, np.argmax(p, axis=-1), chosen))


@dataclass(frozen=True)
class Beam:
    """The `width` most probable beginnings are kept, and the best whole sequence is taken.

    score = log p(sequence) / length^length_penalty, the end token counted in the length

    A sequence that ends keeps its place among the `width`, so that width 1 is greedy and a width that holds every
    sequence is exhaustive search. An item stops when none of its open beginnings can reach the best score any more.

    Args:
        width: how many are kept.
        length_penalty: 0 compares sums of log-probabilities, which favours short sequences; 1 compares their means.
    Raises:
        OptionError: an impossible value.
    Source:
        Graves (2012), arXiv:1211.3711, §4 (search); Wu et al. (2016), arXiv:1609.08144, §7 (length normalisation;
        theirs has another form).
    """

    width: int = 4
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.width, bool) or not isinstance(self.width, (int, np.integer)) or self.width < 1:
            raise OptionError(f"Beam: width must be an integer ≥ 1\n  given {self.width!r}")
        if not np.isfinite(self.length_penalty):
            raise OptionError(f"Beam: length_penalty must be finite\n  given {self.length_penalty}")

    def begin(self, task: Task) -> Search:
        """Start a generation."""
        return _Beaming(task, self)


class RowSearch:
    """One row per item; each row goes on until it says the end token, and then says padding."""

    def __init__(self, task: Task, strategy: Greedy | Sample) -> None:
        self.task, self.strategy = task, strategy
        self.active = np.ones(task.batch, dtype=bool)
        self.said: list[Ids] = []  # one (batch,) for each step
        self.log_probs = np.zeros(task.batch)
        self.lengths = np.zeros(task.batch, dtype=np.int64)

    def advance(self, log_probs: Floats) -> tuple[Ids, Ids]:
        """Every row goes on."""
        rows = np.arange(self.task.batch)
        chosen = np.where(self.active, self.strategy.choose(log_probs), self.task.pad_id)
        self.log_probs += np.where(self.active, log_probs[rows, chosen], 0.0)
        self.lengths += self.active
        self.said.append(chosen)
        if self.task.end_id is not None:
            self.active = self.active & (chosen != self.task.end_id)
        return rows, chosen

    def outcome(self) -> Outcome:
        """What each row said."""
        ids = np.stack(self.said, axis=1) if self.said else np.zeros((self.task.batch, 0), dtype=np.int64)
        return Outcome(ids, self.lengths, ~self.active, self.log_probs)


class _Beaming:
    """Beam search for a batch: one `BeamSearch` per item, all with the same number of rows."""

    def __init__(self, task: Task, beam: Beam) -> None:
        self.task = task
        self.items = [
            BeamSearch(beam.width, beam.length_penalty, task.max_new_tokens, task.end_id) for _ in range(task.batch)
        ]

    @property
    def active(self) -> NDArray[np.bool_]:
        """(rows,)."""
        return np.concatenate([item.open for item in self.items]) if self.items else np.zeros(0, dtype=bool)

    def advance(self, log_probs: Floats) -> tuple[Ids, Ids]:
        """Each item's survivors and what they say; closed places say padding."""
        per_item = log_probs.reshape(self.task.batch, -1, log_probs.shape[-1])  # (batch, rows per item, vocabulary)
        parents, tokens = [], []
        for number, (item, table) in enumerate(zip(self.items, per_item, strict=True)):
            rows, said = item.advance(table)
            parents.append(rows + number * len(table))
            tokens.append(np.where(item.open, said, self.task.pad_id))
        return np.concatenate(parents), np.concatenate(tokens)

    def outcome(self) -> Outcome:
        """The best hypothesis of each item."""
        ranked = tuple(item.ranked() for item in self.items)
        best = [hypotheses[0] for hypotheses in ranked]
        lengths = np.array([len(hypothesis.ids) for hypothesis in best], dtype=np.int64)
        ids = np.full((len(best), int(lengths.max(initial=0))), self.task.pad_id, dtype=np.int64)
        for row, hypothesis in enumerate(best):
            ids[row, : len(hypothesis.ids)] = hypothesis.ids
        finished = np.array([hypothesis.finished for hypothesis in best], dtype=bool)
        return Outcome(ids, lengths, finished, np.array([hypothesis.log_prob for hypothesis in best]), ranked)


def log_probabilities(logits: Any) -> Floats:
    """Logits (rows, vocabulary) to log-probabilities in float64.

    Raises:
        NotFiniteError: a logit is NaN or +∞, or all of a row are −∞.
    """
    exact = np.asarray(logits, dtype=np.float64)
    peak = exact.max(axis=-1)
    if not np.isfinite(peak).all():
        row = int(np.argmin(np.isfinite(peak)))
        raise NotFiniteError(
            f"the logits of row {row} have the maximum {peak[row]}: there is no token to choose\n"
            "  the parameters may have become NaN in training"
        )
    result: Floats = ops.log_softmax(exact, axis=-1)
    return result
