"""Matrix products and norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tinygrad_attn.domain import Chooser, Shape, any_axis, broadcastable, flag, one_of, reals
from tinygrad_attn.errors import OptionError
from tinygrad_attn.explain import matmul_clash
from tinygrad_attn.operation import op
from tinygrad_attn.ops.reduce import spread
from tinygrad_attn.registry import implements


def _factors(choose: Chooser) -> tuple[Any, ...]:
    """Operands of every form that `@` takes: vectors, matrices, broadcast stacks of matrices."""
    n, k, m = (choose.integer(0, 3) for _ in range(3))
    stack: Shape = choose.shape(0, 2, 1, 2)
    left: Shape = (k,) if choose.integer(0, 3) == 0 else (*broadcastable(choose, stack), n, k)
    right: Shape = (k,) if choose.integer(0, 3) == 0 else (*broadcastable(choose, stack), k, m)
    return choose.reals(left), choose.reals(right)


@op(np.matmul, symbol="@", complex=True, domain=_factors, clash=matmul_clash)
def matmul(a: Any, b: Any) -> Any:
    """Matrix product over the last two axes; leading axes broadcast, a 1-D operand is a row or a column.

    C = A B, (..., n, k) @ (..., k, m) -> (..., n, m)
    """
    return np.matmul(a, b)


@matmul.gradient("a", formula="dA = dC Bᵀ")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    g, a, b = as_matrices(g, a, b)
    return g @ np.swapaxes(b, -1, -2)


@matmul.gradient("b", formula="dB = Aᵀ dC")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    is_vector = b.ndim == 1
    g, a, b = as_matrices(g, a, b)
    product = np.swapaxes(a, -1, -2) @ g
    return product[..., 0] if is_vector else product


def as_matrices(g: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Write a vector on the left as one row, (k,) -> (1, k), one on the right as one column, (k,) -> (k, 1)."""
    if b.ndim == 1:
        b, g = np.expand_dims(b, -1), np.expand_dims(g, -1)
    if a.ndim == 1:
        a, g = np.expand_dims(a, 0), np.expand_dims(g, -2)
    return g, a, b


def as_rows(x: Any) -> Any:
    """All leading axes in one: (..., n) -> (rows, n)."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


@op(
    np.linalg.norm,
    symbol="‖x‖",
    complex=True,
    domain=reals(min_dims=1, min_side=1, low=0.1),
    options={"ord": one_of(None, 1, 2, 3), "axis": any_axis, "keepdims": flag},
)
def norm(x: Any, *, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Length of a vector: of all elements together, or of those along `axis`.

    y = (Σᵢ |xᵢ|ᵖ)^(1/p), for p = ∞ the largest |xᵢ|. Where y = 0 all derivatives are taken as 0, and an element that
    equals the largest shares its gradient.

    Args:
        x: (..., n, ...), floating.
        ord: p ≥ 1; 2 if None. "fro" is 2 over two axes.
        axis: one axis, two for a matrix ("fro" only), or None.
        keepdims: keep the axis, with length 1.
    Raises:
        OptionError: p < 1, or a norm of matrices other than "fro".
    """
    of_matrix = (isinstance(axis, tuple) and len(axis) == 2) or (axis is None and x.ndim == 2)
    if ord not in (None, "fro") and (of_matrix or isinstance(ord, str) or ord < 1):
        raise OptionError(
            f"norm: ord must be at least 1 for vectors, and None or 'fro' for matrices\n"
            f"  given {ord!r}; say axis=-1 for the norm of each row; np.linalg.matrix_norm knows more of matrices"
        )
    return np.linalg.norm(x, ord, axis, keepdims)


