"""Sums of products in Einstein's notation, and the products that are short for one: dot, inner, outer, tensordot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tinygrad_attn.domain import Chooser
from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.operation import op
from tinygrad_attn.registry import implements

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@implements(np.einsum)
def einsum(subscripts: str, *operands: Any, optimize: Any = True) -> Any:
    """Sum of products in Einstein's notation: letters name axes, and those left out after "->" are summed over.

    y[out] = Σ ∏ₖ xₖ[termₖ]

    Args:
        subscripts: as in NumPy: "ij,jk->ik", "ii" (trace), "...ij,...j" (an ellipsis stands for any leading axes that
            broadcast). Without "->", the letters that occur once are kept, in alphabetical order.
        operands: one array per term.
        optimize: accepted for NumPy's sake; the order of products is always chosen.
    Raises:
        OptionError: subscripts that cannot be read, or operands given as (array, axes, …).
        ShapeError: an axis has two different lengths.

    >>> import numpy as np, tinygrad_attn as ta
    >>> x = ta.Tensor([2.0, 2.0], requires_grad=True)
    >>> einsum("i,i", x, np.array([3.0, 4.0])).backward()
    >>> x.grad
    array([3., 4.], dtype=float32)
    """
    if not isinstance(subscripts, str):
        raise OptionError("einsum: the subscripts come first, as one string, such as 'ij,jk->ik'")
    return sum_of_products(*operands, subscripts=subscripts)


_FORMS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("ij,jk->ik", ((2, 3), (3, 2))),
    ("i,i", ((3,), (1,))),  # a length of 1 broadcasts
    ("ii", ((3, 3),)),
    ("iij->ji", ((2, 2, 3),)),
    ("ij->", ((2, 3),)),
    ("i,j", ((2,), (3,))),
    ("ij,kl->il", ((2, 3), (2, 2))),  # j and k occur in one operand only
    ("...ij,...jk", ((2, 1, 2, 3), (3, 3, 1))),
    ("...,i...->...i", ((2,), (3, 2))),
    ("bqd,bkd,q->bk", ((2, 3, 2), (2, 2, 2), (3,))),
    (",i", ((), (3,))),
    ("ij,ij", ((0, 2), (0, 2))),
)


def _products(choose: Chooser) -> tuple[Any, ...]:
    return tuple(choose.reals(shape) for shape in choose.pick([shapes for _, shapes in _FORMS]))


def _subscripts(choose: Chooser, inputs: tuple[Any, ...]) -> str:
    return next(subscripts for subscripts, shapes in _FORMS if shapes == tuple(x.shape for x in inputs))


@op(symbol="einsum", domain=_products, options={"subscripts": _subscripts})
def sum_of_products(*operands: Any, subscripts: str) -> Any:
    """The operation behind `einsum`.

    y[out] = Σ ∏ₖ xₖ[termₖ]
    """
    terms, out = read(subscripts, [np.ndim(operand) for operand in operands])
    lengths(terms, operands)
    return np.einsum(f"{','.join(terms)}->{out}", *operands, optimize=len(operands) > 2)


@sum_of_products.gradient("operands", formula="dxₖ[termₖ] = Σ dy[out] ∏ⱼ≠ₖ xⱼ[termⱼ]")
def _(g: Any, out: Any, *operands: Any, index: int, subscripts: str) -> Any:
    terms, out_term = read(subscripts, [operand.ndim for operand in operands])
    length_of = lengths(terms, operands)
    given_terms = [out_term, *terms[:index], *terms[index + 1 :]]
    given = [g, *operands[:index], *operands[index + 1 :]]
    known = lengths(given_terms, given)
    wanted = ""
    for letter in terms[index]:
        name = letter
        if letter in wanted:  # a diagonal was read, and the gradient goes back to it
            name = next(x for x in _LETTERS if x not in "".join([wanted, out_term, *terms]))
            given_terms.append(letter + name)
            given.append(np.eye(length_of[letter], dtype=g.dtype))
        elif known.get(letter) != length_of[letter]:  # summed within this operand: every element gets the same
            given_terms.append(letter)
            given.append(np.ones(length_of[letter], g.dtype))
        wanted += name
    return np.einsum(f"{','.join(given_terms)}->{wanted}", *given)


def read(subscripts: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """Terms and output term of `subscripts`, with letters of their own in place of ellipses.

    >>> read("...ij,...j", [3, 2])
    (['aij', 'aj'], 'ai')
    """
    left, arrow, out = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise OptionError(f"einsum: {subscripts!r} has {len(terms)} terms\n  given {len(ndims)} operands")
    unused = [letter for letter in _LETTERS if letter not in subscripts]
    leading = max(
        [ndim - len(t.replace("...", "")) for t, ndim in zip(terms, ndims, strict=True) if "..." in t], default=0
    )
    stand_in = "".join(unused[: max(leading, 0)])
    explicit = []
    for term, ndim in zip(terms, ndims, strict=True):
        count = ndim - len(term.replace("...", ""))
        if count < 0 or (count and "..." not in term):
            raise ShapeError(
                f"einsum: the term {term!r} of {subscripts!r} does not name the axes of its operand\n"
                f"  expected {len(term.replace('...', ''))} axes, given {ndim}"
            )
        explicit.append(term.replace("...", stand_in[len(stand_in) - count :]))
    if not arrow:
        letters = "".join(terms).replace("...", "")
        out = ("..." if "..." in left else "") + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    out = out.replace("...", stand_in)
    if (
        not all(x in _LETTERS for x in "".join([*explicit, out]))
        or set(out) - set("".join(explicit))
        or len(set(out)) < len(out)
    ):
        raise OptionError(f"einsum: cannot read {subscripts!r}\n  expected terms of letters, such as 'ij,jk->ik'")
    return explicit, out


def lengths(terms: Sequence[str], operands: Sequence[Any]) -> dict[str, int]:
    """Length of the axis that each letter names; a length of 1 broadcasts.

    Raises:
        ShapeError: two different lengths under one letter.
    """
    found: dict[str, int] = {}
    for term, operand in zip(terms, operands, strict=True):
        for letter, length in zip(term, np.shape(operand), strict=True):
            before = found.get(letter, 1)
            if 1 not in (before, length) and before != length:
                raise ShapeError(
                    f"einsum: the axis {letter!r} has two lengths: {before} ≠ {length}\n"
                    + "\n".join(
                        f"    {t:<{max(map(len, terms))}}  {np.shape(x)}" for t, x in zip(terms, operands, strict=True)
                    )
                )
            found[letter] = length if before == 1 else before
    return found


# --- short for one ---------------------------------------------------------------------------------------------------


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum of products over pairs of axes; the other axes of `a`, then those of `b`, are left.

    Args:
        a, b: arrays.
        axes: how many of the last axes of `a` meet the first of `b`, or a pair (axes of a, axes of b).

    >>> tensordot(np.ones((2, 3)), np.ones((3, 4)), 1).shape
    (2, 4)
    """
    a_ndim, b_ndim = np.ndim(a), np.ndim(b)
    if isinstance(axes, int):
        of_a, of_b = list(range(a_ndim - axes, a_ndim)), list(range(axes))
    else:
        of_a, of_b = ([axis] if isinstance(axis, int) else list(axis) for axis in axes)
    if len(of_a) != len(of_b) or max(len(of_a), 0) > min(a_ndim, b_ndim):
        raise ShapeError(
            f"tensordot: as many axes of a as of b must meet\n  given axes={axes} for {np.shape(a)} and {np.shape(b)}"
        )
    a_term, b_term = list(_LETTERS[:a_ndim]), list(_LETTERS[a_ndim : a_ndim + b_ndim])
    for axis_a, axis_b in zip(of_a, of_b, strict=True):
        i, j = normalize_axis_index(axis_a, a_ndim), normalize_axis_index(axis_b, b_ndim)
        if np.shape(a)[i] != np.shape(b)[j]:
            raise ShapeError(
                f"tensordot: axis {axis_a} of a meets axis {axis_b} of b: {np.shape(a)[i]} ≠ {np.shape(b)[j]}\n"
                f"    a  {np.shape(a)}\n    b  {np.shape(b)}"
            )
        b_term[j] = a_term[i]
    kept = "".join([x for x in a_term if x not in b_term] + [x for x in b_term if x not in a_term])
    return sum_of_products(a, b, subscripts=f"{''.join(a_term)},{''.join(b_term)}->{kept}")


@implements(np.dot)
def dot(a: Any, b: Any) -> Any:
    """Product of vectors or matrices; in more dimensions, over the last axis of `a` and the last but one of `b`."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(a, b)
    if np.ndim(b) == 1 or np.ndim(a) == 1 or np.ndim(a) == np.ndim(b) == 2:
        return np.matmul(a, b) if np.ndim(a) > 1 or np.ndim(b) <= 2 else tensordot(a, b, (-1, -2))
    return tensordot(a, b, (-1, -2))


@implements(np.vdot)
def vdot(a: Any, b: Any) -> Any:
    """Sum of the products of all elements."""
    return np.dot(np.reshape(a, (-1,)), np.reshape(b, (-1,)))


@implements(np.inner)
def inner(a: Any, b: Any) -> Any:
    """Product over the last axis of both."""
    return np.multiply(a, b) if np.ndim(a) == 0 or np.ndim(b) == 0 else tensordot(a, b, (-1, -1))


@implements(np.outer)
def outer(a: Any, b: Any) -> Any:
    """Every element of `a` times every element of `b`: (n,), (m,) -> (n, m)."""
    return np.multiply(np.reshape(a, (-1, 1)), np.reshape(b, (1, -1)))
