"""Losses: how far an answer is from what was wanted, as one number or one per place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser, broadcastable, one_of
from tinygrad_attn.errors import DtypeError, GradientError, IndexRangeError, OptionError, ShapeError
from tinygrad_attn.operation import op
from tinygrad_attn.ops.activation import sigmoid, softplus
from tinygrad_attn.ops.softmax import log_softmax
from tinygrad_attn.tensor import Tensor, plain

REDUCTIONS = ("mean", "sum", "none")


# --- classes -----------------------------------------------------------------------------------------------------


def nll_loss(
    log_probabilities: Any,
    target: Any,
    *,
    weight: Any = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """Negative log-likelihood: minus the logarithm of the probability that the target class was given.

    loss = −Σ wanted ∘ log_probabilities, wanted = onehot(target)

    Args:
        log_probabilities: (..., classes), logarithms of probabilities, as from `log_softmax`.
        target, weight, ignore_index, label_smoothing, reduction: as in `cross_entropy`.
    """
    check_options("nll_loss", reduction, label_smoothing)
    wanted, number = wanted_weights("nll_loss", log_probabilities, target, weight, ignore_index, label_smoothing)
    seen = np.where(wanted == 0.0, 0.0, log_probabilities)  # −∞ where nothing is wanted does no harm
    return reduced(-np.sum(wanted * seen, axis=-1), reduction, number)


def cross_entropy_definition(logits: Any, target: Any, **options: Any) -> Any:
    """Log-softmax, then the negative log-likelihood of the target: what `cross_entropy` must equal."""
    return nll_loss(log_softmax(logits, axis=-1), target, **options)


def _classified(choose: Chooser) -> tuple[Any, ...]:
    classes, places = choose.integer(1, 4), choose.shape(0, 2)
    logits = choose.reals((*places, classes))
    if choose.integer(0, 3) == 0:
        return logits, choose.reals(logits.shape, 0.0, 1.0)
    return logits, choose.integers(places, 0, classes - 1)


def _some_ignored(choose: Chooser, inputs: tuple[Any, ...]) -> int | None:
    return None if inputs[1].dtype.kind == "f" else choose.pick([None, 0, -100])


def _some_class_weights(choose: Chooser, inputs: tuple[Any, ...]) -> Any:
    return choose.reals(inputs[0].shape[-1:], 0.2, 2.0) if choose.integer(0, 1) else None


@op(
    reference=cross_entropy_definition,
    domain=_classified,
    options={
        "weight": _some_class_weights,
        "ignore_index": _some_ignored,
        "label_smoothing": one_of(0.0, 0.1, 1.0),
        "reduction": one_of(*REDUCTIONS),
    },
)
def cross_entropy(
    logits: Any,
    target: Any,
    *,
    weight: Any = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """How surprising the target classes are under the softmax of the logits, in nats.

    loss = −ln softmax(logits)[target], averaged over the places that count

    Args:
        logits: (..., classes), floating.
        target: (...), class numbers; or (..., classes), floating, the probability that is wanted of each class.
        weight: (classes,), how much each class counts; a constant. The mean is then the weighted one.
        ignore_index: places with this target do not count; if none counts, the mean is 0 and so is its gradient
            (PyTorch gives NaN on purpose).
        label_smoothing: share s of the target that is spread evenly over all classes.
        reduction: "mean" over the places that count, "sum", or "none" for one loss per place.
    Raises:
        DtypeError, ShapeError: target is neither one integer per place nor one probability per logit.
        IndexRangeError: a class number outside [0, classes).
        OptionError: an unknown reduction, a smoothing outside [0, 1], or `ignore_index` with probabilities.
    Source:
        Label smoothing: Szegedy et al. (2015), arXiv:1512.00567, §7.
    """
    check_options("cross_entropy", reduction, label_smoothing)
    target = np.asarray(target)
    classes = logits.shape[-1]
    rows = logits.reshape(math.prod(logits.shape[:-1]), classes)  # (places, classes)
    every, peak = np.arange(len(rows)), np.argmax(rows, axis=-1)  # (places,)
    shifted = rows - rows[every, peak][:, None]
    e = np.exp(shifted)
    e[every, peak] = shifted[every, peak]  # 0, not 1: what is left of the sum may be tiny, and 1 + tiny is 1
    rest = e @ np.ones(classes, e.dtype)  # (places,)
    e[every, peak] += 1.0
    log_total, doubt = np.log1p(rest), rest / (1.0 + rest)
    probabilities = np.divide(e, 1.0 + rest[:, None], out=e)
    if weight is None and not label_smoothing and target.dtype.kind != "f":  # no need for a row of weights per place
        counted = counted_places("cross_entropy", logits.shape, target, ignore_index).reshape(-1)
        picked = np.where(counted, target.reshape(-1), 0)  # (places,)
        losses = np.where(counted, log_total - shifted[every, picked], 0.0).astype(logits.dtype)
        number, kept = float(counted.sum()) or 1.0, (counted, picked)
    else:
        wanted, number = wanted_weights("cross_entropy", logits, target, weight, ignore_index, label_smoothing)
        wanted = wanted.reshape(rows.shape)
        wanted_total = wanted.sum(axis=-1)  # (places,)
        seen = shifted if np.isfinite(shifted).all() else np.where(wanted == 0.0, 0.0, shifted)
        losses, kept = wanted_total * log_total - np.sum(wanted * seen, axis=-1), (wanted_total, wanted)
    return reduced(losses.reshape(logits.shape[:-1]), reduction, number), (probabilities, peak, doubt, number, *kept)


@cross_entropy.gradients("logits", formula="dlogits = (softmax(logits) − onehot(target)) / number of places")
def _(g: Any, saved: Any, logits: Any, target: Any, *, reduction: str, **options: Any) -> Any:
    probabilities, peak, doubt, number, wanted_total, wanted = saved
    every = np.arange(len(peak))
    per_place = np.broadcast_to(np.reshape(g, (-1, 1)), (len(probabilities), 1))  # (places, 1)
    if reduction == "mean":
        per_place = per_place / number
    per_place = per_place.astype(logits.dtype)
    d_rows = probabilities * (per_place * wanted_total[:, None])
    if wanted.ndim == 1:  # the class that each place wants, and whether it counts
        d_rows[every, wanted] -= per_place[:, 0] * wanted_total
        wanted_peak = np.where(wanted == peak, wanted_total, 0.0)
    else:
        d_rows -= per_place * wanted
        wanted_peak = wanted[every, peak]
    # Where the model is sure, p − 1 of the most likely class has lost its digits; doubt = 1 − p has not.
    of_peak = per_place[:, 0] * ((wanted_total - wanted_peak) - doubt * wanted_total)
    d_rows[every, peak] = np.where(doubt < 0.5, of_peak, d_rows[every, peak])
    return (d_rows.reshape(logits.shape),)


def wanted_weights(
    name: str, scores: Any, target: Any, weight: Any, ignore_index: int | None, label_smoothing: float
) -> tuple[Any, float]:
    """How much of each class is wanted, (..., classes), and the number by which a mean divides."""
    target, classes, dtype = np.asarray(plain(target)), scores.shape[-1], scores.dtype
    factor = np.ones(classes, dtype) if weight is None else constant(name, weight).astype(dtype)  # (classes,)
    if factor.shape != (classes,):
        raise ShapeError(
            f"{name}: weight must hold one number per class\n  expected ({classes},), given {factor.shape}"
        )
    share = label_smoothing / classes  # of each class, whatever the target is
    if target.dtype.kind == "f" and target.shape == scores.shape:
        if ignore_index is not None:
            raise OptionError(f"{name}: ignore_index names a class number\n  the target holds probabilities")
        wanted = (target * (1.0 - label_smoothing) + share) * factor
        return wanted.astype(dtype), math.prod(target.shape[:-1]) or 1.0
    counted = counted_places(name, scores.shape, target, ignore_index)
    picked = np.where(counted, target, 0)[..., None]  # (..., 1)
    own = factor[picked] * counted[..., None]  # weight of the class that each place wants
    wanted = np.where(counted[..., None], share * factor, 0.0).astype(dtype)
    np.put_along_axis(wanted, picked, np.take_along_axis(wanted, picked, -1) + (1.0 - label_smoothing) * own, -1)
    return wanted, float(own.sum()) or 1.0


def counted_places(name: str, shape: tuple[int, ...], target: Any, ignore_index: int | None) -> Any:
    """Which places count, (...) boolean, once the class numbers are known to be usable."""
    if target.dtype.kind not in "iu":
        raise DtypeError(
            f"{name}: target must hold class numbers, or probabilities in the shape of the logits\n"
            f"    logits  {shape}\n    target  {target.shape}   dtype {target.dtype}\n"
            "  class numbers must be integers: target.astype(np.int64)"
        )
    if shape[:-1] != target.shape:
        raise ShapeError(
            f"{name}: target must have the shape of logits without the last axis, the classes\n"
            f"    logits  {shape}\n    target  {target.shape}   expected {shape[:-1]}"
        )
    counted = np.ones(target.shape, dtype=bool) if ignore_index is None else target != ignore_index
    bad = counted & ((target < 0) | (target >= shape[-1]))
    if bad.any():
        skipped = "" if ignore_index is None else f" or be ignore_index = {ignore_index}"
        raise IndexRangeError(f"{name}: target must lie in [0, {shape[-1]}){skipped}\n  given {target[bad].flat[0]}")
    return counted


# --- numbers, yes or no, distributions ---------------------------------------------------------------------------


def _pair(choose: Chooser) -> tuple[Any, ...]:
    shape = choose.shape(0, 3, 1)
    return choose.reals(shape), choose.reals(shape)


@op(floating=True, domain=_pair, options={"reduction": one_of(*REDUCTIONS)})
def mse_loss(prediction: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Squared distance from the target.

    loss = (prediction − target)², averaged over all elements

    Args:
        prediction, target: of one shape. Shapes that would only broadcast are refused: (n, 1) against (n,) would
            compare everything with everything.
        reduction: "mean", "sum" or "none".
    Raises:
        ShapeError: the shapes differ.
        OptionError: an unknown reduction.
    """
    check_options("mse_loss", reduction)
    check_same_shape("mse_loss", prediction=prediction, target=target)
    return reduced(np.square(prediction - target), reduction, prediction.size)


