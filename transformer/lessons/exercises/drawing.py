"""Inputs that a pencil can follow: small numbers, and logarithms of whole numbers, whose softmax is a fraction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

Arrays = st.SearchStrategy[tuple[Any, ...]]

SIDES = st.integers(1, 3)
SMALL = st.sampled_from([0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5])  # a half, to catch who rounds to whole numbers
LOGARITHMS = st.sampled_from([0.0, math.log(2.0), math.log(3.0), -math.log(2.0)])


def numbers(*shape: int) -> st.SearchStrategy[Any]:
    """An array of small numbers, float64."""
    return arrays_of.arrays(np.float64, shape, elements=SMALL)


def logarithms(*shape: int) -> st.SearchStrategy[Any]:
    """An array of ln 1, ln 2, ln 3 and ln ½, float64."""
    return arrays_of.arrays(np.float64, shape, elements=LOGARITHMS)


@st.composite
def shapes(draw: Any, *letters: str) -> tuple[tuple[int, ...], ...]:
    """Shapes whose letters stand for sides: `shapes("nd", "d")` gives (n, d) and (d,)."""
    sides = {letter: draw(SIDES) for letter in dict.fromkeys("".join(letters))}
    return tuple(tuple(sides[letter] for letter in word) for word in letters)


def matrices(*letters: str) -> Arrays:
    """Arrays of small numbers whose sides fit together, as in `matrices("nk", "km")`."""
    return shapes(*letters).flatmap(lambda found: st.tuples(*(numbers(*shape) for shape in found)))


def scores() -> Arrays:
    """Rows of scores, (rows, n)."""
    return shapes("nd").flatmap(lambda found: st.tuples(logarithms(*found[0])))


def masked_scores() -> Arrays:
    """Rows of scores and a mask, True = may attend; a row may be masked throughout."""
    return shapes("nd").flatmap(
        lambda found: st.tuples(logarithms(*found[0]), arrays_of.arrays(np.bool_, found[0], elements=st.booleans()))
    )


def numbered(choices: str, places: str) -> Arrays:
    """A matrix of small numbers and row numbers into it, or into its columns: `numbered("rows", "td")`."""

    def draw(found: tuple[tuple[int, ...], ...]) -> Arrays:
        (rows, columns), (count,) = found
        limit, shape = (rows, (count,)) if choices == "rows" else (columns, (rows,))
        indices = arrays_of.arrays(np.int64, shape, elements=st.integers(0, limit - 1))
        return st.tuples((numbers if choices == "rows" else logarithms)(rows, columns), indices)

    return shapes(places, "c").flatmap(draw)
