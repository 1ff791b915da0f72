"""Beam search for one item: which beginnings are kept, which are done, and when to stop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


class Hypothesis(NamedTuple):
    """A sequence that beam search kept.

    Attributes:
        ids: the new tokens, the end token included if it was said.
        log_prob: log of the probability that the model gives them.
        score: log_prob / length^length_penalty, what hypotheses are compared by.
        finished: whether the end token was said.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool


class BeamSearch:
    """Keeps the `width` most probable beginnings of one item's answer.

    Args:
        width: how many sequences are kept, finished ones included.
        length_penalty: see `Beam`.
        max_new_tokens: where sequences stop at the latest.
        end_id: the token that finishes a sequence, or None.
    Attributes:
        open: (rows,), which rows hold a beginning that goes on. One row before the first step, then `width`.
    """

    def __init__(self, width: int, length_penalty: float, max_new_tokens: int, end_id: int | None) -> None:
        self.width, self.length_penalty = width, length_penalty
        self.max_new_tokens, self.end_id = max_new_tokens, end_id
        self.open = np.ones(1, dtype=bool)
        self.beginnings: list[tuple[int, ...]] = [()]  # one per row
        self.log_probs: Floats = np.zeros(1)  # one per row; −∞ where closed
        self.finished: list[Hypothesis] = []

    def advance(self, table: Floats) -> tuple[Ids, Ids]:
        """One token further.

        Args:
            table: (rows, vocabulary), log-probabilities of the next token.
        Returns:
            parents: (width,), the row that each new row continues.
            tokens: (width,), what it says; of no meaning where `open` is False.
        """
        vocabulary = table.shape[-1]
        totals = (self.log_probs[:, None] + table).ravel()  # (rows · vocabulary,)
        free = self.width - len(self.finished)
        best = np.argsort(-totals, kind="stable")[:free] if self.open.any() else ()
        parents = np.zeros(self.width, dtype=np.int64)
        tokens = np.zeros(self.width, dtype=np.int64)
        log_probs = np.full(self.width, -np.inf)
        beginnings: list[tuple[int, ...]] = [()] * self.width
        row = 0
        for place in best:
            if totals[place] == -np.inf:
                break
            parent, token = divmod(int(place), vocabulary)
            sequence = (*self.beginnings[parent], token)
            if token == self.end_id:
                self.finished.append(self._hypothesis(sequence, float(totals[place]), True))
                continue
            parents[row], tokens[row], log_probs[row], beginnings[row] = parent, token, totals[place], sequence
            row += 1
        self.log_probs, self.beginnings = log_probs, beginnings
        if self.finished and not self._can_still_win():
            self.log_probs = np.full(self.width, -np.inf)
        self.open = self.log_probs > -np.inf
        return parents, tokens

    def ranked(self) -> tuple[Hypothesis, ...]:
        """All that was kept, best first; of equal ones those that finished earlier."""
        unfinished = [
            self._hypothesis(self.beginnings[row], float(self.log_probs[row]), False)
            for row in np.flatnonzero(self.open)
        ]
        return tuple(sorted([*self.finished, *unfinished], key=lambda hypothesis: -hypothesis.score))

    def _can_still_win(self) -> bool:
        """Whether the best open beginning could beat the best finished sequence if all its further tokens were certain.

        Log-probabilities only fall, so its sum can at best stay. The length at which that sum scores best is the
        largest for a positive penalty and the next for a negative one.
        """
        best_open = float(self.log_probs.max())
        if best_open == -np.inf:
            return False
        next_length = max(map(len, self.beginnings)) + 1
        if next_length > self.max_new_tokens:
            return True  # the limit is reached: what is open counts as it stands
        bound = max(self._score(best_open, next_length), self._score(best_open, self.max_new_tokens))
        return bound > max(hypothesis.score for hypothesis in self.finished)

    def _hypothesis(self, ids: tuple[int, ...], log_prob: float, finished: bool) -> Hypothesis:
        return Hypothesis(ids, log_prob, self._score(log_prob, len(ids)), finished)

    def _score(self, log_prob: float, length: int) -> float:
        return log_prob / float(max(1, length) ** self.length_penalty)
