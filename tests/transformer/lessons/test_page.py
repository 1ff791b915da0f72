"""The lesson's page shows the run it was made from, in both languages, and nothing from outside."""

from __future__ import annotations

import dataclasses
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import require
from tinygrad_attn.errors import OptionError, VocabularyError
from transformer.lessons.dates import DatesLesson, build_lesson, choose_text
from transformer.lessons.formulas import head_on_paper, latex_matrix
from transformer.lessons.heat import heat_svg, training_curve_svg
from transformer.lessons.page import lesson_page, lesson_words
from transformer.tasks import CopyTask, DatesTask
from transformer.training import Trainer, TrainingConfig

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def html(lesson: DatesLesson) -> str:
    for name in ("jinja2", "latex2mathml", "matplotlib"):
        require(name)
    return lesson_page(lesson)


def data_of(html: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', html, flags=re.DOTALL)
    assert found is not None
    data: dict[str, object] = json.loads(found.group(1))
    return data


def test_every_text_is_there_in_both_languages() -> None:
    words = lesson_words()
    assert words.languages == ("en", "ko")
    assert all(text.strip() for texts in words.catalogues.values() for text in texts.values())


def test_korean_texts_are_korean() -> None:
    texts = lesson_words().catalogues["ko"]
    assert [key for key, text in texts.items() if not re.search("[가-힣]", text)] == ["nav_z"]


def test_every_text_is_used(html: str) -> None:
    templates = "".join(
        (path).read_text(encoding="utf-8")
        for folder in ("transformer/lessons", "viz")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".html", ".js", ".py")
    )
    computed = {"language_", "back_d"}
    unused = [
        key
        for key in lesson_words().catalogues["en"]
        if f'"{key}"' not in templates and not any(key.startswith(prefix) for prefix in computed)
    ]
    assert unused == []


def test_what_is_said_in_one_language_is_said_in_the_other(html: str) -> None:
    english, korean = (re.findall(rf'class="t[^"]*" lang="{code}"', html) for code in ("en", "ko"))
    assert len(english) == len(korean) > 80


def test_the_data_are_those_of_the_run(html: str, lesson: DatesLesson) -> None:
    data = data_of(html)
    assert data["source"] == list(lesson.text)
    steps = data["steps"]
    assert isinstance(steps, list) and len(steps) == len(lesson.loop.steps)
    for shown, step in zip(steps, lesson.loop.steps, strict=True):
        np.testing.assert_allclose(shown["cross"], step.cross_attention, atol=5e-5)
        np.testing.assert_allclose(shown["self"], step.self_attention, atol=5e-5)
        assert [choice[:2] for choice in shown["choices"]] == [list(choice) for choice in step.choices]
    score = lesson.total
    assert f"{100 * score.accuracy:.1f} %" in html
    assert f"{lesson.trainer.model.num_parameters():,}" in html


def test_the_page_loads_nothing_and_links_only_to_the_pages_written_beside_it(html: str) -> None:
    without_data = re.sub(r'<script type="application/json".*?</script>', "", html, flags=re.DOTALL)
    references = re.findall(r"""\b(?:src|href|action|data)=["']?([^"'\s>]*)""", without_data)
    assert {reference for reference in references if not reference.startswith(("#", "data:"))} == {
        "z.html",
        "backward.html",
        "distance.html",
        "index.html",
    }
    assert not re.findall(r"url\((?!#)|@import|<link|<iframe|<object|<embed", without_data)


def test_graph_and_maps_are_inside_as_svg_with_words(html: str) -> None:
    pictures = re.findall(r'<svg [^>]*role="img".*?</svg>', html, flags=re.DOTALL)
    assert len(pictures) == 3  # the cross-attention map in two languages, and the graph
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        names = {element.tag.rpartition("}")[2] for element in root}
        assert {"title", "desc"} <= names
    assert "∂L/∂Q" in pictures[-1]


def test_ids_are_unique(html: str) -> None:
    ids = re.findall(r'\bid="([^"]*)"', re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL))
    assert len(ids) == len(set(ids))


def test_what_a_reader_typed_stays_text(trainer: Trainer, lesson: DatesLesson) -> None:
    nasty = "</script><img src=x onerror=alert(1)>"
    loop = dataclasses.replace(lesson.loop, source=(nasty, *lesson.loop.source[1:]), answer=nasty)
    html = lesson_page(dataclasses.replace(lesson, text=nasty, loop=loop, right_answer=nasty))
    assert "<img" not in html and html.count("</script>") == 2


def test_a_wrong_answer_is_called_wrong(lesson: DatesLesson) -> None:
    wrong = dataclasses.replace(lesson, right_answer="1999-01-01")
    assert not wrong.is_right
    assert "wrong: it means 1999-01-01" in lesson_page(wrong)
    unknown = lesson_page(dataclasses.replace(lesson, right_answer=None))
    assert "nobody knows what is right" in unknown and "✓ <span" not in unknown


