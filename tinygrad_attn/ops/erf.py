"""The error function and its complement, in NumPy alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_attn.domain import reals
from tinygrad_attn.operation import op

# Cody's rational approximations, highest power first. Near zero: erf x = x P(x²)/Q(x²).
_NEAR_P = (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2,
           3.20937758913846947e3)  # fmt: skip
_NEAR_Q = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
# In between: erfc x = e^(−x²) P(x)/Q(x).
_MIDDLE_P = (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
             2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
             1.23033935479799725e3)  # fmt: skip
_MIDDLE_Q = (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
             3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3)  # fmt: skip
# Far out: erfc x = e^(−x²)/x (1/√π − z P(z)/Q(z)) with z = 1/x².
_FAR_P = (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
          1.60837851487422766e-2, 6.58749161529837803e-4)  # fmt: skip
_FAR_Q = (1.0, 2.56852019228982242e0, 1.87295284992346047e0, 5.27905102951428412e-1, 6.05183413124413191e-2,
          2.33520497626869185e-3)  # fmt: skip

_NEAR, _MIDDLE = 0.46875, 4.0  # where one approximation hands over to the next
_VANISHED = 28.0  # erfc underflows before this; larger arguments are brought down to it
_SLOPE = 2.0 / math.sqrt(math.pi)


@op(elementwise=True, domain=reals(low=-3.0, high=3.0))
def erf(x: Any) -> Any:
    """Probability that a normal variable with variance ½ lies within x of its mean, with the sign of x.

    y = 2/√π ∫₀ˣ e^(−t²) dt

    Accurate to 1e-15 relative to the value in float64; float32 is computed in float64 and rounded once.

    Source:
        Cody (1969), "Rational Chebyshev approximations for the error function", Mathematics of Computation 23.
    """
    return _evaluated(x, complement=False)


@erf.gradient("x", formula="dx = 2/√π e^(−x²) ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * _bell(x)


@op(elementwise=True, domain=reals(low=-3.0, high=3.0))
def erfc(x: Any) -> Any:
    """One minus `erf`, with all its digits also where `erf` rounds to 1.

    y = 1 − erf x
    """
    return _evaluated(x, complement=True)


@erfc.gradient("x", formula="dx = −2/√π e^(−x²) ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return -g * _bell(x)


def _bell(x: Any) -> Any:
    """2/√π e^(−x²); beyond `_VANISHED` it is 0, and the square could overflow."""
    near = np.clip(x, -_VANISHED, _VANISHED)
    return _SLOPE * np.exp(-near * near)


def _evaluated(x: Any, *, complement: bool) -> Any:
    """`erf` of x, or its complement; each element by the approximation that holds there."""
    given = np.asarray(x)
    values = np.atleast_1d(given.astype(np.float64))
    size = np.absolute(values)
    out = np.empty_like(values)

    near = size <= _NEAR
    inner = values[near]
    out[near] = inner * (_polynomial(_NEAR_P, inner * inner) / _polynomial(_NEAR_Q, inner * inner))
    if complement:
        out[near] = 1.0 - out[near]

    tails = ~near  # NaN goes this way, and stays NaN
    negative = values[tails] < 0
    tail = _tail(np.minimum(size[tails], _VANISHED))
    if complement:
        out[tails] = np.where(negative, 2.0 - tail, tail)
    else:
        out[tails] = np.where(negative, tail - 1.0, 1.0 - tail)
    kept = given.dtype if given.dtype.kind == "f" else np.float64
    return out.reshape(given.shape).astype(kept, copy=False)


def _tail(size: Any) -> Any:
    """`erfc` of arguments above the near ones."""
    ratio = np.empty_like(size)
    middle = size <= _MIDDLE
    inside, outside = size[middle], size[~middle]
    ratio[middle] = _polynomial(_MIDDLE_P, inside) / _polynomial(_MIDDLE_Q, inside)
    z = 1.0 / (outside * outside)
    rest = z * (_polynomial(_FAR_P, z) / _polynomial(_FAR_Q, z))
    ratio[~middle] = (1.0 / math.sqrt(math.pi) - rest) / outside
    # e^(−x²) in two factors: the square of a number rounded to sixteenths is exact, so large x lose no digits.
    rounded = np.trunc(size * 16.0) / 16.0
    return np.exp(-rounded * rounded) * np.exp(-(size - rounded) * (size + rounded)) * ratio


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    """Horner's rule, highest power first."""
    total = coefficients[0] * x
    for coefficient in coefficients[1:-1]:
        total += coefficient
        total *= x
    total += coefficients[-1]
    return total
