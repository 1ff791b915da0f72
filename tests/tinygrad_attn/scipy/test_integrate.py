"""Differential equations: solutions that are known, their slopes by everything that goes in, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tinygrad_attn import Tensor
from tinygrad_attn.errors import GradientError, ShapeError

integrate = require("tinygrad_attn.scipy").integrate

EXACT = {"rtol": 1e-11, "atol": 1e-11}
TIMES = np.array([0.0, 0.4, 1.0])


def pendulum(y: Any, t: Any, length: Any, push: Any) -> Any:
    angle, speed = y[0], y[1]
    return np.stack([speed, -np.sin(angle) / length + push * np.cos(t)])


def test_growth_is_an_exponential_and_so_are_its_slopes() -> None:
    y0, rate = Tensor([2.0], dtype=np.float64, requires_grad=True), Tensor(0.7, dtype=np.float64, requires_grad=True)
    t = Tensor(TIMES, requires_grad=True)
    y = integrate.odeint(lambda y, t, rate: rate * y, y0, t, (rate,), **EXACT)
    growth = 2.0 * np.exp(0.7 * TIMES)
    np.testing.assert_allclose(y.numpy()[:, 0], growth, rtol=1e-8)
    upstream = np.array([[1.0], [10.0], [100.0]])
    y.backward(upstream)
    np.testing.assert_allclose(y0.grad, [np.sum(upstream[:, 0] * growth / 2.0)], rtol=1e-7)
    np.testing.assert_allclose(rate.grad, np.sum(upstream[:, 0] * growth * TIMES), rtol=1e-7)
    later = 0.7 * upstream[:, 0] * growth
    np.testing.assert_allclose(t.grad, [-later[1:].sum(), later[1], later[2]], rtol=1e-7)


def test_the_gradient_is_the_slope_where_time_has_a_say() -> None:
    def end(y0: Any, t: Any, length: Any, push: Any) -> Any:
        return integrate.odeint(pendulum, y0, t, (length, push), **EXACT)

    ta.gradcheck(end, np.array([0.5, -0.2]), TIMES, np.array(1.3), np.array(0.4))


def test_backwards_in_time_and_from_a_matrix() -> None:
    def flow(y: Any, t: Any, a: Any) -> Any:
        return a @ y

    a, y0 = np.array([[0.0, 1.0], [-1.0, 0.0]]), np.eye(2)
    y = integrate.odeint(flow, y0, np.array([0.0, -np.pi / 2]), (a,), **EXACT)
    np.testing.assert_allclose(y[1], [[0.0, -1.0], [1.0, 0.0]], atol=1e-8)
    ta.gradcheck(lambda a: integrate.odeint(flow, y0, np.array([0.0, -1.0]), (a,), **EXACT), a)


def test_the_solution_has_second_derivatives() -> None:
    """y = y0 e^(rate t) at t = 1: ∂²/∂rate² = y0 e^rate, ∂²/∂rate ∂y0 = e^rate."""

    def end(p: Any) -> Any:
        return integrate.odeint(lambda y, t, rate: rate * y, p[:1], np.array([0.0, 1.0]), (p[1],), **EXACT)[1, 0]

    found = ta.hessian(end)(np.array([2.0, 0.5])).numpy()
    np.testing.assert_allclose(found, np.exp(0.5) * np.array([[0.0, 1.0], [1.0, 2.0]]), rtol=1e-6, atol=1e-6)


def test_the_dtype_of_the_start_is_that_of_the_solution() -> None:
    y0 = Tensor([1.0], dtype=np.float32, requires_grad=True)
    y = integrate.odeint(lambda y, t: -y, y0, np.array([0.0, 1.0], np.float32))
    y[1, 0].backward()
    assert y.dtype == y0.grad.dtype == np.float32
    np.testing.assert_allclose(y0.grad, np.exp(-1.0), rtol=1e-5)


def test_what_would_be_lost_or_does_not_fit_is_refused() -> None:
    outside = Tensor(1.0, requires_grad=True)
    with pytest.raises(GradientError, match="pass it in args"):
        integrate.odeint(lambda y, t: outside * y, np.ones(1), TIMES)
    with pytest.raises(ShapeError, match="shape of y"):
        integrate.odeint(lambda y, t: y[0], np.ones(2), TIMES)
    with pytest.raises(ShapeError, match="times"):
        integrate.odeint(lambda y, t: y, np.ones(1), 1.0)
