"""Frames around modules: what was computed inside which call of which module.

A module that is called several times, such as one dropout in three places, gets a frame for every call; one frame
around all of them would stretch across whatever lies between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .graph import Graph, GraphNode
from .instances import instances

__all__ = ["Frame", "frames"]


@dataclass(frozen=True)
class Frame:
    """One call of a module.

    Attributes:
        id: "f0", "f1", …
        path: the module's path.
        call: 1 for the first call that has a frame, 2 for the second, …
        nodes: ids of the nodes directly inside.
        frames: calls of modules inside.
    """

    id: str
    path: str
    call: int
    nodes: tuple[str, ...]
    frames: tuple[Frame, ...]


# The calls around a node, from the outermost inwards: the module's path, and which of its calls (None: no step known).
Chain = tuple[tuple[str, str | None], ...]


def frames(graph: Graph) -> tuple[Frame, ...]:
    """Gives the outermost frames of a graph, in the order in which the computation reaches them."""
    chains = _chains(graph)
    members: dict[Chain, list[str]] = {}
    for node in graph.nodes:
        chain = chains.get(node.id, ())
        for end in range(1, len(chain)):
            members.setdefault(chain[:end], [])
        if chain:
            members.setdefault(chain, []).append(node.id)
    names = {chain: f"f{number}" for number, chain in enumerate(members)}
    calls: dict[tuple[Chain, str], int] = {}

    def build(chain: Chain) -> Frame:
        path = chain[-1][0]
        call = calls[chain[:-1], path] = calls.get((chain[:-1], path), 0) + 1
        inner = tuple(build(other) for other in members if other[:-1] == chain)
        return Frame(names[chain], path, call, tuple(members[chain]), inner)

    return tuple(build(chain) for chain in members if len(chain) == 1)


def _chains(graph: Graph) -> dict[str, Chain]:
    makers = {edge.head: edge.tail for edge in graph.edges}
    users: dict[str, list[str]] = {}
    for edge in graph.edges:
        users.setdefault(edge.tail, []).append(edge.head)
    chains: dict[str, Chain] = {}
    steps = [node for node in graph.nodes if node.kind in ("operation", "module")]
    deepest = max((_depth(node) for node in graph.nodes), default=0)
    for level in range(1, deepest + 1):
        # A call lies inside one call of the module around it.
        inside = [node for node in steps if _depth(node) >= level]
        groups = {node.id: (chains.get(node.id, ()), _prefix(node, level)) for node in inside}
        for identity, call in instances(graph, groups).items():
            outer, path = groups[identity]
            chains[identity] = (*outer, (path, call))
    for node in graph.nodes:
        if node.id in chains or not node.scope:
            continue
        near = [makers[node.id]] if makers.get(node.id) in chains else users.get(node.id, [])
        chains[node.id] = _home(node, near, chains)
    return chains


def _home(node: GraphNode, near: list[str], chains: Mapping[str, Chain]) -> Chain:
    """The call that a tensor belongs to: its maker's, or that of the first operation in its module that uses it."""
    depth = _depth(node)
    for other in near:
        chain = chains.get(other, ())[:depth]
        if len(chain) == depth and chain[-1][0] == node.scope:
            return chain
    return tuple((_prefix(node, level), None) for level in range(1, depth + 1))


def _depth(node: GraphNode) -> int:
    return node.scope.count(".") + 1 if node.scope else 0


def _prefix(node: GraphNode, level: int) -> str:
    return ".".join(node.scope.split(".")[:level])
