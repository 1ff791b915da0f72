"""The page on z in a real browser: changing words, in both languages, offline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import require
from transformer.lessons.z_lesson import ZConfig, ZLesson, build_z_lesson
from transformer.lessons.z_page import full_colour, z_page


@pytest.fixture(scope="module")
def lesson() -> ZLesson:
    require("jinja2")
    return build_z_lesson(ZConfig(steps=4, most=3))


@pytest.fixture(scope="module")
def address(lesson: ZLesson, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("z") / "z.html"
    file.write_text(z_page(lesson), encoding="utf-8")
    return Path(file).as_uri()


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Opens the page in a browser with the given settings; errors in it fail the test."""
    contexts, problems, asked = [], [], []

    def open_with(**settings: Any) -> Any:
        chosen = {"viewport": {"width": 1280, "height": 900}, "locale": "en-US", "reduced_motion": "reduce", **settings}
        context = browser.new_context(**chosen)
        contexts.append(context)
        tab = context.new_page()
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(address)
        return tab

    yield open_with
    for context in contexts:
        context.close()
    assert problems == [] and set(asked) == {address}


def test_a_row_per_token_in_the_colours_of_its_numbers(open_page: Callable[..., Any], lesson: ZLesson) -> None:
    tab, opened = open_page(), lesson.opened[-1]
    rows = tab.locator("#rows tr")
    assert rows.count() == len(opened.words)
    sign = "(cell.classList.contains('minus') ? -1 : 1)"
    strength = f"cells => cells.map((cell) => Number(cell.getAttribute('fill-opacity')) * {sign})"
    for place in (0, len(opened.words) - 1):
        shown = rows.nth(place).locator("td:nth-child(2) rect").evaluate_all(strength)
        np.testing.assert_allclose(shown, np.clip(opened.z[place] / full_colour(lesson), -1, 1), atol=3e-3)


def test_keys_and_clicks_change_a_word_and_show_what_moved(open_page: Callable[..., Any], lesson: ZLesson) -> None:
    tab, opened = open_page(), lesson.opened[-1]
    assert "Press a word" in tab.locator("#told").inner_text()
    for place in [place for place, other in enumerate(opened.others) if other][:4]:
        tab.keyboard.press("ArrowRight")
        row = tab.locator("#rows tr").nth(place)
        assert row.locator("[aria-pressed=true]").inner_text() == f"{opened.words[place]}{opened.others[place]}"
        shown = [int(str(text).removesuffix(" %")) for text in tab.locator("#rows .value").all_text_contents()]
        np.testing.assert_allclose(shown, 100 * opened.moved(place), atol=0.6)
    tab.keyboard.press("ArrowLeft")
    assert opened.words[2] in tab.locator("#told").inner_text()
    tab.locator("#rows .word[aria-pressed=true]").click()
    assert tab.locator("#rows .value").count() == 0
    assert tab.locator("#rows .word:disabled").all_text_contents() == ["and"] * 2


def test_another_sentence_is_chosen(open_page: Callable[..., Any], lesson: ZLesson) -> None:
    tab = open_page()
    tab.locator("#sentences input").first.check(force=True)
    assert tab.locator("#rows .word").all_text_contents() == list(lesson.opened[0].words)


def test_switching_the_language_leaves_nothing_of_the_other(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    tab.keyboard.press("ArrowRight")
    for code, other in (("ko", "en"), ("en", "ko")):
        tab.locator(f"[data-set-language={code}]").click()
        visible = "elements => elements.filter((element) => element.checkVisibility()).length"
        assert tab.locator(f".t[lang={other}]").evaluate_all(visible) == 0
        assert tab.locator(f".t[lang={code}]").evaluate_all(visible) > 30
    tab.locator("[data-set-language=ko]").click()
    assert "대신" in tab.locator("#told").inner_text() and "벡터" in tab.title()


@pytest.mark.parametrize("width", [320, 768, 1280])
@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
def test_the_page_never_scrolls_sideways(open_page: Callable[..., Any], width: int, locale: str) -> None:
    tab = open_page(viewport={"width": width, "height": 800}, locale=locale)
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_without_a_script_and_on_paper_the_map_stands_there(open_page: Callable[..., Any]) -> None:
    assert open_page(java_script_enabled=False).locator(".z.still").is_visible()
    tab = open_page()
    tab.emulate_media(media="print")
    assert tab.locator(".z.still").is_visible() and not tab.locator("#stage").is_visible()
