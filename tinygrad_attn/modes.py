"""What is switched on around a computation: recording, unfused ops, kept gradients, anomaly detection, the scope.

The switches live in one context variable, so threads and coroutines do not see each other's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar, cast, overload

from tinygrad_attn.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])


class Modes(NamedTuple):
    """The switches in force; `scope` is the path of the module that is being called."""

    record: bool = True
    unfused: bool = False
    keep_grads: bool = False
    detect_anomaly: bool = False
    scope: str = ""
    recomputing: bool = False  # a checkpoint runs its function again: what counts calls has counted this one
    numpy_errors: Any = None  # NumPy's settings around the block that is watched for anomalies
    outer: Modes | None = None  # what was in force around the block that set these


MODES: ContextVar[Modes] = ContextVar("tinygrad_attn_modes", default=Modes())  # noqa: B039 (a NamedTuple is immutable)


class ModeSwitch:
    """Sets some switches inside a `with` block or, as a decorator, inside every call of a function.

    A decorated generator function runs each of its steps under the switches and gives them back at every `yield`,
    so that the code between two steps is not affected.
    """

    def __init__(self, **switches: Any) -> None:
        self.switches = switches  # nothing else: one switch may be entered twice, and by several threads

    def __enter__(self) -> None:
        modes = MODES.get()
        MODES.set(modes._replace(**self.switches, outer=modes))

    def __exit__(self, *_: object) -> None:
        MODES.set(MODES.get().outer or Modes())

    def __call__(self, function: F) -> F:
        """Decorate `function`: a plain one, a generator function or a coroutine function."""
        if not callable(function) or inspect.isclass(function):
            raise ArgumentError(
                f"expected a function to run under the switch\n  given {function!r}; of a class, decorate the methods"
            )
        if inspect.isgeneratorfunction(function):
            return cast(F, self._around_generator(function))
        if inspect.iscoroutinefunction(function):
            return cast(F, self._around_coroutine(function))
        if inspect.isasyncgenfunction(function):
            raise ArgumentError(
                f"{function.__name__} is an asynchronous generator\n  decorate the functions that it calls"
            )

        @functools.wraps(function)
        def switched(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast(F, switched)

    def _around_coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def switched(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await function(*args, **kwargs)

        return switched

    def _around_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def switched(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            step, value = generator.send, None
            try:
                while True:
                    try:
                        with self:
                            item = step(value)
                    except StopIteration as stop:
                        return stop.value
                    try:
                        step, value = generator.send, (yield item)
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        step, value = generator.throw, error
            finally:
                with self:
                    generator.close()

        return switched


def _switch(function: F | None, **switches: Any) -> Any:
    return ModeSwitch(**switches) if function is None else ModeSwitch(**switches)(function)


@overload
def no_grad() -> ModeSwitch: ...
@overload
def no_grad(function: F) -> F: ...
def no_grad(function: Any = None) -> Any:
    """Record nothing inside: results have `requires_grad=False`.

    Usable as `with no_grad():`, as `@no_grad` and as `@no_grad()`. Decorate a generator instead of writing the `with`
    inside it: a block that yields stays open while the caller runs, as Python's context variables have it.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor([1.0, 2.0], requires_grad=True)
    >>> with ta.no_grad():
    ...     y = x * 2.0
    >>> y.requires_grad
    False
    """
    return _switch(function, record=False)


@overload
def enable_grad() -> ModeSwitch: ...
@overload
def enable_grad(function: F) -> F: ...
def enable_grad(function: Any = None) -> Any:
    """Record inside, even where an outer `no_grad()` switched recording off; a block or a decorator."""
    return _switch(function, record=True)


@overload
def unfused() -> ModeSwitch: ...
@overload
def unfused(function: F) -> F: ...
def unfused(function: Any = None) -> Any:
    """Run the reference of every fused op instead of its kernel, so that the graph shows primitive ops only."""
    return _switch(function, unfused=True)


@overload
def keep_grads() -> ModeSwitch: ...
@overload
def keep_grads(function: F) -> F: ...
def keep_grads(function: Any = None) -> Any:
    """Let `backward()` inside keep the gradient of every tensor in `.grad`, not only of leaves."""
    return _switch(function, keep_grads=True)


def is_grad_enabled() -> bool:
    """Whether operations are being recorded here."""
    return MODES.get().record


def scope(name: str) -> ModeSwitch:
    """Mark what is recorded inside as belonging to `name`, below the scope already in force."""
    outer = MODES.get().scope
    return ModeSwitch(scope=f"{outer}.{name}" if outer else name)
