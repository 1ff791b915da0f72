"""scipy.integrate: differential equations, with gradients by the adjoint method."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.integrate as theirs

from tinygrad_attn.errors import GradientError, ShapeError
from tinygrad_attn.functional import vjp
from tinygrad_attn.operation import Operation
from tinygrad_attn.tensor import Tensor, plain

__all__ = ["odeint"]


def odeint(
    func: Callable[..., Any], y0: Any, t: Any, args: Sequence[Any] = (), *, rtol: float = 1e-8, atol: float = 1e-8
) -> Any:
    """The solution of dy/dt = func(y, t, *args) with y(t[0]) = y0, at every time in t.

    y(t) = y0 + ∫ func(y, t, *args) dt

    Values come from `scipy.integrate.odeint`. The gradient is the solution of another equation, backwards in time: the
    adjoint a(t) = ∂L/∂y(t) runs along da/dt = −aᵀ ∂func/∂y, and what it meets of ∂func/∂args on the way adds up.

    Args:
        func: the slope, written with NumPy or with operations; it is differentiated by y and args.
        y0: where it starts, any shape.
        t: (times,), in order, forwards or backwards.
        args: what else func takes. They get gradients, as y0 and t do; a Tensor that func knows from outside would not,
            and is refused.
        rtol, atol: how exactly to solve, both ways.
    Returns:
        (times, *y0 shape).
    Raises:
        ShapeError: t is not one axis of times, or func returns another shape than y has.
        GradientError: func uses a Tensor from outside that requires a gradient.
    Source:
        Pontryagin et al. (1962); Chen, Rubanova, Bettencourt and Duvenaud (2018), arXiv:1806.07366, appendix B.

    >>> y = odeint(lambda y, t, rate: -rate * y, np.array([1.0]), np.array([0.0, np.log(2.0)]), (1.0,))
    >>> y.round(6).tolist()
    [[1.0], [0.5]]
    """
    if np.ndim(t) != 1 or len(t) == 0:
        raise ShapeError(f"odeint: t must be (times,)\n  given {np.shape(t)}")
    given = [y0, t, *args]
    shapes = tuple(np.shape(part) for part in given)
    first = func(*(Tensor(plain(part)) for part in (y0, t[0], *args)))
    if np.shape(first) != shapes[0]:
        raise ShapeError(f"odeint: func must return the shape of y\n  expected {shapes[0]}, given {np.shape(first)}")
    if isinstance(first, Tensor) and first.requires_grad:
        raise GradientError("odeint: func uses a Tensor from outside, which would get no gradient\n  pass it in args")
    return _trajectory(_packed(given), func=func, shapes=shapes, rtol=rtol, atol=atol)


def _solution(packed: Any, *, func: Any, shapes: Any, rtol: float, atol: float) -> Any:
    """All of y0, t and args in one vector, so that one backward solution serves them all.

    y(t) = y0 + ∫ func(y, t, *args) dt
    """
    y0, t, *args = _unpacked(packed, shapes)

    def slope(y: Any, moment: float) -> Any:
        return np.ravel(plain(func(y.reshape(shapes[0]), np.float64(moment), *args)))

    y = theirs.odeint(slope, y0.ravel(), t, rtol=rtol, atol=atol)
    return y.reshape(len(t), *shapes[0]).astype(packed.dtype)


_trajectory = Operation(_solution, symbol="∫")  # not in the registry: what a test may draw would be a function


@_trajectory.gradient(
    "packed", formula="dy0 = a(t₀), dargs = ∫ aᵀ ∂f/∂args dt; da/dt = −aᵀ ∂f/∂y, da = dy at every time"
)
def _(g: Any, y: Any, packed: Any, *, func: Any, shapes: Any, **how: Any) -> Any:
    y0, t, *args = _unpacked(packed, shapes)
    n = math.prod(shapes[0])

    def backwards(state: Any, moment: Any, *args: Any) -> Any:
        """The slopes of y, of a, and of what adds up for args."""
        slope, pull = vjp(lambda y, *args: func(y, moment, *args), np.reshape(state[:n], shapes[0]), *args)
        pulled = pull(np.reshape(state[n : 2 * n], shapes[0]))
        return np.concatenate([np.ravel(slope), *(-np.ravel(part) for part in pulled)])

    adjoint, sums = np.zeros(n), np.zeros(sum(math.prod(shape) for shape in shapes[2:]))
    times = []
    for i in range(len(t.tolist()) - 1, 0, -1):
        times.append(np.sum(g[i] * func(y[i], t[i], *args)))  # a later end is further along the solution
        start = np.concatenate([np.ravel(y[i]), adjoint + np.ravel(g[i]), sums])
        end = odeint(backwards, start, np.stack([t[i], t[i - 1]]), args, **how)[1]
        adjoint, sums = end[n : 2 * n], end[2 * n :]
    times.append(-np.sum(adjoint * np.ravel(func(y0, t[0], *args))))  # a later start leaves less of the way
    return np.concatenate([adjoint + np.ravel(g[0]), np.stack(times[::-1]), sums])


def _packed(parts: Sequence[Any]) -> Any:
    return np.concatenate([np.ravel(part) for part in parts])


def _unpacked(packed: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
    starts = [0, *ends[:-1]]
    return [np.reshape(packed[i:j], shape) for i, j, shape in zip(starts, ends, shapes, strict=True)]
