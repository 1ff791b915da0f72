"""Saying a sentence again: short clauses in a row, "Anna sees birds and Paul likes tea", word by word.

The sentences are synthetic, from a grammar of one rule. They can be made longer without new words, so that what is lost
on the way shows against their length.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from transformer.tasks.base import Example, Task
from transformer.tokenizer import WordTokenizer

NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Hugo")
VERBS = ("sees", "likes", "draws", "finds", "wants", "hides", "buys", "counts")
THINGS = ("birds", "apples", "trees", "stars", "books", "boats", "clocks", "shoes")
JOIN = "and"


@dataclass(frozen=True)
class ClausesConfig:
    """Which sentences are said.

    Args:
        most: clauses in the longest sentence; each number from 1 on is equally frequent.
        seed: chooses the sentences that are held out, about one in ten.
    """

    most: int = 3
    seed: int = 0


class ClausesTask(Task):
    """Sentences and themselves.

    >>> task = ClausesTask()
    >>> task.sentence(np.random.default_rng(0), clauses=2)
    'Greta hides books and Clara draws birds'
    """

    def __init__(self, config: ClausesConfig | None = None) -> None:
        self.config = config = ClausesConfig() if config is None else config
        self.words = (*NAMES, *VERBS, *THINGS, JOIN)
        self.source_tokenizer = self.target_tokenizer = WordTokenizer.build([" ".join(self.words)])
        self.max_source_length = 4 * config.most - 1
        self.max_target_length = 4 * config.most

    def sentence(self, rng: np.random.Generator, clauses: int) -> str:
        """A random sentence."""
        said = (" ".join(words[rng.integers(len(words))] for words in (NAMES, VERBS, THINGS)) for _ in range(clauses))
        return f" {JOIN} ".join(said)

    def is_held_out(self, text: str) -> bool:
        """Whether training never shows this sentence."""
        key = f"{self.config.seed}:{text}".encode()
        return blake2b(key, digest_size=1).digest()[0] < 26  # 26 of 256 are about one in ten

    def draw(self, rng: np.random.Generator, n: int) -> list[Example]:
        """`n` random training examples."""
        return self._draw(rng, n, None, held_out=False)

    def held_out(self, n: int, seed: int = 0) -> list[Example]:
        """`n` different sentences that training never shows; the same ones for the same seed."""
        return self._draw(np.random.default_rng(seed), n, None, held_out=True)

    def held_out_of(self, clauses: int, n: int, seed: int = 0) -> list[Example]:
        """`n` different held-out sentences of so many clauses."""
        return self._draw(np.random.default_rng([seed, clauses]), n, clauses, held_out=True)

    def _draw(self, rng: np.random.Generator, n: int, clauses: int | None, *, held_out: bool) -> list[Example]:
        found: list[Example] = []
        known: set[str] = set()
        while len(found) < n:
            number = int(rng.integers(1, self.config.most + 1)) if clauses is None else clauses
            text = self.sentence(rng, number)
            if self.is_held_out(text) != held_out or (held_out and text in known):
                continue
            known.add(text)
            found.append(Example(text, text, style=str(number)))
        return found
