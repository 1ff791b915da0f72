"""What NumPy's reductions take beyond an axis: only some of the elements, a start, a dtype to compute in.

Each is written with the reduction itself. An element that is left out gets the gradient 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_attn.arguments import in_dtype, refuse_out
from tinygrad_attn.errors import DtypeError, OptionError, ShapeError
from tinygrad_attn.ops.reduce import std, var
from tinygrad_attn.registry import extends, implements
from tinygrad_attn.tensor import plain


def is_nothing(value: Any) -> bool:
    """Whether an argument was left out; NumPy has two ways of saying so."""
    return value is None or value is np._NoValue


def some_of(x: Any, where: Any, instead: Any) -> Any:
    """`x` with `instead` where it is left out."""
    return x if is_whole(where) else np.where(chosen(x, where), x, instead)


def is_whole(where: Any) -> bool:
    """Whether nothing is left out."""
    return where is True or is_nothing(where)


def chosen(x: Any, where: Any) -> Any:
    """Which elements of `x` count, in its shape."""
    mask = np.asarray(plain(where))
    if mask.dtype != bool:
        raise DtypeError(f"where= must be boolean, True where an element counts\n  given dtype {mask.dtype}")
    try:
        return np.broadcast_to(mask, np.shape(x))
    except ValueError:
        raise ShapeError(
            f"where= must have the shape of what is reduced, or broadcast to it\n"
            f"  expected {np.shape(x)}, given {mask.shape}"
        ) from None


@extends(np.sum)
def _sum(
    x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None, initial: Any = None, where: Any = True
) -> Any:
    x = x if dtype is None else in_dtype(np.sum, x, dtype)
    y = np.sum(some_of(x, where, 0.0), axis=axis, keepdims=keepdims)
    return y if is_nothing(initial) else y + initial


@extends(np.prod)
def _prod(
    x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None, initial: Any = None, where: Any = True
) -> Any:
    x = x if dtype is None else in_dtype(np.prod, x, dtype)
    y = np.prod(some_of(x, where, 1.0), axis=axis, keepdims=keepdims)
    return y if is_nothing(initial) else y * initial


@extends(np.mean)
def mean_of_some(x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None, where: Any = True) -> Any:
    """The mean of the elements that count."""
    x = some_of(x if dtype is None else in_dtype(np.mean, x, dtype), where, 0.0)
    if is_whole(where):
        return np.mean(x, axis=axis, keepdims=keepdims)
    number = np.sum(chosen(x, where), axis=axis, keepdims=keepdims)
    return np.sum(x, axis=axis, keepdims=keepdims) / np.asarray(number, x.dtype)


def _squared_size(x: Any) -> Any:
    return (x * x.conj()).real if np.iscomplexobj(x) else np.square(x)


def variance_of_some(
    x: Any,
    *,
    axis: Any = None,
    keepdims: bool = False,
    correction: float = 0.0,
    where: Any = True,
    mean: Any = None,
) -> Any:
    """The variance of the elements that count, about a mean that may be known already."""
    number = np.sum(np.ones(x.shape, bool) if is_whole(where) else chosen(x, where), axis=axis, keepdims=keepdims)
    if is_nothing(mean):
        mean = mean_of_some(x, axis=axis, keepdims=True, where=where)
    squares = some_of(_squared_size(x - mean), where, 0.0)
    divisor = np.asarray(np.maximum(number - correction, 0), squares.dtype)
    return np.sum(squares, axis=axis, keepdims=keepdims) / divisor


def deviation_of_some(x: Any, **options: Any) -> Any:
    """The square root of `variance_of_some`; its slope where it is 0 is taken as 0."""
    variance = variance_of_some(x, **options)
    none = np.equal(plain(variance), 0.0)
    return np.where(none, 0.0, np.sqrt(np.where(none, 1.0, variance)))


def _spread_of(
    numpy_function: Callable[..., Any], of_all: Callable[..., Any], of_some: Callable[..., Any]
) -> Callable[..., Any]:
    """`var` or `std` with NumPy's arguments; `ddof` is the older name for `correction`."""
    name = numpy_function.__name__

    def spread(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = None,
        correction: Any = None,
    ) -> Any:
        refuse_out(numpy_function, out)
        if ddof and not is_nothing(correction):
            raise OptionError(f"{name}: ddof and correction are two names of one thing\n  give one of them")
        options = {"axis": axis, "keepdims": keepdims, "correction": ddof if is_nothing(correction) else correction}
        a = a if dtype is None else in_dtype(numpy_function, a, dtype)
        if is_whole(where) and is_nothing(mean):
            return of_all(a, **options)
        return of_some(a, **options, where=where, mean=mean)

    return spread


implements(np.var)(_spread_of(np.var, var, variance_of_some))
implements(np.std)(_spread_of(np.std, std, deviation_of_some))


def _largest(reduction: Callable[..., Any], of_two: Callable[..., Any]) -> None:
    @extends(reduction)
    def extreme_of_some(
        x: Any, *, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Any:
        if is_nothing(initial) and not is_whole(where):
            raise OptionError(f"{reduction.__name__}: where= needs initial=, the answer if nothing counts")
        if is_nothing(initial):
            return reduction(x, axis=axis, keepdims=keepdims)
        if np.size(x) == 0:
            return reduction(plain(x), axis=axis, keepdims=keepdims, initial=initial)
        return of_two(reduction(some_of(x, where, initial), axis=axis, keepdims=keepdims), initial)


for _reduction, _of_two in ((np.max, np.maximum), (np.min, np.minimum), (np.amax, np.maximum), (np.amin, np.minimum)):
    _largest(_reduction, _of_two)
