"""More products under NumPy's names, each written with `matmul` or `einsum`, whose rules are then its own."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.ops.einsum import sum_of_products
from tinygrad_attn.registry import implements


def as_operand(value: Any) -> Any:
    """Arrays and Tensors as they are; numbers and lists as an array."""
    return value if hasattr(value, "shape") else np.asarray(value)


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    """Kronecker product: `b` in the place of every element of `a`, multiplied with it.

    y[i·m + k, j·n + l] = a[i, j] b[k, l]
    """
    a, b = as_operand(a), as_operand(b)
    ndim = max(a.ndim, b.ndim)
    a, b = (np.reshape(x, (1,) * (ndim - x.ndim) + x.shape) if x.ndim < ndim else x for x in (a, b))
    for_a, for_b = string.ascii_letters[:ndim], string.ascii_letters[ndim : 2 * ndim]
    pairs = "".join(i + k for i, k in zip(for_a, for_b, strict=True))
    blocks = sum_of_products(a, b, subscripts=f"{for_a},{for_b}->{pairs}")
    return np.reshape(blocks, tuple(n * m for n, m in zip(a.shape, b.shape, strict=True)))


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Any]) -> Any:
    """Product of several matrices in a good order; the first and the last may be vectors.

    Y = A₁ A₂ … Aₙ
    """
    chain = [as_operand(array) for array in arrays]
    if len(chain) < 2:
        raise ShapeError(f"multi_dot: at least two arrays\n  given {len(chain)}")
    terms = [string.ascii_letters[i : i + 2] for i in range(len(chain))]
    if chain[0].ndim == 1:
        terms[0] = terms[0][1]
    if chain[-1].ndim == 1:
        terms[-1] = terms[-1][0]
    ends = (terms[0][0] if chain[0].ndim > 1 else "") + (terms[-1][-1] if chain[-1].ndim > 1 else "")
    return sum_of_products(*chain, subscripts=f"{','.join(terms)}->{ends}")


@implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: int) -> Any:
    """A square matrix multiplied with itself n times; the inverse if n is negative, the identity if it is 0.

    Y = Aⁿ, by repeated squaring
    """
    a = as_operand(a)
    if not isinstance(n, (int, np.integer)):
        raise OptionError(f"matrix_power: n must be a whole number\n  given {n!r}")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"matrix_power: the last two axes must be equally long\n  given shape {a.shape}")
    if n == 0:
        return np.multiply(a, 0.0) + np.eye(a.shape[-1], dtype=a.dtype)
    base, result = (np.linalg.inv(a) if n < 0 else a), None
    for bit in reversed(f"{abs(n):b}"):
        if bit == "1":
            result = base if result is None else np.matmul(result, base)
        base = np.matmul(base, base)
    return result


@implements(np.vecdot, np.linalg.vecdot)
def vecdot(a: Any, b: Any, axis: int = -1) -> Any:
    """Dot products along one axis, `a` conjugated; the others broadcast.

    y[…] = Σₛ conj(a[…, s]) b[…, s]
    """
    a, b = as_operand(a), as_operand(b)
    if axis != -1:
        a, b = np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)
    if a.shape[-1:] != b.shape[-1:]:
        raise ShapeError(f"vecdot: the axes that are summed differ\n    a  {a.shape}\n    b  {b.shape}")
    return sum_of_products(a.conj(), b, subscripts="...s,...s->...")


def matvec(a: Any, x: Any) -> Any:
    """Matrices times vectors; leading axes broadcast.

    y = A x, (..., n, k) with (..., k) -> (..., n)
    """
    a, x = as_operand(a), as_operand(x)
    return np.matmul(a, np.expand_dims(x, -1))[..., 0]


def vecmat(x: Any, a: Any) -> Any:
    """Vectors, conjugated, times matrices; leading axes broadcast.

    y = conj(x)ᵀ A, (..., k) with (..., k, n) -> (..., n)
    """
    x, a = as_operand(x), as_operand(a)
    return np.matmul(np.expand_dims(x.conj(), -2), a)[..., 0, :]


for _name, _function in (("matvec", matvec), ("vecmat", vecmat)):
    if hasattr(np, _name):  # since NumPy 2.2
        implements(getattr(np, _name))(_function)


@implements(np.linalg.matmul)
def _linalg_matmul(a: Any, b: Any) -> Any:
    return np.matmul(a, b)
