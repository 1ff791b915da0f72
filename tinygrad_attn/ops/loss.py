"""Losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser, one_of
from tinygrad_attn.errors import DtypeError, IndexRangeError, OptionError, ShapeError
from tinygrad_attn.operation import op
from tinygrad_attn.ops.softmax import log_softmax
from tinygrad_attn.tensor import plain

REDUCTIONS = ("mean", "sum", "none")


def cross_entropy_definition(
    logits: Any, target: Any, *, ignore_index: int | None = None, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Any:
    """Negative log-softmax at the target, written with primitives: what `cross_entropy` must equal."""
    target = np.asarray(plain(target))
    counted = check_target(logits.shape, target, ignore_index, label_smoothing, reduction)
    classes = logits.shape[-1]
    wanted = np.eye(classes)[np.where(counted, target, 0)]  # (..., classes), one-hot
    wanted = (wanted * (1.0 - label_smoothing) + label_smoothing / classes) * counted[..., None]
    losses = -np.sum(log_softmax(logits, axis=-1) * wanted.astype(logits.dtype), axis=-1)  # (...)
    if reduction == "none":
        return losses
    total = np.sum(losses)
    return total if reduction == "sum" else total / max(1, int(counted.sum()))


def check_target(
    shape: tuple[int, ...], target: Any, ignore_index: int | None, label_smoothing: float, reduction: str
) -> Any:
    """Validate the arguments; returns which places count, (...) boolean."""
    if reduction not in REDUCTIONS:
        raise OptionError(f"cross_entropy: reduction must be one of {', '.join(REDUCTIONS)}\n  given {reduction!r}")
    if not 0.0 <= label_smoothing <= 1.0:
        raise OptionError(f"cross_entropy: label_smoothing must lie in [0, 1]\n  given {label_smoothing}")
    if target.dtype.kind not in "iu":
        raise DtypeError(f"cross_entropy: target must hold class numbers\n  given dtype {target.dtype}")
    if shape[:-1] != target.shape:
        raise ShapeError(
            f"cross_entropy: target must have the shape of logits without the last axis, the classes\n"
            f"    logits  {shape}\n    target  {target.shape}   expected {shape[:-1]}"
        )
    counted = np.ones(target.shape, dtype=bool) if ignore_index is None else target != ignore_index
    bad = counted & ((target < 0) | (target >= shape[-1]))
    if bad.any():
        skipped = "" if ignore_index is None else f" or be ignore_index = {ignore_index}"
        raise IndexRangeError(
            f"cross_entropy: target must lie in [0, {shape[-1]}){skipped}\n  given {target[bad].flat[0]}"
        )
    return counted


def _classified(choose: Chooser) -> tuple[Any, ...]:
    classes = choose.integer(1, 4)
    places = choose.shape(0, 2)
    return choose.reals((*places, classes)), choose.integers(places, 0, classes - 1)


@op(
    reference=cross_entropy_definition,
    domain=_classified,
    options={
        "ignore_index": one_of(None, 0, -100),
        "label_smoothing": one_of(0.0, 0.1, 1.0),
        "reduction": one_of(*REDUCTIONS),
    },
)
def cross_entropy(
    logits: Any, target: Any, *, ignore_index: int | None = None, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Any:
    """How surprising the target classes are under the softmax of the logits, in nats.

    loss = −ln softmax(logits)[target], averaged over the places that count

    Args:
        logits: (..., classes), floating.
        target: (...), class numbers.
        ignore_index: places with this target do not count; if none counts, the mean is 0 and so is its gradient
            (PyTorch gives NaN on purpose).
        label_smoothing: share s of the target that is spread evenly over all classes.
        reduction: "mean" over the places that count, "sum", or "none" for one loss per place.
    Raises:
        DtypeError, ShapeError: target is not of integers, or not one per place.
        IndexRangeError: a class number outside [0, classes).
    Source:
        Label smoothing: Szegedy et al. (2015), arXiv:1512.00567, §7.
    """
    counted = check_target(logits.shape, target, ignore_index, label_smoothing, reduction)
    classes = logits.shape[-1]
    rows = logits.reshape(-1, classes)  # (places, classes)
    target_rows = np.where(counted, target, 0).reshape(-1)  # (places,)
    places = np.arange(len(rows))
    shifted = rows - np.max(rows, axis=-1, keepdims=True)
    e = np.exp(shifted)
    total = e @ np.ones((classes, 1), e.dtype)  # (places, 1)
    log_total = np.log(total)[:, 0]
    losses = log_total - shifted[places, target_rows]
    if label_smoothing:
        losses = (1.0 - label_smoothing) * losses + label_smoothing * (log_total - shifted.mean(axis=-1))
    losses = np.where(counted.reshape(-1), losses, 0.0).astype(logits.dtype)
    probabilities = np.divide(e, total, out=e)
    number = max(1, int(counted.sum()))
    saved = (probabilities, target_rows, counted.reshape(-1), number)
    if reduction == "none":
        return losses.reshape(target.shape), saved
    return (losses.sum() if reduction == "sum" else losses.sum() / number), saved


@cross_entropy.gradients("logits", formula="dlogits = (softmax(logits) − onehot(target)) / number of places")
def _(
    g: Any, saved: Any, logits: Any, target: Any, *, ignore_index: Any, label_smoothing: float, reduction: str
) -> Any:
    probabilities, target_rows, counted, number = saved
    per_place = np.broadcast_to(np.reshape(g, (-1, 1)), (len(counted), 1)) * counted[:, None]  # (places, 1)
    if reduction == "mean":
        per_place = per_place / number
    per_place = per_place.astype(logits.dtype)
    d_rows = (probabilities - label_smoothing / logits.shape[-1] if label_smoothing else probabilities) * per_place
    d_rows[np.arange(len(counted)), target_rows] -= (1.0 - label_smoothing) * per_place[:, 0]
    return (d_rows.reshape(logits.shape),)
