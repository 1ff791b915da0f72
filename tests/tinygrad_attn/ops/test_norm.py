"""What normalising must and must not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import values

seeds = st.integers(0, 2**32 - 1)


def pulled(x: Any, gain: Any, upstream: Any, eps: float) -> tuple[Any, Any, Any]:
    """Result of rms_norm and its gradients."""
    t, g = ta.Tensor(x, requires_grad=True), ta.Tensor(gain, requires_grad=True)
    out = ta.rms_norm(t, g, eps=eps)
    out.backward(upstream)
    return out.numpy(), t.grad, g.grad


@given(seeds)
def test_rms_norm_gives_every_row_the_mean_square_1(seed: int) -> None:
    x = values(4, 5, seed=seed) * 10.0
    assert_allclose(np.mean(ta.rms_norm(x, np.ones(5), eps=0.0) ** 2, axis=-1), 1.0, rtol=1e-12)


@given(seeds, st.floats(0.1, 100.0))
def test_stretching_the_input_changes_nothing_so_that_the_gradient_is_across_it(seed: int, factor: float) -> None:
    x, gain, upstream = values(4, 5, seed=seed), values(5, seed=seed), values(4, 5, seed=seed + 1)
    out, dx, _ = pulled(x, gain, upstream, eps=0.0)
    stretched, stretched_dx, _ = pulled(factor * x, gain, upstream, eps=0.0)
    assert_allclose(stretched, out, rtol=1e-10)
    assert_allclose(stretched_dx, dx / factor, rtol=1e-9, atol=1e-12)
    assert_allclose(np.sum(dx * x, axis=-1), 0.0, atol=1e-10)


@given(seeds)
def test_of_a_centred_row_it_is_layer_norm(seed: int) -> None:
    x, gain = values(3, 6, seed=seed), values(6, seed=seed)
    x -= x.mean(axis=-1, keepdims=True)
    assert_allclose(ta.rms_norm(x, gain), ta.layer_norm(x, gain, np.zeros(6)), rtol=1e-12, atol=1e-12)


def test_a_row_of_zeros_stays_one_and_has_finite_gradients() -> None:
    out, dx, dgain = pulled(np.zeros((1, 3)), np.ones(3), np.array([[1.0, -2.0, 3.0]]), eps=1e-5)
    assert_array_equal(out, np.zeros((1, 3)))
    assert_allclose(dx, np.array([[1.0, -2.0, 3.0]]) / np.sqrt(1e-5), rtol=1e-12)
    assert_array_equal(dgain, np.zeros(3))


def test_one_number_per_row_by_hand() -> None:
    out, dx, dgain = pulled(np.array([[3.0, 4.0]]), np.array([1.0, 2.0]), np.array([[1.0, 0.0]]), eps=0.0)
    rms = np.sqrt(12.5)
    assert_allclose(out, [[3.0 / rms, 8.0 / rms]])
    assert_allclose(dx, [[(1.0 - 9.0 / 25.0) / rms, -12.0 / 25.0 / rms]])
    assert_allclose(dgain, [3.0 / rms, 0.0])


def test_a_gain_of_another_width_is_refused() -> None:
    with pytest.raises(ta.errors.ShapeError, match="rms_norm"):
        ta.rms_norm(ta.Tensor(np.ones((2, 3))), ta.Tensor(np.ones(4)))
