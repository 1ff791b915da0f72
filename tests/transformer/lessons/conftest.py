"""A lesson for the tests: a few steps of training are enough to show what a page shows."""

from __future__ import annotations

import pytest

from tests.conftest import require
from transformer.lessons.dates import DatesLesson, build_lesson
from transformer.lessons.distance import DistanceLesson, build_distance_lesson
from transformer.lessons.distance_model import RecallConfig
from transformer.lessons.word import WordLesson, build_word_lesson
from transformer.lessons.word_model import ReferentConfig
from transformer.tasks import DatesTask
from transformer.tasks.coreference import CoreferenceTask
from transformer.training import Trainer, TrainingConfig, evaluate


@pytest.fixture(scope="session")
def trainer() -> Trainer:
    require("babel")
    trainer = Trainer(DatesTask(), TrainingConfig(steps=4, validate_every=2, validation_size=8))
    trainer.run()
    return trainer


@pytest.fixture(scope="session")
def lesson(trainer: Trainer) -> DatesLesson:
    scores = evaluate(trainer.model, trainer.task, trainer.task.held_out(50), by="language")
    return build_lesson(trainer, scores, "2026년 12월 1일 화요일", drawn=False)


@pytest.fixture(scope="session")
def word_lesson() -> WordLesson:
    """A few steps only: the model answers badly, and everything computed from it must hold all the same."""
    return build_word_lesson(CoreferenceTask(), None, ReferentConfig(steps=40, examples=1000))


@pytest.fixture(scope="session")
def distance_lesson() -> DistanceLesson:
    """A few steps only: the models have hardly learned anything, and what is computed of them must hold anyway."""
    return build_distance_lesson(RecallConfig(width=8, layers=1, longest=24, steps=5, far_steps=3, batch_size=8))
