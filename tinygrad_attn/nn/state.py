"""The arrays of a module's state: what a buffer may hold, and what a saved state must be like to fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import DtypeError
from tinygrad_attn.settings import as_mapping
from tinygrad_attn.tensor import Tensor

Array = NDArray[Any]


def buffer_values(owner: str, values: Any) -> Array:
    """An array of its own with the values of a buffer."""
    if isinstance(values, Tensor) and values.requires_grad:
        raise DtypeError(f"{owner} is a buffer, which carries no gradient\n  given {values!r}; write tensor.detach()")
    array = np.array(values)
    if array.dtype.kind not in "biufc":
        raise DtypeError(
            f"{owner}: a buffer holds numbers or booleans\n  given {type(values).__name__} of dtype {array.dtype}"
        )
    return array


def in_precision(dtype: np.dtype[Any], wanted: np.dtype[Any]) -> np.dtype[Any]:
    """`wanted`, or for complex numbers the dtype with two of it."""
    return np.result_type(wanted, np.complex64) if dtype.kind == "c" else wanted


def read_state(state: Any) -> dict[str, Array]:
    """Arrays by path, copied: they may be views of the parameters that are about to be overwritten.

    Raises:
        DtypeError: no mapping.
    """
    return {path: np.array(values) for path, values in as_mapping(state).items()}


def misfits(own: Mapping[str, Array], given: Mapping[str, Array]) -> list[str]:
    """A line for every array of another shape or kind, and for tied paths that disagree."""
    faults, first = [], dict[int, str]()
    for path, array in own.items():
        if path not in given:
            continue
        values, before = given[path], first.setdefault(id(array), path)
        if values.shape != array.shape:
            faults.append(f"mis-shaped  {path}  expected {array.shape}, given {values.shape}")
        elif not np.can_cast(values.dtype, array.dtype, casting="same_kind"):
            faults.append(f"mis-typed   {path}  expected {array.dtype}, given {values.dtype}")
        elif _overflows(values, array.dtype):
            faults.append(f"too large   {path}  expected numbers of {array.dtype}, given some of {values.dtype}")
        elif not np.array_equal(values, given[before], equal_nan=values.dtype.kind in "fc"):
            faults.append(f"disagrees   {path}  is one parameter with {before}, and their values differ")
    return faults


def _overflows(values: Array, dtype: np.dtype[Any]) -> bool:
    with np.errstate(all="ignore"):
        converted = values.astype(dtype)
    if dtype.kind in "fc":
        return bool((np.isfinite(values) & ~np.isfinite(converted)).any())
    return bool((converted != values).any())
