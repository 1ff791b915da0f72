"""Sums of products in Einstein's notation, and the products that are short for one: dot, inner, outer, tensordot."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.exceptions import AxisError
from numpy.lib.array_utils import normalize_axis_tuple

from tinygrad_attn.domain import Chooser
from tinygrad_attn.errors import AxisRangeError, OptionError, ShapeError
from tinygrad_attn.operation import op
from tinygrad_attn.registry import implements

_LETTERS = string.ascii_letters
_BLAS_PAYS = 500  # elements from which choosing an order and handing products to BLAS saves more than it costs


@implements(np.einsum)
def einsum(subscripts: Any, *operands: Any, optimize: Any = True) -> Any:
    """Sum of products in Einstein's notation: letters name axes, and those left out after "->" are summed over.

    y[out] = Σ ∏ₖ xₖ[termₖ]

    Args:
        subscripts: as in NumPy: "ij,jk->ik", "ii" (trace), "...ij,...j" (an ellipsis stands for any leading axes that
            broadcast). Without "->", the letters that occur once are kept, in alphabetical order. The other form,
            einsum(a, [0, 1], b, [1, 2], [0, 2]), is read as well.
        operands: one array per term.
        optimize: accepted for NumPy's sake; the order of large products is always chosen.
    Raises:
        OptionError: subscripts that cannot be read.
        ShapeError: an axis has two different lengths.

    >>> import numpy as np, tinygrad_attn as ta
    >>> x = ta.Tensor([2.0, 2.0], requires_grad=True)
    >>> einsum("i,i", x, np.array([3.0, 4.0])).backward()
    >>> x.grad
    array([3., 4.], dtype=float32)
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists(subscripts, *operands)
    return sum_of_products(*operands, subscripts=subscripts)


