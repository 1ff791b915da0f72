"""Training is repeatable, resumes exactly, counts tokens and not sentences, and never keeps a broken model."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.conftest import require
from tinygrad_attn.errors import CheckpointError, NotFiniteError, OptionError
from transformer.checkpoint import load_training, make_task, save_training
from transformer.config import TransformerConfig
from transformer.model import Transformer
from transformer.tasks import CopyConfig, CopyTask, Example, Task
from transformer.threads import one_blas_thread
from transformer.training import Progress, Trainer, TrainingConfig, batch_loss, default_model_config, evaluate, predict

SMALL = TrainingConfig(steps=20, batch_size=8, warmup=5, validate_every=5, validation_size=4)


@pytest.fixture
def task() -> CopyTask:
    return CopyTask(CopyConfig(alphabet="abcdef", max_length=4))


def small_model(task: Task, *, dropout: float = 0.0) -> Transformer:
    config = dataclasses.replace(default_model_config(task), d_model=16, num_heads=2, d_ff=16, dropout=dropout)
    return Transformer(config, rng=np.random.default_rng(0))


def small_trainer(task: Task, config: TrainingConfig = SMALL, *, dropout: float = 0.0) -> Trainer:
    return Trainer(task, config, small_model(task, dropout=dropout))


def assert_same(one: Trainer, other: Trainer) -> None:
    for mine, theirs in (
        (one.model.state_dict(), other.model.state_dict()),
        (one.optimizer.state_dict(), other.optimizer.state_dict()),
    ):
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    assert one.step == other.step
    assert one.history.losses == other.history.losses
    assert one.history.validations == other.history.validations


# --- exact resume -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_O9_twenty_steps_are_ten_saved_loaded_and_ten_more(task: CopyTask, tmp_path: Path, dropout: float) -> None:
    require("safetensors")
    ta.manual_seed(3)
    whole = small_trainer(task, dropout=dropout)
    whole.run()
    state = ta.rng.get_state()

    ta.manual_seed(3)
    half = small_trainer(task, dropout=dropout)
    half.run(until=10)
    save_training(half, tmp_path / "half.safetensors")
    ta.manual_seed(99)  # whatever happens in between
    np.random.default_rng(1).normal(size=3)
    resumed = load_training(tmp_path / "half.safetensors")
    resumed.run()

    assert_same(resumed, whole)
    assert ta.rng.get_state() == state


def test_the_same_seed_gives_the_same_model_and_another_seed_another(task: CopyTask) -> None:
    config = dataclasses.replace(SMALL, steps=3)
    first, second = Trainer(task, config), Trainer(task, config)
    other = Trainer(task, dataclasses.replace(config, seed=1))
    for trainer in (first, second, other):
        trainer.run()
    assert_same(first, second)
    assert first.history.losses != other.history.losses


def test_looking_at_new_examples_changes_nothing(task: CopyTask) -> None:
    looking, blind = (small_trainer(task, dataclasses.replace(SMALL, validate_every=every)) for every in (2, 0))
    looking.run()
    blind.run()
    assert looking.history.validations and not blind.history.validations
    assert looking.history.losses == blind.history.losses


# --- what is never kept -----------------------------------------------------------------------------------------------


def poison(model: Transformer) -> None:
    model.to_logits.weight.data = np.full(model.to_logits.weight.shape, np.nan, dtype=np.float32)


def test_O9_a_loss_that_is_not_finite_stops_before_the_step(task: CopyTask) -> None:
    trainer = small_trainer(task)
    trainer.run(until=3)
    poison(trainer.model)
    before = trainer.optimizer.state_dict()
    with pytest.raises(NotFiniteError, match="step 4"):
        trainer.run()
    assert trainer.step == 3
    after = trainer.optimizer.state_dict()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_O9_a_gradient_that_is_not_finite_stops_before_the_step(task: CopyTask) -> None:
    trainer = small_trainer(task)
    trainer.run(until=3)
    weight = trainer.model.to_logits.weight
    remove = weight.register_hook(lambda gradient: np.full(gradient.shape, np.inf, gradient.dtype))
    before = trainer.model.state_dict()
    with pytest.raises(NotFiniteError):
        trainer.run()
    remove()
    assert all(np.array_equal(before[name], after) for name, after in trainer.model.state_dict().items())
    trainer.run()
    assert trainer.step == 20


def test_a_step_that_was_interrupted_halfway_is_not_saved(
    task: CopyTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("safetensors")
    trainer = small_trainer(task)
    trainer.run(until=2)
    save_training(trainer, tmp_path / "good.safetensors")
    good = (tmp_path / "good.safetensors").read_bytes()

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer.optimizer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    with pytest.raises(CheckpointError, match="interrupted halfway"):
        save_training(trainer, tmp_path / "good.safetensors")
    assert (tmp_path / "good.safetensors").read_bytes() == good


# --- loss, schedule, endings ------------------------------------------------------------------------------------------


def test_padding_has_no_part_in_the_loss(task: CopyTask) -> None:
    model = small_model(task).eval()
    short, long = Example("ab", "ab"), Example("fedc", "fedc")
    counts = {example.target: len(example.target) + 1 for example in (short, long)}
    alone = {e.target: float(batch_loss(model, task, task.encode([e]))) for e in (short, long)}
    together = float(batch_loss(model, task, task.encode([short, long])))
    expected = sum(alone[name] * counts[name] for name in alone) / sum(counts.values())
    assert together == pytest.approx(expected, rel=1e-5)


@given(st.integers(1, 300), st.integers(0, 400))
def test_the_learning_rate_rises_once_and_then_falls(steps: int, warmup: int) -> None:
    config = TrainingConfig(steps=steps, warmup=warmup)
    rates = [config.learning_rate_at(step) for step in range(1, steps + 1)]
    assert all(0.0 < rate <= config.learning_rate for rate in rates)
    peak = int(np.argmax(rates))
    assert rates[: peak + 1] == sorted(rates[: peak + 1]) and rates[peak:] == sorted(rates[peak:], reverse=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"batch_size": 0},
        {"learning_rate": math.nan},
        {"max_norm": 0.0},
        {"seed": -1},
        {"long_share": 1.5},
        {"validation_size": 0},
    ],
)
def test_a_configuration_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        TrainingConfig(**wrong)


def test_training_ends_for_each_of_its_reasons(task: CopyTask) -> None:
    assert small_trainer(task).run() == "steps"
    assert small_trainer(task, dataclasses.replace(SMALL, max_seconds=0.0)).run() == "time"
    stopped = small_trainer(task)
    assert stopped.run(should_stop=lambda: stopped.step == 7) == "stopped"
    assert stopped.step == 7


def test_patience_ends_a_training_that_makes_no_mistakes_any_more(
    task: CopyTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = small_trainer(task, dataclasses.replace(SMALL, steps=40, patience=2))
    looks: Iterator[bool] = iter([True, False, True, True])
    monkeypatch.setattr(
        "transformer.training.predict",
        lambda model, task, sources: [source if right else "" for right in [next(looks)] for source in sources],
    )
    assert trainer.run() == "patience"
    assert [right for _, right, _ in trainer.history.validations] == [4, 0, 4, 4]


def test_every_step_is_reported_and_long_texts_have_their_share(task: CopyTask) -> None:
    seen: list[Progress] = []
    drawn: list[list[Example]] = []
    trainer = small_trainer(task, dataclasses.replace(SMALL, long_share=0.5))
    encode = task.encode
    trainer.task.encode = lambda examples: drawn.append(list(examples)) or encode(examples)  # type: ignore[method-assign,func-returns-value]
    trainer.run(on_step=seen.append)
    assert [progress.step for progress in seen] == list(range(1, 21))
    assert [progress.step for progress in seen if progress.validation] == [5, 10, 15, 20]
    assert all(sum(len(example.source) == 4 for example in batch) >= 4 for batch in drawn)


def test_answers_come_in_the_order_of_the_questions(task: CopyTask) -> None:
    model = small_model(task)
    texts = ["abcd", "a", "fed", "bb", "c"]
    assert predict(model, task, texts, batch_size=2) == [predict(model, task, [text])[0] for text in texts]


def test_a_model_learns_to_copy(task: CopyTask) -> None:
    small = CopyTask(CopyConfig(alphabet="abcdefghij", max_length=3))
    trainer = Trainer(small, TrainingConfig(steps=250, batch_size=32, warmup=30, validate_every=0))
    trainer.run()
    (score,) = evaluate(trainer.model, small, small.held_out(30)).values()
    assert score.accuracy >= 0.9


@pytest.mark.skipif(os.environ.get("TINYGRAD_ATTN_REQUIRE_ALL") != "1", reason="trains for half a minute; CI does")
def test_the_dates_are_learned() -> None:
    """The promise of the lesson: at least 99 % of 500 held-out dates exactly right, with the steps it takes."""
    require("babel")
    task = make_task({"kind": "dates"})
    trainer = Trainer(task, TrainingConfig(validate_every=0))
    assert trainer.model.num_parameters() == 173_582
    with one_blas_thread():
        trainer.run()
        scores = evaluate(trainer.model, task, task.held_out(500), by="language")
    assert sum(score.right for score in scores.values()) >= 495
    assert all(score.accuracy >= 0.97 for score in scores.values())


def test_a_model_of_another_size_can_be_trained(task: CopyTask) -> None:
    config = TransformerConfig(source_vocab=9, target_vocab=9, d_model=8, num_heads=1, d_ff=8, encoder_layers=1)
    trainer = Trainer(task, dataclasses.replace(SMALL, steps=2), Transformer(config))
    assert trainer.run() == "steps"
