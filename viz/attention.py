"""Attention maps: which query looks at which key, checked before it is drawn and said in words beside the picture.

This file knows what an attention map means; `attention_plot.py` knows how it looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import DtypeError, MaskError, NotFiniteError, OptionError, ShapeError

from .attention_plot import draw_map
from .numbers import significant
from .plot import PlotFigure

__all__ = ["AttentionMap", "attention_map"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class AttentionMap:
    """A checked attention map, as plain data.

    Args:
        weights: (heads, queries, keys), rows sum to 1, or to 0 where nothing may be attended.
        queries, keys: the tokens, in order, repeated tokens included.
        heads: the heads' names; one empty name if there is one head.
        hidden: why a cell may not be attended ("causal", "padding", "masked", or a caller's own word) to a boolean
            array (heads, queries, keys) that is True there.
        gradient: (heads, queries, keys) or None.
    """

    weights: Floats
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    heads: tuple[str, ...]
    hidden: Mapping[str, Booleans]
    gradient: Floats | None


def attention_map(
    weights: Any,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    *,
    mask: Any = None,
    grad: Any = None,
    heads: Sequence[str] | None = None,
    title: str = "Attention",
    query_title: str = "query: looks",
    key_title: str = "key: is looked at",
    numbers: bool | None = None,
    theme: str = "auto",
) -> PlotFigure:
    """Draws attention weights: one row per query, one column per key, one panel per head.

    Args:
        weights: Tensor or array, (queries, keys), (heads, queries, keys) or (1, heads, queries, keys), after softmax.
        queries: the query tokens; each has its own row, even where a word occurs twice.
        keys: the key tokens; None means self-attention, where the keys are the queries.
        mask: boolean, True = may attend, broadcastable to the weights; hidden cells are hatched by reason: a column
            that no query may see is padding, a hidden upper right triangle is causal, the rest just masked. Or a
            mapping from a reason to such a mask, where you know better.
        grad: ∂L/∂weights, same shape as `weights`; drawn beside them, on a scale that is symmetric around 0.
        heads: names of the heads; None numbers them from 1.
        title: stands above the picture.
        query_title, key_title: name the two axes.
        numbers: write the numbers into the cells; None does so while they stay readable.
        theme: "auto", "light" or "dark".
    Returns:
        A figure; drawing it needs Matplotlib (the extra `plot`).
    Raises:
        ShapeError: weights, tokens, mask and gradient do not fit one another, or the batch is not 1.
        MaskError: the mask is not boolean, or forbids what the weights do.
        OptionError: a row sums neither to 1 nor, where nothing may be attended, to 0.
        NotFiniteError: a weight is NaN or infinite.
        MissingExtraError: Matplotlib is not installed.
    """
    values, heads_axis = _three_axes("weights", weights)
    query_tokens, key_tokens = _tokens(values, queries, keys)
    hidden = _hidden(mask, values.shape)
    _check_weights(values, query_tokens, key_tokens, None if mask is None else hidden)
    gradient = None
    if grad is not None:
        gradient, _ = _three_axes("grad", grad)
        if gradient.shape != values.shape:
            raise ShapeError(f"grad: expected the shape of weights, {values.shape}, got {gradient.shape}")
    data = AttentionMap(values, query_tokens, key_tokens, _heads(values.shape[0], heads, heads_axis), hidden, gradient)
    alt = describe(data, title)
    return draw_map(
        data, title=title, alt=alt, query_title=query_title, key_title=key_title, numbers=numbers, theme=theme
    )


def _three_axes(name: str, given: Any) -> tuple[Floats, bool]:
    array = np.asarray(given)
    if array.dtype.kind not in "fiu":
        raise DtypeError(f"{name}: expected real numbers, got dtype {array.dtype}")
    if array.ndim == 4:
        if array.shape[0] != 1:
            raise ShapeError(
                f"{name}: the batch axis has size {array.shape[0]}, and a map shows one sequence, in {name} "
                f"{array.shape} = (batch, heads, queries, keys)\n  choose one, such as {name}[0]"
            )
        array = array[0]
    if array.ndim not in (2, 3):
        raise ShapeError(
            f"{name}: expected (queries, keys), (heads, queries, keys) or (1, heads, queries, keys), got {array.shape}"
        )
    if array.size == 0:
        raise ShapeError(f"{name}: nothing to draw, the shape is {array.shape}")
    return np.array(array, dtype=np.float64, ndmin=3), array.ndim == 3


def _tokens(
    values: Floats, queries: Sequence[str], keys: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    num_queries, num_keys = values.shape[1:]
    rows = tuple(str(token) for token in queries)
    columns = rows if keys is None else tuple(str(token) for token in keys)
    if len(rows) == num_queries and len(columns) == num_keys:
        return rows, columns
    message = f"weights {values.shape} = (heads, queries, keys) have {num_queries} rows and {num_keys} columns; got "
    message += f"{len(rows)} queries and {len(columns)} keys"
    if (len(rows), len(columns)) == (num_keys, num_queries):
        message += (
            "\n  queries and keys are the wrong way round: in cross-attention the decoder's tokens are the queries"
        )
    elif keys is None and len(rows) == num_queries:
        message += "\n  without keys= the keys are the queries; cross-attention needs keys="
    raise ShapeError(message)


def _heads(count: int, names: Sequence[str] | None, heads_axis: bool) -> tuple[str, ...]:
    if names is None:
        return tuple(f"head {number}" for number in range(1, count + 1)) if heads_axis and count > 1 else ("",) * count
    if len(names) != count:
        raise ShapeError(f"heads: expected {count} names, one for every head, got {len(names)}")
    return tuple(map(str, names))


def _hidden(mask: Any, shape: tuple[int, ...]) -> dict[str, Booleans]:
    if mask is None:
        return {}
    if isinstance(mask, Mapping):
        parts = {str(reason): ~_boolean(part, shape) for reason, part in mask.items()}
        return {reason: part for reason, part in parts.items() if np.any(part)}
    hidden = ~_boolean(mask, shape)
    num_queries, num_keys = shape[1:]
    padding = np.broadcast_to(np.all(hidden, axis=1, keepdims=True), shape)
    rows, columns = np.arange(num_queries)[:, None], np.arange(num_keys)
    rest = hidden & ~padding
    causal = np.zeros(shape, dtype=bool)
    for shift in (num_keys - num_queries, 0):  # aligned at the lower right corner, or at the upper left
        future = np.broadcast_to(columns > rows + shift, shape)
        if np.all(hidden | ~future) and np.any(rest & future):
            causal = rest & future
            break
    parts = {"causal": causal, "padding": padding & hidden, "masked": rest & ~causal}
    return {reason: part for reason, part in parts.items() if np.any(part)}


def _boolean(mask: Any, shape: tuple[int, ...]) -> Booleans:
    array = np.asarray(mask)
    if array.dtype != np.bool_:
        raise MaskError(
            f"mask: expected booleans, True = may attend, got dtype {array.dtype}\n"
            "  write `mask != 0`, or `mask == 0` if 0 means may attend"
        )
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    try:
        return np.array(np.broadcast_to(array, shape))
    except ValueError:
        raise MaskError(f"mask: {array.shape} does not broadcast to {shape} = (heads, queries, keys)") from None


def _check_weights(
    values: Floats, queries: tuple[str, ...], keys: tuple[str, ...], hidden: Mapping[str, Booleans] | None
) -> None:
    def place(head: int, row: int, column: int | None = None) -> str:
        where = f"head {head + 1}, query {row} ({queries[row]!r})"
        return where if column is None else f"{where}, key {column} ({keys[column]!r})"

    for fault, what in ((~np.isfinite(values), "is not finite"), (values < 0, "is negative")):
        if np.any(fault):
            head, row, column = (int(i) for i in np.argwhere(fault)[0])
            message = f"weights: the weight at {place(head, row, column)} {what}: {values[head, row, column]}"
            raise (NotFiniteError if what == "is not finite" else OptionError)(
                message + "\n  attention weights are what softmax gives; were these scores, or a gradient?"
            )
    tolerance = 5e-3  # float16 rows miss 1 by this much; every real mistake misses it by more
    sums = values.sum(axis=2)
    barred = np.logical_or.reduce([np.zeros(values.shape, dtype=bool), *(hidden or {}).values()])
    empty = np.ones(sums.shape, dtype=bool) if hidden is None else np.all(barred, axis=2)
    wrong = ~(np.abs(sums - 1) <= tolerance) & ~(empty & (sums == 0))
    if np.any(wrong):
        head, row = (int(i) for i in np.argwhere(wrong)[0])
        message = f"weights: the row of {place(head, row)} sums to {sums[head, row]:.6g}; expected 1"
        message += ", or 0 where nothing may be attended"
        if np.allclose(values.sum(axis=1), 1, atol=tolerance):
            message += "\n  every column sums to 1: softmax ran over the queries, or the array is transposed"
        else:
            message += "\n  were these scores before softmax, weights after dropout, or masked after softmax?"
        raise OptionError(message)
    leak = barred & (values > tolerance)
    if np.any(leak):
        head, row, column = (int(i) for i in np.argwhere(leak)[0])
        raise MaskError(
            f"mask: {place(head, row, column)} has weight {values[head, row, column]:.3g}, and the mask forbids it"
            "\n  True means may attend: is the mask inverted, or from another layer?"
        )


MOST_ROWS_IN_WORDS = 24


def describe(data: AttentionMap, title: str) -> str:
    """Says in words what a map shows: where each query looks most, what is hidden, where the gradient peaks."""
    num_heads, num_queries, num_keys = data.weights.shape
    heads = f"{num_heads} heads, " if num_heads > 1 else ""
    sentences = [f"{title}: {heads}{num_queries} queries in rows, {num_keys} keys in columns."]
    rows_left = MOST_ROWS_IN_WORDS
    for head in range(num_heads):
        shown = min(num_queries, rows_left)
        rows_left -= shown
        looks = [_look(data, head, row) for row in range(shown)]
        if looks:
            name = f"{data.heads[head]}: " if data.heads[head] else ""
            sentences.append(f"{name}{'; '.join(looks)}.")
    left_out = num_heads * num_queries - MOST_ROWS_IN_WORDS
    if left_out > 0:
        sentences.append(f"{left_out} more rows are left out of these words.")
    for reason, part in data.hidden.items():
        sentences.append(_hidden_in_words(reason, int(np.count_nonzero(part[0])), num_queries * num_keys))
    if data.gradient is not None:
        sentences.append(_gradient_in_words(data))
    return " ".join(sentences)


def _name(tokens: tuple[str, ...], position: int) -> str:
    token = f"“{tokens[position]}”"
    return f"{token} at {position + 1}" if tokens.count(tokens[position]) > 1 else token


def _look(data: AttentionMap, head: int, row: int) -> str:
    weights = data.weights[head, row]
    query = _name(data.queries, row)
    if not np.any(weights):
        return f"{query} may look at nothing"
    first, *others = np.argsort(-weights, kind="stable")
    seen = weights[weights > 0]
    if seen.size > 1 and np.allclose(seen, seen[0], rtol=1e-3):
        return f"{query} looks equally at {seen.size} keys"
    words = f"{query} looks most at {_name(data.keys, int(first))} ({significant(weights[first], 2)})"
    if others and weights[others[0]] >= 0.2:
        words += f", then {_name(data.keys, int(others[0]))} ({significant(weights[others[0]], 2)})"
    return words


def _hidden_in_words(reason: str, cells: int, all_cells: int) -> str:
    meaning = {
        "causal": "a causal mask hides later keys",
        "padding": "padding is hidden from every query",
        "masked": "a mask hides keys",
    }.get(reason, f"{reason} hides keys")
    return f"{meaning[0].upper()}{meaning[1:]} ({cells} of {all_cells} cells)."


def _gradient_in_words(data: AttentionMap) -> str:
    gradient = data.gradient
    if gradient is None or not np.any(gradient):
        return "The gradient of the loss with respect to every weight is 0."
    magnitude = np.where(np.isfinite(gradient), np.abs(gradient), np.inf)
    head, row, column = (int(i) for i in np.unravel_index(int(np.argmax(magnitude)), gradient.shape))
    name = f"{data.heads[head]}, " if data.heads[head] else ""
    return (
        f"The gradient of the loss is largest in size at {name}query {_name(data.queries, row)}, "
        f"key {_name(data.keys, column)}: {significant(gradient[head, row, column])}."
    )
