"""The page on distance in a real browser: moving the capital, by keyboard, in both languages, offline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require
from transformer.lessons.distance import DistanceLesson, build_distance_lesson
from transformer.lessons.distance_model import KINDS, RecallConfig
from transformer.lessons.distance_page import distance_page
from transformer.lessons.distance_pictures import scientific


@pytest.fixture(scope="module")
def lesson() -> DistanceLesson:
    require("jinja2")
    return build_distance_lesson(RecallConfig(width=8, layers=1, longest=24, steps=5, far_steps=3, batch_size=8))


@pytest.fixture(scope="module")
def address(lesson: DistanceLesson, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("distance") / "distance.html"
    file.write_text(distance_page(lesson), encoding="utf-8")
    return Path(file).as_uri()


def assert_shows(tab: Any, lesson: DistanceLesson, distance: int) -> None:
    shares = [arrivals[kind].share for kind in KINDS for arrivals in (lesson.before, lesson.after)]
    assert tab.locator("#ways .share").all_inner_texts() == [scientific(share[distance]) for share in shares]
    counts = [lesson.ways[kind] for kind in KINDS for _ in range(2)]
    told = [cell.split("–") for cell in tab.locator("#ways .operations").all_inner_texts()]
    assert [(int(cell[0]), int(cell[-1])) for cell in told] == [
        (way.shortest[distance], way.longest[distance]) for way in counts
    ]
    letters = tab.locator("#letters span").all_inner_texts()
    assert [place for place, letter in enumerate(letters) if letter.isupper()] == [len(letters) - 1 - distance]
    hops = [row.locator(".hop:not(.off)").count() for row in tab.locator("#ways tr").all()]
    assert hops == [distance] * 4 + [1] * 2


def test_the_capital_moves_with_arrow_keys_buttons_and_the_slider(
    open_page: Callable[..., Any], lesson: DistanceLesson
) -> None:
    tab = open_page()
    assert_shows(tab, lesson, 23)
    assert tab.locator("#back").is_disabled()
    tab.keyboard.press("ArrowLeft")
    assert_shows(tab, lesson, 23)
    tab.keyboard.press("ArrowRight")
    assert_shows(tab, lesson, 22)
    tab.locator("#forth").click()
    assert_shows(tab, lesson, 21)
    tab.locator("#back").click()
    assert_shows(tab, lesson, 22)
    tab.locator("#distance").focus()
    tab.keyboard.press("ArrowRight")
    assert_shows(tab, lesson, 21)
    tab.locator("#distance").fill("1")
    assert_shows(tab, lesson, 1)
    assert tab.locator("#forth").is_disabled()
    tab.locator("#distance").focus()
    tab.keyboard.press("ArrowLeft")
    assert_shows(tab, lesson, 2)


def test_a_line_marks_the_distance_in_every_curve(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    where = "lines => lines.map((line) => line.getBoundingClientRect().x - line.parentNode.getBoundingClientRect().x)"
    far = tab.locator(".here").evaluate_all(where)
    tab.locator("#distance").fill("1")
    near = tab.locator(".here").evaluate_all(where)
    assert len(far) == 3 and all(after > before + 100 for before, after in zip(far, near, strict=True))


def test_it_speaks_korean(open_page: Callable[..., Any], lesson: DistanceLesson) -> None:
    tab = open_page(locale="ko-KR")
    assert tab.locator("h1").inner_text() == "RNN과 비슷할까?" == tab.title()
    assert (
        "23글자 앞" in tab.locator("#told").inner_text() and "23글자 앞" in tab.locator("#distance-told").inner_text()
    )
    shown = tab.locator("main").inner_text()
    for english in ("untrained", "letters back", "shortest", "capital"):
        assert english not in shown
    tab.locator("[data-set-language=en]").click()
    assert "Capital 23 back" in tab.locator("#told").inner_text()
    assert_shows(tab, lesson, 23)


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
def test_nothing_is_wider_than_the_window(open_page: Callable[..., Any], width: int, locale: str) -> None:
    tab = open_page(viewport={"width": width, "height": 800}, locale=locale)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    table = tab.locator(".ways").bounding_box()
    assert width < 928 or table["width"] <= tab.locator(".stage").bounding_box()["width"]


def test_a_page_without_scripts_shows_the_farthest_letter(
    open_page: Callable[..., Any], lesson: DistanceLesson
) -> None:
    tab = open_page(java_script_enabled=False)
    assert tab.locator("#controls").is_hidden()
    assert_shows(tab, lesson, 23)


def test_dark_and_light_have_colours_of_their_own(open_page: Callable[..., Any]) -> None:
    tab = open_page(color_scheme="dark")
    stroke = "getComputedStyle(document.querySelector('#chart-before polyline')).stroke"
    dark = tab.evaluate(stroke)
    tab.locator("[data-set-theme=light]").click()
    assert tab.evaluate(stroke) != dark
