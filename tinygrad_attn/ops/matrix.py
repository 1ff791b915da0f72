"""Parts of matrices: diagonal, trace, triangles. What is left out in the forward pass gets the gradient 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.arguments import in_dtype
from tinygrad_attn.domain import Chooser, reals
from tinygrad_attn.errors import ShapeError
from tinygrad_attn.operation import op
from tinygrad_attn.ops.index import scatter_add
from tinygrad_attn.registry import implements


def _offset(choose: Chooser, inputs: tuple[Any, ...]) -> int:
    return choose.integer(-2, 2)


_PLACE: dict[str, Any] = {
    "offset": _offset,
    "axis1": lambda choose, inputs: choose.pick([0, -2]),
    "axis2": lambda choose, inputs: choose.pick([1, -1]) if inputs[0].ndim == 2 else -1,
}


def places_on_diagonal(rows: int, columns: int, offset: int) -> tuple[Any, Any]:
    """Row and column of each element of a diagonal; `offset` counts from the main one to the upper right."""
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    steps = np.arange(length)
    return steps + max(-offset, 0), steps + max(offset, 0)


@op(np.diagonal, symbol="diag", complex=True, domain=reals(min_dims=2), options=_PLACE)
def diagonal(x: Any, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Elements on a diagonal of two axes; they become the last axis.

    y[…, k] = x[…, k, k + offset]
    """
    return np.diagonal(x, offset, axis1, axis2)


@diagonal.gradient("x", formula="dX = dy on the diagonal, 0 beside it")
def _(g: Any, out: Any, x: Any, *, offset: int, axis1: int, axis2: int) -> Any:
    rows, columns = x.shape[axis1], x.shape[axis2]
    on_diagonal = (Ellipsis, *places_on_diagonal(rows, columns, offset))
    matrices = scatter_add(g, index=on_diagonal, shape=(*out.shape[:-1], rows, columns))
    return np.moveaxis(matrices, (-2, -1), (axis1, axis2))


@op(np.trace, symbol="tr", complex=True, domain=reals(min_dims=2), options=_PLACE)
def trace(x: Any, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Sum of the elements on a diagonal of two axes.

    y = Σₖ x[k, k + offset]
    """
    return np.trace(x, offset, axis1, axis2)


@trace.gradient("x", formula="dX = dy · I")
def _(g: Any, out: Any, x: Any, *, offset: int, axis1: int, axis2: int) -> Any:
    identity = np.eye(x.shape[axis1], x.shape[axis2], offset, dtype=x.dtype)
    return np.moveaxis(np.expand_dims(g, (-2, -1)) * identity, (-2, -1), (axis1, axis2))


@op(np.tril, complex=True, domain=reals(min_dims=2), options={"k": _offset})
def tril(x: Any, *, k: int = 0) -> Any:
    """Lower triangle of each matrix, zeros above its k-th diagonal.

    y[i, j] = x[i, j] where j ≤ i + k, else 0
    """
    _need_matrix(x)
    return np.tril(x, k)


@tril.gradient("x", formula="dX = lower triangle of dY")
def _(g: Any, out: Any, x: Any, *, k: int) -> Any:
    return np.tril(g, k)


@op(np.triu, complex=True, domain=reals(min_dims=2), options={"k": _offset})
def triu(x: Any, *, k: int = 0) -> Any:
    """Upper triangle of each matrix, zeros below its k-th diagonal.

    y[i, j] = x[i, j] where j ≥ i + k, else 0
    """
    _need_matrix(x)
    return np.triu(x, k)


@triu.gradient("x", formula="dX = upper triangle of dY")
def _(g: Any, out: Any, x: Any, *, k: int) -> Any:
    return np.triu(g, k)


def _need_matrix(x: Any) -> None:
    # NumPy repeats a vector into a square here; nobody who passes one expects that.
    if x.ndim < 2:
        raise ValueError("a triangle needs a matrix, that is at least two axes")


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    """The k-th diagonal of a matrix, or the matrix that has a vector there.

    Y = diag(v), y[i, i + k] = vᵢ; y = diagonal of V
    """
    if v.ndim == 2:
        return diagonal(v, offset=k)
    if v.ndim != 1:
        raise ShapeError(f"diag: a vector or a matrix\n  given shape {v.shape}; np.diagonal takes stacks of matrices")
    side = v.shape[0] + abs(k)
    return scatter_add(v, index=places_on_diagonal(side, side, k), shape=(side, side))


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix with all elements of `v` on its k-th diagonal."""
    return diag(np.reshape(v, (-1,)), k)


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any) -> Any:
    """Each matrix of a stack transposed.

    Y = Xᵀ over the last two axes
    """
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: at least two axes\n  given shape {x.shape}")
    return np.swapaxes(x, -1, -2)


@implements(np.linalg.diagonal)
def _linalg_diagonal(x: Any, *, offset: int = 0) -> Any:
    return diagonal(x, offset=offset, axis1=-2, axis2=-1)


@implements(np.linalg.trace)
def _linalg_trace(x: Any, *, offset: int = 0, dtype: Any = None) -> Any:
    x = x if dtype is None else in_dtype(np.linalg.trace, x, dtype)
    return trace(x, offset=offset, axis1=-2, axis2=-1)
