"""In a browser: the reader takes the steps, picture, words and table go along, and nothing leaves the page."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.viz.needs import needs_graphviz
from viz.replay import Replay, replay

require("jinja2")
needs_graphviz()

NASTY = "</script><script>window.PWN=1</script><img src=x onerror=window.PWN=1>"


def head(name: str = "Q") -> Replay:
    """One attention head whose gradients are simple fractions: dP = [4, 0], dS = [3/4, −3/4]."""
    q = ta.Tensor(np.array([[1.0, 0.0]]), requires_grad=True, name=name)
    k = ta.Tensor(np.array([[0.0, 0.0], [math.log(3.0), 0.0]]), requires_grad=True, name="K")
    v = ta.Tensor(4.0 * np.eye(2), requires_grad=True, name="V")
    s = q @ k.T
    p = ta.softmax(s)
    loss = (p @ v)[0, 0]
    s.name, p.name, loss.name = "S", "P", "L"
    return replay(loss)


def square() -> Replay:
    a = ta.Tensor(3.0, requires_grad=True, name="a")
    loss = a * a + a
    loss.name = "L"
    return replay(loss)


@pytest.fixture
def opened(page: Any, tmp_path: Path) -> Any:
    """Opens a replay's page and notes every request but the one for the page itself."""

    def open_page(recorded: Replay, **given: Any) -> Any:
        target = recorded.save(tmp_path / "replay.html", **given)
        page.emulate_media(reduced_motion="reduce")
        page.requests = []
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(target.as_uri())
        return page

    return open_page


def shown_step(page: Any) -> int:
    (number,) = page.evaluate("[...document.querySelectorAll('.step')].filter(s => !s.hidden).map(s => s.id.slice(5))")
    return int(number)


def node(recorded: Replay, name: str) -> str:
    return next(node.id for node in recorded.graph.nodes if node.name == name)


def in_picture(page: Any, identity: str) -> list[str]:
    texts: list[str] = page.locator(f'svg [data-gradient="{identity}"]').all_text_contents()
    return texts


def in_table(page: Any, identity: str) -> list[str]:
    texts: list[str] = page.locator(f'#all [data-gradient="{identity}"]').all_text_contents()
    return texts


def status(page: Any, identity: str) -> str:
    classes = page.locator(f'svg g[data-node="{identity}"]').get_attribute("class")
    (found,) = re.findall(r"s-(\w+)", classes)
    return str(found)


def test_arrow_keys_take_the_steps(opened: Any) -> None:
    recorded = head()
    page = opened(recorded)
    seen = [shown_step(page)]
    for _ in range(len(recorded)):
        page.keyboard.press("ArrowRight")
        seen.append(shown_step(page))
    assert seen == [*range(1, len(recorded) + 1), len(recorded)]
    page.keyboard.press("ArrowLeft")
    assert shown_step(page) == len(recorded) - 1
    page.keyboard.press("Home")
    assert shown_step(page) == 1
    page.keyboard.press("End")
    assert shown_step(page) == len(recorded)


def test_picture_table_and_step_show_what_is_known(opened: Any) -> None:
    recorded = head()
    page = opened(recorded)
    for index, step in enumerate(recorded.steps):
        assert shown_step(page) == step.number
        for identity, state in recorded.at(index).items():
            if state.status != "none":
                size = recorded.nodes[identity].value.size  # type: ignore[union-attr]
                gradient = [] if state.gradient is None else state.gradient.ravel().tolist()
                expected = [recorded.write(value) for value in gradient] or ["∂?"] * size
                assert in_picture(page, identity) == in_table(page, identity) == expected
                assert status(page, identity) == state.status
        page.keyboard.press("ArrowRight")


def test_buttons_slider_and_table_lead_to_every_step(opened: Any) -> None:
    recorded = head()
    page = opened(recorded)
    page.click('[data-go="next"]')
    assert shown_step(page) == 2
    page.click('[data-go="last"]')
    assert shown_step(page) == len(recorded) and page.is_disabled('[data-go="next"]')
    page.click('[data-go="first"]')
    assert shown_step(page) == 1 and page.is_disabled('[data-go="previous"]')
    page.focus("input[type=range]")
    page.keyboard.press("ArrowRight")
    assert shown_step(page) == 2
    page.click('#all [data-step="4"]')
    assert shown_step(page) == 4
    p = node(recorded, "P")
    page.locator(f'svg g[data-node="{p}"] text').first.click()
    assert recorded.steps[shown_step(page) - 1].tensor == p


def test_the_current_tensor_is_in_sight(opened: Any) -> None:
    recorded = head()
    page = opened(recorded)
    for step in recorded.steps:
        inside = page.evaluate(
            """(node) => {
              const frame = document.querySelector('.pane').getBoundingClientRect();
              const box = document.querySelector(`svg g[data-node="${node}"]`).getBoundingClientRect();
              return box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1 && box.left >= frame.left - 1;
            }""",
            step.tensor,
        )
        assert inside, step.name
        page.keyboard.press("ArrowRight")


def test_what_the_pointer_rests_on_is_lit_in_picture_and_text(opened: Any) -> None:
    recorded = square()
    page = opened(recorded)
    lit = "[...document.querySelectorAll('.lit')].map(e => e.tagName.toLowerCase() + ':' + e.dataset.node)"
    page.locator('svg g[data-node="n0"] text').first.hover()
    found = page.evaluate(lit)
    assert "g:n0" in found and "tr:n0" in found and {each.split(":")[1] for each in found} == {"n0"}
    page.locator(".step:not([hidden]) .sent").first.hover()
    sent = recorded.steps[0].contributions[0].tensor
    found = page.evaluate(lit)
    assert f"g:{sent}" in found and f"div:{sent}" in found
    page.focus(f'#all tr[data-node="{sent}"] a')
    assert f"g:{sent}" in page.evaluate(lit)


