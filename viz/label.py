"""What stands in a node of a drawn graph: a tensor's name, shape, values and gradient; an operation's symbol.

What a tensor is, its border, its tint and a word say alike, so that no reader depends on colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dot import Cell, Table
from .graph import GraphNode
from .numbers import NO_GRADIENT, NOT_COMPUTED
from .values import fits, matrix, summary

__all__ = ["Style", "node_attributes", "node_label"]

Attributes = dict[str, "str | int"]

_BORDERS: dict[str, Attributes] = {
    "parameter": {"shape": "box3d", "style": "filled", "penwidth": 1},
    "input": {"shape": "box", "style": "filled", "penwidth": 2},
    "constant": {"shape": "box", "style": "filled,rounded,dashed", "penwidth": 1},
    "result": {"shape": "box", "style": "filled,rounded", "penwidth": 1},
    "output": {"shape": "box", "style": "filled,rounded", "penwidth": 1, "peripheries": 2},
    "primitive": {"shape": "ellipse", "style": "filled", "penwidth": 1},
    "fused": {"shape": "octagon", "style": "filled", "penwidth": 1},
    "freed": {"shape": "ellipse", "style": "filled,dashed", "penwidth": 1},
    "module": {"shape": "component", "style": "filled", "penwidth": 1},
    "more": {"shape": "box", "style": "rounded,dotted", "penwidth": 1},
}
_COLOURS = {"primitive": "operation", "freed": "constant", "more": "constant"}


@dataclass(frozen=True)
class Style:
    """What a drawing shows in its nodes.

    Attributes:
        palette: colours by role (`theme.colours`).
        values: "auto" (small ones in full), "full", "summary" or "none".
        grads: whether gradients are shown at all.
        loss: what is differentiated, as it stands in ∂L/∂x.
        dtype: the usual dtype; only others are written.
    """

    palette: Mapping[str, str]
    values: str
    grads: bool
    loss: str
    dtype: str


def node_attributes(node: GraphNode, style: Style) -> Attributes:
    """Gives shape, border and colours for what a node is."""
    kind = node.role or node.kind
    colour = _COLOURS.get(kind, kind)
    fill = style.palette["surface"] if node.kind == "tensor" else style.palette[f"{colour}_fill"]
    if node.kind == "module":
        fill = style.palette["module_node_fill"]
    return {**_BORDERS[kind], "color": style.palette[colour], "fillcolor": fill}


def node_label(node: GraphNode, style: Style, gradient: NDArray[Any] | None) -> Table:
    """Builds the label of a node.

    Args:
        node: a node of the graph.
        style: what to show.
        gradient: ∂L/∂tensor; None where there is none or none was computed.
    """
    if node.kind == "tensor":
        return _tensor(node, style, gradient)
    return _operation(node, style)


def _plain(rows: list[tuple[Cell, ...]], padding: int = 2) -> Table:
    return Table(tuple(rows), {"border": 0, "cellborder": 0, "cellspacing": 0, "cellpadding": padding})


def _name(node: GraphNode) -> str:
    """A tensor's name without the module path that its frame says already."""
    return node.name.removeprefix(f"{node.scope}.") if node.scope else node.name


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _operation(node: GraphNode, style: Style) -> Table:
    quiet = style.palette["quiet"]
    rows: list[tuple[Cell, ...]] = []
    if node.kind == "more":
        return _plain([(Cell(node.name, color=quiet, italic=True, size=11),)])
    if node.kind == "module":
        parts = node.name.split(".")
        short = ".".join(parts[-2:]) if parts[-1][:1].isdecimal() else parts[-1]
        rows.append((Cell(short, bold=True, size=12, limit=40, where="middle"),))
        rows.append((Cell(f"{node.count:,} operation{'s' if node.count != 1 else ''}", color=quiet, size=9),))
        return _plain(rows)
    symbolic = bool(node.symbol) and node.symbol != node.name
    if symbolic:
        rows.append((Cell(node.symbol, bold=True, size=15, limit=24),))
    name = Cell(node.name, color=quiet, size=9, limit=30) if symbolic else Cell(node.name, bold=True, size=12, limit=30)
    rows.append((name,))
    for option, value in node.options:
        rows.append((Cell(f"{option}={value}", color=quiet, size=9, limit=30),))
    if node.role == "freed":
        rows.append((Cell("graph freed behind here", color=quiet, size=9, italic=True),))
    return _plain(rows, padding=0)


