"""The page on self-attention holds every setting that was run, in both languages, and nothing from outside."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import require
from transformer.lessons.strip import Setting
from transformer.lessons.strip_lesson import AttentionLesson, build_attention_lesson
from transformer.lessons.strip_page import MISTAKES, RULES, STEPS, attention_page, attention_words
from transformer.lessons.strip_picture import strip_svg
from transformer.lessons.strip_text import written

TEMPLATES = Path(__file__).resolve().parents[3] / "transformer" / "lessons" / "templates"


@pytest.fixture(scope="module")
def lesson() -> AttentionLesson:
    return build_attention_lesson()


@pytest.fixture(scope="module")
def html(lesson: AttentionLesson) -> str:
    require("jinja2")
    return attention_page(lesson)


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', html, flags=re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def test_every_text_is_there_in_both_languages() -> None:
    require("jinja2")
    catalogues = attention_words().catalogues
    assert list(catalogues) == ["en", "ko"]
    assert all(text.strip() for texts in catalogues.values() for text in texts.values())
    assert [key for key, text in catalogues["ko"].items() if not re.search("[가-힣]", text)] == []


def test_every_text_is_used() -> None:
    require("jinja2")
    sources = [
        *TEMPLATES.glob("strip.*"),
        TEMPLATES / "chapters.html",
        TEMPLATES.parents[2] / "viz/templates/page.html",
    ]
    written_there = "".join(path.read_text(encoding="utf-8") for path in sources if path.suffix != ".json")
    computed = {f"{kind}_{step}" for kind in ("short", "title", "text", "ask", "answer", "rule") for step in STEPS}
    computed |= {f"{kind}_{name}" for kind in ("wrong", "why") for names in MISTAKES.values() for name in names}
    computed |= {f"pick_{name}" for name in ("source", "mask", "scale", "heads", "gradient")} | {"page_title"}
    assert [
        key for key in attention_words().catalogues["en"] if f'"{key}"' not in written_there and key not in computed
    ] == []


def test_every_rule_has_its_words() -> None:
    require("jinja2")
    rules = {key.removeprefix("rule_") for key in attention_words().catalogues["en"] if key.startswith("rule_")}
    assert rules == RULES.keys()


def test_every_setting_is_on_the_page_with_the_engines_numbers(html: str, lesson: AttentionLesson) -> None:
    data = data_of(html)
    assert data["runs"].keys() == lesson.strips.keys()
    for name, shown in data["runs"].items():
        strip = lesson.strips[name]
        for kind, matrices in (("values", strip.values), ("slopes", strip.gradients)):
            assert shown[kind].keys() == matrices.keys()
            for matrix, values in matrices.items():
                stacked = values if values.ndim == 3 else values[None]
                for index, expected in zip(shown[kind][matrix], stacked, strict=True):
                    assert data["pool"][index]["t"] == [[written(value) for value in row] for row in expected.tolist()]
                    finite = np.where(np.isfinite(expected), expected, 0.0)
                    np.testing.assert_allclose(data["pool"][index]["v"], finite, rtol=1e-5, atol=1e-12)


def test_the_page_stays_small(html: str) -> None:
    assert len(html.encode("utf-8")) < 500_000


def test_the_page_loads_nothing_and_links_only_to_pages_that_are_there(lesson: AttentionLesson, html: str) -> None:
    def links(page: str) -> set[str]:
        without_data = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
        assert not re.findall(r"url\((?!#)|@import|<link|<iframe|<object|<embed", without_data)
        found = re.findall(r"""\b(?:src|href|action|data)=["']?([^"'\s>]*)""", without_data)
        return {reference for reference in found if not reference.startswith(("#", "data:"))}

    assert {"word.html", "index.html", "dates.html"} >= links(
        attention_page(lesson, present=["word", "attention", "dates"])
    )
    assert links(attention_page(lesson, present=["attention"])) == {"index.html"}


def test_the_example_to_type_gives_what_the_page_says(html: str) -> None:
    """The lines under "Check it" are run as they stand there."""
    code = re.search(r'<pre class="mono">(import numpy.*?)</pre>', html, flags=re.DOTALL)
    assert code is not None
    found: dict[str, Any] = {}
    exec(re.sub(r"#.*", "", code.group(1)), found)  # the page's own lines
    np.testing.assert_allclose(found["p"].numpy(), [1 / 3, 1 / 2, 1 / 6])
    np.testing.assert_allclose(found["s"].grad, [1 / 9, 7 / 6, -23 / 18])


def test_ids_are_unique(html: str) -> None:
    ids = re.findall(r'\bid="([^"]*)"', re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL))
    assert len(ids) == len(set(ids))


def test_the_picture_shows_the_weights_as_fractions(lesson: AttentionLesson) -> None:
    picture = strip_svg(lesson.strips[Setting().name])
    assert picture.startswith("<svg") and ">1/3<" in picture and ">ln 3<" in picture and ">−∞<" in picture
