"""Trainings as files: the model, the optimiser, the random state and where the training stands, in safetensors.

A file holds arrays and text, nothing that runs, and is written whole or not at all. What is loaded goes on as if it had
never been interrupted.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_attn import rng, serialize
from tinygrad_attn.errors import CheckpointError
from transformer.model import Transformer, TransformerConfig
from transformer.tasks import CopyConfig, CopyTask, DatesConfig, DatesTask, PhrasesTask, Score, Task
from transformer.tokenizer import Tokenizer
from transformer.training import History, Trainer, TrainingConfig

FORMAT, VERSION = "tinygrad-attn training", 1

MODEL, OPTIMIZER, LOSSES = "model.", "optimizer.", "history.losses"
CHECKSUM = "sha256"

# Sinusoidal positions are not stored, so that nothing in the file speaks against a length; no model is this long.
LONGEST = 1_000_000


def last_training() -> Path:
    """Where the command line keeps the model that was trained last: in the user's cache folder."""
    if sys.platform == "win32":
        cache = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    else:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tinygrad-attn" / "last.safetensors"


def save_training(trainer: Trainer, path: str | os.PathLike[str]) -> None:
    """Writes a training to a file, all of it or nothing.

    Args:
        trainer: between two steps.
        path: where; the folder must exist.
    Raises:
        CheckpointError: the file cannot be written, or the trainer was interrupted in the middle of a step.
        MissingExtraError: safetensors is not installed.
    """
    if not trainer.consistent:
        raise CheckpointError(
            f"not saved to {path}: step {trainer.step + 1} was interrupted halfway\n  load the last checkpoint instead"
        )
    history = dataclasses.asdict(trainer.history)
    losses = np.array(history.pop("losses"), dtype=np.float64)  # (steps so far,)
    tensors = {
        **{MODEL + name: values for name, values in trainer.model.state_dict().items()},
        **{OPTIMIZER + name: values for name, values in trainer.optimizer.state_dict().items()},
        LOSSES: losses,
    }
    facts = {
        "version": VERSION,
        "step": trainer.step,
        "task": describe_task(trainer.task),
        "model": trainer.model.config.to_dict(),
        "training": dataclasses.asdict(trainer.config),
        "history": history,
        "rng": rng.get_state(),
    }
    metadata = {
        "format": FORMAT,
        "source_tokenizer": trainer.task.source_tokenizer.to_json(),
        "target_tokenizer": trainer.task.target_tokenizer.to_json(),
        **{name: json.dumps(fact) for name, fact in facts.items()},
    }
    serialize.save(path, tensors, {**metadata, CHECKSUM: _checksum(tensors, metadata)})


def load_training(path: str | os.PathLike[str], task: Task | None = None) -> Trainer:
    """Reads a training, ready to go on; the shared random generator goes on from its saved state too.

    Args:
        path: what `save_training` wrote.
        task: needed only for a task that is not one of this package's.
    Raises:
        CheckpointError: the file is missing, damaged, of another kind or of another version.
        MissingExtraError: safetensors, or Babel for dates, is not installed.
    """
    tensors, metadata = serialize.load(path)
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} holds no training of tinygrad-attn\n  give a file that `tinygrad-attn train` wrote"
        )
    try:
        version = json.loads(metadata["version"])
        if version != VERSION:
            raise CheckpointError(f"{path} is of version {version}; this release reads version {VERSION}")
        expected = metadata.pop(CHECKSUM, None)  # None: by a release that wrote no checksums
        if expected not in (None, _checksum(tensors, metadata)):
            raise CheckpointError(
                f"{path} is damaged: its content is not what was saved\n  copy it again, or train again"
            )
        facts = {name: json.loads(metadata[name]) for name in metadata if name != "format"}
        task = make_task(facts["task"]) if task is None else task
        _check_tokenizers(path, task, metadata)
        training = {**facts["training"], "betas": tuple(facts["training"]["betas"])}
        config = TransformerConfig.from_dict(facts["model"])
        _check_sizes(path, config, _under(tensors, MODEL))
        model = Transformer(config, rng=np.random.default_rng(0))
        trainer = Trainer(task, TrainingConfig(**training), model)
        model.load_state_dict(_under(tensors, MODEL))
        trainer.optimizer.load_state_dict(_under(tensors, OPTIMIZER))
        trainer.step = int(facts["step"])
        trainer.history = _history(facts["history"], tensors[LOSSES])
        rng.set_state(facts["rng"])
    except CheckpointError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    model.eval()
    return trainer


