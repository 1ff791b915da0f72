"""The drawn graph at one step of a replay: what is known, what is being computed, what is still unknown.

Every label keeps room for all that will ever stand in it, so that every step has the same layout and stepping through
them moves no node. Unknown gradients read ∂?, never 0; what state a tensor is in, sign, border and colour say alike.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import OptionError

from .dot import Cell, DotGraph, Edge, Node, Table, to_dot
from .draw import DIRECTIONS, picture_of
from .escape import display_width, visible
from .figure import GraphFigure
from .graph import GraphNode
from .label import Style, node_attributes, node_label
from .numbers import NO_GRADIENT, NOT_COMPUTED
from .theme import colours
from .values import fits, summary
from .words import hint

if TYPE_CHECKING:
    from .replay import Replay, TensorState

__all__ = ["MOST_NODES", "Slots", "gradient_texts", "node_slots", "number_texts", "replay_figure", "sign", "step_graph"]

MOST_NODES = 400
# Points that a character takes at most at size 10, in the fonts that stand in for one another; a line's height.
CHARACTER = 6.6
LINE = 18

Array = NDArray[Any]
Texts = list[str]


@dataclass(frozen=True)
class Slots:
    """The room that a tensor's gradient takes in its label: the same at every step.

    Attributes:
        names: of each row, for an array that is summed up; None for one that is shown in full.
        rows: how many numbers each row holds.
        widths: columns of text that each number of a row has room for.
        plane: rows of each plane of a 3-d array, else 0.
    """

    names: tuple[str, ...] | None
    rows: int
    widths: tuple[int, ...]
    plane: int = 0


def replay_figure(replay: Replay, step: int, *, direction: str = "LR", theme: str = "auto") -> GraphFigure:
    """Draws the graph of a replay when a step has just been taken.

    Args:
        replay: the recorded pass.
        step: index into its steps.
        direction: "LR", "TB", "RL" or "BT".
        theme: "auto", "light" or "dark".
    """
    index = replay.index_of(step)
    taken = replay.steps[index]
    states = replay.at(index)
    known = [replay.name_of(name) for name, state in states.items() if state.status in ("current", "done", "complete")]
    unknown = [replay.name_of(name) for name, state in states.items() if state.status == "waiting"]
    partly = [
        f"{replay.name_of(name)} ({state.arrived} of {state.expected})"
        for name, state in states.items()
        if state.status == "arriving"
    ]
    sent = [replay.name_of(each.tensor) for each in taken.contributions]
    told = [
        f"Step {taken.number} of {len(replay)}: {taken.name}",
        f"its gradient is complete and sent to {' and '.join(sent)}" if sent else "a leaf, whose gradient is complete",
    ]
    rest = [
        f"{what}: {', '.join(names[:20])}{' and more' if len(names) > 20 else ''}."
        for what, names in (("Known", known), ("Partly known", partly), ("Not computed yet", unknown))
        if names
    ]
    return GraphFigure(
        to_dot(step_graph(replay, states, direction=direction, theme=theme)),
        title=f"Backward pass of {visible(replay.loss)}, step {taken.number} of {len(replay)}: {visible(taken.name)}",
        alt=" ".join([f"{': '.join(told[:1])}, {told[1]}.", *rest]),
        theme=theme,
        hints={node.id: hint(node) for node in replay.graph.nodes},
    )


def step_graph(
    replay: Replay, states: Mapping[str, TensorState], *, direction: str, theme: str, arrows: bool = True
) -> DotGraph:
    """Builds the graph that is drawn for a moment of a replay.

    Args:
        replay: the recorded pass.
        states: of every tensor, by node id.
        direction, theme: as for `replay_figure`.
        arrows: draw the heads of arrows; a page puts its own, which turn round, at both ends.
    Raises:
        OptionError: an unknown direction, or more nodes than a picture has room for.
    """
    if direction not in DIRECTIONS:
        raise OptionError(f"direction: expected one of {', '.join(map(repr, DIRECTIONS))}; got {direction!r}")
    graph = replay.graph
    if len(graph.nodes) > MOST_NODES:
        raise OptionError(
            f"replay: a picture has room for {MOST_NODES} nodes, and this graph has {len(graph.nodes):,}; "
            "replay a part of it, from an intermediate tensor with upstream=, or read replay.text()"
        )
    style = Style(colours(theme), "auto", True, visible(replay.loss), replay.nodes[graph.roots[0]].dtype)
    drawn = picture_of(graph, None, style, direction, False, False)
    slots = node_slots(replay)
    steps = {step.tensor: step.number for step in replay.steps}
    makers = {step.maker: states[step.tensor].status for step in replay.steps if step.maker}
    nodes = tuple(
        Node(
            node.id,
            _label(replay, node, states[node.id], slots[node.id], style, steps.get(node.id, 0)),
            _tensor_look(node, states[node.id].status, style),
        )
        if node.id in slots
        else Node(node.id, _other_label(replay, node, style), _other_look(node, makers.get(node.id, ""), style))
        for node in graph.nodes
    )
    by_id = replay.nodes
    edges = tuple(
        _edge(edge, makers, style, carries=by_id[edge.tail].requires_grad and by_id[edge.head].requires_grad)
        if arrows
        else replace(edge, attributes={**edge.attributes, "dir": "none"})
        for edge in drawn.edges
    )
    return replace(drawn, nodes=nodes, edges=edges)


def node_slots(replay: Replay) -> dict[str, Slots]:
    """Finds how much room every tensor that gets a gradient needs for it, whatever the step."""
    seen: dict[str, list[Array]] = {}
    for step in replay.steps:
        seen.setdefault(step.tensor, []).append(step.upstream)
        for each in step.contributions:
            seen.setdefault(each.tensor, []).append(each.after)
    return {name: _slots(replay, arrays) for name, arrays in seen.items()}


def _slots(replay: Replay, arrays: Sequence[Array]) -> Slots:
    """Room for any of some arrays of one shape."""
    shape = arrays[0].shape
    least = _columns(NOT_COMPUTED)
    if not fits(shape):
        facts = [summary(array) for array in arrays]
        names = tuple(dict.fromkeys(fact for each in facts for fact in each))
        return Slots(names, len(names), (max([least, *(_columns(text) for each in facts for text in each.values())]),))
    columns = shape[-1] if shape else 1
    numbers = [text for array in arrays for text in number_texts(replay, array)]
    widths = (max([least, *map(_columns, numbers[start::columns])]) for start in range(columns))
    return Slots(None, arrays[0].size // columns, tuple(widths), shape[-2] if len(shape) == 3 else 0)


def gradient_texts(replay: Replay, slots: Slots, gradient: Array | None) -> Texts:
    """Gives the texts that stand in a gradient's slots, row by row: ∂? in each while nothing is known."""
    if gradient is None:
        return [NOT_COMPUTED] * (slots.rows * len(slots.widths))
    if slots.names is None:
        return number_texts(replay, gradient)
    facts = summary(gradient)
    return [facts.get(name, "0") for name in slots.names]


