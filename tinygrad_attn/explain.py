"""The words of errors: which operation, which operands with their shapes, which axis clashes, what to do."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.exceptions import AxisError

from tinygrad_attn.errors import (
    AxisRangeError,
    DtypeError,
    GradientError,
    IndexRangeError,
    InPlaceError,
    NotFiniteError,
    ShapeError,
    TinygradAttnError,
)
from tinygrad_attn.graph import is_tensor

if TYPE_CHECKING:
    from tinygrad_attn.graph import Node
    from tinygrad_attn.operation import Operation
    from tinygrad_attn.tensor import Tensor


def failure(
    operation: Operation, inputs: Sequence[Any], options: dict[str, Any], error: Exception
) -> TinygradAttnError:
    """The typed error to raise in place of NumPy's `error`."""
    if isinstance(error, AxisError):
        return AxisRangeError(f"{operation.name}: {error}\n{operands(operation, inputs)}")
    if isinstance(error, IndexError):
        return IndexRangeError(f"{operation.name}: {error}\n{operands(operation, inputs)}")
    if "read-only" in str(error) and not operation.built_in:
        return InPlaceError(
            f"{operation.name}: the forward formula writes into its input, which belongs to the caller\n"
            "  compute a new array, as in x = x * 2 in place of x *= 2"
        )
    if isinstance(error, TypeError):
        return DtypeError(f"{operation.name}: {error}\n{operands(operation, inputs)}")
    shapes = [np.shape(value) if not is_tensor(value) else value.shape for value in inputs if value is not None]
    needed = inspect.signature(operation.forward).parameters
    for name, value in operation.named_inputs(inputs):
        if value is None and name in needed and needed[name].default is inspect.Parameter.empty:
            return DtypeError(f"{operation.name}: {name} is None\n{operands(operation, inputs)}")
    reason = operation.clash(*shapes, **options) if operation.clash is not None else None
    return ShapeError(f"{operation.name}: {reason or error}\n{operands(operation, inputs)}")


def plain_failure(name: str, values: Sequence[Any], error: Exception) -> Exception:
    """The typed error in place of NumPy's, for a function that answers with plain values; else NumPy's own."""
    if isinstance(error, AxisError):
        return AxisRangeError(f"{name}: {error}\n  given shape {np.shape(values[0])}")
    if "could not be broadcast" in str(error):
        shapes = [np.shape(value) for value in values]
        return ShapeError(f"{name}: {broadcast_clash(*shapes) or error}\n  given {', '.join(map(str, shapes))}")
    if str(error).startswith("ufunc"):
        kinds = ", ".join(str(value.dtype) if hasattr(value, "dtype") else type(value).__name__ for value in values)
        return DtypeError(f"{name}: these cannot be put together\n  expected numbers, given {kinds}")
    return error


def no_array(dtype: Any, error: Exception) -> TinygradAttnError:
    """The typed error where NumPy could make no array of what a Tensor was to hold."""
    if "inhomogeneous" in str(error):
        return ShapeError("nested lists must have one length on each level\n  given lists of several lengths; pad them")
    if "not understood" in str(error):
        return DtypeError(f"dtype must be one of NumPy's, such as np.float32\n  given {dtype!r}")
    return DtypeError(f"no array of {dtype or 'numbers'} can be made of the data\n  {error}")


def check_result(operation: Operation, result: Any) -> None:
    """Raise unless a forward formula has returned its result, one array; if fused, a pair of it and what is saved.

    Raises:
        GradientError: it returned something else.
    """
    came = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__.removesuffix("Type")
    if operation.reference is not None and (not isinstance(result, tuple) or len(result) != 2):
        raise GradientError(
            f"{operation.name}: the forward of a fused operation returns a pair (out, saved)\n"
            f"  given {came}; saved is what its gradient rule needs, or None"
        )
    if operation.reference is None:
        raise GradientError(
            f"{operation.name}: the forward formula returned {came}\n  it must return its result, one array"
        )


