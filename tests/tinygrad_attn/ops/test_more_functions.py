"""NumPy's statistics, sequences, functions that leave NaN out, and elementwise oddities: NumPy's value, its slope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import values
from tinygrad_attn import Tensor
from tinygrad_attn.errors import GradientError, InPlaceError, OptionError, ShapeError

X = values(3, 4)
POSITIVE = np.abs(X) + 0.25
HOLED = np.where(np.arange(12).reshape(3, 4) % 5 == 2, np.nan, X)
Use = Callable[[Any], Any]

SAME: dict[str, tuple[Use, Any]] = {
    "ptp": (lambda x: np.ptp(x, axis=0, keepdims=True), X),
    "median of an odd number": (lambda x: np.median(x, 0), X),
    "median of an even number": (lambda x: np.median(x), X),
    "median over two axes": (lambda x: np.median(x, axis=(0, 1), keepdims=True), X),
    "quantile": (lambda x: np.quantile(x, 0.3, axis=1), X),
    "quantiles": (lambda x: np.quantile(x, [0.0, 0.9, 1.0], axis=0, keepdims=True), X),
    "quantiles in a table": (lambda x: np.quantile(x, np.array([[0.1, 0.2], [0.5, 0.7]]), axis=1), X),
    "lower": (lambda x: np.quantile(x, 0.4, axis=1, method="lower"), X),
    "higher": (lambda x: np.quantile(x, 0.4, axis=1, method="higher"), X),
    "midpoint": (lambda x: np.quantile(x, 0.4, method="midpoint"), X),
    "percentile": (lambda x: np.percentile(x, [25, 60]), X),
    "average": (lambda x: np.average(x, axis=1, keepdims=True), X),
    "weighted average": (lambda x: np.average(x, weights=x * x), X),
    "average with weights of an axis": (lambda x: np.average(x, axis=1, weights=np.arange(1.0, 5.0)), X),
    "average with weights of two axes": (lambda x: np.average(x, axis=(1, 0), weights=(x * x).T), X),
    "cov": (lambda x: np.cov(x), X),
    "cov of columns": (lambda x: np.cov(x, rowvar=False, bias=True), X),
    "cov of two": (lambda x: np.cov(x[0], x[1], ddof=0), X),
    "corrcoef": (lambda x: np.corrcoef(x), X),
    "nansum": (lambda x: np.nansum(x, axis=1), HOLED),
    "nansum from a start": (lambda x: np.nansum(x, axis=0, keepdims=True, initial=2.0), HOLED),
    "nanprod": (lambda x: np.nanprod(x, axis=0), HOLED),
    "nanmean": (lambda x: np.nanmean(x, axis=1), HOLED),
    "nanvar": (lambda x: np.nanvar(x, 1, ddof=1), HOLED),
    "nanstd": (lambda x: np.nanstd(x, axis=0, keepdims=True), HOLED),
    "nanmax": (lambda x: np.nanmax(x, axis=1), HOLED),
    "nanmin": (lambda x: np.nanmin(x), HOLED),
    "nancumsum": (lambda x: np.nancumsum(x, axis=1), HOLED),
    "nancumprod": (lambda x: np.nancumprod(x), HOLED),
    "logspace": (lambda x: np.logspace(x[0], 1.0, 5, base=2.0), X),
    "logspace of a base": (lambda x: np.logspace(x[0], 1.0, 3, base=x[1] + 3.0, axis=1), X),
    "geomspace": (lambda x: np.geomspace(x, 5.0, 4, endpoint=False, axis=-1), POSITIVE),
    "geomspace below 0": (lambda x: np.geomspace(-x[0], -3.0, 3), POSITIVE),
    "vander": (lambda x: np.vander(x[0]), X),
    "vander, increasing": (lambda x: np.vander(x[0], 3, increasing=True), X),
    "vander of one column": (lambda x: np.vander(x[0], 1), X),
    "resize": (lambda x: np.resize(x, (5, 4)), X),
    "resize to fewer": (lambda x: np.resize(x, 5), X),
    "ediff1d": (lambda x: np.ediff1d(x, to_end=x[0, :2], to_begin=1.0), X),
    "cumulative_sum": (lambda x: np.cumulative_sum(x, axis=1, include_initial=True), X),
    "cumulative_prod": (lambda x: np.cumulative_prod(x[0]), X),
    "windows": (lambda x: sliding_window_view(x, 2, axis=1), X),
    "windows of two axes": (lambda x: sliding_window_view(x, (2, 3)), X),
    "windows along one axis twice": (lambda x: sliding_window_view(x[0], (2, 2), axis=(0, 0)), X),
    "fabs": (lambda x: np.fabs(x), X),
    "copysign": (lambda x: np.copysign(x, -x[::-1]), X),
    "copysign, signs in a list": (lambda x: np.copysign(x, [1.0, -1.0, 1.0, -0.0]), X),
    "heaviside": (lambda x: np.heaviside(np.array([-1.0, 0.0, 0.0, 2.0]), x), X),
    "nan_to_num": (lambda x: np.nan_to_num(x, nan=7.0), HOLED),
    "modf": (lambda x: np.modf(3.0 * x)[0], X),
    "frexp": (lambda x: np.frexp(3.0 * x)[0], X),
    "divmod": (lambda x: divmod(x, 0.7)[1], X),
    "np.divmod": (lambda x: np.divmod(x, 0.7)[1], X),
    "unwrap": (lambda x: np.unwrap(5.0 * x, axis=0), X),
    "unwrap in degrees": (lambda x: np.unwrap(100.0 * x, period=90.0), X),
    "degrees": (lambda x: np.degrees(x), X),
    "radians": (lambda x: np.radians(x), X),
    "vector_norm": (lambda x: np.linalg.vector_norm(x, keepdims=True), X),
    "vector_norm of an axis": (lambda x: np.linalg.vector_norm(x, axis=1, ord=3), X),
    "vector_norm of two axes": (lambda x: np.linalg.vector_norm(x[None], axis=(2, 0), keepdims=True), X),
    "matrix_norm": (lambda x: np.linalg.matrix_norm(x[None], keepdims=True), X),
    **{
        f"matrix_norm {ord}": (lambda x, ord=ord: np.linalg.matrix_norm(x, ord=ord), X)
        for ord in ("nuc", 2, -2, 1, -1, np.inf, -np.inf)
    },
}


@pytest.mark.parametrize("name", SAME)
def test_the_value_is_numpys_and_the_gradient_is_the_slope(name: str) -> None:
    use, at = SAME[name]
    out = use(Tensor(at, requires_grad=True))
    assert isinstance(out, Tensor) and out.requires_grad
    expected = np.asarray(use(at))
    assert out.shape == expected.shape and out.dtype == expected.dtype
    assert_allclose(out.numpy(), expected, rtol=1e-13, atol=1e-13)
    if np.isnan(at).any():  # NaN cannot be moved a little; the numbers can
        holes = np.isnan(at)
        ta.gradcheck(lambda x: use(np.where(holes, np.nan, x)), np.where(holes, 0.0, at), order=2)
    else:
        ta.gradcheck(use, at, order=2)


@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanstd", "nanmax", "nancumsum", "nan_to_num"])
def test_nan_gets_the_gradient_zero(name: str) -> None:
    use, at = SAME[name]
    x = Tensor(at, requires_grad=True)
    use(x).sum().backward()
    assert_array_equal(x.grad[np.isnan(at)], 0.0)
    assert np.isfinite(x.grad).all()


def test_of_nothing_but_nan_the_largest_is_nan() -> None:
    x = Tensor([[np.nan, np.nan], [1.0, np.nan]], requires_grad=True)
    out = np.nanmax(x, axis=1)
    assert_array_equal(out.numpy(), [np.nan, 1.0])
    out[1].backward()
    assert_array_equal(x.grad, [[0.0, 0.0], [1.0, 0.0]])


def test_a_median_with_nan_is_nan_as_numpys() -> None:
    assert_array_equal(np.median(Tensor(HOLED, requires_grad=True), axis=1).numpy(), np.median(HOLED, axis=1))


def test_quantiles_of_float32_stay_float32() -> None:
    at = X.astype(np.float32)
    for q in (0.3, np.float32(0.3)):
        out = np.quantile(Tensor(at), q, axis=0)
        assert_allclose(out.numpy(), np.quantile(at, q, axis=0), rtol=1e-6)
        assert out.dtype == np.float32


@pytest.mark.parametrize("f", [np.fmax, np.fmin])
def test_of_a_number_and_nan_the_number_gets_the_gradient(f: Any) -> None:
    a = Tensor([np.nan, 1.0, 2.0, np.nan, 3.0], requires_grad=True)
    b = Tensor([1.0, np.nan, 2.0, np.nan, 4.0], requires_grad=True)
    out = f(a, b)
    assert_array_equal(out.numpy(), f(a.numpy(), b.numpy()))
    out[:4].sum().backward()
    assert_array_equal(a.grad, [0.0, 1.0, 0.5, 0.0, 0.0])
    assert_array_equal(b.grad, [1.0, 0.0, 0.5, 0.0, 0.0])


@pytest.mark.parametrize("x", [0.0, 1e-300, 1e-8, 1e-3, 0.1, 0.318, 0.319, 1.0, 40.5])
def test_the_slope_of_sinc_keeps_its_digits_near_zero(x: float) -> None:
    t = Tensor(np.array([x, -x]), requires_grad=True)
    np.sinc(t).sum().backward()
    u = np.pi * np.longdouble(x)
    if x < 0.2:  # the first terms of the series are all there is
        exact = np.pi * (-u / 3 + u**3 / 30 - u**5 / 840 + u**7 / 45360 - u**9 / 3991680)
    else:
        exact = np.pi * (np.cos(u) - np.sin(u) / u) / u
    assert_allclose(t.grad, np.array([exact, -exact], np.float64), rtol=1e-13, atol=1e-15)


def test_sinc_at_zero_bends_as_its_series_says() -> None:
    def second(x: Any) -> Any:
        return ta.grad(lambda y: ta.grad(lambda z: np.sum(np.sinc(z)))(y).sum())(x)

    assert_allclose(second(Tensor(np.zeros(2))).numpy(), [-(np.pi**2) / 3] * 2, rtol=1e-14)


def test_logaddexp2_of_nothing_has_the_slope_zero() -> None:
    a, b = (Tensor([-np.inf, 0.0], requires_grad=True) for _ in range(2))
    np.logaddexp2(a, b).sum().backward()
    assert_array_equal(a.grad, [0.0, 0.5])
    assert_array_equal(b.grad, [0.0, 0.5])


def test_signs_of_infinity_and_zero_are_numpys() -> None:
    at = np.array([np.inf, -np.inf, -0.0, 2.5, -3.0])
    fraction, whole = np.modf(Tensor(at, requires_grad=True))
    assert_array_equal(fraction.numpy(), np.modf(at)[0])
    assert_array_equal(whole, np.modf(at)[1])
    assert_array_equal(np.copysign(Tensor(at), -1.0).numpy(), np.copysign(at, -1.0))


REFUSED: dict[str, tuple[Use, type[Exception], str]] = {
    "a quantile that is to be learned": (lambda t: np.quantile(X, t[0, 0] ** 0), GradientError, "constant"),
    "a share beyond 1": (lambda t: np.quantile(t, 30), OptionError, r"\[0, 1\]"),
    "another method": (lambda t: np.quantile(t, 0.3, method="hazen"), OptionError, "'hazen'"),
    "the median of nothing": (lambda t: np.median(t[:0]), ShapeError, "no elements"),
    "a median into an array": (lambda t: np.median(t, out=np.zeros(())), InPlaceError, "out="),
    "a nansum into an array": (lambda t: np.nansum(t, out=np.zeros(())), InPlaceError, r"np\.nansum"),
    "weights of another shape": (lambda t: np.average(t, weights=np.ones(3)), ShapeError, "weights  \\(3,\\)"),
    "cov with weights": (lambda t: np.cov(t, aweights=np.ones(4)), OptionError, "average"),
    "cov of a stack": (lambda t: np.cov(t[None]), ShapeError, "rows of a matrix"),
    "geomspace through 0": (lambda t: np.geomspace(t, -t, 3), OptionError, "above 0"),
    "vander of a matrix": (lambda t: np.vander(t), ShapeError, "vector"),
    "a window that does not fit": (lambda t: sliding_window_view(t, 9, axis=0), ShapeError, "window of 9"),
    "windows of fewer axes": (lambda t: sliding_window_view(t, (2,)), ShapeError, "per axis"),
    "windows to write to": (lambda t: sliding_window_view(t, 2, 0, writeable=True), OptionError, "written"),
    "a running sum of a matrix": (lambda t: np.cumulative_sum(t), OptionError, "axis must be said"),
    "nan_to_num in place": (lambda t: np.nan_to_num(t, copy=False), OptionError, "copy=False"),
    "another norm of matrices": (lambda t: np.linalg.matrix_norm(t, ord=3), OptionError, "given 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_gradient_is_refused_in_words(name: str) -> None:
    use, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        use(Tensor(X, requires_grad=True))


PLAIN: dict[str, Use] = {
    "around": lambda x: np.around(x, 1),
    "fix": lambda x: np.fix(x),
    "trunc": lambda x: np.trunc(x),
    "nextafter": lambda x: np.nextafter(x, 2.0),
    "isposinf": lambda x: np.isposinf(x),
    "union1d": lambda x: np.union1d(x, [1.0]),
    "unique_counts": lambda x: np.unique_counts(x)[1],
    "nanargmax": lambda x: np.nanargmax(x, axis=0),
    "heaviside": lambda x: np.heaviside(x, 0.5),
    "einsum_path": lambda x: np.array(np.einsum_path("ij,kj", x, x)[0][1:]),
    "min_scalar_type": lambda x: np.array(np.can_cast(x.dtype, np.min_scalar_type(x)), int),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_constant_but_for_jumps_is_plain(name: str) -> None:
    out = PLAIN[name](Tensor(X, requires_grad=True))
    assert not isinstance(out, Tensor)
    assert_array_equal(out, PLAIN[name](X))
