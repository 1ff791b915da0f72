"""Losses written with other operations: distances, a yes or no of probabilities, focal, and margins between scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.errors import OptionError
from tinygrad_attn.ops.activation import relu
from tinygrad_attn.ops.loss import (
    check_options,
    check_same_shape,
    counted_places,
    reduced,
    wanted_weights,
)
from tinygrad_attn.ops.softmax import log_softmax
from tinygrad_attn.tensor import as_array, plain

# --- distances ---------------------------------------------------------------------------------------------------


def l1_loss(prediction: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Absolute distance from the target; the slope where they are equal is taken as 0.

    loss = |prediction − target|, averaged over all elements

    Args:
        prediction, target: of one shape.
        reduction: "mean", "sum" or "none".
    Raises:
        ShapeError: the shapes differ.
        OptionError: an unknown reduction.

    >>> float(l1_loss(np.array([1.0, 4.0]), np.array([2.0, 2.0])))
    1.5
    """
    check_options("l1_loss", reduction)
    prediction, target = as_array(prediction), as_array(target)
    check_same_shape("l1_loss", prediction=prediction, target=target)
    return _reduced(np.absolute(prediction - target), reduction)


def huber_loss(prediction: Any, target: Any, *, delta: float = 1.0, reduction: str = "mean") -> Any:
    """Squared distance near the target, absolute distance far from it: outliers pull, but no harder than others.

    loss = ½ e² where |e| ≤ δ, else δ (|e| − ½ δ), with e = prediction − target

    Args:
        prediction, target, reduction: as in `l1_loss`.
        delta: δ > 0, where one goes over into the other.
    Raises:
        ShapeError: the shapes differ.
        OptionError: an unknown reduction, or δ ≤ 0.
    Source:
        Huber (1964), "Robust estimation of a location parameter", Annals of Mathematical Statistics 35.

    >>> huber_loss(np.array([0.5, 3.0]), np.zeros(2), reduction="none").tolist()
    [0.125, 2.5]
    """
    check_options("huber_loss", reduction)
    prediction, target = as_array(prediction), as_array(target)
    check_same_shape("huber_loss", prediction=prediction, target=target)
    if not delta > 0:
        raise OptionError(f"huber_loss: delta must be positive\n  given {delta}")
    distance = np.absolute(prediction - target)
    near = np.minimum(distance, delta)  # the part that is squared
    return _reduced(near * (distance - 0.5 * near), reduction)


def smooth_l1_loss(prediction: Any, target: Any, *, beta: float = 1.0, reduction: str = "mean") -> Any:
    """The Huber loss divided by its δ, here β: the slope far out is 1, whatever β is, and β = 0 gives `l1_loss`.

    loss = ½ e² / β where |e| < β, else |e| − ½ β

    Args:
        prediction, target, reduction: as in `l1_loss`.
        beta: β ≥ 0.
    Source:
        Girshick (2015), "Fast R-CNN", arXiv:1504.08083, equation 3.
    """
    if beta == 0:
        return l1_loss(prediction, target, reduction=reduction)
    return huber_loss(prediction, target, delta=beta, reduction=reduction) / beta


# --- probabilities -----------------------------------------------------------------------------------------------


