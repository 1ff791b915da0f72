"""Whole parts, signs and exponents split off: where they do not jump they are constants, and the rest has a slope."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser
from tinygrad_attn.errors import OptionError
from tinygrad_attn.operation import op
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import as_array, plain


@implements(np.fabs)
def fabs(x: Any) -> Any:
    """Absolute value of floating numbers; whole ones are converted."""
    return np.absolute(x.astype(np.float64) if x.dtype.kind in "iub" else x)


@implements(np.copysign)
def copysign(a: Any, b: Any) -> Any:
    """`a` with the sign of `b`; the slope by `a` at 0 is taken as 0, as that of |a|.

    y = |a| sign(b)
    """
    a, b = as_array(a), plain(as_array(b))
    return np.absolute(a) * np.copysign(np.ones((), np.result_type(plain(a), b)), b)


@implements(np.heaviside)
def heaviside(x: Any, h0: Any) -> Any:
    """0 below 0, 1 above, and `h0` at 0 itself; only `h0` has a gradient.

    y = h0 where x = 0, else 1 where x > 0
    """
    return np.where(np.equal(plain(x), 0), h0, np.heaviside(plain(x), plain(h0)))


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """NaN and the infinities replaced by numbers; what was replaced gets the gradient 0.

    y = x where x is finite

    Raises:
        OptionError: `copy=False`, which would write into x.
    """
    if not copy:
        raise OptionError("nan_to_num: copy=False would write into x\n  leave it out")
    return np.where(np.isfinite(plain(x)), x, np.nan_to_num(plain(x), nan=nan, posinf=posinf, neginf=neginf))


@implements(np.divmod)
def divmod(a: Any, b: Any) -> tuple[Any, Any]:
    """Whole steps of `b` in `a`, as plain values, and what is left."""
    return np.floor_divide(plain(a), plain(b)), np.remainder(a, b)


@implements(np.modf)
def modf(x: Any) -> tuple[Any, Any]:
    """What stands behind the point, with the sign of x, and the whole part, as plain values."""
    whole = np.trunc(plain(x))
    return np.where(np.isinf(whole), np.copysign(0.0, whole), x - np.where(np.isinf(whole), 0.0, whole)), whole


@implements(np.frexp)
def frexp(x: Any) -> tuple[Any, Any]:
    """The mantissa, at least ½ and below 1 in size, and the exponent of 2, as plain whole numbers.

    x = mantissa · 2ᵉ
    """
    exponent = np.frexp(plain(x))[1]
    return ldexp(x, -exponent), exponent


def _scaled_by_powers(choose: Chooser) -> tuple[Any, ...]:
    shape = choose.shape()
    return choose.reals(shape), choose.integers(shape, -3, 3)


@op(np.ldexp, elementwise=True, domain=_scaled_by_powers)
def ldexp(x: Any, exponent: Any) -> Any:
    """`x` times a power of two, exactly.

    y = x 2ᵉ, with whole numbers e
    """
    return np.ldexp(x, exponent)


@ldexp.gradient("x", formula="dx = 2ᵉ dy")
def _(g: Any, out: Any, x: Any, exponent: Any) -> Any:
    return np.ldexp(g, plain(exponent))


@implements(np.unwrap)
def unwrap(p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi) -> Any:
    """Angles moved by whole turns, so that neighbours along `axis` are less than half a turn apart.

    y = p + turns, which are constants
    """
    return p + (np.unwrap(plain(p), discont, axis, period=period) - plain(p))
