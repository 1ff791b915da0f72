"""Which of our functions stands behind which NumPy function, and the table of all operations."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tinygrad_attn.arguments import for_function, for_operation, in_dtype, numpy_name
from tinygrad_attn.errors import UnsupportedFunctionError

if TYPE_CHECKING:
    from tinygrad_attn.operation import Operation

F = TypeVar("F", bound=Callable[..., Any])

IMPLEMENTATIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
OPERATIONS: dict[str, Operation] = {}
EXTENDED: dict[Callable[..., Any], Callable[..., Any]] = {}  # for arguments that the operation has no option for
UFUNC_METHODS: dict[str, Callable[..., Any]] = {}
REFUSED: set[Callable[..., Any]] = set()  # what stands behind these only says why not, and what to use instead


def implements(*numpy_functions: Callable[..., Any]) -> Callable[[F], F]:
    """Let `numpy_functions`, called with a Tensor, run the decorated function."""

    def register(function: F) -> F:
        for numpy_function in numpy_functions:
            IMPLEMENTATIONS[numpy_function] = function
        return function

    return register


def apply(numpy_function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call our counterpart of `numpy_function`.

    Raises:
        UnsupportedFunctionError: there is none; the message names the nearest that there is.
    """
    function = IMPLEMENTATIONS.get(numpy_function)
    if function is None:
        raise UnsupportedFunctionError(unsupported(numpy_function))
    return function(*args, **kwargs)


def call(numpy_function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call our counterpart of `numpy_function` with the arguments that a user gave to NumPy."""
    function = IMPLEMENTATIONS.get(numpy_function)
    if function is None:
        raise UnsupportedFunctionError(unsupported(numpy_function))
    options = getattr(function, "options", None)
    if options is None:
        args, kwargs = for_function(numpy_function, function, (args, kwargs))
        return function(*args, **kwargs)
    args, kwargs = for_operation(numpy_function, function, (args, kwargs))  # type: ignore[arg-type]
    if not kwargs.keys() <= options.keys():
        extended = EXTENDED.get(numpy_function)
        if extended is not None or "out" in kwargs:
            args, kwargs = for_function(numpy_function, extended or function, (args, kwargs))
            return (extended or function)(*args, **kwargs)
        if kwargs.get("dtype") is not None:  # the dtype to compute in
            args = in_dtype(numpy_function, args, kwargs.pop("dtype"))
    return function(*args, **kwargs)


def extends(*numpy_functions: Callable[..., Any]) -> Callable[[F], F]:
    """Let `numpy_functions` run the decorated function where they are given more than their operation knows."""

    def register(function: F) -> F:
        EXTENDED.update(dict.fromkeys(numpy_functions, function))
        return function

    return register


def call_method(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call our counterpart of a method of `ufunc`, such as `np.add.reduce`.

    Raises:
        UnsupportedFunctionError: there is none.
    """
    if method in UFUNC_METHODS:
        return UFUNC_METHODS[method](ufunc, *inputs, **kwargs)
    raise UnsupportedFunctionError(
        f"np.{ufunc.__name__}.{method} has no gradient rule\n"
        f"  known are {', '.join(UFUNC_METHODS)}; for plain values, call it on tensor.numpy()"
    )


def unsupported(numpy_function: Callable[..., Any]) -> str:
    """The message for a NumPy function without a counterpart here."""
    name = numpy_name(numpy_function)
    nearest = difflib.get_close_matches(name, sorted(supported_names()), n=1, cutoff=0.6)
    hint = (
        f"{nearest[0]} is the nearest function that has one" if nearest else "docs/numpy.md lists those that have one"
    )
    if name.startswith("scipy."):
        hint = "`import tinygrad_attn.scipy` brings the rules of those that docs/scipy.md lists"
    return (
        f"{name} has no gradient rule for a Tensor\n"
        f"  {hint}; for plain values without a gradient, call {name}(tensor.numpy())"
    )


def supported_names() -> Iterable[str]:
    """Names of the NumPy functions that accept a Tensor."""
    names = {numpy_name(function) for function in IMPLEMENTATIONS.keys() - REFUSED if function.__name__ != "getitem"}
    return {name for name in names if not name.startswith("scipy.")}
