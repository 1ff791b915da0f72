"""Traversal, accumulation and lifetime of the graph: faults seen in other engines, by their ids."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tests.inputs import variable
from tinygrad_attn.graph import sweep, topological_order


def chain(x: ta.Tensor, length: int) -> ta.Tensor:
    for _ in range(length):
        x = x + 1.0
    return x


def doublings(x: ta.Tensor, count: int) -> ta.Tensor:
    for _ in range(count):
        x = x + x
    return x


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Nothing but reference counts frees memory."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_G1_deep_chain() -> None:
    x = variable(1.0)
    chain(x, 50_000).backward()
    assert x.grad == 1.0


def test_G1_a_chain_of_200_000_runs_backward_also_for_chosen_inputs_and_with_a_graph_of_its_own() -> None:
    x = variable(1.0)
    y = chain(x, 200_000)
    assert ta.gradients(y, x).item() == 1.0
    y.backward(retain_graph=False)
    assert x.grad == 1.0


def test_G1_second_derivatives_of_a_deep_chain() -> None:
    x = variable(3.0)
    y = chain(x, 10_000)
    first = ta.gradients(y * y, x, create_graph=True)
    assert ta.gradients(first, x).item() == 2.0


def test_G2_used_twice_at_two_levels() -> None:
    a = variable(1.0)
    b = a + a
    (b + b).backward()
    assert a.grad == 4.0


def test_G2_a_tensor_is_passed_only_when_every_gradient_that_reaches_it_is_in() -> None:
    a = variable(1.0)
    b = a * 2.0
    long_way = chain(b, 5)
    seen = [step.tensor for step in sweep([long_way * b], [np.float64(1.0)])]
    assert len({id(tensor) for tensor in seen}) == len(seen)
    assert seen[-2] is b
    assert seen[-1] is a


def test_G3_a_shared_intermediate_receives_from_every_branch() -> None:
    x = variable([2.0])
    y = x * 3.0
    (y * 2.0 + y * 5.0).backward()
    assert_array_equal(x.grad, [21.0])


def test_G4_a_second_backward_adds_exactly() -> None:
    a = variable(2.0)
    c = (a * 3.0) * 4.0
    c.backward()
    assert a.grad == 12.0
    c.backward()
    assert a.grad == 24.0


def test_G4_kept_gradients_of_intermediates_do_not_leak_into_a_second_backward() -> None:
    a = variable(2.0)
    b = (a * 3.0).retain_grad()
    c = b * 4.0
    c.backward()
    c.backward()
    assert a.grad == 24.0
    assert b.grad == 8.0


def test_G4_a_freed_graph_says_so() -> None:
    a = variable(2.0)
    b = a * 3.0
    c, d = b * 4.0, b * 5.0
    c.backward(retain_graph=False)
    with pytest.raises(ta.errors.GraphFreedError, match=r"multiply: .*freed by an earlier backward pass"):
        c.backward()
    with pytest.raises(ta.errors.GraphFreedError, match=r"backward\(retain_graph=True\)"):
        d.backward()
    assert a.grad == 12.0


def test_G6_shared_nodes_are_visited_once() -> None:
    x = variable(1.0)
    y = doublings(x, 18)
    order = topological_order([y])
    assert len(order) == 19
    assert sum(tensor.node is not None for tensor in order) == 18


def test_G6_sixty_doublings_cost_sixty_steps() -> None:
    x = variable(1.0)
    y = doublings(x, 60)
    assert len(list(sweep([y], [np.float64(1.0)]))) == 61
    y.backward()
    assert x.grad == 2.0**60


def very_same(x: Any) -> Any:
    """The very array that came in."""
    return x


passed_on = ta.Operation(very_same)  # in no registry
passed_on.gradient("x")(lambda g, out, x: g)


INTERMEDIATES: dict[str, Callable[[ta.Tensor], ta.Tensor]] = {
    "multiply": lambda x: x * 3.0,
    "exp": lambda x: np.exp(x),
    "softmax": lambda x: ta.softmax(x),
    "layer_norm": lambda x: ta.layer_norm(x, x, x),
    "cross_entropy": lambda x: ta.cross_entropy(x.reshape(1, 3), np.array([1])),
    "attention": lambda x: ta.scaled_dot_product_attention(*[x.reshape(3, 1)] * 3),
    "getitem": lambda x: x[1:],
    "reshape": lambda x: x.reshape(3, 1),
    "detach": lambda x: (x * 3.0).detach() * x,
    "user's own": lambda x: passed_on(x),
}


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("make", INTERMEDIATES.values(), ids=INTERMEDIATES)
def test_G7_intermediates_die_by_reference_count(make: Callable[[ta.Tensor], ta.Tensor]) -> None:
    x = variable([1.0, 2.0, 3.0])
    middle = make(x)
    middle.retain_grad().register_hook(lambda g: g * 1.0)
    loss = (middle * 2.0).sum()
    loss.backward()
    seen = [weakref.ref(middle), weakref.ref(loss)]
    assert middle.node is not None
    del middle, loss
    assert [ref() for ref in seen] == [None, None]
    assert gc.collect() == 0


@pytest.mark.usefixtures("without_collector")
def test_G7_the_graph_of_a_gradient_dies_by_reference_count() -> None:
    x = variable([1.0, 2.0])
    middle = x * 3.0
    first = ta.gradients((middle * middle * middle).sum(), x, create_graph=True)
    second = ta.gradients(first.sum(), x)
    seen = [weakref.ref(middle), weakref.ref(first), weakref.ref(second)]
    del middle, first, second
    assert [ref() for ref in seen] == [None, None, None]


@pytest.mark.usefixtures("without_collector")
def test_G7_a_detached_result_does_not_keep_the_graph() -> None:
    x = variable([1.0, 2.0])
    middle = x * 3.0
    kept = (middle * middle).sum().detach()
    seen = weakref.ref(middle)
    del middle
    assert seen() is None
    assert kept.item() == 45.0


@pytest.mark.usefixtures("without_collector")
def test_G8_freeing_a_chain_of_200_000_neither_recurses_nor_leaks() -> None:
    x = variable(1.0)
    half = chain(x, 100_000)
    y = chain(half, 100_000)
    seen = weakref.ref(half)
    del half
    assert seen() is not None
    del y
    assert seen() is None


@pytest.mark.usefixtures("without_collector")
def test_G8_freeing_a_deep_chain_while_running() -> None:
    x = variable(1.0)
    half = chain(x, 50_000)
    y = chain(half, 50_000)
    node = half.node
    del half
    y.backward(retain_graph=False)
    assert node is not None and node.freed
    assert x.grad == 1.0


@pytest.mark.parametrize("f", [np.exp, np.sqrt, np.tanh, ta.sigmoid, lambda x: ta.softmax(x)[0]])
def test_G11_differentiating_twice_through_a_saved_output_repeats_exactly(f: Callable[[Any], Any]) -> None:
    second = ta.grad(lambda x: ta.grad(lambda z: f(z).sum())(x).sum())
    at = np.array([0.5, 2.0])
    assert_array_equal(second(at).numpy(), second(at).numpy())
    x = variable(at)
    first = ta.gradients(f(x).sum(), x, create_graph=True)
    once = ta.gradients(first.sum(), x)
    assert_array_equal(once.numpy(), ta.gradients(first.sum(), x).numpy())
    assert_array_equal(once.numpy(), second(at).numpy())