def operands(operation: Operation, inputs: Sequence[Any]) -> str:
    """One aligned line per operand: its name and shape."""
    rows = []
    for parameter, value in operation.named_inputs(inputs):
        if value is not None:
            name = getattr(value, "name", None)
            shape = value.shape if hasattr(value, "shape") else np.shape(value)
            rows.append((f"{parameter} ({name})" if name else parameter, str(shape)))
    return _aligned(rows) if rows else "    (no operands)"


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


def concatenate_clash(*shapes: tuple[int, ...], axis: int | None) -> str | None:
    """Why arrays of `shapes` cannot be joined: another number of axes, or another length beside the joined axis."""
    if not shapes:
        return "there is nothing to join: the list is empty"
    if axis is None:
        return None
    if any(not shape for shape in shapes):
        return "a single number has no axis to be joined along\n  np.stack joins numbers, along a new axis"
    first = shapes[0]
    for index, shape in enumerate(shapes):
        if len(shape) != len(first):
            return (
                f"arrays[0] has {len(first)} axes, arrays[{index}] has {len(shape)}\n"
                "  np.expand_dims adds one of length 1, or np.stack joins along a new one"
            )
        differing = [i for i, n in enumerate(first) if shape[i] != n and i != axis % len(first)]
        if differing:
            i = differing[0]
            fits = len(differing) == 1 and shape[axis] == first[axis]
            return (
                f"beside axis {axis}, along which they are joined, all lengths must agree\n"
                f"  axis {i} is {first[i]} in arrays[0] and {shape[i]} in arrays[{index}]"
                + (f"; they can be joined along axis {i}" if fits else "")
            )
    return None


def stack_clash(*shapes: tuple[int, ...], axis: int) -> str | None:
    """Why arrays of `shapes` cannot be stacked: which one differs from the first."""
    if not shapes:
        return "there is nothing to stack: the list is empty"
    for index, shape in enumerate(shapes):
        if shape != shapes[0]:
            return (
                f"all arrays must have one shape: arrays[0] has {shapes[0]}, arrays[{index}] has {shape}\n"
                "  np.concatenate joins arrays that differ along one axis; pad shorter ones first"
            )
    return None


# --- the first NaN or infinity -------------------------------------------------------------------------------------


def watch_forward(
    operation: Operation, node: Node | None, out: Any, arrays: Sequence[Any], options: dict[str, Any]
) -> None:
    """Note the line of user code that applied `operation`, and raise if it made a NaN or an infinity.

    One that was put in, among the inputs or as an option (a masked score is filled with −∞), is no anomaly.
    """
    line = user_line()
    if node is not None:
        node.source = line
    if _is_finite(out) or not all(_is_finite(value) for value in (*arrays, *options.values())):
        return
    place = _first_place(out)
    rows = [
        (operation.parameter_at(index), _shown(value, place, np.shape(out)))
        for index, value in enumerate(arrays)
        if value is not None
    ]
    raise NotFiniteError(
        f"{operation.name} made {out[place]} at {place} from finite inputs\n{_aligned(rows)}\n{_quoted(line)}"
    )


def watch_backward(node: Node, gradient: Any, out: Tensor, contributions: Sequence[tuple[int, Any]]) -> None:
    """Raise if a gradient rule of `node` made a NaN or an infinity from a finite gradient."""
    if not _is_finite(gradient):
        return
    for index, contribution in contributions:
        values = np.asarray(contribution)
        if _is_finite(values):
            continue
        operation, place = node.operation, _first_place(values)
        parameter = operation.parameter_at(index)
        rows = [
            (name, _shown(value.numpy() if is_tensor(value) else value, place, values.shape))
            for name, value in operation.named_inputs(node.inputs)
            if value is not None
        ]
        rows.append(("result", _shown(out.numpy(), place, values.shape)))
        rows.append(("gradient of the result", _shown(gradient, place, values.shape)))
        formula = operation.formulas.get(operation.parameters[min(index, len(operation.parameters) - 1)])
        raise NotFiniteError(
            f"{operation.name}: the gradient of {parameter} is {values[place]} at {place}, "
            f"made from a finite gradient of the result\n{_aligned(rows)}\n"
            + (f"  rule: {formula}\n" if formula else "")
            + _quoted(node.source)
        )


