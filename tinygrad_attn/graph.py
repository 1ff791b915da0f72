"""The recorded graph and the backward sweep through it.

A Tensor points at the `Node` that made it, a Node at its input Tensors, and nothing points back: a graph is kept
alive by its results and dies with them, by reference count. Gradient rules live in `ops/`; this file only decides in
which order they run and adds up what they return.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tinygrad_attn.errors import GraphFreedError, MutatedError, ShapeError
from tinygrad_attn.modes import MODES
from tinygrad_attn.outside import called, run_hooks, watch

if TYPE_CHECKING:
    from tinygrad_attn.operation import Operation
    from tinygrad_attn.tensor import Tensor

Gradient = Any  # a plain array; with create_graph, a Tensor
NODE_NUMBERS = itertools.count()


class Node:
    """One application of an operation.

    Attributes:
        operation: what was applied.
        inputs: its operands in order: Tensors, Python scalars, or None for an optional operand left out.
        options: its keyword options, such as `axis`.
        saved: what the forward pass of a fused operation kept for its gradient rule, else None.
        scope: path of the module that was being called, such as "encoder.layers.0.self_attention".
        source: the line of user code that applied it, when diagnosis was on, else None.
        number: counts up from node to node, so that of two it tells which was recorded first.
    """

    __slots__ = ("inputs", "number", "operation", "options", "saved", "scope", "source", "versions")

    def __init__(
        self, operation: Operation, inputs: tuple[Any, ...], options: dict[str, Any], saved: Any, scope: str
    ) -> None:
        self.operation = operation
        self.inputs = inputs
        self.options = options
        self.saved = saved
        self.scope = scope
        self.source: str | None = None
        self.versions = version_sum(inputs)
        self.number = next(NODE_NUMBERS)

    @property
    def freed(self) -> bool:
        """Whether a backward pass with `retain_graph=False` has been through here."""
        return self.versions < 0

    def free(self) -> None:
        """Drop the inputs and all that the rule would need."""
        self.inputs, self.saved, self.versions = (), None, -1

    def check_usable(self) -> None:
        """Raise unless the rule would see the same values as the forward pass did."""
        if self.versions < 0:
            raise GraphFreedError(
                f"{self.operation.name}: this part of the graph was freed by an earlier backward pass\n"
                "  use backward(retain_graph=True) on the first pass, or run the forward pass again"
            )
        if version_sum(self.inputs) != self.versions:
            names = ", ".join(
                f"{tensor.name or parameter} {tensor.shape}"
                for parameter, tensor in self.operation.named_inputs(self.inputs)
                if is_tensor(tensor) and tensor._memory is not None
            )
            raise MutatedError(
                f"{self.operation.name}: values that its gradient needs were changed after the forward pass\n"
                f"  one of: {names}\n"
                "  run backward() before the change, or give the forward pass a copy"
            )


def is_tensor(value: Any) -> bool:
    """Whether `value` is a Tensor (asked without importing the class: tensor.py imports this file)."""
    return hasattr(value, "requires_grad")


def version_sum(inputs: Sequence[Any]) -> int:
    """A number that grows whenever the values of any input change."""
    total = 0
    for value in inputs:
        memory = getattr(value, "_memory", None)
        if memory is not None:
            total += memory.version()
    return total


def topological_order(roots: Sequence[Tensor], stop: Collection[int] = ()) -> list[Tensor]:
    """Every tensor behind `roots` that carries a gradient, inputs before what is made of them.

    Depth first and iterative: a chain of 200,000 operations is no deeper for Python than one of two.

    Args:
        roots: where the search starts.
        stop: `id`s of tensors whose own inputs are not followed.
    """
    order: list[Tensor] = []
    visited: set[int] = set()
    stack: list[tuple[Tensor, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        tensor, inputs_done = stack.pop()
        if inputs_done:
            order.append(tensor)
            continue
        if id(tensor) in visited or not tensor.requires_grad:
            continue
        visited.add(id(tensor))
        stack.append((tensor, True))
        if tensor.node is not None and id(tensor) not in stop:
            for source in reversed(tensor.node.inputs):
                if is_tensor(source) and id(source) not in visited:
                    stack.append((source, False))
    return order


class Step(NamedTuple):
    """One step of the backward sweep: a tensor, its complete gradient, and what that sends to each input.

    `contributions` holds (operand index, gradient) pairs of the operation that made the tensor.
    """

    tensor: Tensor
    gradient: Gradient
    contributions: list[tuple[int, Gradient]]


def sweep(
    roots: Sequence[Tensor],
    upstreams: Sequence[Gradient],
    *,
    targets: Sequence[Tensor] | None = None,
    stop: Collection[int] = (),
    create_graph: bool = False,
    free: bool = False,
    hooks: bool = True,
) -> Iterator[Step]:
    """Walk from the roots to the leaves; a tensor is passed once, when every gradient that reaches it is in.

    This is reverse-mode differentiation: with x̄ = ∂L/∂x, each operation y = f(x₁, x₂, …) adds ȳ·∂f/∂xᵢ to x̄ᵢ, and the
    topological order guarantees that ȳ is complete before it is used.

    Args:
        roots: the tensors to differentiate.
        upstreams: ∂L/∂root for each, in the root's shape.
        targets: if given, only the paths that lead to these tensors are walked.
        stop: `id`s of tensors that are passed but not walked behind; their hooks are for another sweep to call.
        create_graph: hand Tensors to the rules, so that what they compute is recorded in turn.
        free: free each node as soon as it has been passed.
        hooks: call the hooks of each tensor; False only looks, as pictures do: at the plain derivative, and at every
            contribution, which are otherwise not spelled out where they can be added in place.
    """
    order = topological_order(roots, stop)
    leads = None if targets is None else _leading_to(order, targets, stop)
    for tensor in order:  # all before the first rule runs: an error leaves no half of the gradients behind
        if tensor.node is not None and id(tensor) not in stop and (leads is None or id(tensor) in leads):
            tensor.node.check_usable()
    arriving, hooked = _Arriving(create_graph), False
    in_place = hooks and not create_graph and not MODES.get().detect_anomaly
    for root, upstream in zip(roots, upstreams, strict=True):
        arriving.add(root, upstream, None)
    while order:
        tensor = order.pop()
        gradient, untaken = arriving.take(tensor)
        if gradient is None:
            continue
        if tensor.hooks and hooks and id(tensor) not in stop:
            gradient = run_hooks(tensor, gradient, recorded=create_graph)
            hooked = True
        node, contributions = tensor.node, []
        if node is not None and id(tensor) not in stop:
            if hooked or node.freed:  # a hook can change values and run a backward pass of its own
                node.check_usable()
            wanted = [
                index
                for index, source in enumerate(node.inputs)
                if is_tensor(source) and source.requires_grad and (leads is None or id(source) in leads)
            ]
            operation = node.operation
            reads_at = operation.reads_at if wanted and in_place and untaken is None else None
            place = None if reads_at is None else reads_at(node.options)
            if place is not None:
                arriving.add_at(node.inputs[0], place, gradient)
                wanted = []
            contributions = operation.pull(node, gradient, tensor, wanted, create_graph=create_graph, untaken=untaken)
            passed_on = operation.untaken_of(node, tensor, wanted, untaken)
            for index, contribution in contributions:
                arriving.add(node.inputs[index], contribution, passed_on.get(index))
        yield Step(tensor, gradient, contributions)
        if free and node is not None:
            node.free()


class _Arriving:
    """The sums of the gradients that have reached each tensor so far."""

    def __init__(self, create_graph: bool) -> None:
        self._sums: dict[int, Gradient] = {}
        self._own: set[int] = set()  # sums that were allocated here and may be added to in place
        self._untaken: dict[int, Any] = {}  # elements that nothing but the branch not taken of a `where` has reached
        self._in_place = not create_graph
        self._watched = MODES.get().detect_anomaly and self._in_place  # what is recorded is watched as any operation

    def add(self, tensor: Tensor, gradient: Gradient, untaken: Any) -> None:
        key = id(tensor)
        if key not in self._sums:
            self._sums[key] = gradient
            if untaken is not None:
                self._untaken[key] = untaken
            return
        before = self._untaken.pop(key, None)
        if before is not None and untaken is not None:
            self._untaken[key] = before & untaken
        parts = (np.array(self._sums[key]), gradient) if self._watched else ()
        if key in self._own:
            self._sums[key] += gradient
        else:
            self._sums[key] = self._sums[key] + gradient
            if self._in_place:
                self._own.add(key)
        if parts:
            watch(f"the gradients that reach {called(tensor)} add up to", self._sums[key], *parts)

    def add_at(self, tensor: Tensor, place: Any, gradient: Gradient) -> None:
        """Add to the elements at `place` alone: x[0], x[1], … each send back as much as they read, not all of x."""
        key = id(tensor)
        self._untaken.pop(key, None)
        if key not in self._own or tensor.ndim == 0:  # a sum of single numbers is a number, which cannot be written to
            total = np.zeros(tensor.shape, tensor.dtype)
            if key in self._sums:
                total += self._sums[key]
            self._sums[key] = total
            self._own.add(key)
        self._sums[key][place] += gradient

    def take(self, tensor: Tensor) -> tuple[Gradient, Any]:
        key = id(tensor)
        return self._sums.pop(key, None), self._untaken.pop(key, None)


def _leading_to(order: Sequence[Tensor], targets: Sequence[Tensor], stop: Collection[int]) -> set[int]:
    """`id`s of the tensors in `order` that are a target or have one behind them."""
    leads = {id(target) for target in targets}
    for tensor in order:
        if tensor.node is not None and id(tensor) not in stop and any(id(x) in leads for x in tensor.node.inputs):
            leads.add(id(tensor))
    return leads


def fold(gradient: Gradient, shape: tuple[int, ...]) -> Gradient:
    """Sum a gradient back to the shape that was broadcast: what was copied forward is added backward.

    Raises:
        ShapeError: `shape` does not broadcast to the gradient's shape.

    >>> fold(np.ones((4, 3)), (3,))
    array([4., 4., 4.])
    >>> fold(np.ones((4, 3)), (4, 1)).shape
    (4, 1)
    """
    if gradient.shape == shape:
        return gradient
    added = gradient.ndim - len(shape)
    kept = gradient.shape[max(added, 0) :]
    if added < 0 or any(have != want and want != 1 for have, want in zip(kept, shape, strict=True)):
        raise ShapeError(f"{shape} does not broadcast to {gradient.shape}")
    axes = tuple(axis for axis in range(gradient.ndim) if axis < added or shape[axis - added] == 1)
    return np.reshape(np.sum(gradient, axis=axes), shape)
