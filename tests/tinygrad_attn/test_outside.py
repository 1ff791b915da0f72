"""Gradients that come from outside: seeds, hooks, assignments to `.grad`; and what happens to passes that fail."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tests.inputs import variable
from tinygrad_attn.errors import ArgumentError, DtypeError, GradientError, GraphFreedError, MutatedError, ShapeError

NOT_NUMBERS = ["1.5", ["a", "b"], [None, 1.0], [1j, 2.0], {}, [[1.0], [1.0, 2.0]], object()]


@pytest.mark.parametrize("value", NOT_NUMBERS)
@pytest.mark.parametrize("recorded", [False, True])
def test_a_gradient_that_is_not_real_numbers_is_refused_wherever_it_comes_from(value: Any, recorded: bool) -> None:
    x = variable([1.0, 2.0])
    for start in (
        lambda: (x * 2.0).backward(value),
        lambda: ta.gradients(x * 2.0, x, value, create_graph=recorded),
    ):
        with pytest.raises(DtypeError, match="must hold real numbers\n  expected float64"):
            start()
    x.register_hook(lambda g: value)
    with pytest.raises(GradientError, match="must hold real numbers\n  expected float64"):
        ta.gradients(x * 2.0, x, [1.0, 1.0], create_graph=recorded)


# --- .grad -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gradient", "error", "words"),
    [
        (np.ones(3), ShapeError, r"expected \(2,\), given \(3,\)"),
        (np.ones((1, 2)), ShapeError, r"expected \(2,\), given \(1, 2\)"),
        (np.ones(2, np.float32), DtypeError, r"expected float64, given float32; pass gradient.astype\('float64'\)"),
        (np.ones(2, int), DtypeError, "expected float64, given int64"),
        (np.ones(2, complex), DtypeError, "expected float64, given complex128"),
        ([1.0, 2.0], DtypeError, "given list"),
        (1.0, DtypeError, "given float"),
        (ta.Tensor(np.ones(2)), DtypeError, "given Tensor"),
    ],
)
def test_grad_takes_arrays_like_the_tensor_only(gradient: Any, error: type[Exception], words: str) -> None:
    x = variable([1.0, 2.0])
    with pytest.raises(error, match=words):
        x.grad = gradient
    assert x.grad is None


def test_an_assigned_grad_is_added_to_in_memory_of_its_own() -> None:
    x, given = variable([1.0, 2.0]), np.ones(2)
    for gradient in (given, np.broadcast_to(1.0, (2,))):
        x.grad = gradient
        (x * x).sum().backward()
        assert_array_equal(x.grad, [3.0, 5.0])
        assert_array_equal(given, [1.0, 1.0])
    mine = x.grad
    x.grad *= 2.0  # type: ignore[operator]
    assert x.grad is mine
    x.grad = None
    assert x.grad is None


def test_a_scaled_grad_can_be_assigned_whatever_the_shape() -> None:
    for values in (3.0, [3.0], [[3.0, 4.0]]):
        x = variable(values)
        (x * x).sum().backward()
        x.grad = 0.5 * x.grad  # type: ignore[operator]
        assert isinstance(x.grad, np.ndarray)
        (x * x).sum().backward()
        assert_array_equal(x.grad, 3.0 * x.numpy())


# --- hooks -----------------------------------------------------------------------------------------------------------


def test_a_hook_cannot_change_what_is_on_its_way_to_others() -> None:
    x, seed = variable([1.0, 2.0]), np.ones(2)
    y = x + 0.0
    y.register_hook(lambda g: g.__imul__(10.0))  # the same array goes through x * 1 as well
    with pytest.raises(ValueError, match="read-only"):
        (y + x * 1.0).backward(seed)
    assert x.grad is None
    assert_array_equal(seed, [1.0, 1.0])


def test_what_a_hook_returns_may_be_reused_by_it() -> None:
    x, buffer = variable([1.0, 2.0]), np.zeros(2)

    def hook(g: Any) -> Any:
        buffer[:] = 2.0 * g
        return buffer

    y, z = x + 0.0, x + 0.0
    y.register_hook(hook)
    z.register_hook(hook)
    (3.0 * y + z).sum().backward()
    assert_array_equal(x.grad, [8.0, 8.0])


def test_a_hook_in_a_recorded_pass_may_return_arrays_and_other_precisions() -> None:
    x = variable([1.0, 2.0])
    for answer in ([2.0, 3.0], np.array([2, 3]), ta.Tensor([2.0, 3.0])):
        with x.register_hook(lambda g, answer=answer: answer):  # type: ignore[misc]
            slope = ta.gradients((x * x).sum(), x, create_graph=True)
        assert slope.dtype == np.float64
        assert_array_equal(slope.numpy(), [2.0, 3.0])


def test_the_same_function_hooked_twice_is_taken_away_once() -> None:
    x, calls = variable([1.0]), []
    first, second = x.register_hook(calls.append), x.register_hook(calls.append)
    first()
    x.sum().backward()
    assert len(calls) == 1
    second()
    x.sum().backward()
    assert len(calls) == 1


def test_a_hook_taken_away_while_hooks_run_still_runs_in_this_pass_and_no_more() -> None:
    x, log = variable([1.0]), []
    handles = [x.register_hook(lambda g: handles[1].remove()), x.register_hook(log.append)]
    x.sum().backward()
    x.sum().backward()
    assert len(log) == 1


@pytest.mark.parametrize("asking", [lambda t: t.retain_grad(), lambda t: t.register_hook(print)])
def test_asking_for_a_gradient_that_will_never_come_is_an_error(asking: Callable[[Any], Any]) -> None:
    with ta.no_grad():
        lost = variable([1.0]) * 2.0
    for tensor in (ta.Tensor([1.0]), lost):
        with pytest.raises(GradientError, match="no gradient will reach"):
            asking(tensor)


def test_a_hook_must_be_a_function() -> None:
    with pytest.raises(ArgumentError, match="expected a function of the gradient\n  given 3"):
        variable([1.0]).register_hook(3)  # type: ignore[arg-type]


# --- passes inside passes, passes that fail, passes at once ----------------------------------------------------------


def test_a_hook_may_run_backward_passes_of_its_own() -> None:
    x, other = variable([1.0, 2.0]), variable([3.0])
    y = x * x
    y.register_hook(lambda g: (other * other).sum().backward())
    y.sum().backward()
    assert_array_equal(x.grad, [2.0, 4.0])
    assert_array_equal(other.grad, [6.0])


def test_a_graph_freed_by_a_hook_is_an_error_and_no_missing_gradient() -> None:
    x = variable([1.0, 2.0])
    y = x * x
    z = y * 1.0
    z.register_hook(lambda g: y.sum().backward(retain_graph=False))
    with pytest.raises(GraphFreedError):
        z.sum().backward()
    assert_array_equal(x.grad, [2.0, 4.0])  # what the hook asked for


def test_values_changed_by_a_hook_are_noticed() -> None:
    x = variable([1.0, 2.0])
    y = x * x * 1.0

    def step(g: Any) -> None:
        x.data += 1.0

    y.register_hook(step)
    with pytest.raises(MutatedError):
        y.sum().backward()
    assert x.grad is None


def test_a_step_of_descent_in_the_hook_of_a_leaf_is_fine() -> None:
    x = variable([1.0, 2.0])

    def step(g: Any) -> None:
        x.data -= 0.5 * g

    x.register_hook(step)
    (x * x).sum().backward()
    assert_array_equal(x.numpy(), [0.0, 0.0])


def fails(g: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("at", ["a", "b", "middle"])
def test_whatever_stops_a_pass_no_half_of_the_gradients_is_left(at: str) -> None:
    a, b = variable([1.0, 2.0]), variable([3.0, 4.0])
    middle = a * b
    handle = {"a": a, "b": b, "middle": middle}[at].register_hook(fails)
    loss = (b * 2.0 + middle + a * 3.0).sum()
    with pytest.raises(KeyboardInterrupt):
        loss.backward()
    assert a.grad is None and b.grad is None
    handle.remove()
    loss.backward()
    assert_array_equal(a.grad, [6.0, 7.0])
    assert_array_equal(b.grad, [3.0, 4.0])


def test_passes_at_once_wait_for_each_other_where_they_add(monkeypatch: pytest.MonkeyPatch) -> None:
    adding, most = [0], [0]
    add = ta.Tensor.accumulate_grad

    def slowly(self: ta.Tensor, gradient: Any) -> None:
        adding[0] += 1
        most[0] = max(most[0], adding[0])
        time.sleep(0.01)
        add(self, gradient)
        adding[0] -= 1

    monkeypatch.setattr(ta.Tensor, "accumulate_grad", slowly)
    shared = variable([1.0, 2.0])
    threads = [threading.Thread(target=(shared * 1.0).sum().backward) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
    assert_array_equal(shared.grad, [4.0, 4.0])


def test_a_shallow_copy_of_a_leaf_is_a_leaf_of_its_own() -> None:
    x = variable([1.0, 2.0], name="x")
    (x * x).sum().backward()
    twin = copy.copy(x)
    assert twin.is_leaf and twin.requires_grad and twin.name == "x"
    twin.data += 1.0
    twin.grad += 1.0
    assert_array_equal(x.numpy(), [1.0, 2.0])
    assert_array_equal(x.grad, [2.0, 4.0])
    with pytest.raises(GradientError, match="only leaves can be"):
        copy.copy(x * 2.0)
