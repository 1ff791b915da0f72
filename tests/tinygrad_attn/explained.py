"""Small graphs to be explained: a tensor, and a loss that weighs every element differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta

Make = Callable[[], tuple[ta.Tensor, ta.Tensor]]


@pytest.fixture(autouse=True)
def silent() -> Any:
    """Holds in every module that imports it."""
    with np.errstate(all="ignore"):
        yield


def variable(values: Any, name: str | None = "x", dtype: Any = np.float64) -> ta.Tensor:
    return ta.Tensor(values, dtype=dtype, requires_grad=True, name=name)


def randoms(*shape: int, name: str | None = "x") -> ta.Tensor:
    return variable(np.random.standard_normal(shape), name)


def uneven(x: Any) -> ta.Tensor:
    """A sum in which every element counts differently."""
    return np.sum(x * np.arange(1.0, x.size + 1.0).reshape(x.shape))


def of(f: Callable[[Any], Any], values: Any, dtype: Any = np.float64) -> Make:
    """A variable and an uneven sum of what f makes of it."""

    def make() -> tuple[ta.Tensor, ta.Tensor]:
        x = variable(values, dtype=dtype)
        return x, uneven(f(x))

    return make


TWO = np.array([[1.0, 2.0], [3.0, 4.0]])
