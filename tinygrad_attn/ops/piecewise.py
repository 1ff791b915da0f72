"""Elementwise functions with a kink or a choice: abs, maximum, clip, remainder, where, masked_fill.

At a kink each makes one stated choice of slope.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser, broadcastable, reals
from tinygrad_attn.errors import MaskError
from tinygrad_attn.explain import broadcast_clash
from tinygrad_attn.operation import op
from tinygrad_attn.ops.choose import keep_where


@op(np.absolute, symbol="|x|", elementwise=True, complex=True, domain=reals(avoid=(0.0,)))
def absolute(x: Any) -> Any:
    """Absolute value; the slope at 0 is taken as 0.

    y = |x|. For complex x, sign(x) = x / |x| is its direction.
    """
    return np.absolute(x)


@absolute.gradient("x", formula="dx = conj(sign(x)) ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * np.sign(x).conj()


def _apart(choose: Chooser) -> tuple[Any, ...]:
    """Two broadcastable arrays that are nowhere equal."""
    full = choose.shape()
    a = choose.reals(broadcastable(choose, full))
    difference = choose.reals(full, avoid=(0.0,))
    return a, a + difference


@op(np.maximum, symbol="max", elementwise=True, domain=_apart, clash=broadcast_clash)
def maximum(a: Any, b: Any) -> Any:
    """The larger of two, element by element; equal ones get half the gradient each.

    y = max(a, b)
    """
    return np.maximum(a, b)


def _larger_gets_it(mine: Any, other: Any, g: Any) -> Any:
    """The gradient where `mine` is the larger one, half of it where both are equal, else 0."""
    return keep_where(np.greater(mine, other), g) + keep_where(np.equal(mine, other), 0.5 * g)


@maximum.gradient("a", formula="da = dy where a > b, dy/2 where a = b")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return _larger_gets_it(a, b, g)


@maximum.gradient("b", formula="db = dy where b > a, dy/2 where a = b")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return _larger_gets_it(b, a, g)


@op(np.minimum, symbol="min", elementwise=True, domain=_apart, clash=broadcast_clash)
def minimum(a: Any, b: Any) -> Any:
    """The smaller of two, element by element; equal ones get half the gradient each.

    y = min(a, b)
    """
    return np.minimum(a, b)


@minimum.gradient("a", formula="da = dy where a < b, dy/2 where a = b")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return _larger_gets_it(b, a, g)


@minimum.gradient("b", formula="db = dy where b < a, dy/2 where a = b")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return _larger_gets_it(a, b, g)


@op(np.fmax, symbol="max", elementwise=True, domain=_apart, clash=broadcast_clash)
def fmax(a: Any, b: Any) -> Any:
    """The larger of two, element by element; of a number and NaN, the number. Equal ones get half the gradient each.

    y = max(a, b)
    """
    return np.fmax(a, b)


@op(np.fmin, symbol="min", elementwise=True, domain=_apart, clash=broadcast_clash)
def fmin(a: Any, b: Any) -> Any:
    """The smaller of two, element by element; of a number and NaN, the number. Equal ones get half the gradient each.

    y = min(a, b)
    """
    return np.fmin(a, b)


@fmax.gradient("a", formula="da = dy where y = a, dy/2 where a = b")
@fmin.gradient("a", formula="da = dy where y = a, dy/2 where a = b")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return keep_where(np.equal(a, b), 0.5 * g) + keep_where(np.equal(out, a) & np.not_equal(a, b), g)


@fmax.gradient("b", formula="db = dy where y = b, dy/2 where a = b")
@fmin.gradient("b", formula="db = dy where y = b, dy/2 where a = b")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return keep_where(np.equal(a, b), 0.5 * g) + keep_where(np.equal(out, b) & np.not_equal(a, b), g)


@op(
    np.clip,
    elementwise=True,
    domain=lambda choose: (choose.reals(choose.shape(), -2.0, 2.0, avoid=(-1.0, 0.5)),),
    options={
        "min": lambda choose, inputs: choose.pick([None, -1.0]),
        "max": lambda choose, inputs: choose.pick([None, 0.5]),
    },
)
def clip(x: Any, *, min: float | None = None, max: float | None = None) -> Any:
    """Values kept between `min` and `max`; at a bound itself the gradient passes.

    y = min(max(x, lower), upper)
    """
    if min is None and max is None:
        return np.positive(x)  # NumPy before 2.1 refuses to do nothing
    return np.clip(x, min, max)


@clip.gradient("x", formula="dx = dy where min ≤ x ≤ max")
def _(g: Any, out: Any, x: Any, *, min: float | None, max: float | None) -> Any:
    return keep_where(np.equal(x, out), g)


def _within_a_step(choose: Chooser) -> tuple[Any, ...]:
    """Dividends and divisors of either sign whose quotient is no whole number."""
    full = choose.shape()
    shape = broadcastable(choose, full)
    divisor = choose.reals(shape, 0.5, 3.0) * np.where(choose.booleans(shape), 1.0, -1.0)
    quotient = choose.integers(full, -2, 2) + choose.reals(full, 0.2, 0.8)
    return np.asarray(quotient * divisor), np.asarray(divisor)


@op(np.remainder, symbol="mod", elementwise=True, domain=_within_a_step, clash=broadcast_clash)
def remainder(a: Any, b: Any) -> Any:
    """What is left of `a` after whole steps of `b`, with the sign of `b` (`np.mod` and `%` in Python).

    y = a − b ⌊a / b⌋. Where `a` is a whole number of steps, y jumps; the slopes are those of the side it lies on.
    """
    return np.remainder(a, b)


@op(np.fmod, symbol="mod", elementwise=True, domain=_within_a_step, clash=broadcast_clash)
def fmod(a: Any, b: Any) -> Any:
    """What is left of `a` after whole steps of `b`, with the sign of `a`, as in C.

    y = a − b trunc(a / b). Where `a` is a whole number of steps, y jumps; the slopes are those of the side it lies on.
    """
    return np.fmod(a, b)


@remainder.gradient("a", formula="da = dy")
@fmod.gradient("a", formula="da = dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g


@remainder.gradient("b", formula="db = −⌊a / b⌋ ∘ dy")
@fmod.gradient("b", formula="db = −trunc(a / b) ∘ dy")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    return -g * np.rint((a - out) / b)  # the number of steps; a / b itself may be rounded to the next whole number


def _selection(choose: Chooser) -> tuple[Any, ...]:
    full = choose.shape()
    return (
        choose.booleans(broadcastable(choose, full)),
        choose.reals(broadcastable(choose, full)),
        choose.reals(broadcastable(choose, full)),
    )


@op(np.where, elementwise=True, selects=True, complex=True, domain=_selection, clash=broadcast_clash)
def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, else `y`.

    z = x if condition else y. The branch that is not taken gets exactly zero, also through elementwise operations whose
    slope there is NaN or infinite.

    >>> import numpy as np, tinygrad_attn as ta
    >>> x = ta.Tensor([1.0], requires_grad=True)
    >>> with np.errstate(invalid="ignore"):
    ...     ta.where(x >= 0, x, ta.sqrt(-x)).sum().backward()
    >>> x.grad
    array([1.], dtype=float32)
    """
    return np.where(condition, x, y)


