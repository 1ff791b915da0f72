"""Along an axis: differences, slopes, integrals, sliding products, interpolation; each is slices, sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.ops.index import at_axis, axis_from_front
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import as_array, plain


def _part(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return x[at_axis(axis, slice(start, stop))]


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences between neighbours along `axis`, n times.

    yᵢ = xᵢ₊₁ − xᵢ

    Args:
        a: at least one axis.
        n: how often; 0 changes nothing.
        axis: along which axis.
        prepend, append: values put before or behind first; a number stands for one place.
    """
    if n < 0:
        raise OptionError(f"diff: n must not be negative\n  given {n}")
    axis = axis_from_front("diff", axis, a)
    border = (*np.shape(a)[:axis], 1, *np.shape(a)[axis + 1 :])
    parts = [prepend, a, append]
    joined = [np.broadcast_to(part, border) if np.ndim(part) == 0 else part for part in parts if part is not None]
    y = np.concatenate(joined, axis) if len(joined) > 1 else a
    for _ in range(n):
        y = _part(y, axis, 1, None) - _part(y, axis, None, -1)
    return y


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Slopes along each axis, by central differences and, at both ends, by one-sided ones.

    yᵢ = (xᵢ₊₁ − xᵢ₋₁) / 2h

    Args:
        f: values at places of equal distance.
        varargs: the distance h, one for all axes or one for each; 1 if left out. A vector in its place holds the places
            themselves, at whatever distances.
        axis: one axis or several; all if None.
        edge_order: 1 or 2, how exact the ends are.
    Returns:
        One Tensor, or one for each axis.
    """
    f, varargs = as_array(f), tuple(as_array(h) for h in varargs)
    axes = tuple(range(f.ndim)) if axis is None else (axis,) if np.ndim(axis) == 0 else tuple(axis)
    axes = tuple(axis_from_front("gradient", one, f) for one in axes)
    if edge_order not in (1, 2):
        raise OptionError(f"gradient: edge_order must be 1 or 2\n  given {edge_order!r}")
    if len(varargs) not in (0, 1, len(axes)):
        raise OptionError(f"gradient: one distance, or one for each axis\n  given {len(varargs)} for {len(axes)} axes")
    distances = varargs if len(varargs) == len(axes) else (varargs or (1.0,)) * len(axes)
    slopes = tuple(_slopes(f, one, h, edge_order) for one, h in zip(axes, distances, strict=True))
    return slopes[0] if len(slopes) == 1 else slopes


def _slopes(f: Any, axis: int, h: Any, edge_order: int) -> Any:
    if f.shape[axis] <= edge_order:
        raise ShapeError(f"gradient: at least {edge_order + 1} places along axis {axis}\n  given shape {f.shape}")
    if np.ndim(h) > 0:
        return _slopes_between(f, axis, h, edge_order)
    middle = (_part(f, axis, 2, None) - _part(f, axis, None, -2)) / (2.0 * h)
    # The slope at an end, from the values there inwards: of the line through two, of the parabola through three.
    weights = (-1.0, 1.0) if edge_order == 1 else (-1.5, 2.0, -0.5)
    first = sum(weight * _part(f, axis, i, i + 1) for i, weight in enumerate(weights)) / h
    last = sum(-weight * _part(f, axis, -i - 1, -i or None) for i, weight in enumerate(weights)) / h
    return np.concatenate([first, middle, last], axis)


def _slopes_between(f: Any, axis: int, places: Any, edge_order: int) -> Any:
    """Slopes of the parabola through a place and its two neighbours, which may lie at different distances."""
    if np.shape(places) != (f.shape[axis],):
        raise ShapeError(
            f"gradient: one place for each value along axis {axis}\n"
            f"    f       {f.shape}\n    places  {np.shape(places)}"
        )
    widths = np.reshape(diff(places), (-1,) + (1,) * (f.ndim - 1 - axis))
    sides = diff(f, axis=axis) / widths  # slopes between neighbours
    left, right = _part(sides, axis, None, -1), _part(sides, axis, 1, None)
    before, after = widths[:-1], widths[1:]
    middle = (left * after + right * before) / (before + after)
    first, last = _part(sides, axis, 0, 1), _part(sides, axis, -1, None)
    if edge_order == 2:  # of the parabola through the three outermost places
        bend = (right - left) / (before + after)
        first = first - _part(bend, axis, 0, 1) * widths[:1]
        last = last + _part(bend, axis, -1, None) * widths[-1:]
    return np.concatenate([first, middle, last], axis)


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Area under the line through the values, along `axis`.

    Σᵢ (xᵢ₊₁ − xᵢ) (yᵢ + yᵢ₊₁) / 2
    """
    y, x = as_array(y), as_array(x)
    axis = axis_from_front("trapezoid", axis, y)
    widths = dx
    if x is not None:
        widths = diff(x, axis=-1 if np.ndim(x) == 1 else axis)
        if np.ndim(x) == 1:
            widths = np.reshape(widths, (-1,) + (1,) * (np.ndim(y) - axis - 1))
    return np.sum(widths * (_part(y, axis, 1, None) + _part(y, axis, None, -1)) / 2.0, axis=axis)


