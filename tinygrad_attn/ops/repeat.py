"""Copies, borders and turns: tile, repeat, pad, roll, rot90. The gradient of a copy goes to what was copied."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from tinygrad_attn.domain import Chooser, any_axis_or_none, one_of, reals
from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.operation import op
from tinygrad_attn.ops.index import at_axis, scatter_add
from tinygrad_attn.registry import implements


@op(np.tile, moves=True, domain=reals(), options={"reps": one_of(0, 1, 2, (2,), (1, 3), (2, 1, 2), ())})
def tile(x: Any, *, reps: Any) -> Any:
    """`x` laid side by side `reps` times along each axis; the last of `reps` is for the last axis.

    y = [x x …; x x …; …]
    """
    return np.tile(x, reps)


@tile.gradient("x", formula="dx = Σ over the copies of dy")
def _(g: Any, out: Any, x: Any, *, reps: Any) -> Any:
    times = tuple(int(n) for n in np.atleast_1d(reps))
    ndim = max(x.ndim, len(times))
    times = (1,) * (ndim - len(times)) + times
    sides = (1,) * (ndim - x.ndim) + x.shape
    copies = np.reshape(g, tuple(n for pair in zip(times, sides, strict=True) for n in pair))
    return np.reshape(np.sum(copies, axis=tuple(range(0, 2 * ndim, 2))), x.shape)


def _some_repeats(choose: Chooser, inputs: tuple[Any, ...]) -> int:
    return choose.integer(0, 3)


@op(np.repeat, moves=True, domain=reals(), options={"repeats": _some_repeats, "axis": any_axis_or_none})
def repeat(x: Any, *, repeats: Any, axis: int | None = None) -> Any:
    """Each element along `axis` several times in a row; all elements in order if `axis` is None.

    y = [x₁, x₁, …, x₂, x₂, …]

    Args:
        x: any shape.
        repeats: how often, one number or one for each position along the axis.
        axis: the axis that grows.
    """
    return np.repeat(x, repeats, axis)


@repeat.gradient("x", formula="dx = Σ over the repetitions of dy")
def _(g: Any, out: Any, x: Any, *, repeats: Any, axis: int | None) -> Any:
    if axis is None or x.ndim == 0:  # NumPy lets a single number be named an axis
        shape, along = (x.size,), 0
    else:
        shape, along = x.shape, normalize_axis_index(axis, x.ndim)
    source = np.repeat(np.arange(shape[along]), repeats)  # which position each repetition came from
    return np.reshape(scatter_add(g, index=at_axis(along, source), shape=shape), x.shape)


@op(np.roll, moves=True, domain=reals(), options={"shift": one_of(0, 1, -2, 5), "axis": any_axis_or_none})
def roll(x: Any, *, shift: Any, axis: Any = None) -> Any:
    """Elements moved along `axis` by `shift` places; those that fall off come back at the other end.

    y[i] = x[(i − shift) mod n]

    Args:
        x: any shape.
        shift: how many places; one number, or one for each axis.
        axis: one axis or several; None reads all elements in order.
    """
    return np.roll(x, shift, axis)


@roll.gradient("x", formula="dx = dy rolled back")
def _(g: Any, out: Any, x: Any, *, shift: Any, axis: Any) -> Any:
    back = -np.asarray(shift, np.intp)
    return np.roll(g, tuple(back.tolist()) if back.ndim else int(back), axis)


# --- borders -------------------------------------------------------------------------------------------------------

_COPYING = ("edge", "reflect", "symmetric", "wrap")


def _some_widths(choose: Chooser, inputs: tuple[Any, ...]) -> Any:
    ndim = inputs[0].ndim
    each = tuple((choose.integer(0, 2), choose.integer(0, 2)) for _ in range(ndim))
    return choose.pick([0, 1, (2, 1), each if ndim else 2])


def _pad_clash(x: tuple[int, ...], *, pad_width: Any, **_: Any) -> str:
    return (
        f"pad_width does not fit\n  given {pad_width} for {len(x)} axes\n"
        "  expected one number ≥ 0, one pair (before, after), or one pair per axis"
    )


@op(
    np.pad,
    moves=True,
    domain=reals(),
    options={"pad_width": _some_widths, "mode": one_of("constant"), "constant_values": one_of(0.0, 1.5)},
    clash=_pad_clash,
)
def pad(x: Any, *, pad_width: Any, mode: Any = "constant", constant_values: Any = 0.0) -> Any:
    """`x` with a border: of a constant, or of copies of its own elements.

    y = x in the middle; beside it the constant, or the element that the mode mirrors or wraps to

    Args:
        x: any shape.
        pad_width: one number, one pair (before, after), or one pair per axis.
        mode: "constant", "edge", "reflect", "symmetric" or "wrap", as in NumPy.
        constant_values: numbers for the border, one, one pair, or one pair per axis; they get no gradient.
    Raises:
        OptionError: another of NumPy's modes.
    """
    if mode == "constant":
        return np.pad(x, pad_width, mode, constant_values=constant_values)
    if mode in _COPYING and not (isinstance(constant_values, float) and constant_values == 0.0):
        raise OptionError(f"pad: mode {mode!r} copies and takes no constant_values\n  given {constant_values!r}")
    if mode not in _COPYING:
        raise OptionError(f"pad: mode {mode!r} has no gradient rule\n  expected 'constant', {str(_COPYING)[1:-1]}")
    return np.pad(x, pad_width, mode)


@pad.gradient("x", formula="dx = the middle of dy, and what was copied into the border added to where it came from")
def _(g: Any, out: Any, x: Any, *, pad_width: Any, mode: Any, constant_values: Any) -> Any:
    widths = _widths(pad_width, x.ndim)
    if mode == "constant":
        return g[tuple(slice(before, before + n) for (before, _), n in zip(widths, x.shape, strict=True))]
    for axis, (width, length) in enumerate(zip(widths, x.shape, strict=True)):
        source = np.pad(np.arange(length), width, mode)  # where each element of the padded axis came from
        shape = (*x.shape[: axis + 1], *g.shape[axis + 1 :])
        g = scatter_add(g, index=at_axis(axis, source), shape=shape)
    return g


def _widths(pad_width: Any, ndim: int) -> list[list[int]]:
    """One pair (before, after) per axis; a dict has them by axis, and leaves axes without."""
    if isinstance(pad_width, dict):
        named = {axis % ndim: np.broadcast_to(width, (2,)).tolist() for axis, width in pad_width.items()}
        return [named.get(axis, [0, 0]) for axis in range(ndim)]
    widths: list[list[int]] = np.broadcast_to(np.asarray(pad_width), (ndim, 2)).tolist()
    return widths


# --- turns, written with flip and transpose --------------------------------------------------------------------------


@implements(np.fliplr)
def fliplr(m: Any) -> Any:
    """Columns in reverse order."""
    if m.ndim < 2:
        raise ShapeError(f"fliplr: at least two axes\n  given shape {m.shape}; np.flip reverses a vector")
    return np.flip(m, 1)


@implements(np.flipud)
def flipud(m: Any) -> Any:
    """Rows in reverse order."""
    if m.ndim < 1:
        raise ShapeError("flipud: at least one axis\n  given a single number")
    return np.flip(m, 0)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Quarter turns in the plane of two axes, k times, from the first axis towards the second."""
    if len(axes) != 2 or m.ndim < 2:
        raise ShapeError(f"rot90: two axes to turn\n  given axes {tuple(axes)} of shape {m.shape}")
    first, second = normalize_axis_tuple(axes, m.ndim)
    turns = k % 4
    if turns == 2:
        return np.flip(m, (first, second))
    if turns == 1:
        return np.swapaxes(np.flip(m, second), first, second)
    return np.flip(np.swapaxes(m, first, second), second) if turns == 3 else m[...]
