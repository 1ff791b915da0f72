"""The answer of `why`, as data and as text for a terminal of 80 columns."""

from __future__ import annotations

import linecache
import textwrap
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tinygrad_attn.diagnose.table import shortened

State = Literal[
    "not required",  # the tensor carries no gradient
    "not connected",  # the loss does not depend on it
    "freed",  # the graph between the two is gone
    "changed",  # values on the way were changed after the forward pass
    "failed",  # a gradient rule raised an error
    "not computed",  # a leaf without .grad: no backward pass has reached it yet
    "not kept",  # a result without .grad: results keep none unless told to
    "zero",
    "partly zero",
    "not finite",
    "rounding error",  # not zero, and nothing but what rounding has left of contributions that cancel
    "stale",  # .grad says something else than the derivative of this loss
    "fine",
]
Derivative = Literal["zero", "partly zero", "not finite", "rounding error", "not zero"]

WIDTH = 80
SHOWN = 3  # causes that the text shows; all of them are in the data
SHOWN_NOT_FINITE = 2  # a NaN spreads: what comes after the first operation is its consequence, as a rule
STEPS = 4  # operations that a path names


@dataclass(frozen=True)
class Cause:
    """One operation at which the gradient ends, or becomes NaN or infinite.

    Attributes:
        kind: in a few words, such as "dead relu", "saturated", "masked", "cancelled", "overflow".
        text: a sentence.
        operation: name of the operation; "" if none is at fault.
        parameter: its input that the gradient was to go to.
        place: the first element concerned, of that input; None if there is none.
        values: what stood there, as (name, value) pairs.
        count: how many elements of that input are concerned.
        path: the last operations on the way from the tensor to this one, at most `STEPS`.
        inside: name of the fused operation that this one is a part of, or "".
        scope: path of the module that was being called.
        source: the line that applied the operation, if it ran inside `detect_anomaly()`.
        remedy: what to do about it.
    """

    kind: str
    text: str
    operation: str = ""
    parameter: str = ""
    place: tuple[int, ...] | None = None
    values: tuple[tuple[str, str], ...] = ()
    count: int = 0
    path: tuple[str, ...] = ()
    inside: str = ""
    scope: str = ""
    source: str | None = None
    remedy: str = ""

    @property
    def where(self) -> str:
        """The operation, the way to it and the module, such as "relu, after linear, in encoder.layers.0"."""
        parts = [self.operation]
        if self.path:
            parts.append(f"after {' → '.join(('…', *self.path[1:]) if len(self.path) == STEPS else self.path)}")
        if self.inside:
            parts.append(f"inside {self.inside}")
        if self.scope:
            parts.append(f"in {self.scope}")
        return ", ".join(part for part in parts if part)

    @property
    def headline(self) -> str:
        """Where it is, and the sentence."""
        return f"{self.where}: {self.text}" if self.operation else self.text

    def __str__(self) -> str:
        return textwrap.dedent("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """The cause as text, one string per line."""
        lines = wrapped(self.headline, "  ", "    ")
        width = max((len(name) for name, _ in self.values), default=0)
        for name, value in self.values:
            lines += wrapped(value, f"      {name:<{width}}  ", " " * (width + 8))
        if self.source is not None:
            lines += quoted(self.source)
        if self.remedy:
            lines += wrapped(f"try: {self.remedy}", "    ", "         ")
        return lines


@dataclass(frozen=True)
class Explanation:
    """Why a gradient is None, zero, NaN or infinite; `str` and `print` show it as text.

    Attributes:
        subject: the tensor, by name and shape.
        state: what became of the gradient, in one word or two (see `State`).
        summary: a sentence.
        derivative: what the derivative of the loss by the tensor is, computed anew; None if it cannot be computed.
        causes: the operations at fault, the first culprit first; empty where none is.
        notes: what else there is to know.
        advice: what to do.
    """

    subject: str
    state: State
    summary: str
    derivative: Derivative | None = None
    causes: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()
    advice: str = ""

    @property
    def cause(self) -> Cause | None:
        """The first culprit, if there is one."""
        return self.causes[0] if self.causes else None

    def __str__(self) -> str:
        lines = wrapped(f"{self.subject}: {self.summary}", "", "  ")
        shown = SHOWN_NOT_FINITE if self.derivative == "not finite" else SHOWN
        told = list(dict.fromkeys(tuple(cause.lines()) for cause in self.causes))[:shown]
        for of_cause in told:
            lines += of_cause
        if len(self.causes) > len(told):
            lines.append(f"  … and {len(self.causes) - len(told)} more, in .causes")
        for note in self.notes:
            lines += wrapped(note, "  ", "    ")
        if self.advice:
            lines += wrapped(f"try: {self.advice}", "  ", "       ")
        return "\n".join(lines)


def wrapped(text: str, first: str, rest: str) -> list[str]:
    """Lines of at most `WIDTH` columns; words that are longer stay whole."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def quoted(source: str) -> list[str]:
    """Where something was computed, and the words of that line."""
    file, _, number = source.rpartition(":")
    words = linecache.getline(file, int(number)).strip() if number.isdigit() else ""
    return [f"    computed at {source}", *([f"      {words}"] if words else [])]


def number(value: Any) -> str:
    """A number with the digits that matter, or a truth value."""
    value = np.asarray(value)
    if value.dtype.kind in "fc":
        return f"{value + 0.0:.6g}"  # no −0
    return str(value)


def at(place: tuple[int, ...]) -> str:
    """ " at [0, 1]"; nothing for a single number, which has only one place."""
    return f" at {list(place)}" if place else ""


def label(tensor: Any) -> str:
    """What to call a tensor: its name or how it came about, and its shape."""
    if tensor.name:
        return f"{shortened(tensor.name)} {tensor.shape}"
    if tensor.node is not None:
        return f"a result of {tensor.node.operation.name} {tensor.shape}"
    return f"a leaf {tensor.shape}" if tensor.requires_grad else f"a constant {tensor.shape}"


def element_at(value: Any, place: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The element of `value` that meets `place` of an array of `shape` it broadcasts to; None if none does."""
    try:
        return np.broadcast_to(np.asarray(value), shape)[place]
    except (ValueError, IndexError):
        return None


def first_place(mask: Any) -> tuple[int, ...]:
    """Index of the first True."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), np.shape(mask)))


class Paths:
    """How a search came from one tensor to the next: the operations in between."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, str]] = {}

    def step(self, tensor: Any, out: Any) -> None:
        """Note that the search goes on from `tensor` to a result of it."""
        self._before.setdefault(id(out), (id(tensor), out.node.operation.name))

    def to(self, tensor: Any) -> tuple[str, ...]:
        """The last operations on the way to `tensor`, in order."""
        names: list[str] = []
        key = id(tensor)
        while key in self._before and len(names) < STEPS:
            key, name = self._before[key]
            names.append(name)
        return tuple(reversed(names))


def out_place(place: tuple[int, ...], shape: tuple[int, ...], out_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The first place of a result of `out_shape` that the element at `place` of an operand of `shape` goes to."""
    leading = (0,) * (len(out_shape) - len(shape))
    return leading + place