@implements(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """The vector at right angles to two vectors of three elements.

    y₁ = a₂b₃ − a₃b₂, and so on in turn

    Args:
        a, b: vectors along `axisa` and `axisb`; the other axes broadcast.
        axisa, axisb, axisc: where the vectors of a, of b and of the result lie.
        axis: if given, all three.
    """
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ShapeError(f"cross: vectors of three elements\n  given {a.shape[-1]} and {b.shape[-1]}")
    one, two = np.array([1, 2, 0]), np.array([2, 0, 1])
    return np.moveaxis(a[..., one] * b[..., two] - a[..., two] * b[..., one], -1, axisc)


@implements(np.linalg.cross)
def _linalg_cross(x1: Any, x2: Any, *, axis: int = -1) -> Any:
    return cross(x1, x2, axis=axis)


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """The shorter vector, turned around, slid along the longer one.

    yᵢ = Σⱼ aⱼ vᵢ₋ⱼ

    Args:
        a, v: vectors of at least one element.
        mode: "full" for every overlap, "valid" for whole ones, "same" for the middle part as long as the longer one.
    """
    long, short = _vectors("convolve", a, v, mode)
    return _slid(long, np.flip(short), mode)


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """One vector slid along the other.

    yᵢ = Σⱼ aᵢ₊ⱼ conj(vⱼ), with `mode` as in `convolve`
    """
    a, v = np.atleast_1d(a), np.atleast_1d(v).conj()
    long, short = _vectors("correlate", a, v, mode)
    slid = _slid(long, short, mode)
    return slid if v.shape[0] <= a.shape[0] else np.flip(slid)  # they were exchanged, and that turns the result around


def _vectors(name: str, a: Any, v: Any, mode: str) -> tuple[Any, Any]:
    """The longer vector and the shorter one."""
    if mode not in ("full", "same", "valid"):
        raise OptionError(f"{name}: mode must be 'full', 'same' or 'valid'\n  given {mode!r}")
    a, v = np.atleast_1d(a), np.atleast_1d(v)
    if a.ndim != 1 or v.ndim != 1 or not a.size or not v.size:
        raise ShapeError(f"{name}: two vectors that are not empty\n    a  {a.shape}\n    v  {v.shape}")
    return (v, a) if v.size > a.size else (a, v)


def _slid(long: Any, short: Any, mode: str) -> Any:
    """Dot products of `short` with each stretch of `long`."""
    n, m = long.shape[0], short.shape[0]
    before = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    behind = {"full": m - 1, "same": m - 1 - m // 2, "valid": 0}[mode]
    padded = np.pad(long, (before, behind))
    starts = np.arange(n + before + behind - m + 1)
    return np.matmul(padded[starts[:, None] + np.arange(m)], short)  # (starts, m) @ (m,)


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: None = None) -> Any:
    """Values at `x` of the line through the points (xp, fp); beyond them, its first or last value.

    y = fpᵢ + (fpᵢ₊₁ − fpᵢ) (x − xpᵢ) / (xpᵢ₊₁ − xpᵢ) between points i and i + 1

    At a point itself the slope is that of the piece to its right. Divergence: the dtype is that of the arguments; NumPy
    answers in float64 whatever it is given.
    """
    if period is not None:
        raise OptionError("interp: period has no gradient rule\n  take x and xp modulo the period first")
    x, xp, fp = as_array(x), as_array(xp), as_array(fp)
    x = x if hasattr(x, "shape") else np.asarray(x)
    places, at = np.asarray(plain(xp)), np.asarray(plain(x))
    if places.ndim != 1 or np.shape(fp) != places.shape or not places.size:
        raise ShapeError(
            f"interp: xp and fp must be vectors of one length\n    xp  {places.shape}\n    fp  {np.shape(fp)}"
        )
    first, last = fp[:1] if left is None else left, fp[-1:] if right is None else right
    if places.size == 1:
        inside = np.broadcast_to(fp, at.shape)
    else:
        piece = np.clip(np.searchsorted(places, at, "right") - 1, 0, places.size - 2)
        x0, x1, f0, f1 = xp[piece], xp[piece + 1], fp[piece], fp[piece + 1]
        inside = f0 + (f1 - f0) * (x - x0) / (x1 - x0)
    ends = [np.reshape(end, ()) if np.size(end) == 1 else end for end in (first, last)]
    return np.where(at < places[0], ends[0], np.where(at > places[-1], ends[1], inside))


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """The polynomial with coefficients `p`, the highest power first, at `x`.

    y = (… (p₁ x + p₂) x + …) x + pₙ
    """
    p, x = as_array(p), as_array(x)
    y: Any = np.zeros(np.shape(x), np.result_type(plain(p), plain(x)))
    for i in range(np.shape(p)[0]):
        y = y * x + p[i]
    return y
