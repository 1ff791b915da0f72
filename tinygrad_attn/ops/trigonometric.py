"""Trigonometric and hyperbolic functions and their inverses; angles are in radians.

An inverse whose slope is infinite at the end of its range (arcsin at ±1, arccosh at 1, arctanh at ±1) has that infinite
slope here too; `detect_anomaly` names the element. Beyond the range the value is NaN, as NumPy gives it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_attn.domain import broadcasting, reals
from tinygrad_attn.explain import broadcast_clash
from tinygrad_attn.operation import op

# --- trigonometric -----------------------------------------------------------------------------------------------


@op(np.sin, elementwise=True, complex=True, domain=reals())
def sin(x: Any) -> Any:
    """Sine of an angle.

    y = sin x
    """
    return np.sin(x)


@sin.gradient("x", formula="dx = cos x ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * np.cos(x)


@op(np.cos, elementwise=True, complex=True, domain=reals())
def cos(x: Any) -> Any:
    """Cosine of an angle.

    y = cos x
    """
    return np.cos(x)


@cos.gradient("x", formula="dx = −sin x ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return -g * np.sin(x)


@op(np.tan, elementwise=True, complex=True, domain=reals(low=-1.3, high=1.3))
def tan(x: Any) -> Any:
    """Tangent of an angle.

    y = tan x
    """
    return np.tan(x)


@tan.gradient("x", formula="dx = (1 + y²) ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * (1.0 + out * out)


@op(np.arcsin, elementwise=True, complex=True, domain=reals(low=-0.9, high=0.9))
def arcsin(x: Any) -> Any:
    """Angle in [−π/2, π/2] whose sine is x; its slope at ±1 is infinite.

    y = arcsin x
    """
    return np.arcsin(x)


@arcsin.gradient("x", formula="dx = dy / √(1 − x²)")
def _(g: Any, out: Any, x: Any) -> Any:
    return g / np.sqrt((1.0 - x) * (1.0 + x))  # near ±1 the product keeps the digits that 1 − x² would lose


@op(np.arccos, elementwise=True, complex=True, domain=reals(low=-0.9, high=0.9))
def arccos(x: Any) -> Any:
    """Angle in [0, π] whose cosine is x; its slope at ±1 is infinite.

    y = arccos x
    """
    return np.arccos(x)


@arccos.gradient("x", formula="dx = −dy / √(1 − x²)")
def _(g: Any, out: Any, x: Any) -> Any:
    return -g / np.sqrt((1.0 - x) * (1.0 + x))


@op(np.arctan, elementwise=True, complex=True, domain=reals())
def arctan(x: Any) -> Any:
    """Angle in (−π/2, π/2) whose tangent is x.

    y = arctan x
    """
    return np.arctan(x)


@arctan.gradient("x", formula="dx = dy / (1 + x²)")
def _(g: Any, out: Any, x: Any) -> Any:
    length = _hypotenuse(x)
    return g / length / length


def _hypotenuse(x: Any) -> Any:
    """√(1 + x²); of real numbers without a square that could overflow."""
    return np.sqrt(1.0 + x * x) if np.iscomplexobj(x) else np.hypot(x, 1.0)


@op(np.deg2rad, np.radians, symbol="rad", elementwise=True, domain=reals(low=-180.0, high=180.0))
def deg2rad(x: Any) -> Any:
    """Degrees as radians.

    y = x π / 180
    """
    return np.deg2rad(x)


@deg2rad.gradient("x", formula="dx = dy π / 180")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * (math.pi / 180.0)


@op(np.rad2deg, np.degrees, symbol="°", elementwise=True, domain=reals())
def rad2deg(x: Any) -> Any:
    """Radians as degrees.

    y = x 180 / π
    """
    return np.rad2deg(x)


@rad2deg.gradient("x", formula="dx = dy 180 / π")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * (180.0 / math.pi)


@op(np.sinc, elementwise=True, floating=True, domain=reals())
def sinc(x: Any) -> Any:
    """Sine of πx divided by πx, 1 at 0.

    y = sin(πx) / πx
    """
    return np.sinc(x)


# Of the series (cos u − sin u / u) / u = Σ (−1)ᵏ 2k / (2k + 1)! u²ᵏ⁻¹, the highest power first.
_SINC_SLOPE = [(-1.0) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(9, 0, -1)]


@sinc.gradient("x", formula="dx = (cos πx − y) / x ∘ dy, and 0 where x = 0")
def _(g: Any, out: Any, x: Any) -> Any:
    u = math.pi * x
    is_near = np.less(np.absolute(u), 1.0)  # there cos u − y would lose its digits
    near, far = np.where(is_near, u, 0.0), np.where(is_near, 1.0, u)
    series: Any = _SINC_SLOPE[0]
    for coefficient in _SINC_SLOPE[1:]:
        series = series * near * near + coefficient
    return g * (math.pi * np.where(is_near, series * near, (np.cos(far) - out) / far))


# --- a point of the plane: its distance from the origin and its direction ----------------------------------------

_OFF_THE_AXES: dict[str, Any] = {"avoid": (0.0,)}


@op(np.hypot, elementwise=True, domain=broadcasting(_OFF_THE_AXES, _OFF_THE_AXES), clash=broadcast_clash)
def hypot(a: Any, b: Any) -> Any:
    """Length of the vector (a, b), without overflow in the squares; at the origin both slopes are taken as 0.

    y = √(a² + b²)
    """
    return np.hypot(a, b)


@hypot.gradient("a", formula="da = a / y ∘ dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g * (a / _never_zero(out))


@hypot.gradient("b", formula="db = b / y ∘ dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g * (b / _never_zero(out))


@op(np.arctan2, elementwise=True, domain=broadcasting(_OFF_THE_AXES, _OFF_THE_AXES), clash=broadcast_clash)
def arctan2(y: Any, x: Any) -> Any:
    """Direction of the point (x, y), in [−π, π]; at the origin, which lies in no direction, both slopes are taken as 0.

    θ = angle of (x, y)

    Args:
        y, x: floating, broadcast against each other; note NumPy's order.
    Returns:
        The angle from the positive x-axis. On the negative x-axis it jumps from −π to π; the slopes there are those of
        either side.
    """
    return np.arctan2(y, x)


@arctan2.gradient("y", formula="dy = x / (x² + y²) ∘ dθ")
def _(g: Any, out: Any, y: Any, x: Any) -> Any:
    r = _never_zero(np.hypot(y, x))
    return g * (x / r / r)


@arctan2.gradient("x", formula="dx = −y / (x² + y²) ∘ dθ")
def _(g: Any, out: Any, y: Any, x: Any) -> Any:
    r = _never_zero(np.hypot(y, x))
    return -g * (y / r / r)


def _never_zero(length: Any) -> Any:
    """`length`, or infinity in place of 0, so that dividing by it gives 0 at the origin, at every order."""
    return np.where(np.equal(length, 0), np.inf, length)


# --- hyperbolic --------------------------------------------------------------------------------------------------


@op(np.sinh, elementwise=True, complex=True, domain=reals())
def sinh(x: Any) -> Any:
    """Hyperbolic sine.

    y = (eˣ − e⁻ˣ) / 2
    """
    return np.sinh(x)


@sinh.gradient("x", formula="dx = cosh x ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * np.cosh(x)


@op(np.cosh, elementwise=True, complex=True, domain=reals())
def cosh(x: Any) -> Any:
    """Hyperbolic cosine.

    y = (eˣ + e⁻ˣ) / 2
    """
    return np.cosh(x)


@cosh.gradient("x", formula="dx = sinh x ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * np.sinh(x)


@op(np.tanh, elementwise=True, complex=True, domain=reals())
def tanh(x: Any) -> Any:
    """Hyperbolic tangent. Its slope is computed from y, which is cheap: it is 0 where y rounds to ±1.

    y = sinh x / cosh x
    """
    return np.tanh(x)


@tanh.gradient("x", formula="dx = (1 − y²) ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * (1.0 - out * out)


@op(np.arcsinh, elementwise=True, complex=True, domain=reals())
def arcsinh(x: Any) -> Any:
    """Number whose hyperbolic sine is x.

    y = ln(x + √(x² + 1))
    """
    return np.arcsinh(x)


@arcsinh.gradient("x", formula="dx = dy / √(x² + 1)")
def _(g: Any, out: Any, x: Any) -> Any:
    return g / _hypotenuse(x)


@op(np.arccosh, elementwise=True, complex=True, domain=reals(low=1.1, high=3.0))
def arccosh(x: Any) -> Any:
    """Number ≥ 0 whose hyperbolic cosine is x ≥ 1; its slope at 1 is infinite.

    y = ln(x + √(x² − 1))
    """
    return np.arccosh(x)


@arccosh.gradient("x", formula="dx = dy / (√(x − 1) √(x + 1))")
def _(g: Any, out: Any, x: Any) -> Any:
    return g / (np.sqrt(x - 1.0) * np.sqrt(x + 1.0))  # in factors: exact near 1, and no square to overflow


@op(np.arctanh, elementwise=True, complex=True, domain=reals(low=-0.9, high=0.9))
def arctanh(x: Any) -> Any:
    """Number whose hyperbolic tangent is x, −1 < x < 1; value and slope at ±1 are infinite.

    y = ½ ln((1 + x) / (1 − x))
    """
    return np.arctanh(x)


@arctanh.gradient("x", formula="dx = dy / (1 − x²)")
def _(g: Any, out: Any, x: Any) -> Any:
    return g / ((1.0 - x) * (1.0 + x))
