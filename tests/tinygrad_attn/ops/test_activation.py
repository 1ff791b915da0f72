"""Activations: their values far out, their slopes at kinks, and what ties one to another."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta

Function = Callable[..., Any]
number = st.floats(-8.0, 8.0)

KINKS: dict[str, tuple[Function, float, float]] = {
    "relu at 0": (ta.relu, 0.0, 0.0),
    "relu6 at 0": (ta.relu6, 0.0, 0.0),
    "relu6 at 6": (ta.relu6, 6.0, 0.0),
    "leaky_relu at 0": (ta.leaky_relu, 0.0, 0.01),
    "leaky_relu at -0": (ta.leaky_relu, -0.0, 0.01),
    "elu at 0": (lambda x: ta.elu(x, alpha=0.5), 0.0, 0.5),
    "hardswish at -3": (ta.hardswish, -3.0, 0.0),
    "hardswish at 3": (ta.hardswish, 3.0, 1.0),
    "softsign at 0, which is smooth": (ta.softsign, 0.0, 1.0),
    "gelu at 0, which is smooth": (ta.gelu, 0.0, 0.5),
}

# Value and slope at −1000 and at 1000.
FAR_OUT: dict[str, tuple[Function, list[float], list[float]]] = {
    "leaky_relu": (lambda x: ta.leaky_relu(x, negative_slope=0.5), [-500.0, 1000.0], [0.5, 1.0]),
    "elu": (ta.elu, [-1.0, 1000.0], [0.0, 1.0]),
    "relu6": (ta.relu6, [0.0, 6.0], [0.0, 0.0]),
    "hardswish": (ta.hardswish, [0.0, 1000.0], [0.0, 1.0]),
    "log_sigmoid": (ta.log_sigmoid, [-1000.0, 0.0], [1.0, 0.0]),
    "softsign": (ta.softsign, [-1000 / 1001, 1000 / 1001], [1001.0**-2, 1001.0**-2]),
    "gelu": (ta.gelu, [0.0, 1000.0], [0.0, 1.0]),
    "gelu_tanh": (ta.gelu_tanh, [0.0, 1000.0], [0.0, 1.0]),
    "silu": (ta.silu, [0.0, 1000.0], [0.0, 1.0]),
}


def slope(f: Function, at: Any, dtype: Any = np.float64) -> Any:
    x = ta.Tensor(at, dtype=dtype, requires_grad=True)
    f(x).sum().backward()
    return x.grad


@pytest.mark.parametrize(("f", "at", "expected"), KINKS.values(), ids=KINKS)
def test_N9_each_kink_has_one_stated_slope(f: Function, at: float, expected: float) -> None:
    assert slope(f, at) == expected


@pytest.mark.parametrize(("f", "values", "gradient"), FAR_OUT.values(), ids=FAR_OUT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_out_nothing_overflows(f: Function, values: list[float], gradient: list[float], dtype: Any) -> None:
    x = np.array([-1000.0, 1000.0], dtype)
    assert_allclose(f(x), values, rtol=1e-6)
    assert f(x).dtype == dtype
    assert_allclose(slope(f, x, dtype), gradient, rtol=1e-6)


@given(number)
def test_gelu_of_x_and_of_minus_x_differ_by_x(x: float) -> None:
    """Since Φ(x) + Φ(−x) = 1; with the slopes it follows that they add up to 1."""
    assert_allclose(ta.gelu(np.array(x)) - ta.gelu(np.array(-x)), x, rtol=1e-12, atol=1e-300)
    assert_allclose(slope(ta.gelu, x) + slope(ta.gelu, -x), 1.0, rtol=1e-12)


@given(st.floats(-30.0, 30.0))
def test_gelu_keeps_its_digits_where_it_is_small(x: float) -> None:
    assert_allclose(ta.gelu(np.array(x)), x * 0.5 * math.erfc(-x / math.sqrt(2.0)), rtol=1e-12, atol=1e-300)


@given(number)
def test_the_slope_of_gelu_is_the_normal_distribution_plus_x_times_its_density(x: float) -> None:
    below, density = 0.5 * math.erfc(-x / math.sqrt(2.0)), math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    assert_allclose(slope(ta.gelu, x), below + x * density, rtol=1e-10, atol=1e-15)


@given(st.floats(-30.0, 30.0))
def test_the_tanh_form_of_gelu_is_nowhere_off_by_more_than_five_ten_thousandths(x: float) -> None:
    assert abs(ta.gelu(np.array(x)) - ta.gelu_tanh(np.array(x))) < 5e-4


@given(number)
def test_log_sigmoid_is_the_logarithm_of_the_sigmoid(x: float) -> None:
    assert_allclose(ta.log_sigmoid(np.array(x)), math.log(ta.sigmoid(np.array(x))), rtol=1e-12)
    assert_allclose(slope(ta.log_sigmoid, x), slope(lambda t: np.log(ta.sigmoid(t)), x), rtol=1e-9)


@given(number)
def test_relus_are_made_of_relu(x: float) -> None:
    t = np.array(x)
    assert_allclose(ta.leaky_relu(t, negative_slope=0.2), ta.relu(t) - 0.2 * ta.relu(-t), rtol=1e-15)
    assert_allclose(ta.relu6(t), ta.relu(t) - ta.relu(t - 6.0), rtol=1e-12, atol=1e-12)
    assert_allclose(ta.hardswish(t), t * ta.relu6(t + 3.0) / 6.0, rtol=1e-15)
    assert_allclose(ta.elu(t, alpha=1.0), ta.relu(t) + np.expm1(-ta.relu(-t)), rtol=1e-12)


def test_the_second_derivative_of_elu_is_that_of_its_lower_half() -> None:
    curvature = np.diag(ta.hessian(lambda x: ta.elu(x, alpha=0.5).sum())(np.array([-1.0, 0.0, 2.0, 800.0])).numpy())
    assert_allclose(curvature, [0.5 * math.exp(-1.0), 0.5, 0.0, 0.0], rtol=1e-15)


def test_nan_goes_through_every_activation() -> None:
    for f in (ta.relu, ta.leaky_relu, ta.elu, ta.relu6, ta.hardswish, ta.log_sigmoid, ta.softsign, ta.gelu, ta.silu):
        with np.errstate(invalid="ignore"):
            assert_array_equal(f(np.array([np.nan])), [np.nan])
