"""Trainings as files: what comes back, and what a damaged or foreign file is told."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import require
from tests.transformer.test_training import SMALL, small_trainer
from tinygrad_attn import serialize
from tinygrad_attn.errors import CheckpointError
from transformer.checkpoint import CHECKSUM, describe_task, last_training, load_training, make_task, save_training
from transformer.model import Transformer
from transformer.tasks import CopyConfig, CopyTask, PhrasesTask
from transformer.training import Trainer, default_model_config, predict


@pytest.fixture
def task() -> CopyTask:
    return CopyTask(CopyConfig(alphabet="abcdef", max_length=4))


@pytest.fixture
def saved(task: CopyTask, tmp_path: Path) -> Path:
    require("safetensors")
    trainer = small_trainer(task, dataclasses.replace(SMALL, steps=2))
    trainer.run()
    path = tmp_path / "training.safetensors"
    save_training(trainer, path)
    return path


def test_a_loaded_model_answers_as_the_saved_one(task: CopyTask, tmp_path: Path) -> None:
    require("safetensors")
    trainer = small_trainer(task)
    trainer.run()
    trainer.history.held_out = {"": (3, 4)}
    save_training(trainer, tmp_path / "t.safetensors")
    loaded = load_training(tmp_path / "t.safetensors")
    texts = ["abc", "f", "ddda"]
    assert predict(loaded.model, loaded.task, texts) == predict(trainer.model, task, texts)
    assert loaded.config == trainer.config and loaded.history == trainer.history
    assert not loaded.model.training


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, -1])
def test_a_truncated_checkpoint_is_refused(saved: Path, keep: float) -> None:
    content = saved.read_bytes()
    length = int(len(content) * keep) if isinstance(keep, float) else keep
    saved.write_bytes(content[:length])
    with pytest.raises(CheckpointError):
        load_training(saved)


def test_a_missing_checkpoint_and_a_folder_are_refused(tmp_path: Path) -> None:
    require("safetensors")
    for path in (tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(CheckpointError):
            load_training(path)


def change(path: Path, **changes: Any) -> None:
    tensors, metadata = serialize.load(path)
    metadata.pop(CHECKSUM)  # as earlier releases wrote them
    for name, value in changes.items():
        if value is None:
            del metadata[name]
        else:
            metadata[name] = value if isinstance(value, str) else json.dumps(value)
    serialize.save(path, tensors, metadata)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": "another program"}, "holds no training"),
        ({"format": None}, "holds no training"),
        ({"version": 99}, "version 99"),
        ({"version": None}, "damaged"),
        ({"task": {"kind": "other"}}, "a task of your own"),
        ({"task": []}, "damaged"),
        ({"model": {"d_model": 16}}, "TransformerConfig"),
        ({"training": {"steps": -1, "betas": [0.9, 0.9]}}, "damaged"),
        ({"training": {"stops": 1, "betas": [0.9, 0.9]}}, "damaged"),
        ({"history": {}}, "damaged"),
        ({"step": "ten"}, "damaged"),
        ({"rng": "{}"}, "damaged"),
        ({"source_tokenizer": "{"}, "damaged"),
    ],
)
def test_a_checkpoint_whose_words_are_damaged_is_refused(saved: Path, changes: dict[str, Any], complaint: str) -> None:
    change(saved, **changes)
    with pytest.raises(CheckpointError, match=complaint):
        load_training(saved)


def test_a_checkpoint_with_other_sizes_is_refused(saved: Path) -> None:
    tensors, metadata = serialize.load(saved)
    name = next(name for name in tensors if name.startswith("model."))
    serialize.save(saved, {**tensors, name: tensors[name][:1]}, metadata)
    with pytest.raises(CheckpointError):
        load_training(saved)


def test_a_checkpoint_without_a_checksum_is_still_read(saved: Path) -> None:
    change(saved)
    assert load_training(saved).step == 2


@pytest.mark.parametrize("place", [0.3, 0.5, 0.9, -1])
def test_a_checkpoint_with_a_flipped_bit_in_its_numbers_is_refused(saved: Path, place: float) -> None:
    content = bytearray(saved.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    content[start + int((len(content) - start) * place) if place > 0 else -1] ^= 1
    saved.write_bytes(content)
    with pytest.raises(CheckpointError, match="not what was saved"):
        load_training(saved)


def test_a_checkpoint_whose_words_were_changed_is_refused(saved: Path) -> None:
    tensors, metadata = serialize.load(saved)
    serialize.save(saved, tensors, {**metadata, "step": "1"})
    with pytest.raises(CheckpointError, match="not what was saved"):
        load_training(saved)


@pytest.mark.parametrize(
    "name", ["d_model", "d_ff", "source_vocab", "target_vocab", "encoder_layers", "decoder_layers", "max_length"]
)
def test_a_size_that_the_arrays_do_not_have_is_found_before_a_model_of_it_is_built(saved: Path, name: str) -> None:
    model = json.loads(serialize.load(saved)[1]["model"])
    change(saved, model={**model, name: 64_000_000})
    with pytest.raises(CheckpointError, match=f"{name}=64000000, its arrays"):
        load_training(saved)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_a_model_of_every_kind_of_sizes_comes_back(task: CopyTask, tmp_path: Path, positions: str) -> None:
    require("safetensors")
    config = dataclasses.replace(
        default_model_config(task), d_model=12, num_heads=3, d_ff=20, encoder_layers=1, decoder_layers=3
    )
    model = Transformer(dataclasses.replace(config, positions=positions), rng=np.random.default_rng(0))
    save_training(Trainer(task, SMALL, model), tmp_path / "t.safetensors")
    assert load_training(tmp_path / "t.safetensors").model.config == model.config


def test_a_checkpoint_of_another_vocabulary_is_refused(saved: Path) -> None:
    change(saved, task={"kind": "copy", "config": {"alphabet": "abcdeg", "max_length": 4}})
    with pytest.raises(CheckpointError, match="vocabulary"):
        load_training(saved)


def test_a_checkpoint_in_a_folder_that_does_not_exist_is_refused(task: CopyTask, tmp_path: Path) -> None:
    require("safetensors")
    with pytest.raises(CheckpointError):
        save_training(small_trainer(task), tmp_path / "no" / "t.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["copy", "dates", "phrases"])
def test_tasks_are_rebuilt_from_their_description(kind: str) -> None:
    if kind == "dates":
        require("babel")
    made = make_task({"kind": kind})
    description = describe_task(made)
    again = make_task(json.loads(json.dumps(description)))
    assert describe_task(again) == description
    assert again.held_out(5) == made.held_out(5)


def test_a_task_that_cannot_be_rebuilt_is_not_described_as_one_that_can() -> None:
    assert describe_task(PhrasesTask(seed=5)) == {"kind": "other"}


def test_the_last_training_is_kept_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert tmp_path in last_training().parents