@where.gradient("x", formula="dx = dz where the condition holds, else 0")
def _(g: Any, out: Any, condition: Any, x: Any, y: Any) -> Any:
    return keep_where(condition, g)


@where.gradient("y", formula="dy = 0 where the condition holds, else dz")
def _(g: Any, out: Any, condition: Any, x: Any, y: Any) -> Any:
    return keep_where(np.logical_not(condition), g)


def _masked(choose: Chooser) -> tuple[Any, ...]:
    full = choose.shape()
    return choose.reals(full), choose.booleans(broadcastable(choose, full))


@op(
    symbol="mask",
    elementwise=True,
    selects=True,
    complex=True,
    domain=_masked,
    options={"value": lambda choose, inputs: choose.pick([0.0, -5.0, 7.0])},
    clash=broadcast_clash,
)
def masked_fill(x: Any, mask: Any, *, value: float) -> Any:
    """`value` where the mask is True, else `x`; before a softmax, `value` is −∞.

    y = value where mask else x. Note the sense: True is what gets *filled*, so with an attention mask, in which True
    means "may attend", pass its inverse.

    Raises:
        MaskError: the mask is not boolean.
    """
    if np.asarray(mask).dtype != bool:
        raise MaskError(
            f"masked_fill: the mask must be boolean, True where `value` is filled in\n"
            f"  given dtype {np.asarray(mask).dtype}; write mask == 0 or mask == 1, whichever is meant"
        )
    return np.where(mask, value, x)


@masked_fill.gradient("x", formula="dx = 0 where masked, else dy")
def _(g: Any, out: Any, x: Any, mask: Any, *, value: float) -> Any:
    return keep_where(np.logical_not(mask), g)