def number_texts(replay: Replay, values: Array) -> Texts:
    """Writes every number of an array; no text is empty."""
    return [replay.write(value) for value in values.ravel().tolist()]


def sign(state: TensorState, number: int) -> str:
    """Gives the sign of a tensor's state: ○ waiting, ◐ arriving, ● complete, ▶ current, ✓ done."""
    if state.status == "current":
        return f"▶ {number}"
    if state.status == "done":
        return f"✓ {number}"
    if state.status in ("arriving", "complete"):
        return f"{'◐' if state.status == 'arriving' else '●'} {state.arrived}/{state.expected}"
    return "○"


# --- labels -----------------------------------------------------------------------------------------------------------


def _label(replay: Replay, node: GraphNode, state: TensorState, slots: Slots, style: Style, number: int) -> Table:
    """Name, shape and sign of a tensor; below, its values and what is known of its gradient."""
    palette = style.palette
    name = _name(node)
    longest = max(_columns(f"◐ {state.expected}/{state.expected}"), _columns(f"▶ {len(replay)}"))
    room: dict[str, str | int] = {"align": "left", "width": _points(longest), "height": LINE}
    heading = (
        Cell(name or node.id, {"align": "left"}, bold=bool(name), size=12, limit=32, where="middle"),
        Cell(_shape(node.shape), {"align": "left"}, size=10, color=palette["quiet"]),
        Cell(sign(state, number), room, size=10, bold=True, color=palette["gradient"]),
    )
    caption = f"∂{style.loss}/∂{name}" if name else f"∂{style.loss}"
    ink, fill = ("quiet", "") if state.gradient is None else ("gradient", palette["gradient_fill"])
    texts = gradient_texts(replay, slots, state.gradient)
    blocks = (
        _block(name or node.id, _values(replay, node, palette), palette),
        _block(caption, _matrix(texts, slots, palette[ink], fill, palette), palette),
    )
    header = Cell(_plain([heading], 3), {"bgcolor": palette[f"{node.role}_fill"], "colspan": 2})
    return _plain([(header,), tuple(Cell(block, {"valign": "top"}) for block in blocks)], 2)


