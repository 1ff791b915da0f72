"""Masks for whole sequences of tokens: which are real, which may look at which. True = may attend.

The convention itself and its two basic masks live in `tinygrad_attn.masks`; they are named here as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_attn.errors import MaskError, OptionError
from tinygrad_attn.masks import Align, causal_mask, check_mask, padding_mask

__all__ = [
    "Align",
    "causal_mask",
    "check_mask",
    "first_real_position",
    "padding_mask",
    "real_tokens",
    "target_mask",
    "token_mask",
]

Mask = NDArray[np.bool_]


def real_tokens(ids: ArrayLike, pad_id: int) -> Mask:
    """Which tokens of a padded batch are real, (batch, length) -> (batch, 1, 1, length).

    >>> real_tokens([[5, 6, 0], [7, 0, 0]], pad_id=0)[:, 0, 0]
    array([[ True,  True, False],
           [ True, False, False]])
    """
    return np.asarray(np.asarray(ids)[:, None, None, :] != pad_id)


def target_mask(ids: ArrayLike, pad_id: int) -> Mask:
    """Who may look at whom in a decoder: nobody into the future, nobody at padding.

    Args:
        ids: (batch, length), what the decoder reads.
        pad_id: the id of padding.
    Returns:
        (batch, 1, length, length).

    >>> target_mask([[1, 5, 0]], pad_id=0)[0, 0]
    array([[ True, False, False],
           [ True,  True, False],
           [ True,  True, False]])
    """
    return causal_mask(np.shape(ids)[-1]) & real_tokens(ids, pad_id)


def token_mask(name: str, tokens: tuple[int, ...], mask: Any = None, lengths: ArrayLike | None = None) -> Mask | None:
    """One way to say which tokens are real, from the several that callers may use.

    Args:
        name: what the mask is called in errors.
        tokens: (batch, length), the shape of the tokens.
        mask: boolean, (batch, length) or (batch, 1, 1, length), True = real; or None.
        lengths: (batch,), real tokens of rows that are padded on the right; or None. Not both.
    Returns:
        (batch, 1, 1, length), which broadcasts over heads and queries; None if every token is real.
    Raises:
        MaskError: another dtype or shape.
        OptionError: both were given, or a length is not in [1, length].
    """
    batch, length = tokens
    if lengths is not None:
        if mask is not None:
            raise OptionError(f"{name}: give the mask or the lengths\n  given both; they might contradict each other")
        counted = np.asarray(lengths)
        if counted.shape != (batch,):
            raise OptionError(f"{name}: one length per row\n  expected shape ({batch},), given {counted.shape}")
        if counted.size and counted.min() < 1:
            raise OptionError(
                f"{name}: empty sequence: row {int(np.argmin(counted))} has length {counted.min()}\n"
                "  a model needs at least one token to look at; leave the row out"
            )
        return padding_mask(counted, length)
    if mask is None:
        return None
    real = np.asarray(mask)
    if real.dtype != bool:
        raise MaskError(
            f"{name} must be boolean, True = real token\n  given dtype {real.dtype}; write mask != 0 for a 0/1 mask"
        )
    if real.shape == (batch, length):
        real = real[:, None, None, :]
    if real.ndim != 4 or real.shape[1:] != (1, 1, length) or real.shape[0] not in (1, batch):
        raise MaskError(
            f"{name} says which tokens are real\n"
            f"  expected shape ({batch}, {length}) or ({batch}, 1, 1, {length}), given {np.shape(mask)}"
        )
    return real


def first_real_position(real: Mask) -> NDArray[np.int64]:
    """Position of the first real token of each row, (batch, 1, 1, length) -> (batch,); 0 where there is none.

    Rows that are padded on the left count their positions from here.
    """
    return np.asarray(np.argmax(real[:, 0, 0], axis=-1))
