"""What is printed fits 80 columns, lines up, and has colours only where they are wanted."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.lessons.dates import DatesLesson
from transformer.lessons.decoder_loop import DecoderLoop, LoopStep, run_decoder_loop
from transformer.lessons.terminal import has_colours, loop_table, pad, score_table, source_line, sparkline, table
from transformer.tasks import Score
from transformer.training import Trainer
from viz.escape import display_width

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Mn", "Me", "Mc", "Cf"]), max_size=12)


@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=5))
def test_columns_line_up_whatever_stands_in_them(rows: list[tuple[str, str, str]]) -> None:
    lines = table(["a", "b", "c"], [[*row[:2], "|"] for row in rows], width=10_000).splitlines()
    assert len({display_width(line[: line.rindex("|")]) for line in lines[1:]}) == 1


@given(st.lists(st.lists(words, min_size=3, max_size=3), max_size=3), st.integers(10, 80))
def test_tables_are_never_wider_than_the_terminal(rows: list[list[str]], width: int) -> None:
    assert all(display_width(line) <= width for line in table(["a", "b", "c"], rows, width=width).splitlines())


def test_hangul_counts_as_two_columns() -> None:
    assert display_width(pad("화요일", 10)) == 10


@given(st.lists(st.floats(0, 1e6), max_size=60), st.integers(1, 30))
def test_a_sparkline_is_as_long_as_it_may_be(values: list[float], width: int) -> None:
    assert len(sparkline(values, width)) == min(width, len(values))


def test_a_falling_loss_falls() -> None:
    assert sparkline([10.0**-i for i in range(8)], width=8) == "█▇▆▅▄▃▂▁"


@pytest.mark.parametrize(
    "text", ["2026년 12월 31일 수요일", "Wednesday, September 30, 2026", "Donnerstag, 27. September 2035", "3 Mar 1987"]
)
def test_the_loop_fits_the_terminal_in_every_language(trainer: Trainer, text: str) -> None:
    loop = run_decoder_loop(trainer.model, trainer.task, text)
    printed = loop_table(loop)
    assert all(display_width(line) <= 80 for line in printed.splitlines())
    assert len(printed.splitlines()) == len(loop.steps) + 1
    assert "\x1b" not in printed and "…" not in printed.splitlines()[1][50:]


def test_the_loop_shows_where_the_last_layer_looks_most(lesson: DatesLesson) -> None:
    loop = lesson.loop
    for line, weights in zip(loop_table(loop).splitlines()[1:], loop.last_layer(), strict=True):
        most = int(np.argmax(weights))
        expected = "".join(f"[{t}]" if i == most else t for i, t in enumerate(loop.source))
        assert line.endswith(expected)


def test_long_sources_of_words_are_shortened_visibly() -> None:
    source = tuple(f"word{i}" for i in range(30))
    step = LoopStep(
        ("<Start of Sentence>",), (("a long answer", 1.0),), np.ones((1, 1, 1)), np.full((1, 1, 30), 1 / 30)
    )
    loop = DecoderLoop(source, np.zeros((30, 4)), (step, step), "a long answer", True)
    lines = loop_table(loop, colours=True).splitlines()
    assert all(display_width(line) <= 80 for line in lines)
    assert lines[1].endswith("…")


def test_control_characters_in_tokens_are_made_visible() -> None:
    assert "\x1b" not in source_line(["\x1b[2J", "a"], [0.1, 0.9], colours=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_go_to_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert has_colours(Terminal())
    assert not has_colours(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colours(Terminal())


def test_scores_are_added_up() -> None:
    printed = score_table({"ko": Score(1, 2), "de": Score(2, 2)}, {"ko": "5월"})
    assert printed.splitlines()[-1].split() == ["all", "3/4", "75.0", "%"]