def bce_loss(probability: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Binary cross-entropy of probabilities. `bce_with_logits`, of what is put into the sigmoid, loses no digits.

    loss = −t ln p − (1 − t) ln(1 − p), averaged over all elements, with 0 ln 0 = 0

    Args:
        probability: p of a yes, in [0, 1].
        target: t, of the same shape: 1 for yes, 0 for no, or a probability.
        reduction: "mean", "sum" or "none".
    Raises:
        ShapeError: the shapes differ.
        OptionError: an unknown reduction.

    >>> round(float(bce_loss(np.array([0.5]), np.array([1.0]))), 4)
    0.6931
    """
    check_options("bce_loss", reduction)
    probability, target = as_array(probability), as_array(target)
    check_same_shape("bce_loss", probability=probability, target=target)
    yes = np.where(np.equal(target, 0), 0.0, target * np.log(np.where(np.equal(target, 0), 1.0, probability)))
    no = np.where(np.equal(target, 1), 0.0, (1.0 - target) * np.log1p(-np.where(np.equal(target, 1), 0.0, probability)))
    return _reduced(-(yes + no), reduction)


def focal_loss(
    logits: Any,
    target: Any,
    *,
    gamma: float = 2.0,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Any:
    """Cross-entropy that turns away from what is known already: each place counts (1 − p)^γ.

    loss = −(1 − p)^γ ln p, p = softmax(logits)[target], averaged over the places that count

    Args:
        logits: (..., classes).
        target, weight, ignore_index, reduction: as in `cross_entropy`, which this is for γ = 0.
        gamma: γ ≥ 0.
    Raises:
        DtypeError, ShapeError, IndexRangeError, OptionError: as `cross_entropy`; or γ < 0.
    Source:
        Lin et al. (2017), "Focal loss for dense object detection", arXiv:1708.02002, equation 5; its α is `weight`.
    """
    check_options("focal_loss", reduction)
    if not gamma >= 0:
        raise OptionError(f"focal_loss: gamma must not be negative\n  given {gamma}")
    log_p = log_softmax(logits, axis=-1)
    wanted, number = wanted_weights("focal_loss", log_p, target, weight, ignore_index, 0.0)
    seen = np.where(wanted == 0.0, -1.0, log_p)  # −∞ where nothing is wanted does no harm
    return reduced(-np.sum(wanted * np.power(-np.expm1(seen), gamma) * seen, axis=-1), reduction, number)


# --- margins -----------------------------------------------------------------------------------------------------


def margin_ranking_loss(first: Any, second: Any, target: Any, *, margin: float = 0.0, reduction: str = "mean") -> Any:
    """How much a pair of scores falls short of its order.

    loss = max(0, margin − t (first − second)), averaged; the slope at the margin is taken as 0

    Args:
        first, second: scores of one shape.
        target: t, 1 where the first must be the larger, −1 where the second must; broadcast to them.
        margin: by how much.
        reduction: "mean", "sum" or "none".
    Raises:
        ShapeError: the shapes differ.
        OptionError: an unknown reduction.

    >>> float(margin_ranking_loss(np.array([1.0]), np.array([3.0]), 1.0, margin=0.5))
    2.5
    """
    check_options("margin_ranking_loss", reduction)
    first, second, target = as_array(first), as_array(second), as_array(target)
    check_same_shape("margin_ranking_loss", first=first, second=second)
    return _reduced(relu(margin - target * (first - second)), reduction)


def multi_margin_loss(scores: Any, target: Any, *, margin: float = 1.0, p: int = 1, reduction: str = "mean") -> Any:
    """Hinge loss of several classes: every other class must score less than the target, by a margin.

    loss = Σ over j ≠ t of max(0, margin − score[t] + score[j])ᵖ / classes, averaged over the places

    Args:
        scores: (..., classes).
        target: t, (...), class numbers.
        margin: by how much.
        p: 1, or 2 to square what is short.
        reduction: "mean", "sum" or "none".
    Raises:
        DtypeError, ShapeError, IndexRangeError: target is not one class number per place.
        OptionError: an unknown reduction, or another p.
    Source:
        Crammer and Singer (2001), "On the algorithmic implementation of multiclass kernel-based vector machines";
        divided by the number of classes as in PyTorch.

    >>> float(multi_margin_loss(np.array([[1.0, 3.0]]), np.array([0])))
    1.5
    """
    check_options("multi_margin_loss", reduction)
    if p not in (1, 2):
        raise OptionError(f"multi_margin_loss: p must be 1 or 2\n  given {p}")
    scores, target = as_array(scores), np.asarray(plain(target))
    counted_places("multi_margin_loss", scores.shape, target, None)
    own = np.expand_dims(target, -1)  # (..., 1)
    short = relu(margin - np.take_along_axis(scores, own, axis=-1) + scores)  # (..., classes)
    others = np.arange(scores.shape[-1]) != own
    return _reduced(
        np.sum(np.where(others, short if p == 1 else short * short, 0.0), axis=-1) / scores.shape[-1], reduction
    )


def _reduced(losses: Any, reduction: str) -> Any:
    return reduced(losses, reduction, np.size(losses))
