"""Copying: random letters → the same letters.

The smallest task that needs cross-attention, for examples and quick tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from tinygrad_attn.errors import OptionError
from transformer.tasks.base import Example, Task, check_count
from transformer.tokenizer import CharTokenizer


@dataclass(frozen=True)
class CopyConfig:
    """Which strings are copied.

    Args:
        alphabet: the characters to draw from, two or more, each once.
        max_length: strings have 1 to `max_length` characters, each length equally often.
        seed: chooses the strings that are held out, about one in ten of each length.
    Raises:
        OptionError: an alphabet with repeats or of one letter, a length below 1, or fewer than 100 strings in all.
    """

    alphabet: str = "abcdefghijklmnopqrstuvwxyz"
    max_length: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if len(set(self.alphabet)) != len(self.alphabet) or len(self.alphabet) < 2:
            raise OptionError(f"alphabet: expected two or more different characters, and got {self.alphabet!r}")
        if self.max_length < 1:
            raise OptionError(f"max_length is {self.max_length}: expected 1 or more")
        if self.strings < 100:
            raise OptionError(
                f"only {self.strings} strings exist, expected 100: take more letters or a larger max_length"
            )

    @property
    def strings(self) -> int:
        """How many different strings there are, held-out ones included."""
        return sum(len(self.alphabet) ** length for length in range(1, self.max_length + 1))


class CopyTask(Task):
    """Random strings and themselves, character by character.

    Whether a string is held out is decided by a hash of it, so training and held-out strings never meet, however many
    are drawn.

    >>> task = CopyTask(CopyConfig(alphabet="abc", max_length=6))
    >>> batch = task.sample(np.random.default_rng(0), batch_size=4)
    >>> all(source == target for source, target in batch.texts)
    True
    """

    def __init__(self, config: CopyConfig | None = None) -> None:
        self.config = config = CopyConfig() if config is None else config
        self.source_tokenizer = self.target_tokenizer = CharTokenizer.build([config.alphabet])
        self.max_source_length = config.max_length
        self.max_target_length = config.max_length + 1

    def is_held_out(self, text: str) -> bool:
        """Whether training never shows this string."""
        key = f"{self.config.seed}:{text}".encode()
        return blake2b(key, digest_size=1).digest()[0] < 26  # 26 of 256 are about one in ten

    def draw(self, rng: np.random.Generator, n: int) -> list[Example]:
        """`n` random training examples."""
        examples: list[Example] = []
        while len(examples) < n:
            text = self._random_text(rng)
            if not self.is_held_out(text):
                examples.append(Example(text, text))
        return examples

    def held_out(self, n: int, seed: int = 0) -> list[Example]:
        """`n` different strings that training never shows; the same ones for the same seed.

        Raises:
            OptionError: more than a twentieth of all strings are asked for.
        """
        check_count(n, self.config.strings // 20, "held-out strings")
        rng = np.random.default_rng(seed)
        found: dict[str, None] = {}
        for _ in range(1000 * n):
            text = self._random_text(rng)
            if self.is_held_out(text):
                found[text] = None
            if len(found) == n:
                return [Example(text, text) for text in found]
        raise OptionError(f"found {len(found)} held-out strings, not {n}: ask for fewer, or take a larger max_length")

    def _random_text(self, rng: np.random.Generator) -> str:
        length = rng.integers(1, self.config.max_length + 1)
        letters = rng.integers(len(self.config.alphabet), size=length)
        return "".join(self.config.alphabet[letter] for letter in letters)
