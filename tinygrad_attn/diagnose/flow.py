"""One backward sweep, looked at and kept: what reaches each tensor, and what each use of it sends back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.graph import Node, sweep
from tinygrad_attn.modes import ModeSwitch
from tinygrad_attn.operation import Operation
from tinygrad_attn.tensor import Tensor, plain

Array = NDArray[Any]
DRAWS = 4  # random numbers of float16 cancel by chance once in a thousand times; not four times in a row


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

        Random gradients are sent: of those that really arrive, or of ones, contributions may cancel. A rule is linear
        in the gradient; what comes back, and is not the sum of what comes back for two parts, is rounding error.
        """
        found = np.zeros(self.contribution.shape, dtype=bool)
        tolerance = np.sqrt(np.finfo(self.contribution.dtype).eps)
        for _ in range(DRAWS):
            one, other = (np.where(where, random_gradient(self.out, rng), 0.0).astype(self.out.dtype) for _ in "ab")
            both = self.pull(one + other)
            error = np.abs(both - self.pull(one) - self.pull(other))
            found |= (both != 0.0) & ~(error > tolerance * np.abs(both))  # NaN is a reaction
            if found.all():
                break
        return found


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


def is_built_in(operation: Operation) -> bool:
    """Whether an operation is the one of that name here, and not a user's own."""
    return operation.__module__.startswith("tinygrad_attn.")


def random_gradient(tensor: Tensor, rng: np.random.Generator) -> Array:
    """Random numbers of size about 1 and either sign, in the shape and dtype of `tensor`."""
    sizes = rng.uniform(0.5, 1.5, tensor.shape) * rng.choice([-1.0, 1.0], tensor.shape)
    return np.asarray(sizes).astype(tensor.dtype)
