"""Where the heads of a published model look: in words, and as a map."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tinygrad_attn as ta
from tinygrad_attn.errors import OptionError
from transformer.bert import BertEncoder
from transformer.lessons.terminal import table
from transformer.pretrained import Pretrained
from viz import Figure, attention_map
from viz.numbers import share

Weights = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Reading:
    """A text that a model has read.

    Args:
        name: the model's.
        tokens: what the text was cut into.
        weights: (layers, heads, length, length), who looked where.
        causal: whether no token sees later ones.
    """

    name: str
    tokens: Sequence[str]
    weights: Weights
    causal: bool


def read(known: Pretrained[Any], text: str) -> Reading:
    """Lets a published model read a text once."""
    ids = known.tokenizer.encode(text)
    if not ids or not text.strip():
        raise OptionError("the text is empty: there is nothing to look at")
    with ta.no_grad():
        _, by_layer = known.model([ids], return_weights=True)
    weights = np.stack([layer.numpy()[0] for layer in by_layer])  # (layers, heads, length, length)
    return Reading(known.name, known.tokenizer.tokens_of(ids), weights, not isinstance(known.model, BertEncoder))


def heads_picture(reading: Reading, layer: int, head: int | None) -> Figure:
    """The heads of one layer, or one of them, as maps.

    Args:
        reading: from `read`.
        layer, head: counted from 1; all heads if None.
    """
    layers, heads, length, _ = reading.weights.shape
    shown = "all its heads" if head is None else f"head {head} of {heads}"
    weights = reading.weights[layer - 1] if head is None else reading.weights[layer - 1, head - 1]
    mask = np.tri(length, dtype=bool) if reading.causal else None
    title = f"{reading.name}: layer {layer} of {layers}, {shown}"
    return attention_map(weights, reading.tokens, reading.tokens, mask=mask, title=title)


def where_it_looks(reading: Reading, word: str) -> str:
    """Per layer what a word looks at: in the mean over the heads, and in the head that is most sure of one other word.

    Raises:
        OptionError: the text has no such token.
    """
    tokens = reading.tokens
    bare = [token.removeprefix("##").removeprefix("Ġ").lower() for token in tokens]
    if word.lower() not in bare:
        read_as = textwrap.shorten(" ".join(tokens), 200, placeholder=" …")
        raise OptionError(f"--word {word!r} is no token of the text: it is read as {read_as}")
    query = bare.index(word.lower())
    marks = {place for place, token in enumerate(tokens) if token.startswith("[") and token.endswith("]")}
    others = [place for place in range(len(tokens)) if place not in marks and place != query]
    rows = []
    for number, heads in enumerate(reading.weights[:, :, query], start=1):  # (heads, length)
        mean = heads.mean(axis=0)  # (length,)
        most = "  ".join(_weight(tokens[place], mean[place]) for place in np.argsort(-mean, kind="stable")[:4].tolist())
        rows.append([str(number), most, _surest(heads, tokens, others)])
    layers, heads_each = reading.weights.shape[:2]
    several = f", the first of {bare.count(word.lower())}," if bare.count(word.lower()) > 1 else ""
    return (
        f"{tokens[query]!r}{several} looks at\n"
        + table(["layer", "mean over its heads", "its surest head"], rows, right=[0])
        + f"\n\nOf {layers * heads_each} heads, some look at any word one likes: a head that was picked after\n"
        "looking proves nothing, and a weight is not yet an influence."
    )


def _weight(token: str, weight: Any) -> str:
    return f"{token} {share(float(weight))}"


def _surest(heads: Weights, tokens: Sequence[str], others: Sequence[int]) -> str:
    """The head that looks most at one of the other words, with that word; "" if there is no other."""
    if not others:
        return ""
    head, place = divmod(int(np.argmax(heads[:, others])), len(others))
    return f"{head + 1}: {_weight(tokens[others[place]], heads[head, others[place]])}"
