"""The lesson as one HTML page, from the data of one run."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tinygrad_attn
from tinygrad_attn.errors import MissingExtraError
from transformer.lessons.attention_head import pencil
from transformer.lessons.contents import PAGES, neighbours
from transformer.lessons.dates import DatesLesson, rounded
from transformer.lessons.decoder_loop import LoopStep
from transformer.lessons.formulas import head_on_paper
from transformer.lessons.heat import heat_svg, training_curve_svg
from transformer.lessons.pictures import attention_head_picture, cross_attention_picture
from viz.escape import shorten, visible
from viz.numbers import share, significant
from viz.page import Words, render_page

TEMPLATES = Path(__file__).parent / "templates"
LANGUAGES = ("en", "ko")


def lesson_words() -> Words:
    """All texts of the lesson's page, English and Korean."""
    return Words({code: json.loads(_read(f"words.{code}.json")) for code in LANGUAGES})


def lesson_page(lesson: DatesLesson, *, language: str = "auto", present: Sequence[str] = tuple(PAGES)) -> str:
    """The whole page.

    Args:
        lesson: the run.
        language: "en", "ko", or "auto" for the reader's.
        present: names of the chapters whose pages stand beside this one; links lead to no others.
    """
    words = lesson_words()
    loop = lesson.loop
    return render_page(
        "lesson.html",
        folder=TEMPLATES,
        words=words,
        data=_data(lesson),
        style=_read("lesson.css"),
        script=_read("lesson.js"),
        language=language,
        text=visible(lesson.text),
        answer=loop.answer,
        drawn=lesson.drawn,
        is_right=lesson.is_right,
        right_answer=lesson.right_answer,
        flaw=lesson.flaw,
        facts=_facts(lesson),
        languages_asked=_languages(lesson),
        source=[visible(token) for token in loop.source],
        said=[shorten(visible(token), 5) for token in loop.said],
        steps=[_row(lesson, number, step) for number, step in enumerate(loop.steps)],
        curve=_svg(training_curve_svg(lesson.trainer.history.losses, _looks(lesson))),
        z=_svg(heat_svg(loop.memory, largest=float(np.quantile(np.abs(loop.memory), 0.99)), css_class="heat z-map")),
        cross_maps={code: _svg(_cross_map(lesson, words, code)) for code in LANGUAGES},
        multiples=[[_svg(heat_svg(head)) for head in layer] for layer in loop.cross_attention()],
        multiple_names=_head_names(lesson, words),
        graph=_svg(attention_head_picture("head", lesson.head).svg()),
        pencil=_marked(head_on_paper(lesson.head)),
        checks=_checks(lesson),
        try_text="1. Mai 2031" if lesson.text != "1. Mai 2031" else "2031년 5월 1일",
        other_text="mercredi 3 mars 1999",
        neighbours=neighbours("dates", present),
    )


def _data(lesson: DatesLesson) -> dict[str, Any]:
    """What the script needs; weights to four decimals, which a page can show no better."""
    loop = lesson.loop
    return {
        "source": [visible(token) for token in loop.source],
        "layers": int(loop.steps[0].cross_attention.shape[0]),
        "heads": int(loop.steps[0].cross_attention.shape[1]),
        "steps": [
            {
                "sofar": [visible(token) for token in step.so_far],
                "choices": [[visible(token), probability, share(probability)] for token, probability in step.choices],
                "cross": rounded(step.cross_attention),
                "self": rounded(step.self_attention),
            }
            for step in loop.steps
        ],
    }


