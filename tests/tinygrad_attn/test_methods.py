"""Operators and methods: each does what NumPy's does, on values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.errors import OptionError

VALUES = np.array([[0.5, 2.0, 1.5], [3.0, 0.25, 1.0]])


def variable(values: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True)


SAME: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(axis=1, keepdims=True),
    "mean": lambda x: x.mean(0),
    "var": lambda x: x.var(axis=1),
    "var with ddof": lambda x: x.var(axis=1, ddof=1),
    "std with ddof": lambda x: x.std(ddof=2, keepdims=True),
    "std": lambda x: x.std(axis=-1, keepdims=True),
    "max": lambda x: x.max(axis=0),
    "min": lambda x: x.min(),
    "prod": lambda x: x.prod(axis=1),
    "cumsum": lambda x: x.cumsum(axis=1),
    "cumprod": lambda x: x.cumprod(axis=1),
    "trace": lambda x: x.trace(offset=1),
    "diagonal": lambda x: x.diagonal(),
    "ravel": lambda x: x.ravel(),
    "take": lambda x: x.take([0, 0, 5]),
    "take along an axis": lambda x: x.take([1, 0], axis=1),
    "repeat": lambda x: x.repeat(2, axis=0),
    "mT": lambda x: x[None].mT,
    "copy": lambda x: x.copy(),
    "reshape with a tuple": lambda x: x.reshape((3, 2)),
    "reshape with numbers": lambda x: x.reshape(3, -1),
    "flatten": lambda x: x.flatten(),
    "transpose": lambda x: x.transpose(),
    "transpose with numbers": lambda x: x.transpose(1, 0),
    "transpose with a tuple": lambda x: x.transpose((1, 0)),
    "transpose with None": lambda x: x.transpose(None),
    "T": lambda x: x.T,
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "squeeze": lambda x: x[:, None].squeeze(1),
    "squeeze all": lambda x: x[:, None].squeeze(),
    "clip": lambda x: x.clip(0.4, 1.2),
    "clip above": lambda x: x.clip(max=1.2),
    "astype": lambda x: x.astype(np.float32).astype(np.float64),
    "dot": lambda x: x.dot(np.ones(3)),
    "+": lambda x: x + 2.0,
    "r+": lambda x: 2.0 + x,
    "-": lambda x: x - x.sum(),
    "r-": lambda x: 2.0 - x,
    "*": lambda x: x * x,
    "r*": lambda x: 2.0 * x,
    "/": lambda x: x / 4.0,
    "%": lambda x: x % 0.7,
    "r%": lambda x: 7.1 % x,
    "r/": lambda x: 4.0 / x,
    "**": lambda x: x**2,
    "r**": lambda x: 2.0**x,
    "@": lambda x: x @ np.ones((3, 2)),
    "r@": lambda x: np.ones((4, 2)) @ x,
    "@ from a list": lambda x: x @ [1.0, 2.0, 3.0],
    "neg": lambda x: -x,
    "pos": lambda x: +x,
    "abs": lambda x: abs(x - 1.2),
    "getitem": lambda x: x[1, ::2],
}


@pytest.mark.parametrize("f", SAME.values(), ids=SAME)
def test_values_are_those_of_numpy_and_gradients_those_of_differences(f: Callable[[Any], Any]) -> None:
    x = variable(VALUES)
    out, expected = f(x), f(VALUES)
    assert isinstance(out, ta.Tensor) and out.shape == expected.shape
    assert_allclose(out.numpy(), expected, rtol=1e-6)
    if out.dtype != np.float64 or "astype" in [t.node.operation.name for t in (out,) if t.node is not None]:
        return
    u = np.random.default_rng(0).normal(size=out.shape)
    out.backward(u)
    for index in np.ndindex(VALUES.shape):
        step = np.zeros_like(VALUES)
        step[index] = 1e-6
        slope = (u * (f(VALUES + step) - f(VALUES - step))).sum() / 2e-6
        assert_allclose(x.grad[index], slope, rtol=1e-6, atol=1e-8)  # type: ignore[index]


ELEMENTWISE = ["exp", "log", "sqrt", "tanh", "abs"]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_methods_are_the_functions_of_the_same_name(name: str) -> None:
    assert_array_equal(getattr(variable(VALUES), name)().numpy(), getattr(np, name)(VALUES))


def test_comparisons_and_positions_give_plain_arrays() -> None:
    x = variable(VALUES)
    for compare in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
        for other in (1.0, VALUES, variable(VALUES), np.float64(1.0)):
            answer = getattr(x, compare)(other)
            assert type(answer) is np.ndarray and answer.dtype == bool
            assert_array_equal(answer, getattr(VALUES, compare)(np.asarray(other)))
    assert type(x.argmax(axis=1)) is np.ndarray and x.argmax() == 3 and x.argmin() == 4


def test_questions_and_roundings_give_plain_values_too() -> None:
    x = variable([[0.0, 1.26], [2.0, 0.5]])
    assert x.any() and not x.all()
    for answer, expected in (
        (x.any(axis=0), [True, True]),
        (x.all(axis=1, keepdims=True), [[False], [True]]),
        (x.argsort(axis=1), [[0, 1], [1, 0]]),
        (x.round(1), [[0.0, 1.3], [2.0, 0.5]]),
    ):
        assert type(answer) is np.ndarray
        assert_array_equal(answer, expected)


def test_correction_divides_by_one_less() -> None:
    x = variable([1.0, 2.0, 6.0])
    assert_allclose(x.var(correction=1).item(), 7.0)
    assert_allclose(x.std(correction=1).item(), np.sqrt(7.0))
    for method in (x.var, x.std):
        with pytest.raises(OptionError, match="two names of one thing"):
            method(ddof=1, correction=1)


def test_operators_with_what_is_no_number_are_typed_errors() -> None:
    x = variable([1.0])
    for f in (lambda: x + "a", lambda: "a" + x, lambda: x @ object(), lambda: x * [1.0, "b"]):
        with pytest.raises(TypeError):
            f()


def test_an_operator_leaves_a_tensor_subclass_to_answer_as_a_tensor() -> None:
    class Weight(ta.Tensor):
        """A leaf of its own kind."""

    w = Weight([1.0, 2.0], requires_grad=True)
    out = w * 2.0
    assert type(out) is ta.Tensor
    out.sum().backward()
    assert_array_equal(w.grad, [2.0, 2.0])


def test_an_operation_that_tensors_do_not_have_is_pythons_type_error() -> None:
    with pytest.raises(TypeError):
        variable([1.0]) << 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        ~variable([1.0])  # type: ignore[operator]
