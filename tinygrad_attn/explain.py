"""The words of errors: which operation, which operands with their shapes, which axis clashes, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.exceptions import AxisError

from tinygrad_attn.errors import AxisRangeError, DtypeError, IndexRangeError, ShapeError, TinygradAttnError
from tinygrad_attn.graph import is_tensor

if TYPE_CHECKING:
    from tinygrad_attn.operation import Operation


def failure(
    operation: Operation, inputs: Sequence[Any], options: dict[str, Any], error: Exception
) -> TinygradAttnError:
    """The typed error to raise in place of NumPy's `error`."""
    if isinstance(error, AxisError):
        return AxisRangeError(f"{operation.name}: {error}\n{operands(operation, inputs)}")
    if isinstance(error, IndexError):
        return IndexRangeError(f"{operation.name}: {error}\n{operands(operation, inputs)}")
    if isinstance(error, TypeError):
        return DtypeError(f"{operation.name}: {error}\n{operands(operation, inputs)}")
    shapes = [np.shape(value) if not is_tensor(value) else value.shape for value in inputs if value is not None]
    reason = operation.clash(*shapes, **options) if operation.clash is not None else None
    return ShapeError(f"{operation.name}: {reason or error}\n{operands(operation, inputs)}")


def operands(operation: Operation, inputs: Sequence[Any]) -> str:
    """One aligned line per operand: its name and shape."""
    rows = []
    for parameter, value in operation.named_inputs(inputs):
        if value is not None:
            name = getattr(value, "name", None)
            shape = value.shape if hasattr(value, "shape") else np.shape(value)
            rows.append((f"{parameter} ({name})" if name else parameter, str(shape)))
    width = max((len(label) for label, _ in rows), default=0)
    return "\n".join(f"    {label:<{width}}  {shape}" for label, shape in rows)


def broadcast_clash(*shapes: tuple[int, ...], **_: Any) -> str | None:
    """Why `shapes` do not broadcast: the first axis, from the right, where two lengths differ and none is 1."""
    longest = max(len(shape) for shape in shapes)
    for axis in range(-1, -longest - 1, -1):
        lengths = [shape[axis] for shape in shapes if len(shape) >= -axis]
        real = sorted({length for length in lengths if length != 1})
        if len(real) > 1:
            clash = " ≠ ".join(str(length) for length in lengths)
            return (
                f"the shapes do not broadcast: {clash} on axis {axis}, and neither is 1\n"
                "  axes are aligned from the right; insert one with np.expand_dims, or check the order of the axes"
            )
    return None


def matmul_clash(a: tuple[int, ...], b: tuple[int, ...], **_: Any) -> str | None:
    """Why `a @ b` cannot be: a 0-d operand, inner axes that differ, or leading axes that do not broadcast."""
    if not a or not b:
        return "an operand has no axis to sum over\n  use * to multiply with a number"
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        hint = ""
        if len(b) > 1 and a[-1] == b[-1]:
            hint = "\n  the last axes agree: did you mean a @ np.swapaxes(b, -1, -2)?"
        elif len(a) > 1 and a[-2] == inner:
            hint = "\n  the axes before agree: did you mean np.swapaxes(a, -1, -2) @ b?"
        return f"the inner axes differ: {a[-1]} ≠ {inner} on the axis that is summed{hint}"
    return broadcast_clash(a[:-2], b[:-2]) if len(a) > 2 and len(b) > 2 else None


def reshape_clash(x: tuple[int, ...], *, shape: Any) -> str | None:
    """Why `x` cannot take `shape`."""
    size = int(np.prod(x, dtype=int))
    return f"{size} elements of shape {x} do not fill shape {shape}\n  one length may be -1 to be worked out"


def first_not_finite(operation: Operation, out: Any, arrays: Sequence[Any], line: str) -> str:
    """The message for the operation that makes the first NaN or infinity."""
    place = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
    rows = []
    for index, value in enumerate(arrays):
        if value is not None:
            given = np.asarray(value)
            at = place if given.shape == np.shape(out) else ()
            shown = given[at] if at or given.ndim == 0 else f"shape {given.shape}"
            rows.append(f"    {operation.parameter_at(index)} = {shown}")
    inputs = "\n".join(rows)
    return f"{operation.name} made {out[place]} at {place} from finite inputs\n{inputs}\n  at {line}"
