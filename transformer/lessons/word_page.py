"""The lesson on one word as one HTML page that holds the trained models and reads other sentences by itself."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tinygrad_attn
from transformer.lessons.contents import PAGES, neighbours
from transformer.lessons.dates import rounded
from transformer.lessons.heat import heat_svg, training_curve_svg
from transformer.lessons.word import WordLesson, opposite, ratio
from transformer.lessons.word_model import Training
from transformer.lessons.word_pictures import gaze_svg, pairs_svg
from transformer.lessons.word_reading import Reading
from transformer.tasks.coreference import ADJECTIVES, NEW_ADJECTIVES, NOVELTIES, PRONOUN
from viz.escape import visible
from viz.numbers import share, significant
from viz.page import Words, markup_type, render_page

TEMPLATES = Path(__file__).parent / "templates"
LANGUAGES = ("en", "ko")
TRIES = (
    "The street didn't attract the animal because it was too tired",
    "The dog couldn't lift the cat because it was too weak",
    "The dog couldn't lift the cat because it was too heavy",
    "At the river the horse turned back because it was too deep",
    "The zebra didn't cross the street because it was too weary",
)


def word_words() -> Words:
    """All texts of the page, English and Korean."""
    return Words({code: json.loads(_read(f"word.{code}.json")) for code in LANGUAGES})


def word_page(lesson: WordLesson, *, language: str = "auto", present: Sequence[str] = tuple(PAGES)) -> str:
    """The whole page.

    Args:
        lesson: the run.
        language: "en", "ko", or "auto" for the reader's.
        present: names of the chapters whose pages stand beside this one; links lead to no others.
    """
    reading, markup = lesson.reading, markup_type()
    one, other = lesson.article[1]
    return render_page(
        "word.html",
        folder=TEMPLATES,
        words=word_words(),
        data=_data(lesson),
        style=_read("lesson.css") + _read("word.css"),
        script=_read("word_model.js") + _read("word.js"),
        language=language,
        words_read=reading.words,
        pronoun=reading.pronoun,
        answer=reading.answer,
        probability=share(reading.probability),
        right_answer=lesson.right_answer,
        other=lesson.opened[1].words[-1] if len(lesson.opened) > 1 else None,
        facts=_facts(lesson),
        still=markup(gaze_svg(lesson.opened)),
        numbers=_numbers(reading),
        matters=_matters(reading),
        article={"one": one.words[-1], "other": other.words[-1]},
        charts={
            "one": markup(pairs_svg(*lesson.article[1])),
            "two": markup(pairs_svg(*lesson.article[lesson.deep.config.layers])),
        },
        proportions=_proportions(lesson),
        shallow={
            "right": all(read.answer == _known(lesson, read) for read in (one, other)),
            "one": one.answer,
            "other": other.answer,
        },
        by_role={
            "one": lesson.scores["pair"][1]["role"],
            "two": lesson.scores["pair"][lesson.deep.config.layers]["role"],
        },
        looks={
            f"{noun}_{layers}": share(look)
            for layers, pair in lesson.looks.items()
            for noun, look in zip(("right", "other"), pair, strict=True)
        },
        scores=_scores(lesson),
        curve=markup(training_curve_svg(lesson.deep.losses, [])),
        maps=[[markup(heat_svg(head)) for head in layer.weights] for layer in reading.layers],
        vocabulary=_vocabulary(lesson),
        tries=TRIES,
        neighbours=neighbours("word", present),
    )


def _known(lesson: WordLesson, reading: Reading) -> str | None:
    label = lesson.task.label(reading.text)
    return None if label is None else label.referent


def _data(lesson: WordLesson) -> dict[str, Any]:
    """What the script needs: the models, their words, and the engine's numbers to compare with."""
    task = lesson.task
    return {
        "opening": visible(lesson.reading.text),
        "pronoun": PRONOUN,
        "most": task.max_length,
        "vocabulary": list(task.tokenizer.tokens),
        "nouns": list(task.nouns),
        "adjectives": [
            {"name": name, "words": list(words), "fresh": [word for word in words if word in NEW_ADJECTIVES]}
            for name, words in ADJECTIVES.items()
        ],
        "swaps": {word: opposite(word) for words in ADJECTIVES.values() for word in words},
        "models": {"2": _weights(lesson.deep), "1": _weights(lesson.shallow)},
        "engine": [
            {
                "text": reading.text,
                "probabilities": reading.probabilities.tolist(),
                "without": reading.without.tolist(),
                "weights": [layer.weights[:, reading.pronoun].tolist() for layer in reading.layers],
                "gradient": rounded([layer.gradient[:, reading.pronoun] for layer in reading.layers], 6),
            }
            for reading in lesson.opened
        ],
    }


