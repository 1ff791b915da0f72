"""Eigenvalues, singular values, QR and the pseudo-inverse: what they promise, and where they have no derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import assert_like_numpy, values
from tinygrad_attn import Tensor
from tinygrad_attn.errors import GradientError, OptionError, ShapeError

FORMS = [(3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 2, 3), (1, 1), (3, 1), (1, 3)]


def symmetric(*shape: int) -> Any:
    a = values(*shape)
    return a + np.swapaxes(a, -1, -2)


def differentiable(value: Any) -> Tensor:
    return Tensor(value, requires_grad=True)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (1, 1), (0, 0)])
def test_eigenvalues_are_numpys(shape: tuple[int, ...]) -> None:
    assert_like_numpy(np.linalg.eigvalsh, symmetric(*shape))
    assert_like_numpy(lambda a: np.linalg.eigvalsh(a, "U"), symmetric(*shape))
    assert_like_numpy(lambda a: np.linalg.eigh(a).eigenvalues, symmetric(*shape))


@pytest.mark.parametrize("shape", FORMS)
def test_singular_values_and_pseudo_inverses_are_numpys(shape: tuple[int, ...]) -> None:
    assert_like_numpy(lambda a: np.linalg.svd(a, compute_uv=False), values(*shape))
    assert_like_numpy(np.linalg.svdvals, values(*shape))
    assert_like_numpy(np.linalg.pinv, values(*shape))


def test_eigenvectors_and_eigenvalues_give_the_matrix_back_and_its_gradient() -> None:
    a, upstream = differentiable(symmetric(2, 3, 3)), values(2, 3, 3, seed=1)
    w, v = np.linalg.eigh(a)
    again = (v * np.expand_dims(w, -2)) @ np.matrix_transpose(v)
    np.testing.assert_allclose(again.numpy(), a.numpy(), atol=1e-12)
    expected = (upstream + np.swapaxes(upstream, -1, -2)) / 2
    np.testing.assert_allclose(ta.gradients(again, a, upstream).numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("shape", FORMS)
def test_singular_vectors_and_values_give_the_matrix_back_and_its_gradient(shape: tuple[int, ...]) -> None:
    a, upstream = differentiable(values(*shape)), values(*shape, seed=1)
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    again = (u * np.expand_dims(s, -2)) @ vh
    np.testing.assert_allclose(again.numpy(), a.numpy(), atol=1e-12)
    np.testing.assert_allclose(ta.gradients(again, a, upstream).numpy(), upstream, atol=1e-9)


@pytest.mark.parametrize("shape", FORMS)
def test_q_and_r_are_numpys_and_give_the_matrix_back_and_its_gradient(shape: tuple[int, ...]) -> None:
    a, upstream = differentiable(values(*shape)), values(*shape, seed=1)
    q, r = np.linalg.qr(a)
    expected = np.linalg.qr(a.numpy())
    np.testing.assert_allclose(q.numpy(), expected.Q, atol=1e-12)
    np.testing.assert_allclose(r.numpy(), expected.R, atol=1e-12)
    np.testing.assert_allclose(np.linalg.qr(a, "r").numpy(), expected.R, atol=1e-12)
    np.testing.assert_allclose((q @ r).numpy(), a.numpy(), atol=1e-12)
    np.testing.assert_allclose(ta.gradients(q @ r, a, upstream).numpy(), upstream, atol=1e-9)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_each_factor_has_the_slopes_of_itself_in_both_orders(shape: tuple[int, ...], part: int) -> None:
    ta.gradcheck(lambda a: np.linalg.svd(a, full_matrices=False)[part], values(*shape), order=2)
    if part < 2:
        ta.gradcheck(lambda a: np.linalg.qr(a)[part], values(*shape), order=2)
        ta.gradcheck(lambda a: np.linalg.eigh(a)[part], symmetric(3, 3), order=2)


def test_the_length_of_an_orthogonal_factor_never_changes() -> None:
    a = differentiable(values(4, 2))
    for factor in (np.linalg.qr(a).Q, np.linalg.svd(a, full_matrices=False).U):
        np.testing.assert_allclose(ta.gradients(np.sum(factor * factor), a).numpy(), 0.0, atol=1e-12)


def test_the_product_of_the_eigenvalues_is_the_determinant_in_both_orders() -> None:
    a, direction = differentiable(symmetric(3, 3)), symmetric(3, 3) * 0.3 + np.eye(3)
    one, other = (ta.gradients(y, a, create_graph=True) for y in (np.prod(np.linalg.eigvalsh(a)), np.linalg.det(a)))
    np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9)
    along = [ta.gradients(np.sum(g * direction), a).numpy() for g in (one, other)]
    np.testing.assert_allclose(along[0], (along[1] + along[1].T) / 2, rtol=1e-8)


def test_the_sum_of_squared_singular_values_is_that_of_the_elements() -> None:
    a = differentiable(values(3, 2))
    np.testing.assert_allclose(ta.gradients(np.sum(np.linalg.svdvals(a) ** 2), a).numpy(), 2.0 * a.numpy())


def test_the_pseudo_inverse_of_a_regular_matrix_is_its_inverse() -> None:
    a, upstream = differentiable(values(3, 3) + 4.0 * np.eye(3)), values(3, 3, seed=1)
    one, other = ta.gradients(np.linalg.pinv(a), a, upstream), ta.gradients(np.linalg.inv(a), a, upstream)
    np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9)


@pytest.mark.parametrize("name", ["rcond", "rtol"])
def test_small_singular_values_can_be_cut_off_a_pseudo_inverse(name: str) -> None:
    a = np.diag([1.0, 1e-3])
    found = np.linalg.pinv(differentiable(a), **{name: 1e-2})
    np.testing.assert_allclose(found.numpy(), np.diag([1.0, 0.0]), atol=1e-12)


# --- where there is no derivative ------------------------------------------------------------------------------------


def test_equal_eigenvalues_have_a_first_derivative_as_long_as_they_are_treated_alike() -> None:
    a = differentiable(np.eye(3))
    np.testing.assert_allclose(ta.gradients(np.sum(np.linalg.eigvalsh(a) ** 2), a).numpy(), 2.0 * np.eye(3))


@pytest.mark.parametrize("value", [np.eye(3), np.zeros((2, 2)), np.diag([1.0, 2.0, 2.0])])
def test_vectors_of_equal_values_have_none_and_say_so(value: Any) -> None:
    a, b = differentiable(value), differentiable(value)
    with pytest.raises(GradientError, match=r"eigenvectors: two of the values.*equal"):
        ta.gradients(np.linalg.eigh(a).eigenvectors.sum(), a)
    with pytest.raises(GradientError, match=r"left_singular_vectors: two of the values.*equal"):
        ta.gradients(np.linalg.svd(b).U.sum(), b)


def test_the_missing_second_derivative_of_equal_eigenvalues_is_an_error_not_a_wrong_number() -> None:
    a = differentiable(np.eye(2))
    first = ta.gradients(np.sum(np.linalg.eigvalsh(a) ** 3), a, create_graph=True)
    with pytest.raises(GradientError, match="equal"):
        ta.gradients(first.sum(), a)


@pytest.mark.parametrize(("shape", "part"), [((3, 2), 0), ((2, 3), 2)])
def test_vectors_of_a_singular_value_of_zero_have_none_and_say_so(shape: tuple[int, ...], part: int) -> None:
    a = differentiable(np.ones(shape))
    with pytest.raises(GradientError, match="singular value is 0"):
        ta.gradients(np.linalg.svd(a, full_matrices=False)[part].sum(), a)


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda: np.linalg.svd(differentiable(np.ones((2, 3)))), OptionError, "pass full_matrices=False"),
        (lambda: np.linalg.svd(differentiable(np.ones((2, 2))), hermitian=True), OptionError, "np.linalg.eigh"),
        (lambda: np.linalg.svd(differentiable(np.ones(2)), full_matrices=False), ShapeError, "a matrix has two axes"),
        (lambda: np.linalg.qr(differentiable(np.ones((3, 2))), "complete"), OptionError, "'reduced' or 'r'"),
        (lambda: np.linalg.qr(differentiable(np.ones(2))), ShapeError, "a matrix has two axes"),
        (lambda: ta.q_factor(differentiable(np.ones((2, 3)))), ShapeError, "as many rows as columns"),
        (lambda: np.linalg.eigh(differentiable(np.ones((2, 3)))), ShapeError, "must be square"),
        (lambda: np.linalg.pinv(differentiable(np.ones(3))), ShapeError, "a matrix has two axes"),
    ],
)
def test_what_does_not_fit_is_explained(use: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        use()
