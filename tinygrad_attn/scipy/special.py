"""scipy.special: error functions, logits and sums of exponentials here, gamma and Bessel functions beside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as theirs

from tinygrad_attn import ops
from tinygrad_attn.domain import broadcasting, reals
from tinygrad_attn.operation import op
from tinygrad_attn.ops import erf, erfc
from tinygrad_attn.ops import sigmoid as expit
from tinygrad_attn.registry import implements
from tinygrad_attn.scipy.bessel import i0, i1, iv, ive, j0, j1, jv, y0, y1, yn
from tinygrad_attn.scipy.gamma import (
    beta,
    betainc,
    betaln,
    gamma,
    gammainc,
    gammaincc,
    gammaln,
    gammasgn,
    multigammaln,
    polygamma,
    psi,
    rgamma,
)
from tinygrad_attn.tensor import plain

digamma = psi
implements(theirs.erf)(erf)
implements(theirs.erfc)(erfc)
implements(theirs.expit)(expit)
implements(theirs.log_expit)(ops.log_sigmoid)

__all__ = [
    "beta",
    "betainc",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "expit",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "i0",
    "i1",
    "iv",
    "ive",
    "j0",
    "j1",
    "jv",
    "log_ndtr",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "rgamma",
    "xlogy",
    "y0",
    "y1",
    "yn",
]

_HALF_ROOT_PI = 0.5 * math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)


@op(theirs.erfinv, symbol="erf⁻¹", elementwise=True, domain=reals(low=-0.9, high=0.9))
def erfinv(x: Any) -> Any:
    """What `erf` gives x for; ±∞ at ±1, where the slope is infinite.

    y = erf⁻¹(x)
    """
    return theirs.erfinv(x)


@erfinv.gradient("x", formula="dx = ½ √π e^(y²) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return g * _HALF_ROOT_PI * np.exp(y * y)


@op(theirs.erfcinv, symbol="erfc⁻¹", elementwise=True, domain=reals(low=0.1, high=1.9))
def erfcinv(x: Any) -> Any:
    """What `erfc` gives x for; ±∞ at 0 and 2, where the slope is infinite.

    y = erfc⁻¹(x)
    """
    return theirs.erfcinv(x)


@erfcinv.gradient("x", formula="dx = −½ √π e^(y²) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return -g * _HALF_ROOT_PI * np.exp(y * y)


@op(theirs.ndtr, symbol="Φ", elementwise=True, domain=reals())
def ndtr(x: Any) -> Any:
    """Probability that a standard normal variable lies below x.

    y = Φ(x)
    """
    return theirs.ndtr(x)


@ndtr.gradient("x", formula="dx = e^(−x²/2) / √2π ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return g * np.exp(-0.5 * x * x) / _ROOT_TWO_PI


@op(theirs.log_ndtr, symbol="ln Φ", elementwise=True, domain=reals())
def log_ndtr(x: Any) -> Any:
    """Logarithm of Φ(x), with all its digits where Φ rounds to 0.

    y = ln Φ(x)
    """
    return theirs.log_ndtr(x)


@log_ndtr.gradient("x", formula="dx = e^(−x²/2 − y) / √2π ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return g * np.exp(-0.5 * x * x - y) / _ROOT_TWO_PI


@op(theirs.ndtri, symbol="Φ⁻¹", elementwise=True, domain=reals(low=0.05, high=0.95))
def ndtri(p: Any) -> Any:
    """Below what a standard normal variable lies with probability p.

    y = Φ⁻¹(p)
    """
    return theirs.ndtri(p)


@ndtri.gradient("p", formula="dp = √2π e^(y²/2) ∘ dy")
def _(g: Any, y: Any, p: Any) -> Any:
    return g * _ROOT_TWO_PI * np.exp(0.5 * y * y)


@op(theirs.logit, elementwise=True, domain=reals(low=0.05, high=0.95))
def logit(p: Any) -> Any:
    """Logarithm of the odds; ±∞ at 1 and 0.

    y = ln(p / (1 − p))
    """
    return theirs.logit(p)


@logit.gradient("p", formula="dp = dy / (p (1 − p))")
def _(g: Any, y: Any, p: Any) -> Any:
    return g / (p * (1.0 - p))


@op(
    theirs.xlogy,
    symbol="x ln y",
    elementwise=True,
    domain=broadcasting({"low": 0.1}, {"low": 0.2}),
)
def xlogy(x: Any, y: Any) -> Any:
    """x ln y, and 0 where x is 0, whatever y is; there the slope by y is 0 too.

    z = x ln y
    """
    return theirs.xlogy(x, y)


@xlogy.gradient("x", formula="dx = ln y ∘ dz")
def _(g: Any, z: Any, x: Any, y: Any) -> Any:
    return g * np.log(y)


@xlogy.gradient("y", formula="dy = x / y ∘ dz, and 0 where x = 0")
def _(g: Any, z: Any, x: Any, y: Any) -> Any:
    nothing = np.equal(x, 0)
    return np.where(nothing, 0.0, g * x / np.where(nothing, 1.0, y))


@op(theirs.entr, elementwise=True, domain=reals(low=0.1))
def entr(x: Any) -> Any:
    """What a probability adds to the entropy of its distribution; 0 at 0, where the slope is infinite.

    y = −x ln x
    """
    return theirs.entr(x)


@entr.gradient("x", formula="dx = −(ln x + 1) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return -g * (np.log(x) + 1.0)


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False) -> Any:
    """Logarithm of a sum of exponentials, as `tinygrad_attn.logsumexp`, each of them times a factor.

    y = ln Σ b eᵃ

    Args:
        a: floating, any shape.
        axis: one axis, several, or None for all.
        b: factors, broadcast to a; they may be 0, or negative as long as the sum is not.
        keepdims: keep the axes, with length 1.
    """
    if b is None:
        return ops.logsumexp(a, axis=axis, keepdims=keepdims)
    largest = np.max(plain(a), axis=axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)  # the sum does not depend on it, so it needs no gradient
    total = np.log(np.sum(b * np.exp(a - largest), axis=axis, keepdims=keepdims))
    return total + (largest if keepdims else np.squeeze(largest, axis=axis))
