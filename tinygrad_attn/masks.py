"""The one mask convention: boolean, True = may attend, shape (..., query_len, key_len) or what broadcasts to it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import DtypeError, MaskError, OptionError, ShapeError

Align = Literal["lower_right", "upper_left"]


def causal_mask(query_len: int, key_len: int | None = None, *, align: Align | None = None) -> NDArray[np.bool_]:
    """Which keys each query may see when nobody may look into the future.

    Args:
        query_len, key_len: lengths; key_len is query_len unless given.
        align: where the diagonal ends if the lengths differ: "lower_right" when the queries are the last of the keys
            (decoding with a cache), "upper_left" when both start at position 0. Must be said if the lengths differ.
    Returns:
        (query_len, key_len), boolean; True = may attend.
    Raises:
        OptionError: the lengths differ and `align` is not given.

    >>> causal_mask(2, 4, align="lower_right")
    array([[ True,  True,  True, False],
           [ True,  True,  True,  True]])
    """
    key_len = query_len if key_len is None else key_len
    return np.tri(query_len, key_len, causal_shift(query_len, key_len, align=align), dtype=bool)


def causal_shift(query_len: int, key_len: int, *, align: Align | None = None) -> int:
    """How many keys beyond its own position a query may see: query i sees keys up to i + shift.

    Raises:
        OptionError: as in `causal_mask`.
    """
    if align not in (None, "lower_right", "upper_left"):
        raise OptionError(f"causal_mask: align must be 'lower_right' or 'upper_left'\n  given {align!r}")
    if align is None and query_len != key_len:
        raise OptionError(
            f"causal_mask: {query_len} queries and {key_len} keys: say where the diagonal ends\n"
            "  align='lower_right' if the queries are the last of the keys (a cache), 'upper_left' if both start at 0"
        )
    return key_len - query_len if align == "lower_right" else 0


def padding_mask(lengths: Any, key_len: int) -> NDArray[np.bool_]:
    """Which keys are real when each row of a batch has its own length, padded on the right.

    Args:
        lengths: (batch,), integers.
        key_len: length to which the keys are padded.
    Returns:
        (batch, 1, 1, key_len), boolean, ready to broadcast over heads and queries; True = may attend.
    Raises:
        OptionError: a length is negative or greater than key_len.

    >>> padding_mask([1, 3], 3)[:, 0, 0]
    array([[ True, False, False],
           [ True,  True,  True]])
    """
    counted = np.asarray(lengths)
    if counted.ndim != 1 or counted.dtype.kind not in "iu":
        raise ShapeError(f"padding_mask: lengths must be (batch,) integers\n  given {counted.dtype} {counted.shape}")
    if counted.size and (counted.min() < 0 or counted.max() > key_len):
        raise OptionError(f"padding_mask: lengths must lie in [0, {key_len}]\n  given {counted.tolist()}")
    return np.asarray(np.arange(key_len) < counted[:, None, None, None])


def check_mask(mask: Any, scores: tuple[int, ...]) -> None:
    """Raise unless `mask` is boolean and broadcasts to `scores`, (..., query_len, key_len).

    Raises:
        MaskError: anything else; the message says what would fit.
    """
    if mask.dtype != bool:
        raise MaskError(
            f"a mask must be boolean, True = may attend\n"
            f"  given dtype {mask.dtype}; write mask != 0 for a 0/1 mask, or pass additive scores as bias="
        )
    if not _fits(mask.shape, scores):
        raise MaskError(_misfit("mask", mask.shape, scores))


def check_bias(bias: Any, scores: tuple[int, ...]) -> None:
    """Raise unless `bias` holds numbers and broadcasts to `scores`, (..., query_len, key_len).

    Raises:
        DtypeError: booleans, which are a mask.
        ShapeError: another shape; the message says what would fit.
    """
    if bias.dtype == bool:
        raise DtypeError(
            "a bias is added to the scores and must hold numbers\n  given booleans; a mask, True = may attend, is mask="
        )
    if not _fits(bias.shape, scores):
        raise ShapeError(_misfit("bias", bias.shape, scores))


def _fits(shape: tuple[int, ...], scores: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, scores) == scores
    except ValueError:
        return False


def _misfit(name: str, shape: tuple[int, ...], scores: tuple[int, ...]) -> str:
    query_len, key_len = scores[-2:]
    accepted = [f"({query_len}, {key_len})"]
    if len(scores) > 2:
        accepted.append(
            f"(heads, {query_len}, {key_len}) with heads = {scores[-3]}" if len(scores) > 3 else str(scores)
        )
    if len(scores) > 3:
        accepted.append(f"({scores[0]}, 1, {query_len}, {key_len}) or ({scores[0]}, 1, 1, {key_len})")
    return (
        f"the {name} does not fit the scores\n    scores  {scores}\n    {name}    {shape}\n"
        f"  expected {', '.join(accepted)}; any axis may be 1"
    )