@norm.gradient("x", formula="dxᵢ = dy · conj(sign(xᵢ)) (|xᵢ| / y)ᵖ⁻¹, and 0 where y = 0")
def _(g: Any, out: Any, x: Any, *, ord: Any, axis: Any, keepdims: bool) -> Any:
    y = spread(out, x, axis, keepdims)
    length = np.where(np.equal(y, 0), 1.0, y)
    if ord in (None, 2, "fro"):
        unit = x / length
    elif ord == math.inf:
        largest = np.equal(np.absolute(x), y)
        unit = np.sign(x) * largest / np.sum(largest, axis=axis, keepdims=True)
    else:
        unit = np.sign(x) * np.power(np.absolute(x) / length, ord - 1)
    return spread(g, x, axis, keepdims) * np.where(np.equal(y, 0), 0.0, unit.conj())


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of all elements together as one vector, or of the vectors along one axis or several."""
    if axis is None:
        length = norm(np.reshape(x, (-1,)), ord=ord)
        return np.reshape(length, (1,) * np.ndim(x)) if keepdims else length
    if np.ndim(axis) == 0:
        return norm(x, ord=ord, axis=axis, keepdims=keepdims)
    axes = normalize_axis_tuple(axis, np.ndim(x))
    kept = tuple(i for i in range(np.ndim(x)) if i not in axes)
    rows = np.reshape(np.transpose(x, kept + axes), (*(np.shape(x)[i] for i in kept), -1))
    length = norm(rows, ord=ord, axis=-1)
    return np.expand_dims(length, axes) if keepdims else length


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of each matrix of a stack.

    y = √Σ xᵢⱼ² for "fro", Σ σᵢ for "nuc", the largest and the smallest singular value for 2 and −2, the largest and the
    smallest sum of |xᵢⱼ| over a column for 1 and −1, over a row for ∞ and −∞
    """
    if ord == "fro":
        return norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        over: dict[Any, Any] = {"nuc": np.sum, 2: np.max, -2: np.min}
        y = over[ord](np.linalg.svdvals(x), axis=-1)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = np.sum(np.absolute(x), axis=-2 if abs(ord) == 1 else -1)
        y = np.max(sums, axis=-1) if ord > 0 else np.min(sums, axis=-1)
    else:
        raise OptionError(f"matrix_norm: ord must be 'fro', 'nuc', ±1, ±2 or ±∞\n  given {ord!r}")
    return np.expand_dims(y, (-2, -1)) if keepdims else y


def linear_definition(x: Any, weight: Any, bias: Any = None) -> Any:
    """Matrix product with the transposed weight, plus bias: what `linear` must equal."""
    product = x @ np.swapaxes(weight, -1, -2)
    return product if bias is None else product + bias


def _affine(choose: Chooser) -> tuple[Any, ...]:
    k, m = choose.integer(0, 3), choose.integer(1, 3)
    bias = choose.reals((m,)) if choose.pick([True, False]) else None
    return choose.reals((*choose.shape(0, 2), k)), choose.reals((m, k)), bias


def linear_clash(x: tuple[int, ...], weight: tuple[int, ...], *bias: tuple[int, ...]) -> str | None:
    """Why the shapes of a linear layer do not fit."""
    if len(weight) != 2:
        return f"weight must be (out_features, in_features)\n  given {weight}"
    if not x or x[-1] != weight[1]:
        given = x[-1] if x else "a single number"
        return f"the last axis of x must be in_features\n  expected {weight[1]}, given {given}"
    if bias and bias[0] != weight[:1]:
        return f"bias must be (out_features,)\n  expected {weight[:1]}, given {bias[0]}"
    return None


@op(reference=linear_definition, complex=True, domain=_affine, clash=linear_clash)
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Affine map of the last axis.

    y = x Wᵀ + b, (..., in) -> (..., out)

    Args:
        x: (..., in_features).
        weight: (out_features, in_features), as in PyTorch.
        bias: (out_features,) or None.
    """
    if x.ndim == 0 or weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        raise ValueError
    rows = as_rows(x)  # (rows, in): one large product instead of a stack of small ones
    out = rows @ weight.T  # (rows, out)
    if bias is not None:
        if bias.shape != weight.shape[:1]:
            raise ValueError
        out = np.add(out, bias, out=out if out.dtype == np.result_type(out, bias) else None)
    return out.reshape(*x.shape[:-1], weight.shape[0]), None


@linear.gradients("x", "weight", "bias", formula="dx = dy W; dW = dyᵀ x; db = Σ dy")
def _(g: Any, saved: Any, x: Any, weight: Any, bias: Any) -> Any:
    rows = as_rows(x)  # (rows, in)
    g_rows = as_rows(g)  # (rows, out)
    dx = (g_rows @ weight).reshape(x.shape)
    return dx, g_rows.T @ rows, None if bias is None else np.ones(len(g_rows), g.dtype) @ g_rows
