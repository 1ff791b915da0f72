"""Eigenvalues and eigenvectors of matrices that need not be symmetric; both may be complex, also of real matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser
from tinygrad_attn.operation import op
from tinygrad_attn.ops.decompose import inverse_gaps, transposed
from tinygrad_attn.ops.inverse import need_square, solve, square_clash
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import plain

EigResult: Any = type(np.linalg.eig(np.eye(1)))  # NumPy's named tuple

# Real eigenvalues, and a conjugate pair; far apart, and far from where LAPACK changes their order or a vector's sign.
_CENTRES = (
    np.array([[0.3, 0.5, -0.4], [0.2, 3.1, 0.6], [-0.3, 0.4, 6.2]]),
    np.array([[0.3, -1.1, 0.2], [4.2, 0.9, 0.5], [0.4, -0.3, 4.7]]),
)


def _unlike_eigenvalues(choose: Chooser) -> tuple[Any, ...]:
    side = choose.integer(0, 3)
    return (choose.pick(_CENTRES)[:side, :side] + choose.reals((*choose.shape(0, 1), side, side), -0.1, 0.1),)


@op(np.linalg.eigvals, symbol="λ", complex=True, domain=_unlike_eigenvalues, clash=square_clash)
def eigvals(a: Any) -> Any:
    """Eigenvalues, in the order of `right_eigenvectors`; complex unless all of a real matrix are real.

    A v = λ v
    """
    need_square(a)
    return np.linalg.eig(a).eigenvalues


@eigvals.gradient("a", formula="dA = V⁻ᵀ diag(dλ) Vᵀ")
def _(g: Any, out: Any, a: Any) -> Any:
    v_t = transposed(right_eigenvectors(a))
    return solve(v_t, np.expand_dims(g, -1) * v_t)


@op(symbol="V", complex=True, domain=_unlike_eigenvalues, clash=square_clash)
def right_eigenvectors(a: Any) -> Any:
    """Eigenvectors as columns, as LAPACK gives them: of length 1, the largest entry real.

    A V = V diag(λ). Where two eigenvalues are equal there is no derivative.

    Source:
        Boeddeker et al. (2017), On the computation of complex-valued gradients with application to statistically
        optimum beamforming, arXiv:1701.00392, for length 1; with the phase it is derived in docs/complex.md.
    """
    need_square(a)
    return np.linalg.eig(a).eigenvectors


@right_eigenvectors.gradient(
    "a", formula="dA = V⁻ᵀ (F ∘ Vᵀ H) Vᵀ, Fᵢⱼ = 1 / (λⱼ − λᵢ), H: dV, less what would stretch or turn v"
)
def _(g: Any, vectors: Any, a: Any) -> Any:
    v_t = transposed(vectors)
    along = np.sum(g * vectors, axis=-2, keepdims=True)  # (..., 1, n): what would stretch or turn each vector
    h = g - np.real(along) * vectors.conj()
    if np.iscomplexobj(vectors) and vectors.size:
        found = plain(vectors)
        sizes = np.where(found.imag == 0.0, np.abs(found), 0.0)
        kept_real = np.expand_dims(np.argmax(sizes, axis=-2), -2) == np.expand_dims(np.arange(found.shape[-1]), -1)
        h = h - np.where(kept_real, 1j * np.imag(along) / np.where(kept_real, vectors, 1.0), 0.0)
    turned = inverse_gaps(eigvals(a), "right_eigenvectors") * np.matmul(v_t, h)
    return solve(v_t, np.matmul(turned, v_t))


@implements(np.linalg.eig)
def eig(a: Any) -> Any:
    """Eigenvalues and eigenvectors, as NumPy's named tuple; see `eigvals` and `right_eigenvectors`."""
    return EigResult(eigvals(a), right_eigenvectors(a))
