"""Small graphs to be explained: a tensor, and a loss that weighs every element differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.diagnose import Cause

Make = Callable[[], tuple[ta.Tensor, ta.Tensor]]


@pytest.fixture(autouse=True)
def silent() -> Any:
    """Holds in every module that imports it."""
    with np.errstate(all="ignore"):
        yield


def variable(values: Any, name: str | None = "x", dtype: Any = np.float64) -> ta.Tensor:
    dtype = np.result_type(dtype, np.complex64) if np.iscomplexobj(values) else dtype
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


# Kinds of causes that are no statement about the slope of one operation, or not about the one that it has in a forward
# pass: the padding of an embedding is a convention.
NOT_OF_ONE_OPERATION = ("padding", "cancelled", "underflow", "rounding", "zero upstream", "empty")


def is_flat(made: ta.Tensor, cause: Cause) -> bool:
    """Whether `made` is the result of the operation of a cause, and does not move with the element that it names."""
    node = made.node
    assert node is not None and cause.place is not None
    operation = node.operation
    for position, (parameter, value) in enumerate(operation.named_inputs(node.inputs)):
        if (operation.name, parameter) != (cause.operation, cause.parameter) or not isinstance(value, ta.Tensor):
            continue
        if value.ndim != len(cause.place) or any(i >= n for i, n in zip(cause.place, value.shape, strict=True)):
            continue
        results = [forward(node, position, cause.place, step) for step in (-1e-6, 0.0, 1e-6)]
        same = np.isclose(results[1], results[1], rtol=0, atol=0, equal_nan=False)
        left, middle, right = (np.where(same, result, 0.0) for result in results)
        slopes = [np.abs(right - middle), np.abs(middle - left), np.abs(right - left)]
        if any(np.max(np.where(np.isfinite(slope), slope, 0.0), initial=0.0) < 1e-10 for slope in slopes):
            return True
    return False


def forward(node: Any, position: int, place: tuple[int, ...], step: float) -> Any:
    operands = [x._data if isinstance(x, ta.Tensor) else x for x in node.inputs]
    operands[position] = operands[position].copy()
    operands[position][place] += step
    result = node.operation.forward(*operands, **node.options)
    return result if node.operation.reference is None else result[0]
