"""The gamma function and its relatives. Offered by `tinygrad_attn.scipy.special`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as theirs

from tinygrad_attn.domain import Chooser, broadcastable, broadcasting, reals
from tinygrad_attn.operation import op
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import plain

POSITIVE: dict[str, Any] = {"low": 0.3, "high": 4.0}


@op(theirs.gamma, symbol="Γ", elementwise=True, domain=reals(**POSITIVE))
def gamma(x: Any) -> Any:
    """The factorial between the whole numbers.

    y = Γ(x) = (x − 1)!
    """
    return theirs.gamma(x)


@gamma.gradient("x", formula="dx = y ψ(x) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return g * y * psi(x)


@op(theirs.gammaln, symbol="ln Γ", elementwise=True, domain=reals(**POSITIVE))
def gammaln(x: Any) -> Any:
    """Logarithm of |Γ(x)|, without overflow.

    y = ln |Γ(x)|
    """
    return theirs.gammaln(x)


@gammaln.gradient("x", formula="dx = ψ(x) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return g * psi(x)


@op(theirs.rgamma, symbol="1/Γ", elementwise=True, domain=reals(**POSITIVE))
def rgamma(x: Any) -> Any:
    """One divided by Γ(x). At 0, −1, −2, … y is 0 and the rule, where ψ has its poles, gives NaN.

    y = 1 / Γ(x)
    """
    return theirs.rgamma(x)


@rgamma.gradient("x", formula="dx = −y ψ(x) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return -g * y * psi(x)


@op(theirs.psi, symbol="ψ", elementwise=True, domain=reals(**POSITIVE))
def psi(x: Any) -> Any:
    """Slope of ln Γ; also called digamma.

    y = ψ(x) = Γ′(x) / Γ(x)
    """
    return theirs.psi(x)


@psi.gradient("x", formula="dx = ψ′(x) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return g * polygamma(1, x)


def _orders(choose: Chooser) -> tuple[Any, ...]:
    x = choose.reals(choose.shape(), **POSITIVE)
    return choose.integers(broadcastable(choose, x.shape), 0, 2), x


@op(symbol="ψ⁽ⁿ⁾", elementwise=True, domain=_orders)
def polygamma(n: Any, x: Any) -> Any:
    """The n-th derivative of ψ.

    y = ψ⁽ⁿ⁾(x)

    Args:
        n: whole numbers ≥ 0, broadcast to x; they have no gradient.
        x: floating.
    """
    return np.asarray(theirs.polygamma(n, x)).astype(np.asarray(x).dtype)


@polygamma.gradient("x", formula="dx = ψ⁽ⁿ⁺¹⁾(x) ∘ dy")
def _(g: Any, y: Any, n: Any, x: Any) -> Any:
    return g * polygamma(n + 1, x)


@op(theirs.beta, symbol="B", elementwise=True, domain=broadcasting(POSITIVE, POSITIVE))
def beta(a: Any, b: Any) -> Any:
    """The number that the density of a beta distribution divides by.

    y = Γ(a) Γ(b) / Γ(a + b)
    """
    return theirs.beta(a, b)


@beta.gradient("a", formula="da = y (ψ(a) − ψ(a + b)) ∘ dy")
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    return g * y * (psi(a) - psi(a + b))


@beta.gradient("b", formula="db = y (ψ(b) − ψ(a + b)) ∘ dy")
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    return g * y * (psi(b) - psi(a + b))


@op(theirs.betaln, symbol="ln B", elementwise=True, domain=broadcasting(POSITIVE, POSITIVE))
def betaln(a: Any, b: Any) -> Any:
    """Logarithm of |B(a, b)|.

    y = ln Γ(a) + ln Γ(b) − ln Γ(a + b)
    """
    return theirs.betaln(a, b)


@betaln.gradient("a", formula="da = (ψ(a) − ψ(a + b)) ∘ dy")
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    return g * (psi(a) - psi(a + b))


@betaln.gradient("b", formula="db = (ψ(b) − ψ(a + b)) ∘ dy")
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    return g * (psi(b) - psi(a + b))


INSIDE: dict[str, Any] = {"low": 0.1, "high": 0.9}


@op(theirs.betainc, elementwise=True, domain=broadcasting(POSITIVE, POSITIVE, INSIDE))
def betainc(a: Any, b: Any, x: Any) -> Any:
    """The part of B(a, b) that lies below x. Only x has a gradient: by a and b there is no closed form.

    y = ∫₀ˣ tᵃ⁻¹ (1 − t)ᵇ⁻¹ dt / B(a, b)
    """
    return theirs.betainc(a, b, x)


@betainc.gradient("x", formula="dx = xᵃ⁻¹ (1 − x)ᵇ⁻¹ / B(a, b) ∘ dy")
def _(g: Any, y: Any, a: Any, b: Any, x: Any) -> Any:
    return g * np.exp((a - 1.0) * np.log(x) + (b - 1.0) * np.log1p(-x) - betaln(a, b))


@op(theirs.gammainc, elementwise=True, domain=broadcasting(POSITIVE, POSITIVE))
def gammainc(a: Any, x: Any) -> Any:
    """The part of Γ(a) that lies below x. Only x has a gradient: by a there is no closed form.

    y = ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt / Γ(a)
    """
    return theirs.gammainc(a, x)


@gammainc.gradient("x", formula="dx = xᵃ⁻¹ e⁻ˣ / Γ(a) ∘ dy")
def _(g: Any, y: Any, a: Any, x: Any) -> Any:
    return g * np.exp((a - 1.0) * np.log(x) - x - gammaln(a))


@op(theirs.gammaincc, elementwise=True, domain=broadcasting(POSITIVE, POSITIVE))
def gammaincc(a: Any, x: Any) -> Any:
    """The part of Γ(a) that lies above x: 1 − gammainc(a, x), with all its digits. Only x has a gradient.

    y = ∫ₓ^∞ tᵃ⁻¹ e⁻ᵗ dt / Γ(a)
    """
    return theirs.gammaincc(a, x)


@gammaincc.gradient("x", formula="dx = −xᵃ⁻¹ e⁻ˣ / Γ(a) ∘ dy")
def _(g: Any, y: Any, a: Any, x: Any) -> Any:
    return -g * np.exp((a - 1.0) * np.log(x) - x - gammaln(a))


def multigammaln(a: Any, d: int) -> Any:
    """Logarithm of the gamma function of d variables, which the Wishart distribution divides by.

    y = d (d − 1)/4 ln π + Σⱼ ln Γ(a − j/2), j = 0 … d − 1
    """
    return d * (d - 1) / 4.0 * math.log(math.pi) + sum(gammaln(a - j / 2.0) for j in range(d))


@implements(theirs.gammasgn)
def gammasgn(x: Any) -> Any:
    """The sign of Γ(x), plain values: its slope is 0 wherever it has one."""
    return theirs.gammasgn(plain(x))
