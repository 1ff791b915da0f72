"""The page of a replay is one file that needs nothing, says everything in both languages, and runs no name."""

from __future__ import annotations

import html
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.viz.needs import needs_graphviz
from tests.viz.test_replay import leaf
from tinygrad_attn.errors import OptionError, RenderError
from tinygrad_attn.registry import OPERATIONS
from viz.numbers import NOT_COMPUTED
from viz.replay import Replay, replay
from viz.replay_words import FORMULAS_KO, TEXTS

require("jinja2")
needs_graphviz()

NASTY = "</script><script>window.PWN=1</script><img src=x onerror=window.PWN=1>{{ 7*7 }}{0}&lt;\\N\"'"


def recorded(name: str = "x", shape: tuple[int, ...] = (2, 2)) -> Replay:
    x = leaf(np.linspace(-1.0, 2.0, int(np.prod(shape))).reshape(shape), name)
    loss = (x * x + x).sum()
    loss.name = "L"
    return replay(loss)


def data_of(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="page-data">(.*?)</script>', page, flags=re.DOTALL)
    found: dict[str, Any] = json.loads(text)
    return found


def test_nothing_is_loaded_from_anywhere() -> None:
    page = recorded().html()
    targets = re.findall(r"""(?:src|href|action)\s*=\s*["']?([^"'\s>]*)""", page)
    assert targets and all(target.startswith("#") for target in targets)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    assert "default-src 'none'" in html.unescape(page) and "@import" not in page


def test_names_are_shown_and_never_run() -> None:
    page = recorded(NASTY).html(NASTY)
    assert len(re.findall("<script", page)) == 2 and "<img" not in page
    assert html.escape(NASTY, quote=False).split("{{")[0] in page
    assert "49" not in re.findall("<h1>.*?</h1>", page, flags=re.DOTALL)[0]
    title = html.unescape(re.findall("<title>(.*?)</title>", page, flags=re.DOTALL)[0])
    assert title == NASTY


@pytest.mark.parametrize("name", ["✓ 4", "○", "mean", "∂?", "0", " ", "g0"])
def test_names_that_look_like_numbers_or_signs_stay_names(name: str) -> None:
    page = recorded(name).html()
    svg = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    (node,) = (element for element in svg.iter() if element.get("data-node") == "n0")
    first = next(element for element in node.iter() if element.tag.endswith("text"))
    assert first.text is not None and first.text.replace("\xa0", " ") == name
    assert not {"data-sign", "data-gradient", "data-fact"} & set(first.keys())


def test_the_title_says_what_is_differentiated_unless_given() -> None:
    assert data_of(recorded().html())["titles"] == {
        "en": "The backward pass of L, step by step",
        "ko": "L의 역전파, 한 단계씩",
    }
    assert set(data_of(recorded().html("{x} & <y>"))["titles"].values()) == {"{x} & <y>"}


def test_every_text_stands_there_in_english_and_korean() -> None:
    page = recorded().html()
    english, korean = (re.findall(rf'class="t" lang="{code}"', page) for code in ("en", "ko"))
    assert len(english) == len(korean) > 60
    assert TEXTS["en"].keys() == TEXTS["ko"].keys()
    for key, text in TEXTS["ko"].items():
        assert re.search("[가-힣]", text) or not re.search("[A-Za-z]{2}", re.sub(r"{\w+}|<[^>]*>", "", text)), key


@pytest.mark.parametrize("name", ["masked_fill", "transpose", "reshape", "relu", "where", "embedding", "cross_entropy"])
def test_rules_in_words_are_told_in_korean(name: str) -> None:
    for formula in OPERATIONS[name].formulas.values():
        assert re.search("[가-힣]", FORMULAS_KO[formula])


def test_the_picture_holds_every_number_that_will_change() -> None:
    replayed = recorded()
    page = replayed.html()
    svg = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    for step in replayed.steps:
        numbers = [element for element in svg.iter() if element.get("data-gradient") == step.tensor]
        assert len(numbers) == step.upstream.size
        assert [element.text for element in numbers] == [replayed.write(v) for v in step.upstream.ravel().tolist()]
        assert {element.get("text-anchor") for element in numbers} == {"end"}
        assert len([element for element in svg.iter() if element.get("data-sign") == step.tensor]) == 1


def test_what_the_script_is_told_is_what_is_known_at_each_step() -> None:
    replayed = recorded()
    data = data_of(replayed.html())
    shown = {name: (status, texts) for name, status, _, texts in data["wholes"]}
    assert all(status == "waiting" and set(texts) == {NOT_COMPUTED} for status, texts in shown.values())
    for index, step in enumerate(data["steps"]):
        for name, status, _, texts in [*step["begins"], *step["arrives"]]:
            shown[name] = status, texts
        for name, state in replayed.at(index).items():
            if state.status != "none":
                gradient = [] if state.gradient is None else state.gradient.ravel().tolist()
                texts = [replayed.write(v) for v in gradient] or [NOT_COMPUTED] * len(shown[name][1])
                assert shown[name] == (state.status, texts)


def test_what_a_step_sends_is_not_told_before_it_is_asked_for() -> None:
    for step in data_of(recorded().html())["steps"]:
        assert not {name for name, *_ in step["begins"]} & {name for name, *_ in step["arrives"]}


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2), (50, 50), (0, 3)])
def test_arrays_of_any_shape_have_a_page(shape: tuple[int, ...]) -> None:
    assert recorded(shape=shape).html().count('class="step"') == 4


def test_values_that_are_not_finite_have_a_page() -> None:
    x = leaf([0.0, 1.0], "x")
    loss = ta.softmax(ta.masked_fill(x, np.array([False, True]), value=-np.inf))[0] * np.inf
    with np.errstate(all="ignore"):
        assert "NaN" in replay(loss).html()


def test_the_reason_for_missing_differences_stands_there() -> None:
    x = leaf([1.0, 2.0], "x")
    loss = (x * x).sum()
    assert TEXTS["ko"]["unchecked_off"] in replay(loss, numerical=False).html()
    assert "by-differences" not in re.sub(
        "<style>.*?</style>|<script>.*?</script>", "", replay(loss, numerical=False).html(), flags=re.DOTALL
    )


def test_the_same_page_is_written_in_every_run() -> None:
    assert recorded().html() == recorded().html()


def test_an_unknown_language_is_an_error() -> None:
    with pytest.raises(OptionError, match="auto or one of en, ko"):
        recorded().html(language="fr")


def test_pages_and_texts_are_saved_whole(tmp_path: Path) -> None:
    replayed = recorded()
    assert replayed.save(tmp_path / "r.txt").read_text(encoding="utf-8") == replayed.text() + "\n"
    page = replayed.save(tmp_path / "r.HTML", language="ko").read_text(encoding="utf-8")
    assert page == replayed.html(language="ko") and '<html lang="ko"' in page
    with pytest.raises(OptionError, match=r"\.html or \.txt"):
        replayed.save(tmp_path / "r.svg")
    with pytest.raises(RenderError, match="cannot be written"):
        replayed.save(tmp_path / "no folder" / "r.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.HTML", "r.txt"]