def _tensor(node: GraphNode, style: Style, gradient: NDArray[Any] | None) -> Table:
    palette = style.palette
    tint = palette[f"{node.role}_fill"]
    shape = _shape(node.shape) if node.shape else ""
    dtype = node.dtype if node.dtype not in (style.dtype, "int", "float", "bool") else ""
    facts = " ".join(part for part in (shape, dtype) if part)
    word = node.role if node.role != "result" else ""
    if node.role == "constant" and not node.name and not node.shape:
        word = ""  # a number says what it is
    heading = [Cell(_name(node), {"align": "left"}, bold=True, size=12, limit=32, where="middle")] if node.name else []
    if facts:
        heading.append(Cell(facts, {"align": "left"}, size=10, color=palette["quiet"]))
    if word:
        heading.append(Cell(word, {"align": "right"}, size=9, italic=True, color=palette["quiet"]))
    rows: list[tuple[Cell, ...]] = []
    if heading:
        inner = Table((tuple(heading),), {"border": 0, "cellborder": 0, "cellspacing": 0, "cellpadding": 3})
        rows.append((Cell(inner, {"bgcolor": tint, "colspan": 2}),))
    blocks = [block for block in (_values(node, style), _gradient(node, style, gradient)) if block is not None]
    if blocks:
        spread = 2 if len(blocks) == 1 else 1
        rows.append(tuple(Cell(block, {"colspan": spread, "valign": "top"}) for block in blocks))
    if not rows:
        rows.append((Cell("()", size=10, color=palette["quiet"]),))
    return _plain(rows, padding=2)


def _values(node: GraphNode, style: Style) -> Table | None:
    bare = node.role == "constant" and not node.shape and not node.name  # a number that stands for itself
    if node.value is None or (style.values == "none" and not bare):
        return None
    palette = style.palette
    return _array(node.value, style, "" if bare else "value", palette["ink"], "")


def _gradient(node: GraphNode, style: Style, gradient: NDArray[Any] | None) -> Table | None:
    if not style.grads or (node.role == "constant" and not node.shape and not node.name):
        return None
    palette = style.palette
    caption = f"∂{style.loss}/∂{_name(node)}" if node.name else f"∂{style.loss}"
    if gradient is None:
        sign = NOT_COMPUTED if node.requires_grad else NO_GRADIENT
        cell = Cell(sign, color=palette["gradient"] if node.requires_grad else palette["quiet"], size=10)
        return _plain([(Cell(caption, size=9, color=palette["quiet"], limit=22, where="middle"),), (cell,)], padding=1)
    return _array(gradient, style, caption, palette["gradient"], palette["gradient_fill"])


def _array(values: NDArray[Any], style: Style, caption: str, ink: str, fill: str) -> Table:
    palette = style.palette
    rows: list[tuple[Cell, ...]] = []
    if caption:
        rows.append((Cell(caption, size=9, color=palette["quiet"], limit=22, where="middle"),))
    in_full = fits(values.shape) if style.values != "summary" else values.size == 1
    if style.values == "full" and values.size <= 400 and values.ndim <= 3:
        in_full = values.size > 0
    if in_full:
        rows.append((Cell(matrix(values, ink=ink, rule=palette["rule"], fill=fill)),))
    else:
        facts = summary(np.asarray(values)).items()
        lines = tuple(
            (
                Cell(name, {"align": "left"}, size=9, color=palette["quiet"]),
                Cell(text, {"align": "right"}, size=10, color=ink),
            )
            for name, text in facts
        )
        attributes: Attributes = {"border": 0, "cellborder": 0, "cellspacing": 0, "cellpadding": 1}
        if fill:
            attributes["bgcolor"] = fill
        rows.append((Cell(Table(lines, attributes)),))
    return _plain(rows, padding=1)
