"""Operations that move elements without changing them: their gradients move them back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tinygrad_attn.domain import Chooser, any_axes, any_axis, any_axis_or_none, broadcastable, reals
from tinygrad_attn.errors import AxisRangeError, DtypeError, OptionError
from tinygrad_attn.explain import broadcast_clash, concatenate_clash, reshape_clash, stack_clash
from tinygrad_attn.operation import op
from tinygrad_attn.ops.index import axis_from_front
from tinygrad_attn.registry import extends, implements
from tinygrad_attn.tensor import plain


def _some_reshape(choose: Chooser, inputs: tuple[Any, ...]) -> tuple[int, ...]:
    sides = list(inputs[0].shape)
    return choose.pick(
        [(inputs[0].size,), tuple(sides[::-1]), (1, *sides), (*sides, 1), (1, -1) if inputs[0].size else (0,)]
    )


@op(np.reshape, moves=True, domain=reals(), options={"shape": _some_reshape}, clash=reshape_clash)
def reshape(x: Any, *, shape: Any) -> Any:
    """The same elements, in the same order, in another shape; one length may be −1.

    y = x read in the new shape
    """
    return np.reshape(x, shape)


@reshape.gradient("x", formula="dx = dy in the old shape")
def _(g: Any, out: Any, x: Any, *, shape: Any) -> Any:
    return np.reshape(g, x.shape)


@extends(np.reshape)
def _reshape_in_order(x: Any, *, shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    """With order "F", read and written with the first axis running fastest."""
    if order not in ("C", "F"):
        raise OptionError(f"reshape: order must be 'C' or 'F'\n  given {order!r}")
    if copy is False:
        raise OptionError(
            "reshape: copy=False asks for the memory of x\n  a Tensor shares it where it can; leave it out"
        )
    if order == "C":
        return np.reshape(x, shape)
    sides = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    return np.transpose(np.reshape(np.transpose(x), sides[::-1]))


def _some_order(choose: Chooser, inputs: tuple[Any, ...]) -> tuple[int, ...] | None:
    left = list(range(inputs[0].ndim))
    if choose.integer(0, 3) == 0:
        return None
    order = [left.pop(choose.integer(0, len(left) - 1)) for _ in range(len(left))]
    return tuple(axis - inputs[0].ndim * choose.integer(0, 1) for axis in order)


@op(np.transpose, moves=True, symbol="ᵀ", domain=reals(), options={"axes": _some_order})
def transpose(x: Any, *, axes: Any = None) -> Any:
    """Axes permuted, reversed if `axes` is None; negative axes count from the end.

    y[i₁, i₂, …] = x[permuted]
    """
    return np.transpose(x, axes)


@transpose.gradient("x", formula="dx = dy with the axes permuted back")
def _(g: Any, out: Any, x: Any, *, axes: Any) -> Any:
    if axes is None:
        return np.transpose(g)
    return np.transpose(g, np.argsort(normalize_axis_tuple(axes, x.ndim)))


@op(np.swapaxes, moves=True, symbol="ᵀ", domain=reals(min_dims=1), options={"axis1": any_axis, "axis2": any_axis})
def swapaxes(x: Any, *, axis1: int, axis2: int) -> Any:
    """Two axes exchanged; (-1, -2) transposes each matrix of a stack.

    y = xᵀ on the two axes
    """
    return np.swapaxes(x, axis1, axis2)


@swapaxes.gradient("x", formula="dx = dyᵀ")
def _(g: Any, out: Any, x: Any, *, axis1: int, axis2: int) -> Any:
    return np.swapaxes(g, axis1, axis2)


@op(
    np.moveaxis,
    moves=True,
    domain=reals(min_dims=1),
    options={"source": any_axis, "destination": any_axis},
)
def moveaxis(x: Any, *, source: Any, destination: Any) -> Any:
    """Axes moved to other places, the rest keeping their order.

    y = x with axis `source` at `destination`
    """
    return np.moveaxis(x, source, destination)


@moveaxis.gradient("x", formula="dx = dy with the axis moved back")
def _(g: Any, out: Any, x: Any, *, source: Any, destination: Any) -> Any:
    return np.moveaxis(g, destination, source)


def _new_axis(choose: Chooser, inputs: tuple[Any, ...]) -> int:
    return choose.integer(-inputs[0].ndim - 1, inputs[0].ndim)


def _new_axes(choose: Chooser, inputs: tuple[Any, ...]) -> int | tuple[int, ...]:
    return (0, -1) if choose.integer(0, 3) == 0 else _new_axis(choose, inputs)


@op(np.expand_dims, moves=True, domain=reals(), options={"axis": _new_axes})
def expand_dims(x: Any, *, axis: Any) -> Any:
    """An axis of length 1 inserted at `axis`, or at each of several.

    y[..., 0, ...] = x
    """
    return np.expand_dims(x, axis)


@expand_dims.gradient("x", formula="dx = dy in the old shape")
def _(g: Any, out: Any, x: Any, *, axis: Any) -> Any:
    return np.reshape(g, x.shape)


@op(
    np.squeeze,
    moves=True,
    domain=lambda choose: (choose.reals((1, *choose.shape(0, 2), 1)),),
    options={"axis": lambda choose, inputs: choose.pick([None, 0, -1, (0, -1)])},
)
def squeeze(x: Any, *, axis: Any = None) -> Any:
    """Axes of length 1 removed: all, or those in `axis`.

    y = x without them
    """
    return np.squeeze(x, axis)


@squeeze.gradient("x", formula="dx = dy in the old shape")
def _(g: Any, out: Any, x: Any, *, axis: Any) -> Any:
    return np.reshape(g, x.shape)


@op(
    np.broadcast_to,
    moves=True,
    domain=lambda choose: (choose.reals(broadcastable(choose, (2, 3, 1))),),
    options={"shape": lambda choose, inputs: choose.pick([(2, 3, 1), (4, 2, 3, 1)])},
    clash=lambda x, *, shape: broadcast_clash(x, tuple(np.atleast_1d(shape))),
)
def broadcast_to(x: Any, *, shape: Any) -> Any:
    """`x` repeated along new axes and along axes of length 1; backward, the copies are summed.

    y = x in every copy
    """
    return np.broadcast_to(x, shape)


@broadcast_to.gradient("x", formula="dx = Σ over the copies of dy")
def _(g: Any, out: Any, x: Any, *, shape: Any) -> Any:
    return g  # the engine folds every gradient to the shape of its input


def _some_pieces(choose: Chooser) -> tuple[Any, ...]:
    shape = choose.shape(1, 3)
    if choose.pick([True, False]):  # arrays may differ in length, along the axis that they are joined along
        return tuple(choose.reals((choose.integer(0, 3), *shape[1:])) for _ in range(choose.integer(1, 3)))
    return tuple(choose.reals(shape) for _ in range(choose.integer(1, 3)))


def _joinable(choose: Chooser, inputs: tuple[Any, ...]) -> int | None:
    same = all(value.shape == inputs[0].shape for value in inputs)
    return any_axis_or_none(choose, inputs) if same else choose.pick([0, -inputs[0].ndim, None])


@op(
    np.concatenate,
    moves=True,
    symbol="concat",
    sequence=True,
    domain=_some_pieces,
    options={"axis": _joinable},
    clash=concatenate_clash,
)
def concatenate(*arrays: Any, axis: int | None = 0) -> Any:
    """Arrays joined along an axis that they have; all their elements in order if `axis` is None.

    y = [x₁; x₂; …]
    """
    return np.concatenate(arrays, axis=axis)


@concatenate.gradient("arrays", formula="dxᵢ = the part of dy that came from xᵢ")
def _(g: Any, out: Any, *arrays: Any, index: int, axis: int | None) -> Any:
    lengths = [np.size(array) if axis is None else array.shape[axis] for array in arrays]
    start = sum(lengths[:index])
    part = slice(start, start + lengths[index])
    if axis is None:
        return np.reshape(g[part], np.shape(arrays[index]))
    place = [slice(None)] * g.ndim
    place[axis] = part
    return g[tuple(place)]


def _alike(choose: Chooser) -> tuple[Any, ...]:
    shape = choose.shape(0, 3)
    return tuple(choose.reals(shape) for _ in range(choose.integer(1, 3)))


@op(
    np.stack,
    moves=True,
    sequence=True,
    domain=_alike,
    options={"axis": _new_axis},
    clash=stack_clash,
)
def stack(*arrays: Any, axis: int = 0) -> Any:
    """Arrays of one shape joined along a new axis.

    y[i] = xᵢ
    """
    return np.stack(arrays, axis=axis)


@stack.gradient("arrays", formula="dxᵢ = dy[i]")
def _(g: Any, out: Any, *arrays: Any, index: int, axis: int) -> Any:
    place: list[Any] = [slice(None)] * g.ndim
    place[axis] = index
    return g[tuple(place)]


@op(np.flip, moves=True, domain=reals(), options={"axis": any_axes})
def flip(x: Any, *, axis: Any = None) -> Any:
    """Elements in reverse order along `axis` (all axes if None).

    y[i] = x[−1 − i]
    """
    return np.flip(x, axis)


@flip.gradient("x", formula="dx = dy flipped")
def _(g: Any, out: Any, x: Any, *, axis: Any) -> Any:
    return np.flip(g, axis)


@op(
    np.ndarray.astype,
    elementwise=True,
    symbol="cast",
    complex=True,
    domain=reals(),
    options={"dtype": lambda choose, inputs: np.result_type(np.float64, inputs[0])},
)
def astype(x: Any, *, dtype: Any) -> Any:
    """Converted to another floating or complex dtype; the gradient is converted back.

    y = x in the new precision

    Raises:
        DtypeError: complex numbers to real ones.
    """
    if np.iscomplexobj(x) and np.dtype(dtype).kind in "fiu":
        raise DtypeError("astype would drop the imaginary part\n  write x.real or np.absolute(x), whichever is meant")
    return np.asarray(x).astype(dtype)


@astype.gradient("x", formula="dx = dy in the old precision")
def _(g: Any, out: Any, x: Any, *, dtype: Any) -> Any:
    return g  # the engine gives every gradient the dtype of its input


@implements(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> Any:
    """`fill_value` in the shape of `a`, or another one, and in its dtype, or another one.

    y = fill_value everywhere; its gradient is the sum over all places
    """
    sides = np.shape(a) if shape is None else shape
    return np.broadcast_to(fill_value, sides).astype(np.result_type(plain(a)) if dtype is None else dtype)


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    """All elements along one axis, the last axis running fastest; with order "F", the first."""
    if order not in ("C", "F"):
        raise OptionError(f"ravel: order must be 'C' or 'F'\n  given {order!r}")
    return np.reshape(a if order == "C" else np.transpose(a), (-1,))


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """The axis moved to stand before `start`; np.moveaxis says it more plainly."""
    axis = axis_from_front("rollaxis", axis, a)
    before = start + a.ndim if start < 0 else start
    if not 0 <= before <= a.ndim:
        raise AxisRangeError(f"rollaxis: start must lie in [{-a.ndim}, {a.ndim}]\n  given {start}")
    return np.moveaxis(a, axis, before - 1 if axis < before else before)


def _numpys_astype(x: Any, dtype: Any, /, *, copy: bool = True, device: None = None) -> Any:
    return astype(x, dtype=np.dtype(dtype))


if hasattr(np, "astype"):  # since NumPy 2.1
    implements(np.astype)(_numpys_astype)
