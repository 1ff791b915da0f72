"""Nodes, their order, the backward sweep and the folding of what was broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.domain import RandomChooser, broadcastable
from tinygrad_attn.graph import fold, is_tensor, sweep, topological_order, version_sum


def variable(values: Any, **settings: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True, **settings)


def random_graph(seed: int, size: int) -> tuple[list[ta.Tensor], ta.Tensor]:
    """Sums and products of two earlier tensors each; the last is the root."""
    rng = np.random.default_rng(seed)
    tensors = [variable(rng.uniform(0.5, 1.0)) for _ in range(2)]
    for _ in range(size):
        a, b = (tensors[int(i)] for i in rng.integers(0, len(tensors), 2))
        tensors.append(a * b if rng.integers(2) else a + b)
    return tensors, tensors[-1]


graphs = st.tuples(st.integers(0, 10_000), st.integers(0, 30))


def test_a_node_tells_what_was_applied_to_what() -> None:
    x, ids = variable(np.ones((2, 3))), np.array([0, 1])
    y = ta.sum(x * 2.0, axis=1)
    node = y.node
    assert isinstance(node, ta.Node)
    assert node.operation is ta.OPERATIONS["sum"] and node.options == {"axis": 1, "keepdims": False}
    assert node.saved is None and node.scope == "" and node.source is None and not node.freed
    times = node.inputs[0].node
    assert times.inputs[0] is x and times.inputs[1] == 2.0
    looked_up = ta.embedding(x, ids).node
    assert looked_up is not None and isinstance(looked_up.inputs[1], ta.Tensor)
    assert ta.linear(x, np.ones((1, 3))).node.inputs[2] is None  # type: ignore[union-attr]
    assert ta.layer_norm(x, np.ones(3), np.zeros(3)).node.saved is not None  # type: ignore[union-attr]


def test_is_tensor() -> None:
    assert is_tensor(ta.Tensor(1.0)) and is_tensor(variable(1.0))
    assert not any(is_tensor(value) for value in (1.0, None, np.ones(2), "text", [ta.Tensor(1.0)]))


@given(graphs)
def test_every_input_comes_before_what_is_made_of_it_and_once(graph: tuple[int, int]) -> None:
    _, root = random_graph(*graph)
    order = topological_order([root])
    place = {id(tensor): i for i, tensor in enumerate(order)}
    assert len(place) == len(order) and order[-1] is root
    for tensor in order:
        if tensor.node is not None:
            assert all(place[id(source)] < place[id(tensor)] for source in tensor.node.inputs)


def test_constants_are_not_in_the_order_and_the_search_stops_where_told() -> None:
    x, c = variable(1.0), ta.Tensor(2.0)
    y = x * c
    z = y * 3.0
    assert [id(t) for t in topological_order([z])] == [id(t) for t in (x, y, z)]
    assert [id(t) for t in topological_order([z], stop={id(y)})] == [id(t) for t in (y, z)]
    assert topological_order([c]) == []
    both = topological_order([y, z])
    assert [id(t) for t in both] == [id(t) for t in (x, y, z)]


@given(graphs)
def test_the_sweep_gives_the_derivative_by_every_tensor(graph: tuple[int, int]) -> None:
    """Oracle: derivatives forwards, by the chain rule over the recorded nodes."""
    tensors, root = random_graph(*graph)
    found = {id(step.tensor): float(step.gradient) for step in sweep([root], [np.float64(1.0)])}
    for x in tensors[:4]:
        tangent = {id(x): 1.0}
        for tensor in tensors:
            if tensor.node is None or tensor is x:
                continue
            a, b = tensor.node.inputs
            da, db = tangent.get(id(a), 0.0), tangent.get(id(b), 0.0)
            product = tensor.node.operation.name == "multiply"
            tangent[id(tensor)] = da * b.item() + db * a.item() if product else da + db
        assert_allclose(found.get(id(x), 0.0), tangent.get(id(root), 0.0), rtol=1e-9)


@given(graphs)
def test_what_a_step_says_it_contributes_adds_up_to_the_gradient_of_the_next(graph: tuple[int, int]) -> None:
    _, root = random_graph(*graph)
    sums: dict[int, float] = {id(root): 1.0}
    for step in sweep([root], [np.float64(1.0)]):
        assert_allclose(sums[id(step.tensor)], step.gradient, rtol=1e-12)
        for index, contribution in step.contributions:
            source = id(step.tensor.node.inputs[index])  # type: ignore[union-attr]
            sums[source] = sums.get(source, 0.0) + float(contribution)


# --- what is read in pieces ------------------------------------------------------------------------------------------

PIECES: list[Any] = [
    0, -1, None, Ellipsis, True, slice(None), slice(None, None, -1), slice(1, None, 2), slice(0, 0), (slice(None), 1),
    (..., 0), (None, 1, slice(0, 2)), (1, 2), [0, 0, 1], np.array([True, False, True]), (slice(1, 3), [2, 2]),
]  # fmt: skip


@given(st.lists(st.sampled_from([*range(len(PIECES)), -1, -2]), min_size=1, max_size=6))
def test_pieces_send_back_what_the_rule_says_in_any_order_and_among_other_uses(uses: list[int]) -> None:
    x = variable(np.arange(9.0).reshape(3, 3) / 10.0)
    others: dict[int, Any] = {-1: lambda t: t * t, -2: lambda t: np.where(t.numpy() > 0.4, t[0], t)}
    y = x * 1.0  # no leaf, so that its sum goes on through another rule
    loss: Any = 0.0
    for weight, use in enumerate(uses):
        part = others[use](y) if use in others else y[PIECES[use]]
        loss = loss + (np.sin(part) * (weight + 1.0)).sum()
    loss.backward()
    ruled = [step.gradient for step in sweep([loss], [np.float64(1.0)], hooks=False) if step.tensor is x]
    assert_allclose(x.grad, ruled[0], rtol=1e-12)
    assert_allclose(x.grad, ta.gradients(loss, x, create_graph=True).numpy(), rtol=1e-12)
    with ta.detect_anomaly():
        assert_allclose(x.grad, ta.gradients(loss, x).numpy(), rtol=1e-12)


def test_the_one_number_of_a_tensor_without_axes_is_a_piece_too() -> None:
    x = variable(3.0)
    (x * 2.0 + x[...] * x[()] + x + x[None].sum()).backward()
    assert x.grad == 2.0 + 6.0 + 1.0 + 1.0


def test_reading_in_pieces_makes_one_array_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    x = variable(np.ones((50, 7)))
    loss = sum((x[row] * (row + 1.0)).sum() for row in range(50))
    made, zeros = [], np.zeros
    monkeypatch.setattr(np, "zeros", lambda shape, *rest: made.append(shape) or zeros(shape, *rest))
    loss.backward()
    assert made == [(50, 7)]
    assert_array_equal(x.grad, np.arange(1.0, 51.0)[:, None] * np.ones(7))


def test_a_piece_that_is_asked_for_sends_nothing_to_the_whole() -> None:
    x = variable([1.0, 2.0])
    x.register_hook(lambda g: pytest.fail("nobody asked for it"))
    piece = x[0]
    assert ta.gradients(piece * 3.0, piece).item() == 3.0


def test_several_roots_are_added() -> None:
    x = variable(3.0)
    y, z = x * x, x * 2.0
    last = list(sweep([y, z], [np.float64(1.0), np.float64(10.0)]))[-1]
    assert last.tensor is x and last.gradient == 6.0 + 20.0


def test_targets_limit_the_walk_and_stop_ends_it() -> None:
    a, b = variable(2.0), variable(3.0)
    c = a * b
    d = c * 4.0
    walked = [step.tensor for step in sweep([d], [np.float64(1.0)], targets=[b])]
    assert all(tensor is not a for tensor in walked) and walked[-1] is b
    stopped = list(sweep([d], [np.float64(1.0)], stop={id(c)}))
    assert stopped[-1].tensor is c and stopped[-1].contributions == []


def test_the_gradient_handed_in_is_not_changed_by_sums() -> None:
    x = variable([1.0, 2.0])
    upstream = np.array([1.0, 1.0])
    y = x + 0.0
    (y + y + y).backward(upstream)
    assert_array_equal(upstream, [1.0, 1.0])
    assert_array_equal(x.grad, [3.0, 3.0])


# --- fold ------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000))
def test_folding_is_the_transpose_of_broadcasting(seed: int) -> None:
    """⟨fold(g), x⟩ = ⟨g, broadcast(x)⟩ for all x."""
    rng = np.random.default_rng(seed)
    choose = RandomChooser(rng)
    full = choose.shape(0, 4)
    shape = broadcastable(choose, full)
    x = rng.normal(size=shape)
    g = rng.normal(size=np.broadcast_shapes(full, shape))
    folded = fold(g, shape)
    assert folded.shape == shape
    assert_allclose((folded * x).sum(), (g * x).sum(), rtol=1e-9, atol=1e-12)


def test_folding_nothing_gives_the_very_array_back() -> None:
    g = np.ones((2, 3))
    assert fold(g, (2, 3)) is g


# --- what happened since the forward pass ----------------------------------------------------------------------------


def test_version_sum_grows_with_every_change_of_an_input() -> None:
    x, y = ta.Tensor([1.0]), ta.Tensor([2.0])
    inputs = (x, y, 3.0, None)
    assert version_sum(inputs) == 0
    x.bump_version()
    y.data = [5.0]
    y.data += 1.0
    assert version_sum(inputs) == 3


def test_a_freed_node_keeps_nothing() -> None:
    x = variable(np.ones(3))
    y = ta.layer_norm(x, np.ones(3), np.zeros(3))
    node = y.node
    assert node is not None
    node.free()
    assert node.freed and node.inputs == () and node.saved is None
    with pytest.raises(ta.errors.GraphFreedError, match="layer_norm"):
        y.backward(np.ones(3))
