"""What is recorded, and by which switch: faults seen in other engines, by their ids."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tests.inputs import variable
from tinygrad_attn.conversions import Conversions
from tinygrad_attn.domain import RandomChooser
from tinygrad_attn.methods import ArrayMethods

# --- G13: what no_grad leaves behind ---------------------------------------------------------------------------------


def steps_of(decorate: Callable[..., Any]) -> list[bool]:
    @decorate
    def generator() -> Iterator[bool]:
        yield ta.is_grad_enabled()
        yield ta.is_grad_enabled()

    seen = []
    for inside in generator():
        seen += [inside, ta.is_grad_enabled()]
    return seen


@pytest.mark.parametrize("decorate", [ta.no_grad, ta.no_grad()], ids=["no parentheses", "parentheses"])
def test_G13_code_between_the_steps_of_a_decorated_generator_records(decorate: Callable[..., Any]) -> None:
    assert steps_of(decorate) == [False, True, False, True]
    assert ta.is_grad_enabled()


def test_G13_a_decorated_generator_still_takes_values_errors_and_a_return() -> None:
    closed = []

    @ta.no_grad
    def generator() -> Any:
        try:
            got = yield "first"
            try:
                yield got
            except KeyError as error:
                yield error
            return "returned"
        finally:
            closed.append(ta.is_grad_enabled())

    running = generator()
    error = KeyError("thrown in")
    assert next(running) == "first"
    assert running.send("sent") == "sent"
    assert running.throw(error) is error
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == "returned"
    abandoned = generator()
    next(abandoned)
    abandoned.close()
    assert closed == [False, False]
    assert ta.is_grad_enabled()


def test_G13_recursion_and_exceptions_give_the_mode_back() -> None:
    @ta.no_grad
    def descend(depth: int) -> bool:
        if depth == 3:
            raise KeyError(depth)
        try:
            return descend(depth + 1)
        except KeyError:
            seen.append(ta.is_grad_enabled())
            raise

    seen: list[bool] = []
    with pytest.raises(KeyError):
        descend(0)
    assert seen == [False] * 3
    assert ta.is_grad_enabled()


def test_G13_decorating_changes_nothing_and_the_mode_is_that_of_the_call() -> None:
    @ta.no_grad()
    def ask() -> bool:
        return ta.is_grad_enabled()

    assert ta.is_grad_enabled()
    with ta.no_grad():

        @ta.enable_grad
        def ask_within() -> bool:
            return ta.is_grad_enabled()

        assert not ta.is_grad_enabled()
    assert not ask()
    assert ask_within()


def test_G13_one_switch_may_be_entered_twice() -> None:
    quiet = ta.no_grad()
    with quiet:
        with quiet:
            pass
        assert not ta.is_grad_enabled()
    assert ta.is_grad_enabled()


def test_G13_threads_may_share_a_switch_and_do_not_see_each_other() -> None:
    quiet = ta.no_grad()
    entered, leave = threading.Event(), threading.Event()
    seen: list[bool] = []

    def other() -> None:
        with quiet:
            entered.set()
            leave.wait(10)
        seen.append(ta.is_grad_enabled())

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(10)
    assert ta.is_grad_enabled()
    with quiet:
        leave.set()
        thread.join(10)
    assert seen == [True]
    assert ta.is_grad_enabled()


# --- G14, G15: nothing is silently left out of the graph -------------------------------------------------------------


def test_G14_mean_and_max_are_recorded() -> None:
    t = variable([1.0, 2.0, 3.0])
    (t * t).mean().backward()
    np.testing.assert_allclose(t.grad, [2 / 3, 4 / 3, 2.0], rtol=1e-15)
    t.zero_grad()
    t.max().backward()
    assert_array_equal(t.grad, [0.0, 0.0, 1.0])


FLOAT_METHODS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(["sum", "mean", "var", "std", "max", "min", "prod", "cumsum", "flatten", "transpose"], ()),
    **dict.fromkeys(["squeeze", "clip", "exp", "log", "sqrt", "tanh", "abs", "clone", "conj"], ()),
    **dict.fromkeys(["relu", "sigmoid", "softmax"], ()),
    **dict.fromkeys(["copy", "cumprod", "trace", "diagonal", "ravel"], ()),
    "take": ([0, 0],),
    "repeat": (2,),
    "reshape": (4,),
    "swapaxes": (0, 1),
    "astype": (np.float64,),
    "to": (np.float64,),
    "dot": (np.ones((2, 2)),),
    "__getitem__": (0,),
    **dict.fromkeys(["__neg__", "__pos__", "__abs__"], ()),
    **dict.fromkeys(["__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__"], (2.0,)),
    **dict.fromkeys(["__truediv__", "__rtruediv__", "__pow__", "__rpow__", "__mod__", "__rmod__"], (2.0,)),
    **dict.fromkeys(["__matmul__", "__rmatmul__"], (np.ones((2, 2)),)),
}
PLAIN_METHODS = {
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "argmax", "argmin", "item", "tolist"),
    *("argsort", "any", "all", "round", "__round__", "__floordiv__", "__rfloordiv__", "__divmod__"),
    *("__array__", "__float__", "__complex__", "__int__", "__index__", "__bool__", "__len__", "__hash__"),
}
OTHER_METHODS = {"__array_ufunc__", "__array_function__", "__setitem__", "__iter__", "_refuse_to_be_stored"}
OTHER_METHODS |= {"__iadd__", "__isub__", "__imul__", "__itruediv__"}


@pytest.mark.parametrize("name", FLOAT_METHODS)
def test_G14_every_method_that_returns_floats_carries_the_gradient(name: str) -> None:
    x = variable([[1.0, 2.0], [3.0, 4.0]])
    out = getattr(x, name)(*FLOAT_METHODS[name])
    assert out.requires_grad
    out.sum().backward()
    assert x.grad is not None and x.grad.shape == (2, 2)


def test_G14_no_method_is_left_out_of_that_list() -> None:
    members = [*vars(ArrayMethods).items(), *vars(Conversions).items()]
    offered = {name for name, value in members if inspect.isfunction(value)}
    assert offered == set(FLOAT_METHODS) | PLAIN_METHODS - {"__hash__"} | OTHER_METHODS


BUILT_IN = {name: operation for name, operation in ta.OPERATIONS.items() if "." not in name}


@pytest.mark.parametrize("operation", BUILT_IN.values(), ids=BUILT_IN)
def test_G14_every_operation_carries_the_gradient_or_says_that_it_has_no_rule(operation: ta.Operation) -> None:
    assert operation.domain is not None
    choose = RandomChooser(np.random.default_rng(0))
    inputs = operation.domain(choose)
    options = {option: draw(choose, inputs) for option, draw in operation.option_domains.items()}
    for index, value in enumerate(inputs):
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            continue
        operands = list(inputs)
        operands[index] = x = variable(value)
        given = (operands,) if operation.sequence else tuple(operands)
        if operation.parameters[min(index, len(operation.parameters) - 1)] not in operation.rules:
            with pytest.raises(ta.errors.GradientError, match="no gradient rule"):
                operation(*given, **options)
            continue
        out = operation(*given, **options)
        assert out.requires_grad
        out.backward(np.ones(out.shape))
        assert x.grad is not None and x.grad.shape == x.shape
