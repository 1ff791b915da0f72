"""The commands train and predict: what is kept, what is refused, and what is said about an answer."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.transformer.told import Run, assert_fits, assert_one_line
from transformer.checkpoint import last_training, load_training, save_training

# --- train and predict -------------------------------------------------------------------------------------------


def test_a_training_can_be_asked_and_gone_on_with(run: Run) -> None:
    require("safetensors")
    told = run("train", "--task", "copy", "--steps", "2", "--seed", "3")
    assert told.code == 0, told.err
    assert "/500" in told.out
    assert_fits(told.out.rsplit("kept in", 1)[0])
    asked = run("predict", "abc")
    assert asked.code == 0 and asked.out.count("\n") == 1
    more = run("train", "--resume", "--steps", "4")
    assert more.code == 0 and "going on after step 2" in more.out
    assert_one_line(run("train", "--resume", "--task", "dates"), "copy")
    assert_one_line(run("train", "--resume", "--seed", "4"), "seed 3")


@pytest.mark.parametrize("steps", [[], ["--steps", "1"], ["--steps", "3"]])
def test_a_training_that_is_finished_says_that_there_is_nothing_to_do(run: Run, steps: list[str]) -> None:
    require("safetensors")
    run("train", "--task", "copy", "--steps", "3")
    told = run("train", "--resume", *steps)
    assert told.code == 0 and "nothing to train: step 3 is reached" in told.out
    kept = load_training(last_training())
    assert kept.step == kept.config.steps == 3
    assert "nothing to train" not in run("train", "--resume", "--steps", "4").out


def test_a_training_is_the_same_whether_it_is_resumed_or_not(run: Run) -> None:
    require("safetensors")
    run("train", "--task", "copy", "--steps", "3", "--checkpoint", "whole.safetensors")
    whole = load_training("whole.safetensors")
    whole.config = whole.config.__class__(**{**whole.config.__dict__, "steps": 4})
    whole.run()
    run("train", "--resume", "--steps", "4", "--checkpoint", "whole.safetensors")
    resumed = load_training("whole.safetensors")
    assert resumed.step == 4
    for name, values in whole.model.state_dict().items():
        np.testing.assert_array_equal(values, resumed.model.state_dict()[name])


def test_a_model_that_was_kept_is_replaced_only_on_request(run: Run) -> None:
    require("safetensors")
    for place in ([], ["--checkpoint", "m.safetensors"]):
        training = ["train", "--task", "copy", "--steps", "1", *place]
        path = Path(place[1]) if place else last_training()
        assert run(*training).code == 0
        kept = path.read_bytes()
        refused = run(*training, "--seed", "7")
        assert_one_line(refused, str(path), "--resume", "--overwrite", "--checkpoint")
        assert refused.out == "" and path.read_bytes() == kept
        assert run(*training, "--seed", "7", "--overwrite").code == 0
        assert load_training(path).config.seed == 7
    assert run("train", "--task", "copy", "--steps", "1", "--checkpoint", "new.safetensors", "--overwrite").code == 0
    assert_one_line(run("train", "--resume", "--overwrite"), "--overwrite", "--resume")


def test_a_file_that_is_no_training_is_not_replaced_by_one(run: Run) -> None:
    require("safetensors")
    Path("notes.txt").write_text("mine")
    assert_one_line(run("train", "--task", "copy", "--steps", "1", "--checkpoint", "notes.txt"), "notes.txt")
    assert Path("notes.txt").read_text() == "mine"


def test_predict_shows_the_steps_on_request(run: Run) -> None:
    require("safetensors")
    run("train", "--task", "phrases", "--steps", "1")
    told = run("predict", "--steps", "나는 좋다")
    assert told.code == 0, told.err
    assert "so far" in told.out and "looks at" in told.out
    assert_fits(told.out)


def test_predict_without_a_model_says_how_to_get_one(run: Run) -> None:
    assert_one_line(run("predict", "1 May 2026"), "tinygrad-attn train")


def test_a_checkpoint_that_is_none_is_refused(run: Run) -> None:
    require("safetensors")
    Path("text.safetensors").write_text("hello")
    Path("folder.safetensors").mkdir()
    for name in ("text.safetensors", "folder.safetensors", "missing.safetensors"):
        assert_one_line(run("predict", "1 May 2026", "--checkpoint", name))
        assert_one_line(run("train", "--resume", "--checkpoint", name))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("February 30, 2020", "does not exist"),
        ("Monday, December 1, 2026", "weekday is another: Tuesday"),
        ("December 1, 1800", "it is 1800-12-01, outside"),
        ("1.12.2026 12", "no date in a form"),
    ],
)
def test_predict_says_why_it_can_only_guess(dates_model: Path, run: Run, text: str, reason: str) -> None:
    told = run("predict", text, "--checkpoint", str(dates_model))
    assert told.code == 0 and told.out.count("\n") == 1
    assert f"note: the answer is a guess: {reason}" in told.err.replace("this day ", "").replace("the w", "w")


def test_predict_tells_a_reader_and_no_programmer_what_it_cannot_read(dates_model: Path, run: Run) -> None:
    told = run("predict", "xyzzy", "--checkpoint", str(dates_model))
    assert_one_line(told, "'x'", "no date is written with it")
    run("train", "--task", "copy", "--steps", "1", "--checkpoint", "copy.safetensors")
    other = run("predict", "가", "--checkpoint", "copy.safetensors")
    assert_one_line(other, "'가'", "texts such as")
    assert "unknown=True" not in told.err + other.err


def test_too_little_memory_is_said_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(_: object) -> int:
        raise MemoryError("Unable to allocate 1.00 TiB")

    monkeypatch.setattr("transformer.commands.graph.run", exhausted)
    assert_one_line(run("graph"), "not enough memory", "1.00 TiB")


def test_unknown_characters_are_named(run: Run) -> None:
    require("safetensors")
    run("train", "--task", "copy", "--steps", "1")
    assert_one_line(run("predict", "abc가"), "'가'", "position 3")
    assert_one_line(run("predict", ""), "empty")


def test_a_checkpoint_that_cannot_be_kept_is_refused_before_the_training(run: Run) -> None:
    require("safetensors")
    Path("file").touch()
    for place in ("no/model.safetensors", "file/model.safetensors"):
        told = run("train", "--task", "copy", "--steps", "100000", "--checkpoint", place)
        assert_one_line(told)
        assert told.out == ""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_what_is_no_file_is_refused_before_the_training(run: Run) -> None:
    require("safetensors")
    os.mkfifo("pipe")
    told = run("train", "--task", "copy", "--steps", "100000", "--checkpoint", "pipe", "--overwrite")
    assert_one_line(told, "pipe is a device or a pipe")
    assert told.out == ""


def test_a_loss_that_is_not_finite_leaves_the_good_checkpoint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    require("safetensors")
    run("train", "--task", "copy", "--steps", "2", "--checkpoint", "m.safetensors")
    good = Path("m.safetensors").read_bytes()
    monkeypatch.setattr("transformer.training.batch_loss", lambda *_, **__: ta.Tensor(np.float32("nan")))
    assert_one_line(run("train", "--resume", "--steps", "9", "--checkpoint", "m.safetensors"), "loss is nan")
    assert Path("m.safetensors").read_bytes() == good


def test_predict_says_how_poor_a_poor_model_is(run: Run) -> None:
    require("safetensors")
    run("train", "--task", "copy", "--steps", "1")
    said = re.search(r"note: this model got \d+ of 500 held-out examples right; .*`(.*)`", run("predict", "abc").err)
    assert said and said[1] == "tinygrad-attn train --resume --steps N"
    assert run(*said[1].replace("N", "2").split()[1:]).code == 0
    run("train", "--task", "copy", "--steps", "1", "--checkpoint", "mine.safetensors")
    assert "--resume --checkpoint mine.safetensors" in run("predict", "abc", "--checkpoint", "mine.safetensors").err
    trainer = load_training(last_training())
    trainer.history.held_out = {"": (450, 500)}
    save_training(trainer, last_training())
    assert run("predict", "abc").err == ""
