"""Operators and methods of a Tensor: each is the NumPy function of the same name.

`a @ b` is `np.matmul(a, b)`; the operation that stands behind it is found in the registry.
"""

# mypy: disable-error-code="no-any-return"
# What stands behind a NumPy function is only known at run time; for those named here it returns a Tensor, except that
# comparisons and argmax return plain arrays.

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike

from tinygrad_attn.conversions import Conversions
from tinygrad_attn.errors import InPlaceError
from tinygrad_attn.registry import OPERATIONS, apply, call, call_method

if TYPE_CHECKING:
    from tinygrad_attn.tensor import Tensor

Axis = int | tuple[int, ...] | None


class ArrayMethods(Conversions):
    """What an array can be asked to do; `Tensor` is its only subclass."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _in_place(self, function: Any, other: Any) -> Tensor: ...

    # --- NumPy's functions -----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if kwargs.pop("out", None) is not None:
            raise InPlaceError(
                f"np.{ufunc.__name__}(…, out=…) would write a recorded result into an array\n"
                "  write a = a + t instead of a += t"
            )
        if method != "__call__":
            return call_method(ufunc, method, inputs, kwargs)
        return call(ufunc, inputs, kwargs) if kwargs else apply(ufunc, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call(function, args, kwargs)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise InPlaceError(
            "a Tensor cannot be assigned into: the recorded graph would no longer be true\n"
            "  use ta.where(mask, value, t), or ta.index_put(t, value, index=…), which return a new Tensor"
        )

    # --- operators -------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Tensor:
        return apply(np.add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return apply(np.add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return apply(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return apply(np.subtract, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return apply(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return apply(np.multiply, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return apply(np.divide, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return apply(np.divide, other, self)

    def __mod__(self, other: Any) -> Tensor:
        return apply(np.remainder, self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return apply(np.remainder, other, self)

    def __pow__(self, other: Any) -> Tensor:
        return apply(np.power, self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return apply(np.power, other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return apply(np.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return apply(np.matmul, other, self)

    def __neg__(self) -> Tensor:
        return apply(np.negative, self)

    def __pos__(self) -> Tensor:
        return apply(np.positive, self)

    def __abs__(self) -> Tensor:
        return apply(np.absolute, self)

    def __getitem__(self, index: Any) -> Tensor:
        return apply(operator.getitem, self, index)

    def __iadd__(self, other: Any) -> Tensor:
        return self._in_place(np.add, other)

    def __isub__(self, other: Any) -> Tensor:
        return self._in_place(np.subtract, other)

    def __imul__(self, other: Any) -> Tensor:
        return self._in_place(np.multiply, other)

    def __itruediv__(self, other: Any) -> Tensor:
        return self._in_place(np.divide, other)

    def __floordiv__(self, other: Any) -> Any:
        return apply(np.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return apply(np.floor_divide, other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __round__(self, digits: int | None = None) -> Any:
        return apply(np.round, self, digits or 0)

    # --- comparisons -----------------------------------------------------------------------------------------------
    # They answer with plain boolean arrays: they have no gradient.

    def __eq__(self, other: object) -> Any:
        try:
            return self._data == (other._data if isinstance(other, ArrayMethods) else other)
        except ValueError:
            return apply(np.equal, self, other)  # says which axis does not fit

    def __ne__(self, other: object) -> Any:
        try:
            return self._data != (other._data if isinstance(other, ArrayMethods) else other)
        except ValueError:
            return apply(np.not_equal, self, other)  # says which axis does not fit

    def __lt__(self, other: Any) -> Any:
        return apply(np.less, self, other)

    def __le__(self, other: Any) -> Any:
        return apply(np.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return apply(np.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return apply(np.greater_equal, self, other)

    __hash__ = object.__hash__  # by identity: equal values do not make two parameters one

    # --- methods ---------------------------------------------------------------------------------------------------

    def sum(self, axis: Axis = None, keepdims: bool = False, **more: Any) -> Tensor:
        """Sum over `axis`; `more` is what np.sum takes besides, such as where=, and so for the others."""
        return call(np.sum, (self,), {"axis": axis, "keepdims": keepdims, **more})

    def mean(self, axis: Axis = None, keepdims: bool = False, **more: Any) -> Tensor:
        """Mean over `axis`."""
        return call(np.mean, (self,), {"axis": axis, "keepdims": keepdims, **more})

    def var(
        self, axis: Axis = None, keepdims: bool = False, *, correction: float = 0, ddof: float = 0, **more: Any
    ) -> Tensor:
        """Variance over `axis`; divides by n − correction, which has the older name ddof too."""
        return apply(np.var, self, axis=axis, keepdims=keepdims, ddof=ddof, correction=correction or None, **more)

    def std(
        self, axis: Axis = None, keepdims: bool = False, *, correction: float = 0, ddof: float = 0, **more: Any
    ) -> Tensor:
        """Standard deviation over `axis`; `correction` and `ddof` as in `var`."""
        return apply(np.std, self, axis=axis, keepdims=keepdims, ddof=ddof, correction=correction or None, **more)

    def max(self, axis: Axis = None, keepdims: bool = False, **more: Any) -> Tensor:
        """Largest value over `axis`; equal ones share the gradient."""
        return call(np.max, (self,), {"axis": axis, "keepdims": keepdims, **more})

    def min(self, axis: Axis = None, keepdims: bool = False, **more: Any) -> Tensor:
        """Smallest value over `axis`; equal ones share the gradient."""
        return call(np.min, (self,), {"axis": axis, "keepdims": keepdims, **more})

    def prod(self, axis: Axis = None, keepdims: bool = False, **more: Any) -> Tensor:
        """Product over `axis`."""
        return call(np.prod, (self,), {"axis": axis, "keepdims": keepdims, **more})

    def cumsum(self, axis: int | None = None, **more: Any) -> Tensor:
        """Running sum along `axis`."""
        return call(np.cumsum, (self,), {"axis": axis, **more})

    def cumprod(self, axis: int | None = None, **more: Any) -> Tensor:
        """Running product along `axis`."""
        return call(np.cumprod, (self,), {"axis": axis, **more})

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """Sum of a diagonal."""
        return apply(np.trace, self, offset=offset, axis1=axis1, axis2=axis2)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """A diagonal, along a new last axis."""
        return apply(np.diagonal, self, offset=offset, axis1=axis1, axis2=axis2)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Any:
        """Position of the largest value, as plain integers."""
        return apply(np.argmax, self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Any:
        """Position of the smallest value, as plain integers."""
        return apply(np.argmin, self, axis=axis, keepdims=keepdims)

    def argsort(self, axis: int = -1) -> Any:
        """Positions that would sort along `axis`, as plain integers."""
        return apply(np.argsort, self, axis=axis)

    def any(self, axis: Axis = None, keepdims: bool = False) -> Any:
        """Whether any element is not zero, as plain booleans."""
        return apply(np.any, self, axis=axis, keepdims=keepdims)

    def all(self, axis: Axis = None, keepdims: bool = False) -> Any:
        """Whether no element is zero, as plain booleans."""
        return apply(np.all, self, axis=axis, keepdims=keepdims)

    def round(self, decimals: int = 0) -> Any:
        """Values rounded to `decimals`, as a plain array."""
        return apply(np.round, self, decimals)

    def reshape(self, *shape: Any, order: str = "C") -> Tensor:
        """The same elements in another shape."""
        return call(np.reshape, (self, shape[0] if len(shape) == 1 else shape), {"order": order})

    def flatten(self, order: str = "C") -> Tensor:
        """All elements along one axis."""
        return apply(np.ravel, self, order)

    def ravel(self, order: str = "C") -> Tensor:
        """All elements along one axis."""
        return apply(np.ravel, self, order)

    def take(self, indices: Any, axis: int | None = None) -> Tensor:
        """Elements at `indices` along `axis`, or of all elements in a row."""
        return apply(np.take, self, indices, axis)

    def repeat(self, repeats: Any, axis: int | None = None) -> Tensor:
        """Each element several times in a row."""
        return apply(np.repeat, self, repeats, axis)

    def transpose(self, *axes: Any) -> Tensor:
        """Axes permuted; reversed if none are given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else (axes or None)
        return apply(np.transpose, self, order)

    @property
    def T(self) -> Tensor:
        """Axes reversed."""
        return apply(np.transpose, self)

    @property
    def mT(self) -> Tensor:
        """Each matrix of a stack transposed."""
        return apply(np.matrix_transpose, self)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Two axes exchanged."""
        return apply(np.swapaxes, self, axis1, axis2)

    def squeeze(self, axis: Axis = None) -> Tensor:
        """Axes of length 1 removed."""
        return apply(np.squeeze, self, axis)

    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        """Values kept between `min` and `max`."""
        return apply(np.clip, self, min, max)

    def clone(self) -> Tensor:
        """The same values in memory of their own, recorded."""
        return apply(np.copy, self)

    copy = clone  # as NumPy calls it

    def to(self, dtype: DTypeLike) -> Tensor:
        """Converted to another floating dtype, as `astype`."""
        return self.astype(dtype)

    def astype(self, dtype: DTypeLike) -> Tensor:
        """Converted to another floating dtype; the gradient is converted back."""
        return apply(np.ndarray.astype, self, dtype=dtype)

    def exp(self) -> Tensor:
        """Exponential of each element."""
        return apply(np.exp, self)

    def log(self) -> Tensor:
        """Natural logarithm of each element."""
        return apply(np.log, self)

    def sqrt(self) -> Tensor:
        """Square root of each element."""
        return apply(np.sqrt, self)

    def tanh(self) -> Tensor:
        """Hyperbolic tangent of each element."""
        return apply(np.tanh, self)

    @property
    def real(self) -> Tensor:
        """Real part; of real numbers, themselves."""
        return apply(np.real, self) if self._data.dtype.kind == "c" else self  # type: ignore[return-value]

    @property
    def imag(self) -> Tensor:
        """Imaginary part; of real numbers, zeros."""
        return apply(np.imag, self)

    def conj(self) -> Tensor:
        """Complex conjugate: i becomes −i; real numbers stay themselves."""
        return apply(np.conjugate, self) if self._data.dtype.kind == "c" else self  # type: ignore[return-value]

    def abs(self) -> Tensor:
        """Absolute value of each element."""
        return apply(np.absolute, self)

    def dot(self, other: Any) -> Tensor:
        """Dot product, as `np.dot`."""
        return apply(np.dot, self, other)

    def relu(self) -> Tensor:
        """Zero where negative."""
        return OPERATIONS["relu"](self)

    def sigmoid(self) -> Tensor:
        """Logistic function of each element."""
        return OPERATIONS["sigmoid"](self)

    def softmax(self, axis: int = -1) -> Tensor:
        """Weights that are positive and sum to one along `axis`."""
        return OPERATIONS["softmax"](self, axis=axis)
