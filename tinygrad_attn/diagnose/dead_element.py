"""Elements at which a derivative is zero, with the values around them, and what is said about them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinygrad_attn.diagnose.explanation import element_at, first_place, number, out_place
from tinygrad_attn.diagnose.flow import Array, Use
from tinygrad_attn.diagnose.table import shortened

SMALLER = "smaller scores: divide by √d, normalise queries and keys"


class Words(NamedTuple):
    """What to say: a kind, a sentence, and what to do."""

    kind: str
    text: str
    remedy: str = ""


class Dead:
    """The elements of one operand at which the derivative is zero, and the values around them.

    Attributes:
        use: the operation and the operand.
        elements: boolean, in the operand's shape.
        asked: how many elements were in question; at the others, the derivative may be zero as well.
        x, out: the operand and the result.
        place: the first of the elements; `at`: the first place of the result that it goes to, if shapes broadcast.
    """

    def __init__(self, use: Use, elements: Array, asked: int) -> None:
        self.use, self.elements, self.asked = use, elements, asked
        self.operation, self.options, self.operands = use.node.operation, use.node.options, use.values
        self.x, self.out = np.asarray(self.operands[use.operand]), use.out.numpy()
        self.place = first_place(elements)
        self.at = out_place(self.place, self.x.shape, self.out.shape)
        self.parameter = self.operation.parameter_at(use.operand)

    @property
    def value(self) -> Any:
        """The first of the elements."""
        return self.x[self.place]

    @property
    def values(self) -> Array:
        """All of the elements."""
        return self.x[self.elements]

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.elements.sum())

    def some(self) -> str:
        """How many of how many, with the verb: "2 of 6 elements are", "both elements concerned of b are"."""
        whose = f" of {self.called(self.use.operand)}" if len(self.operands) > 1 else ""
        if self.asked < self.x.size:
            whose = f" concerned{whose}"
        if self.count < self.asked:
            return f"{self.count} of {self.asked} elements{whose} {'are' if self.count > 1 else 'is'}"
        if self.count > 1:
            return f"{'both' if self.count == 2 else f'all {self.count}'} elements{whose} are"
        return f"the {'only ' if self.x.size == 1 else ''}element{whose} is"

    def called(self, position: int) -> str:
        """What to call an operand: its own name, or the one that the operation has for it."""
        return shortened(getattr(self.use.node.inputs[position], "name", None) or self.operation.parameter_at(position))

    def look_at(self, position: int) -> str:
        """What to do about an operand that is zero."""
        name, value = self.called(position), self.use.node.inputs[position]
        node = getattr(value, "node", None)
        if node is None and getattr(value, "requires_grad", False):
            return f"was {name} initialised with zeros?"
        return f"look at what made {name}" + (f", a result of {node.operation.name}" if node is not None else "")

    def operand(self, position: int) -> Any:
        """What another operand holds where it meets the first of the elements."""
        return element_at(self.operands[position], self.at, self.out.shape)

    def shown(self) -> tuple[tuple[str, str], ...]:
        """The operands and the result where they meet the first of the elements, if shapes broadcast."""
        own = self.use.operand
        rows = [(f"{self.called(own)}{list(self.place) or ''}", number(self.value))]
        if self.operation.elementwise and self.out.size:
            for position, value in enumerate(self.operands):
                if position != own and value is not None:
                    rows.append((self.called(position), number(self.operand(position))))
            rows.append(("result", number(self.out[self.at])))
        return tuple(rows)
