"""solve, inv, det, slogdet, cholesky: identities of linear algebra, singular matrices, errors that teach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import assert_like_numpy, values
from tinygrad_attn import Tensor
from tinygrad_attn.errors import ShapeError, SingularMatrixError


def regular(*shape: int, seed: int = 0) -> Any:
    """Matrices far from singular."""
    return values(*shape, seed=seed) + 4.0 * np.eye(shape[-1])


def symmetric(*shape: int) -> Any:
    """Symmetric positive definite matrices."""
    root = regular(*shape)
    return root @ np.swapaxes(root, -1, -2)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        *(((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,)), ((2, 3, 3), (3, 2)), ((2, 3, 3), (2, 3, 1))),
        *(((2, 1, 3, 3), (4, 3, 2)), ((3, 3), (5, 3, 2)), ((3, 3), (3, 0)), ((0, 0), (0, 2)), ((0, 2, 2), (0, 2, 1))),
    ],
)
def test_solve_is_numpys_for_vectors_matrices_and_stacks(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert_like_numpy(np.linalg.solve, regular(*a), values(*b))


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 3, 3), (2, 1, 2, 2), (0, 0), (0, 2, 2)])
@pytest.mark.parametrize("function", [np.linalg.inv, np.linalg.det, lambda a: np.linalg.slogdet(a).logabsdet])
def test_inv_det_and_slogdet_are_numpys_for_stacks(function: Any, shape: tuple[int, ...]) -> None:
    assert_like_numpy(function, regular(*shape))


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 3, 3), (0, 0)])
def test_cholesky_is_numpys(shape: tuple[int, ...]) -> None:
    assert_like_numpy(np.linalg.cholesky, symmetric(*shape))
    assert_like_numpy(lambda a: np.linalg.cholesky(a, upper=True), symmetric(*shape))


def test_inverting_twice_changes_nothing_neither_forwards_nor_backwards() -> None:
    a, upstream = Tensor(regular(3, 3), requires_grad=True), values(3, 3, seed=5)
    twice = np.linalg.inv(np.linalg.inv(a))
    np.testing.assert_allclose(twice.numpy(), a.numpy(), rtol=1e-10)
    np.testing.assert_allclose(ta.gradients(twice, a, upstream).numpy(), upstream, rtol=1e-8)


def test_solving_and_inverting_have_the_same_gradients() -> None:
    a, b = Tensor(regular(2, 3, 3), requires_grad=True), Tensor(values(2, 3, 2), requires_grad=True)
    upstream = values(2, 3, 2, seed=7)
    solved = ta.gradients(np.linalg.solve(a, b), [a, b], upstream)
    inverted = ta.gradients(np.linalg.inv(a) @ b, [a, b], upstream)
    for one, other in zip(solved, inverted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9)


def test_the_logarithm_of_the_determinant_is_the_sum_of_the_logarithms_on_the_cholesky_diagonal() -> None:
    a = Tensor(symmetric(4, 4), requires_grad=True)
    from_root = 2.0 * np.sum(np.log(np.diagonal(np.linalg.cholesky(a))))
    directly = np.linalg.slogdet(a).logabsdet
    assert from_root.item() == pytest.approx(directly.item(), rel=1e-12)
    one, other = ta.gradients(from_root, a), ta.gradients(directly, a)
    np.testing.assert_allclose(one.numpy(), (other.numpy() + other.numpy().T) / 2, rtol=1e-9)


def test_the_factor_of_cholesky_gives_the_matrix_back_with_a_symmetric_gradient() -> None:
    a, upstream = Tensor(symmetric(2, 3, 3), requires_grad=True), values(2, 3, 3, seed=3)
    factor = np.linalg.cholesky(a)
    again = factor @ np.matrix_transpose(factor)
    np.testing.assert_allclose(again.numpy(), a.numpy(), rtol=1e-10)
    gradient = ta.gradients(again, a, upstream).numpy()
    np.testing.assert_allclose(gradient, (upstream + np.swapaxes(upstream, -1, -2)) / 2, rtol=1e-8)


def test_cholesky_sees_the_symmetric_part_of_a_matrix() -> None:
    skew = values(3, 3) - values(3, 3).T
    one, other = np.linalg.cholesky(Tensor(symmetric(3, 3))), np.linalg.cholesky(Tensor(symmetric(3, 3) + skew))
    np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-10)


def test_slogdet_answers_with_a_plain_sign_and_names() -> None:
    result = np.linalg.slogdet(Tensor(-regular(2, 3, 3), requires_grad=True))
    assert isinstance(result.sign, np.ndarray)
    assert isinstance(result.logabsdet, Tensor)
    sign, logarithm = result
    np.testing.assert_allclose(sign * np.exp(logarithm.numpy()), np.linalg.det(-regular(2, 3, 3)))


def test_a_determinant_that_overflows_has_a_logarithm_with_a_gradient() -> None:
    a = Tensor(1e20 * np.eye(20), requires_grad=True)
    logarithm = np.linalg.slogdet(a).logabsdet
    logarithm.backward()
    assert logarithm.item() == pytest.approx(20 * 20 * np.log(10))
    np.testing.assert_allclose(a.grad, 1e-20 * np.eye(20))


# --- singular matrices -----------------------------------------------------------------------------------------------

SINGULAR = {
    "rank 2 of 3": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]),
    "an empty row": np.array([[1.0, 2.0], [0.0, 0.0]]),
    "rank 1 of 3": np.ones((3, 3)),
    "nothing but zeros": np.zeros((3, 3)),
    "one zero": np.zeros((1, 1)),
    "one of a stack": np.stack([np.eye(3), np.diag([1.0, 2.0, 0.0])]),
    "rank 3 of 4": np.diag([1.0, 2.0, 3.0, 0.0]) @ (np.eye(4) + 0.1),
}


@pytest.mark.parametrize("a", SINGULAR.values(), ids=SINGULAR)
def test_the_determinant_has_exact_derivatives_where_there_is_no_inverse(a: Any) -> None:
    ta.gradcheck(np.linalg.det, a, order=2)


def test_the_third_derivative_of_a_determinant_is_exact_where_there_is_no_inverse() -> None:
    def along_the_diagonal(x: Any) -> Any:
        return np.linalg.det(x * np.eye(3))  # x³

    third = ta.grad(ta.grad(ta.grad(along_the_diagonal)))
    assert third(0.0).item() == pytest.approx(6.0)


def test_the_two_ways_to_the_cofactors_agree_near_a_singular_matrix() -> None:
    nearly = SINGULAR["rank 2 of 3"] + 1e-13 * np.eye(3)  # beyond trust in its inverse
    a = Tensor(nearly, requires_grad=True)
    exact = [[-3.0, 6.0, -3.0], [6.0, -12.0, 6.0], [-3.0, 6.0, -3.0]]
    np.testing.assert_allclose(ta.gradients(np.linalg.det(a), a).numpy(), exact, rtol=1e-9)


def test_a_larger_singular_matrix_has_the_gradient_of_its_determinant_too() -> None:
    a = regular(20, 20)
    a[3] = a[11]
    x = Tensor(a, requires_grad=True)
    gradient = ta.gradients(np.linalg.det(x), x).numpy()
    u, s, v = np.linalg.svd(a)
    expected = np.linalg.det(u) * np.linalg.det(v) * np.prod(s[:-1]) * np.outer(u[:, -1], v[-1])
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize(
    "use", [np.linalg.inv, lambda a: np.linalg.solve(a, np.ones(3)), lambda a: np.linalg.solve(a, np.ones((3, 1)))]
)
def test_the_first_matrix_without_an_inverse_is_named_by_its_place_in_the_stack(use: Any) -> None:
    stack = Tensor(np.stack([np.eye(3), np.ones((3, 3)), np.zeros((3, 3)), np.eye(3)]), requires_grad=True)
    with pytest.raises(SingularMatrixError, match=r"matrix at \(1,\) of the stack is singular.*\n.*rank 1 of 3"):
        use(stack)


def test_where_no_matrix_has_an_inverse_the_first_is_named() -> None:
    with pytest.raises(SingularMatrixError, match=r"matrix at \(0,\) of the stack"):
        np.linalg.inv(Tensor(np.zeros((2, 3, 3))))


def test_the_error_of_a_singular_matrix_is_numpys_too() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(Tensor(np.zeros((2, 2))))


def test_a_logarithm_of_zero_is_minus_infinity_and_its_gradient_an_error() -> None:
    logarithm = np.linalg.slogdet(Tensor(np.ones((2, 2)), requires_grad=True)).logabsdet
    assert logarithm.item() == -np.inf
    with pytest.raises(SingularMatrixError):
        logarithm.backward()


def test_a_matrix_that_is_not_positive_definite_is_named_with_its_smallest_eigenvalue() -> None:
    stack = np.stack([np.eye(2), np.diag([1.0, -3.0]), np.eye(2)])
    with pytest.raises(SingularMatrixError, match=r"matrix at \(1,\) of the stack.*\n.*smallest eigenvalue -3"):
        np.linalg.cholesky(Tensor(stack))


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky])
@pytest.mark.parametrize(
    ("shape", "words"), [((2, 3), "must be square\n  given 2 rows and 3 columns"), ((3,), "a matrix has two axes")]
)
def test_what_is_no_square_matrix_is_explained(function: Any, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        function(Tensor(np.ones(shape)))


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ((3, 3), (4,), "3 equations and 4 right sides"),
        ((3, 3), (2, 4), "3 equations and 2 right sides\n    a "),
        ((2, 3, 3), (2, 3), "needs an axis more: np.expand_dims"),
        ((3, 3), (), "right side is a single number"),
        ((3, 2), (3,), "must be square"),
    ],
)
def test_equations_that_do_not_fit_are_explained(a: tuple[int, ...], b: tuple[int, ...], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        np.linalg.solve(Tensor(np.ones(a)), Tensor(np.ones(b)))
