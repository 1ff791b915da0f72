"""The page on one word holds the run it was made from, in both languages, and nothing from outside."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import require
from transformer.lessons.contents import PAGES, Chapter, contents_page, contents_words
from transformer.lessons.word import WordLesson
from transformer.lessons.word_page import TRIES, word_page, word_words
from transformer.lessons.word_pictures import gaze_svg, pairs_svg
from transformer.tasks.coreference import NOVELTIES
from viz.numbers import share

TEMPLATES = Path(__file__).resolve().parents[3] / "transformer" / "lessons" / "templates"
NASTY = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def html(word_lesson: WordLesson) -> str:
    require("jinja2")
    return word_page(word_lesson)


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', html, flags=re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


@pytest.mark.parametrize("words", [word_words, contents_words])
def test_every_text_is_there_in_both_languages(words: Any) -> None:
    require("jinja2")
    catalogues = words().catalogues
    assert list(catalogues) == ["en", "ko"]
    assert all(text.strip() for texts in catalogues.values() for text in texts.values())
    assert [key for key, text in catalogues["ko"].items() if not re.search("[가-힣]", text)] == []


@pytest.mark.parametrize(("words", "files"), [(word_words, "word.*"), (contents_words, "contents.*")])
def test_every_text_is_used(words: Any, files: str) -> None:
    require("jinja2")
    sources = [*TEMPLATES.glob(files), *TEMPLATES.parent.glob("*.py"), TEMPLATES.parents[2] / "viz/templates/page.html"]
    written = "".join(path.read_text(encoding="utf-8") for path in sources if path.suffix != ".json")
    computed = ("js_of_", "scores_", "layers_chart_", "title_", "text_", "page_title")
    unused = [key for key in words().catalogues["en"] if f'"{key}"' not in written and not key.startswith(computed)]
    assert unused == []


def test_the_models_are_on_the_page_to_the_last_bit(html: str, word_lesson: WordLesson) -> None:
    data = data_of(html)
    for name, training in (("2", word_lesson.deep), ("1", word_lesson.shallow)):
        model = data["models"][name]
        numbers = np.frombuffer(base64.b64decode(model["weights"]), "<f4")
        state = training.model.state_dict()
        assert [part for part, _ in model["shapes"]] == list(state)
        np.testing.assert_array_equal(numbers, np.concatenate([values.ravel() for values in state.values()]))


def test_the_engines_numbers_are_on_the_page(html: str, word_lesson: WordLesson) -> None:
    data = data_of(html)
    assert [known["text"] for known in data["engine"]] == [reading.text for reading in word_lesson.opened]
    for known, reading in zip(data["engine"], word_lesson.opened, strict=True):
        np.testing.assert_array_equal(known["probabilities"], reading.probabilities)
        np.testing.assert_array_equal(known["without"], reading.without)
        for weights, layer in zip(known["weights"], reading.layers, strict=True):
            np.testing.assert_array_equal(weights, layer.weights[:, reading.pronoun])
    for novelty in NOVELTIES:
        for scores in word_lesson.scores[novelty].values():
            assert all(f"{scores[f].right}/{scores[f].total}" in html for f in ("meaning", "role"))
    assert f"{word_lesson.deep.model.num_parameters():,}" in html


def test_without_a_script_the_numbers_stand_in_tables(html: str, word_lesson: WordLesson) -> None:
    reading = word_lesson.reading
    rows = re.search(r'<tbody id="matters-rows">(.*?)</tbody>', html, flags=re.DOTALL)
    assert rows is not None
    cells = re.findall(r"<td>(.*?)</td>", rows.group(1))
    assert cells[0::4] == [share(float(weight)).replace("<", "&lt;").replace(">", "&gt;") for weight in reading.looks()]
    assert html.count('role="img"') == 1  # the sentence with its lines


def test_the_page_loads_nothing_and_links_only_to_pages_that_are_there(html: str, word_lesson: WordLesson) -> None:
    def links(page: str) -> set[str]:
        without_data = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
        assert not re.findall(r"url\((?!#)|@import|<link|<iframe|<object|<embed", without_data)
        found = re.findall(r"""\b(?:src|href|action|data)=["']?([^"'\s>]*)""", without_data)
        return {reference for reference in found if not reference.startswith(("#", "data:"))}

    assert links(html) == {"index.html", "attention.html"}
    assert links(word_page(word_lesson, present=["word", "dates"])) == {"index.html", "dates.html"}
    assert links(word_page(word_lesson, present=["word"])) == {"index.html"}


def test_ids_are_unique(html: str) -> None:
    ids = re.findall(r'\bid="([^"]*)"', re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL))
    assert len(ids) == len(set(ids))


