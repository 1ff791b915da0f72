"""The benchmarks run, and measure the same computation everywhere; how fast it is, is not for tests to say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import require

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(name: str, *args: str) -> str:
    """What a benchmark prints."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, BENCHMARKS / name, *args]
    done = subprocess.run(command, capture_output=True, env=environment, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 90
    return done.stdout


def test_a_training_step_computes_what_pytorchs_does() -> None:
    require("torch")
    printed = run("train_step.py", "--rounds", "1")
    assert float(re.search(r"losses agree to (\S+)", printed)[1]) < 1e-4  # type: ignore[index]
    assert "ratio of medians" in printed


def test_every_engine_gives_the_same_gradients() -> None:
    require("torch")
    header, *rows = run("engines.py", "--rounds", "1").split("\n\n")[1].splitlines()
    engines = header.split()
    assert engines[:2] == ["tinygrad-attn", "PyTorch"]
    assert all(len(row.split()) > len(engines) for row in rows)


def test_a_chain_of_a_few_operations_is_timed_in_each_part() -> None:
    printed = run("deep_graph.py", "--length", "50", "--rounds", "1")
    assert len(re.findall(r"^\S* +\d+( +\d+\.\d\d){4}", printed, re.MULTILINE)) == 4
