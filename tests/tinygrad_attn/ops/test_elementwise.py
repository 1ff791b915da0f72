"""Identities of exponentials, logarithms and roots, and their singular points."""

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
positive = st.floats(0.1, 50.0)
any_number = st.floats(-50.0, 50.0)


def variable(values: Any, dtype: Any = np.float64) -> ta.Tensor:
    return ta.Tensor(values, dtype=dtype, requires_grad=True)


def slopes(f: Function, *at: Any) -> list[Any]:
    """Gradients of f at a point; NumPy's warnings are the point's own affair."""
    inputs = [variable(x) for x in at]
    with np.errstate(all="ignore"):
        f(*inputs).sum().backward()
    return [x.grad for x in inputs]


@pytest.mark.parametrize(("log", "base"), [(np.log2, 2.0), (np.log10, 10.0), (np.log, math.e)])
@given(x=positive)
def test_a_logarithm_to_another_base_is_the_natural_one_divided(log: Function, base: float, x: float) -> None:
    assert_allclose(log(variable(x)).numpy(), math.log(x) / math.log(base), rtol=1e-12, atol=1e-14)
    assert_allclose(slopes(log, x), [1.0 / (x * math.log(base))], rtol=1e-12)


@given(any_number)
def test_log2_undoes_exp2(x: float) -> None:
    assert_allclose(np.log2(np.exp2(variable(x))).numpy(), x, rtol=1e-12, atol=1e-12)
    assert_allclose(slopes(lambda t: np.log2(np.exp2(t)), x), [1.0], rtol=1e-12)
    assert_allclose(slopes(np.exp2, x), [2.0**x * math.log(2.0)], rtol=1e-12)


@given(positive, st.sampled_from([-1.0, 1.0]))
def test_cbrt_undoes_the_cube_also_of_negative_numbers(size: float, sign: float) -> None:
    x = sign * size
    assert_allclose(np.cbrt(variable(x) ** 3).numpy(), x, rtol=1e-12)
    assert_allclose(slopes(lambda t: np.cbrt(t**3), x), [1.0], rtol=1e-12)


@pytest.mark.parametrize("f", [np.sqrt, np.cbrt, np.log, np.log2, np.log10])
def test_infinite_slopes_at_0_stay_infinite(f: Function) -> None:
    assert slopes(f, 0.0) == [np.inf]


@given(any_number, any_number)
def test_logaddexp_is_the_logsumexp_of_two(a: float, b: float) -> None:
    both = variable([a, b])
    ta.logsumexp(both).backward()
    assert_allclose(np.logaddexp(variable(a), b).numpy(), ta.logsumexp(both).numpy(), rtol=1e-12, atol=1e-15)
    assert_allclose(slopes(np.logaddexp, a, b), both.grad, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    ("a", "b", "value", "gradient"),
    [
        (1000.0, 1000.0, 1000.0 + math.log(2.0), [0.5, 0.5]),
        (1000.0, -1000.0, 1000.0, [1.0, 0.0]),
        (-math.inf, 3.0, 3.0, [0.0, 1.0]),
        (math.inf, 3.0, math.inf, [1.0, 0.0]),
        (-math.inf, -math.inf, -math.inf, [0.0, 0.0]),
    ],
)
def test_logaddexp_neither_overflows_nor_makes_nan(a: float, b: float, value: float, gradient: list[float]) -> None:
    assert_allclose(np.logaddexp(variable(a), variable(b)).numpy(), value, rtol=1e-15)
    assert slopes(np.logaddexp, a, b) == gradient


def test_logaddexp_keeps_its_slope_exact_where_its_value_is_rounded() -> None:
    a, b = variable(1e4, np.float32), variable(1e4 - 1.0, np.float32)
    np.logaddexp(a, b).backward()
    assert_allclose([a.grad, b.grad], [1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1))], rtol=1e-6)


def test_float_power_computes_in_float64_and_hands_back_the_inputs_dtype() -> None:
    x = variable([2.0, 3.0], np.float32)
    y = np.float_power(x, [2, -1])
    y.backward(np.ones(2))
    assert y.dtype == np.float64
    assert_allclose(y.numpy(), [4.0, 1.0 / 3.0], rtol=1e-15)
    assert x.grad is not None and x.grad.dtype == np.float32
    assert_allclose(x.grad, [4.0, -1.0 / 9.0], rtol=1e-6)
    assert_array_equal(np.float_power(2, x).numpy(), [4.0, 8.0])


# --- remainders ------------------------------------------------------------------------------------------------------


@given(st.floats(-20.0, 20.0), st.floats(0.3, 5.0), st.sampled_from([-1.0, 1.0]))
def test_a_remainder_and_its_slope_belong_to_the_same_number_of_steps(a: float, size: float, sign: float) -> None:
    """Also where a / b is rounded to the next whole number, or is one."""
    b = sign * size
    for f, python in ((np.remainder, lambda p, q: p % q), (np.fmod, math.fmod)):
        value = f(variable(a), b).item()
        assert value == pytest.approx(python(a, b), abs=1e-12)
        by_a, by_b = slopes(f, a, b)
        assert by_a == 1.0 and by_b == np.rint(by_b)
        assert_allclose(a + by_b * b, value, atol=1e-12)


def test_one_tenth_goes_into_one_nine_times_as_numpy_counts() -> None:
    assert 1.0 / 0.1 == 10.0 and np.remainder(1.0, 0.1) > 0.09
    assert slopes(np.remainder, 1.0, 0.1) == [1.0, -9.0]


def test_the_two_remainders_differ_in_whose_sign_they_take() -> None:
    assert slopes(np.remainder, -7.0, 3.0) == [1.0, 3.0]  # −7 = −3 · 3 + 2
    assert slopes(np.fmod, -7.0, 3.0) == [1.0, 2.0]  # −7 = −2 · 3 − 1
    assert slopes(np.remainder, 6.0, 3.0) == [1.0, -2.0]  # a jump: the side on which y = 0