def test_a_word_that_would_end_the_script_stays_text(word_lesson: WordLesson) -> None:
    reading = word_lesson.reading
    nasty = dataclasses.replace(reading, words=(NASTY, *reading.words[1:]))
    page = word_page(dataclasses.replace(word_lesson, opened=(nasty,)))
    assert "<img" not in page and page.count("</script>") == 2
    assert data_of(page)["opening"].startswith(NASTY)


def test_a_wrong_answer_is_called_wrong(word_lesson: WordLesson) -> None:
    reading = word_lesson.reading
    certain = np.eye(len(reading.nouns))[list(reading.nouns).index("street")]
    wrong = dataclasses.replace(word_lesson, opened=(dataclasses.replace(reading, probabilities=certain),))
    assert "wrong: it stands for animal" in word_page(wrong)


def test_the_page_opens_in_the_language_that_was_asked_for(word_lesson: WordLesson) -> None:
    assert '<html lang="ko" data-language="ko">' in word_page(word_lesson, language="ko")


def test_what_the_reader_is_asked_to_try_can_be_read(word_lesson: WordLesson) -> None:
    for text in TRIES:
        assert word_lesson.task.label(word_lesson.task.read(text)) is not None


# --- pictures ----------------------------------------------------------------------------------------------------


def test_the_lines_are_as_wide_as_the_weights(word_lesson: WordLesson) -> None:
    root = ElementTree.fromstring(gaze_svg([word_lesson.reading]))
    name = "{http://www.w3.org/2000/svg}path"
    widths = sorted(float(path.attrib["stroke-width"]) for path in root.iter(name))
    expected = sorted(max(0.6, 20 * float(weight)) for weight in word_lesson.reading.looks())
    np.testing.assert_allclose(widths, expected, atol=0.006)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("animal") == 2 and any("it = " in (text or "") for text in texts)


def test_bars_of_two_readings_stand_over_every_word(word_lesson: WordLesson) -> None:
    one, other = word_lesson.article[2]
    root = ElementTree.fromstring(pairs_svg(one, other))
    for name, reading in (("one", one), ("other", other)):
        heights = [float(r.attrib["height"]) for r in root.iter("rect") if r.attrib["class"] == name]
        np.testing.assert_allclose(np.array(heights) / 116, reading.looks(), atol=0.001)
    labels = [text.text for text in root.iter("text")]
    assert labels.count("tired") == labels.count("wide") == labels.count("animal") == 1


# --- the first page ----------------------------------------------------------------------------------------------


def test_the_first_page_links_what_is_there_and_says_how_to_make_the_rest() -> None:
    require("jinja2")
    announced = {
        **{name: Chapter(name) for name in PAGES},
        "word": Chapter("word", picture="<svg></svg>"),
        "dates": Chapter("dates", source="1", answer="<b>"),
    }
    every = contents_page(list(announced.values()))
    assert all(f'href="{file}"' in every for file in PAGES.values()) and "&lt;b&gt;" in every
    one = contents_page([Chapter("word")])
    assert 'href="word.html"' in one and 'href="dates.html"' not in one and "tinygrad-attn lesson dates" in one
    later = contents_page([Chapter("dates")], ["word"])
    assert 'href="word.html"' in later and "tinygrad-attn lesson word" not in later
