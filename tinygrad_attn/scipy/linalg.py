"""scipy.linalg: triangular and banded systems, Sylvester's equation, the root and the exponential of a matrix.

One matrix at a time: (n, n).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as theirs

from tinygrad_attn.domain import Chooser, flag, one_of
from tinygrad_attn.errors import DtypeError, OptionError, ShapeError, SingularMatrixError
from tinygrad_attn.operation import op
from tinygrad_attn.ops import scatter_add

__all__ = ["expm", "solve_banded", "solve_sylvester", "solve_triangular", "sqrtm"]


def _regular(choose: Chooser, side: int) -> Any:
    """A matrix whose diagonal outweighs the rest: far from singular, and with eigenvalues on the right."""
    return choose.reals((side, side), -1.0, 1.0) + 4.0 * np.eye(side)


def _system(choose: Chooser) -> tuple[Any, ...]:
    side = choose.integer(1, 3)
    return _regular(choose, side), choose.reals((side,) if choose.integer(0, 1) else (side, choose.integer(1, 2)))


@op(domain=_system, options={"trans": one_of(0, 1), "lower": flag, "unit_diagonal": flag})
def solve_triangular(a: Any, b: Any, *, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False) -> Any:
    """Solution of a triangular system; only the triangle that is named is read, and gets a gradient.

    A x = b, or Aᵀ x = b if `trans`

    Args:
        a: (n, n).
        b: (n,) or (n, m).
        trans: 0 or "N"; 1 or "T" to transpose A.
        lower: whether the lower triangle counts, or the upper.
        unit_diagonal: whether the diagonal is taken as ones, whatever stands there.
    Raises:
        SingularMatrixError: a 0 on the diagonal.
    """
    _square("solve_triangular", a)
    if trans not in (0, 1, "N", "T"):
        raise OptionError(f"solve_triangular: trans must be 0, 1, 'N' or 'T'\n  given {trans!r}")
    try:
        return theirs.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit_diagonal)
    except np.linalg.LinAlgError as error:
        raise SingularMatrixError(
            f"solve_triangular: {error}\n  a triangular matrix has no 0 on its diagonal"
        ) from None


@solve_triangular.gradient("a", formula="dA = −db xᵀ, transposed if A was, within the triangle; db as for b")
def _(g: Any, x: Any, a: Any, b: Any, *, trans: Any, lower: bool, unit_diagonal: bool) -> Any:
    transposed = trans in (1, "T")
    db = solve_triangular(a, g, trans=0 if transposed else 1, lower=lower, unit_diagonal=unit_diagonal)
    full = -_outer(x, db) if transposed else -_outer(db, x)
    k = 1 if unit_diagonal else 0
    return np.tril(full, -k) if lower else np.triu(full, k)


@solve_triangular.gradient("b", formula="db = A⁻ᵀ dx, or A⁻¹ dx if A was transposed")
def _(g: Any, x: Any, a: Any, b: Any, *, trans: Any, lower: bool, unit_diagonal: bool) -> Any:
    return solve_triangular(a, g, trans=0 if trans in (1, "T") else 1, lower=lower, unit_diagonal=unit_diagonal)


def _outer(a: Any, b: Any) -> Any:
    """a bᵀ, of vectors or of matrices column by column."""
    return np.outer(a, b) if a.ndim == 1 else a @ b.T


def _one_matrix(choose: Chooser) -> tuple[Any, ...]:
    return (_regular(choose, choose.integer(1, 3)),)


@op(symbol="√A", domain=_one_matrix)
def sqrtm(a: Any) -> Any:
    """The square root of a matrix, of which the eigenvalues lie right of 0.

    X X = A

    Raises:
        SingularMatrixError: A has no real root.
    Source:
        δA = δX X + X δX is Sylvester's equation for δX, and its transpose gives the gradient.
    """
    _square("sqrtm", a)
    root = theirs.sqrtm(a)
    if np.iscomplexobj(root) and np.allclose(root.imag, 0.0, atol=1e-8 * np.max(np.abs(root))):
        root = root.real  # SciPy before 1.17 gives complex numbers where eigenvalues are
    if np.iscomplexobj(root) or not np.isfinite(root).all():
        raise SingularMatrixError("sqrtm: the matrix has no real square root: an eigenvalue is negative, or 0")
    return root.astype(a.dtype)


@sqrtm.gradient("a", formula="dA solves Xᵀ dA + dA Xᵀ = dX")
def _(g: Any, x: Any, a: Any) -> Any:
    return solve_sylvester(x.T, x.T, g)


def _sylvester(choose: Chooser) -> tuple[Any, ...]:
    n, m = choose.integer(1, 3), choose.integer(1, 2)
    return _regular(choose, n), _regular(choose, m), choose.reals((n, m))


@op(domain=_sylvester)
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Solution of Sylvester's equation.

    A X + X B = Q, with A (n, n), B (m, m), Q (n, m), all of them real

    Raises:
        ShapeError: A or B is not square.
        DtypeError: a matrix is complex.
    """
    _square("solve_sylvester", a)
    _square("solve_sylvester", b)
    if any(np.iscomplexobj(matrix) for matrix in (a, b, q)):
        raise DtypeError("solve_sylvester: the matrices must be real")
    return theirs.solve_sylvester(a, b, q).astype(np.result_type(a, b, q))


