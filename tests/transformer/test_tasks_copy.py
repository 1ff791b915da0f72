"""Copying: any string over the alphabet, of any length up to the longest, and none of the held-out ones."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tinygrad_attn.errors import OptionError
from transformer.tasks import CopyConfig, CopyTask


def test_source_and_target_are_the_same_string_over_the_alphabet() -> None:
    task = CopyTask(CopyConfig(alphabet="xyz", max_length=5))
    for example in [*task.draw(np.random.default_rng(0), 500), *task.held_out(10)]:
        assert example.source == example.target
        assert set(example.source) <= set("xyz")
        assert 1 <= len(example.source) <= 5
    assert task.source_tokenizer.tokens[3:] == ["x", "y", "z"]


def test_every_length_comes_equally_often() -> None:
    lengths = Counter(len(example.source) for example in CopyTask().draw(np.random.default_rng(0), 8000))
    assert set(lengths) == set(range(1, 9))
    assert all(abs(count - 1000) < 200 for count in lengths.values())


def test_about_a_tenth_is_held_out_and_the_seed_chooses_which() -> None:
    texts = [f"{a}{b}{c}" for a in "abcdefghij" for b in "abcdefghij" for c in "abcdefghij"]
    first, second = ([CopyTask(CopyConfig(seed=seed)).is_held_out(text) for text in texts] for seed in (0, 1))
    assert 60 < sum(first) < 140
    assert first != second


def test_the_number_of_strings_is_right() -> None:
    assert CopyConfig(alphabet="abcde", max_length=3).strings == 5 + 25 + 125


@pytest.mark.parametrize(
    ("alphabet", "max_length", "message"),
    [
        ("aab", 8, "different"),
        ("a", 500, "two or more"),
        ("", 8, "two or more"),
        ("ab", 0, "max_length"),
        ("ab", 5, "62 str"),
    ],
)
def test_an_impossible_configuration_is_refused(alphabet: str, max_length: int, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        CopyConfig(alphabet=alphabet, max_length=max_length)


def test_held_out_strings_that_cannot_be_found_end_in_an_error() -> None:
    task = CopyTask(CopyConfig(alphabet="ab", max_length=6))
    task.is_held_out = lambda text: False  # type: ignore[method-assign]
    with pytest.raises(OptionError, match="found 0 held-out strings"):
        task.held_out(3)
