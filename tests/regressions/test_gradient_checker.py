"""Faults of other gradient checkers: each test is named after its row in the list of known cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import Tensor
from tinygrad_attn.errors import CheckError, GradientMismatch, NotDifferentiableError

RNG = np.random.default_rng(5)


def wrong_rule(monkeypatch: pytest.MonkeyPatch, operation: ta.Operation, rule: Any) -> None:
    monkeypatch.setitem(operation.rules, "x", rule)


def test_C1_a_rule_that_is_wrong_by_5_on_values_near_1e_minus_8_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiny_sum(x: Tensor) -> Tensor:
        return ta.positive(x).sum() * 1e-8

    x = RNG.normal(size=4)
    assert ta.gradcheck(tiny_sum, x).max_relative_error < 1e-6
    wrong_rule(monkeypatch, ta.positive, lambda g, out, x: 5.0 * g)
    with pytest.raises(GradientMismatch, match="off by the factor 5"):
        ta.gradcheck(tiny_sum, x)


def test_C1_a_tiny_output_is_not_hidden_by_a_large_one_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        return ta.square(x[0]) * 1e-8, ta.exp(x[1])

    x = np.array([0.7, 0.3])
    assert ta.gradcheck(both, x).elements == 2
    wrong_rule(monkeypatch, ta.square, lambda g, out, x: 10.0 * g * x)
    with pytest.raises(GradientMismatch) as caught:
        ta.gradcheck(both, x)
    assert caught.value.index == (0,)


@pytest.mark.parametrize("seed", range(5))
def test_C2_one_wrong_element_of_100_fails_whatever_the_seed(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    def rule(g: Any, out: Any, x: Any) -> Any:
        gradient = np.array(g * np.cos(x))
        gradient[6, 3] *= 1.001
        return gradient

    wrong_rule(monkeypatch, ta.sin, rule)
    with pytest.raises(GradientMismatch, match="1 of 100 elements") as caught:
        ta.gradcheck(ta.sin, RNG.uniform(-1.0, 1.0, (10, 10)), seed=seed)
    assert caught.value.index == (6, 3)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (ta.relu, (np.zeros(3),)),
        (ta.absolute, (np.zeros(3),)),
        (ta.maximum, (np.ones(2), np.ones(2))),
        (ta.max, (np.array([1.0, 3.0, 3.0]),)),
        (ta.softmax, (np.ones(3),)),
        (lambda x: np.where(x >= 1.0, x, 2.0 * x), (np.ones(1),)),
        (ta.log, (np.zeros(1),)),
    ],
    ids=["relu", "absolute", "maximum", "max", "smooth", "jump", "edge"],
)
def test_C3_a_kink_is_not_called_a_wrong_gradient(function: Any, inputs: Any) -> None:
    if function is ta.softmax:
        ta.gradcheck(function, *inputs)
        return
    with (
        np.errstate(divide="ignore", invalid="ignore"),
        pytest.raises(NotDifferentiableError, match="not differentiable here"),
    ):
        ta.gradcheck(function, *inputs)


def test_C3_beside_a_kink_the_slope_is_found_with_a_finer_step() -> None:
    assert ta.gradcheck(ta.relu, [1e-3, -1e-5, 1e-7]).elements == 3


def test_C3_a_wrong_rule_is_told_even_if_another_element_is_at_a_kink(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_rule(monkeypatch, ta.relu, lambda g, out, x: g)
    with pytest.raises(GradientMismatch) as caught:
        ta.gradcheck(ta.relu, [0.0, -1.0])
    assert not isinstance(caught.value, NotDifferentiableError)
    assert caught.value.index == (1,)


def test_C5_float32_is_refused_with_what_to_do() -> None:
    with pytest.raises(CheckError, match=r"float32.*\n.*astype\(np\.float64\)"):
        ta.gradcheck(ta.exp, np.ones(2, np.float32))


def test_C5_float32_on_the_way_is_refused_too() -> None:
    def through_float32(x: Tensor) -> Tensor:
        return x.astype(np.float32).astype(np.float64)

    with pytest.raises(CheckError, match="computes in float32 at astype"):
        ta.gradcheck(through_float32, 1.0)


def test_C6_a_softmax_whose_rule_returns_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ones sent in, the gradient of softmax is zero whatever its rule says."""
    wrong_rule(monkeypatch, ta.softmax, lambda g, y, x, axis: np.zeros_like(x))
    with pytest.raises(GradientMismatch, match="zero throughout"):
        ta.gradcheck(ta.softmax, RNG.normal(size=(2, 3)))


