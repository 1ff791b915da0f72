"""Reading elements by position, and its mirror image: adding gradients back at the positions they were read from."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser
from tinygrad_attn.errors import AxisRangeError, DtypeError, IndexRangeError, ShapeError
from tinygrad_attn.operation import op
from tinygrad_attn.registry import IMPLEMENTATIONS, implements
from tinygrad_attn.tensor import as_array, plain


def plain_index(index: Any, *, copy: bool | None = True) -> Any:
    """An index without Tensors and lists in it; arrays are copied, so that later changes cannot reach the graph.

    Without a copy (`copy=None`) it is fit for use at once, not for keeping.
    """
    if isinstance(index, tuple):
        return tuple(plain_index(part, copy=copy) for part in index)
    if isinstance(index, (slice, int, type(None), type(Ellipsis), np.integer, bool)):
        return index
    places = np.array(plain(index), copy=copy)
    return places.astype(np.intp) if isinstance(index, list) and not places.size else places  # [] has no dtype


def is_basic(index: Any) -> bool:
    """Whether no element can be read twice: whole numbers, slices, None and Ellipsis only."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(isinstance(p, (slice, int, type(None), type(Ellipsis), np.integer)) for p in parts)


def is_mask(index: Any) -> bool:
    """Whether the only array in `index` is boolean: then too, no element is read twice."""
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    return len(arrays) == 1 and arrays[0].dtype == bool and is_basic(tuple(p for p in parts if p is not arrays[0]))


def at_axis(axis: int, index: Any) -> tuple[Any, ...]:
    """The index that applies `index` along `axis` (counted from the front) and takes the axes before it whole."""
    return (*(slice(None),) * axis, index)


def axis_from_front(name: str, axis: int, x: Any) -> int:
    """`axis` counted from the front.

    Raises:
        AxisRangeError: `x` has no such axis; the message begins with `name`.
    """
    ndim = np.ndim(x)
    if not -ndim <= axis < ndim:
        raise AxisRangeError(f"{name}: axis {axis} is out of bounds\n  given shape {np.shape(x)}")
    return axis % ndim


def _some_index(choose: Chooser, inputs: tuple[Any, ...]) -> Any:
    ndim, first = inputs[0].ndim, inputs[0].shape[0]
    rows = choose.integers((choose.integer(0, 4),), -first, first - 1)  # repeats and negative positions
    return choose.pick(
        [
            Ellipsis,
            None,
            0,
            -1,
            slice(None, None, -1),
            slice(1, None, 2),
            rows,
            (Ellipsis, 0),
            (None, slice(0, 2)),
            choose.booleans((first,)),
            (rows, Ellipsis, None) if ndim > 1 else rows,
            (choose.integers((2, 2), 0, first - 1),),
        ]
    )


def _indexable(choose: Chooser) -> tuple[Any, ...]:
    return (choose.reals(choose.shape(1, 3, 1, 3)),)


def _basic_place(options: dict[str, Any]) -> Any:
    index = plain_index(options["index"], copy=None)
    return (index if isinstance(index, tuple) else (index,)) if is_basic(index) else None


@op(symbol="[ ]", moves=True, reads_at=_basic_place, domain=_indexable, options={"index": _some_index})
def getitem(x: Any, *, index: Any) -> Any:
    """Elements of `x` at `index`: whole numbers, slices, None, Ellipsis, integer or boolean arrays.

    y = x[index]
    """
    return x[plain_index(index, copy=None)]


@getitem.gradient("x", formula="dx[index] += dy")
def _(g: Any, out: Any, x: Any, *, index: Any) -> Any:
    return scatter_add(g, index=index, shape=x.shape)


IMPLEMENTATIONS[operator.getitem] = lambda x, index: getitem(x, index=plain_index(index))


RUNS_PAY = 4096  # elements from which sorting positions and summing runs is faster than np.add.at


