"""NumPy's functions take NumPy's arguments: the value is NumPy's, the gradient the slope, and the rest is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import values
from tinygrad_attn import Tensor
from tinygrad_attn.errors import DtypeError, InPlaceError, OptionError, ShapeError, UnsupportedFunctionError

X = values(3, 4)
MASK = np.array([True, False, True, True])
PLACES = np.array([0.0, 0.5, 2.0, 2.25])
Use = Callable[[Any], Any]

SAME: dict[str, Use] = {
    "sum of some": lambda x: np.sum(x, axis=1, where=MASK),
    "sum of some, beginning with": lambda x: np.sum(x, where=MASK, initial=2.0, keepdims=True),
    "sum, all by position": lambda x: np.sum(x, 0, None, None, True, 1.5, MASK),
    "product of some": lambda x: np.prod(x, axis=0, where=X > 0, initial=3.0),
    "mean of some": lambda x: np.mean(x, axis=1, where=MASK, keepdims=True),
    "largest of some": lambda x: np.max(x, axis=1, where=MASK, initial=-9.0),
    "largest, at least": lambda x: np.max(x, axis=0, initial=0.1),
    "smallest of some": lambda x: np.min(x, where=MASK, initial=9.0),
    "amin, at most": lambda x: np.amin(x, axis=0, initial=0.2),
    "var of some": lambda x: np.var(x, axis=1, where=MASK, ddof=1),
    "std of some": lambda x: np.std(x, where=MASK, correction=0.5, keepdims=True),
    "std about a known mean": lambda x: np.std(x, axis=0, mean=np.mean(x, axis=0, keepdims=True)),
    "var, all by position": lambda x: np.var(x, 0, None, None, 1, True),
    "std, by NumPy's name": lambda x: np.std(a=x, axis=0),
    "reshape, first axis fastest": lambda x: np.reshape(x, (2, -1), order="F"),
    "reshape to a vector, first axis fastest": lambda x: np.reshape(x, 12, "F"),
    "slopes between given places": lambda x: np.gradient(x, PLACES, axis=1),
    "exact slopes at the ends": lambda x: np.gradient(x, np.array([0.0, 1.0, 3.0]), PLACES, edge_order=2)[0],
    "slopes along an axis of NumPy's": lambda x: np.gradient(x, axis=np.int64(1)),
    "interp at one place": lambda x: np.interp(0.7, PLACES, x[0]),
    "interp beyond": lambda x: np.interp(np.array([-1.0, 5.0]), PLACES, x[0], left=x[1, 1]),
    "take at booleans": lambda x: np.take(x, [True, False], 0),
    "take at one boolean": lambda x: np.take(x, np.True_, 0),
    "roll by an unsigned number": lambda x: np.roll(x, np.uint8(1), 0),
    "roll by several": lambda x: np.roll(x, np.array([1, -2]), (0, 1)),
    "repeat one number": lambda x: np.repeat(x[0, 0], 3, 0),
    "pad as tensors are": lambda x: np.pad(x, ((1, 0), (2, 3)), "wrap"),
    "sort by another method": lambda x: np.sort(x, kind="heapsort"),
    "hstack with the usual casting": lambda x: np.hstack([x, x], dtype=None, casting="same_kind"),
    "dot without out": lambda x: np.dot(x, x.T, None),
    "outer without out": lambda x: np.outer(x, x, out=None),
    "axes by a number of NumPy's": lambda x: np.tensordot(x, x, np.int64(2)),
    "linspace to a list": lambda x: np.linspace(x[0], [1.0, 2.0, 3.0, 4.0], 3, device=None),
    "full_like": lambda x: np.full_like(x, x[0]),
    "full_like in another shape": lambda x: np.full_like(x, x[0, 0], None, "K", True, (2, 2)),
    "sums by number": lambda x: np.bincount(np.array([0, 3, 1, 3]), weights=x[0], minlength=6),
    "add.reduce": lambda x: np.add.reduce(x),
    "add.reduce of all": lambda x: np.add.reduce(x, axis=None, keepdims=True),
    "multiply.reduce": lambda x: np.multiply.reduce(x, 1),
    "maximum.reduce": lambda x: np.maximum.reduce(x, axis=1, initial=0.0),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x, axis=1),
    "add.accumulate": lambda x: np.add.accumulate(x, 1),
    "multiply.accumulate": lambda x: np.multiply.accumulate(x),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x, axis=1),
    "minimum.accumulate": lambda x: np.minimum.accumulate(x),
    "multiply.outer": lambda x: np.multiply.outer(x, x[0]),
    "array on the left of outer": lambda x: np.subtract.outer(np.arange(2.0), x),
    "arctan2.outer": lambda x: np.arctan2.outer(x[0], x[1]),
    "ufunc, saying what is the default": lambda x: np.exp(x, where=True, casting="same_kind", order="K", dtype=None),
}


@pytest.mark.parametrize("name", SAME)
def test_the_value_is_numpys_and_the_gradient_is_the_slope(name: str) -> None:
    use = SAME[name]
    out = use(Tensor(X, requires_grad=True))
    assert isinstance(out, Tensor) and out.requires_grad
    expected = np.asarray(use(X))
    assert out.shape == expected.shape and out.dtype == expected.dtype
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-14, atol=1e-14)
    ta.gradcheck(use, X, order=2)


IN_FLOAT32: dict[str, Use] = {
    "sum": lambda x: np.sum(x, dtype=np.float32),
    "mean": lambda x: np.mean(x, 0, np.float32),
    "prod of some": lambda x: np.prod(x, 1, np.float32, where=MASK),
    "cumsum": lambda x: np.cumsum(x, 0, np.float32),
    "cumprod": lambda x: np.cumprod(x, axis=1, dtype=np.float32),
    "trace": lambda x: np.trace(x, dtype=np.float32),
    "linalg.trace": lambda x: np.linalg.trace(x, dtype=np.float32),
    "concatenate": lambda x: np.concatenate([x, x], dtype=np.float32),
    "stack": lambda x: np.stack([x, x], dtype=np.float32, casting="same_kind"),
    "linspace": lambda x: np.linspace(x, 2.0, 3, dtype=np.float32),
    "exp": lambda x: np.exp(x, dtype=np.float32),
    "matmul": lambda x: np.matmul(x, x.T, dtype=np.float32),
    "float_power": lambda x: np.float_power(x, 2).astype(np.float32),
}


@pytest.mark.parametrize("name", IN_FLOAT32)
def test_a_dtype_to_compute_in_is_kept(name: str) -> None:
    x = Tensor(X, requires_grad=True)
    out = IN_FLOAT32[name](x)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out.numpy(), IN_FLOAT32[name](X), rtol=1e-5, atol=1e-6)
    out.sum().backward()
    assert x.grad is not None and x.grad.dtype == np.float64


ARRAY = np.zeros((3, 4))
REFUSED: dict[str, tuple[Use, type[Exception], str]] = {
    "sum into an array": (lambda t: np.sum(t, out=ARRAY), InPlaceError, r"np\.sum\(…, out=…\)"),
    "diagonal into an array": (lambda t: np.cumsum(t, 0, None, ARRAY), InPlaceError, r"np\.cumsum\(…, out=…\)"),
    "std into an array": (lambda t: np.std(t, out=ARRAY), InPlaceError, r"np\.std\(…, out=…\)"),
    "dot into an array": (lambda t: np.dot(t, t.T, ARRAY), InPlaceError, r"np\.dot\(…, out=…\)"),
    "einsum into an array": (lambda t: np.einsum("ij->ji", t, out=ARRAY), InPlaceError, "einsum"),
    "hstack in a dtype": (lambda t: np.hstack([t], dtype=np.float32), UnsupportedFunctionError, r"dtype=…\) is not"),
    "vecdot along axes": (lambda t: np.vecdot(t, t, axes=[0, 0]), UnsupportedFunctionError, "axes"),
    "some of a ufunc": (lambda t: np.exp(t, where=MASK), UnsupportedFunctionError, "takes no option 'where'"),
    "whole numbers": (lambda t: np.sum(t, dtype=int), DtypeError, r"tensor\.numpy\(\), dtype=int64"),
    "var in whole numbers": (lambda t: np.var(t, dtype=int), DtypeError, "no gradient"),
    "largest of perhaps nothing": (lambda t: np.max(t, where=MASK), OptionError, "initial="),
    "numbers as a mask": (lambda t: np.sum(t, where=np.ones(4)), DtypeError, "boolean"),
    "two names": (lambda t: np.var(t, ddof=1, correction=1), OptionError, "two names"),
    "reshape as it lies": (lambda t: np.reshape(t, 12, order="A"), OptionError, "'C' or 'F'"),
    "reshape without a copy": (lambda t: np.reshape(t, 12, copy=False), OptionError, "copy"),
    "edge_order": (lambda t: np.gradient(t, edge_order=3), OptionError, "1 or 2"),
    "places": (lambda t: np.gradient(t, np.arange(3.0), axis=1), ta.errors.ShapeError, "places"),
    "constant beside copies": (lambda t: np.pad(t, 1, "edge", constant_values=2), OptionError, "takes no constant"),
    "linspace of less than none": (lambda t: np.linspace(t, 1.0, -1), OptionError, "negative"),
    "conditions that are numbers": (lambda t: np.select([np.ones((3, 4))], [t]), DtypeError, "boolean"),
    "outer of matrices": (lambda t: np.linalg.outer(t, t), ta.errors.ShapeError, r"np\.outer takes any shape"),
    "weights of a histogram": (lambda t: np.histogram(X, weights=t), ta.errors.GradientError, "bincount"),
    "weights without a place": (lambda t: np.bincount(np.arange(3), t[0]), ta.errors.ShapeError, "one weight per"),
    "take of nothing": (lambda t: np.take(t[:0], [0], 0, mode="wrap"), ta.errors.IndexRangeError, "nothing"),
    "at": (lambda t: np.add.at(t, 0, 1.0), InPlaceError, "scatter_add"),
    "reduceat": (lambda t: np.add.reduceat(t, [0, 1]), UnsupportedFunctionError, r"np\.add\.reduceat has no"),
    "reduce of another": (lambda t: np.hypot.reduce(t), UnsupportedFunctionError, r"known of np\.add"),
    "accumulate of another": (lambda t: np.logaddexp.accumulate(t), UnsupportedFunctionError, "known of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused_in_words(name: str) -> None:
    use, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        use(Tensor(X, requires_grad=True))


def test_functions_of_plain_values_look_into_lists() -> None:
    t = Tensor(X, requires_grad=True)
    np.testing.assert_array_equal(np.lexsort((t[0], t[1])), np.lexsort((X[0], X[1])))
    np.testing.assert_array_equal(np.less.outer(t[0], t[1]), np.less.outer(X[0], X[1]))
    np.testing.assert_array_equal(np.logical_and.reduce(t), np.logical_and.reduce(X))
    np.testing.assert_array_equal(np.logical_or.accumulate(t), np.logical_or.accumulate(X))


def test_python_numbers_do_not_widen_a_selection() -> None:
    t = Tensor(X, dtype=np.float32, requires_grad=True)
    assert np.select([X > 1, X < 0], [t, 2.0], -1.0).dtype == np.float32


def test_elements_that_are_left_out_get_no_gradient() -> None:
    x = Tensor([[1.0, np.nan], [2.0, 3.0]], requires_grad=True)
    np.mean(x, axis=1, where=~np.isnan(x.numpy())).sum().backward()
    np.testing.assert_array_equal(x.grad, [[1.0, 0.0], [0.5, 0.5]])


def test_the_deviation_of_equal_elements_has_the_slope_zero() -> None:
    x = Tensor([[1.0, 5.0, 1.0]], requires_grad=True)
    np.std(x, axis=1, where=np.array([True, False, True])).sum().backward()
    np.testing.assert_array_equal(x.grad, [[0.0, 0.0, 0.0]])


# --- masked arrays, methods, comparisons ------------------------------------------------------------------------------

MASKED = np.ma.array([1.0, 2.0], mask=[False, True])
WITH_MASK: dict[str, Use] = {
    "as a Tensor": lambda t: Tensor(MASKED),
    "sharing memory": lambda t: Tensor.from_numpy(MASKED),
    "on the right": lambda t: t * MASKED,
    "on the right of a constant": lambda t: t.detach() * MASKED,
    "on the left of a ufunc": lambda t: np.add(MASKED, t),
    "among others": lambda t: np.concatenate([t, MASKED]),
    "summed over": lambda t: MASKED @ t,
}


@pytest.mark.parametrize("name", WITH_MASK)
def test_a_mask_is_refused_rather_than_forgotten(name: str) -> None:
    with pytest.raises(DtypeError, match=r"no mask.*\n.*filled"):
        WITH_MASK[name](Tensor([3.0, 4.0], requires_grad=True))


METHODS: dict[str, Use] = {
    "sum": lambda x: x.sum(axis=0, where=X > 0, initial=2.0),
    "mean": lambda x: x.mean(axis=1, where=MASK),
    "max": lambda x: x.max(axis=0, initial=0.5),
    "prod": lambda x: x.prod(axis=1, dtype=np.float32),
    "std": lambda x: x.std(axis=1, ddof=1, where=MASK),
    "cumsum": lambda x: x.cumsum(0, dtype=np.float32),
    "argmax": lambda x: x.argmax(axis=1, keepdims=True),
    "reshape": lambda x: x.reshape(4, 3, order="F"),
    "flatten": lambda x: x.flatten("F"),
    "ravel": lambda x: x.ravel(order="F"),
    "equal to words": lambda x: np.asarray(x == "a"),
    "not equal to nothing": lambda x: x != None,  # noqa: E711
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_take_numpys_arguments_too(name: str) -> None:
    out = METHODS[name](Tensor(X, requires_grad=True))
    expected = METHODS[name](X)
    assert out.dtype == expected.dtype
    np.testing.assert_allclose(out.numpy() if isinstance(out, Tensor) else out, expected, rtol=1e-6)


@pytest.mark.parametrize("reduce", [np.sum, np.prod, np.mean, np.var, np.std, np.nansum, np.max])
def test_where_of_another_shape_is_named(reduce: Callable[..., Any]) -> None:
    start = {"initial": 0.0} if reduce is np.max else {}
    with pytest.raises(ShapeError, match=r"where= .*\n  expected \(3, 4\), given \(3,\)"):
        reduce(Tensor(X, requires_grad=True), where=MASK[:3], **start)


@pytest.mark.parametrize(
    ("f", "places"),
    [
        (np.split, [1, 2]),
        (np.split, 3),
        (np.array_split, 2),
        (np.delete, [0, 2]),
        (lambda x, at: np.insert(x, at, 5.0, axis=0), [1, 2]),
    ],
    ids=["split at", "split into", "array_split", "delete", "insert"],
)
def test_places_may_be_a_tensor_of_whole_numbers(f: Callable[..., Any], places: Any) -> None:
    by_tensor, by_list = f(Tensor(X, requires_grad=True), Tensor(places)), f(X, places)
    for mine, numpys in zip(by_tensor, by_list, strict=True):
        np.testing.assert_array_equal(mine.numpy(), numpys)
