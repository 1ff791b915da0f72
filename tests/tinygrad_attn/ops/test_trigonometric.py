"""Identities of angles and hyperbolas, and what happens at the ends of the inverse functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.diagnose import detect_anomaly
from tinygrad_attn.errors import NotFiniteError

Function = Callable[..., Any]

# Each function, its inverse, and where the inverse gives back what went in.
INVERSES: dict[str, tuple[Function, Function, float, float]] = {
    "sin": (np.sin, np.arcsin, -1.5, 1.5),
    "cos": (np.cos, np.arccos, 0.1, 3.0),
    "tan": (np.tan, np.arctan, -1.5, 1.5),
    "sinh": (np.sinh, np.arcsinh, -3.0, 3.0),
    "cosh": (np.cosh, np.arccosh, 0.1, 3.0),
    "tanh": (np.tanh, np.arctanh, -3.0, 3.0),
}


def variable(values: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True)


def slopes(f: Function, *at: Any) -> list[Any]:
    """Gradients of f at a point; NumPy's warnings are the point's own affair."""
    inputs = [variable(x) for x in at]
    with np.errstate(all="ignore"):
        f(*inputs).sum().backward()
    return [x.grad for x in inputs]


@pytest.mark.parametrize(("f", "inverse", "low", "high"), INVERSES.values(), ids=INVERSES)
@given(share=st.floats(0.0, 1.0))
def test_the_inverse_gives_back_what_went_in(
    f: Function, inverse: Function, low: float, high: float, share: float
) -> None:
    x = variable(low + share * (high - low))
    back = inverse(f(x))
    back.backward()
    assert_allclose(back.numpy(), x.numpy(), rtol=1e-9, atol=1e-12)
    assert_allclose(x.grad, 1.0, rtol=1e-9)
    assert_allclose(ta.hessian(lambda t: inverse(f(t)))(x.numpy()).numpy(), 0.0, atol=1e-6)


@given(st.floats(-3.0, 3.0))
def test_the_squares_add_up_to_one_everywhere_so_that_their_slope_is_0(x: float) -> None:
    for one in (lambda t: np.sin(t) ** 2 + np.cos(t) ** 2, lambda t: np.cosh(t) ** 2 - np.sinh(t) ** 2):
        value = one(variable(x))
        assert_allclose(value.numpy(), 1.0, rtol=1e-12)
        assert_allclose(slopes(one, x)[0], 0.0, atol=1e-12)


@given(st.floats(-3.0, 3.0), st.floats(0.1, 3.0))
def test_arctan2_is_the_arctan_of_the_quotient_on_the_right(y: float, x: float) -> None:
    assert_allclose(slopes(np.arctan2, y, x), slopes(lambda a, b: np.arctan(a / b), y, x), rtol=1e-9, atol=1e-12)


@given(st.floats(0.1, 1e3), st.floats(-3.1, 3.1))
def test_length_and_direction_are_the_polar_coordinates(length: float, angle: float) -> None:
    x, y = length * np.cos(angle), length * np.sin(angle)
    assert_allclose(np.hypot(variable(x), variable(y)).numpy(), length, rtol=1e-12)
    assert_allclose(slopes(np.hypot, x, y), [np.cos(angle), np.sin(angle)], rtol=1e-9, atol=1e-12)
    turned = [np.cos(angle) / length, -np.sin(angle) / length]
    assert_allclose(slopes(np.arctan2, y, x), turned, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [np.hypot, np.arctan2])
def test_at_the_origin_the_slopes_of_length_and_direction_are_0_at_every_order(f: Function) -> None:
    assert slopes(f, 0.0, 0.0) == [0.0, 0.0]
    assert_array_equal(ta.hessian(lambda v: f(v[0], v[1]))(np.zeros(2)).numpy(), np.zeros((2, 2)))


def test_lengths_do_not_overflow_on_the_way() -> None:
    assert_allclose(slopes(np.hypot, 3e200, 4e200), [0.6, 0.8], rtol=1e-15)
    assert_allclose(slopes(np.arctan2, 3e200, 4e200), [0.16e-200, -0.12e-200], rtol=1e-15)
    assert_allclose(slopes(np.arcsinh, 1e200), [1e-200], rtol=1e-15)
    assert_allclose(slopes(np.arccosh, 1e200), [1e-200], rtol=1e-15)


def test_the_angle_jumps_behind_the_origin_and_its_slopes_do_not() -> None:
    assert np.arctan2(0.0, -1.0) == np.pi and np.arctan2(-0.0, -1.0) == -np.pi
    assert_array_equal(slopes(np.arctan2, 0.0, -1.0), slopes(np.arctan2, -0.0, -1.0))


ENDS = [(np.arcsin, 1.0, 1), (np.arcsin, -1.0, 1), (np.arccos, 1.0, -1), (np.arccosh, 1.0, 1), (np.arctanh, 1.0, 1)]


@pytest.mark.parametrize(("f", "end", "sign"), ENDS)
def test_an_infinite_slope_stays_infinite_and_is_named(f: Function, end: float, sign: int) -> None:
    assert slopes(f, end) == [sign * np.inf]
    if f is not np.arctanh:  # whose value is infinite already
        with (
            np.errstate(all="ignore"),
            detect_anomaly(),
            pytest.raises(NotFiniteError, match=f"{f.__name__}: the grad"),
        ):
            f(variable(end)).backward()


def test_near_its_end_the_slope_of_arcsin_keeps_its_digits() -> None:
    gap = 2.0**-40
    assert_allclose(slopes(np.arcsin, 1.0 - gap), [1.0 / np.sqrt(gap * (2.0 - gap))], rtol=1e-14)
    assert_allclose(slopes(np.arccosh, 1.0 + gap), [1.0 / np.sqrt(gap * (2.0 + gap))], rtol=1e-14)
