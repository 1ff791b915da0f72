"""A replay fits a terminal, whatever the names are, and says what a reader of numbers needs."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.viz.test_replay import leaf
from tinygrad_attn.errors import OptionError
from viz.escape import display_width
from viz.replay import Replay, replay
from viz.replay_text import array_block


def shared(name: str, shape: tuple[int, ...] = (2, 2), loss: str = "L") -> Replay:
    x = leaf(np.linspace(-1.0, 2.0, int(np.prod(shape))).reshape(shape), name)
    out = (x * x + x).sum()
    out.name = loss
    return replay(out)


names = st.one_of(
    st.text(max_size=60), st.sampled_from(["입력 텐서 이름이 아주 깁니다 정말로", "x\ny\tz", "e\u0301" * 40, "🙂" * 30])
)


@given(names, names, st.integers(40, 120), st.sampled_from([(), (3,), (2, 6), (2, 2, 2), (50, 50), (0, 3), (4, 9)]))
def test_no_line_is_wider_than_the_terminal(name: str, loss: str, width: int, shape: tuple[int, ...]) -> None:
    for line in shared(name, shape, loss).text(width).split("\n"):
        assert display_width(line) <= width
        assert line == line.rstrip() and not {unicodedata.category(c) for c in line} & {"Cc", "Cs"}


@pytest.mark.parametrize("width", [39, 0, -1, True, 80.0, "80"])
def test_a_terminal_that_is_no_terminal_is_an_error(width: object) -> None:
    with pytest.raises(OptionError, match="width"):
        shared("x").text(width)  # type: ignore[arg-type]


def test_the_sums_before_and_after_stand_there() -> None:
    a = leaf(3.0, "a")
    text = str(replay(a * a))
    assert "∂L/∂a: ∂?  →  3   1 of 2, more to come" in text
    assert "∂L/∂a: 3 + 3 = 6   2 of 2, complete" in text
    assert "→ a (b)   db = dy ∘ a" in text
    assert "By differences: all 2 derivatives agree" in text


def test_how_a_tensor_was_made_stands_above_its_step() -> None:
    x = leaf([[1.0, 2.0]], "x")
    text = str(replay(ta.masked_fill(x, np.array([[False, True]]), value=-1.0)[0, 0] / 2.0))
    assert "= masked_fill(x, mask, value=−1)" in text
    assert ", 2)" in text and "getitem(n" in text


def test_large_arrays_are_summed_up() -> None:
    text = shared("x", (50, 50)).text()
    assert "mean 2, min −1, max 5" in text and len(text.splitlines()) < 40


def test_hooks_that_were_not_called_are_named() -> None:
    x = leaf(1.0, "x")
    x.register_hook(lambda gradient: None)
    assert "Hooks were not called: x." in str(replay(x * 2.0))


def test_numbers_are_written_as_asked() -> None:
    a = leaf(0.5, "a")
    recorded = replay(a * a, number=lambda value: f"<{value:.1f}>")
    assert "∂L/∂a: <0.5> + <0.5> = <1.0>" in recorded.text()


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        (np.array(2.5), ["2.5"]),
        (np.array([1.0, -10.0]), ["[1  −10]"]),
        (np.array([[1.0], [2.0], [30.0]]), ["⎡ 1⎤", "⎢ 2⎥", "⎣30⎦"]),
        (np.arange(4.0).reshape(2, 1, 2), ["[0  1]", "      ", "[2  3]"]),
    ],
)
def test_small_arrays_stand_in_brackets_with_aligned_columns(values: np.ndarray, lines: list[str]) -> None:
    assert array_block(values) == lines
