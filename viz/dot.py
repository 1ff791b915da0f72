"""Plain data to DOT text: nodes, edges, clusters and the tables inside nodes.

Building DOT needs no library and no program. The text depends on the data alone, so that it is the same, byte for byte,
in every run. Labels are HTML-like tables, never Graphviz's `record`, which reads `{`, `|` and `<` in a name as layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tinygrad_attn.errors import OptionError

from .escape import html_text, quoted

__all__ = ["Cell", "Cluster", "DotGraph", "Edge", "Node", "Table", "to_dot"]

_IDENTIFIER = re.compile(r"(?!(?i:node|edge|graph|digraph|subgraph|strict)\Z)[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Cell:
    """One cell of a table: a text, or a table inside the table.

    Args:
        content: text as the user wrote it, or a nested table.
        attributes: of the cell, such as `align`, `bgcolor`, `colspan`, `port`.
        size, color: of the text; None leaves the node's own.
        bold, italic: of the text.
        limit, where: how a long text is shortened (see `escape.shorten`).
    """

    content: str | Table
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    size: int | None = None
    color: str | None = None
    bold: bool = False
    italic: bool = False
    limit: int = 80
    where: str = "end"


@dataclass(frozen=True)
class Table:
    """Rows of cells; rows may differ in length."""

    rows: tuple[tuple[Cell, ...], ...]
    attributes: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """A node: an id that is a plain identifier, a label, and Graphviz attributes."""

    id: str
    label: str | Table
    attributes: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Edge:
    """An edge; several may join the same two nodes."""

    id: str
    tail: str
    head: str
    label: str | Table = ""
    attributes: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cluster:
    """A frame around nodes and further clusters."""

    id: str
    label: str | Table
    nodes: tuple[str, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    attributes: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class DotGraph:
    """A directed multigraph with its default attributes, ready to be written."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    node_attributes: Mapping[str, str | int] = field(default_factory=dict)
    edge_attributes: Mapping[str, str | int] = field(default_factory=dict)


def to_dot(graph: DotGraph) -> str:
    """Writes a graph in Graphviz's DOT language.

    Args:
        graph: nodes, edges and clusters; ids must be plain identifiers (letters, digits, underscores).
    Returns:
        DOT text ending in a newline.
    Raises:
        OptionError: for an id that is not an identifier, that stands twice, or that an edge or cluster names and no
            node has.
    """
    _check(graph)
    lines = ["digraph {"]
    for kind, attributes in (
        ("graph", graph.attributes),
        ("node", graph.node_attributes),
        ("edge", graph.edge_attributes),
    ):
        if attributes:
            lines.append(f"  {kind} [{_attributes(attributes)}];")
    for node in graph.nodes:
        lines.append(f"  {node.id} [{_labelled(node.id, node.label, node.attributes)}];")
    for cluster in graph.clusters:
        lines.extend(_cluster(cluster, "  "))
    for edge in graph.edges:
        lines.append(f"  {edge.tail} -> {edge.head} [{_labelled(edge.id, edge.label, edge.attributes)}];")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _cluster(cluster: Cluster, indent: str) -> Iterable[str]:
    # Depth is the nesting of modules, far from any recursion limit.
    yield f"{indent}subgraph cluster_{cluster.id} {{"
    yield f"{indent}  graph [{_labelled(cluster.id, cluster.label, cluster.attributes)}];"
    for inner in cluster.clusters:
        yield from _cluster(inner, indent + "  ")
    if cluster.nodes:
        yield f"{indent}  {'; '.join(cluster.nodes)};"
    yield f"{indent}}}"


def _labelled(identity: str, label: str | Table, attributes: Mapping[str, str | int]) -> str:
    parts = [f"id={quoted(identity)}"]
    if isinstance(label, Table):
        parts.append(f"label=<{_table(label)}>")
    else:
        parts.append(f"label={quoted(label)}")
    if attributes:
        parts.append(_attributes(attributes))
    return ", ".join(parts)


def _attributes(attributes: Mapping[str, str | int]) -> str:
    return ", ".join(f"{name}={quoted(str(value), 400)}" for name, value in attributes.items())


def _table(table: Table) -> str:
    rows = "".join(f"<TR>{''.join(map(_cell, row))}</TR>" for row in table.rows)
    return f"<TABLE{_html_attributes(table.attributes)}>{rows}</TABLE>"


def _cell(cell: Cell) -> str:
    opening = f"<TD{_html_attributes(cell.attributes)}>"
    if isinstance(cell.content, Table):
        return f"{opening}{_table(cell.content)}</TD>"
    text = html_text(cell.content, cell.limit, where=cell.where)
    if not text:  # Graphviz refuses markup around nothing.
        return f"{opening}</TD>"
    if cell.bold:
        text = f"<B>{text}</B>"
    if cell.italic:
        text = f"<I>{text}</I>"
    font = {"COLOR": cell.color, "POINT-SIZE": cell.size}
    given = {name: value for name, value in font.items() if value is not None}
    if given:
        text = f"<FONT{_html_attributes(given)}>{text}</FONT>"
    return f"{opening}{text}</TD>"


def _html_attributes(attributes: Mapping[str, str | int]) -> str:
    return "".join(f' {name.upper()}="{html_text(str(value), 400)}"' for name, value in attributes.items())


def _check(graph: DotGraph) -> None:
    names = [node.id for node in graph.nodes]
    known = set(names)
    if len(known) != len(names):
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        raise OptionError(f"dot: the node id {twice!r} stands twice; every node needs its own")
    mentioned = [*names, *(end for edge in graph.edges for end in (edge.tail, edge.head))]
    pending = list(graph.clusters)
    while pending:
        cluster = pending.pop()
        if not _IDENTIFIER.match(f"cluster_{cluster.id}"):
            raise OptionError(f"dot: expected a cluster id of letters, digits and underscores, got {cluster.id!r}")
        mentioned.extend(cluster.nodes)
        pending.extend(cluster.clusters)
    for name in mentioned:
        if not _IDENTIFIER.match(name):
            raise OptionError(
                f"dot: expected a node id of letters, digits and underscores that is no word of DOT, got {name!r}"
            )
        if name not in known:
            raise OptionError(f"dot: {name!r} is mentioned by an edge or a cluster, and no node has this id")
