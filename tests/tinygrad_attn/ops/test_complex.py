"""Complex numbers: what a gradient of them holds, which lines conjugate, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn import Tensor
from tinygrad_attn.errors import CheckError, DtypeError, GradientError, GradientMismatch

STEP = 2.0**-20
POINTS = np.array([1.5 + 2j, -0.7 - 0.4j, -2.0 + 0.3j, 0.6 - 1.9j, 0.3 + 0.2j])  # in all four quadrants


def variable(values: Any) -> Tensor:
    return Tensor(np.asarray(values), requires_grad=True)


def slopes(f: Callable[[Any], Any], z: Any) -> Any:
    """∂f/∂Re z + i ∂f/∂Im z of a real function of single elements, by central differences."""
    return sum(way * (f(z + STEP * way) - f(z - STEP * way)) / (2.0 * STEP) for way in (1.0, 1j))


# --- the convention ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        np.real,
        np.imag,
        np.absolute,
        np.angle,
        lambda z: np.real(z * z * (1 - 2j)),
        lambda z: np.imag(np.exp(z)),
        lambda z: np.real(z * np.conj(z)),
        lambda z: np.imag(np.conj(z) ** 3),
        lambda z: np.absolute(np.sign(z) + 0.5),
    ],
)
def test_a_gradient_holds_the_slopes_along_both_axes(f: Callable[[Any], Any]) -> None:
    z = variable(POINTS)
    f(z).sum().backward()
    assert_allclose(z.grad, slopes(f, POINTS), rtol=1e-8, atol=1e-9)


def test_a_step_against_the_gradient_makes_a_loss_smaller() -> None:
    z, wanted = variable([3 + 4j, -1j]), np.array([1 - 1j, 2.0])
    losses = []
    for _ in range(30):
        loss = (np.absolute(z - wanted) ** 2).sum()
        losses.append(loss.item())
        z.zero_grad()
        loss.backward()
        z.data -= 0.2 * z.grad
    assert all(later < earlier for earlier, later in itertools.pairwise(losses))
    assert_allclose(z.numpy(), wanted, atol=1e-5)


def test_what_arrives_from_outside_and_what_hooks_see_is_in_the_same_convention() -> None:
    z = variable([1 + 2j])
    w = z * (2 - 1j)
    seen: list[Any] = []
    w.register_hook(lambda gradient: seen.append(np.array(gradient)))
    w.backward(np.array([3 + 1j]))
    assert_array_equal(seen, [[3 + 1j]])
    assert_allclose(z.grad, np.conj(2 - 1j) * np.array([3 + 1j]))
    (pulled,) = ta.vjp(lambda z: z * (2 - 1j), np.array([1 + 2j]))[1](np.array([3 + 1j]))
    assert_array_equal(pulled.numpy(), z.grad)
    assert_array_equal(ta.gradients(w, z, np.array([3 + 1j])).numpy(), z.grad)


def test_a_hook_may_replace_a_complex_gradient() -> None:
    z = variable([1 + 2j])
    w = z * 2.0
    w.register_hook(lambda gradient: gradient * 1j)
    w.backward(np.array([1.0]))
    assert_array_equal(z.grad, [2j])


def test_a_real_input_of_a_complex_computation_has_a_real_gradient() -> None:
    x = variable([0.5, -1.0])
    np.real(np.exp(1j * x)).sum().backward()
    assert x.grad is not None and x.grad.dtype == np.float64
    assert_allclose(x.grad, -np.sin([0.5, -1.0]))


@pytest.mark.parametrize(
    ("f", "derivative"),
    [
        (np.exp, np.exp),
        (np.log, lambda z: 1 / z),
        (np.sqrt, lambda z: 0.5 / np.sqrt(z)),
        (np.sin, np.cos),
        (np.arcsin, lambda z: 1 / np.sqrt(1 - z * z)),
        (np.arctan, lambda z: 1 / (1 + z * z)),
        (np.arcsinh, lambda z: 1 / np.sqrt(1 + z * z)),
        (np.arccosh, lambda z: 1 / (np.sqrt(z - 1) * np.sqrt(z + 1))),
        (np.arctanh, lambda z: 1 / (1 - z * z)),
        (lambda z: z ** (2 - 1j), lambda z: (2 - 1j) * z ** (1 - 1j)),
    ],
)
def test_the_holomorphic_derivative_is_that_of_the_formula_in_every_quadrant(f: Any, derivative: Any) -> None:
    for z in POINTS:
        assert_allclose(ta.jacobian(f, holomorphic=True)(z).numpy(), derivative(z), rtol=1e-12)
        assert_allclose((f(z + STEP) - f(z - STEP)) / (2 * STEP), derivative(z), rtol=1e-6)


def test_a_negative_base_of_a_complex_power_has_a_gradient_by_the_exponent() -> None:
    b = variable([1.0 + 0.5j])
    np.real(np.power(np.array([-2.0]), b)).sum().backward()
    assert_allclose(b.grad, slopes(lambda b: np.real(np.power(-2.0 + 0j, b)), np.array([1.0 + 0.5j])), rtol=1e-8)


def test_real_numbers_pass_the_functions_for_complex_ones_unchanged() -> None:
    x = variable([2.0, -3.0])
    assert x.real is x and x.conj() is x
    assert_array_equal(x.imag.numpy(), [0.0, 0.0])
    (np.real(x) + np.conjugate(x) + np.imag(x)).sum().backward()
    assert_array_equal(x.grad, [2.0, 2.0])
    assert_array_equal(np.sign(x), [1.0, -1.0])
    assert isinstance(np.sign(x), np.ndarray)


def test_absolute_norm_and_direction_have_the_slope_0_at_0() -> None:
    for f in (np.absolute, np.linalg.norm, lambda z: np.real(np.sign(z)), np.angle):
        z = variable([0j])
        f(z).sum().backward()
        assert_array_equal(z.grad, [0j])


# --- numbers and dtypes ------------------------------------------------------------------------------------------


def test_complex_numbers_and_lists_of_them_have_the_default_precision() -> None:
    assert Tensor(1j).dtype == Tensor([1j, 2.0]).dtype == np.complex64
    assert Tensor(np.array([1j])).dtype == np.complex128
    assert (Tensor([1.0]) * 1j).dtype == np.complex64
    assert (Tensor([1.0], dtype=np.float64) + 1j).dtype == np.complex128
    assert (Tensor([1j]) * np.ones(1)).dtype == np.complex128


def test_a_tensor_gives_its_complex_numbers_back() -> None:
    z = Tensor([1 + 2j])
    assert z.item() == complex(z) == 1 + 2j and z.tolist() == [1 + 2j]
    assert repr(z) == "Tensor([1.+2.j], dtype=complex64)"
    assert f"{z[0]:.1f}" == "1.0+2.0j"
    for convert in (float, int):
        with pytest.raises(TypeError):
            convert(z)


def test_every_dtype_stays_what_it_is_in_a_mixed_computation() -> None:
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    z = Tensor(np.full(2, 1j, np.complex64), requires_grad=True)
    w = x * z + 2.0
    assert w.dtype == np.complex64 and w.real.dtype == np.absolute(w).dtype == np.float32
    np.absolute(w).sum().backward()
    assert x.grad is not None and x.grad.dtype == np.float32
    assert z.grad is not None and z.grad.dtype == np.complex64


# --- transforms --------------------------------------------------------------------------------------------------


def test_jvp_and_vjp_are_adjoint_in_the_real_inner_product() -> None:
    rng = np.random.default_rng(0)
    z, t = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    u = rng.normal(size=3) - 1j

    def f(z: Any) -> Any:
        return np.exp(z) * np.conj(z) + np.absolute(z)

    _, change = ta.jvp(f, [z], [t])
    (pulled,) = ta.vjp(f, z)[1](u)
    assert_allclose(np.vdot(u, change.numpy()).real, np.vdot(pulled.numpy(), t).real)
    assert_allclose(change.numpy(), (f(z + STEP * t) - f(z - STEP * t)) / (2 * STEP), rtol=1e-7)


def test_a_hessian_vector_product_is_the_slope_of_the_gradient() -> None:
    def f(z: Any) -> Any:
        return (np.absolute(z) ** 3).sum() + np.real(z**3).sum()

    z, v = np.array([1 + 2j, -0.5j + 0.1]), np.array([0.3 - 1j, 2.0])
    gradient = ta.grad(f)
    measured = (gradient(z + STEP * v).numpy() - gradient(z - STEP * v).numpy()) / (2 * STEP)
    assert_allclose(ta.hvp(f, z, v).numpy(), measured, rtol=1e-7)


def test_a_real_jacobian_of_complex_arguments_has_gradients_in_its_rows() -> None:
    def f(z: Any) -> Any:
        return np.stack([np.real(z[0] * z[1]), np.absolute(z[1])])

    z = np.array([1 + 2j, 3 - 1j])
    rows = ta.jacobian(f)(z).numpy()
    for row, gradient in enumerate(rows):
        assert_allclose(gradient, ta.grad(lambda z, row=row: f(z)[row])(z).numpy())


def test_a_holomorphic_jacobian_of_a_product_is_the_matrix() -> None:
    matrix = np.array([[1 + 1j, 2.0], [-1j, 0.5 - 3j]])
    assert_array_equal(ta.jacobian(lambda z: matrix @ z, holomorphic=True)(np.array([1j, 2.0])).numpy(), matrix)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "backward from a complex number": (lambda: variable(1j).backward(), GradientError, "from a complex number"),
    "grad of a complex function": (lambda: ta.grad(np.exp)(1j), DtypeError, "returns real numbers"),
    "jacobian of a complex function": (lambda: ta.jacobian(np.exp)(np.array([1j])), DtypeError, "holomorphic=True"),
    "holomorphic, of real arguments": (
        lambda: ta.jacobian(lambda x: x * 1j, holomorphic=True)(np.ones(1)),
        DtypeError,
        "complex arguments",
    ),
    "holomorphic, of real outputs": (
        lambda: ta.jacobian(np.absolute, holomorphic=True)(np.array([1j])),
        DtypeError,
        "complex arguments and outputs",
    ),
    "hessian by complex arguments": (
        lambda: ta.hessian(lambda z: np.absolute(z).sum())(np.array([1j])),
        DtypeError,
        "returns real numbers",
    ),
    "a complex gradient of real numbers": (
        lambda: variable([1.0]).backward(np.array([1j])),
        DtypeError,
        "real numbers",
    ),
    "a complex tangent of real numbers": (lambda: ta.jvp(np.exp, [np.ones(1)], [np.ones(1) * 1j]), DtypeError, "real"),
    "dropping the imaginary part": (lambda: variable([1j]).astype(np.float64), DtypeError, "imaginary"),
    "an order": (lambda: variable([1j]) < 1.0, DtypeError, "less takes real numbers"),
    "the largest": (lambda: np.argmax(variable([1j])), DtypeError, "argmax takes real numbers"),
    "sorting": (lambda: np.sort(variable([1j])), DtypeError, "sort takes real numbers"),
    "rounding down": (lambda: variable([1j]) // 1, DtypeError, "floor_divide takes real numbers"),
    "training": (lambda: ta.optim.SGD([variable([1j])], lr=0.1), DtypeError, "real and imaginary part"),
    "a real spectrum": (lambda: np.fft.rfft(variable([1j])), DtypeError, "rfft takes real numbers"),
    "checking in single precision": (lambda: ta.gradcheck(np.exp, Tensor([1j])), CheckError, "complex128"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused_by_name(name: str) -> None:
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call()


def test_an_operation_of_one_s_own_takes_real_numbers_until_it_says_otherwise() -> None:
    @ta.op
    def cube(x: Any) -> Any:
        return x * x * x

    @ta.op(complex=True)
    def complex_cube(x: Any) -> Any:
        return x * x * x

    for operation in (cube, complex_cube):
        operation.gradient("x", formula="dx = 3x² dy")(lambda g, out, x: g * 3.0 * x * x)
    with pytest.raises(DtypeError, match="cube takes real numbers"):
        cube(variable([1j]))
    assert ta.gradcheck(complex_cube, np.array([1 + 2j]), order=2).elements > 0


# --- the gradient checker ----------------------------------------------------------------------------------------


def test_the_checker_reports_both_parts_and_finds_a_rule_that_conjugates_wrongly() -> None:
    report = ta.gradcheck(np.absolute, np.array([1 + 2j]))
    assert [check.name for check in report.checks] == ["x.real", "x.imag"]

    @ta.op(complex=True)
    def turned(z: Any) -> Any:
        return z * (1 + 2j)

    turned.gradient("z", formula="dz = dy conj(1 + 2i)")(lambda g, out, z: g * (1 - 2j))
    with pytest.raises(GradientMismatch) as caught:
        ta.gradcheck(lambda z: np.exp(turned(z)), np.array([0.5 + 0.1j]))
    assert caught.value.operation == "turned"
    assert caught.value.input in ("z.real", "z.imag")


# --- diagnosis ---------------------------------------------------------------------------------------------------


def test_why_finds_where_a_complex_gradient_is_lost() -> None:
    z = variable([0j, 1j])
    with np.errstate(all="ignore"):
        loss = np.absolute(np.log(z)).sum()
        found = ta.diagnose.why(z, loss)
    assert found.derivative == "not finite" and found.causes[0].operation == "log"
    with pytest.raises(ta.errors.NotFiniteError, match="log"), ta.detect_anomaly(), np.errstate(all="ignore"):
        np.log(z)


# --- functions that are written with others --------------------------------------------------------------------------

TABLE = np.array([[1 + 2j, 0.5 - 1j, -0.3j], [0.2 + 0.1j, 2.0, 1j], [-1.5 + 1j, 0.4j, 0.7 - 2j]])
SOME = np.array([True, False, True])
HOLED = np.where(np.eye(3, dtype=bool), np.nan, TABLE)


@pytest.mark.parametrize(
    ("f", "z"),
    [
        (np.cov, TABLE),
        (lambda z: np.cov(z[0], z[1], bias=True), TABLE),
        (np.corrcoef, TABLE),
        (lambda z: np.var(z, axis=1, where=SOME), TABLE),
        (lambda z: np.std(z, where=SOME, ddof=1), TABLE),
        (lambda z: np.var(z, axis=0, mean=np.mean(z, axis=0, keepdims=True)), TABLE),
        (lambda z: np.nanvar(z, axis=0), HOLED),
        (lambda z: np.nanstd(z, axis=1), HOLED),
        (lambda z: np.angle(z, deg=True), TABLE + 2.0),
    ],
    ids=["cov", "cov of two", "corrcoef", "var of some", "std of some", "var, mean", "nanvar", "nanstd", "degrees"],
)
def test_statistics_of_complex_numbers_are_numpys_with_their_slopes(f: Callable[[Any], Any], z: Any) -> None:
    assert_allclose(f(variable(z)).numpy(), f(z), rtol=1e-12, atol=1e-14)
    numbers = ~np.isnan(z)

    def of_numbers(part: Any) -> Any:
        return f(
            ta.index_put(np.where(numbers, 0, z), index=np.nonzero(numbers), values=part) + np.where(numbers, 0, z)
        )

    ta.gradcheck(of_numbers, z[numbers], order=2)


def test_batch_normalisation_refuses_complex_numbers() -> None:
    with pytest.raises(DtypeError, match="batch_norm takes real numbers"):
        ta.batch_norm(variable(TABLE))


@pytest.mark.parametrize("f", [ta.sigmoid, ta.erf, ta.eigvalsh, ta.cholesky], ids=lambda f: f.name)
def test_what_is_made_for_real_numbers_refuses_plain_complex_arrays_as_well(f: Callable[[Any], Any]) -> None:
    with pytest.raises(DtypeError, match="takes real numbers, given complex ones"):
        f(np.array([[2, 1j], [-1j, 2]]))
