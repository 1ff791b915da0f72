"""Joining and cutting under NumPy's many names; each is written with concatenate, slices and broadcasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.ops.index import at_axis, axis_from_front
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import plain

# --- axes of length 1 ----------------------------------------------------------------------------------------------


def _each(arrays: tuple[Any, ...], promoted: Any) -> Any:
    results = tuple(promoted(array if hasattr(array, "shape") else np.asarray(array)) for array in arrays)
    return results[0] if len(results) == 1 else results


@implements(np.atleast_1d)
def atleast_1d(*arrays: Any) -> Any:
    """Each array with at least one axis; a tuple of them if several are given."""
    return _each(arrays, lambda x: x if x.ndim else np.reshape(x, (1,)))


@implements(np.atleast_2d)
def atleast_2d(*arrays: Any) -> Any:
    """Each array with at least two axes, (n,) as the row (1, n)."""
    return _each(arrays, lambda x: x if x.ndim > 1 else np.reshape(x, (1, x.size)))


@implements(np.atleast_3d)
def atleast_3d(*arrays: Any) -> Any:
    """Each array with at least three axes: (n,) as (1, n, 1), (m, n) as (m, n, 1)."""
    return _each(arrays, _with_three_axes)


def _with_three_axes(x: Any) -> Any:
    if x.ndim == 2:
        return np.expand_dims(x, 2)
    return x if x.ndim > 2 else np.reshape(x, (1, x.size, 1))


@implements(np.broadcast_arrays)
def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Any, ...]:
    """All arrays in the shape that they broadcast to."""
    try:
        shape = np.broadcast_shapes(*(np.shape(array) for array in arrays))
    except ValueError as error:
        given = "\n".join(f"    arrays[{index}]  {np.shape(array)}" for index, array in enumerate(arrays))
        raise ShapeError(f"broadcast_arrays: the shapes do not broadcast\n{given}") from error
    return tuple(np.broadcast_to(array, shape) for array in arrays)


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    """Vectors spread over a grid, one array per vector; "xy" puts the first along columns, "ij" along rows.

    Args:
        xi: vectors or numbers.
        copy: accepted for NumPy's sake; results are never written to.
        sparse: leave the axes along which nothing changes at length 1.
        indexing: "xy" or "ij".
    """
    if indexing not in ("xy", "ij"):
        raise OptionError(f"meshgrid: indexing must be 'xy' or 'ij'\n  given {indexing!r}")
    ndim, spread = len(xi), []
    for position, x in enumerate(xi):
        along = 1 - position if indexing == "xy" and ndim > 1 and position < 2 else position
        spread.append(np.reshape(x, tuple(-1 if axis == along else 1 for axis in range(ndim))))
    return tuple(spread) if sparse else broadcast_arrays(*spread)


# --- joining -------------------------------------------------------------------------------------------------------


def _several(arrays: Sequence[Any], promote: Any) -> list[Any]:
    return [promote(array) for array in arrays]


@implements(np.hstack)
def hstack(tup: Sequence[Any]) -> Any:
    """Arrays joined along the second axis, vectors along their only one."""
    arrays = _several(tup, np.atleast_1d)
    return np.concatenate(arrays, 0 if arrays and arrays[0].ndim == 1 else 1)


@implements(np.vstack)
def vstack(tup: Sequence[Any]) -> Any:
    """Arrays joined along the first axis, vectors as rows."""
    return np.concatenate(_several(tup, np.atleast_2d), 0)


@implements(np.dstack)
def dstack(tup: Sequence[Any]) -> Any:
    """Arrays joined along the third axis."""
    return np.concatenate(_several(tup, np.atleast_3d), 2)


@implements(np.column_stack)
def column_stack(tup: Sequence[Any]) -> Any:
    """Vectors as columns, joined with matrices along the second axis."""
    columns = [np.atleast_1d(array) for array in tup]
    return np.concatenate([np.reshape(x, (x.size, 1)) if x.ndim == 1 else x for x in columns], 1)


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """`values` behind `arr` along an axis; both in order if `axis` is None."""
    if axis is None:
        arr, values, axis = np.ravel(arr), np.ravel(values), 0
    return np.concatenate([arr, values], axis)


@implements(np.block)
def block(arrays: Any) -> Any:
    """An array put together from nested lists of blocks: the innermost side by side, each list around it below.

    >>> block([[np.eye(2), np.zeros((2, 1))], [np.ones((1, 3))]])
    array([[1., 0., 0.],
           [0., 1., 0.],
           [1., 1., 1.]])
    """
    depth = _depth(arrays)
    ndim = max(depth, max((np.ndim(leaf) for leaf in _leaves(arrays)), default=0))
    return _assembled(arrays, depth, ndim)


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ShapeError("block: a list of blocks is empty")
    depths = {_depth(part) for part in arrays}
    if len(depths) > 1:
        raise ShapeError(f"block: every block must lie equally deep in the lists\n  given depths {sorted(depths)}")
    return 1 + depths.pop()


def _leaves(arrays: Any) -> list[Any]:
    return [leaf for part in arrays for leaf in _leaves(part)] if isinstance(arrays, list) else [arrays]


def _assembled(arrays: Any, depth: int, ndim: int) -> Any:
    if depth == 0:
        return np.reshape(arrays, (1,) * (ndim - np.ndim(arrays)) + np.shape(arrays))
    return np.concatenate([_assembled(part, depth - 1, ndim) for part in arrays], -depth)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """`values` inserted before the positions `obj` of `arr`, along `axis` or into all elements in order.

    Args:
        arr: any shape.
        obj: a position, several, a slice, or a boolean mask, all counted in `arr` as it was.
        values: what to insert; broadcast to the places it goes to.
        axis: the axis that grows.
    """
    if axis is None:
        arr, axis = np.ravel(arr), 0
    axis, obj = axis_from_front("insert", axis, arr), plain(obj)
    length = np.shape(arr)[axis]
    grown = np.insert(np.asarray(plain(arr)), obj, np.asarray(plain(values)), axis).shape  # NumPy works out the shape
    added = grown[axis] - length
    if np.result_type(arr).kind == "f":  # as in NumPy, the result has the dtype of arr
        values = (values if hasattr(values, "astype") else np.asarray(values)).astype(np.result_type(arr))
    values = np.reshape(values, (1,) * (len(grown) - np.ndim(values)) + np.shape(values))
    if np.ndim(obj) == 0 and not isinstance(obj, slice):
        values = np.moveaxis(values, 0, axis)
    values = np.broadcast_to(values, (*grown[:axis], added, *grown[axis + 1 :]))
    order = np.insert(np.arange(length), obj, np.arange(length, length + added))
    return np.concatenate([arr, values], axis)[at_axis(axis, order)]


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """`arr` without the positions `obj` along `axis`, or of all elements in order; they get the gradient 0."""
    if axis is None:
        arr, axis = np.ravel(arr), 0
    axis = axis_from_front("delete", axis, arr)
    return arr[at_axis(axis, np.delete(np.arange(arr.shape[axis]), plain(obj)))]


# --- cutting -------------------------------------------------------------------------------------------------------


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Pieces along `axis`: as equal as can be for a number, or cut at the given places; each is a slice."""
    axis = axis_from_front("split", axis, ary)
    pieces = np.array_split(np.arange(ary.shape[axis]), plain(indices_or_sections))
    return [ary[at_axis(axis, slice(p[0], p[-1] + 1) if len(p) else slice(0, 0))] for p in pieces]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Pieces along `axis`: equal ones for a number, or cut at the given places; each is a slice.

    Raises:
        ShapeError: the axis cannot be cut into that many equal pieces.
    """
    indices_or_sections = plain(indices_or_sections)
    if np.ndim(indices_or_sections) == 0:
        length = ary.shape[axis_from_front("split", axis, ary)]
        if indices_or_sections < 1 or length % indices_or_sections:
            raise ShapeError(
                f"split: {length} places do not make {indices_or_sections} equal pieces\n"
                f"    ary  {ary.shape}  axis {axis}\n  np.array_split allows unequal ones"
            )
    return array_split(ary, indices_or_sections, axis)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Pieces along the second axis, or along the only one."""
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Pieces along the first axis of at least two."""
    if ary.ndim < 2:
        raise ShapeError(f"vsplit: at least two axes\n  given shape {ary.shape}; np.split cuts a vector")
    return split(ary, indices_or_sections, 0)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Pieces along the third axis."""
    if ary.ndim < 3:
        raise ShapeError(f"dsplit: at least three axes\n  given shape {ary.shape}")
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, *, axis: int = 0) -> tuple[Any, ...]:
    """Slices along `axis`, without it: what `stack` undoes."""
    axis = axis_from_front("unstack", axis, x)
    return tuple(x[at_axis(axis, index)] for index in range(x.shape[axis]))


if hasattr(np, "unstack"):  # since NumPy 2.1
    implements(np.unstack)(unstack)
