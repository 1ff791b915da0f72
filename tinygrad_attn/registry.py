"""Which of our functions stands behind which NumPy function, and the table of all operations."""

from __future__ import annotations

import difflib
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tinygrad_attn.errors import UnsupportedFunctionError

if TYPE_CHECKING:
    from tinygrad_attn.operation import Operation

F = TypeVar("F", bound=Callable[..., Any])

IMPLEMENTATIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
OPERATIONS: dict[str, Operation] = {}
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
    """Call our counterpart of `numpy_function` with the arguments that a user gave to NumPy.

    An operation's options are fewer than NumPy's and may stand in another order, so that what was given by position is
    sorted by NumPy's names: `np.sum(t, 0, None, None, True)` means `keepdims=True`.
    """
    function = IMPLEMENTATIONS.get(numpy_function)
    if function is None:
        raise UnsupportedFunctionError(unsupported(numpy_function))
    options = getattr(function, "options", None)
    if options is None:  # no operation; it has NumPy's own signature
        return function(*args, **kwargs)
    names = positional_names(numpy_function)
    count = 1 if function.sequence else len(function.parameters)  # type: ignore[attr-defined]
    if names and (len(args) != count or not kwargs.keys() <= options.keys()):
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        args = [given.pop(name) for name in names[:count] if name in given]
        kwargs = {
            OTHER_NAMES.get(name, name): value
            for name, value in given.items()
            if name in options or not is_default(numpy_function, name, value)
        }
    return function(*args, **kwargs)


OTHER_NAMES = {"a_min": "min", "a_max": "max", "rtol": "rcond", "newshape": "shape"}  # the last was NumPy 2.0's


@functools.cache
def positional_names(numpy_function: Callable[..., Any]) -> tuple[str, ...]:
    """NumPy's names for the arguments that can be given by position; empty where NumPy does not tell."""
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
    try:
        return {p.name: p.default for p in inspect.signature(numpy_function).parameters.values()}
    except ValueError:
        return {}


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


def numpy_name(function: Callable[..., Any]) -> str:
    """What users write for a NumPy function, such as "np.linalg.norm", or for a ufunc of SciPy."""
    if isinstance(function, types.MethodDescriptorType):
        return f"ndarray.{function.__name__}"
    home = getattr(function, "__module__", None) or "numpy"  # a ufunc does not tell
    if isinstance(function, np.ufunc) and getattr(np, function.__name__, None) is not function:
        return f"scipy.special.{function.__name__}"
    return f"{home.replace('numpy', 'np', 1)}.{function.__name__}"