@solve_sylvester.gradient("a", formula="dA = −dQ Xᵀ")
def _(g: Any, x: Any, a: Any, b: Any, q: Any) -> Any:
    return -solve_sylvester(a.T, b.T, g) @ x.T


@solve_sylvester.gradient("b", formula="dB = −Xᵀ dQ")
def _(g: Any, x: Any, a: Any, b: Any, q: Any) -> Any:
    return -x.T @ solve_sylvester(a.T, b.T, g)


@solve_sylvester.gradient("q", formula="dQ solves Aᵀ dQ + dQ Bᵀ = dX")
def _(g: Any, x: Any, a: Any, b: Any, q: Any) -> Any:
    return solve_sylvester(a.T, b.T, g)


def _banded(choose: Chooser) -> tuple[Any, ...]:
    side = choose.integer(2, 4)
    diagonals = choose.reals((3, side), -0.4, 0.4) + np.array([[0.0], [2.0], [0.0]])
    return diagonals, choose.reals((side,) if choose.integer(0, 1) else (side, 2))


@op(domain=_banded, options={"l_and_u": one_of((1, 1))})
def solve_diagonals(ab: Any, b: Any, *, l_and_u: tuple[int, int] = (0, 0)) -> Any:
    """What `solve_banded` does, with its first argument as an option.

    A x = b, A[i, j] = ab[u + i − j, j]
    """
    return theirs.solve_banded(l_and_u, ab, b)


@solve_diagonals.gradient("ab", formula="dA = −db xᵀ, on the diagonals of the band; db = A⁻ᵀ dx")
def _(g: Any, x: Any, ab: Any, b: Any, *, l_and_u: tuple[int, int]) -> Any:
    row, column, i = _band(ab.shape, l_and_u)
    db = _solve_transposed(ab, g, l_and_u)
    products = -(db[i] * x[column]) if g.ndim == 1 else -np.sum(db[i] * x[column], axis=1)
    return scatter_add(products, index=(row, column), shape=ab.shape)


@solve_diagonals.gradient("b", formula="db = A⁻ᵀ dx")
def _(g: Any, x: Any, ab: Any, b: Any, *, l_and_u: tuple[int, int]) -> Any:
    return _solve_transposed(ab, g, l_and_u)


def _band(shape: tuple[int, ...], l_and_u: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Where the band stands in the table of diagonals: rows and columns of `ab`, and the rows i of A."""
    row, column = np.indices(shape)
    i = row - l_and_u[1] + column
    inside = (i >= 0) & (i < shape[1])
    return row[inside], column[inside], i[inside]


def _solve_transposed(ab: Any, g: Any, l_and_u: tuple[int, int]) -> Any:
    row, column, i = _band(ab.shape, l_and_u)
    lower, upper = l_and_u
    flipped = scatter_add(
        ab[row, column], index=(lower + column - i, i), shape=ab.shape
    )  # A[i, j] of Aᵀ stands at (j, i)
    return solve_diagonals(flipped, g, l_and_u=(upper, lower))


def solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any) -> Any:
    """Solution of a system whose matrix has a few diagonals only.

    A x = b, A[i, j] = ab[u + i − j, j]

    Args:
        l_and_u: how many diagonals stand below and above the main one.
        ab: (l + u + 1, n), one diagonal in each row, the uppermost first.
        b: (n,) or (n, m).
    """
    if len(ab.shape) != 2 or ab.shape[0] != sum(l_and_u) + 1:
        raise ShapeError(
            f"solve_banded: {l_and_u} means {sum(l_and_u) + 1} diagonals, one in each row\n  given {ab.shape}"
        )
    return solve_diagonals(ab, b, l_and_u=tuple(l_and_u))


@op(symbol="eᴬ", domain=lambda choose: (choose.reals((side := choose.integer(1, 3), side), -1.0, 1.0),))
def expm(a: Any) -> Any:
    """The exponential of a matrix.

    Y = Σₙ Aⁿ / n!

    Source:
        The gradient is the upper right block of an exponential of twice the size: Najfeld and Havel (1995),
        "Derivatives of the matrix exponential and their computation", theorem 4.
    """
    _square("expm", a)
    return theirs.expm(a)


@expm.gradient("a", formula="dA = upper right block of exp [Aᵀ dY; 0 Aᵀ]")
def _(g: Any, y: Any, a: Any) -> Any:
    n = a.shape[0]
    upper = np.concatenate([a.T, g], axis=1)
    lower = np.concatenate([np.zeros((n, n), a.dtype), a.T], axis=1)
    return expm(np.concatenate([upper, lower]))[:n, n:]


def _square(name: str, a: Any) -> None:
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ShapeError(f"{name}: one square matrix is expected, (n, n)\n  given {a.shape}")
