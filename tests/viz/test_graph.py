"""A traced graph says exactly what was computed, and its gradients are the engine's."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import nn
from tinygrad_attn.errors import GradientError, UnsupportedFunctionError
from viz.graph import Graph, trace, trace_live


def leaf(shape: tuple[int, ...] = (), name: str = "x", seed: int = 0) -> ta.Tensor:
    return ta.Tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True, name=name)


def names(graph: Graph, kind: str) -> list[str]:
    return [node.name for node in graph.nodes if node.kind == kind]


def attention_loss() -> tuple[ta.Tensor, list[ta.Tensor]]:
    inputs = [leaf((3, 2), name, seed) for seed, name in enumerate(("query", "key", "value"))]
    mask = np.tril(np.ones((3, 3), dtype=bool))
    out = ta.scaled_dot_product_attention(*inputs, mask=mask)
    return (out * out).sum(), inputs


def test_both_operands_of_a_square_are_edges() -> None:
    a = leaf(name="a")
    graph = trace(a * a)
    assert [(edge.tail, edge.operand, edge.parameter) for edge in graph.edges[:2]] == [("n0", 0, "a"), ("n0", 1, "b")]
    assert all(edge.formula for edge in graph.edges[:2])


def test_ids_run_from_inputs_to_results() -> None:
    graph = trace(attention_loss()[0])
    position = {node.id: number for number, node in enumerate(graph.nodes)}
    assert list(position) == [f"n{number}" for number in range(len(graph.nodes))]
    assert all(position[edge.tail] < position[edge.head] for edge in graph.edges)
    assert graph.roots == (graph.nodes[-1].id,)


def test_shared_tensors_are_one_node_and_each_number_is_its_own() -> None:
    x = leaf()
    y = x * 2.0 + x * 2.0
    graph = trace(y)
    constants = [node for node in graph.nodes if node.role == "constant"]
    assert [node.value.item() for node in constants if node.value is not None] == [2.0, 2.0]
    assert names(graph, "tensor").count("x") == 1


def test_several_roots_and_nested_outputs_are_one_graph() -> None:
    x = leaf()
    y = x * x
    graph = trace({"loss": y, "parts": [y + 1.0, (x,)]})
    assert len(graph.roots) == 3
    assert [graph.node(root).role for root in graph.roots] == ["output", "output", "input"]


def test_a_tensor_that_passes_through_untouched_is_no_step() -> None:
    x = leaf()
    assert trace(x, x).nodes == trace(x).nodes


@pytest.mark.parametrize("thing", [3.0, None, np.ones(2), object(), [], {}])
def test_what_is_no_tensor_is_refused(thing: object) -> None:
    with pytest.raises(UnsupportedFunctionError, match="trace: expected"):
        trace(thing)


def test_the_model_itself_is_refused_with_the_remedy() -> None:
    with pytest.raises(UnsupportedFunctionError, match="pass what the model returned"):
        trace(nn.Linear(2, 2))


def test_tracing_keeps_no_tensor_alive_and_needs_no_collector() -> None:
    gc.disable()
    try:
        x = leaf()
        y = x * 3.0
        gone = weakref.ref(y)
        graph = trace(y * 2.0)
        del y
        assert gone() is None and len(graph.nodes) == 7
    finally:
        gc.enable()


def test_options_at_their_default_are_left_out() -> None:
    graph = trace(leaf((2, 3)).sum(axis=1))
    assert [node.options for node in graph.nodes if node.kind == "operation"] == [(("axis", "1"),)]


def test_gradients_are_those_of_the_engine_and_touch_nothing() -> None:
    loss, inputs = attention_loss()
    traced = trace_live(loss)
    flow = traced.flow()
    for tensor, expected in zip(inputs, ta.gradients(loss, inputs), strict=True):
        assert np.array_equal(flow.tensors[traced.id_of(tensor)], expected.numpy())
        assert tensor.grad is None


@pytest.mark.parametrize("opened", [(), ("attention",), True])
def test_what_operations_send_adds_up_to_the_gradient(opened: tuple[str, ...] | bool) -> None:
    loss, _ = attention_loss()
    traced = trace_live(loss, opened=opened)
    flow = traced.flow()
    total: dict[str, np.ndarray] = {}
    for edge in traced.graph.edges:
        if edge.operand is not None and (edge.head, edge.operand) in flow.operands:
            total[edge.tail] = total.get(edge.tail, 0.0) + flow.operands[edge.head, edge.operand]
    assert set(total) == set(flow.tensors) - set(traced.graph.roots)
    for identity, gradient in total.items():
        np.testing.assert_allclose(gradient, flow.tensors[identity], rtol=1e-10, atol=1e-12)


def test_an_opened_operation_shows_its_definition_with_the_same_gradients() -> None:
    loss, inputs = attention_loss()
    closed, opened = trace_live(loss), trace_live(loss, opened=True)
    assert "attention" in names(closed.graph, "operation")
    inside = [node for node in opened.graph.nodes if node.kind == "operation" and node.scope == "attention"]
    assert [node.name for node in inside].count("matmul") == 2 and "softmax" in [node.name for node in inside]
    assert "identity" not in names(opened.graph, "operation")
    for tensor in inputs:
        np.testing.assert_allclose(
            opened.flow().tensors[opened.id_of(tensor)], closed.flow().tensors[closed.id_of(tensor)], atol=1e-12
        )


def test_only_what_is_asked_for_is_kept() -> None:
    loss, inputs = attention_loss()
    traced = trace_live(loss)
    wanted = traced.id_of(inputs[0])
    assert set(traced.flow(only={wanted}).tensors) == {wanted}


def test_a_root_of_several_elements_needs_an_upstream_gradient() -> None:
    x = leaf((3,))
    traced = trace_live(x * x)
    with pytest.raises(GradientError):
        traced.flow()
    assert np.array_equal(traced.flow(np.ones(3)).tensors["n0"], 2 * x.numpy())


def test_a_freed_graph_is_shown_as_far_as_it_stands() -> None:
    x = leaf()
    y = (x * x) * 2.0
    y.backward(retain_graph=False)
    graph = trace(y)
    assert [node.role for node in graph.nodes if node.kind == "operation"] == ["freed"]


def test_looking_at_gradients_calls_no_hook() -> None:
    calls: list[Any] = []
    x = ta.Tensor(3.0, requires_grad=True)
    y = x * x
    for tensor in (x, y):
        tensor.register_hook(calls.append)
    assert trace_live(y).flow().tensors["n0"] == 6.0
    assert not calls
