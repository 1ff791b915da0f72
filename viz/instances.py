"""Several nodes become one without making a loop out of what had none.

A module that is called twice, such as one activation between two layers, cannot be one node: the picture would show a
loop that the computation does not have. `instances` splits it into as many nodes as it takes; `contract` merges.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping
from dataclasses import replace

from .graph import Graph, GraphEdge, GraphNode

__all__ = ["contract", "has_loop", "instances"]


def instances(graph: Graph, groups: Mapping[str, Hashable]) -> dict[str, str]:
    """Assigns operations to merged nodes, so that merging them leaves the graph without loops.

    Args:
        graph: operations and tensors in topological order.
        groups: operation id to the group it would like to be merged with.
    Returns:
        Operation id to the id of its merged node, "m0", "m1", …
    """
    steps = {node.id for node in graph.nodes if node.kind in ("operation", "module")}
    operands: dict[str, list[str]] = {}
    maker: dict[str, str] = {}
    for edge in graph.edges:
        if edge.head in steps:
            operands.setdefault(edge.head, []).append(edge.tail)
        else:
            maker[edge.head] = edge.tail
    member: dict[str, int] = {}  # operation -> merged node
    free: dict[str, int] = {}  # operation outside any group -> bits of the merged nodes just behind it
    above: list[int] = []  # merged node -> bits of all merged nodes behind it
    current: dict[Hashable, int] = {}

    def closure(bits: int) -> int:
        reached = bits
        while bits:
            low = bits & -bits
            reached |= above[low.bit_length() - 1]
            bits ^= low
        return reached

    for node in graph.nodes:
        if node.id not in steps:
            continue
        makers = [maker[tail] for tail in operands.get(node.id, ()) if tail in maker]
        group = groups.get(node.id)
        if group is None:
            bits = 0
            for other in makers:
                bits |= 1 << member[other] if other in member else free.get(other, 0)
            free[node.id] = bits
            continue
        candidate = current.get(group)
        outside = 0
        for other in makers:
            if other not in member:
                outside |= free.get(other, 0)  # nothing is known of what was cut off
            elif member[other] != candidate:
                outside |= 1 << member[other]
        outside = closure(outside)
        if candidate is None or outside >> candidate & 1:
            candidate = current[group] = len(above)
            above.append(0)
            # A fresh node: even its own group's earlier node lies behind it.
            for other in makers:
                outside |= closure(1 << member[other]) if other in member else 0
        member[node.id] = candidate
        if outside | above[candidate] != above[candidate]:
            above[candidate] |= outside
            for number, bits in enumerate(above):
                if bits >> candidate & 1:
                    above[number] |= above[candidate]
    return {identity: f"m{number}" for identity, number in member.items()}


def contract(graph: Graph, place: Mapping[str, str], merged: Mapping[str, GraphNode]) -> Graph:
    """Merges nodes; edges inside a merged node vanish, and parallel ones into or out of it become one.

    Args:
        graph: any graph.
        place: node id to the id of the node that stands for it from now on.
        merged: the new nodes by id; ids in `place` that are not among them are nodes of the graph.
    """
    position: dict[str, int] = {}
    kept: dict[str, GraphNode] = {}
    for number, node in enumerate(graph.nodes):
        identity = place.get(node.id, node.id)
        position.setdefault(identity, number)
        if identity == node.id:
            kept[identity] = node
    kept |= merged
    edges: dict[tuple[str, str, int | None], GraphEdge] = {}
    for edge in graph.edges:
        tail, head = place.get(edge.tail, edge.tail), place.get(edge.head, edge.head)
        if tail == head:
            continue
        if head in merged:
            edge = GraphEdge(tail, head)
        edges.setdefault((tail, head, edge.operand), replace(edge, tail=tail, head=head))
    roots = tuple(dict.fromkeys(place.get(root, root) for root in graph.roots))
    order = _topological(list(kept), list(edges.values()), position)
    return replace(graph, nodes=tuple(kept[identity] for identity in order), edges=tuple(edges.values()), roots=roots)


def has_loop(graph: Graph) -> bool:
    """Says whether some node can be reached from itself."""
    position = {node.id: number for number, node in enumerate(graph.nodes)}
    return any(position[edge.tail] > position[edge.head] for edge in graph.edges)


def _topological(names: list[str], edges: list[GraphEdge], position: Mapping[str, int]) -> list[str]:
    """Inputs before what is made of them, otherwise in the old order; nodes on a loop come last."""
    waiting = dict.fromkeys(names, 0)
    after: dict[str, list[str]] = {}
    for edge in edges:
        waiting[edge.head] += 1
        after.setdefault(edge.tail, []).append(edge.head)
    ready = [(position[name], name) for name in names if not waiting[name]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, name = heapq.heappop(ready)
        order.append(name)
        for head in after.get(name, ()):
            waiting[head] -= 1
            if not waiting[head]:
                heapq.heappush(ready, (position[head], head))
    placed = set(order)
    return order + [name for name in names if name not in placed]
