"""Derivatives of functions equal the numerical ones, nest, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.inputs import variable
from tinygrad_attn import nn
from tinygrad_attn.errors import ArgumentError, DtypeError, OptionError, ShapeError

Array = np.ndarray[Any, Any]


def numeric(f: Callable[[Array], Any], x: Array, step: float = 1e-6) -> Array:
    """Central differences of an array-valued f: (*out, *x)."""
    columns = []
    for index in np.ndindex(x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][index] += step
        moved[1][index] -= step
        columns.append((np.asarray(f(moved[0])) - np.asarray(f(moved[1]))) / (2 * step))
    out_shape = np.shape(f(x))
    return np.stack(columns, axis=-1).reshape(*out_shape, *x.shape) if columns else np.zeros((*out_shape, *x.shape))


points = st.lists(st.floats(-1.5, 1.5), min_size=1, max_size=4).map(np.array)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "polynomial": lambda x: (x**3 + 2.0 * x).sum(),
    "product of all": lambda x: np.prod(np.sin(x) + 2.0),
    "softmax of outer": lambda x: (ta.softmax(np.outer(x, x)) * np.arange(1.0, len(x) + 1)).sum(),
    "logsumexp": lambda x: ta.logsumexp(x * x),
    "fused": lambda x: ta.layer_norm(np.sin(x), x, x * x, eps=0.1).sum(),
    "attention": lambda x: ta.scaled_dot_product_attention(*[x.reshape(-1, 1)] * 3).sum(),
}


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
@given(points)
def test_grad_is_the_numerical_derivative(f: Callable[[Any], Any], x: Array) -> None:
    value, slope = ta.value_and_grad(f)(x)
    assert_allclose(value.item(), f(x), rtol=1e-12)
    assert_allclose(slope.numpy(), numeric(f, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
@given(points)
def test_hessian_is_symmetric_and_the_derivative_of_the_gradient(f: Callable[[Any], Any], x: Array) -> None:
    matrix = ta.hessian(f)(x).numpy()
    assert_allclose(matrix, matrix.T, rtol=1e-9, atol=1e-9)
    assert_allclose(matrix, numeric(lambda y: ta.grad(f)(y).numpy(), x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
@given(points, st.randoms(use_true_random=False))
def test_hvp_is_the_hessian_times_the_vector(f: Callable[[Any], Any], x: Array, random: Any) -> None:
    v = np.array([random.uniform(-1, 1) for _ in x])
    assert_allclose(ta.hvp(f, x, v).numpy(), ta.hessian(f)(x).numpy() @ v, rtol=1e-8, atol=1e-8)


def curve(x: Any) -> Any:
    return np.stack([np.sin(x).sum(), (x * x).sum(), np.prod(x)])


@given(points)
def test_jacobian_is_the_numerical_one_and_vjp_and_jvp_multiply_with_it(x: Array) -> None:
    matrix = ta.jacobian(curve)(x).numpy()
    assert matrix.shape == (3, *x.shape)
    assert_allclose(matrix, numeric(curve, x), rtol=1e-5, atol=1e-6)
    u, t = np.array([1.0, -2.0, 0.5]), np.cos(np.arange(len(x)))
    out, pull = ta.vjp(curve, x)
    assert_allclose(out.numpy(), curve(x), rtol=1e-12)
    assert_allclose(pull(u)[0].numpy(), u @ matrix, rtol=1e-9, atol=1e-12)
    out, change = ta.jvp(curve, [x], [t])
    assert_allclose(out.numpy(), curve(x), rtol=1e-12)
    assert_allclose(change.numpy(), matrix @ t, rtol=1e-9, atol=1e-12)


def test_the_first_argument_is_differentiated_unless_another_is_named() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(x * x * y)

    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    first = 2.0 * x * y
    assert_allclose(ta.grad(f)(x, y).numpy(), first)
    assert_allclose(ta.value_and_grad(f)(x, y)[1].numpy(), first)
    assert_allclose(ta.jacobian(f)(x, y).numpy(), first)
    assert_allclose(ta.hessian(f)(x, y).numpy(), np.diag(2.0 * y))


# --- nesting ---------------------------------------------------------------------------------------------------------


def test_derivatives_of_a_power_of_every_order() -> None:
    f: Callable[[Any], Any] = lambda x: x**5  # noqa: E731
    for expected in (5 * 2.0**4, 20 * 2.0**3, 60 * 2.0**2, 120 * 2.0, 120.0, 0.0, 0.0):
        f = ta.grad(f)
        assert f(2.0).item() == expected


def test_perturbations_are_not_confused() -> None:
    """d/dx [x · d/dy (x y) at y = 2] = d/dx x² = 2x; and d/dx [x · d/dy (x + y)] = d/dx x = 1."""
    assert ta.grad(lambda x: x * ta.grad(lambda y: x * y)(2.0))(1.0).item() == 2.0
    assert ta.grad(lambda x: x * ta.grad(lambda y: x + y)(1.0))(1.0).item() == 1.0
    assert ta.grad(lambda x: x * ta.grad(lambda y: x + y)(x))(3.0).item() == 1.0
    assert ta.grad(lambda x: ta.grad(lambda y: x**2 * y**3)(x))(2.0).item() == 12 * 2.0**3


@pytest.mark.parametrize("inner", ["grad", "value_and_grad", "vjp", "jvp", "jacobian", "hvp"])
def test_every_transform_can_be_differentiated_in_turn(inner: str) -> None:
    """Each computes 3x² in its own way, whose derivative is 6x."""

    def cube(x: Any) -> Any:
        return x**3

    slopes: dict[str, Callable[[Any], Any]] = {
        "grad": lambda x: ta.grad(cube)(x),
        "value_and_grad": lambda x: ta.value_and_grad(cube)(x)[1],
        "vjp": lambda x: ta.vjp(cube, x)[1](1.0)[0],
        "jvp": lambda x: ta.jvp(cube, [x], [1.0])[1],
        "jacobian": lambda x: ta.jacobian(cube)(x),
        "hvp": lambda x: ta.hvp(lambda y: y**4 / 4.0, x, 1.0),
    }
    assert_allclose(slopes[inner](2.0).item(), 12.0)
    assert_allclose(ta.grad(slopes[inner])(2.0).item(), 12.0)
    assert_allclose(ta.grad(ta.grad(slopes[inner]))(2.0).item(), 6.0)


def test_the_values_that_transforms_return_can_be_differentiated_too() -> None:
    assert ta.grad(lambda x: ta.value_and_grad(lambda y: y**3)(x)[0])(2.0).item() == 12.0
    assert ta.grad(lambda x: ta.vjp(lambda y: y**3, x)[0])(2.0).item() == 12.0
    assert ta.grad(lambda x: ta.jvp(lambda y: y**3, [x], [1.0])[0])(2.0).item() == 12.0


def test_upstreams_and_tangents_can_be_differentiated_too() -> None:
    assert ta.grad(lambda u: ta.vjp(lambda y: y**3, 2.0)[1](u)[0])(1.0).item() == 12.0
    assert ta.grad(lambda t: ta.jvp(lambda y: y**3, [2.0], [t])[1])(1.0).item() == 12.0


def test_a_parameter_from_outside_gets_a_gradient_through_a_gradient() -> None:
    w = variable(3.0)
    slope = ta.grad(lambda x: w * x**2)(2.0)
    assert slope.item() == 12.0
    slope.backward()
    assert w.grad == 4.0


def test_gradients_with_a_graph_of_their_own() -> None:
    x = variable([1.0, 2.0])
    y = (x**3).sum()
    first = ta.gradients(y, x, create_graph=True)
    second = ta.gradients(first.sum(), x, create_graph=True)
    third = ta.gradients(second.sum(), x)
    assert_array_equal(first.numpy(), [3.0, 12.0])
    assert_array_equal(second.numpy(), [6.0, 12.0])
    assert_array_equal(third.numpy(), [6.0, 6.0])
    assert not third.requires_grad
    assert x.grad is None


def test_one_derivative_of_a_fused_operation_is_that_of_its_reference() -> None:
    x = variable(np.random.default_rng(0).normal(size=(3, 4)))
    u = np.random.default_rng(1).normal(size=(3, 4))
    plain = ta.gradients(ta.layer_norm(x, np.ones(4), np.zeros(4)), x, u)
    recorded = ta.gradients(ta.layer_norm(x, np.ones(4), np.zeros(4)), x, u, create_graph=True)
    assert recorded.requires_grad and not plain.requires_grad
    assert_allclose(recorded.numpy(), plain.numpy(), rtol=1e-12)


# --- modes and what is around ----------------------------------------------------------------------------------------


def test_derivatives_work_under_no_grad_and_leave_nothing_recorded() -> None:
    w = variable(3.0)
    with ta.no_grad():
        slope = ta.grad(lambda x: w * x**2)(2.0)
        assert slope.item() == 12.0 and not slope.requires_grad
        assert not ta.grad(lambda x: x**2)(w).requires_grad
        assert ta.hessian(lambda x: x**3)(2.0).item() == 12.0
        assert ta.jvp(lambda x: x**3, [w], [1.0])[1].item() == 27.0
        assert not ta.jvp(lambda x: x**3, [w], [1.0])[1].requires_grad
        assert not ta.is_grad_enabled()


def test_nothing_is_left_in_grad_and_the_arguments_stay_as_they_are() -> None:
    x = variable([1.0, 2.0], name="x")
    array = np.array([1.0, 2.0])
    ta.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, array)
    ta.hessian(lambda x: (x**3).sum())(x)
    assert x.grad is None
    assert_array_equal(array, [1.0, 2.0])


def test_results_are_constants_unless_something_outside_may_ask_for_more() -> None:
    assert not ta.grad(lambda x: x**2)(2.0).requires_grad
    assert not ta.value_and_grad(lambda x: x**2)(2.0)[0].requires_grad
    assert not ta.grad(lambda x: x**2)(ta.Tensor(2.0)).requires_grad
    assert ta.grad(lambda x: x**2)(variable(2.0)).requires_grad


def test_variables_carry_the_names_of_the_arguments() -> None:
    seen = []
    ta.grad(lambda x: (seen.append(x.name), x)[1])(ta.Tensor(1.0, name="speed"))
    ta.grad(lambda x: (seen.append(x.name), x)[1])(variable(1.0, name="speed"))
    assert seen == ["speed", "speed"]


def product(x: Any, y: Any) -> Any:
    return x * y


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ta.grad(lambda x: x * 2.0)([1.0, 2.0]), r"returns one number\n  given \(2,\); use jacobian or vjp"),
        (lambda: ta.grad(lambda x: (x, x))(1.0), r"given \(\), \(\)"),
        (lambda: ta.grad(lambda x: None)(1.0), "given nothing"),
        (lambda: ta.vjp(lambda x: x, [1.0, 2.0])[1]([1.0]), r"upstream must have the structure"),
        (lambda: ta.vjp(lambda x: (x, x), 1.0)[1](1.0), "expected 2 parts, given 1.0"),
        (lambda: ta.vjp(lambda x: {"a": x}, 1.0)[1]({"b": 1.0}), "expected a dict with 'a', given {'b': 1.0}"),
        (lambda: ta.jvp(lambda x: x, [[1.0, 2.0]], [1.0]), r"a tangent .*\n  expected \(2,\), given \(\)"),
        (lambda: ta.jvp(lambda x: x, [1.0], []), "one tangent per argument"),
        (lambda: ta.hvp(lambda x: x.sum(), [1.0, 2.0], [1.0]), "v must have the structure and the shapes of x"),
    ],
)
def test_shapes_that_do_not_fit_are_typed_errors(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ta.errors.ShapeError, match=words):
        call()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ta.grad(3), ArgumentError, "expected a function to differentiate\n  given 3"),
        (lambda: ta.jacobian(None), ArgumentError, "given None"),
        (lambda: ta.vjp(3, 1.0), ArgumentError, "given 3"),
        (lambda: ta.jvp(3, [1.0], [1.0]), ArgumentError, "given 3"),
        (lambda: ta.hvp(3, 1.0, 1.0), ArgumentError, "given 3"),
        (lambda: ta.grad(product, "x"), ArgumentError, "argnums must be a position.*\n  given 'x'"),
        (lambda: ta.grad(product, 0.0), ArgumentError, "given 0.0"),
        (lambda: ta.grad(product, True), ArgumentError, "given True"),
        (lambda: ta.grad(product, (0, 0))(1.0, 2.0), OptionError, r"twice\n  given \(0, 0\) for 2"),
        (lambda: ta.jacobian(product, (1, -1))(1.0, 2.0), OptionError, "twice"),
        (lambda: ta.grad(product, 2)(1.0, 2.0), OptionError, "names argument 2\n  2 arguments were given by position"),
        (lambda: ta.grad(product)(x=1.0, y=2.0), OptionError, "0 arguments were given by position"),
        (lambda: ta.grad(np.tanh, has_aux=True)(1.0), ArgumentError, r"a pair \(value, aux\)\n  given Tensor"),
        (lambda: ta.grad(np.tanh, has_aux=True)([1.0, 2.0]), ArgumentError, "given Tensor"),
        (lambda: ta.grad(lambda x: {"loss": x})(1.0), ShapeError, r"one number\n  given \(\) in a dict"),
        (lambda: ta.grad(lambda x: "a word")(1.0), DtypeError, "the function returned 'a word'"),
        (lambda: ta.grad(product, 1)(1.0, {"w": 1.0, "kind": "relu"}), DtypeError, "argument 1 holds 'relu'"),
        (lambda: ta.grad(np.tanh)(nn.Linear(2, 2)), DtypeError, "argument 0 holds Linear"),
        (lambda: ta.grad(np.tanh)(1), DtypeError, r"argument 0 holds 1: .*\n.*write 1\.0 for 1"),
        (lambda: ta.jvp(np.tanh, 1.0, 1.0), ArgumentError, r"of one argument, jvp\(f, \[x\], \[t\]\)"),
        (lambda: ta.jvp(product, *np.ones((2, 2))), ArgumentError, "given ndarray and ndarray"),
        (lambda: ta.jvp(np.tanh, [1.0], [None]), DtypeError, r"expected numbers of shape \(\), given None"),
        (lambda: ta.jvp(np.tanh, [1.0], [1j]), DtypeError, r"expected real numbers of shape \(\), given 1j"),
        (lambda: ta.vjp(np.tanh, 1.0)[1]("1.0"), DtypeError, "given '1.0'"),
        (lambda: ta.hvp(np.tanh, 1.0, [[1.0], [1.0, 2.0]]), DtypeError, "v must have"),
    ],
)
def test_other_mistakes_are_typed_errors_too(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
    assert ta.is_grad_enabled()


def test_what_nobody_differentiates_by_may_be_anything_and_what_f_raises_arrives_as_it_is() -> None:
    assert ta.grad(lambda x, n, word: x**n)(2.0, 3, "word").item() == 12.0
    with pytest.raises(ZeroDivisionError):
        ta.grad(lambda x: 1 / 0)(1.0)
    assert ta.is_grad_enabled()
