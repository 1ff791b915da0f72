"""What a graph keeps in memory for the backward pass, operation by operation, and how much more that pass needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.diagnose.flow import quiet, require_tensor
from tinygrad_attn.diagnose.inside import run_apart
from tinygrad_attn.diagnose.table import largest_first, merged, rows_of, size
from tinygrad_attn.errors import TinygradAttnError
from tinygrad_attn.graph import sweep, topological_order
from tinygrad_attn.tensor import Tensor

Array = NDArray[Any]
Kind = Literal["parameter", "constant", "result", "saved", "option"]


@dataclass(frozen=True)
class Entry:
    """One buffer.

    Attributes:
        kind: whose it is: a leaf that requires a gradient ("parameter"), a leaf that does not ("constant"), what an
            operation made ("result"), what a fused operation saved beside it, or an array among the options.
        operation: the operation that made it, or, for a leaf, the first that uses it; "" for a loss that is a leaf.
        scope: path of the module that was being called then.
        nbytes: its size.
    """

    kind: Kind
    operation: str
    scope: str
    nbytes: int


@dataclass(frozen=True)
class Ledger:
    """The memory behind a loss; `str` and `print` show it as a table.

    Every buffer is counted once, however many tensors view it; a view keeps all of the buffer alive.

    Attributes:
        entries: the buffers, in the order in which they came to be.
        sweep: bytes that a backward pass needs beside the graph at its worst moment, gradients of leaves included: an
            estimate, since what a rule allocates for a moment is not seen; None where a pass cannot run.
        operations, freed: how many operations there are, and how many of them have been freed.
    """

    entries: tuple[Entry, ...] = field(repr=False)
    sweep: int | None
    operations: int
    freed: int

    def bytes_of(self, *kinds: Kind) -> int:
        """Bytes of all buffers of the given kinds."""
        return sum(entry.nbytes for entry in self.entries if entry.kind in kinds)

    @property
    def total(self) -> int:
        """Bytes of all buffers that can be reached from the loss."""
        return sum(entry.nbytes for entry in self.entries)

    @property
    def parameters(self) -> int:
        """Bytes of the leaves that require a gradient: they are there with and without a graph."""
        return self.bytes_of("parameter")

    @property
    def constants(self) -> int:
        """Bytes of inputs, masks, targets and other leaves that require no gradient."""
        return self.bytes_of("constant")

    @property
    def activations(self) -> int:
        """Bytes that the forward pass has made and that the loss keeps alive: results, saved arrays and options."""
        return self.bytes_of("result", "saved", "option")

    @property
    def peak(self) -> int | None:
        """Bytes at the worst moment of a backward pass that retains the graph: `total` and `sweep`."""
        return None if self.sweep is None else self.total + self.sweep

    @property
    def by_operation(self) -> dict[str, int]:
        """Activation bytes by the name of the operation, the largest first."""
        return self._grouped("operation")

    @property
    def by_scope(self) -> dict[str, int]:
        """Activation bytes by module path, the largest first; what no module made stands under ""."""
        return self._grouped("scope")

    def _grouped(self, attribute: str) -> dict[str, int]:
        groups: dict[str, int] = {}
        for entry in self.entries:
            if entry.kind not in ("parameter", "constant"):
                key = getattr(entry, attribute)
                groups[key] = groups.get(key, 0) + entry.nbytes
        return largest_first(groups)

    def table(self, rows: int = 12) -> str:
        """The ledger as text of at most 80 columns, with so many rows for operations and for modules."""
        shown = [
            ("kept for the backward pass", size(self.total)),
            ("  activations", size(self.activations)),
            ("    of which saved by fused operations", size(self.bytes_of("saved"))),
            ("  parameters", size(self.parameters)),
            ("  constants", size(self.constants)),
        ]
        if self.peak is not None:
            shown.append(("at the peak of the backward pass, about", size(self.peak)))
        lines = [f"{name:<42}{value:>12}" for name, value in shown]
        if self.freed:
            lines.append(f"{self.freed} of {self.operations} operations have been freed: what they held is gone")
        lines += rows_of("operation", self.by_operation, size, rows)
        lines += rows_of("module", merged(self.by_scope, rows), size, rows)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def memory(loss: Tensor) -> Ledger:
    """What `loss` keeps alive for its backward pass, operation by operation and module by module.

    Args:
        loss: any tensor; it need not be one number.
    Returns:
        A `Ledger`. Not in it: the `.grad` that leaves hold already, and the Python objects of the graph, some hundred
        bytes per operation.
    Raises:
        DtypeError: `loss` is no Tensor.

    >>> x = Tensor(np.ones((10, 10)), requires_grad=True)
    >>> ledger = memory((x * 2.0).T.sum())  # the transpose is a view of the product
    >>> ledger.parameters, ledger.activations
    (800, 808)
    """
    require_tensor("diagnose.memory", loss)
    seen: set[int] = set()
    entries = _entries(loss, seen)
    nodes = [tensor.node for tensor in topological_order([loss]) if tensor.node is not None]
    return Ledger(tuple(entries), _sweep_bytes(loss, seen), len(nodes), sum(node.freed for node in nodes))


def _entries(loss: Tensor, seen: set[int]) -> list[Entry]:
    """The buffers behind `loss` but those in `seen`, by `id`, to which they are added."""
    entries: list[Entry] = []
    order = topological_order([loss]) or [loss]

    def enter(kind: Kind, value: Any, operation: str, scope: str) -> None:
        for array in arrays_in(value):
            buffer = owner(array)
            if id(buffer) not in seen:
                seen.add(id(buffer))
                entries.append(Entry(kind, operation, scope, buffer.nbytes))

    for tensor in order:
        node = tensor.node
        if node is None:
            continue  # entered with its first use
        name, scope = node.operation.name, node.scope
        for source in node.inputs:
            if isinstance(source, Tensor) and source.node is None:
                enter("parameter" if source.requires_grad else "constant", source, name, scope)
        enter("result", tensor, name, scope)
        enter("saved", node.saved, name, scope)
        enter("option", tuple(node.options.values()), name, scope)
    if loss.node is None:
        enter("parameter" if loss.requires_grad else "constant", loss, "", "")
    return entries


def arrays_in(value: Any) -> Iterator[Array]:
    """The arrays in a Tensor, an array, or nested tuples, lists and dicts of them."""
    if isinstance(value, Tensor):
        yield value._data
    elif isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from arrays_in(part)
    elif isinstance(value, dict):
        yield from arrays_in(tuple(value.values()))


def owner(array: Array) -> Array:
    """The array that holds the memory which `array` views."""
    found, base = array, array.base
    while base is not None:
        if isinstance(base, np.ndarray):
            found = base
        base = getattr(base, "base", None)
    return found


def _sweep_bytes(loss: Tensor, kept: set[int]) -> int | None:
    """Bytes beside the graph at the worst moment of a backward pass, seen by making one; None if it fails."""
    if not loss.requires_grad:
        return None
    pending: dict[int, Array | int] = {}  # gradients on their way: an array, or the size of a sum
    leaf_bytes, worst = 0, 0
    try:
        with quiet():
            for step in sweep([loss], [np.ones(loss.shape, loss.dtype)], hooks=False):
                tensor = step.tensor
                arrived = pending.pop(id(tensor), step.gradient)
                sent = [np.asarray(contribution) for _, contribution in step.contributions]
                live = _live_bytes([*pending.values(), arrived, *sent], kept)
                scratch = 2 * max(array.nbytes for array in (np.asarray(step.gradient), *sent))
                if tensor.node is None:
                    leaf_bytes += tensor.nbytes if tensor.grad is None else 0
                    scratch = 0
                worst = max(worst, leaf_bytes + live + max(scratch, _again_bytes(tensor, kept)))
                for (index, _), contribution in zip(step.contributions, sent, strict=True):
                    key = id(tensor.node.inputs[index])  # type: ignore[union-attr]
                    pending[key] = contribution if key not in pending else contribution.nbytes
    except (TinygradAttnError, ArithmeticError, ValueError, TypeError, IndexError):
        return None  # freed, changed, or a rule that fails: backward() says which
    return worst


def _again_bytes(tensor: Tensor, kept: set[int]) -> int:
    """Bytes of what a checkpoint computes again for its gradient, and of the sweep through that."""
    again = run_apart(tensor.node) if tensor.node is not None else None
    if again is None:
        return 0
    within = set(kept)
    made = sum(entry.nbytes for entry in _entries(again, within) if entry.kind in ("result", "saved", "option"))
    return made + (_sweep_bytes(again, within) or 0)


def _live_bytes(gradients: Iterable[Array | int], kept: set[int]) -> int:
    """Bytes of the buffers behind `gradients`, each counted once; those of the graph are not counted again."""
    buffers: dict[int, int] = {}
    total = 0
    for gradient in gradients:
        if isinstance(gradient, int):
            total += gradient
        elif id(buffer := owner(np.asarray(gradient))) not in kept:
            buffers[id(buffer)] = buffer.nbytes
    return total + sum(buffers.values())
