"""Slopes by differences, against derivatives that are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_attn.numerical import Slope, noise_of, slope


def measured(f: Callable[[Any], Any], x: float) -> Slope:
    array = np.array([x])

    def evaluate() -> Any:
        with np.errstate(all="ignore"):
            return np.atleast_1d(np.asarray(f(array[0]), dtype=np.float64))

    base = evaluate()
    noise = noise_of(evaluate, [array], base, np.random.default_rng(0))
    found = slope(evaluate, array, (0,), np.where(np.isfinite(base), 1.0, 0.0), base, noise)
    assert array[0] == x
    return found


KNOWN: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "sin": (np.sin, np.cos, 0.7),
    "exp": (np.exp, np.exp, 3.0),
    "log near 0": (np.log, lambda x: 1.0 / x, 1e-8),
    "square near 0": (np.square, lambda x: 2.0 * x, 1e-8),
    "square of a large number": (np.square, lambda x: 2.0 * x, 1e8),
    "fast oscillation": (lambda x: np.sin(1e6 * x), lambda x: 1e6 * np.cos(1e6 * x), 0.3),
    "oscillation far out": (np.sin, np.cos, 1e6),
    "tiny values": (lambda x: 1e-8 * x**3, lambda x: 3e-8 * x**2, 0.5),
    "huge values": (lambda x: 1e200 * x**3, lambda x: 3e200 * x**2, 0.5),
    "sharp peak": (lambda x: 1.0 / (1e-10 + x * x), lambda x: -2.0 * x / (1e-10 + x * x) ** 2, 3e-6),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_derivative_is_found(name: str) -> None:
    f, derivative, x = KNOWN[name]
    found = measured(f, x)
    assert found.verdict == "smooth"
    assert found.value == pytest.approx(derivative(x), rel=1e-5)
    assert abs(found.value - derivative(x)) <= found.uncertainty + 1e-9 * abs(derivative(x))


@given(st.floats(-50.0, 50.0), st.sampled_from([1e-9, 1e-3, 1.0, 1e6]))
def test_the_uncertainty_covers_the_error(x: float, factor: float) -> None:
    found = measured(lambda t: factor * np.tanh(t / 7.0), x)
    exact = factor / 7.0 * (1.0 - math.tanh(x / 7.0) ** 2)
    assert found.verdict == "smooth"
    assert abs(found.value - exact) <= found.uncertainty + 1e-9 * abs(exact)
    assert found.uncertainty <= 1e-6 * abs(exact) + 1e-9 * factor


@pytest.mark.parametrize("offset", [0.0, 1.0, -5.0])
@pytest.mark.parametrize("steepness", [1.0, 1e-3, 1e3])
def test_a_kink_has_two_slopes(offset: float, steepness: float) -> None:
    found = measured(lambda x: steepness * np.maximum(x - offset, 0.0), offset)
    assert found.verdict == "kink"
    assert (found.left, found.right) == (0.0, pytest.approx(steepness))


@pytest.mark.parametrize("distance", [1e-3, 1e-5, -1e-7, 1e-9])
def test_beside_a_kink_there_is_one_slope(distance: float) -> None:
    found = measured(np.abs, distance)
    assert found.verdict == "smooth"
    assert found.value == pytest.approx(math.copysign(1.0, distance), rel=1e-6)


def test_right_beside_a_kink_nothing_can_be_told() -> None:
    assert measured(lambda x: np.abs(x - 1.0), 1.0 + 1e-13).verdict != "smooth"


@pytest.mark.parametrize("jump", [lambda x: np.where(x >= 1.0, x, 2.0 * x), lambda x: x + np.floor(x)])
def test_a_jump_at_the_point_has_no_slope(jump: Any) -> None:
    assert measured(jump, 1.0).verdict == "jump"


@pytest.mark.parametrize("f", [np.sqrt, np.log, lambda x: np.sqrt(-x)])
def test_at_the_edge_of_a_domain_there_is_nothing_on_one_side(f: Any) -> None:
    assert measured(f, 0.0).verdict == "edge"


@pytest.mark.parametrize("power", [2, 3, 4, 1.5])
def test_a_flat_point_is_no_kink(power: float) -> None:
    found = measured(lambda x: np.abs(x) ** power, 0.0)
    assert found.verdict == "smooth"
    assert found.value == pytest.approx(0.0, abs=1e-12)


def test_a_constant_has_slope_0_but_for_what_its_last_place_hides() -> None:
    found = measured(lambda x: 3.0 + 0.0 * x, 0.5)
    assert found.value == found.left == found.right == 0.0
    assert 0.0 < found.uncertainty < 1e-11
    assert found.verdict == "smooth"


def test_a_slope_below_the_last_place_of_a_value_is_within_the_uncertainty() -> None:
    found = measured(lambda x: 16.0 - 7e-12 * x, 1.0)
    assert abs(found.value + 7e-12) <= found.uncertainty


def test_the_slope_of_a_valley_just_beside_its_floor_is_within_the_uncertainty() -> None:
    floor = 2.0 - 2.0**-52
    found = measured(lambda x: (x - floor) ** 2, 2.0)
    assert abs(found.value - 2.0 * 2.0**-52) <= found.uncertainty


def test_rounding_is_no_kink_and_no_jump() -> None:
    """sin² + cos² − 1 is nothing but rounding error."""
    for x in np.random.default_rng(0).uniform(-3.0, 3.0, 50):
        found = measured(lambda t: np.sin(t) ** 2 + np.cos(t) ** 2 - 1.0, float(x))
        assert found.verdict == "smooth"