def _from_lists(*given: Any) -> tuple[str, tuple[Any, ...]]:
    """Read `a, [0, 1], b, [1, 2], [0, 2]` as "ab,bc->ac" and the operands."""
    pairs, result = (given, None) if len(given) % 2 == 0 else (given[:-1], given[-1])
    lists = [*pairs[1::2], *([] if result is None else [result])]
    if not pairs or not all(isinstance(places, (list, tuple)) for places in lists):
        raise OptionError(
            "einsum: the subscripts come first, as one string, such as 'ij,jk->ik'\n"
            "  or each operand is followed by a list of its axes, such as einsum(a, [0, 1], b, [1, 2])"
        )
    terms = ["".join("..." if place is Ellipsis else _LETTERS[place] for place in places) for places in lists]
    inputs = ",".join(terms[: len(pairs) // 2])
    return inputs if result is None else f"{inputs}->{terms[-1]}", pairs[0::2]


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


@op(symbol="einsum", complex=True, domain=_products, options={"subscripts": _subscripts})
def sum_of_products(*operands: Any, subscripts: str) -> Any:
    """The operation behind `einsum`.

    y[out] = Σ ∏ₖ xₖ[termₖ]
    """
    terms, out = read(subscripts, [np.ndim(operand) for operand in operands])
    lengths(terms, operands)
    large = sum(np.size(operand) for operand in operands) > _BLAS_PAYS
    return np.einsum(f"{','.join(terms)}->{out}", *operands, optimize=large and len(operands) > 1)


@sum_of_products.gradient("operands", formula="dxₖ[termₖ] = Σ dy[out] ∏ⱼ≠ₖ xⱼ[termⱼ]")
def _(g: Any, out: Any, *operands: Any, index: int, subscripts: str) -> Any:
    terms, out_term = read(subscripts, [np.ndim(operand) for operand in operands])
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
    return sum_of_products(*given, subscripts=f"{','.join(given_terms)}->{wanted}")


def read(subscripts: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """Terms and output term of `subscripts`, with letters of their own in place of ellipses.

    >>> read("...ij,...j", [3, 2])
    (['aij', 'aj'], 'ai')
    """
    left, arrow, out = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    for term in (*terms, out):
        for character in term.replace("...", "", 1):
            if character not in _LETTERS:
                raise OptionError(
                    f"einsum: cannot read {subscripts!r}: {character!r} is no letter\n"
                    "  expected one letter per axis, such as 'ij,jk->ik', or '...' for axes that are carried along"
                )
    if len(terms) != len(ndims):
        raise OptionError(
            f"einsum: {subscripts!r} has {len(terms)} terms, separated by commas\n  given {len(ndims)} operands"
        )
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
    _check(subscripts, explicit, out)
    return explicit, out


def _check(subscripts: str, terms: Sequence[str], out: str) -> None:
    """Raise unless each letter of the output is one of the terms' and stands there once."""
    named = "".join(terms)
    for character in out:
        if character not in named:
            raise OptionError(f"einsum: the output of {subscripts!r} names {character!r}, which no operand has")
        if out.count(character) > 1:
            raise OptionError(
                f"einsum: the output of {subscripts!r} names {character!r} twice\n"
                "  each axis of the output has a letter of its own; np.diag(v) puts a vector on a diagonal"
            )


def lengths(terms: Sequence[str], operands: Sequence[Any]) -> dict[str, int]:
    """Length of the axis that each letter names; a length of 1 broadcasts.

    Raises:
        ShapeError: two different lengths under one letter.
    """
    found: dict[str, int] = {}
    for term, operand in zip(terms, operands, strict=True):
        own: dict[str, int] = {}
        for letter, length in zip(term, np.shape(operand), strict=True):
            # Within one operand a diagonal is read, which needs equal lengths: nothing is stretched there.
            before = own.get(letter, found.get(letter, 1))
            if before != length and (letter in own or 1 not in (before, length)):
                width = max(map(len, terms))
                raise ShapeError(
                    f"einsum: the axis {letter!r} has two lengths: {before} ≠ {length}\n"
                    + "\n".join(f"    {t:<{width}}  {np.shape(x)}" for t, x in zip(terms, operands, strict=True))
                    + "\n  is an operand transposed, or should these axes have two letters?"
                )
            own[letter] = length
        for letter, length in own.items():
            if found.get(letter, 1) == 1:
                found[letter] = length
    return found


# --- short for one ---------------------------------------------------------------------------------------------------


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum of products over pairs of axes; the other axes of `a`, then those of `b`, are left.

    Args:
        a, b: arrays.
        axes: how many of the last axes of `a` meet the first of `b`, or a pair (axes of a, axes of b).

    >>> tensordot(np.ones((2, 3)), np.ones((3, 4)), 1).shape
    (2, 4)
    """
    a_shape, b_shape = np.shape(a), np.shape(b)
    of_a, of_b = _meeting(len(a_shape), len(b_shape), axes)
    given = f"\n    a  {a_shape}\n    b  {b_shape}"
    if len(of_a) != len(of_b):
        raise ShapeError(f"tensordot: as many axes of a as of b must meet\n  given axes={axes}{given}")
    a_term = list(_LETTERS[: len(a_shape)])
    b_term = list(_LETTERS[len(a_shape) : len(a_shape) + len(b_shape)])
    for i, j in zip(of_a, of_b, strict=True):
        if a_shape[i] != b_shape[j]:
            raise ShapeError(
                f"tensordot: axis {i} of a meets axis {j} of b: {a_shape[i]} ≠ {b_shape[j]}{given}\n"
                "  name the axes that belong together, as in axes=([-1], [0])"
            )
        b_term[j] = a_term[i]
    kept = "".join([x for x in a_term if x not in b_term] + [x for x in b_term if x not in a_term])
    return sum_of_products(a, b, subscripts=f"{''.join(a_term)},{''.join(b_term)}->{kept}")


def _meeting(a_ndim: int, b_ndim: int, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of `a` and of `b` over which products are summed, counted from the front."""
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(a_ndim, b_ndim):
            raise AxisRangeError(f"tensordot: axes={axes} axes of each must meet\n  given {a_ndim} and {b_ndim} axes")
        return tuple(range(a_ndim - axes, a_ndim)), tuple(range(axes))
    try:
        return normalize_axis_tuple(axes[0], a_ndim), normalize_axis_tuple(axes[1], b_ndim)
    except AxisError as error:
        raise AxisRangeError(f"tensordot: {error}\n  given axes={axes} for {a_ndim} and {b_ndim} axes") from error


@implements(np.dot)
def dot(a: Any, b: Any) -> Any:
    """Product of vectors or matrices; in more dimensions, over the last axis of `a` and the last but one of `b`."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(a, b)
    return np.matmul(a, b) if np.ndim(b) <= 2 else tensordot(a, b, (-1, -2))


@implements(np.vdot)
def vdot(a: Any, b: Any) -> Any:
    """Sum of the products of all elements, those of `a` conjugated."""
    return np.dot(np.reshape(a, (-1,)).conj(), np.reshape(b, (-1,)))


@implements(np.inner)
def inner(a: Any, b: Any) -> Any:
    """Product over the last axis of both."""
    return np.multiply(a, b) if np.ndim(a) == 0 or np.ndim(b) == 0 else tensordot(a, b, (-1, -1))


@implements(np.linalg.outer)
def _linalg_outer(x1: Any, x2: Any) -> Any:
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ShapeError(
            f"outer: two vectors\n    x1  {np.shape(x1)}\n    x2  {np.shape(x2)}\n  np.outer takes any shape"
        )
    return outer(x1, x2)


@implements(np.outer)
def outer(a: Any, b: Any) -> Any:
    """Every element of `a` times every element of `b`: (n,), (m,) -> (n, m)."""
    return np.multiply(np.reshape(a, (-1, 1)), np.reshape(b, (1, -1)))