def _other_label(replay: Replay, node: GraphNode, style: Style) -> Table:
    """An operation as in any drawn graph, or a tensor that gets no gradient."""
    if node.kind != "tensor" or node.value is None:
        return node_label(node, style, None)
    palette = style.palette
    values = Cell(_values(replay, node, palette))
    if not node.name and not node.shape:
        return _plain([(values,)], 2)  # a number that stands for itself
    heading = [Cell(_shape(node.shape), {"align": "left"}, size=10, color=palette["quiet"])]
    if node.name:
        heading.insert(0, Cell(_name(node), {"align": "left"}, bold=True, size=12, limit=32, where="middle"))
    heading.append(Cell(NO_GRADIENT, {"align": "right"}, size=10, color=palette["quiet"]))
    header = Cell(_plain([tuple(heading)], 3), {"bgcolor": palette[f"{node.role}_fill"]})
    return _plain([(header,), (values,)], 2)


def _name(node: GraphNode) -> str:
    return node.name.removeprefix(f"{node.scope}.") if node.scope else node.name


def _shape(shape: tuple[int, ...]) -> str:
    return str(shape) if shape else ""


def _values(replay: Replay, node: GraphNode, palette: Mapping[str, str]) -> Table:
    """A tensor's values, in full or summed up."""
    values = np.zeros(0) if node.value is None else node.value
    slots = _slots(replay, [values])
    return _matrix(gradient_texts(replay, slots, values), slots, palette["ink"], "", palette)


def _block(caption: str, content: Table, palette: Mapping[str, str]) -> Table:
    return _plain([(Cell(caption, size=9, color=palette["quiet"], limit=22, where="middle"),), (Cell(content),)], 1)


def _matrix(texts: Texts, slots: Slots, ink: str, fill: str, palette: Mapping[str, str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    columns = len(slots.widths)
    for row in range(slots.rows):
        if slots.plane and row and row % slots.plane == 0:
            rows.append((Cell("", {"colspan": columns, "height": 3, "cellpadding": 0, "border": 0}),))
        name = (
            () if slots.names is None else (Cell(slots.names[row], {"align": "left"}, size=9, color=palette["quiet"]),)
        )
        numbers = zip(texts[row * columns : (row + 1) * columns], slots.widths, strict=True)
        rows.append((*name, *(_number(text, width, ink) for text, width in numbers)))
    attributes: dict[str, str | int] = {
        "border": 0,
        "cellborder": 0,
        "cellspacing": 0,
        "cellpadding": 1,
        "color": palette["rule"],
    }
    if fill:
        attributes["bgcolor"] = fill
    return Table(tuple(rows) or ((Cell(""),),), attributes)


def _number(text: str, width: int, ink: str) -> Cell:
    room: dict[str, str | int] = {
        "align": "right",
        "width": _points(width),
        "height": LINE,
        "border": 1,
        "cellpadding": 3,
    }
    return Cell(text, room, color=ink, size=10)


def _plain(rows: list[tuple[Cell, ...]], padding: int) -> Table:
    return Table(tuple(rows), {"border": 0, "cellborder": 0, "cellspacing": 0, "cellpadding": padding})


def _columns(text: str) -> int:
    """Columns that a text may take: a font that has Hangul draws ∂, − and ▶ as wide as its own letters."""
    return display_width(text) + sum(unicodedata.east_asian_width(character) == "A" for character in text)


def _points(columns: int) -> int:
    return round(columns * CHARACTER) + 8


# --- looks ------------------------------------------------------------------------------------------------------------

# status: colour, ground, width of the border, whether it is dashed
_LOOKS = {
    "waiting": ("constant", "surface", "1", True),
    "arriving": ("gradient", "surface", "1.6", True),
    "complete": ("gradient", "gradient_fill", "1.6", False),
    "current": ("output", "output_fill", "3.2", False),
    "done": ("parameter", "surface", "1.6", False),
}


def _tensor_look(node: GraphNode, status: str, style: Style) -> dict[str, str | int]:
    usual = node_attributes(node, style)
    colour, ground, width, dashed = _LOOKS[status]
    border = str(usual["style"]) + (",dashed" if dashed else "")
    own = {"color": style.palette[colour], "fillcolor": style.palette[ground], "penwidth": width, "style": border}
    return {**usual, **own}


def _other_look(node: GraphNode, status: str, style: Style) -> dict[str, str | int]:
    """Operations are grey until the sweep reaches them."""
    usual = node_attributes(node, style)
    if node.kind != "operation" or status == "done":
        return usual
    if status == "current":
        return {**usual, "color": style.palette["output"], "penwidth": "3.2"}
    return {**usual, "color": style.palette["constant"], "fillcolor": style.palette["constant_fill"]}


def _edge(edge: Edge, makers: Mapping[str, str], style: Style, *, carries: bool) -> Edge:
    """Turns the arrow round where a gradient has come back along it."""
    status = makers.get(edge.head) or makers.get(edge.tail) or ""
    if not carries or status not in ("current", "done"):
        return edge
    look = {"dir": "back", "color": style.palette["gradient"], "penwidth": "2.6" if status == "current" else "1.4"}
    return replace(edge, attributes={**edge.attributes, **look})
