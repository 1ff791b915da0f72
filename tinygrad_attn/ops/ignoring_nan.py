"""Reductions that leave NaN out, under NumPy's names: each is the plain one with `where=`; NaN gets the gradient 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_attn.arguments import refuse_out
from tinygrad_attn.ops.reduce_where import chosen
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import plain


def _is_number(a: Any) -> Any:
    return ~np.isnan(plain(a))


def _counted(numpy_function: Callable[..., Any], reduction: Callable[..., Any]) -> None:
    @implements(numpy_function)
    def over_numbers(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        refuse_out(numpy_function, out)
        start = {} if initial is None else {"initial": initial}
        where = _is_number(a) & chosen(a, where)
        return reduction(a, axis=axis, dtype=dtype, keepdims=keepdims, where=where, **start)


def _averaged(numpy_function: Callable[..., Any], reduction: Callable[..., Any]) -> None:
    @implements(numpy_function)
    def over_numbers(
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
        where = _is_number(a) & chosen(a, where)
        return reduction(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)


def _extreme(numpy_function: Callable[..., Any], reduction: Callable[..., Any], least: float) -> None:
    @implements(numpy_function)
    def over_numbers(
        a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Any:
        refuse_out(numpy_function, out)
        where = _is_number(a) & chosen(a, where)
        y = reduction(a, axis=axis, keepdims=keepdims, initial=least if initial is None else initial, where=where)
        nothing = ~np.any(where, axis=axis, keepdims=keepdims)
        return np.where(nothing, np.nan, y) if initial is None and np.any(nothing) else y


def _running(numpy_function: Callable[..., Any], running: Callable[..., Any], neutral: float) -> None:
    @implements(numpy_function)
    def over_numbers(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        refuse_out(numpy_function, out)
        return running(np.where(_is_number(a), a, neutral), axis=axis, dtype=dtype)


@implements(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, *, where: Any = True
) -> Any:
    """The mean of what is a number."""
    refuse_out(np.nanmean, out)
    return np.mean(a, axis=axis, dtype=dtype, keepdims=keepdims, where=_is_number(a) & chosen(a, where))


_counted(np.nansum, np.sum)
_counted(np.nanprod, np.prod)
_averaged(np.nanvar, np.var)
_averaged(np.nanstd, np.std)
_extreme(np.nanmax, np.max, -np.inf)
_extreme(np.nanmin, np.min, np.inf)
_running(np.nancumsum, np.cumsum, 0.0)
_running(np.nancumprod, np.cumprod, 1.0)
