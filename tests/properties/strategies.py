"""How hypothesis draws what a domain asks for: small examples first, so that a failure shrinks to one to do by hand."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from tinygrad_attn import OPERATIONS, Operation, Tensor
from tinygrad_attn.domain import Shape, keep_away

with contextlib.suppress(ImportError):  # SciPy is an extra; its operations promise the same (tests/tinygrad_attn/scipy)
    import tinygrad_attn.scipy  # noqa: F401 (for what it registers)

T = TypeVar("T")
Array = np.ndarray[Any, Any]

# Tests register operations of their own, which promise nothing.
BUILT_IN = {name: found for name, found in OPERATIONS.items() if found.__module__.startswith("tinygrad_attn.")}

# Values that make rules err more often than others do; -0.0 is no typing error.
TELLING = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0)


# Strategies are kept: making one anew for every draw takes longer than drawing.


@cache
def whole_numbers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


@cache
def real_lists(low: float, high: float, size: int) -> st.SearchStrategy[list[float]]:
    simple = st.sampled_from([value for value in TELLING if low <= value <= high] or [low])
    any_value = st.floats(low, high, allow_subnormal=False)
    return st.lists(st.one_of(simple, any_value), min_size=size, max_size=size)


class DrawChooser:
    """A `tinygrad_attn.domain.Chooser` whose choices hypothesis makes, and takes back one by one when it shrinks."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(whole_numbers(low, high)))

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.integer(0, len(choices) - 1)]

    def shape(self, min_dims: int = 0, max_dims: int = 3, min_side: int = 0, max_side: int = 3) -> Shape:
        sides = st.lists(st.integers(min_side, max_side), min_size=min_dims, max_size=max_dims)
        return tuple(self.draw(sides))

    def reals(self, shape: Shape, low: float = -2.0, high: float = 2.0, avoid: Sequence[float] = ()) -> Array:
        values = self.draw(real_lists(low, high, math.prod(shape)))
        return keep_away(np.array(values, dtype=np.float64).reshape(shape), avoid)

    def distinct(self, shape: Shape) -> Array:
        size = math.prod(shape)
        order = np.array(self.draw(st.permutations(range(size))), dtype=np.float64)
        offsets = self.draw(st.lists(st.floats(0.0, 0.1), min_size=size, max_size=size))
        return (order * 0.2 + np.array(offsets) - 0.1 * size).reshape(shape)

    def booleans(self, shape: Shape) -> Array:
        size = math.prod(shape)
        return np.array(self.draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool).reshape(shape)

    def integers(self, shape: Shape, low: int, high: int) -> Array:
        size = math.prod(shape)
        drawn = self.draw(st.lists(st.integers(low, high), min_size=size, max_size=size))
        return np.array(drawn, dtype=np.int64).reshape(shape)


@dataclass(frozen=True)
class Case:
    """Inputs and options for one call of an operation, and a seed for the gradient that arrives at its output."""

    operation: Operation
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    seed: int

    def __call__(self, *inputs: Any) -> Any:
        """The operation on `inputs` (on those of the case if none are given) with the options of the case."""
        given = inputs or self.inputs
        return self.operation(*self.arguments(given), **self.options)

    def arguments(self, inputs: Sequence[Any] | None = None) -> tuple[Any, ...]:
        """The inputs as they are passed: as one list where NumPy takes a list."""
        given = tuple(self.inputs if inputs is None else inputs)
        return (list(given),) if self.operation.sequence else given

    def is_differentiable(self, position: int) -> bool:
        """Whether the input at `position` is floating and has a gradient rule."""
        value = self.inputs[position]
        name = self.operation.parameters[min(position, len(self.operation.parameters) - 1)]
        return isinstance(value, np.ndarray) and value.dtype.kind in "fc" and name in self.operation.rules

    def converted(self, dtype: Any) -> Case:
        """The same case with floating inputs of another dtype, and complex ones of that precision."""
        kinds = {"f": dtype, "c": np.result_type(dtype, np.complex64)}
        inputs = tuple(
            value.astype(kinds.get(value.dtype.kind, value.dtype)) if isinstance(value, np.ndarray) else value
            for value in self.inputs
        )
        return Case(self.operation, inputs, self.options, self.seed)

    def tensors(self, make: Callable[[Array], Tensor] | None = None) -> tuple[Any, ...]:
        """The inputs with Tensors that require a gradient in place of differentiable arrays."""
        make = make or _variable
        return tuple(make(v) if self.is_differentiable(i) else v for i, v in enumerate(self.inputs))

    def upstream(self, shape: Shape, dtype: Any = np.float64) -> Array:
        """An uneven gradient to send in."""
        return np.asarray(np.random.default_rng(self.seed).uniform(0.5, 1.5, shape)).astype(dtype)


def _variable(array: Array) -> Tensor:
    return Tensor(array, requires_grad=True)


def cases(operation: Operation) -> st.SearchStrategy[Case]:
    """Calls of an operation within its domain."""

    @st.composite
    def drawn(draw: Any) -> Case:
        choose = DrawChooser(draw)
        if operation.domain is None:
            raise TypeError(f"{operation.name} has no domain")
        inputs = tuple(np.asarray(v) if isinstance(v, np.generic) else v for v in operation.domain(choose))
        options = {name: option(choose, inputs) for name, option in operation.option_domains.items()}
        return Case(operation, inputs, options, draw(st.integers(0, 2**16)))

    return drawn()


# Of a conjugate pair of eigenvalues either may come first, and a little beside a real matrix it is the other.
AWAY_FROM_THE_AXIS = {"eigvals", "right_eigenvectors"}


def complex_cases(operation: Operation) -> st.SearchStrategy[Case]:
    """Calls within its domain, with imaginary parts added to one floating input at least."""

    @st.composite
    def drawn(draw: Any) -> Case:
        choose, case = DrawChooser(draw), draw(cases(operation))
        places = [i for i in range(len(case.inputs)) if case.is_differentiable(i)]
        first, low = choose.pick(places), 0.2 if operation.name in AWAY_FROM_THE_AXIS else -0.8
        inputs = list(case.inputs)
        for place in places:
            if place == first or choose.pick([True, False]):
                inputs[place] = np.asarray(inputs[place] + 1j * choose.reals(inputs[place].shape, low, 0.8))
        options = {name: option(choose, tuple(inputs)) for name, option in operation.option_domains.items()}
        return Case(operation, tuple(inputs), options, case.seed)

    return drawn()
