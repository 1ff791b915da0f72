"""How the arguments of a call are sorted into the inputs and the options of an operation, and what its rules take."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinygrad_attn.errors import ArgumentError, UnsupportedFunctionError

if TYPE_CHECKING:
    from tinygrad_attn.operation import Operation


class Signature:
    """Read off a forward function: what stands before `*` are inputs, what stands behind it are options.

    Attributes:
        name: what errors call the function.
        parameters: names of the inputs; `variadic` if the last stands for any number of them.
        sequence: whether the inputs come as one list, as in `np.concatenate`.
        options: names of the options with their defaults.
    """

    def __init__(self, forward: Callable[..., Any], *, sequence: bool = False) -> None:
        self.name = forward.__name__
        self.sequence = sequence
        taken = list(inspect.signature(forward).parameters.values())
        inputs = [p for p in taken if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
        self.parameters = tuple(p.name for p in inputs)
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in inputs)
        self.options = {p.name: p.default for p in taken if p.kind is p.KEYWORD_ONLY}
        self._input_defaults = {p.name: p.default for p in inputs if p.default is not p.empty}
        self._required = [name for name, default in self.options.items() if default is inspect.Parameter.empty]

    def __str__(self) -> str:
        return ", ".join([*self.parameters, *(f"{name}=" for name in self.options)])

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Sort arguments into inputs and options; options may also follow the inputs by position, as in NumPy."""
        if self.sequence:
            self._by_position(args[1:], kwargs)
            args = tuple(args[0])
        elif not self.variadic and len(args) != len(self.parameters):
            args = self._fill(args, kwargs)
        if not kwargs and not self._required:
            return args, self.options
        options = {**self.options, **kwargs}
        if len(options) > len(self.options):
            for name in options.keys() - self.options.keys():
                if options.pop(name) is not None:  # NumPy's own extras, such as out=None, may be spelled out
                    raise UnsupportedFunctionError(
                        f"{self.name}() takes no option {name!r} on a Tensor\n"
                        f"  its options are: {', '.join(self.options) or 'none'}"
                    )
        for name in self._required:
            if options[name] is inspect.Parameter.empty:
                raise ArgumentError(f"{self.name}() needs the option {name!r}")
        return args, options

    def _by_position(self, values: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Move options that were given by position into `kwargs`."""
        if len(values) > len(self.options):
            raise ArgumentError(f"{self.name}() takes {self}; {len(values) - len(self.options)} too many given")
        for name, value in zip(self.options, values, strict=False):
            if name in kwargs:
                raise ArgumentError(f"{self.name}() got {name!r} twice")
            kwargs[name] = value

    def _fill(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Complete the inputs from keywords and defaults."""
        count = len(self.parameters)
        self._by_position(args[count:], kwargs)
        inputs = list(args[:count])
        for parameter in self.parameters[len(inputs) :]:
            if parameter in kwargs:
                inputs.append(kwargs.pop(parameter))
            elif parameter in self._input_defaults:
                inputs.append(self._input_defaults[parameter])
            else:
                raise ArgumentError(f"{self.name}() takes {self}; {parameter!r} is missing")
        return tuple(inputs)


def check_rule(operation: Operation, rule: Any, whose: str, second: str) -> None:
    """Raise unless a user's rule for the inputs `whose` can be called in the way in which it will be.

    Raises:
        ArgumentError: it is no function, or takes other arguments than (g, `second`, *inputs, **options).
    """
    if not callable(rule):
        raise ArgumentError(f"{operation.name}: the rule for {whose} must be a function\n  given {rule!r}")
    if operation.built_in:
        return
    inputs = ["g", second, *operation.parameters]
    options = {**operation.options, **({"index": 0} if operation.variadic else {})}
    try:
        inspect.signature(rule).bind(*inputs, **options)
    except TypeError as error:
        called = ", ".join([*inputs, *(f"{name}=" for name in options)])
        raise ArgumentError(
            f"{operation.name}: the rule for {whose} must take what it will be given\n"
            f"  expected ({called}), given {inspect.signature(rule)}: {error}"
        ) from None
