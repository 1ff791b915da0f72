"""Parameter: the leaf of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tinygrad_attn.tensor import Tensor


class Parameter(Tensor):
    """A leaf that training changes; a module that holds one as an attribute owns it.

    What is computed from it is a plain Tensor. Its `name` is the path of attributes that leads to it, such as
    "encoder.layers.0.norm.weight"; a parameter that stands in several places has the first of them.

    Args:
        data: floating array, number, nested list or Tensor; copied.
        dtype: dtype to convert to.
        requires_grad: False freezes it.
        name: shown in drawings and errors until the parameter becomes part of a module.
    Raises:
        DtypeError: integers or booleans, which have no gradient.

    >>> scale = Parameter([1.0, 2.0], name="scale")
    >>> scale
    Parameter([1., 2.], name='scale', requires_grad=True)
    """

    __slots__ = ()

    def __init__(
        self,
        data: ArrayLike | Tensor,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(data, dtype=dtype, requires_grad=requires_grad, name=name)

    def __repr__(self) -> str:
        return "Parameter" + super().__repr__().removeprefix("Tensor")

    def convert(self, dtype: np.dtype[Any]) -> None:
        """Change the dtype in place, the gradient's too; `Module.to` does this for all of a model."""
        if dtype == self.dtype:
            return
        self._data = self._data.astype(dtype)
        self._changeable().move_to(self._data)
        self.bump_version()  # a graph recorded before would find other values here
        self.grad = None if self.grad is None else self.grad.astype(dtype)
