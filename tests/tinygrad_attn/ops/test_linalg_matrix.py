"""Diagonals, traces and triangles, and the products under NumPy's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import assert_like_numpy, values
from tinygrad_attn import Tensor
from tinygrad_attn.errors import AxisRangeError, OptionError, ShapeError

PARTS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "diagonal": (np.diagonal, (3, 3)),
    "diagonal of the first axes": (np.diagonal, (3, 4, 2)),
    "diagonal above": (lambda x: np.diagonal(x, 1), (3, 4)),
    "diagonal below": (lambda x: np.diagonal(x, offset=-2), (3, 4)),
    "diagonal outside": (lambda x: np.diagonal(x, 7), (3, 4)),
    "diagonal far below": (lambda x: np.diagonal(x, -7), (3, 4)),
    "diagonal of swapped axes": (lambda x: np.diagonal(x, 1, 2, 0), (3, 2, 4)),
    "diagonal from the end": (lambda x: np.diagonal(x, axis1=-2, axis2=-1), (2, 3, 4)),
    "diagonal of the linalg module": (lambda x: np.linalg.diagonal(x, offset=1), (2, 3, 4)),
    "trace": (np.trace, (3, 4)),
    "trace of stacks": (lambda x: np.trace(x, 1, -1, 0), (3, 2, 4)),
    "trace of the linalg module": (np.linalg.trace, (2, 3, 3)),
    "lower triangle": (np.tril, (2, 3, 4)),
    "lower triangle with more": (lambda x: np.tril(x, 1), (3, 3)),
    "upper triangle": (np.triu, (3, 2)),
    "upper triangle with less": (lambda x: np.triu(x, k=1), (3, 3)),
    "diag of a vector": (np.diag, (3,)),
    "diag of a vector above": (lambda x: np.diag(x, 2), (3,)),
    "diag of a vector below": (lambda x: np.diag(x, -1), (3,)),
    "diag of a matrix": (lambda x: np.diag(x, 1), (3, 4)),
    "diagflat": (lambda x: np.diagflat(x, 1), (2, 2)),
    "matrix_transpose": (np.matrix_transpose, (2, 3, 4)),
    "matrix_transpose of the linalg module": (np.linalg.matrix_transpose, (3, 4)),
    "matrix_power 0": (lambda x: np.linalg.matrix_power(x, 0), (2, 3, 3)),
    "matrix_power 1": (lambda x: np.linalg.matrix_power(x, 1), (3, 3)),
    "matrix_power 5": (lambda x: np.linalg.matrix_power(x, 5), (2, 2)),
    "matrix_power -1": (lambda x: np.linalg.matrix_power(x, -1), (2, 2)),
    "matrix_power -2": (lambda x: np.linalg.matrix_power(x, -2), (2, 2)),
}

PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "kron": (np.kron, ((2, 3), (3, 2))),
    "kron of vectors": (np.kron, ((2,), (3,))),
    "kron of unequal ndim": (np.kron, ((2, 2), (3,))),
    "kron of unequal ndim, turned": (np.kron, ((3,), (2, 1, 2))),
    "kron with a number": (np.kron, ((), (2, 2))),
    "multi_dot": (lambda *x: np.linalg.multi_dot(x), ((2, 3), (3, 4), (4, 2))),
    "multi_dot of two": (lambda *x: np.linalg.multi_dot(x), ((2, 3), (3, 4))),
    "multi_dot between vectors": (lambda *x: np.linalg.multi_dot(x), ((3,), (3, 4), (4,))),
    "multi_dot from a vector": (lambda *x: np.linalg.multi_dot(x), ((3,), (3, 4), (4, 2))),
    "multi_dot to a vector": (lambda *x: np.linalg.multi_dot(x), ((2, 3), (3, 4), (4,))),
    "multi_dot of two vectors": (lambda *x: np.linalg.multi_dot(x), ((3,), (3,))),
    "vecdot": (np.vecdot, ((2, 3), (3,))),
    "vecdot along the first axis": (lambda a, b: np.vecdot(a, b, axis=0), ((3, 2), (3, 1))),
    "vecdot along the middle": (lambda a, b: np.vecdot(a, b, axis=1), ((2, 3, 2), (2, 3, 1))),
    "vecdot of the linalg module": (np.linalg.vecdot, ((2, 3), (4, 1, 3))),
    "matmul of the linalg module": (np.linalg.matmul, ((2, 3), (3, 2))),
}
if hasattr(np, "matvec"):
    PRODUCTS["matvec"] = (np.matvec, ((2, 3, 4), (4,)))
    PRODUCTS["matvec of stacks"] = (np.matvec, ((3, 4), (5, 1, 4)))
    PRODUCTS["vecmat"] = (np.vecmat, ((3,), (2, 3, 4)))


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_matrices_are_numpys(name: str) -> None:
    function, shape = PARTS[name]
    assert_like_numpy(function, values(*shape))


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_numpys(name: str) -> None:
    function, shapes = PRODUCTS[name]
    assert_like_numpy(function, *(values(*shape, seed=index) for index, shape in enumerate(shapes)))


def test_matvec_and_vecmat_do_not_wait_for_numpy_to_have_them() -> None:
    a, x = values(2, 3, 3), values(3)
    np.testing.assert_allclose(ta.matvec(Tensor(a), x).numpy(), a @ x)
    np.testing.assert_allclose(ta.vecmat(Tensor(x), a).numpy(), x @ a)


@pytest.mark.parametrize("k", [-3, -1, 0, 2])
def test_the_triangles_on_both_sides_of_a_diagonal_make_up_the_matrix(k: int) -> None:
    x = Tensor(values(3, 4), requires_grad=True)
    whole = np.tril(x, k) + np.triu(x, k + 1)
    np.testing.assert_array_equal(whole.numpy(), x.numpy())
    upstream = values(3, 4, seed=1)
    np.testing.assert_array_equal(ta.gradients(whole, x, upstream).numpy(), upstream)


def test_the_trace_of_a_product_does_not_mind_the_order() -> None:
    a, b = Tensor(values(2, 3), requires_grad=True), Tensor(values(3, 2), requires_grad=True)
    one, other = np.trace(a @ b), np.trace(b @ a)
    assert one.item() == pytest.approx(other.item())
    for first, second in zip(ta.gradients(one, [a, b]), ta.gradients(other, [a, b]), strict=True):
        np.testing.assert_allclose(first.numpy(), second.numpy())


def test_a_diagonal_shares_no_changes_with_its_matrix() -> None:
    source = np.eye(3)
    x = Tensor(source, requires_grad=True)
    y = np.diagonal(x)
    source[0, 0] = 5.0
    assert y.numpy().tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda: np.tril(Tensor([1.0, 2.0])), ShapeError, "triangle needs a matrix"),
        (lambda: np.triu(Tensor([1.0, 2.0])), ShapeError, "triangle needs a matrix"),
        (lambda: np.diag(Tensor(np.ones((2, 2, 2)))), ShapeError, "np.diagonal takes stacks"),
        (lambda: np.trace(Tensor([1.0, 2.0])), ShapeError, "at least two"),
        (lambda: np.diagonal(Tensor(np.ones((2, 2))), 0, 0, 2), AxisRangeError, "out of bounds"),
        (lambda: np.diagonal(Tensor(np.ones((2, 2))), 0, 0, 0), ShapeError, "axis1 and axis2"),
        (lambda: np.matrix_transpose(Tensor([1.0])), ShapeError, "at least two axes"),
        (lambda: np.linalg.matrix_power(Tensor(np.ones((2, 3))), 2), ShapeError, "equally long"),
        (lambda: np.linalg.matrix_power(Tensor(np.ones(3)), 2), ShapeError, "equally long"),
        (lambda: np.linalg.matrix_power(Tensor(np.ones((2, 2))), 0.5), OptionError, "whole number"),
        (lambda: np.linalg.multi_dot([Tensor(np.ones((2, 2)))]), ShapeError, "at least two"),
        (lambda: np.linalg.multi_dot([Tensor(np.ones((2, 3))), np.ones((2, 3))]), ShapeError, "two lengths: 3 ≠ 2"),
        (lambda: np.vecdot(Tensor([1.0, 2.0]), np.ones(1)), ShapeError, "axes that are summed differ"),
        (lambda: ta.matvec(Tensor(np.ones((2, 3))), np.ones(2)), ShapeError, "inner axes differ: 3 ≠ 2"),
    ],
)
def test_what_does_not_fit_is_explained(use: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        use()
