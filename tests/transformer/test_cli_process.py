"""The program as a process of its own: no traceback, pipes that close early, and Ctrl-C that keeps what it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require
from transformer.checkpoint import load_training

ROOT = Path(__file__).resolve().parents[2]


# --- as a process of its own ----------------------------------------------------------------------------------------


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder), **more}


def test_an_error_in_a_process_of_its_own_has_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "transformer", "predict", "x", "--checkpoint", str(tmp_path / "none")]
    done = subprocess.run(command, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tinygrad-attn: ") and done.stderr.count("\n") == 1


def test_a_terminal_without_unicode_is_no_reason_to_fail(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "transformer", "graph", "--out", str(tmp_path / "h.dot")]
    done = subprocess.run(
        command, env=environment(tmp_path, PYTHONIOENCODING="ascii"), cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"?2" in done.stdout


# What presses Ctrl-C at the moment when NumPy is being imported.
PRESS = """
import sys
class Press:
    def find_spec(self, name, *_):
        if name == "numpy":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Press())
"""


@pytest.mark.parametrize(
    "start",
    [
        "import runpy; runpy.run_module('transformer', run_name='__main__')",
        "import importlib; module = importlib.import_module({module!r}); sys.exit(getattr(module, {name!r})())",
    ],
    ids=["python -m transformer", "console script"],
)
def test_ctrl_c_while_the_program_starts_is_one_line(tmp_path: Path, start: str) -> None:
    script = re.search(
        r'^tinygrad-attn = "(.*):(.*)"$', (ROOT / "pyproject.toml").read_text("utf-8"), flags=re.MULTILINE
    )
    assert script is not None
    command = [sys.executable, "-c", PRESS + start.format(module=script.group(1), name=script.group(2))]
    done = subprocess.run(command, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tinygrad-attn: interrupted\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGPIPE")
def test_a_reader_who_has_seen_enough_ends_it_quietly(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "transformer", "gradcheck", "exp", "log", "add"],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    said = child.stderr.read()
    child.stderr.close()
    assert child.wait() in (0, 128 + signal.SIGPIPE)
    assert said == b""


@pytest.mark.skipif(os.name == "nt", reason="Windows sends Ctrl-C to whole groups of processes")
def test_ctrl_c_keeps_a_checkpoint_that_can_be_gone_on_with(tmp_path: Path) -> None:
    require("safetensors")
    model = tmp_path / "model.safetensors"
    arguments = ["train", "--task", "copy", "--steps", "100000", "--checkpoint", str(model)]
    child = subprocess.Popen(
        [sys.executable, "-m", "transformer", *arguments],
        env=environment(tmp_path, PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stderr is not None
    for line in child.stdout:
        if line.startswith("step"):
            break
    child.send_signal(signal.SIGINT)
    _, err = child.communicate()
    assert child.returncode == 130
    kept = load_training(model)
    assert f"step {kept.step} is kept in {model}" in err and err.count("\n") == 1
    assert kept.step >= 100
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
