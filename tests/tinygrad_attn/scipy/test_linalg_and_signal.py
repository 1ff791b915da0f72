"""scipy.linalg and scipy.signal on Tensors: solutions solve, slopes are slopes, and what does not fit is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tinygrad_attn import Tensor
from tinygrad_attn.errors import DtypeError, OptionError, ShapeError, SingularMatrixError

theirs = require("scipy.signal")
ours = require("tinygrad_attn.scipy")
linalg, signal = ours.linalg, ours.signal

RNG = np.random.default_rng(2)
A = RNG.normal(size=(3, 3)) + 4.0 * np.eye(3)
B = RNG.normal(size=(2, 2)) + 4.0 * np.eye(2)
Q = RNG.normal(size=(3, 2))


@pytest.mark.parametrize("trans", [0, 1, "N", "T"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_a_triangular_system_is_solved_and_the_rest_has_no_influence(trans: Any, lower: bool, unit: bool) -> None:
    a = Tensor(A, requires_grad=True)
    x = linalg.solve_triangular(a, Q, trans=trans, lower=lower, unit_diagonal=unit)
    triangle = np.tril(A) if lower else np.triu(A)
    if unit:
        np.fill_diagonal(triangle, 1.0)
    np.testing.assert_allclose((triangle.T if trans in (1, "T") else triangle) @ x.numpy(), Q, atol=1e-12)
    x.sum().backward()
    outside = np.triu(np.ones((3, 3)), 0 if unit else 1) if lower else np.tril(np.ones((3, 3)), 0 if unit else -1)
    np.testing.assert_array_equal(a.grad[outside == 1.0], 0.0)


def test_the_root_of_a_matrix_times_itself_is_the_matrix() -> None:
    root = linalg.sqrtm(Tensor(A))
    np.testing.assert_allclose((root @ root).numpy(), A, atol=1e-12)


def test_sylvesters_equation_holds() -> None:
    x = linalg.solve_sylvester(A, B, Q)
    np.testing.assert_allclose(A @ x + x @ B, Q, atol=1e-12)


def test_the_exponential_of_a_matrix_solves_its_differential_equation() -> None:
    whole, half = linalg.expm(A), linalg.expm(A / 2)
    np.testing.assert_allclose(half @ half, whole, rtol=1e-12)
    slope = ta.jvp(lambda t: linalg.expm(t * A), [1.0], [1.0])[1]
    np.testing.assert_allclose(slope.numpy(), A @ whole, rtol=1e-10)


@pytest.mark.parametrize("l_and_u", [(0, 0), (1, 1), (2, 1), (0, 2), (1, 0)])
@pytest.mark.parametrize("right", [(5,), (5, 2)])
def test_a_banded_system_is_solved_for_any_band(l_and_u: tuple[int, int], right: Any) -> None:
    lower, upper = l_and_u
    ab, b = RNG.uniform(-0.3, 0.3, (lower + upper + 1, 5)), RNG.normal(size=right)
    ab[upper] += 2.0
    full = sum(
        np.diag(row[max(k, 0) : 5 + min(k, 0)], k) for k, row in zip(range(upper, -lower - 1, -1), ab, strict=True)
    )
    np.testing.assert_allclose(full @ linalg.solve_banded(l_and_u, ab, b), b, atol=1e-12)
    ta.gradcheck(lambda ab, b: linalg.solve_banded(l_and_u, ab, b), ab, b, order=2)


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
@pytest.mark.parametrize("shapes", [((5,), (3,)), ((3,), (5,)), ((4, 5), (2, 3)), ((2, 3, 4), (2, 2, 1)), ((4,), (4,))])
def test_a_convolution_is_scipys_in_every_mode(mode: str, shapes: Any) -> None:
    a, b = (RNG.normal(size=shape) for shape in shapes)
    np.testing.assert_allclose(signal.convolve(a, b, mode), theirs.convolve(a, b, mode), rtol=1e-10, atol=1e-12)
    ta.gradcheck(lambda a, b: signal.convolve(a, b, mode), a, b, order=2)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "a matrix that is not square": (lambda: linalg.sqrtm(Q), ShapeError, "square"),
    "a stack": (lambda: linalg.expm(np.ones((2, 2, 2))), ShapeError, "one square matrix"),
    "a complex matrix": (lambda: linalg.solve_sylvester(A + 1j, B, Q), DtypeError, "real"),
    "a 0 on the diagonal": (
        lambda: linalg.solve_triangular(np.zeros((2, 2)), np.ones(2)),
        SingularMatrixError,
        "diagonal",
    ),
    "an unknown transposition": (lambda: linalg.solve_triangular(A, Q, trans="C"), OptionError, "trans"),
    "a root that is not real": (lambda: linalg.sqrtm(-A), SingularMatrixError, "no real square root"),
    "another number of diagonals": (lambda: linalg.solve_banded((1, 1), A[:2], Q), ShapeError, "3 diagonals"),
    "an unknown mode": (lambda: signal.convolve(A, B, "half"), OptionError, "mode"),
    "another number of axes": (lambda: signal.convolve(A, B[0]), ShapeError, "same axes"),
    "neither fits": (lambda: signal.convolve(np.ones((1, 3)), np.ones((3, 1)), "valid"), ShapeError, "fit into"),
}


@pytest.mark.parametrize(("call", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_said(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
