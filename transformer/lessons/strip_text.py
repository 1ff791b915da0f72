"""Numbers of the strip as one would write them on paper."""

from __future__ import annotations

import math
from fractions import Fraction

from transformer.lessons.attention_head import pencil
from viz.numbers import significant


def written(value: float) -> str:
    """A number as one would write it on paper: also logarithms of small whole numbers, and fractions that fit a cell.

    >>> [written(x) for x in (2 * math.log(3), math.log(10), 2 / 7, -math.log(2), math.nan, 0.31416, 9 / 2)]
    ['2 ln 3', 'ln 10', '2/7', '−ln 2', 'NaN', '0.31', '9/2']
    """
    if math.isnan(value):
        return "NaN"
    sign, size = ("−" if value < 0 else ""), abs(float(value))
    simple = pencil(value)
    if math.isinf(size) or size < 1e-12 or "." not in simple:
        return "0" if size < 1e-12 else simple
    fraction = Fraction(size).limit_denominator(99)
    if abs(float(fraction) - size) < 1e-12:
        return f"{sign}{fraction}"
    if size < 5.0:
        number = round(math.exp(size))
        if abs(math.log(number) - size) < 1e-12:
            root = math.isqrt(number)
            return f"{sign}2 ln {root}" if root * root == number else f"{sign}ln {number}"
    return f"{sign}{size:.2f}" if size >= 0.1 else f"{sign}{significant(size, 2)}"
