"""DOT text depends on the data alone and is refused where ids would be misread."""

from __future__ import annotations

import pytest

from tinygrad_attn.errors import OptionError
from viz.dot import Cell, Cluster, DotGraph, Edge, Node, Table, to_dot

NODES = (Node("a", "A"), Node("b", Table(((Cell("B"), Cell("", {"port": "p"})),))))


def test_every_part_stands_in_the_text() -> None:
    graph = DotGraph(
        NODES,
        (Edge("e0", "a", "b", "x"), Edge("e1", "a", "b")),
        (Cluster("c", "outer", ("a",), (Cluster("d", "inner", ("b",)),)),),
        {"rankdir": "LR"},
    )
    text = to_dot(graph)
    assert text.count("a -> b") == 2
    assert text.index("cluster_c") < text.index("cluster_d")
    assert 'rankdir="LR"' in text and "<TD></TD>" not in text and '<TD PORT="p"></TD>' in text
    assert to_dot(graph) == text


@pytest.mark.parametrize(
    "graph",
    [
        DotGraph((Node("a", ""), Node("a", ""))),
        DotGraph((Node("a b", ""),)),
        DotGraph((Node("1", ""),)),
        DotGraph((Node("edge", ""),)),
        DotGraph((Node("Graph", ""),)),
        DotGraph((Node("a", ""),), (Edge("e", "a", "b"),)),
        DotGraph((Node("a", ""),), (), (Cluster("c", "", ("b",)),)),
        DotGraph((Node("a", ""),), (), (Cluster("c-1", "", ("a",)),)),
    ],
)
def test_ids_that_graphviz_would_misread_are_refused(graph: DotGraph) -> None:
    with pytest.raises(OptionError, match="dot:"):
        to_dot(graph)
