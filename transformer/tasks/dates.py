"""Dates as people write them in five languages → ISO 8601.

The written forms are those of the Unicode CLDR, through Babel: "2026년 12월 1일 화요일", "Tue, Dec 1, 2026",
"1. Dezember 2026". Nothing is invented here, so a model trained on this task reads real dates.

The task is well-posed: a written date means one day. CLDR's styles "full", "long" and "medium" and its skeleton
"yMMMEd" (weekday and month abbreviated) write four-digit years and, wherever two languages could disagree about day and
month, the month's name. Style "short" is left out unless asked for: "3/4/05" is 4 March in the United States and
3 April in Britain, and its century is anyone's guess. Whatever is asked for is checked, and forms in which two days
would look alike are refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import MissingExtraError, OptionError
from transformer.tasks.base import Example, Task, check_count
from transformer.tasks.flaws import Flaw, find_flaw
from transformer.tokenizer import CharTokenizer

if TYPE_CHECKING:
    from babel import Locale
    from babel.dates import DateTimePattern

LANGUAGES = ("ko", "en_US", "en_GB", "de", "fr")
STYLES = ("full", "long", "medium", "yMMMEd")


@dataclass(frozen=True)
class DatesConfig:
    """Which dates, in which languages and styles.

    Args:
        first, last: the range of days, both included, in years 1000 to 9999 (ISO 8601 writes four digits).
        languages: CLDR locales.
        styles: "full", "long", "medium", "short", or a CLDR date skeleton such as "yMMMEd".
        held_out_fraction: share of the days that training never shows, in any language or style.
        seed: chooses which days are held out.
    Raises:
        OptionError: an empty or impossible choice; the message says which.

    >>> DatesConfig(languages=("ko",)).styles
    ('full', 'long', 'medium', 'yMMMEd')
    """

    first: date = date(1950, 1, 1)
    last: date = date(2049, 12, 31)
    languages: tuple[str, ...] = LANGUAGES
    styles: tuple[str, ...] = STYLES
    held_out_fraction: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.first >= self.last:
            raise OptionError(f"expected first < last (two days or more), and got {self.first} and {self.last}")
        if self.first.year < 1000:
            raise OptionError(f"first is {self.first}: years must have four digits, 1000 to 9999")
        for name, values in (("languages", self.languages), ("styles", self.styles)):
            if not isinstance(values, tuple) or not values or len(set(values)) != len(values):
                raise OptionError(f"{name}: expected a tuple of one or more different names, and got {values!r}")
        if not 0 < self.held_out_fraction < 1:
            raise OptionError(f"held_out_fraction is {self.held_out_fraction}: expected a share between 0 and 1")


class DatesTask(Task):
    """Random written dates and their ISO 8601 form, character by character.

    Days are split into training and held-out days once, by `config.seed`; no held-out day is ever written for training,
    in any language. Both vocabularies hold every character that the task can write, also for days outside the range.

    Args:
        config: which dates, languages and styles.
    Raises:
        MissingExtraError: Babel is not installed.
        OptionError: CLDR has no such language or style, or two days would be written alike.

    >>> task = DatesTask()
    >>> task.write(date(2026, 12, 1), "ko", "full"), task.write(date(2026, 9, 1), "de", "yMMMEd")
    ('2026년 12월 1일 화요일', 'Di., 1. Sept. 2026')
    >>> batch = task.sample(np.random.default_rng(0), batch_size=64)
    >>> batch.tgt_in.shape, task.target_tokenizer.tokens_of(batch.tgt_in[0, :3])
    ((64, 11), ['<Start of Sentence>', '2', '0'])
    """

    def __init__(self, config: DatesConfig | None = None) -> None:
        self.config = config = DatesConfig() if config is None else config
        self.forms = tuple((language, style) for language in config.languages for style in config.styles)
        self._patterns = {form: _cldr_pattern(*form) for form in self.forms}
        _check_well_posed(self._patterns, config.first, config.last)
        self.train_days, self.held_out_days = _split_days(config)

        written = [self.write(day, *form) for form in self.forms for day in _covering_days()]
        self.source_tokenizer = CharTokenizer.build([*written, "0123456789"])
        self.target_tokenizer = CharTokenizer.build(["0123456789-"])
        self.max_source_length = max(len(self.source_tokenizer.encode(text)) for text in written)
        self.max_target_length = len("YYYY-MM-DD") + 1
        self._words = {word: None for text in written for word in _WORD.findall(text)}  # a set that keeps the order
        self._spelling = {word.casefold(): word for word in reversed(self._words)}  # the first spelling wins

    def write(self, day: date, language: str, style: str) -> str:
        """The day as CLDR writes it; the same as `babel.dates.format_date`.

        Raises:
            OptionError: the task has no such language or style.
        """
        pattern = self._patterns.get((language, style))
        if pattern is None:
            raise OptionError(f"no form ({language!r}, {style!r}): the task has {', '.join(map(str, self.forms))}")
        return pattern[0].apply(day, pattern[1])

    def draw(self, rng: np.random.Generator, n: int) -> list[Example]:
        """`n` random training examples: day, language and style drawn independently, each evenly."""
        days = self.train_days[rng.integers(len(self.train_days), size=n)]
        forms = rng.integers(len(self.forms), size=n)
        return [self._example(day, form) for day, form in zip(days.tolist(), forms.tolist(), strict=True)]

    def held_out(self, n: int, seed: int = 0) -> list[Example]:
        """`n` different examples (day, language and style) of held-out days; the same ones for the same seed.

        Raises:
            OptionError: fewer than `n` exist.
        """
        available = len(self.held_out_days) * len(self.forms)
        check_count(n, available, "held-out dates")
        chosen = np.random.default_rng(seed).choice(available, size=n, replace=False)
        days, forms = np.divmod(chosen, len(self.forms))
        return [self._example(int(self.held_out_days[day]), int(form)) for day, form in zip(days, forms, strict=True)]

    def normalise(self, text: str) -> str:
        """What a person typed, nearer to what CLDR writes.

        Unusual spaces and full-width digits become the plain ones, invisible characters go, runs of spaces become one,
        and a word that differs from a word of the task in case only gets the task's case (that of the first language
        that has it). What the task itself writes stays as it is.

        >>> DatesTask().normalise("  DECEMBER\\u00a01,  ２０２６ ")
        'December 1, 2026'
        """
        text = unicodedata.normalize("NFC", text)
        text = re.sub(" +", " ", "".join(self._plain(character) for character in text)).strip(" ")
        return _WORD.sub(self._respell, unicodedata.normalize("NFC", text))

    def readings(self, text: str) -> list[Example]:
        """Every day, language and style of the task that writes exactly this text: the right answer without a model.

        Args:
            text: a written date; `normalise` is applied to it.
        Returns:
            Examples with the target they share, or nothing when no form writes the text.

        >>> [(r.target, r.language, r.style) for r in DatesTask().readings("1 MAR 2026")]
        [('2026-03-01', 'en_GB', 'medium')]
        """
        text = self.normalise(text)
        numbers = set(re.findall("[0-9]+", text))  # every form writes the day and the year, the latter perhaps in part
        years = range(self.config.first.year, self.config.last.year + 1)
        days = [day for year in years if numbers & {str(year), f"{year % 100:02}"} for day in self._days_of(year)]
        days = [day for day in days if numbers & {str(day.day), f"{day.day:02}"}]
        found = [(day, form) for day in days for form in self.forms if self.write(day, *form) == text]
        return [Example(text, day.isoformat(), *form) for day, form in found]

    def flaw(self, text: str) -> Flaw | None:
        """Why `readings` finds nothing: the reason that a reader can do something about.

        Args:
            text: a written date; `normalise` is applied to it.
        Returns:
            None if the text has a reading.

        >>> task = DatesTask()
        >>> task.flaw("February 30, 2020").kind, task.flaw("December 1, 1800").kind, task.flaw("2026-12-01").kind
        ('no_day', 'years', 'form')
        >>> task.flaw("Monday, December 1, 2026").written
        'Tuesday, December 1, 2026'
        """
        if self.readings(text):
            return None
        return find_flaw(self.normalise(text), self._patterns, self.config.first, self.config.last)

    def _example(self, ordinal: int, form: int) -> Example:
        day = date.fromordinal(ordinal)
        language, style = self.forms[form]
        return Example(self.write(day, language, style), day.isoformat(), language, style)

    def _days_of(self, year: int) -> Iterator[date]:
        first, last = max(self.config.first, date(year, 1, 1)), min(self.config.last, date(year, 12, 31))
        return (date.fromordinal(ordinal) for ordinal in range(first.toordinal(), last.toordinal() + 1))

    def _plain(self, character: str) -> str:
        if character in self.source_tokenizer:
            return character
        if character.isspace():
            return " "
        if unicodedata.category(character) == "Cf":  # joiners, direction marks and the like: nothing to see
            return ""
        return unicodedata.normalize("NFKC", character)

    def _respell(self, word: re.Match[str]) -> str:
        typed = word.group()
        return typed if typed in self._words else self._spelling.get(typed.casefold(), typed)


_WORD = re.compile(r"[^\W\d_]+")


def _cldr_pattern(language: str, style: str) -> tuple[DateTimePattern, Locale]:
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError as error:
        raise MissingExtraError(
            "the dates task needs Babel for CLDR's date patterns: python -m pip install 'tinygrad-attn[lesson]'"
        ) from error
    try:
        locale = Locale.parse(language)
    except (UnknownLocaleError, ValueError, TypeError) as error:
        raise OptionError(f"no language {language!r} in CLDR: give a locale such as {', '.join(LANGUAGES)}") from error
    pattern = locale.date_formats.get(style) or locale.datetime_skeletons.get(style)
    if pattern is None:
        skeletons = [key for key in map(str, locale.datetime_skeletons) if "y" in key and "d" in key]
        known = ", ".join(["full", "long", "medium", "short", *sorted(skeletons)])
        raise OptionError(f"CLDR has no date style {style!r} for {language}; it has {known}")
    return pattern, locale


def _split_days(config: DatesConfig) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ordinals = np.arange(config.first.toordinal(), config.last.toordinal() + 1, dtype=np.int64)
    held_out = min(max(1, round(config.held_out_fraction * len(ordinals))), len(ordinals) - 1)
    shuffled = np.random.default_rng(config.seed).permutation(ordinals)
    return np.sort(shuffled[held_out:]), np.sort(shuffled[:held_out])


def _covering_days() -> list[date]:
    """Days that show every month with every weekday, with one-digit and with two-digit days: all words, all lengths."""
    starts = [date(2000, month, day) for month in range(1, 13) for day in (1, 22)]
    return [start + timedelta(days=offset) for start in starts for offset in range(7)]


def _check_well_posed(patterns: dict[tuple[str, str], tuple[DateTimePattern, Locale]], first: date, last: date) -> None:
    """Refuse forms in which two days of the range could look alike.

    A form alone must write year, month and day, and all of the year where the range is longer than a century. Two forms
    can then only collide by exchanging numbers: the same shape in another order, as M/d/y and d/M/y. Those are tried on
    every day of a century, after which nothing new can happen.
    """
    beyond_a_century = (last.year - 100, last.month, last.day) >= (first.year, first.month, first.day)
    shapes: dict[str, list[tuple[str, str]]] = {}
    orders: dict[str, set[str]] = {}
    for form, (pattern, locale) in patterns.items():
        named = f"style {form[1]!r} of {form[0]} ({pattern.apply(first, locale)!r})"
        shape, order = _shape_and_order(pattern)
        if not {"d", "M"} <= set(order) or not {"y", "c"} & set(order):
            raise OptionError(f"{named} does not write year, month and day")
        if "c" in order and beyond_a_century:
            raise OptionError(f"{named} leaves out the century: expected 100 years at most, and got {first} to {last}")
        shapes.setdefault(shape, []).append(form)
        orders.setdefault(shape, set()).add(order)

    days = range(first.toordinal(), min(last.toordinal(), first.toordinal() + 36524) + 1)
    for rivals in (forms for shape, forms in shapes.items() if len(orders[shape]) > 1):
        meaning: dict[str, date] = {}
        for day, form in product(map(date.fromordinal, days), rivals):
            pattern, locale = patterns[form]
            text = pattern.apply(day, locale)
            other = meaning.setdefault(text, day)
            if other != day:
                names = " and ".join(f"{style!r} of {language}" for language, style in rivals)
                raise OptionError(
                    f"two days would be written alike: {text!r} would mean {other} and {day}. Use only one of {names}"
                )


def _shape_and_order(pattern: DateTimePattern) -> tuple[str, str]:
    """What a pattern looks like with 0 for every number, and the order of its fields: d.MM.yy gives 0.0.0 and dMc."""
    from babel.dates import tokenize_pattern

    shape = order = ""
    for kind, value in tokenize_pattern(pattern.pattern):
        if kind == "chars" or isinstance(value, str):
            shape += str(value)
            continue
        letter, width = value
        letter = "M" if letter == "L" else letter  # both are the month
        shape += letter if letter == "M" and int(width) > 2 else "0" if letter in "yMd" else letter
        order += "c" if letter == "y" and int(width) == 2 else letter  # c: year of the century
    return shape, order