def _along_one_axis(index: Any, given: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, int] | None:
    """The positions and the axis, if `index` takes integer positions along one axis and the others whole."""
    parts = list(index) if isinstance(index, tuple) else [index]
    place = next((i for i, part in enumerate(parts) if isinstance(part, np.ndarray)), None)
    if place is None or parts[place].dtype.kind not in "iu":
        return None
    positions, others = parts[place], parts[:place] + parts[place + 1 :]
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if not all(part is Ellipsis or (isinstance(part, slice) and part == slice(None)) for part in others):
        return None
    axis = place if not dots or dots[0] > place else place + len(shape) - len(parts)
    length, after = shape[axis], int(np.prod(shape[axis + 1 :], dtype=int))
    wide = positions.size > 0 and after * int(np.prod(shape[:axis], dtype=int)) >= 8
    if not wide or given != (*shape[:axis], *positions.shape, *shape[axis + 1 :]):
        return None  # few elements per position, or values that broadcast
    if positions.min() < -length or positions.max() >= length:
        return None  # NumPy says it better
    return np.where(positions < 0, positions + length, positions), axis


def _sum_runs(values: Any, positions: Any, axis: int, shape: tuple[int, ...]) -> Any:
    """Add up values of equal position along an axis: sorted, each position is one run."""
    before, after = (int(np.prod(sides, dtype=int)) for sides in (shape[:axis], shape[axis + 1 :]))
    flat = positions.reshape(-1)
    out = np.zeros((before, shape[axis], after), values.dtype)
    if flat.size:
        order = np.argsort(flat, kind="stable")
        ascending = flat[order]
        starts = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])
        rows = values.reshape(before, flat.size, after)[:, order]
        out[:, ascending[starts]] = np.add.reduceat(rows, starts, axis=1)
    return out.reshape(shape)


def _scattered(choose: Chooser) -> tuple[Any, ...]:
    return (choose.reals((choose.integer(0, 4), 2)),)


