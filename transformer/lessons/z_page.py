"""The chapter on z as one HTML page, from the data of one run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tinygrad_attn
from transformer.lessons.contents import PAGES, neighbours
from transformer.lessons.dates import rounded
from transformer.lessons.heat import heat_svg
from transformer.lessons.z_lesson import KINDS, ZLesson
from viz.page import Words, markup_type, render_page

TEMPLATES = Path(__file__).parent / "templates"
LANGUAGES = ("en", "ko")


def z_words() -> Words:
    """All texts of the page, English and Korean."""
    return Words({code: json.loads(_read(f"z.{code}.json")) for code in LANGUAGES})


def z_page(lesson: ZLesson, *, language: str = "auto", present: Sequence[str] = tuple(PAGES)) -> str:
    """The whole page.

    Args:
        lesson: the run.
        language: "en", "ko", or "auto" for the reader's.
        present: names of the chapters whose pages stand beside this one; links lead to no others.
    """
    first, largest = lesson.opened[-1], full_colour(lesson)
    return render_page(
        "z.html",
        folder=TEMPLATES,
        words=z_words(),
        data=_data(lesson),
        style=_read("lesson.css") + _read("z.css"),
        script=_read("z.js"),
        language=language,
        facts=_facts(lesson),
        scores=[
            {
                "clauses": clauses,
                "words": 4 * clauses - 1,
                "cells": [
                    {"right": score.right, "total": score.total, "percent": f"{100 * score.accuracy:.1f}"}
                    for score in (lesson.scores[kind][clauses] for kind in KINDS)
                ],
            }
            for clauses in lesson.scores["each"]
        ],
        samples=[
            (text, [(kind, compared(text, said[kind]), said[kind] == text) for kind in KINDS])
            for text, said in lesson.samples
        ],
        still=first.words,
        map=markup_type()(heat_svg(first.z, largest=largest, css_class="heat z-map")),
        neighbours=neighbours("z", present),
    )


def compared(text: str, said: str) -> list[tuple[str, bool]]:
    """The words that were said, and whether each is the one that stands at its place.

    >>> compared("Anna sees birds", "Anna sees trees")
    [('Anna', True), ('sees', True), ('trees', False)]
    """
    words = text.split()
    return [(word, place < len(words) and word == words[place]) for place, word in enumerate(said.split())]


def full_colour(lesson: ZLesson) -> float:
    """The size that is drawn in full colour: all but the largest hundredth of the numbers are smaller."""
    return float(np.quantile(np.abs(np.concatenate([opened.z for opened in lesson.opened])), 0.99))


def _data(lesson: ZLesson) -> dict[str, Any]:
    return {
        "largest": round(full_colour(lesson), 4),
        "opened": [
            {
                "words": list(opened.words),
                "others": list(opened.others),
                "z": rounded(opened.z, 3),
                "changed": [
                    rounded(changed, 3) if other else None
                    for changed, other in zip(opened.changed, opened.others, strict=True)
                ],
                "moved": [rounded(opened.moved(place), 3) for place in range(len(opened.words))],
                "squeezed": rounded(squeezed, 3),
            }
            for opened, squeezed in zip(lesson.opened, lesson.squeezed, strict=True)
        ],
    }


def _facts(lesson: ZLesson) -> dict[str, Any]:
    most, config = lesson.config.most, lesson.config
    each, one = (lesson.trainers[kind] for kind in KINDS)
    return {
        "each": f"{100 * lesson.scores['each'][most].accuracy:.0f} %",
        "one": f"{100 * lesson.scores['one'][most].accuracy:.0f} %",
        "words": 4 * most - 1,
        "numbers": config.d_model,
        "all_numbers": (4 * most - 1) * config.d_model,
        "seconds": f"{max(1.0, each.history.seconds + one.history.seconds):.0f}",
        "parameters": f"{each.model.num_parameters():,}",
        "steps": config.steps,
        "batch": config.batch_size,
        "vocabulary": len(lesson.task.words),
        "seed": config.seed,
        "version": tinygrad_attn.__version__,
        "numpy": np.__version__,
    }


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
