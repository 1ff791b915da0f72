"""Bessel functions: each slope is a difference of neighbours. Offered by `tinygrad_attn.scipy.special`.

The order v is a number, or an array of them, and has no gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as theirs

from tinygrad_attn.domain import Chooser, broadcastable, reals
from tinygrad_attn.operation import op

POSITIVE: dict[str, Any] = {"low": 0.4, "high": 4.0}


def _with_order(choose: Chooser) -> tuple[Any, ...]:
    x = choose.reals(choose.shape(), **POSITIVE)
    return choose.integers(broadcastable(choose, x.shape), 0, 3).astype(np.float64), x


@op(theirs.j0, symbol="J₀", elementwise=True, domain=reals())
def j0(x: Any) -> Any:
    """Bessel function of the first kind, order 0.

    y = J₀(x)
    """
    return theirs.j0(x)


@j0.gradient("x", formula="dx = −J₁(x) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return -g * j1(x)


@op(theirs.j1, symbol="J₁", elementwise=True, domain=reals())
def j1(x: Any) -> Any:
    """Bessel function of the first kind, order 1.

    y = J₁(x)
    """
    return theirs.j1(x)


@j1.gradient("x", formula="dx = ½ (J₀(x) − J₂(x)) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return g * 0.5 * (j0(x) - jv(2.0, x))


@op(theirs.jv, symbol="Jᵥ", elementwise=True, domain=_with_order)
def jv(v: Any, x: Any) -> Any:
    """Bessel function of the first kind, order v.

    y = Jᵥ(x)
    """
    return theirs.jv(v, x)


@jv.gradient("x", formula="dx = ½ (Jᵥ₋₁(x) − Jᵥ₊₁(x)) ∘ dy")
def _(g: Any, y: Any, v: Any, x: Any) -> Any:
    return g * 0.5 * (jv(v - 1.0, x) - jv(v + 1.0, x))


@op(theirs.y0, symbol="Y₀", elementwise=True, domain=reals(**POSITIVE))
def y0(x: Any) -> Any:
    """Bessel function of the second kind, order 0.

    y = Y₀(x), x > 0
    """
    return theirs.y0(x)


@y0.gradient("x", formula="dx = −Y₁(x) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return -g * y1(x)


@op(theirs.y1, symbol="Y₁", elementwise=True, domain=reals(**POSITIVE))
def y1(x: Any) -> Any:
    """Bessel function of the second kind, order 1.

    y = Y₁(x), x > 0
    """
    return theirs.y1(x)


@y1.gradient("x", formula="dx = ½ (Y₀(x) − Y₂(x)) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return g * 0.5 * (y0(x) - yn(2.0, x))


@op(theirs.yn, symbol="Yₙ", elementwise=True, domain=_with_order)
def yn(n: Any, x: Any) -> Any:
    """Bessel function of the second kind, whole order n.

    y = Yₙ(x), x > 0
    """
    return theirs.yn(n, x)


@yn.gradient("x", formula="dx = ½ (Yₙ₋₁(x) − Yₙ₊₁(x)) ∘ dy")
def _(g: Any, y: Any, n: Any, x: Any) -> Any:
    return g * 0.5 * (yn(n - 1.0, x) - yn(n + 1.0, x))


@op(theirs.i0, symbol="I₀", elementwise=True, domain=reals(avoid=(0.0,)))  # SciPy's I₂(2e-308), for the slopes, is NaN
def i0(x: Any) -> Any:
    """Modified Bessel function of the first kind, order 0.

    y = I₀(x)
    """
    return theirs.i0(x)


@i0.gradient("x", formula="dx = I₁(x) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return g * i1(x)


@op(theirs.i1, symbol="I₁", elementwise=True, domain=reals(avoid=(0.0,)))
def i1(x: Any) -> Any:
    """Modified Bessel function of the first kind, order 1.

    y = I₁(x)
    """
    return theirs.i1(x)


@i1.gradient("x", formula="dx = ½ (I₀(x) + I₂(x)) ∘ dy")
def _(g: Any, y: Any, x: Any) -> Any:
    return g * 0.5 * (i0(x) + iv(2.0, x))


@op(theirs.iv, symbol="Iᵥ", elementwise=True, domain=_with_order)
def iv(v: Any, x: Any) -> Any:
    """Modified Bessel function of the first kind, order v.

    y = Iᵥ(x)
    """
    return theirs.iv(v, x)


@iv.gradient("x", formula="dx = ½ (Iᵥ₋₁(x) + Iᵥ₊₁(x)) ∘ dy")
def _(g: Any, y: Any, v: Any, x: Any) -> Any:
    return g * 0.5 * (iv(v - 1.0, x) + iv(v + 1.0, x))


@op(theirs.ive, symbol="e⁻ˣIᵥ", elementwise=True, domain=_with_order)
def ive(v: Any, x: Any) -> Any:
    """Modified Bessel function of the first kind, scaled so that it does not overflow.

    y = e^(−|x|) Iᵥ(x)
    """
    return theirs.ive(v, x)


@ive.gradient("x", formula="dx = (½ (yᵥ₋₁ + yᵥ₊₁) − sign(x) y) ∘ dy")
def _(g: Any, y: Any, v: Any, x: Any) -> Any:
    return g * (0.5 * (ive(v - 1.0, x) + ive(v + 1.0, x)) - np.sign(x) * y)
