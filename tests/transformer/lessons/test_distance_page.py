"""The page on distance holds the run it was made from, in both languages, and says only what that run has shown."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require
from transformer.lessons.contents import PAGES
from transformer.lessons.distance import DistanceLesson
from transformer.lessons.distance_model import KINDS
from transformer.lessons.distance_page import distance_page, distance_words
from transformer.lessons.distance_pictures import (
    Line,
    arrival_charts,
    chart_svg,
    hops_svg,
    losses_chart,
    scientific,
    steps_chart,
)
from transformer.tasks import Score

TEMPLATES = Path(__file__).resolve().parents[3] / "transformer" / "lessons" / "templates"


@pytest.fixture(scope="module")
def html(distance_lesson: DistanceLesson) -> str:
    require("jinja2")
    return distance_page(distance_lesson)


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', html, flags=re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def test_every_text_is_there_in_both_languages_and_used() -> None:
    require("jinja2")
    catalogues = distance_words().catalogues
    assert list(catalogues) == ["en", "ko"]
    assert [key for key, text in catalogues["ko"].items() if not re.search("[가-힣]", text)] == []
    sources = [*TEMPLATES.glob("distance.*"), TEMPLATES.parents[2] / "viz/templates/page.html"]
    written = "".join(path.read_text(encoding="utf-8") for path in sources if path.suffix != ".json")
    computed = ("way_before", "way_after", "chart_before", "chart_after", "page_title")
    assert [key for key in catalogues["en"] if f'"{key}"' not in written and not key.startswith(computed)] == []


def test_the_page_has_the_numbers_of_the_run(html: str, distance_lesson: DistanceLesson) -> None:
    rows = data_of(html)["rows"]
    assert len(rows) == 2 * len(KINDS)
    for index, kind in enumerate(KINDS):
        way = distance_lesson.ways[kind]
        for row, arrivals in zip(rows[2 * index :], (distance_lesson.before, distance_lesson.after), strict=False):
            assert row["share"] == list(map(scientific, arrivals[kind].share))
            assert row["shortest"] == way.shortest
            assert f'<td class="number share">{row["share"][-1]}</td>' in html
        assert f"<dd>{way.shortest[-1]}</dd>" in html
        for score in distance_lesson.scores[kind].values():
            assert f'<td class="number">{100 * score.accuracy:.0f} %</td>' in html
        assert f"{distance_lesson.far_scores[kind].right}/200" in html


def test_the_page_is_the_same_in_every_run_and_needs_nothing_from_outside(
    html: str, distance_lesson: DistanceLesson
) -> None:
    assert distance_page(distance_lesson) == html
    assert "default-src &#39;none&#39;; script-src &#39;sha256-" in html
    assert re.findall(r'(?:src|href)="(?!#)([^"]*)"', html) == ["index.html", PAGES["dates"], "index.html"]
    assert PAGES["dates"] not in distance_page(distance_lesson, present=["distance"])
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_the_page_says_that_a_model_has_learned_only_where_it_has(html: str, distance_lesson: DistanceLesson) -> None:
    claims = ("has learned to hold on", "opened its gate", "It looks where the capital is", "nothing can be learned")
    assert [claim for claim in claims if claim in html] == []
    longest = distance_lesson.config.longest
    learned = distance_page(
        dataclasses.replace(
            distance_lesson,
            scores={kind: {length: Score(99, 100) for length in (4, longest, 2 * longest)} for kind in KINDS},
            far_scores={"rnn": Score(9, 100), "gru": Score(10, 100), "transformer": Score(98, 100)},
        )
    )
    assert all(claim in learned for claim in claims)


def test_every_picture_is_well_formed_and_says_what_it_shows(distance_lesson: DistanceLesson) -> None:
    before, after = arrival_charts(distance_lesson)
    for drawn in (before, after, steps_chart(distance_lesson), losses_chart(distance_lesson)):
        root = ElementTree.fromstring(drawn)
        text = "".join(root.itertext())
        assert all(name in text for name in ("RNN", "GRU", "Transformer"))
        assert root.attrib["role"] == "img" and re.search("letters back|at last", text)


def test_a_point_stands_where_its_value_is() -> None:
    drawn = chart_svg([Line("GRU", "gru", [1.0, 0.1, 0.01])], prefix="p", title="")
    found = re.search(r'points="([^"]+)"', drawn)
    assert found is not None
    (x0, y0), (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in found.group(1).split())
    assert x0 > x1 > x2 and math.isclose(x0 - x1, x1 - x2, abs_tol=0.2)
    assert y0 < y1 < y2 and math.isclose(y1 - y0, y2 - y1, abs_tol=0.2)


def test_a_gradient_that_hops_is_drawn_in_hops_and_one_that_jumps_in_one() -> None:
    chain = hops_svg([5, 9, 13, 17], [1.0, 0.1, 1e-9, 0.0], "rnn", prefix="p", title="")
    assert 'data-way="chain"' in chain and chain.count('class="hop"') == 3 and "off" not in chain
    assert chain.count("stroke-dasharray") == 2
    jump = hops_svg([5, 9, 9, 9], [1.0, 0.1, 0.1, 0.1], "transformer", prefix="p", title="")
    assert 'data-way="jump"' in jump and jump.count('class="hop off"') == 2 and jump.count('class="hop"') == 1
    assert "stroke-dasharray" not in jump
