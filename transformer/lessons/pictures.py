"""The pictures of the lessons, drawn by `viz`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformer.lessons.attention_head import EXAMPLES, AttentionHead, pencil
from viz import Figure, GraphFigure, Replay, attention_map, draw_graph, replay


def attention_head_picture(name: str, head: AttentionHead | None = None) -> GraphFigure:
    """The computation graph of one of the example heads, with values, gradients, and the rule on every edge.

    Args:
        name: a key of `EXAMPLES`.
        head: the example as it ran; run now if None.
    """
    head = EXAMPLES[name].run() if head is None else head
    return draw_graph(
        head.loss,
        values="full",
        grads=True,
        local_derivatives=True,
        direction="TB",  # fits a page, and a phone
        title=f"One attention head with its gradients: {EXAMPLES[name].summary}",
    )


def attention_head_replay(name: str) -> Replay:
    """The backward pass through one of the example heads, step by step, with its numbers as fractions.

    Args:
        name: a key of `EXAMPLES`.
    """
    return replay(EXAMPLES[name].run().loss, number=pencil)


def cross_attention_picture(
    weights: Any,
    target: Sequence[str],
    source: Sequence[str],
    *,
    title: str,
    query_title: str = "decoder: says",
    key_title: str = "source (encoder's z): is looked at",
) -> Figure:
    """Where every decoder step looks in the source.

    Args:
        weights: (steps, source_len), or (heads, steps, source_len).
        target: what each step says.
        source: the source's tokens.
        title: says which layer and heads these are.
        query_title, key_title: name the two axes.
    """
    return attention_map(weights, target, source, title=title, query_title=query_title, key_title=key_title)
