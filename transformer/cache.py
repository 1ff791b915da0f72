"""What the decoder loop keeps between steps: the keys and values of tokens that were read before.

Without it, step n computes the keys and values of all n tokens again. They do not change, since no token looks into
the future; only the new token's are missing. A cache holds plain values and no gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_attn.errors import DtypeError, GradientError, IndexRangeError, OptionError, ShapeError
from tinygrad_attn.nn.layers import check_size

Array = NDArray[Any]


class KeyValueCache:
    """Keys and values of one attention, (batch, heads, length, d_head), which grow at the end."""

    def __init__(self) -> None:
        self.length = 0
        self._key: Array | None = None  # (batch, heads, capacity, d_head); capacity grows by doubling
        self._value: Array | None = None

    @property
    def key(self) -> Array:
        """(batch, heads, length, d_head)."""
        return self._held(self._key)

    @property
    def value(self) -> Array:
        """(batch, heads, length, d_head)."""
        return self._held(self._value)

    def append(self, key: Any, value: Any) -> tuple[Array, Array]:
        """Add the keys and values of new tokens; returns those of all tokens so far, the new ones included.

        Args:
            key, value: (batch, heads, new, d_head).
        Returns:
            Two arrays (batch, heads, length, d_head).
        Raises:
            GradientError: the new ones carry a gradient, which would end here unnoticed.
            ShapeError: they belong to another batch or to other heads, or are not one value per key.
        """
        if getattr(key, "requires_grad", False) or getattr(value, "requires_grad", False):
            raise GradientError(
                "a cache keeps values without gradient, and these carry one\n"
                "  decode under no_grad(); for training, pass the whole sequence at once and no cache"
            )
        if key.shape[:-1] != value.shape[:-1]:
            raise ShapeError(
                f"the cache takes one value per key\n    key    {key.shape}\n    value  {value.shape}\n"
                "  expected (batch, heads, new, d_head) for both"
            )
        start, self.length = self.length, self.length + key.shape[-2]
        try:
            self._key = _put(self._key, np.asarray(key), start)
            self._value = _put(self._value, np.asarray(value), start)
        except ShapeError:
            self.length = start
            raise
        return self.key, self.value

    def select(self, rows: ArrayLike) -> None:
        """Keep these rows of the batch, in this order; a row may be taken more than once.

        Args:
            rows: (new batch,), integers.
        Raises:
            DtypeError, ShapeError, IndexRangeError: anything else, or a row that does not exist.
        """
        if self._key is not None and self._value is not None:
            chosen = _rows(rows, len(self._key))
            self._key, self._value = self.key[chosen], self.value[chosen]

    def reset(self) -> None:
        """Forget everything."""
        self.length, self._key, self._value = 0, None, None

    def _held(self, stored: Array | None) -> Array:
        if stored is None:
            raise OptionError("the cache is empty\n  append keys and values first")
        return stored[..., : self.length, :]


class LayerCache:
    """The two caches of a decoder layer.

    Attributes:
        self_attention: keys and values of the tokens said so far; one more with every step.
        cross_attention: keys and values of the memory; computed in the first step and kept. Empty in a decoder-only
            model.
    """

    def __init__(self) -> None:
        self.self_attention = KeyValueCache()
        self.cross_attention = KeyValueCache()


class DecoderCache:
    """The caches of all layers of a decoder.

    Args:
        num_layers: how many layers the decoder has.
    """

    def __init__(self, num_layers: int) -> None:
        check_size("DecoderCache", num_layers=num_layers)
        self.layers = tuple(LayerCache() for _ in range(num_layers))

    @property
    def length(self) -> int:
        """How many target tokens it holds; the next one has this position.

        Raises:
            OptionError: a step was interrupted halfway, and some layers hold its tokens.
        """
        lengths = [layer.self_attention.length for layer in self.layers]
        if min(lengths) != max(lengths):
            raise OptionError(
                f"the cache was left in the middle of a step: its layers hold {lengths} tokens\n"
                "  call reset() and read the tokens again"
            )
        return lengths[0]

    def select(self, rows: ArrayLike) -> None:
        """Keep these rows of the batch, in this order: beam search follows its survivors with it.

        What a row has said and what it reads go together, so the memory's keys and values move along.
        """
        for layer in self.layers:
            layer.self_attention.select(rows)
            layer.cross_attention.select(rows)

    def reset(self) -> None:
        """Forget everything, also the memory: ready for another sentence."""
        for layer in self.layers:
            layer.self_attention.reset()
            layer.cross_attention.reset()


def _rows(rows: ArrayLike, batch: int) -> Array:
    chosen = np.asarray(rows)
    if chosen.ndim != 1:
        raise ShapeError(f"the rows to keep must be (new batch,)\n  given shape {chosen.shape}")
    if chosen.size and chosen.dtype.kind not in "iu":
        raise DtypeError(f"the rows to keep are numbers of rows, integers\n  given {chosen.dtype}")
    if chosen.size and not 0 <= chosen.min() <= chosen.max() < batch:
        raise IndexRangeError(f"the rows to keep must lie in [0, {batch})\n  given {chosen.tolist()}")
    return chosen.astype(np.intp)


def _put(stored: Array | None, new: Array, start: int) -> Array:
    """`new` written behind position `start`, in larger memory if there is no room."""
    length = start + new.shape[-2]
    if stored is None:
        return np.array(new)
    if (stored.shape[:-2], stored.shape[-1]) != (new.shape[:-2], new.shape[-1]):
        raise ShapeError(
            f"the cache belongs to another batch or other heads\n"
            f"    kept  {(*stored.shape[:-2], start, stored.shape[-1])}\n    new   {new.shape}\n"
            "  call reset() before another batch"
        )
    dtype = np.result_type(stored, new)
    if length > stored.shape[-2] or dtype != stored.dtype:
        room = np.empty((*stored.shape[:-2], max(length, 2 * start), stored.shape[-1]), dtype)
        room[..., :start, :] = stored[..., :start, :]
        stored = room
    stored[..., start:length, :] = new
    return stored
