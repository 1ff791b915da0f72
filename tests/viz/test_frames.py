"""Frames stand around calls of modules, each node inside at most one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.viz.test_fold import computations
from tinygrad_attn.modes import scope
from viz.fold import collapse, fold_repeats, settle_scopes
from viz.frames import Frame, frames
from viz.graph import Graph, trace


def everything(outer: tuple[Frame, ...]) -> list[Frame]:
    found = list(outer)
    for frame in found:
        found.extend(frame.frames)
    return found


def check(graph: Graph) -> None:
    scopes = {node.id: node.scope for node in graph.nodes}
    found = everything(frames(graph))
    inside = [identity for frame in found for identity in frame.nodes]
    assert sorted(inside) == sorted(identity for identity, path in scopes.items() if path)
    assert all(scopes[identity] == frame.path for frame in found for identity in frame.nodes)
    assert len({frame.id for frame in found}) == len(found)
    for frame in found:
        assert all(inner.path.rpartition(".")[0] == frame.path for inner in frame.frames)
        assert frame.nodes or frame.frames


@given(computations(), st.integers(0, 3))
def test_every_node_of_a_module_stands_in_one_frame_of_it(root: ta.Tensor, depth: int) -> None:
    graph = settle_scopes(trace(root))
    check(graph)
    check(fold_repeats(collapse(graph, depth)))


def test_each_call_of_a_module_has_its_own_frame() -> None:
    x = ta.Tensor(1.0, requires_grad=True)
    for name in ("dropout", "norm", "dropout"):
        with scope("block"), scope(name):
            x = x * 2.0
    (block,) = frames(settle_scopes(trace(x)))
    assert [(frame.path, frame.call) for frame in block.frames] == [
        ("block.dropout", 1),
        ("block.norm", 1),
        ("block.dropout", 2),
    ]


def test_two_calls_beside_each_other_share_a_frame() -> None:
    x = ta.Tensor(1.0, requires_grad=True)
    with scope("twice"):
        one = x * 2.0
    with scope("twice"):
        other = x * 3.0
    assert len(frames(settle_scopes(trace(one + other)))) == 1
