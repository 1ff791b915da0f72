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
