"""The first page of a folder of lessons: its chapters, those that are there and how to make the others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tinygrad_attn
from viz.page import Words, markup_type, render_page

TEMPLATES = Path(__file__).parent / "templates"
LANGUAGES = ("en", "ko")

# Every chapter's page, in the order in which they are read.
PAGES = {
    "word": "word.html",
    "attention": "attention.html",
    "z": "z.html",
    "dates": "dates.html",
    "distance": "distance.html",
}


@dataclass(frozen=True)
class Chapter:
    """One chapter, as the first page announces it.

    Args:
        name: a key of `PAGES`.
        picture: markup of a picture from this run, or "" where there is none.
        source, answer: what a model read and what it said, or "".
    """

    name: str
    picture: str = ""
    source: str = ""
    answer: str = ""


def contents_words() -> Words:
    """All texts of the page, English and Korean."""
    return Words({code: json.loads(_read(f"contents.{code}.json")) for code in LANGUAGES})


def contents_page(made: Sequence[Chapter], present: Sequence[str] = (), *, language: str = "auto") -> str:
    """The whole page.

    Args:
        made: the chapters of this run.
        present: names of chapters that were there before.
        language: "en", "ko", or "auto" for the reader's.
    """
    known = {chapter.name: chapter for chapter in [*map(Chapter, present), *made]}
    return render_page(
        "contents.html",
        folder=TEMPLATES,
        words=contents_words(),
        data={},
        style=_read("contents.css"),
        language=language,
        chapters=[(name, file, known.get(name)) for name, file in PAGES.items()],
        markup=markup_type(),
        version=tinygrad_attn.__version__,
    )


def neighbours(name: str, present: Sequence[str]) -> dict[str, dict[str, Any] | None]:
    """The pages before and after a chapter's among those that are there, for the links at its end.

    Args:
        name: the chapter, a key of `PAGES`.
        present: names of the chapters whose pages stand beside this one.
    Returns:
        "previous" and "next": "file" and "title" of a chapter, or None.
    """
    words, order = contents_words(), [other for other in PAGES if other in present or other == name]
    place = order.index(name)

    def link(other: str) -> dict[str, Any]:
        return {"file": PAGES[other], "title": words(f"title_{other}")}

    return {
        "previous": link(order[place - 1]) if place else None,
        "next": link(order[place + 1]) if place + 1 < len(order) else None,
    }


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
