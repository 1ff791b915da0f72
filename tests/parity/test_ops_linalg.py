"""Matrix functions, products and indexing against PyTorch: values, gradients and Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.tinygrad_attn.ops.agreement import values
from tinygrad_attn import Tensor

torch = require("torch")


def regular(*shape: int) -> Any:
    return values(*shape) + 4.0 * np.eye(shape[-1])


def symmetric(*shape: int) -> Any:
    return regular(*shape) @ np.swapaxes(regular(*shape), -1, -2)


ROWS = np.array([[2, 0], [1, 1]])
MASK = np.array([[True, False, True], [False, False, True]])

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "solve": (np.linalg.solve, torch.linalg.solve, (regular(2, 3, 3), values(2, 3, 2))),
    "solve a vector": (np.linalg.solve, torch.linalg.solve, (regular(3, 3), values(3))),
    "inv": (np.linalg.inv, torch.linalg.inv, (regular(2, 3, 3),)),
    "det": (np.linalg.det, torch.linalg.det, (regular(2, 3, 3),)),
    "slogdet": (lambda a: np.linalg.slogdet(a)[1], lambda a: torch.linalg.slogdet(a)[1], (regular(2, 3, 3),)),
    "cholesky": (np.linalg.cholesky, torch.linalg.cholesky, (symmetric(2, 3, 3),)),
    "cholesky, upper": (
        lambda a: np.linalg.cholesky(a, upper=True),
        lambda a: torch.linalg.cholesky(a, upper=True),
        (symmetric(3, 3),),
    ),
    "matrix_power": (
        lambda a: np.linalg.matrix_power(a, -3),
        lambda a: torch.linalg.matrix_power(a, -3),
        (regular(3, 3),),
    ),
    "multi_dot": (
        lambda *x: np.linalg.multi_dot(x),
        lambda *x: torch.linalg.multi_dot(x),
        (values(2, 3), values(3, 4), values(4, 2)),
    ),
    "einsum": (
        lambda a, b: np.einsum("...ij,...kj->...ik", a, b),
        lambda a, b: torch.einsum("...ij,...kj->...ik", a, b),
        (values(2, 1, 3, 4), values(5, 2, 4)),
    ),
    "einsum of diagonals": (
        lambda a, b: np.einsum("iij,ji->j", a, b),
        lambda a, b: torch.einsum("iij,ji->j", a, b),
        (values(3, 3, 2), values(2, 3)),
    ),
    "tensordot": (
        lambda a, b: np.tensordot(a, b, ([1, 0], [0, 2])),
        lambda a, b: torch.tensordot(a, b, dims=([1, 0], [0, 2])),
        (values(2, 3, 4), values(3, 5, 2)),
    ),
    "kron": (np.kron, torch.kron, (values(2, 3), values(3, 2))),
    "outer": (np.outer, torch.outer, (values(2), values(3))),
    "trace": (np.trace, torch.trace, (values(3, 4),)),
    "diagonal": (
        lambda a: np.diagonal(a, 1, 0, 2),
        lambda a: torch.diagonal(a, 1, 0, 2),
        (values(3, 2, 4),),
    ),
    "tril": (lambda a: np.tril(a, -1), lambda a: torch.tril(a, -1), (values(2, 3, 4),)),
    "triu": (lambda a: np.triu(a, 1), lambda a: torch.triu(a, 1), (values(2, 3, 4),)),
    "eigvalsh": (np.linalg.eigvalsh, torch.linalg.eigvalsh, (symmetric(3, 3),)),
    "projections of eigh": (
        lambda a: np.square(np.linalg.eigh(a).eigenvectors),
        lambda a: torch.linalg.eigh(a).eigenvectors ** 2,
        (symmetric(2, 3, 3),),
    ),
    "svdvals": (np.linalg.svdvals, torch.linalg.svdvals, (values(2, 3, 2),)),
    "projections of svd, tall": (
        lambda a: np.square(np.linalg.svd(a, full_matrices=False).U),
        lambda a: torch.linalg.svd(a, full_matrices=False).U ** 2,
        (values(4, 2),),
    ),
    "projections of svd, wide": (
        lambda a: np.square(np.linalg.svd(a, full_matrices=False).Vh),
        lambda a: torch.linalg.svd(a, full_matrices=False).Vh ** 2,
        (values(2, 4),),
    ),
    "qr": (lambda a: np.linalg.qr(a).Q, lambda a: torch.linalg.qr(a).Q, (values(4, 2),)),
    "qr, wide": (lambda a: np.linalg.qr(a).R, lambda a: torch.linalg.qr(a).R, (values(2, 3),)),
    "pinv": (np.linalg.pinv, torch.linalg.pinv, (values(3, 2),)),
    "cross": (np.cross, torch.linalg.cross, (values(2, 3), values(2, 3))),
    "gather": (
        lambda a: np.take_along_axis(a, ROWS, 1),
        lambda a: torch.gather(a, 1, torch.tensor(ROWS)),
        (values(2, 3),),
    ),
    "index_select": (
        lambda a: np.take(a, ROWS[0], axis=1),
        lambda a: torch.index_select(a, 1, torch.tensor(ROWS[0])),
        (values(2, 3),),
    ),
    "integer arrays": (
        lambda a: a[ROWS, :, ROWS],
        lambda a: a[torch.tensor(ROWS), :, torch.tensor(ROWS)],
        (values(3, 2, 3),),
    ),
    "a mask": (lambda a: a[MASK], lambda a: a[torch.tensor(MASK)], (values(2, 3),)),
    "index_put": (
        lambda a, v: ta.index_put(a, v, index=([0, 1], [2, 0])),
        lambda a, v: a.index_put((torch.tensor([0, 1]), torch.tensor([2, 0])), v),
        (values(2, 3), values(2)),
    ),
    "scatter_add": (
        lambda v: ta.scatter_add(v, index=[2, 0, 2], shape=(4, 2)),
        lambda v: torch.zeros(4, 2, dtype=v.dtype).index_add(0, torch.tensor([2, 0, 2]), v),
        (values(3, 2),),
    ),
    "sort": (lambda a: np.sort(a, axis=0), lambda a: torch.sort(a, dim=0).values, (values(4, 2),)),
    "sort with ties": (np.sort, lambda a: torch.sort(a, stable=True).values, (np.array([2.0, 1.0, 2.0, 1.0]),)),
    "tile": (lambda a: np.tile(a, (2, 1, 3)), lambda a: a.repeat(2, 1, 3), (values(2, 3),)),
    "repeat": (
        lambda a: np.repeat(a, [2, 0, 1], axis=1),
        lambda a: torch.repeat_interleave(a, torch.tensor([2, 0, 1]), dim=1),
        (values(2, 3),),
    ),
    "roll": (lambda a: np.roll(a, (1, -2), (0, 1)), lambda a: torch.roll(a, (1, -2), (0, 1)), (values(3, 4),)),
    "pad": (
        lambda a: np.pad(a, ((1, 2), (0, 3)), constant_values=2.0),
        lambda a: torch.nn.functional.pad(a, (0, 3, 1, 2), value=2.0),
        (values(2, 3),),
    ),
    "pad by reflection": (
        lambda a: np.pad(a, ((0, 0), (2, 1)), "reflect"),
        lambda a: torch.nn.functional.pad(a, (2, 1), mode="reflect"),
        (values(2, 3),),
    ),
    "rot90": (np.rot90, torch.rot90, (values(2, 3),)),
    "diff": (lambda a: np.diff(a, 2), lambda a: torch.diff(a, 2), (values(2, 5),)),
    "trapezoid": (np.trapezoid, torch.trapezoid, (values(2, 4), values(2, 4, seed=1))),
    "slopes": (lambda a: np.gradient(a, 0.5), lambda a: torch.gradient(a, spacing=0.5)[0], (values(5),)),
}


@pytest.mark.parametrize("name", CASES)
def test_values_gradients_and_hessian_vector_products_are_pytorchs(name: str) -> None:
    ours, theirs, arrays = CASES[name]
    inputs = [Tensor(x, requires_grad=True) for x in arrays]
    twins = [torch.tensor(x, requires_grad=True) for x in arrays]
    out, twin = ours(*inputs), theirs(*twins)
    np.testing.assert_allclose(out.numpy(), twin.detach().numpy(), rtol=1e-9, atol=1e-12)
    upstream = values(*out.shape, seed=1)
    # The square makes even linear functions curved, so that the second derivative says something.
    found = ta.gradients(np.sum(out * out * upstream), inputs, create_graph=True)
    expected = torch.autograd.grad((twin * twin * torch.tensor(upstream)).sum(), twins, create_graph=True)
    directions = [values(*x.shape, seed=2) for x in arrays]
    along = sum(np.sum(g * v) for g, v in zip(found, directions, strict=True))
    twin_along = sum((g * torch.tensor(v)).sum() for g, v in zip(expected, directions, strict=True))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-8, atol=1e-10)
    second, twin_second = ta.gradients(along, inputs), torch.autograd.grad(twin_along, twins)
    for one, other in zip(second, twin_second, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-7, atol=1e-9)
