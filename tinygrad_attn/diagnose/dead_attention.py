"""Why an element of a query, key, value or bias has no influence on what attention answers, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.diagnose.dead_element import SMALLER, Words
from tinygrad_attn.ops.attention import attention_weights


def explain_attention(
    parameter: str, place: tuple[int, ...], operands: tuple[Any, ...], options: dict[str, Any]
) -> Words | None:
    """Why the derivative by one element is zero; None where neither mask nor weights tell.

    Args:
        parameter: "query", "key", "value" or "bias".
        place: index of the element.
        operands: query, key, value, mask, bias and keep, as the operation got them.
        options: its options.
    """
    seen = _Seen(parameter, place, operands, options)
    if parameter == "query":
        return seen.as_query(place[-2], place[-1])
    if parameter == "bias":
        return seen.as_bias()
    return seen.as_key(parameter, place[-2], place[-1])


class _Seen:
    """The part of the mask and of the weights that one element has to do with, for all batches and heads it serves.

    Attributes:
        visible, weights: (copies, queries, keys); of these, one axis has length 1 if the element is one of a kind.
    """

    def __init__(
        self, parameter: str, place: tuple[int, ...], operands: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        query, key, value, mask, bias, keep = operands
        shift = options.get("causal_shift")
        if shift is not None:
            past = np.tri(query.shape[-2], key.shape[-2], shift, dtype=bool)
            mask = past if mask is None else mask & past
        weights = np.asarray(attention_weights(query, key, mask, bias, scale=options["scale"]))
        lead = np.broadcast_shapes(weights.shape[:-2], value.shape[:-2])
        shape = (*lead, *weights.shape[-2:])
        own = operands[("query", "key", "value", "mask", "bias").index(parameter)]
        at = _leading(place[:-2], own.shape[:-2], len(lead))
        if parameter == "bias":
            rows, columns = (_one(i, n) for i, n in zip((0, *place)[-2:], (1, *own.shape)[-2:], strict=True))
        else:
            chosen = slice(place[-2], place[-2] + 1)
            rows, columns = (chosen, slice(None)) if parameter == "query" else (slice(None), chosen)
        self.visible = self._cut(True if mask is None else mask, shape, at, rows, columns)
        self.all_visible = self._cut(True if mask is None else mask, shape, at, rows, slice(None))
        self.weights = self._cut(weights, shape, at, rows, columns)
        self.kept = self._cut(weights if keep is None else weights * keep, shape, at, rows, columns)
        self.queries = self._cut(query, (*lead, *query.shape[-2:]), at, rows, slice(None))
        self.keys = self._cut(key, (*lead, *key.shape[-2:]), at, slice(None), slice(None))
        self.values = self._cut(value, (*lead, *value.shape[-2:]), at, slice(None), slice(None))
        self.key_number = columns.start

    @staticmethod
    def _cut(array: Any, shape: tuple[int, ...], at: tuple[Any, ...], rows: slice, columns: slice) -> Any:
        part = np.broadcast_to(array, shape)[(*at, rows, columns)]
        return part.reshape(-1, *part.shape[-2:])

    def as_query(self, row: int, component: int) -> Words | None:
        """Why nothing depends on a component of query `row`."""
        if not self.visible.any():
            return Words("masked", f"query {row} may look at no key: its row of the mask is False throughout")
        if (self.visible.sum(axis=-1) <= 1).all():
            return Words("constant", f"query {row} may look at one key only, whose weight is 1 whatever the score is")
        if (self.weights.max(axis=-1) == 1.0).all():
            return Words("saturated", f"one weight of query {row} is 1 and the others round to 0 beside it", SMALLER)
        column = np.where(self.visible, self.keys[:, None, :, component], np.nan)  # (copies, 1, keys)
        if _same(column):
            zero = "0" if np.nanmax(np.abs(column)) == 0.0 else "the same"
            return Words("times zero", f"component {component} is {zero} in every key that query {row} may look at")
        return self._equal_values()

    def as_key(self, parameter: str, row: int, component: int) -> Words | None:
        """Why nothing depends on a component of key or value `row`."""
        if not self.visible.any():
            return Words(
                "masked", f"no query may look at {parameter} {row}: its column of the mask is False throughout"
            )
        if not self.weights.any():
            return Words("saturated", f"every weight on {parameter} {row} rounds to 0", SMALLER)
        if parameter == "value":
            dropped = f"dropout has dropped every weight on value {row} in this pass"
            return None if self.kept.any() else Words("dropped", dropped)
        looking = self.visible & (self.weights > 0.0)  # (copies, queries, 1)
        alone = self.all_visible.sum(axis=-1, keepdims=True) <= 1
        if alone[self.visible].all():
            return Words("constant", f"whoever may look at key {row} may look at no other: its weight is always 1")
        if (self.weights[looking & ~alone] == 1.0).all():
            return Words("saturated", f"every weight on key {row} is 1 or rounds to 0", SMALLER)
        if not self.queries[..., component : component + 1][looking].any():
            return Words("times zero", f"component {component} is 0 in every query that looks at key {row}")
        return self._equal_values()

    def as_bias(self) -> Words | None:
        """Why nothing depends on an element of the bias."""
        if not self.visible.any():
            return Words("masked", "the mask is False there: that query may not look at that key")
        if not self.weights.any():
            return Words("saturated", "the weight there rounds to 0", SMALLER)
        alone = self.all_visible.sum(axis=-1, keepdims=True) <= 1
        if (alone | ~self.visible).all():
            return Words("constant", "that query may look at one key only, whose weight is 1 whatever the score is")
        return self._equal_values()

    def _equal_values(self) -> Words | None:
        used = self.all_visible.any(axis=-2)[..., None]  # (copies, keys, 1)
        if _same(np.where(used, self.values, np.nan).swapaxes(-1, -2)):
            return Words("constant", "all values are the same, so that it does not matter where one looks")
        return None


def _leading(place: tuple[int, ...], shape: tuple[int, ...], axes: int) -> tuple[Any, ...]:
    """Where an element stands on the leading axes; everywhere, where it is broadcast."""
    return (slice(None),) * (axes - len(shape)) + tuple(_one(i, n) for i, n in zip(place, shape, strict=True))


def _one(index: int, length: int) -> slice:
    """The slice of one index; all of an axis that is broadcast."""
    return slice(None) if length == 1 else slice(index, index + 1)


def _same(numbers: Any) -> bool:
    """Whether all numbers along the last axis are equal, NaN left out."""
    low, high = np.where(np.isnan(numbers), np.inf, numbers), np.where(np.isnan(numbers), -np.inf, numbers)
    return bool((low.min(axis=-1) >= high.max(axis=-1)).all())
