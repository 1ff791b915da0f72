"""Reductions: products exact with zeros, the two names of a correction, and NumPy's own calls."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import values
from tinygrad_attn.errors import OptionError

factors = st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, -3.0, 0.5]), min_size=1, max_size=6)


def variable(x: Any) -> ta.Tensor:
    return ta.Tensor(x, dtype=np.float64, requires_grad=True)


# --- running products ------------------------------------------------------------------------------------------------


def without(x: list[float], j: int, i: int) -> float:
    """Product of the first i + 1 elements, the j-th left out; 0 if the j-th comes later."""
    return float(np.prod([x[k] for k in range(i + 1) if k != j])) if j <= i else 0.0


@given(factors, st.integers(0, 2**32 - 1))
def test_N2_the_gradient_of_a_running_product_is_exact_with_zeros(x: list[float], seed: int) -> None:
    upstream = np.random.default_rng(seed).integers(-3, 4, len(x)).astype(np.float64)
    t = variable(x)
    np.cumprod(t).backward(upstream)
    expected = [sum(upstream[i] * without(x, j, i) for i in range(len(x))) for j in range(len(x))]
    assert_allclose(t.grad, expected, rtol=1e-12)


@given(factors)
def test_N2_the_last_of_a_running_product_is_the_product_at_every_order(x: list[float]) -> None:
    for order in (ta.grad, ta.hessian):
        last, whole = order(lambda t: np.cumprod(t)[-1]), order(np.prod)
        assert_allclose(last(np.array(x)).numpy(), whole(np.array(x)).numpy(), rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_a_running_product_along_any_axis(axis: int | None) -> None:
    x, upstream = values(2, 3), values(2, 3, seed=1)
    t = variable(x)
    out = np.cumprod(t, axis)
    assert_array_equal(out.numpy(), np.cumprod(x, axis))
    out.backward(upstream.reshape(out.shape))
    logarithmic = variable(x)  # the textbook's way, which divides: y = e^(Σ ln x)
    y = np.exp(np.cumsum(np.log(np.abs(logarithmic)), axis)) * np.cumprod(np.sign(x), axis)
    y.backward(upstream.reshape(out.shape))
    assert_allclose(t.grad, logarithmic.grad, rtol=1e-9)


def test_a_running_product_of_nothing() -> None:
    t = variable(np.ones((0, 3)))
    np.cumprod(t, axis=0).backward(np.ones((0, 3)))
    assert t.grad is not None and t.grad.shape == (0, 3)


# --- var and std -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["var", "std"])
def test_ddof_is_another_name_for_correction(name: str) -> None:
    x, numpy_function = values(3, 4), getattr(np, name)
    by_position = numpy_function(variable(x), 0, None, None, 1)
    for out in (numpy_function(variable(x), axis=0, ddof=1), numpy_function(variable(x), 0, correction=1), by_position):
        assert_array_equal(out.numpy(), numpy_function(x, axis=0, ddof=1))
    assert numpy_function(variable(x), axis=0, ddof=1, keepdims=True).shape == (1, 4)
    ta.gradcheck(lambda t: numpy_function(t, axis=1, ddof=1), x, order=2)


def test_both_names_of_a_correction_are_one_too_many() -> None:
    with pytest.raises(OptionError, match="two names of one thing"):
        np.var(variable([1.0, 2.0]), ddof=1, correction=1)


@given(st.lists(st.floats(-5.0, 5.0), min_size=2, max_size=5), st.floats(-100.0, 100.0))
def test_a_shift_changes_no_variance_so_that_its_slopes_add_up_to_0(x: list[float], shift: float) -> None:
    t = variable(np.array(x) + shift)
    np.var(t, ddof=1).backward()
    assert_allclose(np.sum(t.grad), 0.0, atol=1e-9)


# --- logarithm of a sum of exponentials ------------------------------------------------------------------------------


@pytest.mark.parametrize("small", [-40.0, -100.0, -700.0])
def test_what_is_far_below_the_peak_is_not_lost_where_the_result_is_near_0(small: float) -> None:
    expected = np.logaddexp(0.0, small)
    assert expected != 0.0
    assert_allclose(ta.logsumexp(np.array([0.0, small])), expected, rtol=1e-15)
    assert_allclose(ta.logsumexp(np.array([small, 0.0, small])), 2.0 * expected, rtol=1e-15)


@given(st.lists(st.integers(-400, 400).map(lambda n: n / 8), min_size=1, max_size=6))
def test_logsumexp_keeps_its_digits(x: list[float]) -> None:
    """Against arithmetic with 60 digits, which e^50 beside e^−50 asks for."""
    with decimal.localcontext() as context:
        context.prec = 60
        expected = sum(decimal.Decimal(value).exp() for value in x).ln()
    # Values near ±x that cancel are the input's own doubt: half a unit in the last place of the largest.
    assert_allclose(ta.logsumexp(np.array(x)), float(expected), rtol=4e-16, atol=2e-16 * max(map(abs, x)))


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([np.inf, 1000.0], np.inf),
        ([-np.inf, -np.inf], -np.inf),
        ([np.inf, -np.inf], np.inf),
        ([np.nan, 0.0], np.nan),
        ([-1e308, 1e308], 1e308),
        ([7.5], 7.5),
        ([0.0, -0.0], np.log(2.0)),
    ],
)
def test_logsumexp_of_what_is_not_finite_or_equal(x: list[float], expected: float) -> None:
    assert_array_equal(ta.logsumexp(np.array(x)), expected)


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "cumsum", "cumprod", "logsumexp"])
@pytest.mark.parametrize("axis", [0, -1])
def test_where_numpy_lets_a_single_number_have_an_axis_its_gradient_is_one(name: str, axis: int) -> None:
    x = ta.Tensor(2.0, requires_grad=True)
    getattr(ta, name)(x, axis=axis).sum().backward()
    np.testing.assert_allclose(x.grad, 1.0)
    assert x.grad is not None and x.grad.shape == ()


def test_equal_elements_among_others_have_no_spread_and_no_slope() -> None:
    x = ta.Tensor(np.array([[2.0, 2.0, 9.0], [1.0, 3.0, 9.0]]), requires_grad=True)
    spread = np.std(x, axis=1, where=np.array([True, True, False]))
    np.testing.assert_array_equal(spread.numpy(), [0.0, 1.0])
    spread.backward(np.ones(2))
    np.testing.assert_allclose(x.grad, [[0.0, 0.0, 0.0], [-0.5, 0.5, 0.0]])
