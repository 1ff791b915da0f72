"""The lesson's page in a real browser: by keyboard, in both languages, light and dark, small and large, offline."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from transformer.lessons.dates import DatesLesson


def step_of(tab: Any) -> str:
    return str(tab.locator("#step-number").inner_text())


def shown(tab: Any, container: str) -> list[str]:
    return [str(text) for text in tab.locator(f"#{container} .token b").all_text_contents()]


def test_nothing_is_loaded_but_the_page_itself(browser: Any, address: str) -> None:
    context = browser.new_context()
    tab = context.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(address)
    tab.keyboard.press("ArrowRight")
    tab.locator("[data-set-theme=dark]").click()
    tab.locator("[data-set-language=ko]").click()
    tab.wait_for_load_state("networkidle")
    context.close()
    assert asked == [address]


def test_the_policy_stops_a_script_that_was_added(browser: Any, address: str) -> None:
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(address)
    blocked = tab.evaluate(
        """() => new Promise((done) => {
             document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
             const script = document.createElement("script");
             script.textContent = "window.PWN = 1";
             document.body.append(script);
           })"""
    )
    pwned = tab.evaluate("window.PWN")
    context.close()
    assert blocked.startswith("script-src") and pwned is None


def test_arrow_keys_walk_through_the_loop(open_page: Callable[..., Any], lesson: DatesLesson) -> None:
    tab, steps = open_page(), lesson.loop.steps
    assert step_of(tab) == f"Step 1 of {len(steps)}"
    for number, step in enumerate(steps):
        assert step_of(tab) == f"Step {number + 1} of {len(steps)}"
        assert shown(tab, "so-far") == [*step.so_far, step.says]
        assert tab.locator("#choices .name").all_text_contents() == [token for token, _ in step.choices]
        tab.keyboard.press("ArrowRight")
    assert step_of(tab) == f"Step {len(steps)} of {len(steps)}"
    tab.keyboard.press("ArrowLeft")
    assert step_of(tab) == f"Step {len(steps) - 1} of {len(steps)}"


def test_the_slider_is_reached_with_tab_and_moved_with_keys(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    tab.locator("#slider").focus()
    tab.keyboard.press("ArrowRight")
    assert step_of(tab).startswith("Step 2 ")
    tab.keyboard.press("End")
    last = tab.locator("#slider").get_attribute("max")
    assert step_of(tab).startswith(f"Step {last} ")
    assert tab.locator("#slider").get_attribute("aria-valuetext") == step_of(tab)
    assert tab.locator("#on-button").is_disabled()
    tab.locator("#back-button").press("Enter")
    assert step_of(tab).startswith(f"Step {int(last) - 1} ")


def test_the_shares_are_those_of_the_model(open_page: Callable[..., Any], lesson: DatesLesson) -> None:
    tab = open_page()
    assert shown(tab, "looks") == list(lesson.loop.source)
    most = tab.locator("#looks .token.most").count() and tab.locator("#looks .token").evaluate_all(
        "tokens => tokens.findIndex((token) => token.classList.contains('most'))"
    )
    assert most == int(np.argmax(lesson.loop.last_layer()[0]))
    opacities = tab.locator("#looks .shade").evaluate_all("shades => shades.map((s) => Number(s.style.opacity))")
    np.testing.assert_allclose(opacities, lesson.loop.last_layer()[0], atol=1e-3)


def test_a_head_is_chosen_in_the_list_or_by_its_picture(open_page: Callable[..., Any], lesson: DatesLesson) -> None:
    tab = open_page()
    assert tab.locator("#heads option").count() == 1 + 2 * 4
    tab.locator(".multiple[data-layer='0'][data-head='2']").press("Enter")
    assert tab.locator("#heads").input_value() == "0,2"
    opacities = tab.locator("#looks .shade").evaluate_all("shades => shades.map((s) => Number(s.style.opacity))")
    np.testing.assert_allclose(opacities, lesson.loop.steps[0].cross_attention[0, 2], atol=1e-3)
    tab.locator("#heads").select_option("mean")
    assert tab.locator(".multiple[aria-pressed='true']").count() == 0


@pytest.mark.parametrize(
    ("locale", "title"), [("en-US", "reads a date"), ("ko-KR", "날짜를 읽다"), ("fr-FR", "reads a date")]
)
def test_the_page_speaks_the_readers_language(open_page: Callable[..., Any], locale: str, title: str) -> None:
    tab = open_page(locale=locale)
    assert title in tab.title() and title in tab.locator("h1").inner_text()


def test_switching_the_language_leaves_nothing_of_the_other(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    for code, other in (("ko", "en"), ("en", "ko")):
        tab.locator(f"[data-set-language={code}]").click()
        assert tab.evaluate("document.documentElement.lang") == code
        visible = "elements => elements.filter((element) => element.checkVisibility()).length"
        assert tab.locator(f".t[lang={other}]").evaluate_all(visible) == 0
        assert tab.locator(f".t[lang={code}]").evaluate_all(visible) > 80
    tab.locator("[data-set-language=ko]").click()
    assert "단계" in step_of(tab)
    assert tab.locator("#heads option").first.inner_text() == "마지막 층, 헤드 4개의 평균"


def test_a_language_that_was_asked_for_wins_over_the_readers(
    open_page: Callable[..., Any], write_page: Callable[..., str]
) -> None:
    assert "날짜" in open_page(write_page(language="ko"), locale="en-US").title()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_and_the_switch(open_page: Callable[..., Any], scheme: str) -> None:
    tab = open_page(color_scheme=scheme)
    other = {"light": "dark", "dark": "light"}[scheme]

    def brightness(selector: str, what: str) -> float:
        script = f"element => getComputedStyle(element).{what}.match(/[\\d.]+/g).slice(0, 3).map(Number)"
        return float(np.mean(tab.locator(selector).first.evaluate(script)))

    assert (brightness("body", "backgroundColor") > 128) == (scheme == "light")
    assert tab.locator(f"[data-set-theme={scheme}]").get_attribute("aria-pressed") == "true"
    tab.locator(f"[data-set-theme={other}]").click()
    assert (brightness("body", "backgroundColor") > 128) == (other == "light")
    assert (brightness("body", "color") > 128) == (other == "dark")
    graph_page = brightness(".graph svg polygon", "fill")
    assert (graph_page > 128) == (other == "light")


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
def test_the_page_never_scrolls_sideways(open_page: Callable[..., Any], width: int, locale: str) -> None:
    tab = open_page(viewport={"width": width, "height": 800}, locale=locale)
    for details in tab.locator("summary").all():
        details.click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_nasty_tokens_stay_text(
    open_page: Callable[..., Any], write_page: Callable[..., str], lesson: DatesLesson
) -> None:
    nasty = "</script><script>window.PWN=1</script><img src=x onerror='window.PWN=2'>"
    steps = tuple(
        dataclasses.replace(step, so_far=(nasty, *step.so_far[1:]), choices=((nasty, 1.0), *step.choices[1:]))
        for step in lesson.loop.steps
    )
    loop = dataclasses.replace(lesson.loop, source=(nasty, *lesson.loop.source[1:]), steps=steps, answer=nasty)
    tab = open_page(write_page(text=nasty, loop=loop, right_answer=nasty))
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("window.PWN") is None
    assert shown(tab, "looks")[0] == nasty
    assert tab.locator("main img").count() == 0


def test_without_script_the_steps_stand_in_a_table(open_page: Callable[..., Any], lesson: DatesLesson) -> None:
    tab = open_page(java_script_enabled=False)
    assert not tab.locator("#stage").is_visible() and not tab.locator(".switches").is_visible()
    tab.locator(".all-steps summary").click()
    assert tab.locator(".all-steps tbody tr").count() == len(lesson.loop.steps)
    assert tab.locator(".all-steps tbody tr").first.is_visible()


def test_printed_pages_are_light_and_show_every_answer(open_page: Callable[..., Any]) -> None:
    tab = open_page(color_scheme="dark")
    tab.locator("[data-set-theme=dark]").click()
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.locator("details:not([open])").count() == 0
    assert not tab.locator(".bar").is_visible()
    tab.emulate_media(media="screen")
    tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"


def test_everything_that_can_be_used_has_a_name(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    tree = tab.locator("body").aria_snapshot()
    for role in ("slider", "combobox", "button"):
        lines = [line.strip() for line in tree.splitlines() if line.strip().startswith(f"- {role}")]
        assert lines and all(f'- {role} "' in line for line in lines), lines
    unnamed = tab.locator("svg[role=img]").evaluate_all(
        "pictures => pictures.filter((p) => !document.getElementById(p.getAttribute('aria-labelledby').split(' ')[0]))"
    )
    assert unnamed == []
