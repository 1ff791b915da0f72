"""The page on self-attention in a real browser: stepping, revealing, switching, in both languages, offline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import require
from transformer.lessons.strip import Setting
from transformer.lessons.strip_lesson import AttentionLesson, build_attention_lesson
from transformer.lessons.strip_page import STEPS, attention_page
from transformer.lessons.strip_text import written

NAMES = list(STEPS)
RESULTS = {"q": "Q", "k": "K", "v": "V", "scores": "scores", "scale": "scaled", "mask": "masked", "softmax": "weights"}
RESULTS |= {"sum": "read", "all": "read", "heads": "read", "join": "O"}


@pytest.fixture(scope="module")
def lesson() -> AttentionLesson:
    require("jinja2")
    return build_attention_lesson()


@pytest.fixture(scope="module")
def address(lesson: AttentionLesson, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("attention") / "attention.html"
    file.write_text(attention_page(lesson), encoding="utf-8")
    return Path(file).as_uri()


def go_to(tab: Any, step: str) -> Any:
    """Chooses a step in the strip, lets it show its result, and gives its article."""
    tab.locator(f"[data-go={step}]").click()
    if tab.locator("#on-button.covers").count():
        tab.locator("#on-button").click()
    return tab.locator(f".step[data-step={step}]")


def choose(tab: Any, name: str, value: str) -> None:
    tab.locator(f"input[name={name}][value='{value}']").check(force=True)


def cells(matrix: Any) -> list[str]:
    return [str(text) for text in matrix.locator("table:not(.slopes) td").all_text_contents()]


def expected(values: Any) -> list[str]:
    return [written(float(value)) for value in np.asarray(values).flat]


def step_of(tab: Any) -> str:
    return str(tab.locator("[data-go][aria-current]").get_attribute("data-go"))


# --- stepping ----------------------------------------------------------------------------------------------------


def test_arrow_keys_reveal_and_step_to_the_end_and_back(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    for number, step in enumerate(NAMES):
        assert step_of(tab) == step
        assert tab.locator("#step-number").inner_text() == f"Step {number + 1} of {len(NAMES)}"
        assert tab.locator(".step:visible").count() == 1
        if tab.locator("#on-button.covers").count():
            article = tab.locator(f".step[data-step={step}]")
            assert "?" in article.locator(".covered").all_text_contents()
            assert article.locator(".answer:visible").count() == article.locator(".mistake:visible").count() == 0
            tab.keyboard.press("ArrowRight")
            assert step_of(tab) == step and article.locator(".covered").count() == 0
        tab.keyboard.press("ArrowRight")
    assert step_of(tab) == NAMES[-1] and tab.locator("#on-button").is_disabled()
    for step in reversed(NAMES[:-1]):
        tab.keyboard.press("ArrowLeft")
        assert step_of(tab) == step and tab.locator(".covered").count() == 0


def test_one_query_first_then_all_then_two_heads(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    article = go_to(tab, "softmax")
    assert article.locator("[data-name=weights] td:not(.blank)").count() == 4
    article = go_to(tab, "all")
    assert article.locator("[data-name=weights] td.blank").count() == 0
    article = go_to(tab, "heads")
    assert article.locator("[data-name=weights]").count() == 2
    article = go_to(tab, "softmax")
    assert article.locator("[data-name=weights]").count() == 1
    assert article.locator("[data-name=weights] td.blank").count() == 12


# --- the engine's numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting",
    [
        Setting(),
        Setting(mask="none"),
        Setting("self", "causal", False, 1),
        Setting("cross", "padding"),
        Setting("cross", "none", True, 2),
        Setting("reversed", "padding", False, 2),
    ],
    ids=lambda setting: setting.name,
)
def test_every_result_is_the_engines(open_page: Callable[..., Any], lesson: AttentionLesson, setting: Setting) -> None:
    tab, strip = open_page(), lesson.strips[setting.name]
    for step, name in RESULTS.items():
        article = go_to(tab, step)
        choose(tab, "source", setting.source)
        choose(tab, "mask", setting.mask)
        choose(tab, "scale", "scaled" if setting.scaled else "raw")
        choose(tab, "heads", str(setting.heads))
        choose(tab, "query", "all")
        choose(tab, "gradient", "on")
        values, slopes = strip.values[name], strip.gradients[name]
        heads = range(len(values)) if values.ndim == 3 else [None]
        for place, head in enumerate(heads):
            matrix = article.locator(f".equation [data-name={name}]").nth(place)
            assert cells(matrix) == expected(values if head is None else values[head]), (step, name)
            shown = [str(text) for text in matrix.locator(".slopes td").all_text_contents()]
            wanted = expected(slopes if head is None else slopes[head])
            assert shown == wanted, (step, name)


def test_the_reckoning_follows_the_pointer_and_lights_what_it_uses(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    article = go_to(tab, "softmax")
    line = article.locator(".reckoning")
    assert "3 / (0 + 2 + 3 + 1) = 3 / 6 = 1/2" in line.inner_text()
    article.locator("[data-name=weights] td[data-row='3'][data-column='1']").hover()
    assert "P (am, <s>): 2 / (0 + 2 + 3 + 1) = 2 / 6 = 1/3" in line.inner_text()
    assert article.locator("[data-name=exp] td.lit").count() == 4
    choose(tab, "gradient", "on")
    tab.mouse.move(0, 0)  # what lies under the pointer after scrolling would count as pointed at
    article.locator("[data-name=weights] table:not(.slopes) td[data-row='3'][data-column='2']").focus()
    assert "∂L/∂S′ = 1/2 · (6 − 11/3) = 7/6" in line.inner_text()
    article = go_to(tab, "scores")
    article.locator("[data-name=scores] table:not(.slopes) td[data-row='3'][data-column='2']").hover()
    assert "2·ln 3 + 0·0 + 2·0 + 0·0 = 2 ln 3" in article.locator(".reckoning").inner_text()
    assert article.locator("[data-name=q] td.lit").count() == article.locator("[data-name=k] td.lit").count() == 4


def test_a_token_in_the_text_lights_its_name_in_the_matrices(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    article = go_to(tab, "softmax")
    article.locator(".answer b:visible", has_text="am").first.hover()
    assert set(article.locator("th.named").all_text_contents()) == {"am"}
    assert article.locator("th.named").count() == 6  # a row and a column of each of three matrices
    tab.locator("h1").hover()
    assert article.locator("th.named").count() == 0


# --- controls ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "name", "values"),
    [
        ("c", "source", ["self", "cross", "reversed", "self"]),
        ("m", "mask", ["both", "none", "padding", "causal", "both"]),
        ("s", "scale", ["scaled", "raw", "scaled"]),
        ("h", "heads", ["1", "2", "1"]),
        ("g", "gradient", ["off", "on", "off"]),
        ("q", "query", ["3", "all", "0", "1", "2", "3"]),
    ],
)
def test_a_key_for_every_control(open_page: Callable[..., Any], key: str, name: str, values: list[str]) -> None:
    tab = open_page()
    for value in values:
        assert tab.locator(f"input[name={name}]:checked").get_attribute("value") == value
        tab.keyboard.press(key)


def test_between_two_sequences_there_is_no_causal_mask(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    choose(tab, "source", "cross")
    assert tab.locator("input[name=mask]:checked").get_attribute("value") == "padding"
    assert tab.locator("input[name=mask]:disabled").count() == 2
    assert tab.locator("#pick-query input").count() == 5
    choose(tab, "source", "reversed")
    assert tab.locator("#pick-query input").count() == 4


def test_mistakes_stand_beside_what_is_right(open_page: Callable[..., Any], lesson: AttentionLesson) -> None:
    tab = open_page()
    article = go_to(tab, "all")
    made = lesson.mistakes[Setting().name]
    for name in ("after", "times_zero", "plus", "textbook"):
        tables = article.locator(f"[data-mistake={name}] table")
        assert tables.count() == 2
        for place, kind in enumerate(("right", name)):
            shown = [str(text) for text in tables.nth(place).locator("td:not(.sum)").all_text_contents()]
            assert shown == expected(made[kind].weights)
    assert "shows through" in article.locator("[data-mistake=after]").inner_text()
    choose(tab, "mask", "none")
    assert article.locator(".mistake:visible").count() == 0
    article = go_to(tab, "softmax")
    assert article.locator("[data-mistake=wrong_axis] .wrong-cell").count() == 4
    choose(tab, "source", "cross")
    assert "(1, 4, 3)" in go_to(tab, "mask").locator("[data-mistake=target_mask]").inner_text()
    assert go_to(tab, "heads").locator("[data-mistake=d_model]").is_visible()
    choose(tab, "source", "reversed")
    assert go_to(tab, "sum").locator("[data-mistake=reversed]").is_visible()
    choose(tab, "gradient", "on")
    assert go_to(tab, "scale").locator("[data-mistake=forgotten]").is_visible()


# --- the frame ---------------------------------------------------------------------------------------------------


def test_switching_the_language_leaves_nothing_of_the_other(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    go_to(tab, "all")
    for code, other in (("ko", "en"), ("en", "ko")):
        tab.locator(f"[data-set-language={code}]").click()
        visible = "elements => elements.filter((element) => element.checkVisibility()).length"
        assert tab.locator(f".t[lang={other}]").evaluate_all(visible) == 0
        assert tab.locator(f".t[lang={code}]").evaluate_all(visible) > 60
    tab.locator("[data-set-language=ko]").click()
    assert "단계" in tab.locator("#step-number").inner_text() and "셀프" in tab.title()
    assert tab.locator("#pick-query").inner_text().endswith("모두")


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
def test_the_page_never_scrolls_sideways(open_page: Callable[..., Any], width: int, locale: str) -> None:
    tab = open_page(viewport={"width": width, "height": 800}, locale=locale)
    tab.keyboard.press("g")
    for step in NAMES:
        go_to(tab, step)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, step


def test_nothing_is_loaded_but_the_page_itself(browser: Any, address: str) -> None:
    context = browser.new_context()
    tab = context.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(address)
    tab.keyboard.press("ArrowRight")
    tab.wait_for_load_state("networkidle")
    context.close()
    assert asked == [address]


def test_without_a_script_and_on_paper_every_step_stands_there(open_page: Callable[..., Any]) -> None:
    tab = open_page(java_script_enabled=False)
    assert tab.locator(".step:visible").count() == len(NAMES)
    assert tab.locator(".equation.still:visible").count() == 8 and not tab.locator("#stage").is_visible()
    tab = open_page()
    tab.emulate_media(media="print")
    assert tab.locator(".step:visible").count() == len(NAMES)
    assert tab.locator(".equation.still:visible").count() == 8
    assert tab.locator(".answer:visible").count() == 6
