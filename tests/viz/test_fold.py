"""What makes a graph smaller neither invents loops nor hides anything without a trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tinygrad_attn.errors import OptionError
from tinygrad_attn.modes import scope
from tinygrad_attn.nn import Parameter
from viz.fold import around, arrange, cap, collapse, fold_repeats, settle_scopes
from viz.graph import Graph, trace, trace_live
from viz.instances import has_loop


def module(x: ta.Tensor, name: str) -> ta.Tensor:
    with scope(name):
        weight = Parameter(np.ones((2, 2)), name=f"{name}.weight")
        return ta.relu(x @ weight)


def layers(count: int, *, memory: bool = False) -> ta.Tensor:
    x = start = ta.Tensor(np.ones((3, 2)), requires_grad=True, name="x")
    with scope("encoder"), scope("layers"):
        for number in range(count):
            with scope(str(number)):
                x = module(x, "inner") + (start if memory else 1.0)
    return x.sum()


def closed(graph: Graph) -> bool:
    """Whether every edge joins nodes that are there, none twice, and inputs come first."""
    ids = [node.id for node in graph.nodes]
    edges = [(edge.tail, edge.head, edge.operand) for edge in graph.edges]
    joined = all(edge.tail in ids and edge.head in ids for edge in graph.edges)
    return joined and len(set(ids)) == len(ids) and len(set(edges)) == len(edges) and not has_loop(graph)


@st.composite
def computations(draw: st.DrawFn) -> ta.Tensor:
    """A random computation whose steps belong to random modules, called again and again."""
    pool = [ta.Tensor(1.0, requires_grad=True, name="x")]
    for _ in range(draw(st.integers(1, 25))):
        path = draw(st.sampled_from(["", "a", "b", "a.c", "a.c.0", "a.c.1", "d.0", "d.1", "d.2"]))
        one, other = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        with scope(path) if path else scope("top"):
            pool.append(one + other)
    return pool[-1] + pool[draw(st.integers(0, len(pool) - 1))]


@given(computations(), st.integers(0, 3))
def test_merging_modules_never_makes_a_loop(root: ta.Tensor, depth: int) -> None:
    graph = settle_scopes(trace(root))
    small = collapse(graph, depth)
    assert closed(small)
    operations = sum(node.kind == "operation" for node in graph.nodes)
    assert sum(node.count for node in small.nodes if node.kind in ("operation", "module")) == operations
    assert set(small.roots) == set(graph.roots)


@given(computations(), st.integers(0, 3))
def test_folding_repeats_never_makes_a_loop(root: ta.Tensor, depth: int) -> None:
    graph = settle_scopes(trace(root))
    assert closed(fold_repeats(graph))
    assert closed(fold_repeats(collapse(graph, depth)))


@given(computations(), st.integers(2, 30))
def test_the_cap_holds_and_counts_what_it_leaves_out(root: ta.Tensor, most: int) -> None:
    graph = trace(root)
    small = cap(graph, most)
    assert closed(small)
    more = [node for node in small.nodes if node.kind == "more"]
    assert len(small.nodes) - max(0, len(more) - 1) <= most or len(graph.nodes) <= most
    assert sum(node.count for node in more) + len(small.nodes) - len(more) == len(graph.nodes)


@given(computations(), st.integers(0, 4), st.data())
def test_around_keeps_the_place_and_marks_every_cut(root: ta.Tensor, radius: int, data: st.DataObject) -> None:
    graph = trace(root)
    place = data.draw(st.sampled_from([node.id for node in graph.nodes]))
    near = around(graph, [place], radius)
    kept = {node.id for node in near.nodes if node.kind != "more"}
    assert place in kept and closed(near)
    cut = [e for e in graph.edges if (e.tail in kept) != (e.head in kept)]
    assert bool(cut) == any(node.kind == "more" for node in near.nodes)


def test_equal_layers_are_shown_once_with_their_number() -> None:
    graph = settle_scopes(trace(layers(6)))
    folded = fold_repeats(graph)
    assert folded.repeats == (("encoder.layers.0", "0–5  ×6"),)
    assert sum(node.name == "matmul" for node in folded.nodes) == 1
    assert closed(folded)


def test_what_every_layer_reads_stays_connected() -> None:
    folded = fold_repeats(settle_scopes(trace(layers(4, memory=True))))
    start = next(node.id for node in folded.nodes if node.name == "x")
    assert sum(edge.tail == start for edge in folded.edges) == 2


def test_collapsed_layers_fold_as_well() -> None:
    small = fold_repeats(collapse(settle_scopes(trace(layers(6))), 2))
    assert [node.name for node in small.nodes if node.kind == "module"] == ["encoder.layers.0–5  ×6"]


def test_layers_that_differ_are_not_folded() -> None:
    x = ta.Tensor(np.ones((3, 2)), requires_grad=True)
    with scope("layers"):
        with scope("0"):
            x = module(x, "inner")
        with scope("1"):
            x = ta.tanh(x)
    assert fold_repeats(settle_scopes(trace(x))).repeats == ()


def test_blocks_whose_weights_lie_outside_are_not_folded() -> None:
    x = ta.Tensor(np.ones((3, 2)), requires_grad=True)
    for number in range(2):
        with scope("layers"), scope(str(number)):
            x = x @ ta.Tensor(np.ones((2, 2)), requires_grad=True)
    assert fold_repeats(settle_scopes(trace(x))).repeats == ()


def test_one_module_called_twice_is_no_loop() -> None:
    x = ta.Tensor(np.ones((3, 2)), requires_grad=True)
    x = module(module(module(x, "shared"), "between"), "shared")
    small = collapse(settle_scopes(trace(x)), 0)
    assert [node.name for node in small.nodes if node.kind == "module"] == ["shared", "between", "shared (call 2)"]
    assert closed(small)


def test_too_large_a_graph_is_collapsed_by_module_before_anything_is_left_out() -> None:
    traced = trace_live(layers(20))
    graph = arrange(traced, depth=None, fold=False, focus=None, max_nodes=60)
    assert len(graph.nodes) <= 60 and not any(node.kind == "more" for node in graph.nodes)
    assert sum(node.kind == "module" for node in graph.nodes) == 20


@pytest.mark.parametrize("focus", ["x", "encoder.layers.1", "n3", ("x", 1), "relu"])
def test_focus_may_be_a_name_a_path_an_id_or_an_operation(focus: object) -> None:
    graph = arrange(trace_live(layers(3)), depth=None, fold=True, focus=focus, max_nodes=400)
    assert closed(graph) and graph.nodes


def test_focus_may_be_a_tensor_inside_a_folded_layer() -> None:
    loss = layers(5)
    inside = loss.node.inputs[0]
    graph = arrange(trace_live(loss), depth=0, fold=True, focus=(inside, 1), max_nodes=400)
    assert sum(node.kind != "more" for node in graph.nodes) == 3


def test_a_focus_that_is_not_there_names_what_is() -> None:
    with pytest.raises(OptionError, match=r"named tensors here: .*x"):
        arrange(trace_live(layers(1)), depth=None, fold=True, focus="scores", max_nodes=400)
    with pytest.raises(OptionError, match="radius"):
        arrange(trace_live(layers(1)), depth=None, fold=True, focus=("x", -1), max_nodes=400)


def test_parameters_stand_in_the_module_that_uses_them() -> None:
    graph = settle_scopes(trace(layers(1)))
    assert {node.scope for node in graph.nodes if node.role == "parameter"} == {"encoder.layers.0.inner"}
    assert next(node.scope for node in graph.nodes if node.name == "x") == ""