def _facts(lesson: DatesLesson) -> dict[str, Any]:
    trainer, total = lesson.trainer, lesson.total
    history, config, vocabulary = trainer.history, trainer.config, trainer.model.config.target_vocab
    days = trainer.task.config  # type: ignore[attr-defined]
    return {
        "exact": f"{100 * total.accuracy:.1f} %",
        "total": total.total,
        "steps": f"{trainer.step:,}",
        "batch": config.batch_size,
        "seconds": f"{history.seconds:.0f}",
        "parameters": f"{trainer.model.num_parameters():,}",
        "first_day": days.first,
        "last_day": days.last,
        "first_loss": f"{history.losses[0]:.2f}",
        "last_loss": significant(history.losses[-1], 2),
        "vocabulary": vocabulary,
        "guess": f"{math.log(vocabulary):.2f}",
        "width": trainer.model.config.d_model,
        "heads": trainer.model.config.num_heads,
        "gradient_error": significant(lesson.head.largest_error, 1),
        "version": tinygrad_attn.__version__,
        "seed": config.seed,
        "numpy": np.__version__,
    }


def _languages(lesson: DatesLesson) -> list[dict[str, Any]]:
    return [
        {
            "code": language,
            "right": score.right,
            "total": score.total,
            "percent": f"{100 * score.accuracy:.1f}",
            "samples": [(example, answer) for example, answer in lesson.samples if example.language == language],
        }
        for language, score in lesson.scores.items()
    ]


def _looks(lesson: DatesLesson) -> list[tuple[int, float]]:
    return [(step, right / total) for step, right, total in lesson.trainer.history.validations]


def _row(lesson: DatesLesson, number: int, step: LoopStep) -> dict[str, Any]:
    (says, p), (second, q) = step.choices[:2]
    weights = lesson.loop.last_layer()[number]
    most = int(weights.argmax())
    source = [visible(token) for token in lesson.loop.source]
    return {
        "so_far": "".join(step.so_far[1:]) or step.so_far[0],
        "says": visible(says),
        "probability": share(p),
        "second": visible(second),
        "second_probability": share(q),
        "before": "".join(source[:most]),
        "most": source[most],
        "after": "".join(source[most + 1 :]),
        "share": share(float(weights[most])),
    }


def _cross_map(lesson: DatesLesson, words: Words, language: str) -> str:
    loop = lesson.loop
    heads = lesson.trainer.model.config.num_heads
    return cross_attention_picture(
        loop.last_layer(),
        loop.said,
        loop.source,
        title=str(words.text(language, "cross_map_title", heads=heads)),
        query_title=str(words.text(language, "cross_queries")),
        key_title=str(words.text(language, "cross_keys")),
    ).svg()


def _head_names(lesson: DatesLesson, words: Words) -> list[list[dict[str, str]]]:
    layers, heads = lesson.loop.steps[0].cross_attention.shape[:2]
    return [
        [
            {code: str(words.text(code, "js_head", layer=layer + 1, head=head + 1)) for code in LANGUAGES}
            for head in range(heads)
        ]
        for layer in range(layers)
    ]


def _checks(lesson: DatesLesson) -> list[dict[str, str]]:
    """One row per element of each input: value, gradient, numerical derivative."""
    head = lesson.head
    return [
        {
            "name": f"{name}[{row}, {column}]",
            "value": pencil(float(head.tensors[name].numpy()[row, column])),
            "gradient": f"{head.gradients[name][row, column]:.6f}".replace("-", "−"),
            "numerical": f"{numerical[row, column]:.6f}".replace("-", "−"),
        }
        for name, numerical in head.numerical.items()
        for row, column in np.ndindex(numerical.shape)
    ]


def _marked(value: Any) -> Any:
    if isinstance(value, str):
        return _svg(value) if value.startswith("<") else value
    if isinstance(value, dict):
        return {name: _marked(inner) for name, inner in value.items()}
    return [tuple(map(_marked, inner)) for inner in value]


def _svg(text: str) -> Any:
    """Text that is markup already: by this project's writers of SVG and MathML, which escape what they show."""
    try:
        from markupsafe import Markup
    except ImportError as error:
        raise MissingExtraError(
            "pages are built with Jinja2, which is not installed\n  python -m pip install 'tinygrad-attn[lesson]'"
        ) from error
    return Markup(text)


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
