"""Dates: Babel is the oracle for what is written, `datetime` for what it means."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import require
from tinygrad_attn.errors import OptionError, VocabularyError
from transformer.tasks import DatesConfig, DatesTask
from transformer.tasks.dates import LANGUAGES, STYLES

babel_dates: Any = require("babel.dates")

TASK = DatesTask()
DAYS = st.dates(TASK.config.first, TASK.config.last)
FORMS = st.sampled_from(TASK.forms)


def every_day(config: DatesConfig) -> list[date]:
    return [config.first + timedelta(days=offset) for offset in range((config.last - config.first).days + 1)]


def oracle(day: date, language: str, style: str) -> str:
    if style in ("full", "long", "medium", "short"):
        return str(babel_dates.format_date(day, style, locale=language))
    return str(babel_dates.format_skeleton(style, day, locale=language))


@given(DAYS, FORMS)
def test_a_date_is_written_as_babel_writes_it(day: date, form: tuple[str, str]) -> None:
    assert TASK.write(day, *form) == oracle(day, *form)


@given(st.integers(0, 2**32 - 1))
def test_every_example_is_right(seed: int) -> None:
    for example in [*TASK.draw(np.random.default_rng(seed), 50), *TASK.held_out(50, seed)]:
        day = date.fromisoformat(example.target)
        assert TASK.config.first <= day <= TASK.config.last
        assert example.source == oracle(day, example.language, example.style)


def test_the_written_form_determines_the_day() -> None:
    meaning: dict[str, date] = {}
    for day in every_day(TASK.config):
        for form in TASK.forms:
            assert meaning.setdefault(TASK.write(day, *form), day) == day
    assert max(map(len, meaning)) == TASK.max_source_length
    assert set("".join(meaning)) == set(TASK.source_tokenizer.tokens[3:])


MORE_STYLES = ["full", "long", "medium", "short", "yMd", "yMMMd", "yMEd", "yM", "yMMM"]


@given(
    st.lists(st.sampled_from([*LANGUAGES, "sv", "hu", "ja", "zh", "pt"]), min_size=1, max_size=4, unique=True),
    st.lists(st.sampled_from(MORE_STYLES), min_size=1, max_size=4, unique=True),
    st.dates(date(1900, 1, 1), date(2060, 1, 1)),
    st.integers(366, 1000),
)
def test_forms_are_accepted_exactly_when_no_two_days_look_alike(
    languages: list[str], styles: list[str], first: date, length: int
) -> None:
    config = DatesConfig(first, first + timedelta(days=length), tuple(languages), tuple(styles))
    meaning: dict[str, date] = {}
    unique = all(
        meaning.setdefault(oracle(day, language, style), day) == day
        for day in every_day(config)
        for language in languages
        for style in styles
    )
    try:
        DatesTask(config)
    except OptionError as error:
        assert "written alike" in str(error) or "does not write year, month and day" in str(error)
        assert not unique
    else:
        assert unique


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            DatesConfig(languages=("en_US", "en_GB"), styles=("yMd",)),
            "'11/10/1950' would mean 1950-10-11 and 1950-11-10. Use only one of 'yMd' of en_US and 'yMd' of en_GB",
        ),
        (
            DatesConfig(languages=("fr",), styles=("yMMM",)),
            r"'yMMM' of fr \('janv. 1950'\) does not write year, month and day",
        ),
        (
            DatesConfig(last=date(2050, 1, 1), languages=("de",), styles=("short",)),
            "'01.01.50'.* leaves out the century",
        ),
    ],
)
def test_an_ambiguous_choice_is_refused_with_its_reason(config: DatesConfig, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        DatesTask(config)


def test_a_century_may_be_left_out_where_the_range_gives_it() -> None:
    task = DatesTask(DatesConfig(languages=("ko", "de"), styles=("short",)))
    assert [reading.target for reading in task.readings("49. 9. 30.")] == ["2049-09-30"]
    assert [reading.target for reading in task.readings("30.09.50")] == ["1950-09-30"]


@given(
    st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    st.integers(1, 500),
    st.floats(0.001, 0.999),
    st.integers(0, 2**32 - 1),
)
def test_training_days_and_held_out_days_share_none_and_miss_none(
    first: date, length: int, share: float, seed: int
) -> None:
    config = DatesConfig(first, first + timedelta(days=length), ("ko",), ("long",), share, seed)
    task = DatesTask(config)
    train, held_out = set(task.train_days.tolist()), set(task.held_out_days.tolist())
    assert train
    assert held_out
    assert not train & held_out
    assert train | held_out == {day.toordinal() for day in every_day(config)}
    assert abs(len(held_out) - share * (length + 1)) <= 1


def test_a_held_out_day_is_held_out_in_every_language_and_style() -> None:
    shown = {example.target for example in TASK.draw(np.random.default_rng(0), 20_000)}
    held_out = TASK.held_out(20_000)
    assert not shown & {example.target for example in held_out}
    assert {(example.language, example.style) for example in held_out} == set(TASK.forms)


def test_the_split_depends_on_days_and_seed_alone() -> None:
    other = DatesTask(DatesConfig(languages=("de",), styles=("long",)))
    np.testing.assert_array_equal(other.held_out_days, TASK.held_out_days)
    assert DatesTask(DatesConfig(seed=1)).held_out_days.tolist() != TASK.held_out_days.tolist()


def test_languages_and_styles_come_equally_often() -> None:
    examples = TASK.draw(np.random.default_rng(0), 20_000)
    for form in TASK.forms:
        count = sum((example.language, example.style) == form for example in examples)
        assert abs(count - 1000) < 150  # five standard deviations
    assert {form[0] for form in TASK.forms} == set(LANGUAGES)
    assert {form[1] for form in TASK.forms} == set(STYLES)


@given(st.dates(date(1000, 1, 1), date(9999, 12, 31)), FORMS)
def test_the_vocabulary_and_the_longest_length_hold_for_any_year(day: date, form: tuple[str, str]) -> None:
    text = oracle(day, *form)
    assert TASK.source_tokenizer.decode(TASK.source_tokenizer.encode(text)) == text
    assert len(text) <= TASK.max_source_length
    assert TASK.target_tokenizer.decode(TASK.target_tokenizer.encode(day.isoformat())) == day.isoformat()


@given(DAYS, FORMS)
def test_what_the_task_writes_is_normal_already(day: date, form: tuple[str, str]) -> None:
    assert TASK.normalise(TASK.write(day, *form)) == TASK.write(day, *form)


@given(DAYS, FORMS, st.sampled_from([" ", "\u00a0", "\u202f", "\t", "  ", " \u200b"]), st.booleans())
def test_unusual_spaces_and_case_are_read(day: date, form: tuple[str, str], space: str, shout: bool) -> None:
    written = TASK.write(day, *form)
    typed = space + written.replace(" ", space) + "\n"
    wanted = {form_and_day.target for form_and_day in TASK.readings(written)}
    if shout and form[1] in ("full", "long"):  # abbreviations shared by two languages may go to the other one
        typed = typed.upper()
        assert TASK.normalise(typed).casefold() == written.casefold()
    else:
        assert TASK.normalise(typed) == written
        assert {reading.target for reading in TASK.readings(typed)} == wanted == {day.isoformat()}


@given(st.text(max_size=40))
def test_normalising_any_text_twice_changes_nothing_more(text: str) -> None:
    once = TASK.normalise(text)
    assert TASK.normalise(once) == once


@pytest.mark.parametrize(
    ("typed", "normal"),
    [
        ("２０２６년　１２월　１일", "2026년 12월 1일"),
        ("DÉCEMBRE", "décembre"),
        ("de\u0301cembre", "décembre"),
        ("dienstag, 1. DEZEMBER 2026", "Dienstag, 1. Dezember 2026"),
        ("MAR", "Mar"),  # March in English before mardi in French: English comes first
        ("mar.", "mar."),  # and mardi stays mardi
        ("hello", "hello"),
        ("", ""),
    ],
)
def test_typed_text_comes_nearer_to_what_cldr_writes(typed: str, normal: str) -> None:
    assert TASK.normalise(typed) == normal


def test_a_character_that_no_date_has_is_named() -> None:
    with pytest.raises(VocabularyError, match=r"'x' \(U\+0078 LATIN SMALL LETTER X\) at position 0"):
        TASK.source_tokenizer.encode(TASK.normalise("x 2026"))


@pytest.mark.parametrize("text", ["", "no date", "31 February 2026", "1 May 1949", "2026-12-01", "9" * 10_000])
def test_what_is_no_date_of_the_task_has_no_reading(text: str) -> None:
    assert TASK.readings(text) == []


@pytest.mark.parametrize(
    ("text", "kind", "written"),
    [
        ("February 30, 2020", "no_day", ""),
        ("30. Februar 2020", "no_day", ""),
        ("2026년 13월 1일", "no_day", ""),
        ("31 AVRIL 2026", "no_day", ""),
        ("29 February 2023", "no_day", ""),
        ("0 May 2026", "no_day", ""),
        ("Monday, December 1, 2026", "weekday", "Tuesday, December 1, 2026"),
        ("2026년 12월 1일 월요일", "weekday", "2026년 12월 1일 화요일"),
        ("December 1, 1800", "years", "December 1, 1800"),
        ("mercredi 1 décembre 2049", None, ""),
        ("1 May 2050", "years", "1 May 2050"),
        ("2026-12-01", "form", ""),
        ("December 1, 26", "form", ""),
        ("hello", "form", ""),
        ("", "form", ""),
    ],
)
def test_what_is_wrong_with_a_date_is_told_apart(text: str, kind: str | None, written: str) -> None:
    flaw = TASK.flaw(text)
    assert (flaw and flaw.kind) == kind
    assert flaw is None or flaw.written == written


@given(st.dates(date(1000, 1, 1), date(9999, 12, 31)), st.sampled_from(TASK.forms))
def test_only_days_outside_the_range_are_called_so(day: date, form: tuple[str, str]) -> None:
    flaw = TASK.flaw(TASK.write(day, *form))
    if TASK.config.first <= day <= TASK.config.last:
        assert flaw is None
    else:
        assert flaw is not None and (flaw.kind, flaw.day) == ("years", day)


def test_a_text_that_two_languages_write_has_both_readings() -> None:
    readings = DatesTask(DatesConfig(styles=("short",))).readings("01/12/2026")
    assert {(reading.language, reading.target) for reading in readings} == {
        ("en_GB", "2026-12-01"),
        ("fr", "2026-12-01"),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": date(2000, 1, 1), "last": date(2000, 1, 1)}, "two days or more"),
        ({"first": date(2000, 1, 2), "last": date(2000, 1, 1)}, "first < last"),
        ({"first": date(999, 1, 1)}, "four digits"),
        ({"languages": ()}, "languages: expected a tuple"),
        ({"languages": ("ko", "ko")}, "languages: expected a tuple of one or more different"),
        ({"styles": "full"}, "styles: expected a tuple"),
        ({"held_out_fraction": 0.0}, "held_out_fraction"),
        ({"held_out_fraction": 1.0}, "held_out_fraction"),
        ({"held_out_fraction": float("nan")}, "held_out_fraction"),
        ({"languages": ("tlh",)}, "no language 'tlh'"),
        ({"languages": ("en-US",)}, "no language 'en-US'"),
        ({"languages": ("",)}, "no language ''"),
        ({"styles": ("fancy",)}, "no date style 'fancy' for ko; it has full, long"),
    ],
)
def test_an_impossible_configuration_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        DatesTask(DatesConfig(**options))


def test_a_form_outside_the_task_is_refused() -> None:
    with pytest.raises(OptionError, match="no form"):
        TASK.write(date(2026, 12, 1), "ko", "short")


def test_other_languages_of_cldr_work_too() -> None:
    task = DatesTask(DatesConfig(languages=("ja", "es", "pt_BR", "tr", "ar", "hi", "ru"), styles=("full", "long")))
    for example in task.draw(np.random.default_rng(0), 200):
        assert example.source == oracle(date.fromisoformat(example.target), example.language, example.style)
        assert task.source_tokenizer.encode(example.source)
        assert task.normalise(example.source) == example.source
