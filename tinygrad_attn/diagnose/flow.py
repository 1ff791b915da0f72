"""One backward sweep, looked at and kept: what reaches each tensor, and what each use of it sends back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import DtypeError
from tinygrad_attn.graph import Node, sweep
from tinygrad_attn.modes import ModeSwitch
from tinygrad_attn.operation import Operation
from tinygrad_attn.tensor import Tensor, plain

Array = NDArray[Any]
DRAWS = 4  # random numbers of float16 cancel by chance once in a thousand times; not four times in a row
SMALL = 1e4  # units in the last place of what was sent: below, what comes back may be rounding error


class Use(NamedTuple):
    """One use of a tensor: the result it went into, as which operand, and the gradient that came back."""

    out: Tensor
    operand: int
    contribution: Array

    @property
    def node(self) -> Node:
        """The operation."""
        node = self.out.node
        if node is None:
            raise TypeError("a use leads to a recorded result")
        return node

    @property
    def values(self) -> tuple[Any, ...]:
        """The operands, as plain values."""
        return tuple(plain(value) for value in self.node.inputs)

    def pull(self, upstream: Array) -> Array:
        """What the rule sends back for another gradient of the result."""
        ((_, contribution),) = self.node.operation.pull(self.node, upstream, self.out, [self.operand])
        return np.asarray(contribution)

    def reacts(self, where: Any, rng: np.random.Generator) -> Array:
        """Elements of the operand that get a gradient if some arrives at the places `where` of the result.

        Random gradients are sent: of those that really arrive, or of ones, contributions may cancel.
        """
        found = np.zeros(self.contribution.shape, dtype=bool)
        largest = np.zeros(self.contribution.shape, dtype=self.contribution.dtype)
        for _ in range(DRAWS):
            sent = np.where(where, random_gradient(self.out, rng), 0.0).astype(self.out.dtype)
            back = self.pull(sent)
            found |= back != 0.0
            largest = np.fmax(largest, np.abs(back))
            if found.all():
                break
        doubtful = found & (largest < SMALL * np.finfo(largest.dtype).eps * np.max(largest, initial=1.0))
        if doubtful.any() and not self.node.operation.elementwise:
            precise = self.pull_precisely(sent)
            if precise is not None:
                found &= ~doubtful | (np.abs(precise - back) < 0.5 * np.abs(back))
        return found

    def pull_precisely(self, upstream: Array) -> Array | None:
        """The same as `pull`, with twice the digits where the machine has them; None where the operation refuses.

        What is not zero in `pull` and quite another number here is rounding error.
        """
        wide = np.dtype(np.longdouble if self.contribution.dtype == np.float64 else np.float64)
        operation, operands = self.node.operation, [_widened(value, wide) for value in self.node.inputs]
        if wide.itemsize <= self.contribution.dtype.itemsize:
            return None
        try:
            operands[self.operand].requires_grad_()
            given = (operands,) if operation.sequence else operands
            out = operation(*given, **self.node.options)
            ((_, back),) = operation.pull(out.node, upstream.astype(out.dtype), out, [self.operand])
        except Exception:  # not every rule can compute with such numbers, least of all a user's own
            return None
        return np.asarray(back)


def _widened(value: Any, wide: np.dtype[Any]) -> Any:
    """An operand in another floating dtype, without its history."""
    if not isinstance(value, Tensor):
        return value
    return Tensor(value._data.astype(wide) if value.dtype.kind == "f" else value._data)


class Flow:
    """The gradients between a root and a target.

    Attributes:
        root: where the sweep starts.
        order: the tensors that a gradient reached, each before what is made of it.
        gradients: what reached each of them, by `id`.
        uses: the uses of each of them on the way to the root, by `id`, the first ones first.
    """

    def __init__(self, root: Tensor, upstream: Array, target: Tensor) -> None:
        self.root = root
        self.order: list[Tensor] = []
        self.gradients: dict[int, Array] = {}
        self.uses: dict[int, list[Use]] = {}
        with quiet():
            for step in sweep([root], [upstream], targets=[target], stop={id(target)}, hooks=False):
                self.order.append(step.tensor)
                self.gradients[id(step.tensor)] = np.asarray(step.gradient)
                for index, contribution in step.contributions:
                    source = step.tensor.node.inputs[index]  # type: ignore[union-attr]
                    self.uses.setdefault(id(source), []).append(Use(step.tensor, index, np.asarray(contribution)))
        self.order.reverse()
        for uses in self.uses.values():
            uses.reverse()

    def gradient(self, tensor: Tensor) -> Array:
        """What reached `tensor`."""
        return self.gradients[id(tensor)]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Run rules without being watched, recorded as usual, and without NumPy's warnings."""
    with ModeSwitch(detect_anomaly=False, record=True, unfused=False), np.errstate(all="ignore"):
        yield


def require_tensor(asking: str, value: Any) -> None:
    """Raise if what was asked about is no Tensor."""
    if not isinstance(value, Tensor):
        raise DtypeError(f"{asking} looks at the graph behind a Tensor\n  given {type(value).__name__}, which has none")


def is_built_in(operation: Operation) -> bool:
    """Whether an operation is the one of that name here, and not a user's own."""
    return operation.__module__.startswith("tinygrad_attn.")


def random_gradient(tensor: Tensor, rng: np.random.Generator) -> Array:
    """Random numbers of size about 1 and either sign, in the shape and dtype of `tensor`."""
    sizes = rng.uniform(0.5, 1.5, tensor.shape) * rng.choice([-1.0, 1.0], tensor.shape)
    return np.asarray(sizes).astype(tensor.dtype)
