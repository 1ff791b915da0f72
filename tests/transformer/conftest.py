"""Commands in an empty folder, and what the tests of several of them need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import require
from tests.transformer.told import Run, Told
from transformer.checkpoint import save_training
from transformer.cli import main
from transformer.tasks import DatesTask
from transformer.training import Trainer, TrainingConfig


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in an empty folder, with an empty cache, in a terminal of 80 columns."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))

    def call(*arguments: str) -> Told:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        told = capsys.readouterr()
        return Told(code, told.out, told.err)

    return call


@pytest.fixture
def lesson_extras() -> None:
    for name in ("babel", "jinja2", "latex2mathml", "matplotlib", "safetensors"):
        require(name)


@pytest.fixture(scope="module")
def dates_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("babel", "safetensors"):
        require(name)
    path = tmp_path_factory.mktemp("model") / "dates.safetensors"
    trainer = Trainer(DatesTask(), TrainingConfig(steps=1))
    save_training(trainer, path)
    return path