def kept_score(path: str | os.PathLike[str]) -> tuple[str, Score] | None:
    """How good the model in a file was on held-out examples, without building it.

    Args:
        path: what `save_training` wrote.
    Returns:
        The kind of its task and its score; None where there is no such file, or none that says.
    Raises:
        MissingExtraError: safetensors is not installed.
    """
    try:
        _, metadata = serialize.load(path)
        held_out = json.loads(metadata["history"])["held_out"]
        score = total_score({str(name): (int(right), int(total)) for name, (right, total) in held_out.items()})
        kind = str(json.loads(metadata["task"])["kind"])
    except (CheckpointError, KeyError, TypeError, AttributeError, ValueError):
        return None
    return (kind, score) if score.total else None


def total_score(held_out: Mapping[str, tuple[int, int]]) -> Score:
    """All languages of a history's `held_out` together."""
    return Score(sum(right for right, _ in held_out.values()), sum(total for _, total in held_out.values()))


def describe_task(task: Task) -> dict[str, Any]:
    """A task as plain data, from which `make_task` builds an equal one; {"kind": "other"} for tasks of elsewhere."""
    if isinstance(task, DatesTask):
        return {"kind": "dates", "config": _plain(dataclasses.asdict(task.config))}
    if isinstance(task, CopyTask):
        return {"kind": "copy", "config": dataclasses.asdict(task.config)}
    if isinstance(task, PhrasesTask) and task.reserved == PhrasesTask().reserved:
        return {"kind": "phrases"}
    return {"kind": "other"}


def make_task(description: Mapping[str, Any]) -> Task:
    """The task that `describe_task` described; `{"kind": "dates"}` alone gives the task as it is by default.

    Raises:
        CheckpointError: not a task of this package.
    """
    kind, config = description.get("kind"), dict(description.get("config", {}))
    if kind == "dates":
        for name in config.keys() & {"first", "last"}:
            config[name] = date.fromisoformat(config[name])
        for name in config.keys() & {"languages", "styles"}:
            config[name] = tuple(config[name])
        return DatesTask(DatesConfig(**config))
    if kind == "copy":
        return CopyTask(CopyConfig(**config))
    if kind == "phrases":
        return PhrasesTask()
    raise CheckpointError("this was trained on a task of your own\n  pass it: load_training(path, task)")


def _check_tokenizers(path: str | os.PathLike[str], task: Task, metadata: Mapping[str, str]) -> None:
    for side, tokenizer in (("source", task.source_tokenizer), ("target", task.target_tokenizer)):
        if Tokenizer.from_json(metadata[f"{side}_tokenizer"]) != tokenizer:
            raise CheckpointError(
                f"{path}: its {side} vocabulary is not the one that the task has here\n"
                "  it was trained on another task, or with date patterns of another release of Babel; train again"
            )


def _check_sizes(path: str | os.PathLike[str], config: TransformerConfig, tensors: Mapping[str, Any]) -> None:
    """Compare what the metadata say with the arrays, before a model of that size is built.

    Raises:
        CheckpointError: they differ.
        KeyError: an array is missing.
    """
    vocabulary, d_model = tensors["source_embedding.tokens.weight"].shape
    stored = {
        "source_vocab": vocabulary,
        "target_vocab": len(tensors["target_embedding.tokens.weight"]),
        "d_model": d_model,
        "d_ff": len(tensors["encoder.layers.0.feed_forward.expand.weight"]),
        **{f"{side}_layers": _count_layers(tensors, f"{side}.layers.") for side in ("encoder", "decoder")},
        "max_length": min(config.max_length, LONGEST),
    }
    if config.positions == "learned":
        stored["max_length"] = len(tensors["source_embedding.positions.weight"])
    for name, size in stored.items():
        if getattr(config, name) != size:
            raise CheckpointError(
                f"{path} is damaged: its settings say {name}={getattr(config, name)}, its arrays {size}\n"
                "  copy it again, or train again"
            )


def _count_layers(tensors: Mapping[str, Any], prefix: str) -> int:
    return len({name.removeprefix(prefix).split(".")[0] for name in tensors if name.startswith(prefix)})


def _checksum(tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> str:
    """SHA-256 of all arrays and texts with their names, the same on every machine."""
    digest = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    for name in sorted(tensors):
        array = np.asarray(tensors[name])
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def _history(fields: dict[str, Any], losses: Any) -> History:
    return History(
        losses=losses.tolist(),
        validations=[(int(step), int(right), int(total)) for step, right, total in fields["validations"]],
        held_out={str(name): (int(right), int(total)) for name, (right, total) in fields["held_out"].items()},
        seconds=float(fields["seconds"]),
        cpu_seconds=float(fields["cpu_seconds"]),
    )


def _under(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): values for name, values in tensors.items() if name.startswith(prefix)}


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, date) else value for name, value in fields.items()}
