"""Transformations that make a large graph small enough to read; each takes a graph and gives a graph.

`around` keeps the surroundings of one place, `collapse` puts one node in the place of a module, `fold_repeats` shows
equal blocks once, `cap` leaves out what is farthest from the result. None of them hides anything without a trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tinygrad_attn.errors import OptionError
from tinygrad_attn.tensor import Tensor

from .graph import Graph, GraphEdge, GraphNode, Traced
from .instances import contract, has_loop, instances

__all__ = ["around", "arrange", "cap", "collapse", "fold_repeats", "settle_scopes"]

DEFAULT_RADIUS = 4


def arrange(traced: Traced, *, depth: int | None, fold: bool, focus: Any, max_nodes: int) -> Graph:
    """Applies the transformations that `draw_graph` was asked for, and those that keep it below `max_nodes`."""
    graph = settle_scopes(traced.graph)

    def at(level: int | None) -> Graph:
        collapsed = graph if level is None else collapse(graph, level)
        return fold_repeats(collapsed) if fold else collapsed

    arranged = at(depth)
    if focus is not None:
        what, radius = focus if isinstance(focus, tuple) else (focus, DEFAULT_RADIUS)
        places = _places(traced, graph, what)
        shown = {node.id for node in arranged.nodes}
        if not shown.issuperset(places):  # collapsed, or inside a block that another one stands for
            arranged = graph
        near = around(arranged, places, radius)
        while len(near.nodes) > max_nodes and radius > 0:
            radius -= 1
            near = around(arranged, places, radius)
        return cap(near, max_nodes, places)
    deepest = max((node.scope.count(".") for node in graph.nodes if node.scope), default=-1)
    level = deepest if depth is None else min(depth - 1, deepest)
    while len(arranged.nodes) > max_nodes and level >= 0:
        arranged = at(level)
        level -= 1
    return cap(arranged, max_nodes)


def settle_scopes(graph: Graph) -> Graph:
    """Puts parameters and constants into the module that uses them, where one module does."""
    used_in: dict[str, str] = {}
    by_id = graph.by_id()
    for edge in graph.edges:
        if edge.operand is not None:
            scope = by_id[edge.head].scope
            used_in[edge.tail] = _common(used_in[edge.tail], scope) if edge.tail in used_in else scope
    nodes = tuple(
        replace(node, scope=used_in[node.id])
        if node.role in ("parameter", "constant") and used_in.get(node.id)
        else node
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)


def _common(one: str, other: str) -> str:
    shared = []
    for left, right in zip(one.split("."), other.split("."), strict=False):
        if left != right:
            break
        shared.append(left)
    return ".".join(shared)


def _places(traced: Traced, graph: Graph, what: Any) -> list[str]:
    if isinstance(what, Tensor):
        found = [identity] if (identity := traced.id_of(what)) else []
        what = what.name or f"this tensor of shape {what.shape}"
    else:
        found = [node.id for node in graph.nodes if what in (node.id, node.name) or within(node.scope, str(what))]
    if not found:
        names = sorted({node.name for node in graph.nodes if node.kind == "tensor" and node.name})[:12]
        raise OptionError(
            f"focus: {what!r} is no tensor name, node id, operation or module path of this graph\n"
            f"  named tensors here: {', '.join(names) or 'none'}"
        )
    return found


def within(path: str, module: str) -> bool:
    """Says whether a module path lies in a module, or is it."""
    return path == module or path.startswith(f"{module}.")


def _neighbours(graph: Graph) -> dict[str, list[str]]:
    beside: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        beside[edge.tail].append(edge.head)
        beside[edge.head].append(edge.tail)
    return beside


def around(graph: Graph, places: Sequence[str], radius: int) -> Graph:
    """Keeps what lies within `radius` steps of some nodes, against and along the arrows; marks what was cut off.

    Args:
        graph: any graph.
        places: ids of the nodes in the middle.
        radius: steps; from an operand to an operation is one, to its result another.
    """
    if isinstance(radius, bool) or not isinstance(radius, int) or radius < 0:
        raise OptionError(f"focus: expected a radius of at least 0 steps, got {radius!r}")
    beside = _neighbours(graph)
    kept, rim = set(places), list(places)
    for _ in range(radius):
        rim = [node for place in rim for node in beside[place] if node not in kept]
        kept.update(rim)
    return _keep(graph, kept, one_stub=False)


def cap(graph: Graph, max_nodes: int, places: Sequence[str] = ()) -> Graph:
    """Keeps the `max_nodes` nodes nearest to the results, or to `places`, and says how many more there are."""
    if len(graph.nodes) <= max_nodes:
        return graph
    behind: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        behind[edge.head].append(edge.tail)
    beside = _neighbours(graph) if places else behind
    start = [place for place in places or graph.roots if place in beside] or [graph.nodes[-1].id]
    room = max_nodes - (2 if places else 1)  # for what is left out
    kept = dict.fromkeys(start[:room])
    queue = list(kept)
    for place in queue:  # grows while it is walked: nearest first
        for other in beside[place]:
            if other not in kept and len(kept) < room:
                kept[other] = None
                queue.append(other)
    return _keep(graph, set(kept), one_stub=True)


def _keep(graph: Graph, kept: set[str], *, one_stub: bool) -> Graph:
    """The nodes of `kept`; a node "… n more" stands for what was beyond."""
    nodes = [node for node in graph.nodes if node.id in kept]
    edges = [edge for edge in graph.edges if edge.tail in kept and edge.head in kept]
    if len(nodes) == len(graph.nodes):
        return graph
    if one_stub:
        links = {("x0", edge.head) for edge in graph.edges if edge.head in kept and edge.tail not in kept}
        links |= {(edge.tail, "x1") for edge in graph.edges if edge.tail in kept and edge.head not in kept}
        sides = [("x0", "in")] * any(tail == "x0" for tail, _ in links)
        sides += [("x1", "out")] * any(head == "x1" for _, head in links)
        stubs = {side: set[str]() for side in sides}
        if sides:  # said once
            stubs[sides[0]] = {node.id for node in graph.nodes} - kept
    else:
        links, stubs = set(), {}
        for edge in graph.edges:
            if (edge.tail in kept) == (edge.head in kept):
                continue
            into = edge.head in kept
            inner, outer = (edge.head, edge.tail) if into else (edge.tail, edge.head)
            name = f"x{'i' if into else 'o'}{inner}"
            stubs.setdefault((name, "in" if into else "out"), set()).add(outer)
            links.add((name, inner) if into else (inner, name))
    positions = {node.id: number for number, node in enumerate(graph.nodes)}
    more = {
        name: GraphNode(
            id=name, kind="more", role="", name=f"… {len(hidden):,} more" if hidden else "…", count=len(hidden)
        )
        for (name, _), hidden in stubs.items()
    }
    first = [more[name] for (name, side) in stubs if side == "in"]
    last = [more[name] for (name, side) in stubs if side == "out"]
    added = [
        GraphEdge(tail, head)
        for tail, head in sorted(links, key=lambda link: (positions.get(link[0], -1), positions.get(link[1], -1), link))
    ]
    roots = tuple(root for root in graph.roots if root in kept)
    return replace(graph, nodes=(*first, *nodes, *last), edges=(*edges, *added), roots=roots)


def collapse(graph: Graph, depth: int) -> Graph:
    """Puts one node in the place of every module deeper than `depth`; depth 0 collapses the outermost ones.

    A module that is called twice stays two nodes wherever one would make a false loop.
    """
    paths = {}
    for node in graph.nodes:
        parts = node.scope.split(".") if node.scope else []
        if node.kind == "operation" and len(parts) > depth:
            paths[node.id] = ".".join(parts[: depth + 1])
    if not paths:
        return graph
    place = instances(graph, paths)
    heads: dict[str, set[str]] = {}
    makers: dict[str, str] = {}
    for edge in graph.edges:
        if edge.operand is None:
            makers[edge.head] = edge.tail
        else:
            heads.setdefault(edge.tail, set()).add(place.get(edge.head, edge.head))
    for node in graph.nodes:
        if node.kind != "tensor" or node.id in graph.roots or node.role == "input":
            continue
        users = heads.get(node.id, set())
        maker = makers.get(node.id)
        homes = users | ({place.get(maker, maker)} if maker else set())
        if len(homes) == 1 and users and (home := next(iter(homes))) in place.values():
            place[node.id] = home
    calls: dict[str, int] = {}
    modules: dict[str, GraphNode] = {}
    for node in graph.nodes:
        if node.kind != "operation" or node.id not in place:
            continue
        home = place[node.id]
        if home not in modules:
            path = paths[node.id]
            calls[path] = calls.get(path, 0) + 1
            name = path if calls[path] == 1 else f"{path} (call {calls[path]})"
            parent = path.rpartition(".")[0]
            modules[home] = GraphNode(
                id=home, kind="module", role="", name=name, scope=parent, requires_grad=True, count=0
            )
        modules[home] = replace(modules[home], count=modules[home].count + 1)
    lifted = []
    for node in graph.nodes:
        parts = node.scope.split(".") if node.scope else []
        lifted.append(replace(node, scope=".".join(parts[:depth])) if len(parts) > depth else node)
    # What a module returns and also uses itself stays outside of it; the arrow back in would be a loop.
    edges = tuple(
        edge
        for edge in graph.edges
        if edge.head not in place or place.get(makers.get(edge.tail, "")) != place[edge.head] or edge.tail in place
    )
    return contract(replace(graph, nodes=tuple(lifted), edges=edges), place, modules)


def fold_repeats(graph: Graph) -> Graph:
    """Shows neighbouring modules that compute alike, such as `layers.0`, `layers.1`, …, once, with their number.

    The first one is shown; the arrows into and out of the others lead to it. Blocks with something outside between
    them, or with operands of their own outside of them, stay as they are.
    """
    done: set[str] = set()
    while True:
        runs = [run for run in _runs(graph) if run[0] not in done]
        if not runs:
            return graph
        # Outermost first: what is repeated inside a repeated block need not be looked at in every copy.
        run = min(runs, key=lambda blocks: (blocks[0].count("."), blocks[0]))
        done.add(run[0])
        graph = _fold(graph, run)


def _blocks(graph: Graph) -> dict[str, list[GraphNode]]:
    """Numbered modules and their nodes; what a collapsed module returns goes with it."""
    modules = {node.id: node.name for node in graph.nodes if node.kind == "module"}
    paths = {**modules, **{edge.head: modules[edge.tail] for edge in graph.edges if edge.tail in modules}}
    blocks: dict[str, list[GraphNode]] = {}
    for node in graph.nodes:
        parts = paths.get(node.id, node.scope).split(".")
        for end in range(1, len(parts) + 1):
            if parts[end - 1].isdecimal():
                blocks.setdefault(".".join(parts[:end]), []).append(node)
    return blocks


def _runs(graph: Graph) -> list[list[str]]:
    """Runs of two or more consecutive numbered modules with the same signature."""
    blocks = _blocks(graph)
    into: dict[str, list[GraphEdge]] = {}
    for edge in graph.edges:
        into.setdefault(edge.head, []).append(edge)
    parents: dict[str, list[int]] = {}
    for path in blocks:
        parent, _, number = path.rpartition(".")
        parents.setdefault(parent, []).append(int(number))
    runs = []
    for parent, numbers in parents.items():
        run: list[str] = []
        expected: tuple[int, Any] = (-1, None)
        for index in sorted(numbers):
            path = f"{parent}.{index}" if parent else str(index)
            signature = _signature(path, blocks[path], into)
            if (index, signature) != expected:
                runs.append(run)
                run = []
            run.append(path)
            expected = (index + 1, signature)
        runs.append(run)
    return [run for run in runs if len(run) > 1]


def _signature(path: str, block: Sequence[GraphNode], into: Mapping[str, list[GraphEdge]]) -> Any:
    position = {node.id: number for number, node in enumerate(block)}
    return tuple(
        (
            node.kind,
            node.role,
            "" if node.kind == "tensor" else node.name.removeprefix(path),
            node.scope.removeprefix(path),
            node.shape,
            node.dtype,
            node.options,
            tuple((edge.operand, position.get(edge.tail)) for edge in into.get(node.id, ())),
        )
        for node in block
    )


def _fold(graph: Graph, run: Sequence[str]) -> Graph:
    blocks = _blocks(graph)
    first = blocks[run[0]]
    home: dict[str, int] = {}
    place: dict[str, str] = {}
    for number, path in enumerate(run):
        for node, shown in zip(blocks[path], first, strict=True):
            home[node.id] = number
            place[node.id] = shown.id
    inner = {node.id for node in first}
    edges = tuple(
        edge
        for edge in graph.edges
        if home.get(edge.tail, home.get(edge.head)) == home.get(edge.head, home.get(edge.tail))
    )
    moved = {identity: shown for identity, shown in place.items() if identity not in inner}
    folded = contract(replace(graph, edges=edges), moved, {})
    if has_loop(folded) or _ambiguous(folded):
        return graph
    last = run[-1].rpartition(".")[2]
    text = f"{run[0].rpartition('.')[2]}–{last}  ×{len(run)}"
    return replace(_renamed(folded, run[0], text), repeats=(*graph.repeats, (run[0], text)))


def _ambiguous(graph: Graph) -> bool:
    """Says whether some operand would come from two leaves: the blocks have weights of their own outside of them."""
    leaves = {node.id for node in graph.nodes if node.role in ("parameter", "input", "constant")}
    seen: set[tuple[str, int]] = set()
    for edge in graph.edges:
        if edge.operand is None or edge.tail not in leaves:
            continue
        if (edge.head, edge.operand) in seen:
            return True
        seen.add((edge.head, edge.operand))
    return False


def _renamed(graph: Graph, path: str, text: str) -> Graph:
    parent = path.rpartition(".")[0]
    shown = f"{parent}.{text}" if parent else text
    return replace(
        graph,
        nodes=tuple(
            replace(node, name=shown) if node.kind == "module" and node.name == path else node for node in graph.nodes
        ),
    )
