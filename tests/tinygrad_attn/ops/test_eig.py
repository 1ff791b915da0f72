"""Eigenvalues and eigenvectors without symmetry: the derivative of what LAPACK gives, length and phase included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn import Tensor
from tinygrad_attn.errors import GradientError, ShapeError

REAL = np.array([[2.0, 1.0, 0.3], [0.2, -1.0, 0.5], [0.1, 0.7, 5.0]])
PAIR = np.array([[0.3, -1.1, 0.2], [4.2, 0.9, 0.5], [0.4, -0.3, 4.7]])  # a conjugate pair and a real one
COMPLEX = PAIR + 1j * REAL[::-1]
MATRICES = {"real": REAL, "with a pair": PAIR, "complex": COMPLEX, "a stack": np.stack([PAIR, PAIR.T + 0.1])}

every_matrix = pytest.mark.parametrize("a", MATRICES.values(), ids=MATRICES)


@every_matrix
def test_values_and_vectors_are_numpys(a: Any) -> None:
    found, expected = np.linalg.eig(Tensor(a)), np.linalg.eig(a)
    assert_array_equal(found.eigenvalues.numpy(), expected.eigenvalues)
    assert_array_equal(found.eigenvectors.numpy(), expected.eigenvectors)
    assert_allclose(np.linalg.eigvals(Tensor(a)).numpy(), np.linalg.eigvals(a), rtol=1e-12)


@every_matrix
def test_their_derivatives_are_slopes_in_first_and_second_order(a: Any) -> None:
    ta.gradgradcheck(np.linalg.eigvals, a)
    ta.gradgradcheck(lambda a: np.linalg.eig(a).eigenvectors, a)


@every_matrix
def test_sum_and_product_of_the_eigenvalues_have_the_gradients_of_trace_and_determinant(a: Any) -> None:
    x = Tensor(a, requires_grad=True)
    values = np.linalg.eigvals(x)
    trace = ta.gradients(np.real(values.sum()), x).numpy()
    assert_allclose(trace, np.broadcast_to(np.eye(3), a.shape), atol=1e-12)
    by_values = ta.gradients(np.real(np.prod(values, axis=-1)).sum(), x).numpy()
    assert_allclose(by_values, ta.gradients(np.real(np.linalg.det(x)).sum(), x).numpy(), rtol=1e-10, atol=1e-10)


def test_a_matrix_put_together_again_hands_the_gradient_through() -> None:
    x, upstream = Tensor(COMPLEX, requires_grad=True), REAL - 0.5j * PAIR
    values, vectors = np.linalg.eig(x)
    again = (vectors * np.expand_dims(values, 0)) @ np.linalg.inv(vectors)
    again.backward(upstream)
    assert_allclose(x.grad, upstream, rtol=1e-10, atol=1e-10)


def test_a_symmetric_matrix_has_the_gradient_of_eigvalsh() -> None:
    a = REAL + REAL.T
    x = Tensor(a, requires_grad=True)
    upstream = np.array([1.0, -2.0, 0.5])
    order = np.argsort(np.linalg.eig(a).eigenvalues)
    sent = np.empty(3)
    sent[order] = upstream
    one = ta.gradients(np.linalg.eigvals(x), x, sent).numpy()
    assert_allclose(one, ta.gradients(np.linalg.eigvalsh(x), x, upstream).numpy(), rtol=1e-10, atol=1e-12)


def test_vectors_of_equal_eigenvalues_have_no_derivative() -> None:
    vectors = np.linalg.eig(Tensor(np.eye(2), requires_grad=True)).eigenvectors
    with pytest.raises(GradientError, match="are equal"):
        vectors.sum().backward()


def test_what_is_no_square_matrix_is_refused() -> None:
    with pytest.raises(ShapeError, match="eigvals"):
        np.linalg.eig(Tensor(np.ones((2, 3))))