def user_line() -> str:
    """The innermost line outside this package, as "file:line"."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tinygrad_attn"):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def no_rule(operation: Operation, index: int) -> GradientError:
    """The error for an operand that requires a gradient where there is no rule for it."""
    name = operation.parameter_at(index)
    return GradientError(
        f"{operation.name} has no gradient rule for its input {name!r}, which requires one\n"
        f"  pass {name}.detach(), or attach a rule with @{operation.name}.gradient(...)"
    )


def wrong_number(operation: Operation, answers: Any) -> GradientError:
    """The error for a joint rule that did not return one gradient for each input."""
    came = f"{len(answers)}" if isinstance(answers, tuple) else type(answers).__name__
    return GradientError(
        f"{operation.name}: the rule must return a tuple of {len(operation.rules)}\n  it returned {came}"
    )


def impossible_answer(operation: Operation, index: int, gradient: Any, source: Tensor) -> GradientError:
    """The error for what a rule returned, if it is no gradient of its operand `source`."""
    came = f"{gradient.dtype} {gradient.shape}" if hasattr(gradient, "shape") else type(gradient).__name__
    numbers = "numbers" if operation.complex else "real numbers"
    return GradientError(
        f"{operation.name}: the rule for {operation.parameter_at(index)!r} returned {came}\n"
        f"  expected {numbers} of shape {source.shape}, or of a shape that {source.shape} broadcasts to"
    )


def only_real(operation: Operation, inputs: Sequence[Any]) -> DtypeError:
    """The error for complex numbers where formula or rules hold for real ones alone."""
    return DtypeError(
        f"{operation.name} takes real numbers, given complex ones\n{operands(operation, inputs)}\n"
        "  np.real, np.imag and np.absolute make real numbers of them; docs/complex.md lists what takes complex ones"
    )


def refuse_complex(operation: Operation, inputs: Sequence[Any]) -> None:
    """Raise if an input, a plain array too, is complex: what is made for real numbers would give wrong ones."""
    for value in inputs:
        if hasattr(value, "dtype") and value.dtype.kind == "c":
            raise only_real(operation, inputs)


def check_numbers(operation: Operation, inputs: Sequence[Any], out: Any) -> None:
    """Raise if an operation made anything but numbers and booleans, or complex numbers that it cannot differentiate.

    Raises:
        DtypeError: complex numbers from an operation on real ones, objects, strings.
    """
    if out.dtype.kind == "c" and not operation.complex:
        raise only_real(operation, inputs)
    if out.dtype.kind not in "fiubc":
        raise DtypeError(f"{operation.name}: a Tensor holds numbers or booleans\n  the result has dtype {out.dtype}")


def _is_finite(value: Any) -> bool:
    values = np.asarray(value)
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def _first_place(values: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])


def _shown(value: Any, place: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """The element of `value` that meets `place` of an array of `shape`, or its shape if none does."""
    values = np.asarray(value)
    try:
        return str(np.broadcast_to(values, shape)[place])
    except ValueError:
        return f"shape {values.shape}"


def _aligned(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"    {label:<{width}}  {shown}" for label, shown in rows)


def _quoted(line: str | None) -> str:
    """Where it was computed, and the words of that line."""
    if line is None:
        return "  run the forward pass inside detect_anomaly() too, to see the line that computed it"
    file, _, number = line.rpartition(":")
    words = linecache.getline(file, int(number)).strip()
    return f"  computed at {line}" + (f"\n    {words}" if words else "")
