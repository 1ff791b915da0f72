"""Decompositions: eigh, svd, qr, and the pseudo-inverse that rests on one.

An operation has one result, so each factor is an operation of its own: `eigvalsh` and `eigenvectors`, `svdvals` and
the singular vectors, `q_factor` and `r_factor`. Their rules call one another, which gives derivatives of every order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser, one_of
from tinygrad_attn.errors import GradientError, OptionError, ShapeError
from tinygrad_attn.operation import op
from tinygrad_attn.ops.inverse import need_square, solve, square_clash
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import plain

EighResult: Any = type(np.linalg.eigh(np.eye(1)))  # NumPy's named tuples
SVDResult: Any = type(np.linalg.svd(np.eye(1)))
QRResult: Any = type(np.linalg.qr(np.eye(1)))


def transposed(a: Any) -> Any:
    """Each matrix of a stack transposed."""
    return np.swapaxes(a, -1, -2)


def symmetric_part(a: Any) -> Any:
    """(A + Aᵀ) / 2."""
    return (a + transposed(a)) / 2


def times(a: Any, numbers: Any) -> Any:
    """A diag(numbers): each column multiplied with its number."""
    return a * np.expand_dims(numbers, -2)


def inverse_gaps(values: Any, name: str) -> Any:
    """Fᵢⱼ = 1 / (valueⱼ − valueᵢ), and 0 on the diagonal.

    Raises:
        GradientError: two values are equal; any turned pair of vectors would do as well, and none has a derivative.
    """
    found = plain(values)
    gaps = np.abs(np.expand_dims(found, -2) - np.expand_dims(found, -1))
    on_diagonal = np.eye(found.shape[-1], dtype=bool)
    smallest = np.min(np.where(on_diagonal, np.inf, gaps), initial=np.inf)
    if smallest <= 16 * np.finfo(found.dtype).eps * np.max(np.abs(found), initial=0.0):
        raise GradientError(
            f"{name}: two of the values that belong to the vectors are equal, so the vectors are not determined\n"
            f"  and have no derivative; given a gap of {smallest:.2g}\n"
            "  values alone (eigvalsh, svdvals) have a first derivative here"
        )
    gap = np.expand_dims(values, -2) - np.expand_dims(values, -1)
    return np.where(on_diagonal, 0.0, 1.0 / np.where(on_diagonal, 1.0, gap))


def _inverse(values: Any, name: str) -> Any:
    """1 / σ.

    Raises:
        GradientError: a singular value is 0; then its vectors may point anywhere outside, and have no derivative.
    """
    found = plain(values)
    if np.min(found, initial=np.inf) <= 16 * np.finfo(found.dtype).eps * np.max(found, initial=0.0):
        raise GradientError(
            f"{name}: a singular value is 0, so its vectors are not determined and have no derivative\n"
            f"  given a smallest one of {np.min(found):.2g}"
        )
    return 1.0 / values


# --- symmetric matrices --------------------------------------------------------------------------------------------


def _spread_apart(choose: Chooser) -> tuple[Any, ...]:
    """Symmetric matrices whose eigenvalues differ by more than 1."""
    side = choose.integer(0, 3)
    rest = choose.reals((*choose.shape(0, 1), side, side), -0.5, 0.5, avoid=(0.0,))
    off_diagonal = np.tril(rest, -1)
    return (off_diagonal + transposed(off_diagonal) + np.diag([0.0, 3.0, 6.0][:side]) + rest * np.eye(side),)


@op(np.linalg.eigvalsh, symbol="λ", domain=_spread_apart, options={"UPLO": one_of("L", "U")}, clash=square_clash)
def eigvalsh(a: Any, *, UPLO: Any = "L") -> Any:
    """Eigenvalues of symmetric matrices, in ascending order.

    A v = λ v

    Divergence: NumPy reads the triangle that UPLO names. Here the symmetric part (A + Aᵀ)/2 is decomposed, whatever
    UPLO says, so that the gradient is symmetric; for a symmetric matrix the results are the same.

    Source:
        Giles (2008), An extended collection of matrix derivative results, section 3.1.
    """
    need_square(a)
    return np.linalg.eigvalsh(symmetric_part(a), UPLO)


@eigvalsh.gradient("a", formula="dA = V diag(dλ) Vᵀ")
def _(g: Any, out: Any, a: Any, *, UPLO: Any) -> Any:
    vectors = eigenvectors(a)
    return np.matmul(times(vectors, g), transposed(vectors))


@op(symbol="V", domain=_spread_apart, clash=square_clash)
def eigenvectors(a: Any) -> Any:
    """Eigenvectors of symmetric matrices, as columns of length 1, in the order of `eigvalsh`.

    A V = V diag(λ). The sign of each is LAPACK's. Where two eigenvalues are equal there is no derivative.
    """
    need_square(a)
    return np.linalg.eigh(symmetric_part(a))[1]


@eigenvectors.gradient("a", formula="dA = sym(V (F ∘ Vᵀ dV) Vᵀ), Fᵢⱼ = 1 / (λⱼ − λᵢ)")
def _(g: Any, vectors: Any, a: Any) -> Any:
    turned = inverse_gaps(eigvalsh(a), "eigenvectors") * np.matmul(transposed(vectors), g)
    return symmetric_part(np.matmul(np.matmul(vectors, turned), transposed(vectors)))


@implements(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues and eigenvectors of symmetric matrices, as NumPy's named tuple; see `eigvalsh` and `eigenvectors`."""
    return EighResult(eigvalsh(a, UPLO=UPLO), eigenvectors(a))


