"""What a sequence-to-sequence task offers to training and lessons: examples, batches, and a score.

A task knows how to write examples; which model learns them is not its business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import OptionError
from transformer.tokenizer import Tokenizer


@dataclass(frozen=True)
class Example:
    """One source text with its right answer.

    Args:
        source: what the encoder reads.
        target: what the decoder should say.
        language: code of the source's language, such as "ko" or "en_GB", or "" where there is none.
        style: the manner the source is written in, such as "full", or "" where there is none.
    """

    source: str
    target: str
    language: str = ""
    style: str = ""


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples as arrays, all int64 and padded on the right with the tokenizers' `pad_id`.

    Args:
        src: (batch, source_len), ids of the sources.
        src_lengths: (batch,), tokens of each source.
        tgt_in: (batch, target_len), what the decoder reads: start id, then the target.
        tgt_out: (batch, target_len), what it should say: the target, then the end id. This is `tgt_in` one step later.
        tgt_lengths: (batch,), tokens of each row of `tgt_in`, and so of `tgt_out`.
        examples: the texts behind the rows.
    """

    src: NDArray[np.int64]
    src_lengths: NDArray[np.int64]
    tgt_in: NDArray[np.int64]
    tgt_out: NDArray[np.int64]
    tgt_lengths: NDArray[np.int64]
    examples: tuple[Example, ...]

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Source and target text of each row."""
        return [(example.source, example.target) for example in self.examples]

    def __len__(self) -> int:
        return len(self.examples)


class Task(ABC):
    """Sources, targets, and two tokenizers whose vocabularies hold everything the task can write.

    A subclass sets `source_tokenizer`, `target_tokenizer`, `max_source_length` (tokens of the longest source) and
    `max_target_length` (tokens of the longest `tgt_in`, its start id counted), and says how to draw examples.
    """

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    max_source_length: int
    max_target_length: int

    @abstractmethod
    def draw(self, rng: np.random.Generator, n: int) -> list[Example]:
        """`n` random training examples."""

    @abstractmethod
    def held_out(self, n: int, seed: int = 0) -> list[Example]:
        """`n` different examples that training never shows; the same ones for the same seed.

        Raises:
            OptionError: fewer than `n` exist.
        """

    def sample(self, rng: np.random.Generator, batch_size: int) -> Batch:
        """A batch of random training examples."""
        return self.encode(self.draw(rng, batch_size))

    def batches(self, rng: np.random.Generator, batch_size: int, steps: int) -> Iterator[Batch]:
        """`steps` batches of random training examples, each made when it is asked for."""
        for _ in range(steps):
            yield self.sample(rng, batch_size)

    def encode(self, examples: Sequence[Example]) -> Batch:
        """The arrays of some examples, for training or for teacher-forced evaluation."""
        targets = [example.target for example in examples]
        src, src_lengths = self.source_tokenizer.encode_batch([example.source for example in examples])
        tgt_in, tgt_lengths = self.target_tokenizer.encode_batch(targets, start=True)
        tgt_out, _ = self.target_tokenizer.encode_batch(targets, end=True)
        return Batch(src, src_lengths, tgt_in, tgt_out, tgt_lengths, tuple(examples))


@dataclass(frozen=True)
class Score:
    """How many answers were exactly right.

    >>> str(Score(99, 100))
    '99/100 (99.0 %)'
    """

    right: int
    total: int

    @property
    def accuracy(self) -> float:
        """Share of exactly right answers, from 0 to 1."""
        return self.right / self.total if self.total else 0.0

    def __str__(self) -> str:
        return f"{self.right}/{self.total} ({100 * self.accuracy:.1f} %)"


def score(
    examples: Sequence[Example], answers: Sequence[str], *, by: Literal["language", "style", "all"] = "all"
) -> dict[str, Score]:
    """Exact matches, all together or apart by language or style.

    Args:
        examples: what was asked.
        answers: what the model said, in the same order.
        by: "language" or "style" for one score per value, sorted by name; "all" for the one key "all".
    Raises:
        OptionError: another number of answers than of examples.

    >>> asked = [Example("1 May 2026", "2026-05-01", "en_GB"), Example("1 mai 2026", "2026-05-01", "fr")]
    >>> {language: str(s) for language, s in score(asked, ["2026-05-01", "2026-03-01"], by="language").items()}
    {'en_GB': '1/1 (100.0 %)', 'fr': '0/1 (0.0 %)'}
    """
    if len(examples) != len(answers):
        raise OptionError(f"expected an answer per example, and got {len(answers)} for {len(examples)} examples")
    rights: dict[str, list[bool]] = {}
    for example, answer in zip(examples, answers, strict=True):
        key = {"language": example.language, "style": example.style, "all": "all"}[by]
        rights.setdefault(key, []).append(answer == example.target)
    return {key: Score(sum(rights[key]), len(rights[key])) for key in sorted(rights)}


def check_count(n: int, available: int, what: str) -> None:
    """Raise OptionError unless 1 ≤ n ≤ available."""
    if not 1 <= n <= available:
        raise OptionError(f"asked for {n} {what}: expected 1 to {available}")
