"""Where the path from a tensor to a loss breaks: what in the graph of the loss looks like the tensor and is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_attn.diagnose.explanation import Cause, label, number
from tinygrad_attn.graph import Node, topological_order
from tinygrad_attn.tensor import Tensor

NAMED = 4  # tensors that are listed by name

# Functions without a gradient that answer in the shape of what they were given.
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "a comparison with 0": lambda x: x > 0,
    "np.floor": np.floor,
    "np.ceil": np.ceil,
    "np.rint": np.rint,
    "np.sign": np.sign,
    "np.argmax": lambda x: np.argmax(x, axis=-1) if x.ndim else x,
    "np.argsort": lambda x: np.argsort(x, axis=-1) if x.ndim else x,
    "astype(int)": lambda x: x.astype(np.int64),
}


class Constant(NamedTuple):
    """Something in the graph that carries no gradient: a Tensor or a number, and the operation that uses it."""

    value: Any
    node: Node
    position: int

    @property
    def parameter(self) -> str:
        """The operation's name for it."""
        return self.node.operation.parameter_at(self.position)


def is_behind(tensor: Tensor, root: Tensor) -> bool:
    """Whether `root` was computed from `tensor`, as far as it is recorded."""
    return any(found is tensor for found in topological_order([root]))


def freed_behind(root: Tensor) -> Node | None:
    """An operation behind `root` whose inputs are gone; None if there is none."""
    nodes = (tensor.node for tensor in topological_order([root]))
    return next((node for node in nodes if node is not None and node.freed), None)


def missing_link(tensor: Tensor, loss: Tensor) -> tuple[Cause | None, tuple[str, ...]]:
    """What the values of `tensor` went into instead of the tensor itself, if that can be seen; and notes.

    Nothing in a graph says "here was detach()". But a detached tensor shares the memory of the original, a plain array
    has its values, and one that replaced it has its name.
    """
    constants = list(_constants(loss))
    for evidence in (_shared, _replaced, _copied, _made_plain):
        cause = evidence(tensor, loss, constants)
        if cause is not None:
            return cause, ()
    return None, _notes(tensor, loss, constants)


def _constants(loss: Tensor) -> Iterator[Constant]:
    for tensor in topological_order([loss]):
        for position, value in enumerate(tensor.node.inputs if tensor.node is not None else ()):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if is_number or (isinstance(value, Tensor) and not value.requires_grad):
                yield Constant(value, tensor.node, position)  # type: ignore[arg-type]


def _cause(kind: str, text: str, at: Constant, remedy: str) -> Cause:
    node = at.node
    return Cause(kind, text, node.operation.name, at.parameter, scope=node.scope, source=node.source, remedy=remedy)


def _shared(tensor: Tensor, loss: Tensor, constants: Sequence[Constant]) -> Cause | None:
    for at in constants:
        if isinstance(at.value, Tensor) and tensor.size and np.may_share_memory(at.value._data, tensor._data):
            return _cause(
                "detached",
                f"its operand {at.parameter} has the memory of {label(tensor)} and no gradient, as detach() "
                "and numpy() give it",
                at,
                "pass the tensor itself",
            )
    return None


def _replaced(tensor: Tensor, loss: Tensor, constants: Sequence[Constant]) -> Cause | None:
    for other in topological_order([loss]):
        if other.node is None and tensor.node is None and tensor.name and other.name == tensor.name:
            return Cause(
                "replaced",
                f"the loss was computed from another tensor named {tensor.name} {other.shape}",
                remedy="change values in place (tensor.data = …), or take the new tensor; "
                "after p = p - rate * p.grad, p is a result and no leaf",
            )
    return None


def _copied(tensor: Tensor, loss: Tensor, constants: Sequence[Constant]) -> Cause | None:
    values = tensor._data
    telling = values.size > 1 and bool(np.any(values != values.flat[0]))
    for at in constants:
        if isinstance(at.value, Tensor):
            same = telling and at.value.shape == values.shape and np.array_equal(at.value._data, values, equal_nan=True)
        else:
            same = values.size == 1 and at.value == values.item() and at.value not in (0, 1)
        if same:
            return _cause(
                "plain values",
                f"its operand {at.parameter} has the values of {label(tensor)} and no gradient: as a plain array or "
                "number they went in without the graph",
                at,
                "pass the tensor itself, not tensor.numpy(), np.asarray(tensor), tensor.item() or float(tensor)",
            )
    return None


def _made_plain(tensor: Tensor, loss: Tensor, constants: Sequence[Constant]) -> Cause | None:
    values = tensor._data
    if values.size < 2 or not np.isfinite(values).all():
        return None
    for name, function in _PLAIN.items():
        made = np.asarray(function(values))
        if made.size < 2 or not np.any(made != made.flat[0]):
            continue
        for at in constants:
            if isinstance(at.value, Tensor) and np.array_equal(at.value._data, made):
                return _cause(
                    "no derivative",
                    f"its operand {at.parameter} has the values that {name} gives for {label(tensor)}: steps, whose "
                    "derivative is zero wherever it exists, so that nothing is recorded",
                    at,
                    "a smooth function in its place: ta.softmax for argmax, ta.sigmoid for a comparison",
                )
    return None


def _notes(tensor: Tensor, loss: Tensor, constants: Sequence[Constant]) -> tuple[str, ...]:
    leaves = [leaf for leaf in topological_order([loss]) if leaf.node is None]
    notes = [f"the loss depends on {_listed([label(leaf) for leaf in leaves])}"] if leaves else []
    seen: dict[int, Constant] = {}
    for at in constants:
        if isinstance(at.value, Tensor):
            seen.setdefault(id(at.value), at)
    shown = [
        f"{at.parameter} of {at.node.operation.name} {at.value.shape}"
        + (f" in {at.node.scope}" if at.node.scope else "")
        for at in seen.values()
    ]
    numbers = sorted({number(at.value) for at in constants if not isinstance(at.value, Tensor)})
    if shown:
        notes.append(f"what has no gradient there, and may have been computed from it: {_listed(shown)}")
    if numbers:
        notes.append(f"numbers without a gradient there: {_listed(numbers)}")
    if not shown and not numbers:
        notes.append("it was not used, or its numbers went in as an index, a condition or a leaf of its own")
    return tuple(notes)


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - NAMED} more" if len(words) > NAMED else ""
    return ", ".join(words[:NAMED]) + more