def test_predictions_are_asked_for_hidden_and_judged(opened: Any) -> None:
    recorded = head()
    page = opened(recorded)
    page.click(".predict")
    while recorded.steps[shown_step(page) - 1].name != "P":
        page.keyboard.press("ArrowRight")
    s = node(recorded, "S")
    step = page.locator(".step:not([hidden])")
    assert in_picture(page, s) == in_table(page, s) == ["∂?", "∂?"] and status(page, s) == "waiting"
    assert not step.locator(".guess td > span").first.is_visible()
    assert not page.locator(".by-differences").first.is_visible()
    inputs = step.locator(".guess input")
    assert inputs.count() == 2
    inputs.nth(0).fill("3/4")
    inputs.nth(1).fill("0.75")
    inputs.nth(1).press("ArrowLeft")  # moves in the text, takes no step
    inputs.nth(1).press("Enter")
    assert in_picture(page, s) == ["0.75", "−0.75"] and status(page, s) == "complete"
    assert step.locator(".guess td.right").count() == 1 and step.locator(".guess td.missed").count() == 1
    assert step.locator(".guess td > span").first.is_visible()
    assert "1 of 2 right" in page.text_content("#live")


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("3/4", True),
        ("0.75", True),
        (",75", True),
        ("6/8", True),
        ("-3/4", False),
        ("ln 2", False),
        ("", None),
        ("x", False),
    ],
)
def test_answers_are_read_as_on_paper(opened: Any, written: str, right: bool | None) -> None:
    recorded = head()
    page = opened(recorded)
    page.click(".predict")
    while recorded.steps[shown_step(page) - 1].name != "P":
        page.keyboard.press("ArrowRight")
    step = page.locator(".step:not([hidden])")
    step.locator(".guess input").first.fill(written)
    step.locator(".reveal").click()
    marks = step.locator(".guess td.right").count(), step.locator(".guess td.missed").count()
    assert marks == {True: (1, 0), False: (0, 1), None: (0, 0)}[right]


def test_moving_on_hides_again_and_switching_off_shows_all(opened: Any) -> None:
    page = opened(square())
    page.click(".predict")
    page.keyboard.press("r")
    assert page.locator(".hiding").count() == 0
    page.keyboard.press("ArrowRight")
    assert page.locator(".hiding").count() == 1
    page.click(".predict")
    assert page.locator(".hiding").count() == 0 and page.locator(".guess input").count() == 0


def test_both_languages_are_whole_and_can_be_switched(opened: Any) -> None:
    page = opened(head(), language="en")
    texts = {}
    for code, mark in (("en", "Step 1 of"), ("ko", "중 1단계")):
        page.click(f'[data-set-language="{code}"]')
        assert page.evaluate("document.documentElement.lang") == code
        texts[code] = page.inner_text("main")
        assert mark in texts[code] and mark in page.text_content("#live")
    assert not re.search("[가-힣]", texts["en"])
    left = re.sub("matmul|getitem|softmax|transpose|index|ln|by|n\\d+", "", texts["ko"])
    assert not re.search("[A-Za-z]{3,}", left), re.findall("[A-Za-z]{3,}", left)


def test_what_is_said_aloud_tells_the_step(opened: Any) -> None:
    recorded = head()
    page = opened(recorded)
    assert page.get_attribute("#live", "aria-live") == "polite"
    page.keyboard.press("ArrowRight")
    spoken = page.text_content("#live")
    assert f"Step 2 of {len(recorded)}" in spoken and "Sends to P, V." in spoken
    assert page.get_attribute("input[type=range]", "aria-valuetext") == spoken


def test_nothing_is_requested_and_no_name_is_run(opened: Any) -> None:
    page = opened(head(NASTY), title=NASTY)
    page.keyboard.press("End")
    page.click('[data-set-language="ko"]')
    page.wait_for_timeout(100)
    assert page.evaluate("window.PWN") is None
    assert page.title() == NASTY and NASTY in page.inner_text("main")
    assert [url for url in page.requests if not url.endswith("/replay.html")] == []


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_the_page_is_never_wider_than_the_window(opened: Any, width: int) -> None:
    page = opened(head())
    page.set_viewport_size({"width": width, "height": 844})
    for _ in range(3):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("ArrowRight")
    assert page.locator('[data-go="next"]').is_visible()


def test_dark_surroundings_turn_picture_and_page_dark(opened: Any) -> None:
    page = opened(head())
    colour = "(s) => getComputedStyle(document.querySelector(s)).fill"
    page.click('[data-set-theme="light"]')
    light = page.evaluate(colour, "svg text"), page.evaluate(colour, "svg .outline")
    page.click('[data-set-theme="dark"]')
    dark = page.evaluate(colour, "svg text"), page.evaluate(colour, "svg .outline")
    assert light[0] != dark[0] and light[1] != dark[1]


def test_on_paper_and_without_scripts_every_step_is_there(opened: Any, browser: Any, tmp_path: Path) -> None:
    recorded = head()
    page = opened(recorded)
    page.emulate_media(media="print")
    assert page.locator(".step:visible").count() == len(recorded)
    assert not page.locator(".controls").is_visible()
    context = browser.new_context(java_script_enabled=False)
    still = context.new_page()
    still.goto((tmp_path / "replay.html").as_uri())
    assert still.locator(".step:visible").count() == len(recorded)
    assert not still.locator(".controls").is_visible()
    context.close()
