"""Three processes with parts of unequal size take the steps that one process takes with the whole batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.tinygrad_attn.parallel.program import SIZES, batch, model, train
from tinygrad_attn import nn
from tinygrad_attn.errors import MissingExtraError, OptionError
from tinygrad_attn.parallel import average_gradients, share_values

ROOT = Path(__file__).resolve().parents[3]


class Alone:
    """A communicator of one process, with the five things that are asked of one."""

    rank, size = 0, 1

    def allgather(self, value: Any) -> list[Any]:
        return [value]

    def allreduce(self, value: Any) -> Any:
        return value

    def Bcast(self, values: Any, root: int) -> None:
        assert root == 0

    def Allreduce(self, mine: Any, summed: Any) -> None:
        summed[...] = mine


@pytest.fixture(scope="module")
def found() -> list[dict[str, Any]]:
    require("mpi4py")
    command = [require("mpiexec"), "-n", str(len(SIZES)), sys.executable, "-m", "tests.tinygrad_attn.parallel.program"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_every_process_ends_with_the_same_bits(found: list[dict[str, Any]]) -> None:
    assert found[0]["values"] == found[1]["values"] == found[2]["values"]


def test_it_is_the_training_of_one_process_on_the_whole_batch(found: list[dict[str, Any]]) -> None:
    before = ta.get_default_dtype()
    try:
        expected = train(model(seed=0), *batch(), lambda parameters: None)
    finally:
        ta.set_default_dtype(before)
    for mine, whole in zip(found[0]["values"], expected, strict=True):
        np.testing.assert_allclose(mine, whole, rtol=1e-10)


def test_a_gradient_that_one_process_has_counts_by_its_weight(found: list[dict[str, Any]]) -> None:
    for each in found:
        np.testing.assert_allclose(each["seldom"], [3.0 * 4 / 7, 6.0 * 4 / 7], rtol=1e-12)
        assert each["never"] and each["weight"] == sum(SIZES)


def test_half_precision_is_summed_and_given_back_in_its_own_dtype(found: list[dict[str, Any]]) -> None:
    assert all(each["half"] == [[1.0, 1.0], "float16"] for each in found)


def test_weights_that_mean_nothing_are_refused_in_every_process(found: list[dict[str, Any]]) -> None:
    for each in found:
        assert len(each["refused"]) == 3 and all("weights must be finite" in words for words in each["refused"])


def test_one_process_alone_keeps_its_values_and_gradients() -> None:
    parameter = nn.Parameter(np.array([1.0, 2.0]))
    parameter.grad = np.array([3.0, 4.0])
    share_values([parameter], communicator=Alone())
    assert average_gradients([parameter], 5, communicator=Alone()) == 5.0
    assert parameter.numpy().tolist() == [1.0, 2.0] and parameter.grad.tolist() == [3.0, 4.0]
    with pytest.raises(OptionError, match="weights must be finite"):
        average_gradients([parameter], 0, communicator=Alone())


def test_without_mpi4py_the_line_that_brings_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(MissingExtraError, match=r"tinygrad-attn\[mpi\]"):
        share_values([])
