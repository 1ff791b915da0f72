"""The first page of a folder of lessons in a real browser: in both languages, light and dark, small and large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import require
from transformer.lessons.contents import PAGES, Chapter, contents_page
from transformer.lessons.word_model import ReferentConfig, ReferentModel
from transformer.lessons.word_pictures import gaze_svg
from transformer.lessons.word_reading import read
from transformer.tasks.coreference import ARTICLE, CoreferenceTask

NASTY = "</script><script>window.PWN=1</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("jinja2")
    task = CoreferenceTask()
    model = ReferentModel(task, ReferentConfig(), rng=np.random.default_rng(0)).eval()
    picture = gaze_svg([read(model, task, ARTICLE)])
    place = tmp_path_factory.mktemp("lesson")
    made = [Chapter("word", picture=picture), Chapter("dates", source=NASTY, answer="2026-12-01")]
    (place / "index.html").write_text(contents_page(made, list(PAGES)), encoding="utf-8")
    for file in PAGES.values():
        (place / file).write_text("<!doctype html><title>chapter</title>", encoding="utf-8")
    return place


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("code", ["en", "ko"])
def test_every_chapter_is_a_link_that_leads_somewhere(page: Any, folder: Path, width: int, code: str) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    for name, file in PAGES.items():
        page.goto((folder / "index.html").as_uri())
        page.click(f'[data-set-language="{code}"]')
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator(f'h2 a[href="{file}"]').click()
        assert page.url.endswith(f"/{file}"), name


def test_what_was_read_stays_text_and_the_picture_is_drawn(page: Any, folder: Path) -> None:
    page.goto((folder / "index.html").as_uri())
    assert page.evaluate("window.PWN") is None and NASTY in page.inner_text(".said")
    assert page.locator(".drawn svg path").count() == len(ARTICLE.split())


def test_the_picture_turns_dark_with_the_page(page: Any, folder: Path) -> None:
    page.goto((folder / "index.html").as_uri())
    fills = []
    for theme in ("light", "dark"):
        page.click(f'[data-set-theme="{theme}"]')
        fills.append(page.evaluate("getComputedStyle(document.querySelector('.drawn text')).fill"))
    assert fills[0] != fills[1]
