"""The engine beside other engines, on the same arrays: value and all gradients of a few small functions.

    python benchmarks/engines.py

Every function is written once, with the operations that all of them have, and run by each engine in turn, one thread
each, float32; rounds are interleaved, so that whatever else the machine does meets all. Before anything is timed, the
gradients are compared. Engines that are not installed are left out (the extra `bench` brings them).
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before NumPy is imported

import argparse
import importlib
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import tinygrad_attn as ta

Arrays = Sequence[np.ndarray]
Function = Callable[..., Any]
Runner = Callable[[Function, Arrays], tuple[Arrays, Any]]


def chain(xp: Any, x: Any, y: Any) -> Any:
    """A thousand operations on ten numbers: what an operation costs beside its arithmetic."""
    for _ in range(500):
        x = x * y + y
    return xp.sum(x)


def perceptron(xp: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    """Two layers and a mean of squares."""
    hidden = xp.tanh(x @ w1 + b1)  # (batch, hidden)
    out = hidden @ w2 + b2  # (batch, classes)
    return xp.mean(out * out)


def attention(xp: Any, query: Any, key: Any, value: Any) -> Any:
    """softmax(QKᵀ/√d) V of several heads, spelled out."""
    scores = query @ xp.swapaxes(key, -1, -2) * query.shape[-1] ** -0.5  # (batch, heads, length, length)
    exponentials = xp.exp(scores)
    weights = exponentials / xp.sum(exponentials, axis=-1, keepdims=True)
    return xp.sum((weights @ value) ** 2)


def normalise(xp: Any, x: Any, gain: Any, bias: Any) -> Any:
    """Layer normalisation, spelled out."""
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return xp.sum(xp.sin(centred / xp.sqrt(variance + 1e-5) * gain + bias))


TASKS: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "1,000 operations on 10 numbers": (chain, [(10,), (10,)]),
    "perceptron, batch 64, 128-256-10": (perceptron, [(64, 128), (128, 256), (256,), (256, 10), (10,)]),
    "attention, 8 x 4 heads, 64 x 32": (attention, [(8, 4, 64, 32)] * 3),
    "layer norm, 1,024 x 128": (normalise, [(1024, 128), (128,), (128,)]),
}


@dataclass(frozen=True)
class Engine:
    """What runs `function(xp, *arrays)` forward and backward, and the names it is installed under."""

    name: str
    run: Runner


def ours() -> Engine:
    """Tensors and `backward`."""

    def run(function: Function, arrays: Arrays) -> tuple[Arrays, Any]:
        tensors = [ta.Tensor(array, requires_grad=True) for array in arrays]
        loss = function(ta, *tensors)
        loss.backward(retain_graph=False)
        return [t.grad for t in tensors], loss.item()

    return Engine("tinygrad-attn", run)


def pytorch() -> Engine:
    """PyTorch eager on the CPU."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)

    def run(function: Function, arrays: Arrays) -> tuple[Arrays, Any]:
        tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
        loss = function(torch, *tensors)
        loss.backward()
        return [t.grad.numpy() for t in tensors], loss.item()

    return Engine("PyTorch", run)


def hips() -> Engine:
    """HIPS autograd: the tape is made inside `value_and_grad`."""
    autograd, xp = importlib.import_module("autograd"), importlib.import_module("autograd.numpy")

    def run(function: Function, arrays: Arrays) -> tuple[Arrays, Any]:
        every = tuple(range(len(arrays)))
        loss, gradients = autograd.value_and_grad(lambda *values: function(xp, *values), every)(*arrays)
        return gradients, float(loss)

    return Engine("autograd", run)


def mygrad() -> Engine:
    """MyGrad, with its memory guard as it comes."""
    xp = importlib.import_module("mygrad")

    def run(function: Function, arrays: Arrays) -> tuple[Arrays, Any]:
        tensors = [xp.tensor(array) for array in arrays]
        loss = function(xp, *tensors)
        loss.backward()
        return [t.grad for t in tensors], loss.item()

    return Engine("MyGrad", run)


def installed() -> list[Engine]:
    """Ours, and the peers that can be imported."""
    engines = []
    for make in (ours, pytorch, hips, mygrad):
        try:
            engines.append(make())
        except ImportError as error:
            print(f"left out: {make.__name__} ({error})", file=sys.stderr)
    return engines


def check(engines: list[Engine], function: Function, arrays: Arrays) -> None:
    """The gradients of all engines agree, or nothing is worth timing."""
    expected, _ = engines[0].run(function, arrays)
    for engine in engines[1:]:
        for mine, its in zip(expected, engine.run(function, arrays)[0], strict=True):
            np.testing.assert_allclose(its, mine, rtol=1e-3, atol=1e-4 * np.abs(mine).max(), err_msg=engine.name)


def medians(engines: list[Engine], function: Function, arrays: Arrays, rounds: int) -> list[float]:
    """Median milliseconds of one forward and backward pass, per engine."""
    times: list[list[float]] = [[] for _ in engines]
    for _ in range(rounds):
        for engine, taken in zip(engines, times, strict=True):
            start = time.perf_counter()
            engine.run(function, arrays)
            taken.append((time.perf_counter() - start) * 1e3)
    return [statistics.median(taken) for taken in times]


def main() -> int:
    """Run the comparison and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60, help="passes of each engine and function (default 60)")
    rounds = max(1, parser.parse_args().rounds)
    engines, rng = installed(), np.random.default_rng(0)
    print(f"NumPy {np.__version__}, Python {platform.python_version()}, one thread; median ms, forward and backward\n")
    print(f"{'':34}" + "".join(f"{engine.name:>14}"[:14] for engine in engines))
    for name, (function, shapes) in TASKS.items():
        arrays = [rng.uniform(-0.9, 0.9, shape).astype(np.float32) for shape in shapes]
        check(engines, function, arrays)
        medians(engines, function, arrays, 3)
        print(f"{name:34}" + "".join(f"{time:14.2f}" for time in medians(engines, function, arrays, rounds)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
