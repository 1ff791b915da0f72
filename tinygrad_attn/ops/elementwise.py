"""Arithmetic, exponentials, logarithms and roots, element by element.

Where a slope is infinite (the roots and logarithms at 0) it is infinite here too; `detect_anomaly` names the element.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_attn.domain import broadcasting, reals
from tinygrad_attn.errors import DtypeError
from tinygrad_attn.explain import broadcast_clash
from tinygrad_attn.operation import op
from tinygrad_attn.ops.activation import sigmoid
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import as_array, plain

ANY: dict[str, Any] = {}
POSITIVE: dict[str, Any] = {"low": 0.2, "high": 3.0}
NOT_ZERO: dict[str, Any] = {"low": -3.0, "high": 3.0, "avoid": (0.0,)}


# --- arithmetic --------------------------------------------------------------------------------------------------


@op(np.add, symbol="+", elementwise=True, complex=True, domain=broadcasting(ANY, ANY), clash=broadcast_clash)
def add(a: Any, b: Any) -> Any:
    """Sum of two arrays.

    y = a + b
    """
    return np.add(a, b)


@add.gradient("a", formula="da = dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g


@add.gradient("b", formula="db = dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g


@op(np.subtract, symbol="−", elementwise=True, complex=True, domain=broadcasting(ANY, ANY), clash=broadcast_clash)
def subtract(a: Any, b: Any) -> Any:
    """Difference of two arrays.

    y = a − b
    """
    return np.subtract(a, b)


@subtract.gradient("a", formula="da = dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g


@subtract.gradient("b", formula="db = −dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return -g


@op(np.multiply, symbol="×", elementwise=True, complex=True, domain=broadcasting(ANY, ANY), clash=broadcast_clash)
def multiply(a: Any, b: Any) -> Any:
    """Product of two arrays, element by element.

    y = a ∘ b
    """
    return np.multiply(a, b)


@multiply.gradient("a", formula="da = dy ∘ b")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g * b


@multiply.gradient("b", formula="db = dy ∘ a")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g * a


@op(np.divide, symbol="÷", elementwise=True, complex=True, domain=broadcasting(ANY, NOT_ZERO), clash=broadcast_clash)
def divide(a: Any, b: Any) -> Any:
    """Quotient of two arrays.

    y = a / b
    """
    return np.divide(a, b)


@divide.gradient("a", formula="da = dy / b")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g / b


@divide.gradient("b", formula="db = −dy ∘ y / b")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return -g * out / b


@op(
    np.power,
    symbol="pow",
    elementwise=True,
    complex=True,
    domain=broadcasting(POSITIVE, NOT_ZERO),
    clash=broadcast_clash,
)
def power(a: Any, b: Any) -> Any:
    """Base `a` raised to `b`.

    y = aᵇ. At a = 0 the derivative by the base is 0 for b = 0, and the one by the exponent is 0 for b ≥ 0; no
    logarithm of the base is taken unless the exponent requires a gradient.
    """
    kinds = np.result_type(a, b).kind
    if kinds in "iu" and np.any(np.less(b, 0)):
        raise DtypeError(
            "power: whole numbers have no whole power to a negative exponent\n  write 2.0 for 2, or use astype"
        )
    return np.power(a, b)


@power.gradient("a", formula="da = dy ∘ b aᵇ⁻¹")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    if isinstance(b, (int, float)):
        return g * b * np.power(a, b - 1) if b != 0 else np.zeros_like(g)
    base = np.where(np.logical_and(np.equal(a, 0), np.equal(b, 0)), 1.0, a)
    return g * b * np.power(base, b - 1.0)


@power.gradient("b", formula="db = dy ∘ y ln a")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    base = np.where(np.logical_and(np.equal(a, 0), np.greater_equal(np.real(b), 0)), np.ones_like(out), a)
    return g * out * np.log(base)  # of the result's dtype: a negative base of a complex power has a logarithm


@implements(np.float_power)
def float_power(a: Any, b: Any) -> Any:
    """Base `a` raised to `b`, computed in float64 at least, as NumPy does it."""
    a, b = as_array(a), as_array(b)
    kind = np.result_type(plain(a), plain(b), np.float64)
    a, b = (x.astype(kind) if hasattr(x, "astype") else np.asarray(x, kind) for x in (a, b))
    return np.power(a, b)


@op(np.negative, symbol="−", elementwise=True, complex=True, domain=reals())
def negative(x: Any) -> Any:
    """Every sign turned.

    y = −x
    """
    return np.negative(x)


@negative.gradient("x", formula="dx = −dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return -g


@op(np.positive, symbol="+", elementwise=True, complex=True, domain=reals())
def positive(x: Any) -> Any:
    """The same values.

    y = x
    """
    return np.positive(x)


@positive.gradient("x", formula="dx = dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g


@op(np.square, symbol="x²", elementwise=True, complex=True, domain=reals())
def square(x: Any) -> Any:
    """Every element times itself.

    y = x²
    """
    return np.square(x)


@square.gradient("x", formula="dx = 2x ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * 2.0 * x


@op(np.reciprocal, symbol="1/x", elementwise=True, complex=True, domain=reals(low=-3.0, high=3.0, avoid=(0.0,)))
def reciprocal(x: Any) -> Any:
    """One over every element.

    y = 1 / x
    """
    return np.reciprocal(x)


@reciprocal.gradient("x", formula="dx = −y² ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return -g * out * out


# --- exponentials and roots --------------------------------------------------------------------------------------


@op(np.exp, elementwise=True, complex=True, domain=reals())
def exp(x: Any) -> Any:
    """Exponential.

    y = eˣ
    """
    return np.exp(x)


@exp.gradient("x", formula="dx = y ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * out


@op(np.log, symbol="ln", elementwise=True, complex=True, domain=reals(**POSITIVE))
def log(x: Any) -> Any:
    """Natural logarithm.

    y = ln x
    """
    return np.log(x)


@log.gradient("x", formula="dx = dy / x")
def _(g: Any, out: Any, x: Any) -> Any:
    return g / x


@op(np.exp2, symbol="2ˣ", elementwise=True, complex=True, domain=reals())
def exp2(x: Any) -> Any:
    """Two raised to x.

    y = 2ˣ
    """
    return np.exp2(x)


@exp2.gradient("x", formula="dx = y ln 2 ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * out * math.log(2.0)


@op(np.log2, symbol="log₂", elementwise=True, complex=True, domain=reals(**POSITIVE))
def log2(x: Any) -> Any:
    """Logarithm to base 2.

    y = log₂ x
    """
    return np.log2(x)


@log2.gradient("x", formula="dx = dy / (x ln 2)")
def _(g: Any, out: Any, x: Any) -> Any:
    return g / (x * math.log(2.0))


@op(np.log10, symbol="log₁₀", elementwise=True, complex=True, domain=reals(**POSITIVE))
def log10(x: Any) -> Any:
    """Logarithm to base 10.

    y = log₁₀ x
    """
    return np.log10(x)


@log10.gradient("x", formula="dx = dy / (x ln 10)")
def _(g: Any, out: Any, x: Any) -> Any:
    return g / (x * math.log(10.0))


@op(np.expm1, elementwise=True, complex=True, domain=reals())
def expm1(x: Any) -> Any:
    """Exponential minus one, exact near zero.

    y = eˣ − 1
    """
    return np.expm1(x)


@expm1.gradient("x", formula="dx = eˣ ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * np.exp(x)  # y + 1 would have lost its digits where y rounds to −1


@op(np.log1p, elementwise=True, complex=True, domain=reals(low=-0.7, high=3.0))
def log1p(x: Any) -> Any:
    """Logarithm of one plus x, exact near zero.

    y = ln(1 + x)
    """
    return np.log1p(x)


@log1p.gradient("x", formula="dx = dy / (1 + x)")
def _(g: Any, out: Any, x: Any) -> Any:
    return g / (1.0 + x)


@op(np.logaddexp, elementwise=True, domain=broadcasting(ANY, ANY), clash=broadcast_clash)
def logaddexp(a: Any, b: Any) -> Any:
    """Logarithm of the sum of two exponentials, without overflow.

    y = ln(eᵃ + eᵇ). Of −∞ and −∞ the result is −∞ and both gradients are 0.
    """
    return np.logaddexp(a, b)


@logaddexp.gradient("a", formula="da = σ(a − b) ∘ dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g * sigmoid(a - np.where(np.equal(out, -np.inf), np.inf, b))


@logaddexp.gradient("b", formula="db = σ(b − a) ∘ dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g * sigmoid(b - np.where(np.equal(out, -np.inf), np.inf, a))


@op(np.logaddexp2, elementwise=True, domain=broadcasting(ANY, ANY), clash=broadcast_clash)
def logaddexp2(a: Any, b: Any) -> Any:
    """Logarithm to base 2 of the sum of two powers of 2, without overflow.

    y = log₂(2ᵃ + 2ᵇ). Of −∞ and −∞ the result is −∞ and both gradients are 0.
    """
    return np.logaddexp2(a, b)


@logaddexp2.gradient("a", formula="da = σ((a − b) ln 2) ∘ dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g * sigmoid((a - np.where(np.equal(out, -np.inf), np.inf, b)) * math.log(2.0))


@logaddexp2.gradient("b", formula="db = σ((b − a) ln 2) ∘ dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g * sigmoid((b - np.where(np.equal(out, -np.inf), np.inf, a)) * math.log(2.0))


@op(np.sqrt, symbol="√", elementwise=True, complex=True, domain=reals(**POSITIVE))
def sqrt(x: Any) -> Any:
    """Square root; its slope at 0 is infinite, which `detect_anomaly` reports.

    y = √x
    """
    return np.sqrt(x)


@sqrt.gradient("x", formula="dx = dy / 2y")
def _(g: Any, out: Any, x: Any) -> Any:
    return g / (2.0 * out)


@op(np.cbrt, symbol="∛", elementwise=True, domain=reals(low=-3.0, high=3.0, avoid=(0.0,)))
def cbrt(x: Any) -> Any:
    """Cube root, of negative numbers too; its slope at 0 is infinite, which `detect_anomaly` reports.

    y = ∛x
    """
    return np.cbrt(x)


@cbrt.gradient("x", formula="dx = dy / 3y²")
def _(g: Any, out: Any, x: Any) -> Any:
    return g / (3.0 * out * out)
