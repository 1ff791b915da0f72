"""Complex numbers against PyTorch in complex128: values, gradients and Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.parity.test_ops_elementwise import THEIRS as ELEMENTWISE
from tinygrad_attn import Tensor

torch = require("torch")

Case = tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]  # ours, theirs, inputs


def drawn(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng([seed, *shape])
    return rng.uniform(-2.0, 2.0, shape) + 1j * rng.uniform(-2.0, 2.0, shape)


def real(*shape: int) -> Any:
    return drawn(*shape).real


def plain(tensor: Any) -> Any:
    return tensor.detach().resolve_conj().numpy()


SQUARE = drawn(2, 3, 3) + 4.0 * np.eye(3)
PAIR = np.array([[0.3, -1.1, 0.2], [4.2, 0.9, 0.5], [0.4, -0.3, 4.7]])
NOT_COMPLEX_THERE = {"cbrt"}

CASES: dict[str, Case] = {
    **{
        name: (ta.OPERATIONS[name], theirs, tuple(drawn(4, seed=k) for k in range(len(ta.OPERATIONS[name].parameters))))
        for name, theirs in ELEMENTWISE.items()
        if ta.OPERATIONS[name].complex and name not in NOT_COMPLEX_THERE
    },
    "real": (np.real, torch.real, (drawn(4),)),
    "imag": (np.imag, torch.imag, (drawn(4),)),
    "conjugate": (np.conj, torch.conj, (drawn(4),)),
    "angle": (np.angle, torch.angle, (drawn(4),)),
    "sign": (np.sign, torch.sgn, (drawn(4),)),
    "re + i im": (lambda x, y: x + 1j * y, torch.complex, (real(4), real(4) + 1.0)),
    "real times complex": (np.multiply, torch.multiply, (real(3, 1), drawn(4))),
    "real power": (lambda z: z**3, lambda z: z**3, (drawn(4),)),
    "where": (
        lambda a, b: np.where(real(4) > 0, a, b),
        lambda a, b: torch.where(torch.tensor(real(4) > 0), a, b),
        (drawn(4), drawn(4, seed=1)),
    ),
    "sum": (lambda z: z.sum(0), lambda z: z.sum(0), (drawn(2, 3),)),
    "mean": (lambda z: z.mean(1), lambda z: z.mean(1), (drawn(2, 3),)),
    "prod": (lambda z: z.prod(1), lambda z: z.prod(1), (drawn(2, 3),)),
    "cumsum": (lambda z: z.cumsum(1), lambda z: z.cumsum(1), (drawn(2, 3),)),
    "cumprod": (lambda z: z.cumprod(1), lambda z: z.cumprod(1), (drawn(2, 3),)),
    "var": (lambda z: ta.var(z, axis=1), lambda z: torch.var(z, 1, correction=0), (drawn(2, 3),)),
    "norm": (np.linalg.norm, torch.linalg.vector_norm, (drawn(3),)),
    "3-norm": (lambda z: np.linalg.norm(z, 3), lambda z: torch.linalg.vector_norm(z, 3), (drawn(3),)),
    "matmul": (np.matmul, lambda a, b: a @ b.to(a.dtype), (drawn(2, 3, 4), real(4, 2))),
    "linear": (ta.linear, torch.nn.functional.linear, (drawn(2, 3), drawn(4, 3), drawn(4))),
    "einsum": (
        lambda a, b: np.einsum("ij,ik->jk", a, b),
        lambda a, b: torch.einsum("ij,ik->jk", a, b),
        (drawn(3, 2), drawn(3, 4)),
    ),
    "vdot": (np.vdot, torch.vdot, (drawn(3), drawn(3, seed=1))),
    "vecdot": (np.vecdot, torch.linalg.vecdot, (drawn(2, 3), drawn(2, 3, seed=1))),
    "inv": (np.linalg.inv, torch.linalg.inv, (SQUARE,)),
    "solve": (np.linalg.solve, torch.linalg.solve, (SQUARE, drawn(2, 3, 2))),
    "det": (np.linalg.det, torch.linalg.det, (SQUARE,)),
    "sign of slogdet": (lambda a: np.linalg.slogdet(a)[0], lambda a: torch.linalg.slogdet(a)[0], (SQUARE,)),
    "logarithm of slogdet": (lambda a: np.linalg.slogdet(a)[1], lambda a: torch.linalg.slogdet(a)[1], (SQUARE,)),
    "eigenvalues": (np.linalg.eigvals, torch.linalg.eigvals, (PAIR + 0.1 * drawn(3, 3),)),
    "eigenvalues of a real matrix": (np.linalg.eigvals, torch.linalg.eigvals, (PAIR,)),
    "sizes in eigenvectors": (
        lambda a: np.absolute(np.linalg.eig(a).eigenvectors) ** 2,
        lambda a: torch.linalg.eig(a).eigenvectors.abs() ** 2,
        (PAIR,),
    ),
    "indexing": (lambda z: z[[0, 2, 0]], lambda z: z[[0, 2, 0]], (drawn(3, 2),)),
    "stack": (lambda a, b: np.stack([a, b]), lambda a, b: torch.stack([a.to(b.dtype), b]), (real(3), drawn(3))),
    "to double complex": (
        lambda x: x.astype(np.complex128) * 1j,
        lambda x: x.to(torch.complex128) * 1j,
        (real(3),),
    ),
}


def transform(name: str, n: int | None, norm: str | None) -> Case:
    ours, theirs = getattr(np.fft, name), getattr(torch.fft, name)
    signal = real(2, 4) if name in ("rfft", "ihfft") else drawn(2, 4)
    return lambda x: ours(x, n, -1, norm), lambda x: theirs(x, n, -1, norm), (signal,)


CASES |= {
    f"{name}, n={n}, norm={norm}": transform(name, n, norm)
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    for n in (None, 3, 6)
    for norm in (None, "ortho")
}
CASES |= {
    name: (getattr(np.fft, name), getattr(torch.fft, name), (real(2, 3) if name[0] == "r" else drawn(2, 3),))
    for name in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "rfft2", "fftshift", "ifftshift")
}


@pytest.mark.parametrize("name", CASES)
def test_values_gradients_and_hessian_vector_products_are_pytorchs(name: str) -> None:
    ours, theirs, arrays = CASES[name]
    inputs = [Tensor(x, requires_grad=True) for x in arrays]
    twins = [torch.tensor(x, requires_grad=True) for x in arrays]
    out, twin = ours(*inputs), theirs(*twins)
    np.testing.assert_allclose(out.numpy(), plain(twin), rtol=1e-9, atol=1e-12)
    upstream = drawn(*out.shape, seed=1)
    # The square makes even linear functions curved, so that the second derivative says something.
    found = ta.gradients(np.real(np.sum(out * out * upstream)), inputs, create_graph=True)
    loss = (twin * twin * torch.tensor(upstream)).sum().real
    expected = torch.autograd.grad(loss, twins, create_graph=True)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == plain(other).dtype
        np.testing.assert_allclose(one.numpy(), plain(other), rtol=1e-8, atol=1e-10)
    directions = [drawn(*x.shape, seed=2) for x in arrays]
    along = sum(np.real(np.sum(g * v)) for g, v in zip(found, directions, strict=True))
    twin_along = sum((g * torch.tensor(v)).sum().real for g, v in zip(expected, directions, strict=True))
    second, twin_second = ta.gradients(along, inputs), torch.autograd.grad(twin_along, twins)
    for one, other in zip(second, twin_second, strict=True):
        np.testing.assert_allclose(one.numpy(), plain(other), rtol=1e-7, atol=1e-9)
