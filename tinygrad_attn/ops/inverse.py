"""Equations and matrices that are inverted: solve, inv, det, slogdet, cholesky, each for stacks of square matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser, Shape, broadcastable
from tinygrad_attn.errors import SingularMatrixError
from tinygrad_attn.operation import op
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import plain

SlogdetResult: Any = type(np.linalg.slogdet(np.eye(1)))  # NumPy's named tuple (sign, logabsdet)
FEW = 16  # rows up to which determinants of all minors are cheap enough to prefer them for accuracy


def square_clash(a: Shape, *others: Shape, **_: Any) -> str | None:
    """Why `a` is no stack of square matrices."""
    if len(a) < 2:
        return "a matrix has two axes; more are taken as a stack of matrices"
    if a[-1] != a[-2]:
        return f"the matrix must be square\n  given {a[-2]} rows and {a[-1]} columns"
    return None


def solve_clash(a: Shape, b: Shape, **_: Any) -> str | None:
    """Why `a x = b` cannot be solved."""
    reason = square_clash(a)
    if reason is not None:
        return reason
    if not b:
        return "the right side is a single number\n  it must be a vector or a stack of matrices"
    rows = b[0] if len(b) == 1 else b[-2]
    if rows != a[-1]:
        hint = "\n  a stack of vectors needs an axis more: np.expand_dims(b, -1)" if b[-1] == a[-1] else ""
        return f"there are {a[-1]} equations and {rows} right sides{hint}"
    return None


def need_square(a: Any) -> None:
    """Raise unless `a` is a stack of square matrices; `square_clash` has the words."""
    if square_clash(np.shape(a)) is not None:
        raise ValueError("not square")


def _singular(name: str, a: Any) -> SingularMatrixError:
    """The error that says which matrix of the stack has no inverse."""
    ranks = np.linalg.matrix_rank(a)
    place = tuple(int(i) for i in np.argwhere(ranks < a.shape[-1])[0]) if np.any(ranks < a.shape[-1]) else ()
    where = f" at {place} of the stack" if place else ""
    return SingularMatrixError(
        f"{name}: the matrix{where} is singular: its rows depend on one another\n"
        f"    a  {a.shape}  rank {ranks[place]} of {a.shape[-1]}\n"
        "  add a small multiple of the identity, or look for two equal or empty rows"
    )


def _regular(choose: Chooser, side: int) -> Any:
    """Matrices far from singular: their diagonal outweighs the rest of each row."""
    stack = choose.shape(0, 1)
    return choose.reals((*stack, side, side), -1.0, 1.0) + 4.0 * np.eye(side)


def _system(choose: Chooser) -> tuple[Any, ...]:
    side = choose.integer(1, 3)
    a = _regular(choose, side)
    vector = choose.pick([True, False])
    return a, choose.reals((side,) if vector else (*broadcastable(choose, a.shape[:-2]), side, choose.integer(0, 2)))


def _square(choose: Chooser) -> tuple[Any, ...]:
    return (_regular(choose, choose.integer(0, 3)),)


@op(np.linalg.solve, complex=True, domain=_system, clash=solve_clash)
def solve(a: Any, b: Any) -> Any:
    """Solution of linear equations.

    A x = b, (..., n, n) with (n,) or (..., n, m)

    Args:
        a: (..., n, n).
        b: one vector (n,), the same for the whole stack, or (..., n, m). As in NumPy 2, only 1-D means a vector.
    Raises:
        SingularMatrixError: a matrix of the stack has no inverse.
    Source:
        Derived in docs/derivations.md, §8.
    """
    need_square(a)
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError as error:
        raise _singular("solve", a) from error


@solve.gradient("a", formula="dA = −db xᵀ, with db = A⁻ᵀ dx")
def _(g: Any, x: Any, a: Any, b: Any) -> Any:
    db = _solve_transposed(g, a, b)
    if b.ndim == 1:
        return -np.expand_dims(db, -1) * np.expand_dims(x, -2)
    return -np.matmul(db, np.swapaxes(x, -1, -2))


@solve.gradient("b", formula="db = A⁻ᵀ dx")
def _(g: Any, x: Any, a: Any, b: Any) -> Any:
    return _solve_transposed(g, a, b)


def _solve_transposed(g: Any, a: Any, b: Any) -> Any:
    """A⁻ᵀ g, in the shape of the solution."""
    transposed = np.swapaxes(a, -1, -2)
    if b.ndim == 1:  # (..., n) is one vector per matrix here
        return solve(transposed, np.expand_dims(g, -1))[..., 0]
    return solve(transposed, g)


@op(np.linalg.inv, symbol="⁻¹", complex=True, domain=_square, clash=square_clash)
def inv(a: Any) -> Any:
    """Inverse of each matrix; to solve equations, `solve` is faster and more accurate.

    Y = A⁻¹

    Raises:
        SingularMatrixError: a matrix of the stack has no inverse.
    Source:
        From Y A = I: δY = −Y δA Y (docs/derivations.md, §8).
    """
    need_square(a)
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError as error:
        raise _singular("inv", a) from error


@inv.gradient("a", formula="dA = −Yᵀ dY Yᵀ")
def _(g: Any, y: Any, a: Any) -> Any:
    transposed = np.swapaxes(y, -1, -2)
    return -np.matmul(np.matmul(transposed, g), transposed)


@op(np.linalg.det, complex=True, domain=_square, clash=square_clash)
def det(a: Any) -> Any:
    """Determinant of each matrix. It is a polynomial: its gradient is exact at singular matrices too, in every order.

    y = Σⱼ aᵢⱼ Cᵢⱼ for any row i, with the cofactors C

    Source:
        Jacobi's formula (docs/derivations.md, §8).
    """
    need_square(a)
    return np.linalg.det(a)


@det.gradient("a", formula="dA = dy · C, the cofactors; C = det(A) A⁻ᵀ where A is regular")
def _(g: Any, y: Any, a: Any) -> Any:
    cofactors = _expanded_cofactors(a) if _has_singular(plain(a)) else _entries(y) * np.swapaxes(inv(a), -1, -2)
    return _entries(g) * cofactors


def _has_singular(a: Any) -> bool:
    """Whether a matrix of the stack has no inverse, or (if small) one with hardly a digit right."""
    if a.size == 0:
        return False
    with np.errstate(all="ignore"):
        condition = np.linalg.cond(a, 1)
    limit = 0.01 / np.finfo(a.dtype).eps if a.shape[-1] <= FEW else np.inf
    return not bool(np.all(condition < limit))


def _expanded_cofactors(a: Any) -> Any:
    """Cᵢⱼ = (−1)^(i+j) · det(A without row i and column j): n² determinants, and no division."""
    n = a.shape[-1]
    kept = np.array([[k for k in range(n) if k != left_out] for left_out in range(n)], dtype=np.intp).reshape(n, n - 1)
    minors = a[..., kept[:, None, :, None], kept[None, :, None, :]]  # (..., n, n, n − 1, n − 1)
    signs = np.where(np.add.outer(np.arange(n), np.arange(n)) % 2 == 0, 1.0, -1.0).astype(a.dtype)
    return det(minors) * signs


def _entries(number: Any) -> Any:
    """One number per matrix, ready to multiply with all its entries: (...) -> (..., 1, 1)."""
    return np.expand_dims(number, (-2, -1))


@op(symbol="log|det|", complex=True, domain=_square, clash=square_clash)
def logabsdet(a: Any) -> Any:
    """Logarithm of the absolute determinant, without overflow; −∞ for a singular matrix, which then has no gradient.

    y = ln |det A|
    """
    need_square(a)
    return np.linalg.slogdet(a)[1]


@logabsdet.gradient("a", formula="dA = dy · A⁻ᵀ")
def _(g: Any, y: Any, a: Any) -> Any:
    return _entries(g) * np.swapaxes(inv(a), -1, -2)


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    """Sign and logarithm of the absolute value of each determinant, as NumPy's named tuple.

    The sign is a plain array: its derivative is 0 wherever there is one. That of a complex determinant is a direction,
    which turns: det(A) / |det(A)|, recorded.
    """
    logarithm = logabsdet(a)
    direction = np.sign(det(a)) if np.iscomplexobj(a) else np.linalg.slogdet(plain(a))[0]
    return SlogdetResult(direction, logarithm)


def _positive_definite(choose: Chooser) -> tuple[Any, ...]:
    (a,) = _square(choose)  # the diagonal outweighs the rest, so its symmetric part is positive definite
    return ((a + np.swapaxes(a, -1, -2)) / 2,)


@op(
    np.linalg.cholesky,
    domain=_positive_definite,
    options={"upper": lambda choose, inputs: choose.pick([False, True])},
    clash=square_clash,
)
def cholesky(a: Any, *, upper: bool = False) -> Any:
    """Triangular root of each symmetric positive definite matrix.

    A = L Lᵀ with L lower triangular; A = Uᵀ U if `upper`

    Divergence: NumPy reads one triangle of `a` and ignores the other. Here the symmetric part (A + Aᵀ)/2 is decomposed,
    as in JAX, so that the gradient is symmetric, as in PyTorch; for a symmetric matrix the results are the same.

    Raises:
        SingularMatrixError: a matrix of the stack is not positive definite.
    Source:
        Murray (2016), Differentiation of the Cholesky decomposition; docs/derivations.md, §8.
    """
    need_square(a)
    try:
        lower = np.linalg.cholesky((a + np.swapaxes(a, -1, -2)) / 2)
    except np.linalg.LinAlgError as error:
        raise _not_positive(a) from error
    return np.swapaxes(lower, -1, -2) if upper else lower


def _not_positive(a: Any) -> SingularMatrixError:
    smallest = np.linalg.eigvalsh((a + np.swapaxes(a, -1, -2)) / 2)[..., 0]
    place = tuple(int(i) for i in np.unravel_index(np.argmin(smallest), smallest.shape))
    where = f" at {place} of the stack" if place else ""
    return SingularMatrixError(
        f"cholesky: the matrix{where} is not positive definite\n"
        f"    a  {a.shape}  smallest eigenvalue {smallest[place]:.3g}\n"
        "  a covariance needs a small multiple of the identity added when rows are nearly dependent"
    )


@cholesky.gradient("a", formula="dA = sym(L⁻ᵀ Φ(Lᵀ dL) L⁻¹), Φ: lower triangle, diagonal halved")
def _(g: Any, out: Any, a: Any, *, upper: bool) -> Any:
    lower = np.swapaxes(out, -1, -2) if upper else out
    g = np.swapaxes(g, -1, -2) if upper else g
    transposed = np.swapaxes(lower, -1, -2)
    halved = np.tril(np.ones(a.shape[-2:], a.dtype)) - 0.5 * np.eye(a.shape[-1], dtype=a.dtype)
    phi = np.matmul(transposed, g) * halved
    left = solve(transposed, phi)  # L⁻ᵀ Φ
    full = np.swapaxes(solve(transposed, np.swapaxes(left, -1, -2)), -1, -2)  # L⁻ᵀ Φ L⁻¹
    return (full + np.swapaxes(full, -1, -2)) / 2