@op(
    symbol="scatter",
    moves=True,
    domain=_scattered,
    options={
        "index": lambda choose, inputs: choose.integers((inputs[0].shape[0],), -3, 2),
        "shape": lambda choose, inputs: (3, 2),
    },
)
def scatter_add(values: Any, *, index: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of `shape` with `values` added at `index`; a position that occurs twice receives both.

    y = 0; y[index] += values
    """
    index = plain_index(index, copy=None)
    if values.size >= RUNS_PAY and (found := _along_one_axis(index, values.shape, shape)) is not None:
        return _sum_runs(values, *found, shape)
    out = np.zeros(shape, values.dtype)
    if is_basic(index) or is_mask(index):
        out[index] = values
    else:
        np.add.at(out, index, values)
    return out


@scatter_add.gradient("values", formula="dvalues = dy[index]")
def _(g: Any, out: Any, values: Any, *, index: Any, shape: tuple[int, ...]) -> Any:
    return g[plain_index(index, copy=None)]


def _put(choose: Chooser) -> tuple[Any, ...]:
    return choose.reals((3, 2)), choose.reals(choose.pick([(2,), (1, 2), ()]))


def _some_places(choose: Chooser, inputs: tuple[Any, ...]) -> Any:
    """Places of which none occurs twice."""
    mask = np.array([choose.pick([True, False]) for _ in range(3)])
    return choose.pick([0, -1, slice(0, 2), (slice(1, 3),), np.array([2, 0]), mask, (slice(None), np.array([1, 0]))])


@op(
    symbol="put",
    complex=True,
    domain=_put,
    options={"index": _some_places},
)
def index_put(x: Any, values: Any, *, index: Any) -> Any:
    """A copy of `x` with `values` at `index`: the functional spelling of `x[index] = values`.

    y = x; y[index] = values. No position may occur twice in `index`: which of two values won would be undefined.
    """
    index = plain_index(index, copy=None)
    if not (is_basic(index) or is_mask(index)):
        places = np.arange(x.size).reshape(x.shape)[index]
        if len(np.unique(places)) != places.size:
            raise IndexRangeError(
                "index_put: a position occurs twice in the index\n  use scatter_add to add both values"
            )
    out = np.array(x, dtype=np.result_type(x, values))
    out[index] = values
    return out


@index_put.gradient("x", formula="dx = dy, and 0 at index")
def _(g: Any, out: Any, x: Any, values: Any, *, index: Any) -> Any:
    untouched = np.ones(x.shape, dtype=bool)
    untouched[plain_index(index, copy=None)] = False
    return np.where(untouched, g, 0.0)


@index_put.gradient("values", formula="dvalues = dy[index]")
def _(g: Any, out: Any, x: Any, values: Any, *, index: Any) -> Any:
    read = g[plain_index(index, copy=None)]
    leading = max(values.ndim - read.ndim, 0)  # as in an assignment, values may have axes of length 1 in front
    return np.reshape(read, (1,) * leading + read.shape)


@implements(np.bincount)
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each whole number occurs, or the sum of the weights at its places.

    yᵢ = Σ weights over the places where x = i

    Args:
        x: a vector of whole numbers, none negative.
        weights: as many numbers; without them, the answer is plain integers.
        minlength: at least so many elements.
    """
    places = np.asarray(plain(x))
    counts = np.bincount(places, minlength=minlength)
    if weights is None:
        return counts
    weights = as_array(weights)
    if np.shape(weights) != places.shape:
        raise ShapeError(
            f"bincount: one weight per place\n    x        {places.shape}\n    weights  {np.shape(weights)}"
        )
    return scatter_add(weights, index=places, shape=counts.shape)


# --- rows of a table ---------------------------------------------------------------------------------------------


def check_ids(ids: Any, count: int, what: str) -> None:
    """Raise unless `ids` are integers in [0, count)."""
    if ids.dtype.kind not in "iu":
        raise DtypeError(f"{what} must be integers\n  given dtype {ids.dtype}")
    if ids.size and (ids.min() < 0 or ids.max() >= count):
        bad = ids[(ids < 0) | (ids >= count)].flat[0]
        raise IndexRangeError(
            f"{what} must lie in [0, {count})\n  given {bad}; was the text encoded with this vocabulary?"
        )


def _table(choose: Chooser) -> tuple[Any, ...]:
    rows = choose.integer(1, 4)
    return choose.reals((rows, choose.integer(0, 3))), choose.integers(choose.shape(0, 2), 0, rows - 1)


@op(complex=True, domain=_table, options={"padding_index": lambda choose, inputs: None})
def embedding(weight: Any, ids: Any, *, padding_index: int | None = None) -> Any:
    """The rows of a table that `ids` name; a row that is read twice receives both gradients.

    y = W[ids], (vocabulary, dim) at (...) -> (..., dim)

    Args:
        weight: (vocabulary, dim).
        ids: (...), integers.
        padding_index: this row's gradient is zero: padding teaches nothing.
    Raises:
        DtypeError: ids are not integers.
        IndexRangeError: an id is negative or not below the size of the vocabulary.
    """
    check_ids(ids, len(weight), "embedding: ids")
    return weight[ids]


@embedding.gradient("weight", formula="dW[id] = Σ dy over the places that read row id")
def _(g: Any, out: Any, weight: Any, ids: Any, *, padding_index: int | None) -> Any:
    ids = plain(ids)
    if padding_index is not None:
        g = np.where(np.equal(ids, padding_index)[..., None], 0.0, g)
    return sum_rows(g, ids, num_rows=weight.shape[0])


def _rows(choose: Chooser) -> tuple[Any, ...]:
    ids = choose.integers(choose.shape(0, 2), 0, 2)
    return choose.reals((*ids.shape, 2)), ids


@op(complex=True, domain=_rows, options={"num_rows": lambda choose, inputs: 3})
def sum_rows(values: Any, ids: Any, *, num_rows: int) -> Any:
    """Row `id` of the result is the sum of the values at the places that hold `id`.

    y[id] = Σ values, (..., dim) at (...) -> (num_rows, dim)
    """
    return _sum_runs(values, ids, 0, (num_rows, values.shape[-1]))


@sum_rows.gradient("values", formula="dvalues = dy[ids]")
def _(g: Any, out: Any, values: Any, ids: Any, *, num_rows: int) -> Any:
    return g[plain(ids)]
