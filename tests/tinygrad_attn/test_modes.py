"""Switches: what they switch, and that they are given back."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.errors import ArgumentError
from tinygrad_attn.modes import MODES, ModeSwitch, scope


def variable(values: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True)


def test_under_no_grad_nothing_is_recorded_and_values_are_the_same() -> None:
    x = variable([1.0, 2.0])
    with ta.no_grad():
        y = ta.softmax(x * x)
    assert not y.requires_grad and y.node is None
    np.testing.assert_array_equal(y.numpy(), ta.softmax(x * x).numpy())


def test_leaves_made_under_no_grad_may_require_a_gradient() -> None:
    with ta.no_grad():
        x = variable(2.0)
    (x * x).backward()
    assert x.grad == 4.0


def test_enable_grad_records_inside_no_grad() -> None:
    x = variable(2.0)
    with ta.no_grad():
        with ta.enable_grad():
            assert ta.is_grad_enabled()
            y = x * x
        assert not ta.is_grad_enabled()
    y.backward()
    assert x.grad == 4.0


def test_a_backward_pass_works_under_no_grad() -> None:
    x = variable(2.0)
    y = x * x
    with ta.no_grad():
        y.backward()
    assert x.grad == 4.0


@pytest.mark.parametrize("decorate", [ta.no_grad, ta.no_grad()], ids=["bare", "called"])
def test_as_a_decorator(decorate: Callable[..., Any]) -> None:
    @decorate
    def double(x: ta.Tensor, *, times: float = 2.0) -> ta.Tensor:
        """Docs."""
        return x * times

    assert double.__name__ == "double" and double.__doc__ == "Docs."
    assert not double(variable(1.0), times=3.0).requires_grad


@pytest.mark.parametrize("switch", [ta.no_grad(), ta.enable_grad(), ta.unfused(), ta.keep_grads(), scope("part")])
def test_every_switch_gives_back_what_was_before_also_after_an_error(switch: ModeSwitch) -> None:
    before = MODES.get()
    with switch:
        assert MODES.get() != before
    with pytest.raises(KeyError), switch:
        raise KeyError
    assert MODES.get() == before


def test_switches_nest_without_undoing_each_other() -> None:
    x = variable([1.0, 2.0])
    with ta.keep_grads(), ta.no_grad(), ta.unfused(), ta.enable_grad():
        modes = MODES.get()
        assert modes.keep_grads and modes.unfused and modes.record
        y = x * 2.0
        y.sum().backward()
    assert y.grad is not None


def test_unfused_runs_the_reference_and_records_primitives_only() -> None:
    x = variable(np.ones((2, 3)))
    gain, bias = np.ones(3), np.zeros(3)
    assert ta.layer_norm(x, gain, bias).node.operation.name == "layer_norm"  # type: ignore[union-attr]
    with ta.unfused():
        out = ta.layer_norm(x, gain, bias)
    names = {t.node.operation.name for t in ta.graph.topological_order([out]) if t.node is not None}
    assert all(ta.OPERATIONS[name].reference is None for name in names) and len(names) > 3


def test_scopes_nest_and_mark_what_is_recorded_inside() -> None:
    x = variable(1.0)
    with scope("encoder"):
        outer = x * 2.0
        with scope("layers.0"):
            inner = x * 3.0
    after = x * 4.0
    scopes = [t.node.scope for t in (outer, inner, after) if t.node is not None]
    assert scopes == ["encoder", "encoder.layers.0", ""]


def test_a_new_thread_starts_with_everything_at_its_default() -> None:
    seen: list[bool] = []
    with ta.no_grad(), ta.unfused():
        thread = threading.Thread(target=lambda: seen.append(ta.is_grad_enabled() and not MODES.get().unfused))
        thread.start()
        thread.join()
    assert seen == [True]


def test_a_copied_context_keeps_its_own_switches() -> None:
    with ta.no_grad():
        context = contextvars.copy_context()
    assert ta.is_grad_enabled()
    assert context.run(ta.is_grad_enabled) is False


def test_coroutines_keep_the_switch_while_they_wait_and_leave_others_alone() -> None:
    seen: list[tuple[str, bool]] = []

    @ta.no_grad
    async def quiet() -> str:
        for _ in range(2):
            seen.append(("quiet", ta.is_grad_enabled()))
            await asyncio.sleep(0)
        return "done"

    async def loud() -> None:
        for _ in range(2):
            seen.append(("loud", ta.is_grad_enabled()))
            await asyncio.sleep(0)

    async def both() -> list[Any]:
        return await asyncio.gather(quiet(), loud())

    assert asyncio.run(both())[0] == "done"
    assert {entry for entry in seen if entry[0] == "quiet"} == {("quiet", False)}
    assert {entry for entry in seen if entry[0] == "loud"} == {("loud", True)}


def test_an_asynchronous_generator_is_refused_rather_than_half_switched() -> None:
    async def generator() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(TypeError, match="asynchronous generator"):
        ta.no_grad(generator)


@pytest.mark.parametrize("switch", [ta.no_grad, ta.enable_grad, ta.unfused, ta.keep_grads])
def test_every_switch_is_a_bare_decorator_too_of_functions_only(switch: Any) -> None:
    around, plain = switch()(MODES.get), MODES.get()
    assert switch(MODES.get)()._replace(outer=None) == around()._replace(outer=None)
    assert MODES.get() == plain
    for given in (3, type("Layer", (), {})):
        with pytest.raises(ArgumentError, match="expected a function to run under the switch\n  given"):
            switch(given)


def test_a_generator_that_enters_a_switch_itself_gives_it_back_when_it_ends() -> None:
    def generator() -> Iterator[bool]:
        with ta.no_grad():
            yield ta.is_grad_enabled()

    assert list(generator()) == [False]
    assert ta.is_grad_enabled()
