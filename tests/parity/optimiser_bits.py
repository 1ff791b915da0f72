"""Fifty steps beside PyTorch's own arithmetic, compared bit by bit: a program, since PyTorch chooses its kernels once.

`ATEN_CPU_CAPABILITY=default` takes the kernels without fused multiply-add, which round after every operation as NumPy
and IEEE 754 do. Their root alone still is not the correctly rounded one that IEEE 754 asks for; it is replaced.

Prints one JSON object: per case and dtype the first step at which a bit differed, or null.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from tests.parity.test_optimisers import CASES, PAIRS, SHAPES, pair


def rounded_root(x: Any) -> Any:
    return torch.from_numpy(np.asarray(np.sqrt(x.numpy())))


def first_difference(name: str, settings: dict[str, Any], dtype: Any) -> int | None:
    """The first of 50 steps after which one of the parameters differs in a bit."""
    rng = np.random.default_rng(1)
    ours, theirs = pair(SHAPES, dtype, rng)
    make, make_theirs = PAIRS[name]
    optimizer, other = make(ours, **settings), make_theirs(theirs, **settings)
    for step in range(1, 51):
        for mine, its in zip(ours, theirs, strict=True):
            mine.grad = np.asarray(rng.normal(size=mine.shape) * 10.0 ** rng.integers(-4, 2), dtype)
            its.grad = torch.tensor(mine.grad)
        optimizer.step()
        other.step()
        for mine, its in zip(ours, theirs, strict=True):
            if mine.numpy().tobytes() != its.detach().numpy().tobytes():
                return step
    return None


def main() -> None:
    assert torch.backends.cpu.get_cpu_capability() == "DEFAULT", "set ATEN_CPU_CAPABILITY=default"
    torch.Tensor.sqrt = rounded_root
    found = {
        f"{name} {settings} {dtype.__name__}": first_difference(name, settings, dtype)
        for name, settings in CASES
        for dtype in (np.float32, np.float64)
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
