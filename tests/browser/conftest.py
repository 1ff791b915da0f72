"""The lesson's page on dates, written once from a few steps of training, as a file; and how a page is opened."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require
from transformer.lessons.dates import DatesLesson, build_lesson
from transformer.lessons.page import lesson_page
from transformer.tasks import DatesTask
from transformer.training import Trainer, TrainingConfig, evaluate


@pytest.fixture(scope="session")
def lesson() -> DatesLesson:
    for name in ("babel", "jinja2", "latex2mathml", "matplotlib"):
        require(name)
    trainer = Trainer(DatesTask(), TrainingConfig(steps=4, validate_every=2, validation_size=8))
    trainer.run()
    scores = evaluate(trainer.model, trainer.task, trainer.task.held_out(50), by="language")
    return build_lesson(trainer, scores, "Wednesday, September 30, 2026", drawn=False)


@pytest.fixture(scope="session")
def write_page(lesson: DatesLesson, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Writes the page of the lesson, with changes, and gives its address."""

    def write(language: str = "auto", **changes: Any) -> str:
        file = tmp_path_factory.mktemp("lesson") / "index.html"
        file.write_text(lesson_page(dataclasses.replace(lesson, **changes), language=language), encoding="utf-8")
        return Path(file).as_uri()

    return write


@pytest.fixture(scope="session")
def address(write_page: Callable[..., str]) -> str:
    return write_page()


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Opens the page of the test's file in a browser with the given settings; errors in it fail the test."""
    contexts: list[Any] = []
    problems: list[str] = []

    def open_with(at: str = address, **settings: Any) -> Any:
        chosen = {"viewport": {"width": 1280, "height": 900}, "locale": "en-US", "reduced_motion": "reduce", **settings}
        context = browser.new_context(**chosen)
        contexts.append(context)
        tab = context.new_page()
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        tab.goto(at)
        return tab

    yield open_with
    for context in contexts:
        context.close()
    assert problems == []
