"""`draw_graph`: a computation with its values and gradients as one picture."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tinygrad_attn.errors import OptionError

from .dot import Cell, Cluster, DotGraph, Edge, Node, Table, to_dot
from .escape import visible
from .figure import GraphFigure
from .fold import arrange
from .frames import Frame, frames
from .graph import Flow, Graph, GraphEdge, GraphNode, Traced, trace_live
from .label import Style, node_attributes, node_label
from .numbers import significant
from .theme import FONT, colours
from .words import describe_graph, hint

__all__ = ["draw_graph", "picture_of"]

DIRECTIONS = ("LR", "TB", "RL", "BT")
VALUES = ("auto", "full", "summary", "none")


def draw_graph(
    root: Any,
    *,
    values: str | bool = "auto",
    grads: str | bool = "auto",
    local_derivatives: bool = False,
    backward: bool = False,
    depth: int | None = None,
    fold: bool = True,
    focus: Any = None,
    max_nodes: int = 400,
    direction: str = "LR",
    theme: str = "auto",
    opened: Collection[str] | bool = (),
    upstream: Any = None,
    title: str = "",
) -> GraphFigure:
    """Draws the computation behind a tensor: every operation, tensor, value and gradient.

    Gradients are computed for the drawing; no `.grad` is read or changed.

    Args:
        root: a Tensor (usually the loss), or a list, tuple or dict of them.
        values: "auto" shows small tensors in full and sums up large ones; "full", "summary", "none"; True and False
            stand for "auto" and "none".
        grads: True shows ∂root/∂tensor in every tensor, "–" where no gradient flows and "∂?" where none could be
            computed; "auto" does so where there is a gradient to compute; False shows none.
        local_derivatives: write each operation's gradient rule on the edge of the operand it belongs to.
        backward: also draw the way back, dashed, with what each operation sends to each operand.
        depth: show modules this deep and collapse deeper ones; None collapses only if `max_nodes` asks for it.
        fold: show repeated blocks once, with ×N.
        focus: a tensor, its name, a node id or a module's path; only its surroundings are drawn. A pair (what, radius)
            says how many steps around; 4 otherwise.
        max_nodes: beyond this many, modules are collapsed, and what is left is replaced by "… n more".
        direction: "LR", "TB", "RL" or "BT".
        theme: "auto" follows the surroundings in SVG and HTML; "light" or "dark".
        opened: names of fused operations to be drawn as the primitive ones of their reference; True opens all.
        upstream: ∂L/∂root, for a root of more than one element.
        title: the picture's title; chosen from the root's name if empty.
    Returns:
        A figure; its DOT text is the same in every run.
    Raises:
        OptionError: an argument with an impossible value.
        UnsupportedFunctionError: a root that is no Tensor.
    """
    values = {True: "auto", False: "none"}.get(values, values) if isinstance(values, bool) else values
    _check("values", values, VALUES)
    _check("direction", direction, DIRECTIONS)
    _check("grads", grads, ("auto", True, False))
    for name, number, least in (("max_nodes", max_nodes, 2), ("depth", depth, 0)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < least):
            raise OptionError(f"{name}: expected a whole number of at least {least}, got {number!r}")
    palette = colours(theme)
    traced = trace_live(root, opened=opened)
    graph = arrange(traced, depth=depth, fold=fold, focus=focus, max_nodes=max_nodes)
    flow = _flow(traced, graph, upstream, wanted=grads is not False or backward)
    first = traced.graph.node(traced.graph.roots[0])
    loss = visible(first.name) or "L"
    show_grads = grads is True or (grads == "auto" and any(node.requires_grad for node in graph.nodes))
    style = Style(palette, str(values), show_grads, loss, first.dtype)
    picture = picture_of(graph, flow, style, direction, local_derivatives, backward)
    return GraphFigure(
        to_dot(picture),
        title=title or f"Computation graph of {visible(first.name) or 'a result'}",
        alt=describe_graph(graph, flow, traced.graph),
        theme=theme,
        hints={node.id: hint(node) for node in graph.nodes},
    )


def _check(name: str, value: Any, allowed: Sequence[Any]) -> None:
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        raise OptionError(f"{name}: expected one of {', '.join(map(repr, allowed))}; got {value!r}")


def _flow(traced: Traced, graph: Graph, upstream: Any, *, wanted: bool) -> Flow | None:
    """The gradients of what is drawn; None where there are none to compute."""
    root = traced.roots[0]
    one_seed = len(traced.graph.roots) == 1 and (root.size == 1 or upstream is not None)
    freed = any(node.role == "freed" for node in traced.graph.nodes)
    if not wanted or not root.requires_grad or not one_seed or freed:
        return None
    return traced.flow(upstream, only={node.id for node in graph.nodes})


def picture_of(
    graph: Graph, flow: Flow | None, style: Style, direction: str, local_derivatives: bool, backward: bool
) -> DotGraph:
    """Gives the picture of an arranged graph as nodes, edges and clusters, before it is DOT text."""
    palette = style.palette
    gradients = flow.tensors if flow else {}
    nodes = tuple(
        Node(node.id, node_label(node, style, gradients.get(node.id)), node_attributes(node, style))
        for node in graph.nodes
    )
    by_id = graph.by_id()
    operands = _operand_names(graph)
    edges = [
        _edge(f"e{number}", edge, by_id, style, operands, local_derivatives) for number, edge in enumerate(graph.edges)
    ]
    if backward:
        edges += _backward_edges(graph, flow, style)
    return DotGraph(
        nodes,
        tuple(edges),
        _clusters(graph, style),
        {
            "rankdir": direction,
            "bgcolor": palette["page"],
            "fontname": FONT,
            "fontcolor": palette["ink"],
            "nodesep": "0.28",
            "ranksep": "0.42",
            "pad": "0.15",
            "compound": "true",
            "newrank": "true",
        },
        {"fontname": FONT, "fontsize": 11, "fontcolor": palette["ink"], "margin": "0.05,0.03"},
        {
            "fontname": FONT,
            "fontsize": 9,
            "color": palette["edge"],
            "fontcolor": palette["quiet"],
            "arrowsize": "0.7",
            "penwidth": "1.1",
        },
    )


def _operand_names(graph: Graph) -> set[tuple[str, int]]:
    """Operands that need their name: those of operations with several, where the order matters or one stands twice."""
    of: dict[str, list[GraphEdge]] = {}
    for edge in graph.edges:
        if edge.operand is not None:
            of.setdefault(edge.head, []).append(edge)
    by_id = graph.by_id()
    named = set()
    for head, edges in of.items():
        twice = len({edge.tail for edge in edges}) < len(edges)
        commutes = by_id[head].symbol in ("+", "×")
        if len(edges) == 1 or (commutes and not twice):
            continue
        for edge in edges:
            says_itself = by_id[edge.tail].name.rpartition(".")[2] == edge.parameter
            if edge.operand is not None and (twice or not says_itself):
                named.add((head, edge.operand))
    return named


def _edge(
    identity: str,
    edge: GraphEdge,
    by_id: Mapping[str, GraphNode],
    style: Style,
    named: set[tuple[str, int]],
    local_derivatives: bool,
) -> Edge:
    is_named = edge.operand is not None and (edge.head, edge.operand) in named
    if local_derivatives and edge.formula and by_id[edge.tail].requires_grad:
        formula = f"{edge.parameter}:  {edge.formula}" if is_named else edge.formula
        return Edge(identity, edge.tail, edge.head, _tag(formula, style.palette["gradient"]))
    near_the_head: dict[str, str | int] = {"headlabel": edge.parameter, "labeldistance": "1.6"}
    return Edge(identity, edge.tail, edge.head, "", near_the_head if is_named else {})


def _tag(text: str, colour: str) -> Table:
    return Table(((Cell(text, color=colour, size=10, limit=60),),), {"border": 0, "cellborder": 0, "cellpadding": 2})


def _backward_edges(graph: Graph, flow: Flow | None, style: Style) -> list[Edge]:
    by_id = graph.by_id()
    colour = style.palette["gradient"]
    look: dict[str, str | int] = {"style": "dashed", "color": colour, "constraint": "false", "fontcolor": colour}
    edges: list[Edge] = []
    for edge in graph.edges:
        tail = by_id[edge.tail]
        if not tail.requires_grad or by_id[edge.head].kind == "more" or tail.kind == "more":
            continue
        text = ""
        if flow is not None and edge.operand is not None:
            sent = flow.operands.get((edge.head, edge.operand))
            if sent is not None:
                text = f"+{significant(sent.item())}".replace("+−", "−") if sent.size == 1 else ""
        label: str | Table = _tag(text, colour) if text else ""
        edges.append(Edge(f"b{len(edges)}", edge.head, edge.tail, label, look))
    return edges


def _clusters(graph: Graph, style: Style) -> tuple[Cluster, ...]:
    repeats = dict(graph.repeats)

    def cluster(frame: Frame, level: int) -> Cluster:
        name = repeats.get(frame.path, frame.path.rpartition(".")[2])
        if frame.call > 1:
            name += f" (call {frame.call})"
        text = Cell(name, color=style.palette["quiet"], size=11, bold=True, limit=40)
        look: dict[str, str | int] = {
            "style": "rounded,filled",
            "color": style.palette["module"],
            "fillcolor": style.palette["nested_fill" if level % 2 else "module_fill"],
            "labeljust": "l",
            "margin": 10,
        }
        inner = tuple(cluster(child, level + 1) for child in frame.frames)
        return Cluster(frame.id, Table(((text,),), {"border": 0, "cellborder": 0}), frame.nodes, inner, look)

    return tuple(cluster(frame, 0) for frame in frames(graph))
