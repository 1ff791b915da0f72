"""Arrays as small tables, or summed up in a line where they are too large to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dot import Cell, Table
from .numbers import significant

__all__ = ["fits", "matrix", "summary"]

MOST_ELEMENTS = 36
MOST_COLUMNS = 6


def fits(shape: tuple[int, ...]) -> bool:
    """Says whether an array of this shape is small enough to be shown in full."""
    size = int(np.prod(shape, dtype=np.int64))
    return 0 < size <= MOST_ELEMENTS and len(shape) <= 3 and (not shape or shape[-1] <= MOST_COLUMNS)


def matrix(values: NDArray[Any], *, ink: str, rule: str, fill: str = "") -> Table:
    """Writes a small array as a table of numbers; the planes of a 3-d array stand below one another.

    Args:
        values: an array that `fits`.
        ink, rule, fill: colours of the numbers, of the lines between them and of the ground.
    """
    planes = values.reshape((-1, *values.shape[-2:])) if values.ndim > 2 else values.reshape((1, *_two(values.shape)))
    columns = planes.shape[-1]
    rows: list[tuple[Cell, ...]] = []
    for number, plane in enumerate(planes):
        if number:
            rows.append((Cell("", {"colspan": columns, "height": 3, "cellpadding": 0, "border": 0}),))
        for row in plane:
            rows.append(
                tuple(Cell(significant(value), {"align": "right"}, color=ink, size=10) for value in row.tolist())
            )
    attributes: dict[str, str | int] = {"border": 0, "cellborder": 1, "cellspacing": 0, "cellpadding": 3, "color": rule}
    if fill:
        attributes["bgcolor"] = fill
    return Table(tuple(rows), attributes)


def _two(shape: tuple[int, ...]) -> tuple[int, int]:
    """A shape of at most two axes as (rows, columns)."""
    padded = (1, 1, *shape)
    return padded[-2], padded[-1]


def summary(values: NDArray[Any]) -> Mapping[str, str]:
    """Sums up an array: mean, least and greatest (of complex numbers, the greatest size); how many are not finite."""
    if values.size == 0:
        return {"": "empty"}
    if values.dtype == np.bool_:
        return {"": f"{np.count_nonzero(values):,} of {values.size:,} True"}
    finite = values[np.isfinite(values)] if values.dtype.kind in "fc" else values.ravel()
    facts: dict[str, str] = {}
    if finite.size and finite.dtype.kind == "c":  # there is no least complex number
        facts["mean"] = significant(complex(finite.mean(dtype=np.complex128)))
        facts["max |z|"] = significant(np.abs(finite).max().item())
    elif finite.size:
        facts["mean"] = significant(float(finite.mean(dtype=np.float64)))
        facts["min"] = significant(finite.min().item())
        facts["max"] = significant(finite.max().item())
    lost = values.size - finite.size
    if lost:
        facts["not finite"] = f"{lost:,} of {values.size:,}"
    return facts
