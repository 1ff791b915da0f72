"""A drawn graph in words: for those who listen, and under a resting pointer."""

from __future__ import annotations

from .graph import Flow, Graph, GraphNode
from .numbers import significant
from .values import summary

__all__ = ["describe_graph", "hint"]

MOST_STEPS = 30


def describe_graph(graph: Graph, flow: Flow | None, whole: Graph | None = None) -> str:
    """Says what a graph computes, step by step, and what came out.

    Args:
        graph: what is drawn.
        flow: its gradients, if there are any.
        whole: the graph before anything was collapsed, folded or left out; None if that is `graph` itself.
    """
    by_id = graph.by_id()
    drawn, size = _contents(graph), _contents(whole or graph)
    sentences = [f"A graph of {size}." if drawn == size else f"A graph of {size}; {drawn} are drawn."]
    operands: dict[str, list[str]] = {}
    results: dict[str, str] = {}
    for edge in graph.edges:
        if edge.operand is None:
            results.setdefault(edge.tail, edge.head)
        else:
            operands.setdefault(edge.head, []).append(edge.tail)
    steps = [node for node in graph.nodes if node.kind == "operation" and node.id in results]
    for node in steps[:MOST_STEPS]:
        parts = [_phrase(by_id[tail]) for tail in operands.get(node.id, [])]
        of = f" of {' and '.join(parts)}" if parts else ""
        sentences.append(f"{node.name.capitalize()}{of} gives {_phrase(by_id[results[node.id]])}.")
    if len(steps) > MOST_STEPS:
        sentences.append(f"{len(steps) - MOST_STEPS} more operations follow.")
    if flow is not None:
        told = [
            f"{node.name}: {_facts(flow, node)}"
            for node in graph.nodes
            if node.name and node.role in ("input", "parameter") and node.id in flow.tensors
        ]
        if told:
            sentences.append(f"Gradients: {'; '.join(told[:MOST_STEPS])}.")
    return " ".join(sentences)


def _contents(graph: Graph) -> str:
    kinds = [node.kind for node in graph.nodes]
    counts = [_count(kinds.count("tensor"), "tensor"), _count(kinds.count("operation"), "operation")]
    if "module" in kinds:
        counts.append(_count(kinds.count("module"), "collapsed module"))
    return f"{', '.join(counts[:-1])} and {counts[-1]}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _phrase(node: GraphNode) -> str:
    shape = f" {node.shape}" if node.shape else ""
    if node.value is not None and node.value.size == 1 and not node.shape:
        value = significant(node.value.item())
        return f"{node.name} = {value}" if node.name else value
    return f"{node.name or 'a tensor'}{shape}"


def _facts(flow: Flow, node: GraphNode) -> str:
    gradient = flow.tensors[node.id]
    if gradient.size == 1:
        return significant(gradient.item())
    return ", ".join(f"{name} {text}".strip() for name, text in summary(gradient).items())


def hint(node: GraphNode) -> str:
    """What a resting pointer shows: all that is known of a node and does not fit into it."""
    lines = [node.name or node.role]
    if node.kind == "tensor":
        lines.append(f"{node.role}, shape {node.shape}, {node.dtype}")
    elif node.kind == "operation":
        lines.append(f"{node.role} operation")
        lines += [f"{name} = {value}" for name, value in node.options]
    elif node.kind == "module":
        lines.append(f"collapsed module of {_count(node.count, 'operation')}")
    if node.scope:
        lines.append(f"in {node.scope}")
    if node.source:
        lines.append(node.source)
    return " · ".join(lines)
