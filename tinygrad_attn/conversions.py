"""What a Tensor answers in plain values, without gradient: arrays, Python numbers, lists, its length."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from opcode import opname
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tinygrad_attn.errors import InPlaceError, ShapeError
from tinygrad_attn.modes import is_grad_enabled

if TYPE_CHECKING:
    from tinygrad_attn.tensor import Tensor


class Conversions:
    """From a Tensor to plain values; `Tensor` is the only class that is asked."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getitem__(self, index: Any) -> Tensor: ...

    _data: NDArray[Any]
    requires_grad: bool

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        self._refuse_to_be_stored()
        values = self._data.view()
        values.flags.writeable = False
        return np.array(values, dtype=dtype, copy=copy)

    def __float__(self) -> float:
        self._refuse_to_be_stored()
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        return self._data.__index__()

    def __bool__(self) -> bool:
        return bool(self._data)

    def item(self) -> Any:
        """The single value as a Python number."""
        if self._data.size != 1:
            shape = self._data.shape
            raise ShapeError(f"item() needs exactly one element\n  given shape {shape}; use tolist() or numpy()")
        return self._data.item()

    def tolist(self) -> Any:
        """The values as nested Python lists."""
        return self._data.tolist()

    def __len__(self) -> int:
        if self._data.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        if self._data.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self[index] for index in range(len(self)))

    def _refuse_to_be_stored(self) -> None:
        """Raise if the caller's caller is just assigning into an array: `array[i] = t` would lose the gradient.

        NumPy asks for plain values there in the same words as `np.asarray(t)` does, which is welcome to them; only the
        instruction that the asking frame is at tells the two apart.
        """
        if not self.requires_grad or not is_grad_enabled():
            return
        asking = sys._getframe(2)
        if opname[asking.f_code.co_code[asking.f_lasti]] in ("STORE_SUBSCR", "STORE_SLICE"):
            raise InPlaceError(
                "a Tensor that requires a gradient cannot be assigned into an array: the gradient would be lost\n"
                "  use ta.index_put(array, t, index=…), np.where, np.stack or np.concatenate, which return a Tensor;\n"
                "  for the plain values, write t.numpy() or, of one element, t.item()"
            )