# --- singular values -----------------------------------------------------------------------------------------------


def _full_rank(choose: Chooser) -> tuple[Any, ...]:
    """Matrices of every form whose singular values differ from one another and from 0."""
    rows, columns = choose.integer(1, 3), choose.integer(1, 3)
    rest = choose.reals((*choose.shape(0, 1), rows, columns), -0.5, 0.5, avoid=(0.0,))
    return (rest + np.eye(rows, columns) * (3.0 + 3.0 * np.arange(columns)),)


def matrix_clash(a: tuple[int, ...], **_: Any) -> str | None:
    """Why `a` is no stack of matrices."""
    return None if len(a) > 1 else "a matrix has two axes; more are taken as a stack of matrices"


@op(np.linalg.svdvals, symbol="σ", domain=_full_rank, clash=matrix_clash)
def svdvals(x: Any) -> Any:
    """Singular values of each matrix, the largest first.

    A = U diag(σ) Vᵀ
    """
    return np.linalg.svd(x, compute_uv=False)


@svdvals.gradient("x", formula="dA = U diag(dσ) Vᵀ")
def _(g: Any, out: Any, x: Any) -> Any:
    return np.matmul(times(left_singular_vectors(x), g), right_singular_vectors(x))


@op(symbol="U", domain=_full_rank, clash=matrix_clash)
def left_singular_vectors(x: Any) -> Any:
    """Left singular vectors of each matrix as columns, in the order of `svdvals`: (..., m, n) -> (..., m, min(m, n)).

    A = U diag(σ) Vᵀ. Where two singular values are equal there is no derivative.
    """
    return np.linalg.svd(x, full_matrices=False)[0]


@left_singular_vectors.gradient("x", formula="dA = U (J + Jᵀ) Σ Vᵀ + (I − UUᵀ) dU Σ⁻¹ Vᵀ, J = F ∘ Uᵀ dU")
def _(g: Any, u: Any, x: Any) -> Any:
    values, v_t = svdvals(x), right_singular_vectors(x)
    seen = np.matmul(transposed(u), g)
    turned = inverse_gaps(np.square(values), "left_singular_vectors") * seen
    inside = np.matmul(u, times(turned + transposed(turned), values))
    if x.shape[-2] > x.shape[-1]:
        inside = inside + times(g - np.matmul(u, seen), _inverse(values, "left_singular_vectors"))
    return np.matmul(inside, v_t)


@op(symbol="Vᵀ", domain=_full_rank, clash=matrix_clash)
def right_singular_vectors(x: Any) -> Any:
    """Right singular vectors of each matrix as rows, in the order of `svdvals`: (..., m, n) -> (..., min(m, n), n).

    A = U diag(σ) Vᵀ. Where two singular values are equal there is no derivative.
    """
    return np.linalg.svd(x, full_matrices=False)[2]


@right_singular_vectors.gradient("x", formula="dA = U Σ (J + Jᵀ) Vᵀ + U Σ⁻¹ dVᵀ (I − VVᵀ), J = F ∘ Vᵀ dV")
def _(g: Any, v_t: Any, x: Any) -> Any:
    values, u = svdvals(x), left_singular_vectors(x)
    seen = np.matmul(v_t, transposed(g))
    turned = inverse_gaps(np.square(values), "right_singular_vectors") * seen
    inside = np.matmul(times(u, values), np.matmul(turned + transposed(turned), v_t))
    if x.shape[-1] <= x.shape[-2]:
        return inside
    inverse = _inverse(values, "right_singular_vectors")
    return inside + np.matmul(times(u, inverse), g - np.matmul(transposed(seen), v_t))