@pytest.mark.parametrize(
    ("text", "english", "korean"),
    [
        ("February 30, 2020", "this day does not exist", "달력에 없는 날짜"),
        ("Monday, December 1, 2026", "another weekday: “Tuesday, December 1, 2026”", "2026-12-01의 요일이 아닙니다"),
        ("December 1, 1800", "outside the days that the model has learned, 1950-01-01 to", "기간(1950-01-01부터"),
        ("2026-12-01", "no date form", "날짜 형식이 아니어서"),
    ],
)
def test_the_page_says_why_nobody_knows_what_is_right(
    lesson: DatesLesson, text: str, english: str, korean: str
) -> None:
    html = lesson_page(dataclasses.replace(lesson, text=text, right_answer=None))
    assert english in html and korean in html


def test_the_page_opens_in_the_language_that_was_asked_for(lesson: DatesLesson) -> None:
    assert '<html lang="ko" data-language="ko">' in lesson_page(lesson, language="ko")
    with pytest.raises(OptionError):
        lesson_page(lesson, language="fr")


def test_a_model_that_has_not_learned_dates_has_no_lesson() -> None:
    trainer = Trainer(CopyTask(), TrainingConfig(steps=1))
    with pytest.raises(OptionError, match="CopyTask"):
        build_lesson(trainer, {}, "abc", drawn=False)


# --- which date --------------------------------------------------------------------------------------------------


def test_a_drawn_date_is_held_out_and_the_same_for_a_seed(trainer: Trainer) -> None:
    task = trainer.task
    assert isinstance(task, DatesTask)
    texts = [choose_text(task, None, seed) for seed in range(10)]
    assert texts == [choose_text(task, None, seed) for seed in range(10)]
    held_out = set(task.held_out_days.tolist())
    for text in texts:
        (meaning,) = {reading.target for reading in task.readings(text)}
        assert np.datetime64(meaning).astype(object).toordinal() in held_out
    languages = {reading.language for text in texts[:5] for reading in task.readings(text)}
    assert languages == {"ko", "en_US", "en_GB", "de", "fr"}


def test_a_typed_date_is_tidied_up_and_unknown_characters_are_named(trainer: Trainer) -> None:
    task = trainer.task
    assert isinstance(task, DatesTask)
    assert choose_text(task, "  1. DEZEMBER  2026 ", 0) == "1. Dezember 2026"
    with pytest.raises(VocabularyError, match="'@'"):
        choose_text(task, "1 May @2026", 0)
    with pytest.raises(OptionError, match="longest date"):
        choose_text(task, "1 May 2026" * 9, 0)


# --- pieces ------------------------------------------------------------------------------------------------------


def test_a_heat_map_has_a_path_for_each_strength_and_sign() -> None:
    root = ElementTree.fromstring(heat_svg([[0.0, 1.0, -0.5], [0.25, 1.0, np.nan]]))
    cells = {(path.attrib["class"], path.attrib["fill-opacity"]): path.attrib["d"] for path in root}
    assert cells == {
        ("plus", "1"): "M1 0h1v1h-1zM1 1h1v1h-1z",
        ("plus", "0.25"): "M0 1h1v1h-1z",
        ("minus", "0.5"): "M2 0h1v1h-1z",
    }
    assert root.attrib["viewBox"] == "0 0 3 2"


@pytest.mark.parametrize("losses", [[], [2.0], [2.0, 0.0], list(np.geomspace(3.0, 1e-5, 1000))])
def test_a_curve_of_any_length_stays_inside_its_box(losses: list[float]) -> None:
    root = ElementTree.fromstring(training_curve_svg(losses, [(len(losses), 1.0)] if losses else []))
    for line in root.iter("polyline"):
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 640 and 0 <= y <= 220


def test_formulas_are_mathml_with_the_engines_numbers(lesson: DatesLesson) -> None:
    require("latex2mathml")
    sheet = head_on_paper(lesson.head)
    for formula in (sheet["P"], *(part for step in sheet["backward"] for part in step[1:])):
        assert ElementTree.fromstring(formula).tag.endswith("math")
    assert "<mfrac><mrow><mn>3</mn></mrow><mrow><mn>4</mn></mrow></mfrac>" in sheet["P"]
    assert [name for name, _, _ in sheet["backward"]] == ["dO", "dP", "dS", "dV", "dK", "dQ"]


def test_matrices_are_written_row_by_row() -> None:
    assert latex_matrix([[0.0, -0.5], [np.log(3.0), 2.0]]) == (r"\begin{matrix}0&-\frac{1}{2}\\\ln\,3&2\end{matrix}")
