"""What an operation is given, made fit for it: lists become arrays, whole numbers floating, options constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_attn import explain
from tinygrad_attn.errors import DtypeError, GradientError
from tinygrad_attn.tensor import Tensor, as_array, holds_tensor, plain

if TYPE_CHECKING:
    from tinygrad_attn.operation import Operation


def written_out(operation: Operation, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Lists of numbers as arrays, in the default dtype.

    Raises:
        DtypeError: a list holds Tensors, whose gradients would be lost, or something else than numbers.
    """
    try:
        return tuple(as_array(value) for value in inputs)
    except DtypeError as error:
        raise DtypeError(f"{operation.name}: {error}\n{explain.operands(operation, inputs)}") from None


def floating(operation: Operation, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Whole numbers and booleans as float64, NumPy's choice too, wherever the operation has a gradient rule."""
    return tuple(
        value.astype(np.float64)
        if isinstance(value, (np.ndarray, Tensor)) and value.dtype.kind in "iub" and operation.differentiates(index)
        else value
        for index, value in enumerate(inputs)
    )


def constants(operation: Operation, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Operands fit for the graph: arrays are copied, so that changing them later does not change gradients."""
    try:
        return tuple(
            v if v is None or isinstance(v, (Tensor, bool, int, float, complex)) else Tensor(v) for v in inputs
        )
    except DtypeError as error:
        raise DtypeError(f"{operation.name}: {error}\n{explain.operands(operation, inputs)}") from None


def plain_options(operation: Operation, options: dict[str, Any], recording: bool) -> dict[str, Any]:
    """Options without Tensors in them: they are constants.

    Raises:
        GradientError: a Tensor that requires a gradient, which would be lost without a word.
    """
    if not any(isinstance(value, Tensor) or holds_tensor(value) for value in options.values()):
        return options
    return {name: _plain_option(operation, name, value, recording) for name, value in options.items()}


def _plain_option(operation: Operation, name: str, value: Any, recording: bool) -> Any:
    if isinstance(value, (list, tuple)) and holds_tensor(value):
        return type(value)(_plain_option(operation, name, part, recording) for part in value)
    if not isinstance(value, Tensor):
        return value
    if value.requires_grad and recording:
        raise GradientError(
            f"{operation.name}: {name} is an option, a constant, and gets no gradient\n"
            f"  given a Tensor that requires one; pass {name}.detach(), or write the function with operations"
        )
    return value.numpy() if value.ndim else value.item()


def own_copy(option: Any) -> Any:
    """An option fit for the graph: what can be changed later, such as an index array, is copied."""
    if isinstance(option, (list, tuple)) and not hasattr(option, "_fields"):
        return type(option)(own_copy(part) for part in option)
    return option.copy() if isinstance(option, np.ndarray) else option


def read_only(array: Any) -> Any:
    """A view that cannot be written to, for formulas that are not this package's own."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def with_shape(x: Any) -> Any:
    """Lists and numbers as an array in the default dtype; what has a shape as it is."""
    return x if isinstance(x, (Tensor, np.ndarray)) else plain(Tensor(x))
