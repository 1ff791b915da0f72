"""Traversal, accumulation and lifetime of the graph: faults seen in other engines, by their ids."""

from __future__ import annotations

import gc
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.domain import RandomChooser
from tinygrad_attn.graph import sweep, topological_order
from tinygrad_attn.methods import ArrayMethods


def variable(values: Any, **settings: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True, **settings)


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
    **dict.fromkeys(["squeeze", "clip", "exp", "log", "sqrt", "tanh", "abs", "clone"], ()),
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
    *("__array__", "__float__", "__int__", "__index__", "__bool__", "__len__", "__hash__"),
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
    offered = {name for name, value in vars(ArrayMethods).items() if inspect.isfunction(value)}
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
