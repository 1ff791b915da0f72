"""The error function against Python's own, which is written in C."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta

# Every approximation, the places where one hands over to the next, and what is next to them.
PLACES = np.concatenate(
    [
        np.linspace(-7.0, 7.0, 20001),
        np.linspace(7.0, 26.0, 5001),
        np.logspace(-300, 0, 601),
        -np.logspace(-300, 0, 601),
        [np.nextafter(c, c + d) for c in (0.46875, 4.0, -0.46875, -4.0) for d in (-1.0, 0.0, 1.0)],
    ]
)


def test_erf_is_exact_to_1e_15_of_its_value() -> None:
    assert_allclose(ta.erf(PLACES), [math.erf(x) for x in PLACES], rtol=1e-15, atol=0.0)


def test_erfc_is_exact_to_1e_15_of_its_value_however_small_it_gets() -> None:
    assert_allclose(ta.erfc(PLACES), [math.erfc(x) for x in PLACES], rtol=1e-15, atol=0.0)


@given(st.floats(-10.0, 10.0))
def test_the_two_add_up_to_one_and_erf_is_odd(x: float) -> None:
    assert_allclose(ta.erf(np.array(x)) + ta.erfc(np.array(x)), 1.0, rtol=1e-15)
    assert ta.erf(np.array(-x)) == -ta.erf(np.array(x))


def test_float32_is_rounded_once() -> None:
    x = PLACES[np.abs(PLACES) < 9].astype(np.float32)
    for ours, exact in ((ta.erf, math.erf), (ta.erfc, math.erfc)):
        found = ours(x)
        assert found.dtype == np.float32
        expected = np.array([exact(float(value)) for value in x])
        normal = np.abs(expected) > 1e-37
        assert_allclose(found[normal], expected[normal], rtol=2.0**-24 * 1.001)


def test_edges() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300])
    assert_array_equal(ta.erf(x), [0.0, -0.0, 1.0, -1.0, np.nan, 1.0, -1.0])
    assert_array_equal(np.signbit(ta.erf(x[:2])), [False, True])
    assert_array_equal(ta.erfc(x), [1.0, 1.0, 0.0, 2.0, np.nan, 0.0, 2.0])
    assert ta.erf(np.zeros((0, 3))).shape == (0, 3) and ta.erf(np.float64(1.0)).shape == ()
    assert_allclose(ta.erf(1), math.erf(1), rtol=1e-15)  # whole numbers become float64


@pytest.mark.parametrize("unit", ["erf", "erfc"])
def test_its_slope_is_the_bell(unit: str) -> None:
    x = ta.Tensor(np.array([-30.0, -1.0, 0.0, 0.5, 30.0]), requires_grad=True)
    getattr(ta, unit)(x).sum().backward()
    sign = 1.0 if unit == "erf" else -1.0
    bell = 2.0 / math.sqrt(math.pi) * np.exp([-900.0, -1.0, 0.0, -0.25, -900.0])
    assert_allclose(x.grad, sign * bell, rtol=1e-15)
