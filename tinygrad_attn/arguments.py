"""What a user gave to a NumPy function, sorted for our counterpart: by NumPy's names, without what changes nothing.

Whatever our counterpart has no parameter for is refused in words, never passed over.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_attn.errors import DtypeError, InPlaceError, UnsupportedFunctionError

if TYPE_CHECKING:
    from tinygrad_attn.operation import Operation

Arguments = tuple[Sequence[Any], dict[str, Any]]

OTHER_NAMES = {"a_min": "min", "a_max": "max", "rtol": "rcond", "newshape": "shape"}  # the last was NumPy 2.0's
UFUNC_DEFAULTS = {"where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True, "signature": None}


def for_operation(numpy_function: Callable[..., Any], operation: Operation, given: Arguments) -> Arguments:
    """Inputs by position and the rest by keyword.

    An operation's options are fewer than NumPy's and may stand in another order: `np.sum(t, 0, None, None, True)` means
    `keepdims=True`. What the operation has no option for is left in, unless it says what NumPy does anyway.
    """
    args, kwargs = given
    options = operation.options
    names = positional_names(numpy_function)
    count = 1 if operation.sequence else len(operation.parameters)
    if kwargs.keys() <= options.keys() and (not names or len(args) == count):
        return given
    if names:
        kwargs = {**dict(zip(names, args, strict=False)), **kwargs}
        args = [kwargs.pop(name) for name in names[:count] if name in kwargs]
    return args, {
        OTHER_NAMES.get(name, name): value
        for name, value in kwargs.items()
        if name in options or not is_default(numpy_function, name, value)
    }


def for_function(numpy_function: Callable[..., Any], function: Callable[..., Any], given: Arguments) -> Arguments:
    """The arguments of a function that is written with others, and so has NumPy's own signature but for a few.

    Raises:
        InPlaceError: `out=`.
        UnsupportedFunctionError: another argument that the function has no parameter for.
    """
    args, kwargs = given
    parameters = _parameters(function)
    kinds = {p.kind for p in parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return given
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        count = sum(p.kind is not p.KEYWORD_ONLY for p in parameters.values())
        kwargs = {**dict(zip(positional_names(numpy_function)[count:], args[count:], strict=False)), **kwargs}
        args = args[:count]
    for name in kwargs.keys() - parameters.keys():
        value = kwargs.pop(name)
        if name == "out":
            refuse_out(numpy_function, value)
        elif not is_default(numpy_function, name, value):
            raise _refusal(numpy_function, name, parameters)
    return args, kwargs


def in_dtype(numpy_function: Callable[..., Any], values: Any, dtype: Any) -> Any:
    """An operand, or each of several, in the dtype that the user wants to compute in.

    Raises:
        DtypeError: floating values would become whole numbers, which have no gradient.
    """
    if isinstance(values, (list, tuple)):
        return [in_dtype(numpy_function, value, dtype) for value in values]
    dtype = np.dtype(dtype)
    array = values if hasattr(values, "astype") else np.asarray(values)
    if array.dtype.kind == "f" and dtype.kind != "f":
        name = numpy_name(numpy_function)
        raise DtypeError(
            f"{name}: in {dtype} there is no gradient\n"
            f"  for plain values, call {name}(tensor.numpy(), dtype={dtype}), or t.astype({dtype}) before"
        )
    return array.astype(dtype)


def refuse_out(numpy_function: Callable[..., Any], out: Any) -> None:
    """Raise InPlaceError if there is an array to write into."""
    if out is not None:
        raise InPlaceError(
            f"{numpy_name(numpy_function)}(…, out=…) would write a recorded result into an array\n"
            "  use the Tensor that is returned"
        )


def _refusal(numpy_function: Callable[..., Any], name: str, parameters: Any) -> Exception:
    call = f"{numpy_name(numpy_function)}(…, {name}=…)"
    return UnsupportedFunctionError(
        f"{call} is not known for a Tensor\n  its arguments are {', '.join(parameters)}; "
        f"for plain values, call {numpy_name(numpy_function)}(tensor.numpy(), …)"
    )


@functools.cache
def _parameters(function: Callable[..., Any]) -> types.MappingProxyType[str, inspect.Parameter]:
    return inspect.signature(function).parameters


@functools.cache
def positional_names(numpy_function: Callable[..., Any]) -> tuple[str, ...]:
    """NumPy's names for the arguments that can be given by position; empty where NumPy does not tell."""
    if isinstance(numpy_function, np.ufunc):
        return ()  # the inputs are sorted already
    try:
        parameters = inspect.signature(numpy_function).parameters.values()
    except ValueError:
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def is_default(numpy_function: Callable[..., Any], name: str, value: Any) -> bool:
    """Whether an argument says what NumPy does anyway, such as order="C": then it may be left out."""
    default = _defaults(numpy_function).get(name, inspect.Parameter.empty)
    comparable = isinstance(value, (str, bool)) and isinstance(default, (str, bool))
    return value is default or (comparable and value == default)


@functools.cache
def _defaults(numpy_function: Callable[..., Any]) -> dict[str, Any]:
    if isinstance(numpy_function, np.ufunc):
        return UFUNC_DEFAULTS
    try:
        return {p.name: p.default for p in inspect.signature(numpy_function).parameters.values()}
    except ValueError:
        return {}


def numpy_name(function: Callable[..., Any]) -> str:
    """What users write for a NumPy function, such as "np.linalg.norm", or for a ufunc of SciPy."""
    if isinstance(function, types.MethodDescriptorType):
        return f"ndarray.{function.__name__}"
    home = getattr(function, "__module__", None) or "numpy"  # a ufunc does not tell
    if isinstance(function, np.ufunc) and getattr(np, function.__name__, None) is not function:
        return f"scipy.special.{function.__name__}"
    return f"{home.replace('numpy', 'np', 1)}.{function.__name__}"
