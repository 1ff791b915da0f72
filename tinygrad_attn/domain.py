"""What inputs and options a test may draw for an operation, said once, beside the operation.

A domain is a function of a `Chooser` and returns one array per input. Property tests pass a chooser that hypothesis
controls; `RandomChooser` draws from a NumPy generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Shape = tuple[int, ...]
Domain = Callable[["Chooser"], tuple[Any, ...]]
OptionDomain = Callable[["Chooser", tuple[Any, ...]], Any]


class Chooser(Protocol):
    """The source of every choice in a domain."""

    def integer(self, low: int, high: int) -> int:
        """A whole number, both ends included."""

    def pick(self, choices: Sequence[T]) -> T:
        """One of `choices`."""

    def shape(self, min_dims: int = 0, max_dims: int = 3, min_side: int = 0, max_side: int = 3) -> Shape:
        """A shape; sides of 0 and 1 are drawn too."""

    def reals(self, shape: Shape, low: float = -2.0, high: float = 2.0, avoid: Sequence[float] = ()) -> NDArray[Any]:
        """float64 values in [low, high], none within 0.05 of a value in `avoid` (kinks have tests of their own)."""

    def distinct(self, shape: Shape) -> NDArray[Any]:
        """float64 values, any two at least 0.1 apart."""

    def booleans(self, shape: Shape) -> NDArray[np.bool_]:
        """Booleans."""

    def integers(self, shape: Shape, low: int, high: int) -> NDArray[np.int64]:
        """Whole numbers, both ends included."""


class RandomChooser:
    """Draws from a NumPy generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def integer(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, choices: Sequence[T]) -> T:
        """One of `choices`."""
        return choices[self.integer(0, len(choices) - 1)]

    def shape(self, min_dims: int = 0, max_dims: int = 3, min_side: int = 0, max_side: int = 3) -> Shape:
        """A shape; sides of 0 and 1 are drawn too."""
        return tuple(self.integer(min_side, max_side) for _ in range(self.integer(min_dims, max_dims)))

    def reals(self, shape: Shape, low: float = -2.0, high: float = 2.0, avoid: Sequence[float] = ()) -> NDArray[Any]:
        """float64 values in [low, high], none within 0.05 of a value in `avoid`."""
        return keep_away(np.asarray(self.rng.uniform(low, high, shape)), avoid)

    def distinct(self, shape: Shape) -> NDArray[Any]:
        """float64 values, any two at least 0.1 apart."""
        size = int(np.prod(shape, dtype=int))
        return (self.rng.permutation(size) * 0.2 + self.rng.uniform(0.0, 0.1, size) - 0.1 * size).reshape(shape)

    def booleans(self, shape: Shape) -> NDArray[np.bool_]:
        """Booleans."""
        return np.asarray(self.rng.integers(0, 2, shape), dtype=bool)

    def integers(self, shape: Shape, low: int, high: int) -> NDArray[np.int64]:
        """Whole numbers, both ends included."""
        return np.asarray(self.rng.integers(low, high + 1, shape))


def keep_away(values: NDArray[Any], avoid: Sequence[float], margin: float = 0.05) -> NDArray[Any]:
    """Push values that are nearer than `margin` to a value in `avoid` out to that distance."""
    for point in avoid:
        near = np.abs(values - point) < margin
        values = np.where(near, point + np.where(values < point, -margin, margin), values)
    return values


# --- domains of inputs -------------------------------------------------------------------------------------------


def reals(
    *, min_dims: int = 0, min_side: int = 0, low: float = -2.0, high: float = 2.0, avoid: Sequence[float] = ()
) -> Domain:
    """One array of any shape."""
    return lambda choose: (choose.reals(choose.shape(min_dims, min_side=min_side), low, high, avoid),)


def complexes(*, low: float = -2.0, high: float = 2.0) -> Domain:
    """One complex array of any shape; `low` and `high` are those of its real parts."""

    def draw(choose: Chooser) -> tuple[Any, ...]:
        shape = choose.shape()
        return (np.asarray(choose.reals(shape, low, high) + 1j * choose.reals(shape, -1.0, 1.0)),)

    return draw


def distinct(*, min_dims: int = 0, min_side: int = 1) -> Domain:
    """One array without ties."""
    return lambda choose: (choose.distinct(choose.shape(min_dims, min_side=min_side)),)


def broadcasting(*ranges: dict[str, Any]) -> Domain:
    """Arrays whose shapes broadcast; each of `ranges` holds the `low`, `high` and `avoid` of one of them."""

    def draw(choose: Chooser) -> tuple[Any, ...]:
        full = choose.shape()
        return tuple(choose.reals(broadcastable(choose, full), **limits) for limits in ranges)

    return draw


def broadcastable(choose: Chooser, full: Shape) -> Shape:
    """A shape that broadcasts to `full`: some axes 1, some leading ones left out."""
    kept = full[choose.integer(0, len(full)) :]
    return tuple(1 if choose.integer(0, 3) == 0 else side for side in kept)


# --- domains of options ------------------------------------------------------------------------------------------


def flag(choose: Chooser, inputs: tuple[Any, ...]) -> bool:
    """True or False."""
    return choose.pick([False, True])


def any_axis(choose: Chooser, inputs: tuple[Any, ...]) -> int:
    """One axis of the first input, counted from either end."""
    return choose.integer(-inputs[0].ndim, inputs[0].ndim - 1)


def any_axis_or_none(choose: Chooser, inputs: tuple[Any, ...]) -> int | None:
    """One axis of the first input, or None for all."""
    return None if inputs[0].ndim == 0 or choose.integer(0, 2) == 0 else any_axis(choose, inputs)


def any_axes(choose: Chooser, inputs: tuple[Any, ...]) -> int | tuple[int, ...] | None:
    """None, one axis, or several axes of the first input."""
    ndim = inputs[0].ndim
    kind = choose.pick(["all", "one", "several"]) if ndim else "all"
    if kind == "all":
        return None
    if kind == "one":
        return any_axis(choose, inputs)
    return tuple(axis - ndim * choose.integer(0, 1) for axis in range(ndim) if choose.pick([False, True]))


def one_of(*choices: Any) -> OptionDomain:
    """One of `choices`."""
    return lambda choose, inputs: choose.pick(choices)
