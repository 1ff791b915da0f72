"""Every optimiser equals PyTorch's bit for bit over 50 steps, once PyTorch rounds after every operation as well."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import require
from tests.parity.test_optimisers import CASES

require("torch")
pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"),
    reason="elsewhere PyTorch has no kernels without fused multiply-add",
)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def first_differences() -> dict[str, int | None]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.parity.optimiser_bits"],
        cwd=ROOT,
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name, settings", CASES, ids=lambda value: str(value))
def test_no_bit_differs_from_pytorch_in_fifty_steps(first_differences, name, settings, dtype):
    assert first_differences[f"{name} {settings} {dtype.__name__}"] is None