def test_C6_what_is_sent_in_is_uneven_and_never_near_zero() -> None:
    seen: list[Any] = []

    @ta.op
    def witness(x: Any) -> Any:
        return 1.0 * x

    @witness.gradient("x")
    def _(g: Any, out: Any, x: Any) -> Any:
        seen.append(np.array(g))
        return g

    ta.OPERATIONS.pop(f"{witness.__module__}.witness")
    ta.gradcheck(witness, np.ones(50))
    sent = np.abs(seen[0])
    assert sent.min() >= 0.5 and sent.std() > 0.1
    assert (seen[0] > 0).any() and (seen[0] < 0).any()


def test_C7_elements_that_get_no_gradient_on_purpose_are_named_not_excused() -> None:
    weight, ids = RNG.normal(size=(3, 2)), np.array([0, 2, 0, 1])
    padding_row = np.array([[True], [False], [False]])
    report = ta.gradcheck(ta.embedding, weight, ids, padding_index=0, exclude={"weight": padding_row})
    assert report.checks[0].excluded == 2
    with pytest.raises(GradientMismatch, match="exclude="):
        ta.gradcheck(ta.embedding, weight, ids, padding_index=0)


def test_C8_a_failure_says_where_and_by_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ta.divide.rules, "b", lambda g, out, a, b: np.where(np.arange(3) == 1, 2.0, 1.0) * -g * out / b)
    with pytest.raises(GradientMismatch) as caught:
        ta.gradcheck(ta.divide, [1.0, 2.0, 3.0], [2.0, 4.0, 5.0])
    error = caught.value
    assert (error.operation, error.input, error.index) == ("divide", "b", (1,))
    assert error.analytic == pytest.approx(2.0 * error.numeric, rel=1e-6)
    assert error.error == pytest.approx(abs(error.numeric), rel=1e-6)
    for part in ("divide", "b[1]", f"{error.analytic:.9g}", f"{error.numeric:.9g}", "db = −dy ∘ y / b"):
        assert part in str(error)


def test_C9_dropout_inside_is_noticed() -> None:
    with pytest.raises(CheckError, match="answers differently each time"):
        ta.gradcheck(lambda x: ta.dropout(x, 0.5), np.ones(8))


def test_C9_dropout_is_noticed_even_when_luck_makes_the_answers_equal() -> None:
    with pytest.raises(CheckError, match="answers differently each time"):
        ta.gradcheck(lambda x: ta.dropout(x, 1e-6), np.ones(1))


def test_C9_a_generator_of_the_function_s_own_is_noticed_by_its_answers() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(CheckError, match="answers differently each time"):
        ta.gradcheck(lambda x: x * rng.normal(), 2.0)


def test_C9_dropout_with_a_generator_made_inside_is_checked() -> None:
    def repeatable(x: Tensor) -> Tensor:
        return ta.dropout(x, 0.5, rng=np.random.default_rng(3))

    assert ta.gradcheck(repeatable, RNG.normal(size=8)).elements == 8


@pytest.mark.parametrize(
    "function", [ta.absolute, lambda x: ta.max(x, axis=0), lambda x: ta.where(x > 0.0, x, 3.0 * x)]
)
def test_C11_functions_that_are_not_analytic_are_checked_with_real_steps(function: Any) -> None:
    ta.gradgradcheck(function, np.array([-1.3, 0.4, 2.0]))


def test_C13_derivatives_nest_without_confusion() -> None:
    def outer(x: Any) -> Any:
        return x * ta.grad(lambda y: x * y)(np.array(2.0))

    assert ta.grad(outer)(1.0).item() == 2.0
    ta.gradgradcheck(outer, 1.0)


def test_C16_second_derivatives_of_a_norm_at_zero_are_refused_with_the_reason() -> None:
    """The norm has no slope at 0, its subgradient 0 is a choice, and no second derivative exists."""

    def norm(x: Tensor) -> Tensor:
        return np.sqrt((x * x).sum())

    with (
        np.errstate(divide="ignore", invalid="ignore"),
        pytest.raises(NotDifferentiableError, match="has a kink: slope"),
    ):
        ta.gradgradcheck(norm, np.zeros(3))
    ta.gradgradcheck(norm, np.array([0.3, 0.0, -0.4]))