@mse_loss.gradient("prediction", formula="dprediction = 2 (prediction − target) dloss / n")
def _(g: Any, out: Any, prediction: Any, target: Any, *, reduction: str) -> Any:
    return per_element(g, reduction, prediction.size) * 2.0 * (prediction - target)


@mse_loss.gradient("target", formula="dtarget = 2 (target − prediction) dloss / n")
def _(g: Any, out: Any, prediction: Any, target: Any, *, reduction: str) -> Any:
    return per_element(g, reduction, prediction.size) * 2.0 * (target - prediction)


def _yes_or_no(choose: Chooser) -> tuple[Any, ...]:
    shape = choose.shape(0, 3, 1)
    return choose.reals(shape), choose.reals(shape, 0.0, 1.0)


def _some_weights(choose: Chooser, inputs: tuple[Any, ...]) -> Any:
    return choose.reals(broadcastable(choose, inputs[0].shape), 0.2, 2.0) if choose.integer(0, 1) else None


@op(
    floating=True,
    domain=_yes_or_no,
    options={"weight": _some_weights, "pos_weight": _some_weights, "reduction": one_of(*REDUCTIONS)},
)
def bce_with_logits(
    logits: Any, target: Any, *, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Any:
    """Binary cross-entropy: how surprising a yes or no is, in nats; exact also where the probability rounds to 0 or 1.

    loss = −t ln σ(x) − (1 − t) ln(1 − σ(x)), averaged over all elements

    Args:
        logits: x, floating; σ(x) is the probability of a yes.
        target: t, of the same shape: 1 for yes, 0 for no, or a probability.
        weight: how much each element counts, broadcast to the logits; a constant. The mean divides by the number of
            elements all the same, as in PyTorch.
        pos_weight: how much more a yes counts than a no, broadcast to the logits; a constant.
        reduction: "mean", "sum" or "none".
    Raises:
        ShapeError: target has another shape, or a weight does not broadcast to the logits.
        OptionError: an unknown reduction.
    """
    check_options("bce_with_logits", reduction)
    check_same_shape("bce_with_logits", logits=logits, target=target)
    yes, no = _yes_no_weights(logits, weight, pos_weight)
    # ln(1 − σ(x)) = −softplus(x) and ln σ(x) = −softplus(−x): neither a probability nor its logarithm is ever rounded.
    return reduced(yes * target * softplus(-logits) + no * (1.0 - target) * softplus(logits), reduction, logits.size)


@bce_with_logits.gradient("logits", formula="dx = (σ(x) − t) dloss / n")
def _(g: Any, out: Any, logits: Any, target: Any, *, weight: Any, pos_weight: Any, reduction: str) -> Any:
    yes, no = _yes_no_weights(logits, weight, pos_weight)
    slope = no * (1.0 - target) * sigmoid(logits) - yes * target * sigmoid(-logits)  # σ(x) − t where both weights are 1
    return per_element(g, reduction, logits.size) * slope


@bce_with_logits.gradient("target", formula="dt = −x dloss / n")
def _(g: Any, out: Any, logits: Any, target: Any, *, weight: Any, pos_weight: Any, reduction: str) -> Any:
    yes, no = _yes_no_weights(logits, weight, pos_weight)
    slope = yes * softplus(-logits) - no * softplus(logits)  # −x where both weights are 1
    return per_element(g, reduction, logits.size) * slope


def _yes_no_weights(logits: Any, weight: Any, pos_weight: Any) -> tuple[Any, Any]:
    """Factors of the two terms of the loss, each of a shape that broadcasts to the logits."""
    factors = []
    for given in (pos_weight, weight):
        factor = np.ones((), logits.dtype) if given is None else constant("bce_with_logits", given).astype(logits.dtype)
        if np.broadcast_shapes(factor.shape, logits.shape) != logits.shape:
            raise ShapeError(
                f"bce_with_logits: a weight must broadcast to the logits\n  {factor.shape} to {logits.shape}"
            )
        factors.append(factor)
    return factors[0] * factors[1], factors[1]


def _distributions(choose: Chooser) -> tuple[Any, ...]:
    shape = (*choose.shape(0, 2, 1), choose.integer(1, 3))
    return choose.reals(shape), choose.reals(shape, 0.1, 1.0)


@op(symbol="KL", floating=True, domain=_distributions, options={"reduction": one_of(*REDUCTIONS)})
def kl_divergence(log_prediction: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Nats lost by expecting one distribution where another holds; 0 where they agree, never less.

    loss = Σ p (ln p − ln q) over the last axis, with 0 ln 0 = 0; averaged over the places

    Args:
        log_prediction: ln q, (..., classes), as from `log_softmax`; −∞ does no harm where p is 0.
        target: p, (..., classes), probabilities. The slope by p at p = 0, where it is infinite, is taken as 0.
        reduction: "mean" over the places (...), "sum", or "none" for one number per place. Divergence from PyTorch,
            whose "mean" divides by the number of classes too; ours is its "batchmean".
    Raises:
        ShapeError: the shapes differ.
        OptionError: an unknown reduction.
    Source:
        Kullback and Leibler (1951), "On information and sufficiency", Annals of Mathematical Statistics 22.
    """
    check_options("kl_divergence", reduction)
    check_same_shape("kl_divergence", log_prediction=log_prediction, target=target)
    losses = np.sum(target * _log_ratio(log_prediction, target), axis=-1)
    return reduced(losses, reduction, losses.size)


@kl_divergence.gradient("log_prediction", formula="d(ln q) = −p dloss / n")
def _(g: Any, out: Any, log_prediction: Any, target: Any, *, reduction: str) -> Any:
    return -_per_place(g, reduction, target) * target


@kl_divergence.gradient("target", formula="dp = (ln p − ln q + 1) dloss / n, and 0 where p = 0")
def _(g: Any, out: Any, log_prediction: Any, target: Any, *, reduction: str) -> Any:
    slope = np.where(np.equal(target, 0), 0.0, _log_ratio(log_prediction, target) + 1.0)
    return _per_place(g, reduction, target) * slope


def _log_ratio(log_prediction: Any, target: Any) -> Any:
    """ln p − ln q, and 0 where p = 0."""
    nothing = np.equal(target, 0)
    return np.log(np.where(nothing, 1.0, target)) - np.where(nothing, 0.0, log_prediction)


def _per_place(g: Any, reduction: str, target: Any) -> Any:
    """The gradient that arrives at each place: () or (...) -> what broadcasts to (..., classes)."""
    return per_element(np.expand_dims(g, -1), reduction, target.size // target.shape[-1])


# --- what losses share -------------------------------------------------------------------------------------------


def reduced(losses: Any, reduction: str, number: float) -> Any:
    """What `reduction` asks for; a mean divides by `number`."""
    if reduction == "none":
        return losses
    return np.sum(losses) if reduction == "sum" else np.sum(losses) / number


def per_element(g: Any, reduction: str, number: float) -> Any:
    """The gradient that each of the losses gets, given that of the reduced one."""
    return g / number if reduction == "mean" else g


def constant(name: str, weight: Any) -> Any:
    """The plain values of a weight.

    Raises:
        GradientError: it requires a gradient, which would be lost.
    """
    if isinstance(weight, Tensor) and weight.requires_grad:
        raise GradientError(f"{name}: a weight is a constant and gets no gradient\n  pass weight.detach()")
    return np.asarray(plain(weight))


def check_options(name: str, reduction: str, label_smoothing: float = 0.0) -> None:
    """Raise OptionError for an unknown reduction or an impossible smoothing."""
    if reduction not in REDUCTIONS:
        raise OptionError(f"{name}: reduction must be one of {', '.join(REDUCTIONS)}\n  given {reduction!r}")
    if not 0.0 <= label_smoothing <= 1.0:
        raise OptionError(f"{name}: label_smoothing must lie in [0, 1]\n  given {label_smoothing}")


def check_same_shape(name: str, **operands: Any) -> None:
    """Raise ShapeError unless the two operands have one shape."""
    (first, a), (second, b) = operands.items()
    if np.shape(a) != np.shape(b):
        width = max(len(first), len(second))
        raise ShapeError(
            f"{name}: {first} and {second} must have one shape\n"
            f"    {first:<{width}}  {np.shape(a)}\n    {second:<{width}}  {np.shape(b)}"
        )
