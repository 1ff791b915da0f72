"""The examples run as they stand, and do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str) -> str:
    """What an example prints."""
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, env=environment, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_attention_head_gives_the_fractions_of_the_derivation() -> None:
    printed = run("attention_head.py")
    assert "weights [0.25 0.75]" in printed
    assert re.search(r"d scores \[ ?0\.75 -0\.75\]", printed)
    assert "gradients agree" in printed


def test_the_copy_task_is_learned() -> None:
    printed = run("copy_task.py")
    right, total = re.search(r"(\d+) of (\d+) held-out words", printed).groups()  # type: ignore[union-attr]
    assert int(right) >= 0.9 * int(total)


@pytest.mark.parametrize(("name", "lines"), [("attention_head.py", 30), ("copy_task.py", 50)])
def test_an_example_is_as_short_as_promised(name: str, lines: int) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= lines
