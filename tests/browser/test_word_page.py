"""The page on one word in a real browser: who looks, swapping, typing, by keyboard, in both languages, offline."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import require
from transformer.lessons.word import WordLesson, build_word_lesson
from transformer.lessons.word_model import ReferentConfig
from transformer.lessons.word_page import TRIES, word_page
from transformer.lessons.word_reading import read
from transformer.tasks.coreference import ARTICLE, CoreferenceTask

WIDE = ARTICLE.replace("tired", "wide")
SHADES = "shades => shades.map((s) => Number(s.style.opacity))"


@pytest.fixture(scope="module")
def lesson() -> WordLesson:
    require("jinja2")
    return build_word_lesson(CoreferenceTask(), None, ReferentConfig(steps=60, examples=1000))


@pytest.fixture(scope="module")
def address(lesson: WordLesson, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("word") / "word.html"
    file.write_text(word_page(lesson), encoding="utf-8")
    return Path(file).as_uri()


def words_shown(tab: Any) -> list[str]:
    return [str(text) for text in tab.locator("#lookers b").all_text_contents()]


def who_looks(tab: Any) -> str:
    return str(tab.locator("#lookers [aria-pressed=true]").inner_text())


def assert_weights(tab: Any, expected: Any) -> None:
    np.testing.assert_allclose(tab.locator("#looked-at .shade").evaluate_all(SHADES), expected, atol=6e-4)


def choose(tab: Any, group: str, value: str) -> None:
    tab.locator(f"#pick-{group} input[value='{value}']").check(force=True)


# --- the same numbers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [ARTICLE, WIDE, *TRIES, "it was"])
@pytest.mark.parametrize("layers", [2, 1])
def test_the_page_computes_what_the_engine_computes(
    open_page: Callable[..., Any], lesson: WordLesson, text: str, layers: int
) -> None:
    tab = open_page()
    shown = tab.evaluate("([name, words]) => reader.read(name, words)", [str(layers), text.split()])
    expected = read((lesson.deep if layers == 2 else lesson.shallow).model, lesson.task, text)
    np.testing.assert_allclose(shown["probabilities"], expected.probabilities, atol=1e-12)
    np.testing.assert_allclose(shown["without"], expected.without, atol=1e-12)
    for mine, slopes, layer in zip(shown["layers"], shown["gradient"], expected.layers, strict=True):
        for name in ("query", "key", "value", "scores", "weights"):
            np.testing.assert_allclose([head[name] for head in mine], getattr(layer, name), atol=1e-10)
        np.testing.assert_allclose(np.sum([head["weights"] for head in mine], axis=-1), 1.0, atol=1e-12)
        np.testing.assert_allclose(slopes, layer.gradient[:, expected.pronoun], rtol=1e-4, atol=1e-7)


def test_the_page_says_how_well_it_agrees(open_page: Callable[..., Any]) -> None:
    told = open_page().locator(".agrees").inner_text()
    difference = told.split()[-1].rstrip(".").replace("−", "-")
    assert 0 <= float(difference) < 1e-12


# --- looking -----------------------------------------------------------------------------------------------------


def test_first_shown_is_the_last_layer_mean_of_its_heads(open_page: Callable[..., Any], lesson: WordLesson) -> None:
    tab = open_page()
    assert words_shown(tab) == ARTICLE.split() and who_looks(tab) == "it"
    assert_weights(tab, lesson.reading.looks())
    widths = tab.locator("#lines path").evaluate_all("paths => paths.map((p) => parseFloat(p.style.strokeWidth))")
    np.testing.assert_allclose(widths, np.maximum(0.6, 22 * lesson.reading.looks()), atol=0.01)


def test_arrow_keys_pointer_and_focus_choose_who_looks(open_page: Callable[..., Any], lesson: WordLesson) -> None:
    tab, words = open_page(), ARTICLE.split()
    weights = lesson.reading.layers[-1].weights.mean(axis=0)
    for index in range(words.index("it") - 1, -1, -1):
        tab.keyboard.press("ArrowLeft")
        assert who_looks(tab) == words[index]
        assert_weights(tab, weights[index])
    tab.keyboard.press("ArrowLeft")
    assert who_looks(tab) == "The"
    tab.locator("#lookers button").nth(5).hover()
    assert who_looks(tab) == "street"
    assert_weights(tab, weights[5])
    tab.locator("h1").hover()
    assert who_looks(tab) == "The"
    tab.locator("#lookers button").nth(1).focus()
    tab.keyboard.press("ArrowRight")
    assert who_looks(tab) == "didn't"
    assert tab.evaluate("document.activeElement.textContent") == "didn't"


def test_layer_and_head_are_chosen_with_arrow_keys_or_by_their_picture(
    open_page: Callable[..., Any], lesson: WordLesson
) -> None:
    tab, reading = open_page(), lesson.reading
    tab.locator("#pick-head input:checked").focus()
    tab.keyboard.press("ArrowRight")
    assert_weights(tab, reading.layers[1].weights[0, reading.pronoun])
    tab.keyboard.press("ArrowRight")
    assert_weights(tab, reading.layers[1].weights[1, reading.pronoun])
    tab.locator("#pick-layer input:checked").focus()
    tab.keyboard.press("ArrowLeft")
    assert_weights(tab, reading.layers[0].weights[1, reading.pronoun])
    assert tab.locator(".multiple[aria-pressed=true]").get_attribute("data-layer") == "0"
    tab.locator(".multiple[data-layer='1'][data-head='0']").press("Enter")
    assert_weights(tab, reading.layers[1].weights[0, reading.pronoun])


def test_the_table_has_the_scores_and_weights_of_the_head(open_page: Callable[..., Any], lesson: WordLesson) -> None:
    tab, reading = open_page(), lesson.reading
    choose(tab, "head", "1")
    cells = tab.locator("#reckoning tbody tr").evaluate_all("rows => rows.map((r) => r.cells[2].textContent)")
    shown = [float(cell.replace("−", "-")) for cell in cells]
    np.testing.assert_allclose(shown, reading.layers[1].scores[1, reading.pronoun], atol=0.0051)
    assert tab.locator("#reckoning-sum td").nth(3).inner_text() == "1"


# --- swapping and typing -----------------------------------------------------------------------------------------


def test_a_swap_moves_the_weights_and_back(open_page: Callable[..., Any], lesson: WordLesson) -> None:
    tab = open_page()
    tab.keyboard.press("s")
    assert words_shown(tab)[-1] == "wide"
    assert_weights(tab, lesson.opened[1].looks())
    assert tab.locator("#choices .name").first.inner_text() == lesson.opened[1].answer
    tab.locator("#swap").click()
    assert words_shown(tab)[-1] == "tired"
    assert_weights(tab, lesson.opened[0].looks())
    tab.locator("#adjective").select_option("muddy")
    assert " ".join(words_shown(tab)) == ARTICLE.replace("tired", "muddy")
    assert tab.locator("#sentence").input_value() == ARTICLE.replace("tired", "muddy")


def test_with_one_layer_a_swap_leaves_the_proportion_of_the_lines(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    choose(tab, "model", "1")
    choose(tab, "head", "0")
    scores = []
    for _ in range(2):
        rows = tab.locator("#reckoning tbody tr").evaluate_all("rows => rows.map((r) => r.cells[2].textContent)")
        scores.append(rows)
        tab.keyboard.press("Escape")
        tab.locator("#swap").click()
    assert scores[0][:-1] == scores[1][:-1]
    assert tab.locator(".multiple:visible").count() == 2


def test_a_typed_sentence_is_read_at_once(open_page: Callable[..., Any], lesson: WordLesson) -> None:
    tab = open_page()
    tab.locator("#sentence").fill("The dog couldn’t lift the cat, because it was too weak.")
    tab.keyboard.press("Enter")
    text = "The dog couldn't lift the cat because it was too weak"
    assert " ".join(words_shown(tab)) == text
    expected = read(lesson.deep.model, lesson.task, text)
    assert_weights(tab, expected.looks())
    assert tab.locator("#choices .name").first.inner_text() == expected.answer
    assert "heavy" in tab.locator("#swap").inner_text()
    tab.locator(".try").first.click()
    assert " ".join(words_shown(tab)) == TRIES[0]


@pytest.mark.parametrize(
    ("typed", "part"),
    [
        ("The animl was it", "“animl” (nearest: animal"),
        ("The animal was tired", "One “it”"),
        ("it and it", "and"),
        ("it " + "the " * 16, "16 words"),
        ("</script><img src=x onerror='window.PWN=1'> it", "script"),
        ("constructor it", "constructor"),
    ],
)
def test_what_cannot_be_read_is_said_and_changes_nothing(open_page: Callable[..., Any], typed: str, part: str) -> None:
    tab = open_page()
    tab.locator("#sentence").fill(typed)
    tab.keyboard.press("Enter")
    assert part in tab.locator("#problem").inner_text()
    assert words_shown(tab) == ARTICLE.split()
    assert tab.evaluate("window.PWN") is None and tab.locator("main img").count() == 0
    tab.locator("#swap").click()
    assert tab.locator("#problem").inner_text() == ""


def test_a_word_that_would_end_the_script_stays_text(
    open_page: Callable[..., Any], lesson: WordLesson, tmp_path: Path
) -> None:
    nasty = "</script><script>window.PWN=1</script>"
    reading = dataclasses.replace(lesson.reading, words=(nasty, *lesson.reading.words[1:]))
    file = tmp_path / "word.html"
    file.write_text(word_page(dataclasses.replace(lesson, opened=(reading,))), encoding="utf-8")
    tab = open_page(file.as_uri())
    assert tab.evaluate("window.PWN") is None
    assert nasty in tab.locator(".hero .big").first.inner_text()
    assert tab.locator(".still svg").is_visible() and not tab.locator("#stage").is_visible()


# --- the frame ---------------------------------------------------------------------------------------------------


def test_nothing_is_loaded_and_no_added_script_runs(browser: Any, address: str) -> None:
    context = browser.new_context()
    tab = context.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(address)
    tab.keyboard.press("s")
    tab.locator("[data-set-language=ko]").click()
    blocked = tab.evaluate(
        """() => new Promise((done) => {
             document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
             const script = document.createElement("script");
             script.textContent = "window.PWN = 1";
             document.body.append(script);
           })"""
    )
    assert blocked.startswith("script-src") and tab.evaluate("window.PWN") is None
    context.close()
    assert asked == [address]


def test_switching_the_language_leaves_nothing_of_the_other(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    for code, other, swap in (("ko", "en", "바꾸기"), ("en", "ko", "swap")):
        tab.locator(f"[data-set-language={code}]").click()
        visible = "elements => elements.filter((element) => element.checkVisibility()).length"
        assert tab.locator(f".t[lang={other}]").evaluate_all(visible) == 0
        assert tab.locator(f".t[lang={code}]").evaluate_all(visible) > 60
        assert swap in tab.locator("#swap").inner_text()
    assert "낱말" in open_page(locale="ko-KR").title()


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
def test_the_page_never_scrolls_sideways(open_page: Callable[..., Any], width: int, locale: str) -> None:
    tab = open_page(viewport={"width": width, "height": 800}, locale=locale)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    ends = tab.locator("#lines path").evaluate_all("paths => paths.map((p) => p.getBBox().width + p.getBBox().height)")
    assert min(ends) > 10


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system(open_page: Callable[..., Any], scheme: str) -> None:
    tab = open_page(color_scheme=scheme)
    colour = "e => getComputedStyle(e).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number)"
    assert (np.mean(tab.locator("body").evaluate(colour)) > 128) == (scheme == "light")


def test_without_script_the_picture_and_the_tables_are_there(open_page: Callable[..., Any]) -> None:
    tab = open_page(java_script_enabled=False)
    assert not tab.locator("#stage").is_visible() and tab.locator(".still svg").is_visible()
    assert tab.locator("#reckoning tbody tr").count() == len(ARTICLE.split())
    assert not tab.locator(".agrees").is_visible()


def test_a_printed_page_shows_the_picture_in_place_of_the_stage(open_page: Callable[..., Any]) -> None:
    tab = open_page(color_scheme="dark")
    assert not tab.locator(".still svg").is_visible()
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    assert tab.locator(".still svg").is_visible() and not tab.locator("#stage").is_visible()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_everything_that_can_be_used_has_a_name(open_page: Callable[..., Any]) -> None:
    tree = open_page().locator("body").aria_snapshot()
    for role in ("combobox", "button", "textbox", "radio"):
        lines = [line.strip() for line in tree.splitlines() if line.strip().startswith(f"- {role}")]
        assert lines and all(f'- {role} "' in line for line in lines), lines
