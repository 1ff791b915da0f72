"""A second look before a rule is called wrong: where the function cannot be measured, no rule is blamed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.tinygrad_attn.test_gradcheck_verdicts import blamed, operation
from tinygrad_attn.errors import NotDifferentiableError
from tinygrad_attn.gradcheck_oracles import products


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (ta.exp, [1.0, 1e5]),
        (lambda x: ta.tanh(ta.sinh(x)), [1e3]),
        (lambda x: ta.arctan(ta.exp(x)), [2e3, 1.0]),
        (lambda x: 1.0 / ta.softmax(x), [-2e3, 1.0]),
    ],
    ids=["exp", "tanh of sinh", "arctan of exp", "1 / softmax"],
)
def test_a_gradient_of_nan_behind_an_overflow_is_not_held_against_the_rule(f: Any, x: list[float]) -> None:
    with pytest.raises(NotDifferentiableError, match="values on the way become infinite"):
        ta.gradcheck(f, x)


@pytest.mark.parametrize(
    ("f", "kink"),
    [(lambda x: ta.sqrt(ta.sigmoid(x)), "sqrt"), (lambda x: ta.cbrt(ta.exp(x)), "cbrt")],
    ids=["sqrt", "cbrt"],
)
def test_a_gradient_of_nan_behind_an_infinite_slope_names_what_is_at_its_edge(f: Any, kink: str) -> None:
    with pytest.raises(NotDifferentiableError, match=f"on the way, {kink} is at a kink or at the edge"):
        ta.gradcheck(f, [-1e3, -2e3])


def test_a_rule_that_makes_nan_of_infinities_that_were_put_in_is_still_at_fault() -> None:
    """A masked score is meant to be −∞."""
    mask = np.array([0.0, -np.inf, 0.0])

    def forward(x: Any) -> Any:
        return np.exp(x) / np.sum(np.exp(x))

    softmax = operation(forward, lambda g, y, x: y * (g - np.sum(g * y)) + 0.0 * x, "own_softmax")
    error = blamed(lambda x: softmax(x + mask), [1.0, 2.0, 3.0])
    assert "NaN or infinity" in str(error)


@pytest.mark.parametrize("f", [ta.cos, ta.tan, lambda x: ta.cos(x**3)], ids=["cos", "tan", "cos of a cube"])
def test_waves_that_are_finer_than_the_digits_of_x_are_not_held_against_the_rule(f: Any) -> None:
    try:
        ta.gradcheck(lambda x: f(x * x * x), [39.0e3, 197.0e3, -246.0e3])
    except NotDifferentiableError as error:
        assert "settle at no step" in str(error) or "jumps" in str(error)


@pytest.mark.parametrize("size", [1e-12, 1e-9, 1e-6])
@pytest.mark.parametrize(
    "f",
    [ta.relu, lambda x: ta.softmax(ta.relu(x)), lambda x: ta.sort(x * np.sum(x)), lambda x: np.maximum(x, x[::-1])],
    ids=["relu", "softmax of relu", "sort", "maximum"],
)
def test_a_kink_between_x_and_the_steps_is_not_held_against_the_rule(f: Any, size: float) -> None:
    try:
        ta.gradcheck(f, np.array([2.6, 0.41, -1.05]) * size)
    except NotDifferentiableError as error:
        assert "kink" in str(error)


@pytest.mark.parametrize("factor", [1.001, 3.0, 1e6, 1e30])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e4])
def test_a_wrong_factor_does_not_pass_for_something_that_cannot_be_measured(factor: float, size: float) -> None:
    wrong = operation(np.sin, lambda g, y, x: g * np.cos(x) * factor, "wrong_sin")
    error = blamed(lambda x: wrong(x) * 2.0, np.array([1.0, -0.7]) * size)
    assert error.operation == "wrong_sin"


def test_another_order_of_the_same_operations_is_no_other_gradient() -> None:
    """Second derivatives of a fused operation run through its reference, which rounds otherwise."""
    gain, bias = np.ones(3), np.zeros(3)
    report = ta.gradcheck(lambda x: ta.layer_norm(ta.sort(x), gain, bias), [0.81, -4.25, 0.26], order=2)
    assert report.max_relative_error < 1e-5


def test_jvp_and_vjp_are_compared_along_steps_in_proportion_to_x() -> None:
    """Rounding is known of values: along a step of size 1 beside an x of 1e-9 it would count for too little."""
    x = np.array([1e-9, 2e-9])
    found = products(lambda v: [v[0] * v[0]], [x], [np.zeros(2, dtype=bool)], [np.ones(2)], np.random.default_rng(0))
    assert found is not None and 1e-18 < found.size < 1e-16
