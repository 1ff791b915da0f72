"""Methods of NumPy's elementwise functions: `np.add.reduce`, `np.multiply.outer`, `np.maximum.accumulate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_attn.errors import InPlaceError, UnsupportedFunctionError
from tinygrad_attn.ops.index import axis_from_front
from tinygrad_attn.ops.plain import PLAIN_FUNCTIONS
from tinygrad_attn.ops.reduce import logsumexp
from tinygrad_attn.ops.take import take_along_axis
from tinygrad_attn.registry import UFUNC_METHODS, call
from tinygrad_attn.tensor import plain

REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
}
RUNNING: dict[Any, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod}


def reduce(ufunc: np.ufunc, x: Any, *, axis: Any = 0, **options: Any) -> Any:
    """All elements along `axis` in one: the sum for np.add, the largest for np.maximum."""
    if ufunc in PLAIN_FUNCTIONS:
        return ufunc.reduce(plain(x), axis=axis, **options)
    if ufunc is np.logaddexp:
        return logsumexp(x, axis=axis, **options)
    return call(_known(ufunc, "reduce", REDUCTIONS), (x,), {"axis": axis, **options})


def accumulate(ufunc: np.ufunc, x: Any, *, axis: int = 0, **options: Any) -> Any:
    """What `reduce` has found so far, at each place along `axis`."""
    if ufunc in PLAIN_FUNCTIONS:
        return ufunc.accumulate(plain(x), axis=axis, **options)
    if ufunc in (np.maximum, np.minimum):
        return _extreme_so_far(ufunc, x, axis)
    return call(_known(ufunc, "accumulate", RUNNING), (x,), {"axis": axis, **options})


def _extreme_so_far(ufunc: np.ufunc, x: Any, axis: int) -> Any:
    """The largest or smallest element so far; of equal ones the first gets the gradient."""
    axis = axis_from_front(f"{ufunc.__name__}.accumulate", axis, x)
    found = np.moveaxis(ufunc.accumulate(plain(x), axis=axis), axis, 0)
    places = np.reshape(np.arange(len(found)), (-1,) + (1,) * (found.ndim - 1)) * np.ones(found.shape, int)
    places[1:][found[1:] == found[:-1]] = 0  # nothing new here: read where it was found
    return take_along_axis(x, np.moveaxis(np.maximum.accumulate(places), 0, axis), axis)


def outer(ufunc: np.ufunc, a: Any, b: Any, **options: Any) -> Any:
    """Every element of `a` with every element of `b`: shapes (n,) and (m,) give (n, m)."""
    if ufunc in PLAIN_FUNCTIONS:
        return ufunc.outer(plain(a), plain(b), **options)
    return call(ufunc, (np.reshape(a, np.shape(a) + (1,) * np.ndim(b)), b), options)


def at(ufunc: np.ufunc, a: Any, *others: Any) -> Any:
    """Refused: it writes into its first argument."""
    raise InPlaceError(
        f"np.{ufunc.__name__}.at writes into an array: the recorded graph would no longer be true\n"
        "  use t + ta.scatter_add(values, index=…, shape=t.shape), which is a new Tensor"
    )


def _known(ufunc: np.ufunc, method: str, table: dict[Any, Callable[..., Any]]) -> Callable[..., Any]:
    if ufunc not in table:
        known = ", ".join(f"np.{one.__name__}" for one in table)
        raise UnsupportedFunctionError(
            f"np.{ufunc.__name__}.{method} has no gradient rule\n  {method} is known of {known}"
        )
    return table[ufunc]


UFUNC_METHODS.update(reduce=reduce, accumulate=accumulate, outer=outer, at=at)
