"""The lesson on distance as one HTML page, from the data of one run."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tinygrad_attn
from transformer.lessons.contents import PAGES, neighbours
from transformer.lessons.distance import LOUDER, SAMPLES, Arrival, DistanceLesson
from transformer.lessons.distance_model import KINDS, LETTERS, Training
from transformer.lessons.distance_pictures import NAMES, arrival_charts, hops_svg, losses_chart, scientific, steps_chart
from viz.numbers import significant
from viz.page import Words, markup_type, render_page

TEMPLATES = Path(__file__).parent / "templates"
LANGUAGES = ("en", "ko")
LEARNED = 0.9  # a model that is right this often has learned the task; the page words its sentences accordingly


def distance_words() -> Words:
    """All texts of the page, English and Korean."""
    return Words({code: json.loads(_read(f"distance.{code}.json")) for code in LANGUAGES})


def distance_page(lesson: DistanceLesson, *, language: str = "auto", present: Sequence[str] = tuple(PAGES)) -> str:
    """The whole page.

    Args:
        lesson: the run.
        language: "en", "ko", or "auto" for the reader's.
        present: names of the chapters whose pages stand beside this one; links lead to no others.
    """
    markup = markup_type()
    before, after = arrival_charts(lesson)
    return render_page(
        "distance.html",
        folder=TEMPLATES,
        words=distance_words(),
        data=_data(lesson),
        style=_read("lesson.css") + _read("distance.css"),
        script=_read("distance.js"),
        language=language,
        names=NAMES,
        example=lesson.example,
        answer=lesson.example[0],
        facts=_facts(lesson),
        rows=[{**row, "picture": markup(row["picture"])} for row in _rows(lesson)],
        charts={
            "before": markup(before),
            "after": markup(after),
            "steps": markup(steps_chart(lesson)),
            "losses": markup(losses_chart(lesson)),
        },
        ways=[_way(lesson, kind) for kind in KINDS],
        scores=_scores(lesson),
        lengths=list(lesson.scores["gru"]),
        far=[_far(lesson, kind) for kind in KINDS],
        learned={kind: scores[lesson.config.longest].accuracy >= LEARNED for kind, scores in lesson.scores.items()},
        far_learned={kind: score.accuracy >= LEARNED for kind, score in lesson.far_scores.items()},
        turns=lesson.turns,
        differences={kind: scientific(lesson.turns[kind].difference) for kind in KINDS},
        neighbours=neighbours("distance", present),
    )


def _data(lesson: DistanceLesson) -> dict[str, Any]:
    """What the script needs: of every row of the stage and every distance, what is to be read there."""
    return {
        "letters": lesson.example,
        "rows": [
            {
                "share": list(map(scientific, arrival.share)),
                "capital": list(map(scientific, arrival.capital)),
                "others": list(map(scientific, arrival.others)),
                "shortest": lesson.ways[kind].shortest,
                "operations": list(map(_operations, lesson.ways[kind].shortest, lesson.ways[kind].longest)),
            }
            for kind, _, arrival in _stages(lesson)
        ],
    }


def _stages(lesson: DistanceLesson) -> list[tuple[str, str, Arrival]]:
    found = (("before", lesson.before), ("after", lesson.after))
    return [(kind, when, arrivals[kind]) for kind in KINDS for when, arrivals in found]


def _rows(lesson: DistanceLesson) -> list[dict[str, Any]]:
    """The rows of the stage as they are at first, for the farthest letter."""
    rows = []
    for kind, when, arrival in _stages(lesson):
        way, name = lesson.ways[kind], NAMES[kind]
        title = f"The way of the gradient in the {name}, {when} training"
        rows.append(
            {
                "name": name,
                "when": when,
                "share": scientific(arrival.share[-1]),
                "capital": scientific(arrival.capital[-1]),
                "others": scientific(arrival.others[-1]),
                "operations": _operations(way.shortest[-1], way.longest[-1]),
                "picture": hops_svg(way.shortest, list(arrival.share), kind, prefix=f"{kind}-{when}", title=title),
            }
        )
    return rows


def _operations(shortest: int, longest: int) -> str:
    return str(shortest) if shortest == longest else f"{shortest}–{longest}"


def _facts(lesson: DistanceLesson) -> dict[str, Any]:
    config, last = lesson.config, lesson.config.longest - 1
    return {
        "distance": last,
        "length": config.longest,
        "shortest": config.shortest,
        "steps": config.steps,
        "far_steps": config.far_steps,
        "batch": config.batch_size,
        "samples": SAMPLES,
        "letters": len(LETTERS),
        "asked": next(iter(lesson.scores["gru"].values())).total,
        "one_letter": f"{1 / config.longest:.3f}",
        "guess": f"{math.log(len(LETTERS)):.2f}",
        "louder": f"{LOUDER:g}",
        "seconds": f"{max(1.0, lesson.seconds):.0f}",
        "width": config.width,
        "layers": config.layers,
        "parameters": {kind: f"{lesson.trained[kind].model.num_parameters():,}" for kind in KINDS},
        "shares": {kind: scientific(lesson.before[kind].share[-1]) for kind in KINDS},
        "trained_shares": {kind: scientific(lesson.after[kind].share[-1]) for kind in KINDS},
        "first": {kind: scientific(lesson.before[kind].capital[-1]) for kind in KINDS},
        "farthest": {kind: f"{lesson.ways[kind].shortest[-1]}" for kind in KINDS},
        "deepest": {kind: f"{lesson.ways[kind].longest[-1]}" for kind in KINDS},
        "radius": [significant(value, 2) for value in lesson.radius],
        "slope": [significant(value, 2) for value in lesson.slope],
        "product": [significant(r * s, 2) for r, s in zip(lesson.radius, lesson.slope, strict=True)],
        "measured": [significant(each["rnn"].per_letter, 2) for each in (lesson.before, lesson.after)],
        "loud": scientific(lesson.louder.share[-1]),
        "loud_measured": significant(lesson.louder.per_letter, 3),
        "gate": [[significant(value, 2) for value in pair] for pair in lesson.gate],
        "gate_power": scientific(lesson.gate[0][0] ** last),
        "gru_measured": [significant(each["gru"].per_letter, 2) for each in (lesson.before, lesson.after)],
        "rnn_right": str(lesson.scores["rnn"][config.longest]).replace(" ", "\N{NO-BREAK SPACE}"),
        "version": tinygrad_attn.__version__,
        "seed": config.seed,
        "numpy": np.__version__,
    }


def _way(lesson: DistanceLesson, kind: str) -> dict[str, Any]:
    way = lesson.ways[kind]
    return {
        "name": NAMES[kind],
        "shortest": [way.shortest[1], way.shortest[-1]],
        "longest": [way.longest[1], way.longest[-1]],
        "one_more": way.one_more,
        "one_more_longest": way.one_more_longest,
        "names": way.names,
    }


def _scores(lesson: DistanceLesson) -> list[dict[str, Any]]:
    return [
        {"name": NAMES[kind], "cells": [f"{100 * score.accuracy:.0f} %" for score in lesson.scores[kind].values()]}
        for kind in KINDS
    ]


def _far(lesson: DistanceLesson, kind: str) -> dict[str, Any]:
    training = lesson.far[kind]
    return {
        "name": NAMES[kind],
        "first": scientific(lesson.before[kind].capital[-1]),
        "loss": f"{_end(training):.2f}",
        "right": lesson.far_scores[kind],
        "mixed": lesson.scores[kind][lesson.config.longest],
    }


def _end(training: Training) -> float:
    """The mean loss of the last tenth of the steps."""
    return float(np.mean(training.losses[-max(1, len(training.losses) // 10) :]))


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