def _weights(training: Training) -> dict[str, Any]:
    """A model as 32-bit numbers, which is what it was trained in, so that nothing is lost."""
    state = training.model.state_dict()
    flat = np.concatenate([array.ravel() for array in state.values()]).astype("<f4")
    return {
        "layers": training.config.layers,
        "heads": training.config.num_heads,
        "size": training.config.d_model,
        "shapes": [[name, int(array.size)] for name, array in state.items()],
        "weights": base64.b64encode(flat.tobytes()).decode("ascii"),
    }


def _facts(lesson: WordLesson) -> dict[str, Any]:
    config, pairs = lesson.deep.config, lesson.scores["pair"]
    return {
        "deep_right": f"{100 * pairs[config.layers]['all'].accuracy:.1f} %",
        "shallow_right": f"{100 * pairs[1]['all'].accuracy:.1f} %",
        "seconds": f"{max(1.0, lesson.deep.seconds):.0f}",
        "parameters": f"{lesson.deep.model.num_parameters():,}",
        "steps": len(lesson.deep.losses),
        "batch": config.batch_size,
        "heads": config.num_heads,
        "held_out": pairs[1]["all"].total,
        "nouns": len(lesson.task.nouns),
        "guess": f"{math.log(len(lesson.task.nouns)):.2f}",
        "words": len(lesson.task.words),
        "seed": config.seed,
        "version": tinygrad_attn.__version__,
        "numpy": np.__version__,
    }


def _numbers(reading: Reading) -> list[dict[str, str]]:
    """The scores and weights of `it` in the last layer's first head, for a page without scripts."""
    layer, row = reading.layers[-1], reading.pronoun
    return [
        {
            "word": word,
            "score": significant(float(layer.scores[0, row, index])),
            "exp": significant(math.exp(layer.scores[0, row, index])),
            "weight": share(float(layer.weights[0, row, index])),
        }
        for index, word in enumerate(reading.words)
    ]


def _matters(reading: Reading) -> list[dict[str, str]]:
    """Weight, gradient, their product and what if not, for `it` in the last layer, all heads together."""
    layer, row = reading.layers[-1], reading.pronoun
    slopes = layer.gradient[:, row]  # (heads, words)
    products = slopes * layer.weights[:, row]
    return [
        {
            "word": word,
            "weight": share(float(reading.looks()[index])),
            "slope": significant(float(slopes[:, index].sum()), 2),
            "product": significant(float(products[:, index].sum()), 2),
            "without": share(float(reading.without[index])),
        }
        for index, word in enumerate(reading.words)
    ]


def _proportions(lesson: WordLesson) -> list[dict[str, Any]]:
    """How many times as much `it` looks at the animal as at the street, of every last layer's head."""
    rows = []
    for layers, (one, other) in sorted(lesson.article.items()):
        for head in range(lesson.deep.config.num_heads):
            found = [ratio(reading, layers - 1, head, "animal", "street") for reading in (one, other)]
            texts = [significant(value, 4) for value in found]
            rows.append({"layers": layers, "layer": layers, "head": head + 1, "one": texts[0], "other": texts[1]})
    return rows


def _scores(lesson: WordLesson) -> list[dict[str, Any]]:
    def cell(novelty: Any, layers: int, family: str) -> dict[str, Any]:
        score = lesson.scores[novelty][layers][family]
        return {"right": score.right, "total": score.total, "percent": f"{100 * score.accuracy:.1f}"}

    columns = [(layers, family) for layers in (lesson.deep.config.layers, 1) for family in ("meaning", "role")]
    return [{"novelty": novelty, "cells": [cell(novelty, *column) for column in columns]} for novelty in NOVELTIES]


def _vocabulary(lesson: WordLesson) -> list[tuple[str, list[str]]]:
    adjectives = [word for words in ADJECTIVES.values() for word in words]
    nouns = list(lesson.task.nouns)
    others = [word for word in lesson.task.words if word not in nouns and word not in adjectives]
    return [("own_nouns", nouns), ("own_adjectives", adjectives), ("own_others", others)]


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
