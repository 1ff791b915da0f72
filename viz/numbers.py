"""Numbers as text: significant digits, so that 0, 1e-9 and "not computed" never look alike."""

from __future__ import annotations

import math

__all__ = ["NOT_COMPUTED", "NO_GRADIENT", "share", "significant"]

NO_GRADIENT = "–"
NOT_COMPUTED = "∂?"
MINUS = "−"


def significant(value: float | int | bool | complex, digits: int = 3) -> str:
    """Writes a number with a few significant digits and no trailing zeros.

    Args:
        value: any scalar.
        digits: significant digits to keep.
    Returns:
        Text in which only an exact zero reads "0"; minus is the typographic −, and i the square root of −1.

    >>> [significant(v) for v in (0.0, 1e-9, -0.25, 3.0, 123456.0, float("nan"))]
    ['0', '1e−9', '−0.25', '3', '1.23e5', 'NaN']
    >>> significant(0.5 - 2j)
    '0.5 − 2i'
    """
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, complex):
        sign = MINUS if value.imag < 0 else "+"
        return f"{significant(value.real, digits)} {sign} {significant(abs(value.imag), digits)}i"
    if isinstance(value, int) and abs(value) < 10 ** (digits + 2):
        return str(value).replace("-", MINUS)
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else f"{MINUS}∞"
    if number == 0:
        return "0"
    exponent = math.floor(math.log10(abs(number)))
    if -4 <= exponent < digits + 2:
        rounded = round(number, digits - 1 - exponent)
        text = f"{rounded:.{max(0, digits - 1 - exponent)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        mantissa, _, power = f"{number:.{digits - 1}e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        text = f"{mantissa}e{int(power)}"
    return text.replace("-", MINUS)


def share(value: float) -> str:
    """Writes a share of one with two decimals, as a cell of a map has room for.

    Args:
        value: from 0 to 1.
    Returns:
        "0" and "1" for exactly these; "<.01" and ">.99" for what would round to them.

    >>> [share(v) for v in (0.0, 1e-9, 0.25, 0.999, 1.0)]
    ['0', '<.01', '.25', '>.99', '1']
    """
    if value <= 0:
        return "0"
    if value >= 1:
        return "1"
    if value < 0.005:
        return "<.01"
    if value >= 0.995:
        return ">.99"
    return f"{value:.2f}".removeprefix("0")
