"""Losses, normalisation and reductions against PyTorch: values, gradients, second derivatives, chosen differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.conftest import require
from tests.parity.peer import Function, assert_equals_torch

torch = require("torch")
functional = torch.nn.functional


def cross_entropy(
    logits: Any, target: Any, *, weight: Any, ignore_index: int | None, label_smoothing: float, reduction: str
) -> Any:
    classes = logits.shape[-1]
    ignored = -100 if ignore_index is None else ignore_index
    if reduction == "mean" and not (target != ignored).any():
        return None  # the mean over no place at all: 0 here, NaN there
    losses = functional.cross_entropy(
        logits.reshape(-1, classes),
        target.reshape(-1, classes) if target.dtype == torch.float64 else target.reshape(-1),
        weight=None if weight is None else torch.tensor(weight),
        ignore_index=ignored,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )
    return losses.reshape(logits.shape[:-1]) if reduction == "none" else losses


def binary_cross_entropy(logits: Any, target: Any, *, weight: Any, pos_weight: Any, reduction: str) -> Any:
    given = {"weight": weight, "pos_weight": pos_weight}
    weights = {name: None if value is None else torch.tensor(value) for name, value in given.items()}
    return functional.binary_cross_entropy_with_logits(logits, target, reduction=reduction, **weights)


def kl_divergence(log_prediction: Any, target: Any, *, reduction: str) -> Any:
    losses = functional.kl_div(log_prediction, target, reduction="none").sum(-1)
    return losses if reduction == "none" else getattr(losses, reduction)()


def cumprod(x: Any, *, axis: int | None) -> Any:
    return torch.cumprod(x.reshape(-1), 0) if axis is None else torch.cumprod(x, axis)


def spread(function: Function) -> Function:
    def theirs(x: Any, *, axis: Any, keepdims: bool, correction: float) -> Any:
        if axis == () or x.ndim == 0:
            return None  # PyTorch reads no axis as all axes
        return function(x, dim=axis, keepdim=keepdims, correction=correction)

    return theirs


THEIRS: dict[str, Function] = {
    "mse_loss": functional.mse_loss,
    "bce_with_logits": binary_cross_entropy,
    "kl_divergence": kl_divergence,
    "cross_entropy": cross_entropy,
    "layer_norm": lambda x, gain, bias, *, eps: functional.layer_norm(x, gain.shape, gain, bias, eps),
    "rms_norm": lambda x, gain, *, eps: functional.rms_norm(x, gain.shape, gain, eps),
    "cumprod": cumprod,
    "var": spread(torch.var),
}


@pytest.mark.parametrize("name", THEIRS)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_gradients_and_second_derivatives_are_pytorchs(name: str, seed: int) -> None:
    assert_equals_torch(name, THEIRS[name], seed)


def test_the_standard_deviation_is_pytorchs() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4))
    ours, twin = ta.Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    np.std(ours, axis=1, ddof=1).backward(np.ones(3))
    torch.std(twin, dim=1, correction=1).backward(torch.ones(3, dtype=torch.float64))
    assert_allclose(ours.grad, twin.grad.numpy(), rtol=1e-12)


# --- where we differ on purpose --------------------------------------------------------------------------------------


def test_difference_the_mean_over_no_place_is_0_and_not_nan() -> None:
    logits = ta.Tensor(np.ones((2, 3)), requires_grad=True)
    loss = ta.cross_entropy(logits, np.array([1, 1]), ignore_index=1)
    loss.backward()
    twin = functional.cross_entropy(torch.ones(2, 3), torch.tensor([1, 1]), ignore_index=1)
    assert loss.item() == 0.0 and torch.isnan(twin)
    assert_array_equal(logits.grad, np.zeros((2, 3)))


def test_difference_the_mean_of_kl_divergence_is_pytorchs_batchmean() -> None:
    p, q = np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([[0.25, 0.75], [0.5, 0.5]])
    ours = ta.kl_divergence(np.log(q), p)
    both = [functional.kl_div(torch.tensor(np.log(q)), torch.tensor(p), reduction=r) for r in ("batchmean", "sum")]
    assert_allclose(ours, both[0].item(), rtol=1e-12)
    assert_allclose(ours * 2, both[1].item(), rtol=1e-12)


def test_difference_a_loss_of_two_shapes_is_refused_and_not_broadcast() -> None:
    with pytest.raises(ta.errors.ShapeError, match="must have one shape"):
        ta.mse_loss(ta.Tensor(np.ones((3, 1))), np.ones(3))


def test_difference_the_slope_of_kl_divergence_by_an_absent_class_is_0_and_not_nan() -> None:
    target = ta.Tensor(np.array([0.0, 1.0]), requires_grad=True)
    ta.kl_divergence(np.log([0.5, 0.5]), target).backward()
    twin = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
    functional.kl_div(torch.log(torch.tensor([0.5, 0.5])), twin, reduction="sum").backward()
    assert target.grad is not None and target.grad[0] == 0.0
    assert np.isnan(twin.grad[0].item())
    assert_allclose(target.grad[1], twin.grad[1].item())
