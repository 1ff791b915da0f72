"""A replay tells the backward pass as the engine runs it: the same order, the same contributions, the same sums."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import tinygrad_attn as ta
from tinygrad_attn.errors import GradientError, GraphFreedError, OptionError, UnsupportedFunctionError
from tinygrad_attn.modes import keep_grads
from viz import draw_graph, trace
from viz.replay import Replay, ReplayStep, replay

Array = NDArray[Any]


def leaf(value: Any, name: str | None = None) -> ta.Tensor:
    return ta.Tensor(np.asarray(value, dtype=np.float64), requires_grad=True, name=name)


def step_of(recorded: Replay, name: str) -> ReplayStep:
    return next(step for step in recorded.steps if step.name == name)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[ta.Tensor, list[ta.Tensor]]:
    """A small graph in which values are used any number of times, with its leaves."""
    shapes = [(2, 2), (2, 2), (1, 2), (2, 1), ()]
    leaves = []
    for position, shape in enumerate(draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=3))):
        size = int(np.prod(shape, dtype=int))
        values = draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
        leaves.append(leaf(np.reshape(values, shape) + 0.25 * position, f"x{position}"))
    pool = list(leaves)
    pick = st.integers(0, 10**6)
    for _ in range(draw(st.integers(0, 6))):
        a, b = (pool[draw(pick) % len(pool)] for _ in range(2))
        made = {
            "add": lambda a=a, b=b: a + b,
            "multiply": lambda a=a, b=b: a * b,
            "tanh": lambda a=a: ta.tanh(a),
            "softmax": lambda a=a: ta.softmax(a + np.zeros((2, 2)), axis=-1),
            "matmul": lambda a=a, b=b: (a + np.zeros((2, 2))) @ (b + np.zeros((2, 2))),
            "index": lambda a=a: (a + np.zeros((2, 2)))[0],
        }[draw(st.sampled_from(["add", "multiply", "tanh", "softmax", "matmul", "index"]))]()
        pool.append(made)
    return (pool[-1] * 0.5).sum(), leaves


@given(graphs())
def test_the_last_sums_are_the_gradients_of_backward_to_the_last_bit(graph: tuple[ta.Tensor, list[ta.Tensor]]) -> None:
    loss, leaves = graph
    recorded = replay(loss, numerical=False)
    with keep_grads():
        loss.backward()
    expected = {tensor.name: tensor.grad for tensor in leaves if tensor.grad is not None}
    found = {step.name: step.upstream for step in recorded.steps if not step.maker}
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        np.testing.assert_array_equal(found[name], gradient)


@given(graphs())
def test_the_contributions_add_up_to_the_complete_gradient(graph: tuple[ta.Tensor, list[ta.Tensor]]) -> None:
    recorded = replay(graph[0], numerical=False)
    sent: dict[str, list[Array]] = {}
    for step in recorded.steps:
        for each in step.contributions:
            before = sent.setdefault(each.tensor, [])
            assert (each.before is None) == (not before)
            if before:
                np.testing.assert_array_equal(each.before, np.sum(before, axis=0))
            before.append(each.value)
            assert each.arrived == len(before)
            assert each.after.shape == recorded.nodes[each.tensor].shape
    for step in recorded.steps[1:]:
        np.testing.assert_allclose(step.upstream, np.sum(sent[step.tensor], axis=0), rtol=1e-12, atol=1e-12)


@given(graphs())
def test_no_tensor_is_passed_before_all_that_reaches_it_is_in(graph: tuple[ta.Tensor, list[ta.Tensor]]) -> None:
    recorded = replay(graph[0], numerical=False)
    order = [step.tensor for step in recorded.steps]
    assert len(set(order)) == len(order)
    arrivals: Counter[str] = Counter()
    expected = Counter(edge.tail for edges in recorded.operands.values() for edge in edges)
    for position, step in enumerate(recorded.steps):
        assert step.number == position + 1
        assert position == 0 or arrivals[step.tensor] == expected[step.tensor]
        for each in step.contributions:
            arrivals[each.tensor] += 1
            assert each.complete == (arrivals[each.tensor] == expected[each.tensor])
            assert order.index(each.tensor) > position


@given(graphs())
def test_what_is_known_only_grows(graph: tuple[ta.Tensor, list[ta.Tensor]]) -> None:
    recorded = replay(graph[0], numerical=False)
    rank = {"none": 0, "waiting": 1, "arriving": 2, "complete": 3, "current": 4, "done": 5}
    before: dict[str, int] = {}
    for index, step in enumerate(recorded.steps):
        states = recorded.at(index)
        assert [name for name, state in states.items() if state.status == "current"] == [step.tensor]
        for name, state in states.items():
            assert rank[state.status] >= before.get(name, 0)
            assert (state.gradient is None) == (state.status in ("none", "waiting"))
        before = {name: rank[state.status] for name, state in states.items()}
    assert {state.status for state in recorded.at(-1).values()} <= {"none", "current", "done"}


@given(graphs())
def test_ids_and_names_are_those_of_trace(graph: tuple[ta.Tensor, list[ta.Tensor]]) -> None:
    recorded, traced = replay(graph[0], numerical=False), trace(graph[0])
    assert recorded.graph == traced
    for step in recorded.steps:
        assert step.name == (traced.node(step.tensor).name or step.tensor)
        assert step.shape == traced.node(step.tensor).shape
        assert step.operation == (traced.node(step.maker).name if step.maker else "")


def test_a_square_sends_two_contributions_to_one_tensor() -> None:
    a = leaf(3.0, "a")
    first = replay(a * a).steps[0]
    told = [
        (each.tensor, each.operand, each.value, each.before, each.after, each.complete) for each in first.contributions
    ]
    assert told == [("n0", 0, 3.0, None, 3.0, False), ("n0", 1, 3.0, 3.0, 6.0, True)]
    assert [each.formula for each in first.contributions] == ["da = dy ∘ b", "db = dy ∘ a"]


def test_nothing_yet_and_zero_are_two_things() -> None:
    a = leaf(3.0, "a")
    first, second = replay(a * 0.0 + a * 0.0).steps[1:3]
    assert first.contributions[0].before is None and first.contributions[0].after == 0.0
    assert second.contributions[0].before == 0.0 and second.contributions[0].after == 0.0


def test_x_that_feeds_query_key_and_value_gets_three_contributions() -> None:
    x = leaf([[1.0, 0.0], [0.0, 1.0]], "X")
    weights = [leaf(np.arange(4.0).reshape(2, 2) / (position + 2.0)) for position in range(3)]
    q, k, v = (x @ weight for weight in weights)
    loss = (ta.softmax(q @ k.T / math.sqrt(2.0)) @ v)[0, 0]
    sent = [each for step in replay(loss).steps for each in step.contributions if each.tensor == "n0"]
    assert [(each.arrived, each.expected) for each in sent] == [(1, 3), (2, 3), (3, 3)]
    loss.backward()
    np.testing.assert_array_equal(sent[-1].after, x.grad)


def test_the_numbers_of_the_pencil_example() -> None:
    q, k = leaf([[math.sqrt(2.0), 0.0]], "Q"), leaf([[0.0, 0.0], [math.log(3.0), 0.0]], "K")
    v = leaf(4.0 * np.eye(2), "V")
    s = q @ k.T / math.sqrt(2.0)
    p = ta.softmax(s)
    s.name, p.name = "S", "P"
    recorded = replay((p @ v)[0, 0])
    np.testing.assert_allclose(recorded.nodes[step_of(recorded, "P").tensor].value, [[0.25, 0.75]])
    np.testing.assert_allclose(step_of(recorded, "P").upstream, [[4.0, 0.0]])
    np.testing.assert_allclose(step_of(recorded, "S").upstream, [[0.75, -0.75]])
    assert all(step.numerical is not None and step.numerical.agrees for step in recorded.steps)


def test_nothing_is_touched_and_no_hook_is_called() -> None:
    calls: list[Any] = []
    x = leaf(3.0, "x")
    y = x * x
    x.register_hook(calls.append)
    y.register_hook(lambda gradient: gradient * 100.0)
    recorded = replay(y)
    assert x.grad is None and not calls
    assert set(recorded.hooked) == {"n0", "n2"}
    assert step_of(recorded, "x").upstream == 6.0
    y.backward()
    assert x.grad == 600.0 and len(calls) == 1


def test_later_changes_change_nothing_in_it() -> None:
    x = leaf([1.0, 2.0], "x")
    recorded = replay((x * x).sum())
    before = recorded.text()
    x.data *= 10.0
    assert recorded.text() == before
    np.testing.assert_array_equal(recorded.nodes["n0"].value, [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        recorded.steps[-1].upstream[0] = 5.0


def test_an_upstream_gradient_starts_the_way() -> None:
    x = leaf([1.0, 2.0], "x")
    recorded = replay(x * x, [1.0, 10.0])
    np.testing.assert_array_equal(recorded.steps[0].upstream, [1.0, 10.0])
    np.testing.assert_array_equal(recorded.steps[-1].upstream, [2.0, 40.0])
    assert recorded.steps[-1].numerical is not None and recorded.steps[-1].numerical.agrees


def test_a_leaf_alone_is_one_step() -> None:
    (only,) = replay(leaf(3.0, "a")).steps
    assert (only.maker, only.contributions, only.upstream) == ("", (), 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_keep_their_dtype(dtype: Any) -> None:
    x = ta.Tensor(np.ones((2, 2), dtype=dtype), requires_grad=True)
    for step in replay((x * x + x).sum()).steps:
        assert step.upstream.dtype == dtype
        assert all(each.value.dtype == each.after.dtype == dtype for each in step.contributions)


def test_what_cannot_be_replayed_is_an_error_with_a_reason() -> None:
    x = leaf([1.0, 2.0], "x")
    with pytest.raises(UnsupportedFunctionError, match="expected one Tensor, got list"):
        replay([x])  # type: ignore[arg-type]
    with pytest.raises(GradientError, match="more than one element"):
        replay(x * x)
    with pytest.raises(GradientError, match="requires no gradient"):
        replay(ta.Tensor(1.0))
    with pytest.raises(OptionError, match="numerical"):
        replay(x.sum(), numerical="yes")
    freed = (x * x).sum()
    freed.backward(retain_graph=False)
    with pytest.raises(GraphFreedError):
        replay(freed)


@pytest.mark.parametrize("step", [3, -4, 1.0, True, "0"])
def test_a_step_that_is_not_there_is_an_error(step: Any) -> None:
    recorded = replay(leaf(2.0, "a") * leaf(3.0, "b"))
    with pytest.raises(OptionError, match="from 0 to 2"):
        recorded.at(step)


def test_a_chain_of_thousands_is_recorded_without_recursion() -> None:
    x = leaf(1.0, "x")
    y = x
    for _ in range(5_000):
        y = y + 1.0
    recorded = replay(y)
    assert len(recorded) == 5_001 and recorded.unchecked == "large"
    assert recorded.steps[-1].upstream == 1.0
    with pytest.raises(OptionError, match="room for 400 nodes"):
        recorded.figure(0)


SCALARS: dict[str, Callable[[], ta.Tensor]] = {
    "leaf": lambda: ta.Tensor(1.0, requires_grad=True),
    "float32": lambda: ta.Tensor(np.float32(1.5), requires_grad=True) * 2.0,
    "dropout": lambda: ta.dropout(ta.Tensor(1.0, requires_grad=True), 0.5),
    "array scalar": lambda: ta.Tensor(1.0, requires_grad=True) * np.float64(2.0),
    "array without axes": lambda: ta.Tensor(1.0, requires_grad=True) * np.array(2.0),
    "integer array": lambda: ta.Tensor(1.0, requires_grad=True) * np.array(2),
    "constant tensor": lambda: ta.Tensor(1.0, requires_grad=True) * ta.Tensor(2.0),
    "element": lambda: ta.Tensor([1.0, 2.0], requires_grad=True)[0],
    "sum": lambda: ta.Tensor([[1.0, 2.0]], requires_grad=True).sum(),
    "from NumPy": lambda: ta.Tensor.from_numpy(np.array(3.0)) * ta.Tensor(1.0, requires_grad=True),
    "condition": lambda: ta.where(np.bool_(True), ta.Tensor(1.0, requires_grad=True), 2.0),
}


@pytest.mark.parametrize("kind", SCALARS)
def test_a_tensor_without_axes_is_drawn_and_replayed(kind: str) -> None:
    result = SCALARS[kind]()
    dot = draw_graph(result, backward=True, local_derivatives=True, values="full").dot
    assert dot.startswith("digraph") and "∂" in dot
    recorded = replay(result)
    assert all(np.ndim(gradient) == len(step.shape) for step in recorded.steps for gradient in [step.upstream])
    assert recorded.text() and recorded.figure(0).dot.startswith("digraph")
    assert all(node.value is None or isinstance(node.value, np.ndarray) for node in trace(result).nodes)
