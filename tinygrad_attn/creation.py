"""Tensors from a shape: zeros, ones, a value, the identity, random numbers, in the default dtype unless one is said."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tinygrad_attn.rng import generator
from tinygrad_attn.tensor import Tensor, get_default_dtype

Shape = int | tuple[int, ...]


def full(
    shape: Shape, value: float, *, dtype: DTypeLike | None = None, requires_grad: bool = False, name: str | None = None
) -> Tensor:
    """One value everywhere.

    >>> full(2, 0.5)
    Tensor([0.5, 0.5])
    """
    return Tensor(np.full(shape, value, dtype or get_default_dtype()), requires_grad=requires_grad, name=name)


def zeros(
    shape: Shape, *, dtype: DTypeLike | None = None, requires_grad: bool = False, name: str | None = None
) -> Tensor:
    """Zeros."""
    return full(shape, 0.0, dtype=dtype, requires_grad=requires_grad, name=name)


def ones(
    shape: Shape, *, dtype: DTypeLike | None = None, requires_grad: bool = False, name: str | None = None
) -> Tensor:
    """Ones."""
    return full(shape, 1.0, dtype=dtype, requires_grad=requires_grad, name=name)


def eye(size: int, *, dtype: DTypeLike | None = None, requires_grad: bool = False, name: str | None = None) -> Tensor:
    """The identity matrix, (size, size)."""
    return Tensor(np.eye(size, dtype=dtype or get_default_dtype()), requires_grad=requires_grad, name=name)


def randn(
    shape: Shape,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    name: str | None = None,
    rng: np.random.Generator | None = None,
) -> Tensor:
    """Random numbers with mean 0 and variance 1, from `rng` or the generator that `manual_seed` starts."""
    drawn: Any = generator(rng).standard_normal(shape)
    return Tensor(np.asarray(drawn, dtype or get_default_dtype()), requires_grad=requires_grad, name=name)
