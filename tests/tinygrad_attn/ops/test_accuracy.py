"""Values and slopes far out and close to nothing: right to the last digits, and without a warning.

The oracles are formulas in which nothing cancels, in extended precision where the machine has it. pytest turns a
warning into a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn import Tensor

Exact = Callable[[Any], Any]
PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def logistic(x: Any) -> Any:
    small = np.exp(-abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def steepness(x: Any) -> Any:
    """σ(x) σ(−x), which is even in x."""
    return np.exp(-abs(x)) / (1 + np.exp(-abs(x))) ** 2


SLOPES: dict[str, tuple[Callable[[Any], Any], Exact]] = {
    "sigmoid": (ta.sigmoid, steepness),
    "log_sigmoid": (ta.log_sigmoid, lambda x: logistic(-x)),
    "softplus": (ta.softplus, logistic),
    "silu": (ta.silu, lambda x: logistic(x) + x * steepness(x)),
    "expm1": (np.expm1, np.exp),
    "arctan": (np.arctan, lambda x: 1 / (1 + x * x)),
    "softsign": (ta.softsign, lambda x: 1 / (1 + abs(x)) ** 2),
}


@PRECISIONS
@pytest.mark.parametrize("name", SLOPES)
def test_a_slope_keeps_its_digits_where_the_curve_is_flat(name: str, dtype: Any) -> None:
    f, exact = SLOPES[name]
    sides = np.array([0.0, 0.3, 2.5, 6.0, 15.0, 20.0, 37.0, 60.0], dtype)
    at = np.concatenate([sides, -sides])
    if name == "expm1":
        at = at[at < 20]
    x = Tensor(at, requires_grad=True)
    f(x).sum().backward()
    assert_allclose(x.grad, exact(at.astype(np.longdouble)).astype(dtype), rtol=16 * np.finfo(dtype).eps)


VERY_LARGE: dict[str, tuple[Callable[[Any], Any], list[float], list[float]]] = {
    "arctan": (np.arctan, [-np.pi / 2, np.pi / 2], [0.0, 0.0]),
    "softsign": (ta.softsign, [-1.0, 1.0], [0.0, 0.0]),
    "erf": (ta.erf, [-1.0, 1.0], [0.0, 0.0]),
    "erfc": (ta.erfc, [2.0, 0.0], [0.0, 0.0]),
    "gelu": (ta.gelu, [0.0, np.inf], [0.0, 1.0]),
    "gelu_tanh": (ta.gelu_tanh, [0.0, np.inf], [0.0, 1.0]),
    "silu": (ta.silu, [0.0, np.inf], [0.0, 1.0]),
    "hardswish": (ta.hardswish, [0.0, np.inf], [0.0, 1.0]),
    "softplus": (ta.softplus, [0.0, np.inf], [0.0, 1.0]),
}


@pytest.mark.parametrize("name", VERY_LARGE)
@pytest.mark.parametrize(("dtype", "far"), [(np.float32, 1e38), (np.float64, 1e300)])
def test_what_squares_its_argument_does_not_overflow(name: str, dtype: Any, far: float) -> None:
    f, values, slopes = VERY_LARGE[name]
    x = Tensor(np.array([-far, far], dtype), requires_grad=True)
    out = f(x)
    out.sum().backward()
    expected = np.array(values, dtype)
    assert_allclose(out.numpy(), np.where(np.isinf(expected), x.numpy(), expected), rtol=4 * np.finfo(dtype).eps)
    assert_allclose(x.grad, slopes, atol=np.finfo(dtype).tiny)


@PRECISIONS
def test_gelu_tanh_keeps_its_digits_where_it_vanishes(dtype: Any) -> None:
    at = np.array([-2.5, -4.0, -5.0, -8.0], dtype)
    z = at.astype(np.longdouble)
    scale, cubic = np.sqrt(2 / np.longdouble(np.pi)), np.longdouble(0.044715)
    u = scale * (z + cubic * z**3)
    x = Tensor(at, requires_grad=True)
    out = ta.gelu_tanh(x)
    out.sum().backward()
    conditioned = 8 * np.finfo(dtype).eps * np.abs(2 * u).max()  # e²ᵘ multiplies the rounding of u
    assert_allclose(out.numpy(), (z * logistic(2 * u)).astype(dtype), rtol=conditioned)
    slope = logistic(2 * u) + z * steepness(2 * u) * 2 * scale * (1 + 3 * cubic * z * z)
    assert_allclose(x.grad, slope.astype(dtype), rtol=conditioned)


# --- probabilities close to 0 and to 1 --------------------------------------------------------------------------------

SURE = [[0.0, -20.0, -21.0], [50.0, 0.0, -10.0], [0.0, -80.0, -81.0]]


def others(row: Any) -> Any:
    """Σ e^(xⱼ − x₀) over all but the first, which is the largest."""
    return np.exp(row[1:] - row[0]).sum()


@PRECISIONS
@pytest.mark.parametrize("row", SURE)
def test_the_logarithm_of_a_probability_close_to_one_keeps_its_digits(row: list[float], dtype: Any) -> None:
    exact = -np.log1p(others(np.array(row, np.longdouble)))
    assert_allclose(ta.log_softmax(np.array(row, dtype))[0], exact.astype(dtype), rtol=8 * np.finfo(dtype).eps)


OPTIONS: list[dict[str, Any]] = [{}, {"weight": [1.0, 2.0, 3.0]}, {"reduction": "sum"}]


@PRECISIONS
@pytest.mark.parametrize("row", SURE)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("target", [np.array(0), np.array([1.0, 0.0, 0.0])], ids=["class", "probabilities"])
def test_a_model_that_is_sure_still_learns(row: list[float], dtype: Any, options: dict[str, Any], target: Any) -> None:
    rest = others(np.array(row, np.longdouble))
    logits = Tensor(np.array(row, dtype), requires_grad=True)
    loss = ta.cross_entropy(logits, target.astype(dtype) if target.ndim else target, **options)
    loss.backward()
    exact = [-rest / (1 + rest), *np.exp(np.array(row[1:], np.longdouble) - row[0]) / (1 + rest)]
    assert_allclose(loss.numpy(), np.log1p(rest).astype(dtype), rtol=8 * np.finfo(dtype).eps)
    assert_allclose(logits.grad, np.array(exact, dtype), rtol=8 * np.finfo(dtype).eps)


# --- rows whose elements are nearly equal, or very large --------------------------------------------------------------


@pytest.mark.parametrize("width", [3, 64, 100, 512])
@pytest.mark.parametrize("value", [10.7, 1000.3, 100000.7])
def test_a_row_of_equal_elements_is_normed_to_zeros(width: int, value: float) -> None:
    x = np.full((2, width), value, np.float32)
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    for options in ({}, {"fused": False}):
        with ta.unfused() if options else ta.enable_grad():
            out = ta.layer_norm(Tensor(x, requires_grad=True), ones, zeros)
        assert_allclose(out.numpy(), np.zeros_like(x), atol=1e-5)


@pytest.mark.parametrize("value", [10.7, 1000.3, 100000.7])
def test_a_channel_of_equal_elements_is_normed_to_zeros(value: float) -> None:
    out = ta.batch_norm(Tensor(np.full((64, 2, 3), value, np.float32)))
    assert_allclose(out.numpy(), np.zeros((64, 2, 3)), atol=1e-5)


@pytest.mark.parametrize("f", [np.var, np.std])
def test_the_slope_of_a_spread_sees_small_differences_beside_a_large_mean(f: Any) -> None:
    at = np.full(512, 1000.3, np.float32)
    at[0] = 1000.31
    x, exact = Tensor(at, requires_grad=True), Tensor(at.astype(np.float64), requires_grad=True)
    f(x).backward()
    f(exact).backward()
    along = np.sum(x.grad.astype(np.float64) * exact.grad) / np.sum(exact.grad * exact.grad)
    assert_allclose(x.grad, along * exact.grad, rtol=1e-3, atol=1e-3 * np.abs(exact.grad).max() / 512)


@pytest.mark.parametrize(("dtype", "far"), [(np.float32, 1e30), (np.float64, 1e200)])
def test_norms_of_very_large_rows_do_not_overflow(dtype: Any, far: float) -> None:
    row = np.array([[1.0, 2.0, -1.0], [0.5, -0.25, 3.0]], dtype)
    gain, bias = np.ones(3, dtype), np.zeros(3, dtype)
    for f in (lambda x: ta.layer_norm(x, gain, bias), lambda x: ta.rms_norm(x, gain)):
        small, large = Tensor(row * dtype(1e8), requires_grad=True), Tensor(row * dtype(far), requires_grad=True)
        of_small, of_large = f(small), f(large)
        assert_allclose(of_large.numpy(), of_small.numpy(), rtol=16 * np.finfo(dtype).eps)
        upstream = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], dtype)
        of_small.backward(upstream)
        of_large.backward(upstream * dtype(far / 1e8))
        assert_allclose(large.grad, small.grad, rtol=64 * np.finfo(dtype).eps, atol=1e-14)


def test_an_infinite_row_has_no_norm() -> None:
    with np.errstate(invalid="ignore"):
        out = ta.rms_norm(Tensor([[np.inf, 1.0], [3.0, 4.0]]), np.ones(2, np.float32)).numpy()
    assert np.isnan(out[0, 0])
    assert_array_equal(np.isfinite(out[1]), True)
