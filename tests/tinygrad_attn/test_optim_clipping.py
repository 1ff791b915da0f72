"""The norm of all gradients, and clipping by it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tinygrad_attn.optimisers import parameters
from tinygrad_attn import Tensor, nn, optim
from tinygrad_attn.errors import DtypeError, OptionError


@given(st.lists(st.lists(st.floats(-1e3, 1e3), max_size=4), max_size=4), st.floats(1e-3, 1e4))
def test_clipped_gradients_keep_their_direction_and_have_at_most_the_norm(rows, max_norm):
    params = [nn.Parameter(np.zeros(len(row))) for row in rows]
    for parameter, row in zip(params, rows, strict=True):
        parameter.grad = np.array(row, dtype=np.float64)
    before = [p.grad.copy() for p in params]
    expected = math.hypot(*(value for row in rows for value in row))
    norm = optim.clip_grad_norm(iter(params), max_norm)
    assert math.isclose(norm, expected, rel_tol=1e-9, abs_tol=1e-300)
    scale = min(1.0, max_norm / expected) if expected else 1.0
    for parameter, gradient in zip(params, before, strict=True):
        np.testing.assert_allclose(parameter.grad, gradient * scale, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1.0, 1e20, 3e38])
def test_norms_are_right_where_squares_leave_float32(size):
    (parameter,) = parameters((4,), dtype=np.float32)
    parameter.grad = np.full(4, size, np.float32)
    assert math.isclose(optim.clip_grad_norm([parameter], math.inf), 2.0 * size, rel_tol=1e-6)


@pytest.mark.parametrize("size", [2.0**-20, 0.25, 100.0])
def test_half_precision_gradients_are_measured_in_single_precision(size):
    (parameter,) = parameters((4096,), dtype=np.float16)
    parameter.grad = np.full(4096, size, np.float16)
    assert math.isclose(optim.clip_grad_norm([parameter], 0.5 * size), 64.0 * size, rel_tol=1e-6)
    np.testing.assert_allclose(parameter.grad, size / 128.0, rtol=1e-3, atol=6e-8)


def test_a_parameter_given_twice_counts_once():
    (parameter,) = parameters((2,))
    parameter.grad = np.array([3.0, 4.0])
    assert optim.clip_grad_norm([parameter, parameter], math.inf) == 5.0


@pytest.mark.parametrize(
    "given", [nn.Linear(1, 1), [{"params": []}], [1.0], 3], ids=["model", "groups", "number", "int"]
)
def test_only_tensors_are_clipped(given):
    with pytest.raises(DtypeError, match=r"model\.parameters\(\)"):
        optim.clip_grad_norm(given, 1.0)


@pytest.mark.parametrize("max_norm", ["1", None, -1.0, math.nan])
def test_the_norm_is_a_number_that_is_not_negative(max_norm):
    with pytest.raises(OptionError, match="max_norm"):
        optim.clip_grad_norm(parameters((2,)), max_norm)


def test_a_complex_gradient_counts_with_both_parts():
    parameter = Tensor(np.zeros(2, complex), requires_grad=True)
    for scale in (1.0, 1e200):
        parameter.grad = np.array([3.0, 4j]) * scale
        assert optim.clip_grad_norm([parameter], 1.0) == pytest.approx(5.0 * scale)
        np.testing.assert_allclose(parameter.grad, [0.6, 0.8j])