@implements(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Singular value decomposition, as NumPy's named tuple (U, S, Vh), or the values alone without `compute_uv`.

    Raises:
        OptionError: `full_matrices` for a matrix that is not square: the vectors that complete the basis are not
            determined by it and have no derivative; or `hermitian`.
    """
    if hermitian:
        raise OptionError("svd: hermitian=True has no gradient rule\n  np.linalg.eigh decomposes symmetric matrices")
    if not compute_uv:
        return svdvals(a)
    if full_matrices and a.ndim > 1 and a.shape[-1] != a.shape[-2]:
        raise OptionError(
            f"svd: of a matrix that is not square, full_matrices=True asks for vectors that it does not determine\n"
            f"    a  {a.shape}\n  pass full_matrices=False"
        )
    return SVDResult(left_singular_vectors(a), svdvals(a), right_singular_vectors(a))


@op(np.linalg.pinv, symbol="⁺", domain=_full_rank, options={"rcond": one_of(None, 1e-12)}, clash=matrix_clash)
def pinv(a: Any, *, rcond: Any = None) -> Any:
    """Pseudo-inverse: A⁺ b is the shortest of the vectors x for which A x comes nearest to b.

    A A⁺ A = A, A⁺ A A⁺ = A⁺, A A⁺ and A⁺ A symmetric

    It jumps where the rank changes; the derivative is the one along matrices of equal rank.

    Args:
        a: (..., m, n).
        rcond: singular values below this part of the largest count as 0; NumPy's rtol is the same.
    Source:
        Golub & Pereyra (1973), The differentiation of pseudo-inverses.
    """
    return np.linalg.pinv(a) if rcond is None else np.linalg.pinv(a, rcond)


@pinv.gradient("a", formula="dA = −Yᵀ dY Yᵀ + (I − AY) dYᵀ YYᵀ + YᵀY dYᵀ (I − YA)")
def _(g: Any, y: Any, a: Any, *, rcond: Any) -> Any:
    y_t, g_t = transposed(y), transposed(g)
    through_left = np.matmul(g_t, np.matmul(y, y_t))
    through_right = np.matmul(np.matmul(y_t, y), g_t)
    return (
        through_left
        - np.matmul(a, np.matmul(y, through_left))
        + through_right
        - np.matmul(np.matmul(through_right, y), a)
        - np.matmul(np.matmul(y_t, g), y_t)
    )


# --- QR ------------------------------------------------------------------------------------------------------------


def _tall(choose: Chooser) -> tuple[Any, ...]:
    columns = choose.integer(1, 3)
    rest = choose.reals((*choose.shape(0, 1), columns + choose.integer(0, 1), columns), -0.5, 0.5, avoid=(0.0,))
    return (rest + np.eye(*rest.shape[-2:]) * 3.0,)


def tall_clash(a: tuple[int, ...], **_: Any) -> str | None:
    """Why `a` is no stack of matrices with at least as many rows as columns."""
    return matrix_clash(a) or (None if a[-2] >= a[-1] else "at least as many rows as columns")


@op(symbol="Q", domain=_tall, clash=tall_clash)
def q_factor(a: Any) -> Any:
    """The orthogonal factor: columns of length 1 that stand at right angles and span what the columns of A span.

    A = Q R, (..., m, n) -> (..., m, n) for m ≥ n

    Source:
        Walter & Lehmann (2010), Algorithmic differentiation of linear algebra functions with application in optimum
        experimental design.
    """
    if tall_clash(a.shape) is not None:
        raise ValueError("not tall")
    return np.linalg.qr(a)[0]


@op(symbol="R", domain=_tall, clash=tall_clash)
def r_factor(a: Any) -> Any:
    """The upper triangular factor.

    A = Q R, (..., m, n) -> (..., n, n) for m ≥ n
    """
    if tall_clash(a.shape) is not None:
        raise ValueError("not tall")
    return np.linalg.qr(a)[1]


@q_factor.gradient("a", formula="dA = (dQ − Q copy(dQᵀ Q)) R⁻ᵀ, copy: the lower triangle mirrored")
def _(g: Any, q: Any, a: Any) -> Any:
    inside = g - np.matmul(q, _mirrored(np.matmul(transposed(g), q)))
    return transposed(solve(r_factor(a), transposed(inside)))


@r_factor.gradient("a", formula="dA = Q copy(R dRᵀ) R⁻ᵀ, copy: the lower triangle mirrored")
def _(g: Any, r: Any, a: Any) -> Any:
    inside = np.matmul(q_factor(a), _mirrored(np.matmul(r, transposed(g))))
    return transposed(solve(r, transposed(inside)))


def _mirrored(m: Any) -> Any:
    """The symmetric matrix with the lower triangle of `m`."""
    return np.tril(m) + transposed(np.tril(m, -1))


@implements(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """QR decomposition, as NumPy's named tuple (Q, R), or R alone for mode "r".

    Raises:
        OptionError: mode "complete" or "raw".
    """
    if mode not in ("reduced", "r"):
        raise OptionError(f"qr: mode {mode!r} has no gradient rule\n  expected 'reduced' or 'r'")
    if a.ndim < 2:
        raise ShapeError(f"qr: {matrix_clash(a.shape)}\n  given shape {a.shape}")
    rows, columns = a.shape[-2:]
    if rows >= columns:
        return r_factor(a) if mode == "r" else QRResult(q_factor(a), r_factor(a))
    first = a[..., :rows]  # the square part determines Q; the other columns are seen from there
    q = q_factor(first)
    r = np.concatenate([r_factor(first), np.matmul(transposed(q), a[..., rows:])], -1)
    return r if mode == "r" else QRResult(q, r)
