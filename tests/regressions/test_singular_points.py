"""Points without a derivative and traps that end in NaN: faults seen in other engines, by their ids."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.diagnose import detect_anomaly

Function = Callable[..., Any]


def variable(values: Any, **settings: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True, **settings)


def slope(f: Function, at: Any) -> np.ndarray[Any, Any]:
    """Gradient of the sum of f at a point; NumPy's warnings are the point's own affair."""
    x = variable(at)
    with np.errstate(all="ignore"):
        f(x).sum().backward()
    assert x.grad is not None
    return x.grad


def second(f: Function, at: Any) -> np.ndarray[Any, Any]:
    """Diagonal of the second derivative of an elementwise f, or the row sums of the Hessian of any other."""
    with np.errstate(all="ignore"):
        return ta.hessian(lambda x: f(x).sum())(np.asarray(at, dtype=np.float64)).numpy()


# --- N1: where() ------------------------------------------------------------------------------------------------------


def test_N1_the_branch_that_is_not_taken_sends_nothing() -> None:
    assert_array_equal(slope(lambda x: np.where(x >= 0, x, np.sqrt(-x)), [1.0]), [1.0])
    assert_array_equal(slope(lambda x: np.where(x > 0, np.log(x), 0.0), [2.0, 0.0, -1.0]), [0.5, 0.0, 0.0])
    assert_array_equal(slope(lambda x: np.where(x == 0, 1.0, np.sin(x) / x), [0.0]), [0.0])
    assert_array_equal(slope(lambda x: np.where(x > 0, x ** np.array(0.5), 0.0), [0.0, 4.0]), [0.0, 0.25])


def test_N1_through_several_operations_and_a_shape_change() -> None:
    def f(x: Any) -> Any:
        return np.where(np.array([[True], [False]]), 1.0, np.sqrt(np.log(x.reshape(2, 1) * 2.0)))

    assert_array_equal(slope(f, [0.0, 1.0])[0], 0.0)
    assert_allclose(slope(f, [0.0, 1.0])[1], 1 / (2 * np.sqrt(np.log(2.0))), rtol=1e-12)


def test_N1_second_derivatives() -> None:
    assert_array_equal(second(lambda x: np.where(x > 0, np.sqrt(x), 0.0), [0.0, 4.0]), [[0.0, 0.0], [0.0, -1 / 32]])


def test_N1_masked_fill_hides_an_infinite_slope() -> None:
    assert_array_equal(slope(lambda x: ta.masked_fill(np.log(x), x.numpy() == 0, value=0.0), [0.0, 2.0]), [0.0, 0.5])


def test_N1_second_derivatives_where_only_the_curvature_is_infinite() -> None:
    root = 1.5
    expected = [[0.0, 0.0], [0.0, 0.75 / 2.0]]
    assert_allclose(second(lambda x: np.where(x > 0, x**root, 0.0), [0.0, 4.0]), expected, rtol=1e-15)
    assert_allclose(second(lambda x: np.where(x > 0, np.abs(x) ** root, 0.0), [0.0, 4.0]), expected, rtol=1e-15)


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.reshape(2, 1),
        lambda x: x[::-1],
        lambda x: np.stack([x, x]),
        lambda x: np.concatenate([x, x]),
        lambda x: np.expand_dims(x, 0).transpose(1, 0),
        lambda x: np.broadcast_to(x, (3, 2)),
        lambda x: np.cumsum(x[:1]),
        lambda x: x[0].sum(keepdims=True),
        lambda x: x[:1].mean(),
    ],
)
def test_N1_through_what_only_moves_elements(move: Function) -> None:
    first = slope(lambda x: np.where(move(np.sqrt(x)).numpy() == 0.0, 1.0, move(np.sqrt(x))), [0.0, 4.0])
    assert first[0] == 0.0 and np.isfinite(first).all()


def test_N1_a_zero_that_is_taken_is_no_branch_not_taken() -> None:
    """At 0 the gradient that arrives happens to be 0; the next derivative still goes through."""
    assert_array_equal(second(lambda x: np.where(x > -1.0, np.sin(x), 0.0) ** 2, [0.0]), [[2.0]])
    assert_array_equal(second(lambda x: ta.masked_fill(np.tanh(x), np.array(False), value=0.0) ** 2, [0.0]), [[2.0]])


def test_N1_an_element_used_twice_is_blocked_only_if_neither_use_takes_it() -> None:
    def f(x: Any) -> Any:
        root = np.sqrt(x)
        return np.where(x > 0, root, 0.0) + np.where(x >= 0, root, 0.0)

    assert_array_equal(slope(f, [0.0, 4.0]), [np.inf, 0.5])


def test_N1_a_nan_that_is_used_still_arrives() -> None:
    assert np.isnan(slope(lambda x: np.where(x > 5, x, np.arcsin(x)), [2.0])).all()
    assert np.isinf(slope(lambda x: np.where(x > 0, x, np.sqrt(x)), [0.0])).all()


@pytest.mark.parametrize(
    "f", [ta.relu, lambda x: np.maximum(x, 0.0), lambda x: np.clip(x, 0.0, None), lambda x: ta.relu6(x)]
)
def test_N1_an_infinite_gradient_stops_where_nothing_passes(f: Function) -> None:
    assert_array_equal(slope(lambda x: np.sqrt(f(x)), [-1.0, 4.0]), [0.0, 0.25])


def test_N1_an_infinite_gradient_reaches_only_the_largest() -> None:
    assert_array_equal(slope(lambda x: np.sqrt(np.max(x)), [-1.0, 0.0]), [0.0, np.inf])


# --- N2: products with zeros ------------------------------------------------------------------------------------------

PRODUCTS = {
    (0.0, 2.0, 3.0): (6.0, 0.0, 0.0),
    (2.0, 0.0, 3.0, 4.0): (0.0, 24.0, 0.0, 0.0),
    (0.0, 0.0, 3.0): (0.0, 0.0, 0.0),
    (4.0, 0.0): (0.0, 4.0),
    (-0.0, 5.0): (5.0, -0.0),
    (7.0,): (1.0,),
    (): (),
}


@pytest.mark.parametrize(("values", "expected"), PRODUCTS.items(), ids=str)
def test_N2_products_with_zeros_are_exact(values: Any, expected: Any) -> None:
    assert_array_equal(slope(np.prod, values), expected)


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 1), None], ids=str)
def test_N2_along_any_axis_and_in_second_order(axis: Any) -> None:
    x = np.array([[0.0, 2.0], [3.0, 0.0]])
    rows = [x] if axis in ((0, 1), None) else list(np.moveaxis(x, axis, -1))
    leave_one_out = [[np.prod(np.delete(row.ravel(), i)) for i in range(row.size)] for row in rows]
    expected = np.array(leave_one_out)
    expected = expected.reshape(2, 2) if axis in ((0, 1), None) else np.moveaxis(expected, -1, axis)
    assert_array_equal(slope(lambda t: np.prod(t, axis=axis), x), expected)
    hessian = second(np.prod, [0.0, 2.0, 3.0])
    assert_array_equal(hessian, [[0.0, 3.0, 2.0], [3.0, 0.0, 0.0], [2.0, 0.0, 0.0]])


# --- N4, N5: square roots of zero -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ord", [None, 1, 2, 3, np.inf])
def test_N4_the_norm_of_zeros_has_slope_0(ord: Any) -> None:
    assert_array_equal(slope(lambda x: np.linalg.norm(x, ord), np.zeros(3)), np.zeros(3))
    assert_array_equal(slope(lambda x: np.linalg.norm(x, ord) ** 2, np.zeros(3)), np.zeros(3))


def test_N4_elsewhere_the_norm_has_the_slope_of_a_unit_vector() -> None:
    assert_allclose(slope(np.linalg.norm, [3.0, 4.0]), [0.6, 0.8], rtol=1e-15)
    assert_allclose(slope(lambda x: np.linalg.norm(x, axis=1), [[3.0, 4.0], [0.0, 0.0]]), [[0.6, 0.8], [0.0, 0.0]])
    assert_array_equal(slope(lambda x: np.linalg.norm(x, 1), [3.0, 0.0, -4.0]), [1.0, 0.0, -1.0])
    assert_array_equal(slope(lambda x: np.linalg.norm(x, np.inf), [3.0, 0.0, -3.0]), [0.5, 0.0, -0.5])
    assert_allclose(second(np.linalg.norm, [3.0, 4.0]), np.array([[16.0, -12.0], [-12.0, 9.0]]) / 125, atol=1e-15)


def test_N4_a_norm_that_has_no_rule_here_says_so() -> None:
    for ord in (0.5, "nuc", -1):
        with pytest.raises(ta.errors.OptionError, match="ord must be at least 1"):
            np.linalg.norm(variable(np.ones(3)), ord)
    for axis in (None, (0, 1)):
        with pytest.raises(ta.errors.OptionError, match="None or 'fro' for matrices"):
            np.linalg.norm(variable(np.ones((2, 2))), 1, axis)


@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [0.0, 0.0], [5.0]], ids=str)
def test_N5_the_standard_deviation_of_equal_values_has_slope_0(values: Any) -> None:
    assert_array_equal(slope(np.std, values), np.zeros(len(values)))


def test_N5_a_constant_row_does_not_disturb_the_others() -> None:
    together = slope(lambda x: np.std(x, axis=1), [[1.0, 1.0, 1.0], [1.0, 2.0, 6.0]])
    assert_array_equal(together[0], np.zeros(3))
    assert_array_equal(together[1], slope(np.std, [1.0, 2.0, 6.0]))


@pytest.mark.parametrize("value", [0.0, 1.0, 1e6])
def test_N5_layer_norm_of_a_constant_row_is_finite_everywhere(value: float) -> None:
    x, gain, bias = variable(np.full((2, 3), value)), variable(np.ones(3)), variable(np.zeros(3))
    out = ta.layer_norm(x, gain, bias)
    out.backward(np.array([[1.0, -2.0, 3.0], [0.5, 0.0, 1.0]]))
    for tensor in (x, gain, bias):
        assert tensor.grad is not None and np.isfinite(tensor.grad).all()
    assert_array_equal(out.numpy(), np.zeros((2, 3)))
    assert_allclose(x.grad.sum(axis=-1), 0.0, atol=1e-9)


# --- N6: powers -------------------------------------------------------------------------------------------------------

POWERS = [(0.0, 0, 0.0), (0.0, 2, 0.0), (0.0, 1, 1.0), (-2.0, 2, -4.0), (-2.0, 2.0, -4.0), (-1.0, 3, 3.0)]
POWERS += [(2.0, -1, -0.25), (4.0, 0.5, 0.25), (3.0, 0, 0.0), (0.0, 3, 0.0), (-2.0, 1, 1.0), (-2.0, 0, 0.0)]


@pytest.mark.parametrize(("base", "exponent", "expected"), POWERS)
@pytest.mark.parametrize("kind", [lambda p: p, np.float64, lambda p: np.array([p]), ta.Tensor], ids=str)
def test_N6_the_derivative_by_the_base(base: float, exponent: float, expected: float, kind: Function) -> None:
    x = variable([base])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no logarithm of the base is taken
        (x ** kind(exponent)).sum().backward()
    assert_allclose(x.grad, [expected], rtol=1e-14)


def test_N6_the_derivative_by_the_exponent() -> None:
    assert_allclose(slope(lambda p: 2.0**p, 3.0), 8.0 * np.log(2.0), rtol=1e-15)
    assert slope(lambda p: 0.0**p, 2.0) == 0.0
    assert slope(lambda p: 0.0**p, 0.0) == 0.0
    assert np.isnan(slope(lambda p: np.array(-2.0) ** p, 2.0))  # no real function of p passes through here


def test_N6_both_at_once_with_zeros() -> None:
    base, exponent = variable([0.0, 0.0, 2.0]), variable([0.0, 2.0, 0.0])
    (base**exponent).sum().backward()
    assert_array_equal(base.grad, [0.0, 0.0, 0.0])
    assert_allclose(exponent.grad, [0.0, 0.0, np.log(2.0)], rtol=1e-15)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("kind", [float, ta.Tensor], ids=["number", "tensor"])
def test_N6_higher_derivatives_at_0(exponent: int, kind: Function) -> None:
    f: Function = lambda x: x ** kind(exponent)  # noqa: E731
    for order in range(1, 5):
        f = ta.grad(f)
        expected = np.prod(range(exponent - order + 1, exponent + 1)) if exponent == order else 0.0
        assert f(np.float64(0.0)).item() == expected


def test_N6_the_mixed_second_derivative_at_exponent_0() -> None:
    for exponent in (0.0, 1.0, 2.0):
        mixed = ta.grad(lambda p: ta.grad(lambda x, p=p: x**p)(np.float64(3.0)))(np.float64(exponent))
        assert_allclose(mixed.item(), 3.0 ** (exponent - 1) * (1 + exponent * np.log(3.0)), rtol=1e-14)


# --- N8, N9, N10: ties and kinks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [np.max, lambda x: -np.min(-x)], ids=["max", "min"])
def test_N8_equal_maxima_share(f: Function) -> None:
    assert_array_equal(slope(f, [1.0, 3.0, 3.0]), [0.0, 0.5, 0.5])
    assert_array_equal(slope(f, [2.0, 2.0, 2.0, 2.0]), [0.25] * 4)
    shares = slope(lambda x: f(x), [[3.0, 3.0], [1.0, 3.0]])
    assert_allclose(shares, [[1 / 3, 1 / 3], [0.0, 1 / 3]], rtol=1e-15)
    assert shares.sum() == 1.0


def test_N8_infinities_are_values_too() -> None:
    assert_array_equal(slope(np.max, [-np.inf, -np.inf]), [0.5, 0.5])
    assert_array_equal(slope(np.max, [np.inf, 1.0]), [1.0, 0.0])


KINKS: dict[str, tuple[Function, float, float]] = {
    "relu(0)": (ta.relu, 0.0, 0.0),
    "relu(-0)": (ta.relu, -0.0, 0.0),
    "maximum(0, 0)": (lambda x: np.maximum(x, 0.0), 0.0, 0.5),
    "maximum(0, 0), other way round": (lambda x: np.maximum(0.0, x), 0.0, 0.5),
    "minimum(0, 0)": (lambda x: np.minimum(x, 0.0), 0.0, 0.5),
    "maximum(x, x)": (lambda x: np.maximum(x, x), 2.0, 1.0),
    "relu6(6)": (ta.relu6, 6.0, 0.0),
    "relu6(0)": (ta.relu6, 0.0, 0.0),
    "relu6(3)": (ta.relu6, 3.0, 1.0),
    "hardswish(3)": (ta.hardswish, 3.0, 1.0),
    "hardswish(-3)": (ta.hardswish, -3.0, 0.0),
    "hardswish(0)": (ta.hardswish, 0.0, 0.5),
    "clip at its bound": (lambda x: np.clip(x, 0.0, 1.0), 1.0, 1.0),
    "clip outside": (lambda x: np.clip(x, 0.0, 1.0), 1.5, 0.0),
}


@pytest.mark.parametrize(("f", "at", "expected"), KINKS.values(), ids=KINKS)
def test_N9_each_kink_has_one_stated_slope(f: Function, at: float, expected: float) -> None:
    assert slope(f, at) == expected


def test_N10_the_slope_of_abs_at_0_is_0() -> None:
    assert_array_equal(slope(np.abs, [0.0, -0.0, -2.0, 3.0]), [0.0, 0.0, -1.0, 1.0])


# --- N13: large logits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("unfused", [False, True])
@pytest.mark.parametrize(
    ("logits", "target", "loss", "gradient"),
    [
        ([-431.0, 279.0, 427.0], 0, 858.0, [-1.0, 0.0, 1.0]),
        ([1e8, 1e8], 0, 0.69314718055994531, [-0.5, 0.5]),
        ([0.0, 1000.0], 0, 1000.0, [-1.0, 1.0]),
        ([0.0, 1000.0], 1, 0.0, [0.0, 0.0]),
        ([-np.inf, 0.0], 1, 0.0, [0.0, 0.0]),
    ],
)
def test_N13_cross_entropy_of_huge_logits(
    logits: Any, target: int, loss: float, gradient: Any, unfused: bool, dtype: Any
) -> None:
    x = ta.Tensor(logits, dtype=dtype, requires_grad=True)
    if unfused:
        with ta.unfused():
            out = ta.cross_entropy(x, np.array(target))
    else:
        out = ta.cross_entropy(x, np.array(target))
    out.backward()
    assert_allclose(out.item(), loss, rtol=1e-6)
    assert_allclose(x.grad, gradient, atol=1e-12)


def test_N13_softplus_and_its_kin_do_not_overflow() -> None:
    assert_array_equal(ta.softplus(np.array([100.0, 1000.0, -1000.0])), [100.0, 1000.0, 0.0])
    assert_array_equal(slope(ta.softplus, [100.0, 1000.0, -1000.0]), [1.0, 1.0, 0.0])
    assert_array_equal(ta.sigmoid(np.array([1000.0, -1000.0])), [1.0, 0.0])
    assert_array_equal(slope(ta.sigmoid, [1000.0, -1000.0]), [0.0, 0.0])
    assert_allclose(ta.logsumexp(np.array([1000.0, 1000.0])), 1000.0 + np.log(2.0), rtol=1e-15)
    assert_array_equal(slope(ta.logsumexp, [1000.0, 1000.0]), [0.5, 0.5])
    assert_array_equal(slope(ta.logsumexp, [-np.inf, -np.inf]), [0.0, 0.0])
    assert_array_equal(slope(ta.silu, [1000.0, -1000.0]), [1.0, 0.0])
    assert_array_equal(slope(ta.gelu_tanh, [1e3, -1e3]), [1.0, 0.0])


def test_N13_softmax_of_nothing_but_minus_infinity_is_zero() -> None:
    x = np.array([[-np.inf, -np.inf], [-np.inf, 1.0], [1e300, -1e300]])
    assert_array_equal(ta.softmax(x), [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert_array_equal(slope(lambda t: ta.softmax(t) * np.array([1.0, 5.0]), x), np.zeros((3, 2)))


# --- N16: who made the NaN? -------------------------------------------------------------------------------------------


def test_N16_the_square_root_of_zero_has_an_infinite_slope_and_is_named() -> None:
    assert not np.isfinite(slope(lambda x: np.sqrt((x - 1.0) ** 2), 1.0))
    x = variable(1.0, name="x")
    with detect_anomaly():
        y = np.sqrt((x - 1.0) ** 2)
        with pytest.raises(ta.errors.NotFiniteError) as caught:
            y.backward()
    words = str(caught.value)
    assert "sqrt: the gradient of x is inf" in words
    assert "x                       0.0" in words
    assert "rule: dx = dy / 2y" in words
    assert "test_singular_points.py:" in words and "y = np.sqrt((x - 1.0) ** 2)" in words
    assert x.grad is None


def test_N16_forward_anomalies_are_named_too() -> None:
    x = variable([1.0, -4.0, 2.0])
    with detect_anomaly(), pytest.raises(ta.errors.NotFiniteError) as caught:
        np.log(x)
    words = str(caught.value)
    assert "log made nan at (1,)" in words and "x  -4.0" in words and "np.log(x)" in words
