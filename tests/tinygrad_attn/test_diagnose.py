"""detect_anomaly: the operation that makes the first NaN or infinity is named, and nothing else is."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.diagnose import detect_anomaly
from tinygrad_attn.modes import MODES


def variable(values: Any, **settings: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True, **settings)


def message(f: Callable[[], Any]) -> str:
    with detect_anomaly(), pytest.raises(ta.errors.NotFiniteError) as caught:
        f()
    return str(caught.value)


FORWARD: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "log": (lambda: np.log(variable([1.0, 0.0])), ["log made -inf at (1,)", "x  0.0"]),
    "sqrt": (lambda: np.sqrt(variable([-4.0])), ["sqrt made nan at (0,)", "x  -4.0"]),
    "divide": (lambda: variable([1.0, 3.0]) / np.array([1.0, 0.0]), ["divide made inf at (1,)", "a  3.0", "b  0.0"]),
    "exp": (lambda: np.exp(variable(1000.0)), ["exp made inf at ()", "x  1000.0"]),
    "broadcast": (lambda: variable([[1.0], [3.0]]) / np.array([1.0, 0.0]), ["at (0, 1)", "a  1.0", "b  0.0"]),
    "matmul": (lambda: variable([[1e308, 1e308]]) @ np.array([1e10, 1.0]), ["matmul made inf", "a  shape (1, 2)"]),
    "constants too": (lambda: np.log(ta.Tensor([0.0])), ["log made -inf"]),
}


@pytest.mark.parametrize(("f", "words"), FORWARD.values(), ids=FORWARD)
def test_forward(f: Callable[[], Any], words: list[str]) -> None:
    told = message(f)
    assert all(word in told for word in [*words, "from finite inputs", "test_diagnose.py:"]), told


BACKWARD: dict[str, tuple[Callable[[Any], Any], Any, list[str]]] = {
    "sqrt at 0": (np.sqrt, [4.0, 0.0], ["sqrt: the gradient of x is inf at (1,)", "x", "0.0", "rule: dx = dy / 2y"]),
    "power below 1 at 0": (lambda x: x**0.5, [0.0], ["power: the gradient of a is inf", "b", "0.5"]),
    "arcsin at 1": (np.arcsin, [1.0], ["arcsin: the gradient of x is inf"]),
    "overflow in single precision": (
        lambda x: (x.astype(np.float32) * np.float32(1e30)).astype(np.float64) * 1e30,
        [1e-30],
        ["multiply: the gradient of a is inf"],
    ),
}


@pytest.mark.parametrize(("f", "at", "words"), BACKWARD.values(), ids=BACKWARD)
def test_backward(f: Callable[[Any], Any], at: Any, words: list[str]) -> None:
    told = message(lambda: f(variable(at)).sum().backward())
    assert all(word in told for word in [*words, "gradient of the result", "computed at"]), told


def test_gradients_of_gradients_are_watched_too() -> None:
    told = message(lambda: ta.hessian(lambda x: (np.abs(x) ** 1.5).sum())(np.array([0.0])))
    assert told.startswith("power: the gradient of a is nan at (0,)")


def test_the_first_culprit_is_named_not_where_it_shows() -> None:
    def f() -> None:
        x = variable([0.0, 1.0], name="x")
        y = np.log(x)
        (y * 2.0 + 1.0).sum()

    told = message(f)
    assert told.startswith("log made -inf") and "y = np.log(x)" in told


def test_the_line_is_that_of_the_forward_pass() -> None:
    with detect_anomaly():
        x = variable(0.0)
        y = np.sqrt(x)  # this line
        assert y.node is not None and y.node.source is not None
        with pytest.raises(ta.errors.NotFiniteError, match=r"computed at .*diagnose\.py:\d+\n    y = .*# this line"):
            y.backward()


def test_a_forward_pass_outside_has_no_line_and_the_error_says_so() -> None:
    y = np.sqrt(variable(0.0))
    with detect_anomaly(), pytest.raises(ta.errors.NotFiniteError, match=r"run the forward pass inside detect_anomaly"):
        y.backward()


HARMLESS: dict[str, Callable[[], Any]] = {
    "masked scores": lambda: ta.softmax(ta.masked_fill(variable([1.0, 2.0]), np.array([True, False]), value=-np.inf)),
    "a mask in attention": lambda: ta.scaled_dot_product_attention(
        *[variable(np.ones((3, 2)))] * 3, causal=True, return_weights=True
    )[0],
    "an infinity put in": lambda: variable([1.0, 2.0]) + np.array([-np.inf, 0.0]),
    "a NaN put in": lambda: variable([np.nan]) * 2.0,
    "whole numbers": lambda: variable([1.0, 2.0])[np.array([0, 0])],
    "the branch not taken": lambda: np.where(np.array([True]), variable([1.0]), np.sqrt(variable([0.0]))),
}


@pytest.mark.parametrize("f", HARMLESS.values(), ids=HARMLESS)
def test_what_is_meant_is_no_anomaly(f: Callable[[], ta.Tensor]) -> None:
    with detect_anomaly():
        f().sum().backward()


def test_it_works_as_a_decorator_and_gives_the_mode_and_numpys_warnings_back() -> None:
    @detect_anomaly()
    def step() -> None:
        np.log(variable(0.0))

    before = np.geterr()
    for _ in range(2):
        with pytest.raises(ta.errors.NotFiniteError):
            step()
    assert not MODES.get().detect_anomaly
    assert np.geterr() == before


def test_the_error_is_ours_even_where_warnings_are_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "log made" in message(lambda: np.log(variable(0.0)))


def test_numpys_warnings_are_silent_inside_attention_too() -> None:
    infinite = variable([[-np.inf]])
    with detect_anomaly(), warnings.catch_warnings():
        warnings.simplefilter("error")
        ta.scaled_dot_product_attention(variable([[0.0]]), infinite, variable([[1.0]]))


def test_without_it_nothing_is_noted() -> None:
    assert np.exp(variable(1.0)).node.source is None


# --- between the rules -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_hook_that_makes_a_nan_is_named(create_graph: bool) -> None:
    def f() -> None:
        x = variable([1.0, 2.0])
        y = x * 2.0
        y.register_hook(lambda gradient: gradient * np.array([1.0, np.nan]))
        ta.gradients((y * 3.0).sum(), [x], create_graph=create_graph)

    told = message(f)
    if create_graph:  # what the hook computes is recorded then, and watched as any operation
        assert "nan" in told
    else:
        assert told == "a hook on a result of multiply (2,) made nan at (1,), of finite numbers: 3.0"


def test_gradients_that_add_up_to_more_than_there_is_are_told() -> None:
    x = variable([0.25, 0.125], name="x")
    told = message(lambda: (x * 1e308 + x * 1e308).sum().backward())
    assert told.startswith("the gradients that reach x add up to inf at (0,), of finite numbers: "), told


# --- a switch as the others ------------------------------------------------------------------------------------------


def test_it_decorates_functions_without_brackets_and_generators_step_by_step() -> None:
    @detect_anomaly
    def root(x: Any) -> Any:
        return np.sqrt(x)

    @detect_anomaly()
    def roots(values: list[float]) -> Any:
        for value in values:
            yield np.sqrt(variable([value]))

    with pytest.raises(ta.errors.NotFiniteError):
        root(variable([-1.0]))
    steps = roots([4.0, -1.0])
    assert next(steps).tolist() == [2.0]
    with np.errstate(all="ignore"):
        assert np.isnan(np.sqrt(variable([-1.0]))).all()  # between two steps, nobody watches
    with pytest.raises(ta.errors.NotFiniteError):
        next(steps)


def test_one_switch_may_be_entered_again_and_inside_itself() -> None:
    watch, before = detect_anomaly(), np.geterr()
    for _ in range(2):
        with watch:
            with watch:
                pass
            with pytest.raises(ta.errors.NotFiniteError):
                np.sqrt(variable([-1.0]))
        assert np.geterr() == before
    with pytest.raises(KeyError), watch:
        raise KeyError
    assert np.geterr() == before
