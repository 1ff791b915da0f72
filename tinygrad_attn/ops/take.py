"""Choosing elements under NumPy's names, and sorting: gradients go back to where the elements were read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_attn.arguments import refuse_out
from tinygrad_attn.domain import any_axis_or_none, distinct, one_of
from tinygrad_attn.errors import DtypeError, IndexRangeError, InPlaceError, OptionError, ShapeError
from tinygrad_attn.operation import op
from tinygrad_attn.ops.index import at_axis, axis_from_front, index_put
from tinygrad_attn.registry import REFUSED, implements
from tinygrad_attn.tensor import plain


@implements(np.take)
def take(a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise") -> Any:
    """Elements of `a` along `axis` at `indices`, or of all elements in order; read twice, they get both gradients.

    y[…, i, …] = a[…, indices[i], …]

    Args:
        a: any shape.
        indices: whole numbers of any shape, which takes the place of the axis.
        axis: the axis that is read.
        out: must be None: a recorded result is not written into an array.
        mode: what to do with positions outside: "raise", or "wrap" or "clip" them.
    """
    refuse_out(np.take, out)
    if mode not in ("raise", "wrap", "clip"):
        raise OptionError(f"take: mode must be 'raise', 'wrap' or 'clip'\n  given {mode!r}")
    if axis is None:
        a, axis = np.ravel(a), 0
    axis = axis_from_front("take", axis, a)
    places = np.asarray(plain(indices), dtype=np.intp if np.size(indices) == 0 else None)
    if places.dtype == bool:  # NumPy reads 0 and 1 here; a mask is for a[mask] and np.compress
        places = places.astype(np.intp)
    if places.size and not a.shape[axis] and mode != "raise":
        raise IndexRangeError(f"take: there is nothing to take along axis {axis}\n    a  {a.shape}")
    if mode == "wrap":
        places = places % a.shape[axis]
    elif mode == "clip":
        places = np.clip(places, 0, a.shape[axis] - 1)
    return a[at_axis(axis, places)]


def _along_axis(name: str, arr: Any, indices: Any, axis: int | None) -> tuple[Any, Any]:
    """The array that is indexed and the index that reads, at each place, the position in `indices` along `axis`."""
    indices = np.asarray(plain(indices))
    if axis is None:
        if indices.ndim != 1:
            raise ShapeError(f"{name}: without an axis, indices must be a vector\n  given shape {indices.shape}")
        return np.ravel(arr), (indices,)
    ndim = np.ndim(arr)
    axis = axis_from_front(name, axis, arr)
    if indices.ndim != ndim:
        raise ShapeError(
            f"{name}: arr and indices must have as many axes\n    arr      {np.shape(arr)}\n"
            f"    indices  {indices.shape}\n  np.argmax(…, keepdims=True) keeps the axis; np.take reads along one axis"
        )
    grid = [np.reshape(np.arange(n), [-1 if i == j else 1 for j in range(ndim)]) for i, n in enumerate(np.shape(arr))]
    grid[axis] = indices
    return arr, tuple(grid)


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """At each place, the element that `indices` names along `axis`: what argsort and argmax answer, read.

    y[i, j] = arr[i, indices[i, j]]
    """
    arr, index = _along_axis("take_along_axis", arr, indices, axis)
    return arr[index]


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None = -1) -> Any:
    """A copy of `arr` with `values` at the elements that `indices` name along `axis`.

    Divergence: np.put_along_axis writes into its array; this returns a new one, so that a gradient can be taken.
    """
    target, index = _along_axis("put_along_axis", arr, indices, axis)
    return np.reshape(index_put(target, values, index=index), np.shape(arr))


@implements(np.compress)
def compress(condition: Any, a: Any, axis: int | None = None) -> Any:
    """The slices of `a` along `axis` for which `condition` holds; it may be shorter than the axis."""
    chosen = np.asarray(plain(condition))
    if chosen.ndim != 1:
        raise ShapeError(f"compress: condition must be a vector\n  given shape {chosen.shape}; use a[mask]")
    return take(a, np.flatnonzero(chosen), axis)


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """The elements of `arr`, in order, where `condition` holds."""
    return np.ravel(arr)[np.flatnonzero(plain(condition))]


@implements(np.select)
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0.0) -> Any:
    """At each place, the first choice whose condition holds there, else `default`.

    y = x₁ where c₁, else x₂ where c₂, …; the gradient goes to the choice that was taken
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ShapeError(f"select: one choice per condition\n  given {len(condlist)} and {len(choicelist)}")
    if any(np.asarray(plain(condition)).dtype != bool for condition in condlist):
        raise DtypeError("select: conditions must be boolean, such as x > 0")
    kind = np.result_type(*(plain(value) for value in (*choicelist, default)))  # Python numbers do not widen it
    result = default if hasattr(default, "dtype") else np.asarray(default, kind)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = np.where(plain(condition), choice, result)
    return result


# --- sorting -------------------------------------------------------------------------------------------------------


@op(
    np.sort,
    moves=True,
    complex=False,
    domain=distinct(min_dims=1),
    options={"axis": any_axis_or_none, "kind": one_of(None, "stable")},
)
def sort(x: Any, *, axis: int | None = -1, kind: str | None = None) -> Any:
    """Elements in ascending order along `axis` (all of them if None). Equal elements keep their order.

    y = x[p] with the permutation p that sorts
    """
    return np.sort(x, axis, kind or "stable")  # type: ignore[call-overload]


@sort.gradient("x", formula="dx[p] = dy: each element gets the gradient of the place it was sorted to")
def _(g: Any, out: Any, x: Any, *, axis: int | None, kind: str | None) -> Any:
    order = np.argsort(plain(x), axis, "stable")
    place_of = np.argsort(order, 0 if axis is None else axis, "stable")  # the inverse permutation
    return np.reshape(np.take_along_axis(g, place_of, 0 if axis is None else axis), x.shape)


@implements(np.partition)
def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: None = None) -> Any:
    """The k-th smallest element in its place, smaller ones before it, larger ones behind it, in no certain order."""
    places = np.argpartition(plain(a), kth, axis)
    return take_along_axis(a, places, axis)


# --- what writes into an array -------------------------------------------------------------------------------------

_INSTEAD: dict[Callable[..., Any], str] = {
    np.put: "ta.index_put(np.ravel(t), values, index=…)",
    np.place: "np.where(mask, values, t)",
    np.putmask: "np.where(mask, values, t)",
    np.copyto: "np.where(mask, source, t), np.broadcast_to(t, shape) for np.full, or t.numpy() for plain values",
    np.put_along_axis: "ta.put_along_axis(t, indices, values, axis), which returns a new Tensor",
    np.fill_diagonal: "np.where(np.eye(n, dtype=bool), value, t)",
}


def _refusing(function: Callable[..., Any], instead: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise InPlaceError(
            f"np.{function.__name__} writes into an array: the recorded graph would no longer be true\n  use {instead}"
        )

    refuse.__name__ = function.__name__
    return refuse


for _function, _instead in _INSTEAD.items():
    implements(_function)(_refusing(_function, _instead))
    REFUSED.add(_function)
