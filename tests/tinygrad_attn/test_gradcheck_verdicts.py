"""The verdicts of the gradient checker where they are hard: no right rule is blamed, no wrong one passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import Operation, Tensor
from tinygrad_attn.errors import CheckError, GradientMismatch, NotDifferentiableError, OptionError

X = np.random.default_rng(3).normal(size=3)

Rule = Callable[[Any, Any, Any], Any]


def operation(forward: Callable[[Any], Any], rule: Rule, name: str = "own") -> Operation:
    """An operation of one input with a rule of its own."""

    def own(x: Any) -> Any:
        return forward(x)

    own.__name__ = name
    made = Operation(own)
    made.gradient("x")(rule)
    return made


def wrong_tanh() -> Operation:
    return operation(np.tanh, lambda g, y, x: g * (1.0 - y), "wrong_tanh")


def blamed(f: Any, *inputs: Any, **settings: Any) -> GradientMismatch:
    with pytest.raises(GradientMismatch) as caught:
        ta.gradcheck(f, *inputs, **settings)
    assert not isinstance(caught.value, NotDifferentiableError)
    return caught.value


# --- numbers of every size -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("where", [[True, True], [False, True]])
def test_a_gradient_that_is_not_finite_is_wrong_where_the_function_is_smooth(bad: float, where: list[bool]) -> None:
    square = operation(np.square, lambda g, y, x: np.where(where, bad, 2.0 * g * x))
    error = blamed(square, [1.0, 2.0])
    assert f"wrong at {sum(where)} of 2 elements" in str(error)
    assert "NaN or infinity" in str(error)


@pytest.mark.parametrize("size", [1e-30, 1e-8, 1.0, 1e8, 1e30])
@pytest.mark.parametrize("forward", [np.square, lambda x: np.abs(x) * np.abs(x)], ids=["analytic", "real only"])
def test_a_wrong_factor_is_found_at_every_scale(forward: Any, size: float) -> None:
    ta.gradcheck(operation(forward, lambda g, y, x: 2.0 * g * x), [size, -1.5 * size])
    assert blamed(operation(forward, lambda g, y, x: 10.0 * g * x), [size, -1.5 * size]).operation == "own"


@pytest.mark.parametrize("x", [1e-9, 1e-30, 1e-100])
@pytest.mark.parametrize(
    "f", [lambda x: 1.0 / x, ta.log, ta.sqrt, lambda x: x**1.5], ids=["1/x", "log", "sqrt", "x^1.5"]
)
def test_beside_a_pole_or_the_edge_of_a_domain_a_function_is_still_differentiable(f: Any, x: float) -> None:
    report = ta.gradcheck(f, [x])
    assert report.unresolved == 0
    assert report.max_relative_error < 1e-6


@pytest.mark.parametrize("x", [0.0, 1e-30, 3.0, -1e20])
def test_a_kink_at_the_point_itself_is_one_at_every_scale(x: float) -> None:
    with pytest.raises(NotDifferentiableError, match="kink"):
        ta.gradcheck(lambda t: ta.absolute(t - x) if x else ta.absolute(t), [x])


def test_a_pole_within_the_last_digit_is_not_held_against_the_rule() -> None:
    with pytest.raises(NotDifferentiableError):
        ta.gradcheck(ta.tan, [np.pi / 2])


def test_a_rule_that_gives_nan_at_a_kink_does_not_make_its_neighbours_wrong() -> None:
    with pytest.raises(NotDifferentiableError, match=r"at x\[0\]\n.*\n  the rule says nan"):
        ta.gradcheck(lambda x: ta.sqrt(x * x), [0.0, 1.0])


def test_what_rounding_hides_from_the_complex_step_is_counted_as_unresolved() -> None:
    [asked] = [o for o in ta.gradcheck(lambda x: 1e-30 * x + 1.0, [1.0]).oracles if o.name == "complex step"]
    assert asked.unresolved == 1
    assert str(asked).endswith("1 unresolved")


# --- rules that change things ----------------------------------------------------------------------------------------


def spoils_its_input(g: Any, y: Any, x: Any) -> Any:
    x += 1.0
    return g * y


def spoils_its_result(g: Any, y: Any, x: Any) -> Any:
    gradient = g * y
    y *= 1.0 + 1e-15
    return gradient


@pytest.mark.parametrize("rule", [spoils_its_input, spoils_its_result])
@pytest.mark.parametrize("alone", [True, False])
def test_a_rule_that_changes_what_it_is_given_is_named(rule: Rule, alone: bool, monkeypatch: Any) -> None:
    monkeypatch.setitem(ta.exp.rules, "x", rule)  # what a rule of one's own is given is read-only
    with pytest.raises(CheckError, match=r"changes .* in place\n  at fault: the rule of exp for x"):
        ta.gradcheck(ta.exp if alone else lambda x: ta.exp(ta.sin(x)) * x, X)


def test_a_rule_that_draws_random_numbers_is_named_inside_a_composite() -> None:
    rng = np.random.default_rng(0)
    noisy = operation(np.exp, lambda g, y, x: g * y * rng.uniform(0.9, 1.1), "noisy_exp")
    with pytest.raises(CheckError, match=r"two backward passes(.|\n)*at fault: the rule of noisy_exp for x"):
        ta.gradcheck(lambda x: ta.sin(noisy(x)), X)


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_the_operation_at_fault_is_found_inside_checkpoints() -> None:
    wrong = wrong_tanh()
    inner = ta.checkpoint(lambda x: wrong(ta.sin(x)) * x)
    error = blamed(lambda x: ta.checkpoint(lambda y: inner(y) * 2.0)(x), X)
    assert error.operation == "wrong_tanh"
    assert "inside the checkpoint" in str(error)


def test_the_operation_at_fault_is_found_behind_a_checkpoint() -> None:
    wrong = wrong_tanh()
    error = blamed(lambda x: wrong(ta.checkpoint(lambda y: ta.sin(y) * y)(x)), X)
    assert error.operation == "wrong_tanh"
    assert "inside" not in str(error)


def test_the_operation_at_fault_is_found_for_what_a_checkpoint_uses_without_being_given_it() -> None:
    wrong, weight = wrong_tanh(), Tensor(X, requires_grad=True, name="weight")
    error = blamed(lambda x: ta.checkpoint(lambda y: wrong(weight) * y)(x), X, parameters=[weight])
    assert (error.operation, error.input) == ("wrong_tanh", "weight")


def test_an_operation_at_a_kink_is_not_judged_and_the_message_says_so() -> None:
    error = blamed(lambda x: ta.absolute(x - x.detach()) * 0.0 + x * x.detach(), X)
    assert error.operation == ""
    assert "at a kink, and not judged: absolute; check away from it" in str(error)


# --- what cannot be checked ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"order": 0}, {"rtol": -1.0}, {"rtol": np.nan}])
def test_settings_under_which_anything_would_pass_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="given order="):
        ta.gradcheck(ta.exp, X, **settings)


def test_nan_in_an_input_is_told_as_such() -> None:
    with pytest.raises(CheckError, match=r"x holds NaN at \[1\]"):
        ta.gradcheck(ta.exp, [1.0, np.nan])


def test_a_rule_is_not_held_to_a_function_that_returns_nothing_finite() -> None:
    with pytest.raises(NotDifferentiableError, match="not finite on both sides"):
        ta.gradcheck(lambda x: 1.0 / (x * 0.0), X)


@pytest.mark.parametrize("parameter", [Tensor(X), Tensor(X, requires_grad=True) * 2.0], ids=["constant", "result"])
def test_a_parameter_must_be_a_leaf_with_a_gradient(parameter: Tensor) -> None:
    with pytest.raises(CheckError, match="must be a leaf that requires a gradient"):
        ta.gradcheck(lambda x: x * parameter, X, parameters=[parameter])


def test_a_module_in_float32_is_told_how_to_be_checked() -> None:
    layer = ta.nn.Linear(3, 2)
    with pytest.raises(CheckError, match=r"float32 at weight(.|\n)*module.to\(np.float64\)"):
        ta.gradcheck(layer, X)
    with pytest.raises(CheckError, match=r"weight is float32(.|\n)*module.to\(np.float64\)"):
        ta.gradcheck(layer, X, parameters=[layer.weight])
    layer.to(np.float64)
    ta.gradcheck(layer, X, parameters=[layer.weight])


def test_numpys_warnings_are_silent() -> None:
    with np.errstate(all="raise"), pytest.raises(NotDifferentiableError):
        ta.gradcheck(ta.sqrt, [0.0, 1.0])


def test_a_name_says_where_in_an_input_a_leaf_is() -> None:
    report = ta.gradcheck(lambda d: d["a"] * d["b"][0] * d["b"][1], {"a": X, "b": [X, (2.0, 1.0, 3.0)]})
    assert [check.name for check in report.checks] == ["d['a']", "d['b'][0]", "d['b'][1]"]


# --- formulas that are not what they seem -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forward",
    [lambda x: np.sin(x.astype(np.float32)).astype(np.float64), lambda x: np.round(np.sin(x), 6)],
    ids=["float32", "rounded"],
)
def test_a_formula_that_rounds_is_not_held_against_its_rule(forward: Any) -> None:
    sine = operation(forward, lambda g, y, x: g * np.cos(x))
    with pytest.raises(NotDifferentiableError, match="moves in steps"):
        ta.gradcheck(sine, X)


def test_a_stand_in_for_a_gradient_is_told_as_such() -> None:
    error = blamed(operation(np.sign, lambda g, y, x: g), X)
    assert "the function itself does not change there" in str(error)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("alone", [True, False])
def test_a_reference_that_computes_something_else_is_at_fault_and_not_the_rule(order: int, alone: bool) -> None:
    def off(x: Any) -> Any:
        return np.tanh(x) + 0.01 * x

    def fused_tanh(x: Any) -> Any:
        return np.tanh(x), ()

    fused = Operation(fused_tanh, reference=off)
    fused.gradients("x")(lambda g, saved, x: (g * (1.0 - np.tanh(x) ** 2),))
    error = blamed(fused if alone else lambda x: ta.sin(fused(x * 2.0)), X, order=order)
    assert error.operation == "fused_tanh"
    assert "at fault: the reference of fused_tanh computes something else" in str(error)
    assert "rule of" not in str(error)
