"""A replay for a terminal: every step with its rule, what it sends, and the sums before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import OptionError

from .escape import display_width, shorten, visible
from .numbers import NOT_COMPUTED, significant
from .values import fits, summary

if TYPE_CHECKING:
    from .replay import Contribution, Replay, ReplayStep

__all__ = ["call_text", "replay_text"]

Array = NDArray[Any]
Block = list[str]  # lines of one width, laid beside other blocks

LEAST_WIDTH = 40
NAME_WIDTH = 24
UNCHECKED = {
    "off": "not asked for",
    "large": "not computed: too many elements for a moment (numerical=True computes them anyway)",
    "complex": "not available: complex numbers are moved along two axes; gradcheck does that",
    "differs": "not available: run again in float64, {at} gives other values than were recorded",
}


def replay_text(replay: Replay, width: int) -> str:
    """Writes a replay as lines of at most `width` columns.

    Args:
        replay: what to write.
        width: at least 40; wide characters count as two columns.
    Raises:
        OptionError: a smaller width.
    """
    if isinstance(width, bool) or not isinstance(width, int) or width < LEAST_WIDTH:
        raise OptionError(f"width: expected a whole number of at least {LEAST_WIDTH}, got {width!r}")
    return "\n".join(line.rstrip() for line in _Writer(replay, width).lines())


class _Writer:
    def __init__(self, replay: Replay, width: int) -> None:
        self.replay = replay
        self.width = width
        self.number = replay.write

    def lines(self) -> Iterator[str]:
        replay = self.replay
        sent = sum(len(step.contributions) for step in replay.steps)
        counts = f"{_count(len(replay), 'step')}, {_count(sent, 'contribution')} added up"
        what = f"The backward pass of {self.short(replay.loss)}: {counts}."
        yield from self.wrapped(f"{what} {NOT_COMPUTED} means not computed yet, which is not 0.")
        for step in replay.steps:
            yield ""
            yield from self.step(step)
        yield ""
        yield self.ruler("result")
        for step in replay.steps:
            if not step.maker:
                yield from self.flow([f"{self.derivative(step.name)} = ", self.array(step.upstream)], 2)
        yield from self.wrapped(f"By differences: {self.verdict()}", 2)
        if replay.hooked:
            names = ", ".join(self.name(identity) for identity in replay.hooked)
            yield from self.wrapped(f"Hooks were not called: {names}. These are the plain derivatives.", 2)

    def step(self, step: ReplayStep) -> Iterator[str]:
        yield self.ruler(f"{step.number}/{len(self.replay)}  {self.made(step)}")
        parts: list[str | Block] = [f"{self.derivative(step.name)} = ", self.array(step.upstream)]
        parts += ["   given"] if step.number == 1 else []
        parts += self.checked(step)
        yield from self.flow(parts, 2)
        if not step.maker:
            yield from self.wrapped("a leaf: the way ends here, this is its gradient", 2)
        for contribution in step.contributions:
            yield from self.contribution(contribution)

    def contribution(self, sent: Contribution) -> Iterator[str]:
        name, derivative = self.name(sent.tensor), self.derivative(self.replay.name_of(sent.tensor))
        rule = f"   {sent.formula}" if sent.formula else ""
        yield from self.wrapped(f"→ {name} ({sent.parameter}){rule}", 2)
        parts: list[str | Block] = [f"{derivative}: "]
        if sent.before is None:
            parts += [f"{NOT_COMPUTED}  →  ", self.array(sent.after)]
        else:
            parts += [self.array(sent.before), " + ", self.array(sent.value), " = ", self.array(sent.after)]
        yield from self.flow([*parts, f"   {_progress(sent)}"], 4)

    def made(self, step: ReplayStep) -> str:
        """How a tensor was computed, such as `P (1, 2) = softmax(S)`."""
        name = f"{self.short(step.name)} {_shape(step.shape)}".rstrip()
        if not step.maker:
            return name
        return f"{name} = {call_text(self.replay, step)}"

    def checked(self, step: ReplayStep) -> list[str | Block]:
        found = step.numerical
        if found is None:
            return []
        if not found.agrees:
            return ["   differences say ", self.array(found.value), "  ✗"]
        if found.smooth.all():
            return ["   ✓ by differences"]
        return [
            f"   ✓ by differences, where there is a slope ({np.count_nonzero(found.smooth)} of {found.smooth.size})"
        ]

    def verdict(self) -> str:
        if self.replay.unchecked:
            return UNCHECKED[self.replay.unchecked].format(at=self.replay.unchecked_at)
        checks = [step.numerical for step in self.replay.steps if step.numerical is not None]
        wrong = [step.name for step in self.replay.steps if step.numerical is not None and not step.numerical.agrees]
        if wrong:
            return f"{', '.join(map(self.short, wrong))}: not what the rules say"
        elements = sum(int(np.count_nonzero(check.smooth)) for check in checks)
        largest = max((check.error for check in checks), default=0.0)
        return f"all {elements:,} derivatives agree; the largest difference is {significant(largest, 1)}"

    # --- names and numbers ------------------------------------------------------------------------------------------

    def short(self, name: str) -> str:
        return shorten(visible(name), NAME_WIDTH, where="middle")

    def name(self, identity: str) -> str:
        return self.short(self.replay.name_of(identity))

    def derivative(self, name: str) -> str:
        return f"∂{shorten(visible(self.replay.loss), 8, where='middle')}/∂{self.short(name)}"

    def array(self, values: Array) -> Block:
        if not fits(values.shape):
            return [", ".join(f"{fact} {text}".strip() for fact, text in summary(values).items())]
        return array_block(values, self.number)

    # --- lines ------------------------------------------------------------------------------------------------------

    def ruler(self, text: str) -> str:
        inside = shorten(text, self.width - 8, where="middle")
        return f"── {inside} {'─' * (self.width - 4 - display_width(inside))}"

    def wrapped(self, text: str, indent: int = 0) -> Iterator[str]:
        room = self.width - indent
        line = ""
        for word in text.split(" "):
            if line.strip() and display_width(line) + 1 + display_width(word) > room:
                yield " " * indent + line
                line = "  " + shorten(word, room - 2)
            else:
                line = f"{line} {word}" if line else shorten(word, room)
        yield " " * indent + line

    def flow(self, parts: Sequence[str | Block], indent: int) -> Iterator[str]:
        """Lays blocks beside each other, their middles aligned, and goes on below where the line is full."""
        room = self.width - indent
        row: list[Block] = []
        for part in parts:
            block = [shorten(line, room - 2) for line in ([part] if isinstance(part, str) else part)]
            if row and sum(map(_width, row)) + _width(block) > room:
                yield from (" " * indent + line for line in _beside(row))
                row = [["  "]]
                block = [line.lstrip(" ") for line in block] if isinstance(part, str) else block
            row.append(block)
        yield from (" " * indent + line for line in _beside(row))


def call_text(replay: Replay, step: ReplayStep) -> str:
    """Writes how a tensor was computed, such as `masked_fill(S, mask, value=−∞)`; "" for a leaf."""
    if not step.maker:
        return ""
    parts = []
    for edge in replay.operands.get(step.maker, ()):
        node = replay.nodes[edge.tail]
        if node.name or node.requires_grad:
            parts.append(shorten(visible(node.name or node.id), NAME_WIDTH, where="middle"))
        elif node.shape or node.value is None:
            parts.append(edge.parameter)
        else:
            parts.append(replay.write(node.value.item()))
    options = [f"{name}={value}" for name, value in replay.nodes[step.maker].options]
    return f"{step.operation}({', '.join([*parts, *options])})"


def array_block(values: Array, number: Callable[[float], str] = significant) -> Block:
    """Writes a small array as lines with aligned columns; the planes of a 3-d array stand below one another.

    >>> print("\\n".join(array_block(np.array([[0.25, 0.75], [10.0, -1.0]]))))
    ⎡0.25  0.75⎤
    ⎣  10    −1⎦
    """
    if values.ndim == 0:
        return [number(values.item())]
    table = [[number(value) for value in row] for row in values.reshape(-1, values.shape[-1]).tolist()]
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    rows = [
        "  ".join(" " * (wide - display_width(text)) + text for text, wide in zip(row, widths, strict=True))
        for row in table
    ]
    height = values.shape[-2] if values.ndim > 1 else 1
    lines: Block = []
    for start in range(0, len(rows), height):
        lines += [" " * (sum(widths) + 2 * len(widths))] if start else []
        lines += _bracketed(rows[start : start + height])
    return lines


def _bracketed(rows: Block) -> Block:
    if len(rows) == 1:
        return [f"[{rows[0]}]"]
    middle = [f"⎢{row}⎥" for row in rows[1:-1]]
    return [f"⎡{rows[0]}⎤", *middle, f"⎣{rows[-1]}⎦"]


def _beside(blocks: Sequence[Block]) -> Iterator[str]:
    height = max(map(len, blocks))
    columns = []
    for block in blocks:
        above = (height - len(block)) // 2
        wide = _width(block)
        lines = [""] * above + block + [""] * (height - len(block) - above)
        columns.append([line + " " * (wide - display_width(line)) for line in lines])
    return ("".join(parts) for parts in zip(*columns, strict=True))


def _width(block: Block) -> int:
    return max(map(display_width, block))


def _progress(sent: Contribution) -> str:
    if sent.expected == 1:
        return "complete"
    return f"{sent.arrived} of {sent.expected}, {'complete' if sent.complete else 'more to come'}"


def _shape(shape: tuple[int, ...]) -> str:
    return str(shape) if shape else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
