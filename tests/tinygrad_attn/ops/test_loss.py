"""Losses: what makes two of them equal, what they do with certainties, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import values
from tinygrad_attn.errors import DtypeError, GradientError, IndexRangeError, OptionError, ShapeError

seeds = st.integers(0, 2**32 - 1)
REDUCTIONS = ["mean", "sum", "none"]


def pulled(loss: Any, x: Any, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    """Value of a loss and its gradient by the first input."""
    t = ta.Tensor(x, dtype=np.float64, requires_grad=True)
    out = loss(t, *arguments, **options)
    out.backward(values(*out.shape, seed=9) if out.ndim else None)
    return out.numpy(), t.grad


def assert_same(one: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    assert_allclose(one[0], other[0], rtol=1e-10, atol=1e-12)
    assert_allclose(one[1], other[1], rtol=1e-10, atol=1e-12)


def classified(seed: int) -> tuple[Any, Any]:
    """Logits (2, 3, 4) and class numbers (2, 3)."""
    return values(2, 3, 4, seed=seed), np.random.default_rng(seed).integers(0, 4, (2, 3))


# --- classes ---------------------------------------------------------------------------------------------------------


@given(seeds, st.sampled_from(REDUCTIONS), st.booleans())
def test_a_class_number_is_the_distribution_that_is_sure_of_it(seed: int, reduction: str, weighted: bool) -> None:
    logits, target = classified(seed)
    sure = np.eye(4)[target]
    assert_same(
        pulled(ta.cross_entropy, logits, target, reduction=reduction),
        pulled(ta.cross_entropy, logits, sure, reduction=reduction),
    )
    if weighted and reduction != "mean":  # the weighted mean divides by the weights of the classes that were numbered
        weight = np.array([1.0, 2.0, 0.5, 3.0])
        assert_same(
            pulled(ta.cross_entropy, logits, target, reduction=reduction, weight=weight),
            pulled(ta.cross_entropy, logits, sure, reduction=reduction, weight=weight),
        )


@given(seeds, st.sampled_from(REDUCTIONS))
def test_smoothing_labels_is_smoothing_the_distribution(seed: int, reduction: str) -> None:
    logits, target = classified(seed)
    smooth = 0.8 * np.eye(4)[target] + 0.2 / 4
    assert_same(
        pulled(ta.cross_entropy, logits, target, reduction=reduction, label_smoothing=0.2),
        pulled(ta.cross_entropy, logits, smooth, reduction=reduction),
    )


@given(seeds)
def test_a_class_of_weight_2_counts_as_if_it_stood_there_twice(seed: int) -> None:
    logits, target = classified(seed)
    logits, target = logits.reshape(-1, 4), target.reshape(-1)
    twice = np.concatenate([np.arange(6), np.flatnonzero(target == 1)])
    t = ta.Tensor(logits, requires_grad=True)
    ta.cross_entropy(t[twice], target[twice]).backward()
    found = pulled(ta.cross_entropy, logits, target, weight=[1.0, 2.0, 1.0, 1.0])
    assert_same(found, (ta.cross_entropy(logits[twice], target[twice]), t.grad))


@given(seeds, st.sampled_from(REDUCTIONS))
def test_cross_entropy_is_log_softmax_and_then_the_negative_log_likelihood(seed: int, reduction: str) -> None:
    logits, target = classified(seed)
    options: dict[str, Any] = {"reduction": reduction, "ignore_index": 2, "weight": np.array([1.0, 2.0, 0.5, 3.0])}
    assert_same(
        pulled(ta.cross_entropy, logits, target, **options),
        pulled(lambda x, y, **o: ta.nll_loss(ta.log_softmax(x), y, **o), logits, target, **options),
    )


@pytest.mark.parametrize("unfused", [False, True])
def test_a_class_that_cannot_be_does_no_harm_unless_it_is_wanted(unfused: bool) -> None:
    logits = np.array([[-np.inf, 0.0, 0.0]])
    for extras in ({}, {"weight": np.array([5.0, 1.0, 1.0])}):
        t = ta.Tensor(logits, requires_grad=True)
        if unfused:
            with ta.unfused():
                loss = ta.cross_entropy(t, np.array([1]), **extras)
        else:
            loss = ta.cross_entropy(t, np.array([1]), **extras)
        loss.backward()
        assert_allclose(loss.item(), math.log(2.0))
        assert_allclose(t.grad, [[0.0, -0.5, 0.5]])
    assert ta.cross_entropy(ta.Tensor(logits), np.array([0])).item() == math.inf


def test_the_mean_divides_by_the_weights_that_count() -> None:
    logits, target, weight = np.zeros((3, 2)), np.array([0, 1, 0]), np.array([3.0, 1.0])
    losses = ta.cross_entropy(ta.Tensor(logits), target, weight=weight, reduction="none").numpy()
    assert_allclose(losses, np.log(2.0) * np.array([3.0, 1.0, 3.0]))
    assert_allclose(ta.cross_entropy(ta.Tensor(logits), target, weight=weight).item(), math.log(2.0))
    nothing = ta.cross_entropy(ta.Tensor(logits), target, weight=np.zeros(2))
    assert nothing.item() == 0.0


@given(seeds)
def test_places_that_are_ignored_might_as_well_not_be_there(seed: int) -> None:
    logits, target = classified(seed)
    weight = np.array([1.0, 2.0, 0.5, 3.0])
    kept = target != 2
    for extras in ({}, {"weight": weight}, {"weight": weight, "label_smoothing": 0.1}):
        t = ta.Tensor(logits, requires_grad=True)
        some = ta.cross_entropy(t[kept], target[kept], **extras)
        some.backward()
        assert_same(pulled(ta.cross_entropy, logits, target, ignore_index=2, **extras), (some.numpy(), t.grad))


def test_target_and_weight_may_be_lists() -> None:
    assert_allclose(ta.cross_entropy(ta.Tensor([[0.0, 0.0]]), [1], weight=[1.0, 2.0]).item(), math.log(2.0), rtol=1e-6)


@pytest.mark.parametrize("loss", [ta.cross_entropy, ta.nll_loss], ids=["cross_entropy", "nll_loss"])
def test_what_the_losses_of_classes_refuse(loss: Any) -> None:
    x = ta.Tensor(np.zeros((2, 3)), requires_grad=True)
    with pytest.raises(DtypeError, match="class numbers must be integers"):
        loss(x, np.array([0.0, 1.0]))
    with pytest.raises(ShapeError, match=r"target  \(3,\)   expected \(2,\)"):
        loss(x, np.array([0, 1, 2]))
    with pytest.raises(IndexRangeError, match=r"\[0, 3\)\n  given 3"):
        loss(x, np.array([0, 3]))
    with pytest.raises(IndexRangeError, match=r"\[0, 3\)\n  given -1"):
        loss(x, np.array([-1, 0]))
    with pytest.raises(IndexRangeError, match=r"ignore_index = -1\n  given -4"):
        loss(x, np.array([-1, -4]), ignore_index=-1)
    with pytest.raises(OptionError, match="given 'avg'"):
        loss(x, np.array([0, 1]), reduction="avg")
    with pytest.raises(OptionError, match=r"\[0, 1\]\n  given 1.5"):
        loss(x, np.array([0, 1]), label_smoothing=1.5)
    with pytest.raises(OptionError, match=r"\[0, 1\]\n  given -0.5"):
        loss(x, np.array([0, 1]), label_smoothing=-0.5)
    with pytest.raises(OptionError, match="the target holds probabilities"):
        loss(x, np.full((2, 3), 1 / 3), ignore_index=0)
    with pytest.raises(ShapeError, match=r"expected \(3,\), given \(2,\)"):
        loss(x, np.array([0, 1]), weight=np.ones(2))
    with pytest.raises(GradientError, match=r"pass weight\.detach\(\)"):
        loss(x, np.array([0, 1]), weight=ta.Tensor(np.ones(3), requires_grad=True))


# --- numbers ---------------------------------------------------------------------------------------------------------


@given(seeds)
def test_the_mean_squared_error_is_the_square_of_the_distance_over_n(seed: int) -> None:
    a, b = values(2, 3, seed=seed), values(2, 3, seed=seed + 1)
    value, gradient = pulled(ta.mse_loss, a, b)
    assert_allclose(value, np.linalg.norm(a - b) ** 2 / 6)
    assert_allclose(gradient, (a - b) / 3)
    assert_allclose(pulled(lambda t: ta.mse_loss(a, t), b)[1], -gradient)


def test_shapes_that_would_only_broadcast_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"prediction  \(3, 1\)\n    target      \(3,\)"):
        ta.mse_loss(ta.Tensor(np.ones((3, 1))), np.ones(3))
    with pytest.raises(ShapeError, match="bce_with_logits: logits and target must have one shape"):
        ta.bce_with_logits(ta.Tensor(np.ones((3, 1))), 1.0)
    with pytest.raises(ShapeError, match="must broadcast to the logits"):
        ta.bce_with_logits(ta.Tensor(np.ones(3)), np.ones(3), weight=np.ones((2, 3)))


# --- yes or no -------------------------------------------------------------------------------------------------------


@given(seeds, st.sampled_from(REDUCTIONS))
def test_yes_or_no_is_a_choice_between_two_classes(seed: int, reduction: str) -> None:
    x = values(5, seed=seed) * 3.0
    t = np.random.default_rng(seed).uniform(size=5)
    assert_same(
        pulled(ta.bce_with_logits, x, t, reduction=reduction),
        pulled(
            lambda v: ta.cross_entropy(np.stack([v * 0.0, v], -1), np.stack([1.0 - t, t], -1), reduction=reduction), x
        ),
    )


@pytest.mark.parametrize(
    ("logit", "target", "loss", "gradient"),
    [
        (1000.0, 1.0, 0.0, 0.0),
        (1000.0, 0.0, 1000.0, 1.0),
        (-1000.0, 0.0, 0.0, 0.0),
        (-1000.0, 1.0, 1000.0, -1.0),
        (-40.0, 0.0, math.exp(-40.0), math.exp(-40.0)),
        (0.0, 0.5, math.log(2.0), 0.0),
    ],
)
def test_certainty_costs_what_it_should(logit: float, target: float, loss: float, gradient: float) -> None:
    found = pulled(ta.bce_with_logits, logit, np.array(target))
    assert_allclose(found, (loss, gradient), rtol=1e-14)


@given(seeds)
def test_a_yes_of_weight_3_counts_as_three(seed: int) -> None:
    x, t = values(4, seed=seed), np.array([1.0, 0.0, 1.0, 0.0])
    repeated = np.concatenate([np.arange(4), [0, 2, 0, 2]])
    whole = pulled(lambda v: ta.bce_with_logits(v[repeated], t[repeated], reduction="sum"), x)
    assert_same(pulled(ta.bce_with_logits, x, t, pos_weight=3.0, reduction="sum"), whole)
    assert_same(pulled(ta.bce_with_logits, x, t, weight=[3.0, 1.0, 3.0, 1.0], reduction="sum"), whole)


@given(seeds)
def test_the_loss_is_linear_in_the_target(seed: int) -> None:
    """So its slope by the target is what a yes costs more than a no."""
    x, weights = values(4, seed=seed), {"weight": [1.0, 2.0, 3.0, 4.0], "pos_weight": 5.0}
    yes, no = (ta.bce_with_logits(x, np.full(4, t), reduction="sum", **weights) for t in (1.0, 0.0))
    _, gradient = pulled(lambda t: ta.bce_with_logits(x, t, reduction="sum", **weights), np.full(4, 0.3))
    assert_allclose(np.sum(gradient), yes - no, rtol=1e-10)


# --- distributions ---------------------------------------------------------------------------------------------------


@given(seeds)
def test_divergence_is_cross_entropy_less_entropy_and_never_negative(seed: int) -> None:
    logits = values(3, 4, seed=seed)
    p = ta.softmax(values(3, 4, seed=seed + 1))
    value, gradient = pulled(lambda x: ta.kl_divergence(ta.log_softmax(x), p), logits)
    cross = pulled(ta.cross_entropy, logits, p)
    assert_allclose(value, cross[0] + np.sum(p * np.log(p)) / 3, rtol=1e-9)
    assert_allclose(gradient, cross[1], rtol=1e-9, atol=1e-12)
    assert value >= 0.0
    assert_allclose(ta.kl_divergence(np.log(p), p), 0.0, atol=1e-15)


def test_what_never_happens_costs_nothing() -> None:
    p, log_q = np.array([0.0, 1.0]), np.array([-np.inf, 0.0])
    assert ta.kl_divergence(log_q, p) == 0.0
    both = [ta.Tensor(x, requires_grad=True) for x in (log_q, p)]
    ta.kl_divergence(*both).backward()
    assert_array_equal(both[0].grad, [0.0, -1.0])
    assert_array_equal(both[1].grad, [0.0, 1.0])


def test_what_happens_though_it_was_held_impossible_costs_everything() -> None:
    assert ta.kl_divergence(np.array([-np.inf, 0.0]), np.array([0.5, 0.5])) == np.inf


def test_the_loss_of_each_place() -> None:
    p = np.array([[0.5, 0.5], [1.0, 0.0]])
    log_q = np.log([[0.5, 0.5], [0.25, 0.75]])
    assert_allclose(ta.kl_divergence(log_q, p, reduction="none"), [0.0, math.log(4.0)], atol=1e-15)
    assert_allclose(ta.kl_divergence(log_q, p), math.log(4.0) / 2)
