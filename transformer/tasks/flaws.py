"""Why a text is no date of the task: no such form, no such day, another weekday, or a year outside.

Each form is turned into a pattern that accepts what CLDR could write in it, also for days that no calendar has.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from babel import Locale
    from babel.dates import DateTimePattern

Forms = Mapping[tuple[str, str], tuple["DateTimePattern", "Locale"]]
Kind = Literal["form", "no_day", "weekday", "years"]


@dataclass(frozen=True)
class Flaw:
    """What is wrong with a written date.

    Args:
        kind: "form", it is written in none of the forms; "no_day", the calendar has no such day; "weekday", the day has
            another weekday; "years", it lies outside the range.
        day: the day that is meant, with "weekday" and "years".
        written: how `day` is rightly written in that form.
    """

    kind: Kind
    day: date | None = None
    written: str = ""


def find_flaw(text: str, forms: Forms, first: date, last: date) -> Flaw | None:
    """The first form that could have written the text decides.

    Args:
        text: a written date.
        forms: (language, style) to CLDR's pattern and locale.
        first, last: the range of days, both included.
    Returns:
        None if there is nothing wrong with it.
    """
    for pattern, locale in forms.values():
        found = _reader(pattern, locale).fullmatch(text)
        if found is not None:
            return _judge(text, found.groupdict(), pattern, locale, first, last)
    return Flaw("form")


def _judge(
    text: str, parts: dict[str, str | None], pattern: DateTimePattern, locale: Locale, first: date, last: date
) -> Flaw | None:
    year, day = int(parts["y"] or 0), int(parts["d"] or 0)
    month = next((int(name[1:]) for name, part in parts.items() if name[0] == "M" and name[1:] and part), 0)
    month = month or int(parts.get("M") or 0)
    if not 1 <= month <= 12 or not 1 <= day <= calendar.monthrange(year, month)[1]:
        return Flaw("no_day")
    meant = date(year, month, day)
    written = pattern.apply(meant, locale)
    if written != text:
        return Flaw("weekday", meant, written)
    return None if first <= meant <= last else Flaw("years", meant, written)


def _reader(pattern: DateTimePattern, locale: Locale) -> re.Pattern[str]:
    """What a form can look like: groups y and d, the month as number in M or as name in one of M1 to M12."""
    from babel.dates import parse_pattern, tokenize_pattern

    def names(letter: str, width: int, days: list[date]) -> list[str]:
        field = parse_pattern(letter * width)
        return [re.escape(field.apply(day, locale)) for day in days]

    parts = []
    for kind, value in tokenize_pattern(pattern.pattern):
        if kind == "chars" or isinstance(value, str):
            parts.append(re.escape(str(value)))
            continue
        letter, width = str(value[0]), int(value[1])
        if letter == "y":
            parts.append("(?P<y>[1-9][0-9]{3})" if width != 2 else "(?!)")  # a century left out is anyone's guess
        elif letter in "ML" and width > 2:
            months = names(letter, width, [date(2000, month, 1) for month in range(1, 13)])
            if all(name == f"{n}{months[0][1:]}" for n, name in enumerate(months, 1)):  # numbered, as in Korean
                parts.append(f"(?P<M>0|[1-9][0-9]?){months[0][1:]}")
            else:
                parts.append("(?:" + "|".join(f"(?P<M{n}>{name})" for n, name in enumerate(months, 1)) + ")")
        elif letter in "MLd":
            group = "d" if letter == "d" else "M"
            parts.append(f"(?P<{group}>" + ("[0-9]{2})" if width == 2 else "0|[1-9][0-9]?)"))
        else:
            parts.append("(?:" + "|".join(names(letter, width, [date(2000, 1, day) for day in range(1, 8)])) + ")")
    return re.compile("".join(parts))
