"""A recorded computation as plain data: `trace` walks from the results to the leaves and writes down what it meets.

Tensors and operations are nodes, every operand is an edge of its own (`a * a` has two), constants are nodes too. Ids
run n0, n1, … with inputs before what is made of them, so that the same computation gives the same graph in every run.
The walk is iterative and linear in nodes and edges.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import tinygrad_attn as ta
from tinygrad_attn.errors import UnsupportedFunctionError
from tinygrad_attn.graph import Node as RecordedNode
from tinygrad_attn.graph import sweep
from tinygrad_attn.modes import ModeSwitch
from tinygrad_attn.nn import Parameter
from tinygrad_attn.tensor import Tensor

from .numbers import significant

__all__ = ["Flow", "Graph", "GraphEdge", "GraphNode", "Traced", "trace", "trace_live"]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One tensor, one operation, or what a transformation put in the place of several.

    Attributes:
        id: "n0", "n1", … in topological order.
        kind: "tensor", "operation", "module" (collapsed) or "more" (left out).
        role: a tensor is a "parameter", an "input" (a leaf that wants a gradient), a "constant", a "result" or an
            "output" (a root); an operation is "primitive", "fused" or "freed" (its inputs are gone).
        name: the tensor's own name (may be empty), the operation's name, or a module's path.
        symbol: what stands in the circle of an operation.
        shape, dtype: of a tensor; () and "" for the others.
        requires_grad: whether a gradient reaches it.
        scope: path of the module that was being called, such as "encoder.layers.0".
        options: the options that are not at their default, as text.
        source: "file:line" where that was recorded.
        count: how many nodes or repeats this one stands for.
        value: the tensor's values, read-only, not part of comparisons.
    """

    id: str
    kind: str
    role: str
    name: str
    symbol: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    requires_grad: bool = False
    scope: str = ""
    options: tuple[tuple[str, str], ...] = ()
    source: str = ""
    count: int = 1
    value: Array | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """One operand of an operation, or the step from an operation to its result.

    Attributes:
        tail, head: node ids.
        operand: position among the operands; None on the way from an operation to its result.
        parameter: the operand's name in the operation.
        formula: the operation's gradient rule for this operand.
    """

    tail: str
    head: str
    operand: int | None = None
    parameter: str = ""
    formula: str = ""


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order, edges, and the ids of the roots.

    Attributes:
        repeats: path of a module that stands for several to the text that says so, such as "0–5  ×6".
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    roots: tuple[str, ...]
    repeats: tuple[tuple[str, str], ...] = ()

    def node(self, identity: str) -> GraphNode:
        """Gives the node with this id; KeyError if there is none."""
        return self.by_id()[identity]

    def by_id(self) -> dict[str, GraphNode]:
        """Gives all nodes by id."""
        return {node.id: node for node in self.nodes}


@dataclass(frozen=True)
class Flow:
    """Gradients of a traced graph.

    Attributes:
        tensors: node id of a tensor to ∂L/∂tensor.
        operands: (node id of an operation, operand position) to what the operation sends to that operand.
    """

    tensors: Mapping[str, Array]
    operands: Mapping[tuple[str, int], Array]


def trace(*roots: Any) -> Graph:
    """Writes down the computation behind some tensors.

    Args:
        roots: Tensors, or lists, tuples and dicts of them, such as a model's outputs.
    Returns:
        The graph as plain data; it holds views of the values and nothing else of the engine.
    Raises:
        UnsupportedFunctionError: something else than a Tensor, such as the model itself.

    >>> a = ta.Tensor(3.0, requires_grad=True, name="a")
    >>> [(edge.tail, edge.head, edge.operand) for edge in trace(a * a).edges]
    [('n0', 'n1', 0), ('n0', 'n1', 1), ('n1', 'n2', None)]
    """
    return trace_live(*roots).graph


def trace_live(*roots: Any, opened: Collection[str] | bool = ()) -> Traced:
    """Traces as `trace` does, and keeps the tensors, so that gradients can be computed.

    Args:
        roots: as for `trace`.
        opened: names of fused operations in whose place the primitive ones of their reference appear; True opens all.
    Returns:
        The graph with its tensors.
    """
    return Traced(_tensors(roots), opened)


def _tensors(roots: Any) -> list[Tensor]:
    found: list[Tensor] = []
    pending = [roots]
    while pending:
        item = pending.pop()
        if isinstance(item, Tensor):
            found.append(item)
        elif isinstance(item, Mapping):
            pending.extend(reversed(list(item.values())))
        elif isinstance(item, (list, tuple)):
            pending.extend(reversed(item))
        else:
            hint = "; pass what the model returned, not the model" if hasattr(item, "parameters") else ""
            raise UnsupportedFunctionError(f"trace: expected Tensors, got {type(item).__name__}{hint}")
    if not found:
        raise UnsupportedFunctionError("trace: expected at least one Tensor, got none")
    return found


class Traced:
    """A graph together with the tensors that it was read from."""

    def __init__(self, roots: list[Tensor], opened: Collection[str] | bool) -> None:
        self.roots = roots
        self._opened = opened
        self._root_ids = {id(root) for root in roots}
        self._nodes: list[GraphNode] = []
        self._edges: list[GraphEdge] = []
        self._ids: dict[int, str] = {}  # id(tensor) -> id of its node
        self._makers: dict[str, str] = {}  # id of a tensor's node -> id of the operation that made it
        # Of opened operations: stand-in -> the operand itself; result -> the same result computed by the reference.
        self._stand_ins: dict[int, Tensor] = {}
        self._insides: dict[int, Tensor] = {}
        self._alive: list[Tensor] = []  # `id` means something only as long as the tensor lives
        for root in roots:
            self._walk(root)
        root_ids = tuple(dict.fromkeys(self._ids[id(root)] for root in roots))
        self.graph = Graph(tuple(self._nodes), tuple(self._edges), root_ids)

    def id_of(self, tensor: Tensor) -> str:
        """Gives the id of a tensor's node; an empty string if it is not part of the graph."""
        return self._ids.get(id(tensor), "")

    def _walk(self, root: Tensor) -> None:
        stack: list[tuple[Tensor, bool]] = [(root, False)]
        while stack:
            tensor, inputs_done = stack.pop()
            tensor = self._stand_ins.get(id(tensor), tensor)
            if id(tensor) in self._ids:
                continue
            node = self._node_of(tensor)
            if node is None:
                self._add_leaf(tensor)
            elif inputs_done:
                self._add_result(tensor, node)
            else:
                stack.append((tensor, True))
                stack.extend((source, False) for source in reversed(node.inputs) if isinstance(source, Tensor))

    def _node_of(self, tensor: Tensor) -> RecordedNode | None:
        """The application that made a tensor; of an opened operation, the last one of its reference."""
        node: RecordedNode | None = tensor.node
        if node is None or node.operation.reference is None or node.freed:
            return node
        if self._opened is not True and (not self._opened or node.operation.name not in self._opened):
            return node
        if id(tensor) not in self._insides:
            self._insides[id(tensor)] = self._run_reference(node)
        return self._insides[id(tensor)].node or node

    def _run_reference(self, node: RecordedNode) -> Tensor:
        operands = list(node.inputs)
        path = f"{node.scope}.{node.operation.name}" if node.scope else node.operation.name
        with ModeSwitch(record=True, unfused=True, scope=path):
            for index, operand in enumerate(operands):
                if isinstance(operand, Tensor) and operand.requires_grad:
                    operands[index] = stand_in = ta.identity(operand)
                    self._alive.append(stand_in)
                    self._stand_ins[id(stand_in)] = operand
            inside = node.operation.reference(*operands, **node.options)  # type: ignore[misc]
        return cast(Tensor, inside)

    def _new(self, **fields: Any) -> str:
        identity = f"n{len(self._nodes)}"
        self._nodes.append(GraphNode(id=identity, **fields))
        return identity

    def _add_leaf(self, tensor: Tensor) -> None:
        role = "input" if tensor.requires_grad else "constant"
        if isinstance(tensor, Parameter):
            role = "parameter"
        self._ids[id(tensor)] = self._add_tensor(tensor, role)

    def _add_tensor(self, tensor: Tensor, role: str, scope: str = "") -> str:
        return self._new(
            kind="tensor",
            role=role,
            name=tensor.name or "",
            shape=tensor.shape,
            dtype=_dtype_name(tensor.dtype),
            requires_grad=tensor.requires_grad,
            scope=scope,
            value=tensor.numpy(),
        )

    def _add_result(self, tensor: Tensor, node: RecordedNode) -> None:
        operation = node.operation
        tails = [self._tail(operand) for operand in node.inputs]
        maker = self._new(
            kind="operation",
            role="freed" if node.freed else "primitive" if operation.reference is None else "fused",
            name=operation.name,
            symbol=operation.symbol,
            requires_grad=True,
            scope=node.scope,
            options=_options(node),
            source=node.source or "",
        )
        for index, tail in enumerate(tails):
            if tail:
                parameter = operation.parameter_at(index)
                formula = operation.formulas.get(parameter.partition("[")[0], "")
                self._edges.append(GraphEdge(tail, maker, index, parameter, formula))
        role = "output" if id(tensor) in self._root_ids else "result"
        self._ids[id(tensor)] = result = self._add_tensor(tensor, role, node.scope)
        self._makers[result] = maker
        self._edges.append(GraphEdge(maker, result))

    def _tail(self, operand: Any) -> str:
        if operand is None:
            return ""
        if isinstance(operand, Tensor):
            return self._ids[id(self._stand_ins.get(id(operand), operand))]
        return self._new(
            kind="tensor", role="constant", name="", dtype=type(operand).__name__, value=np.asarray(operand)
        )

    def flow(self, upstream: Any = None, *, only: Collection[str] | None = None) -> Flow:
        """Computes the gradient of the first root with respect to every tensor behind it.

        No `.grad` is touched and no hook is called: a picture looks, and changes nothing.

        Args:
            upstream: ∂L/∂root; may be left out if the root holds one element.
            only: ids of the nodes whose gradients are kept; None keeps all.
        Raises:
            GradientError: the root requires no gradient, or the graph was freed.
        """
        tensors: dict[str, Array] = {}
        operands: dict[tuple[str, int], Array] = {}
        reached: dict[int, Array] = {}  # what arrives at the results of opened operations

        def record(start: Tensor, seed: Array, stop: Collection[int], name: str) -> None:
            for step in sweep([start], [seed], stop=stop, hooks=False):
                key = id(step.tensor)
                identity = name if step.tensor is start else self._ids.get(key, "")
                if key in self._insides and not stop:
                    reached[key] = np.asarray(step.gradient)
                if not identity or key in stop or (only is not None and identity not in only):
                    continue
                tensors[identity] = np.asarray(step.gradient)
                if key in self._insides:  # the kernel's own contributions; those of its reference come below
                    continue
                for index, contribution in step.contributions:
                    operands[self._makers[identity], index] = np.asarray(contribution)

        root = self.roots[0]
        record(root, root.seed_gradient(upstream), (), self._ids[id(root)])
        for key, inside in self._insides.items():
            if key in reached:
                record(inside, reached[key], self._stand_ins.keys(), self._ids[key])
        return Flow(tensors, operands)


@functools.lru_cache(maxsize=64)
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return str(dtype)  # takes longer than all else that a node needs


def _options(node: RecordedNode) -> tuple[tuple[str, str], ...]:
    texts = {name: _option(value) for name, value in node.options.items()}
    defaults = node.operation.options
    return tuple((name, text) for name, text in texts.items() if text != _option(defaults.get(name, ...)))


def _option(value: Any) -> str:
    """An option as text that is the same in every run: no addresses, no long arrays."""
    if isinstance(value, (bool, str)) or value is None:
        return repr(value)
    if isinstance(value, (int, float)):
        return significant(value)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_option, value))})"
    if isinstance(value, slice):
        return ":".join("" if part is None else _option(part) for part in (value.start, value.stop, value.step))
    if isinstance(value, (np.ndarray, Tensor)):
        return f"array {value.shape}"
    return "…" if value is Ellipsis else type(value).__name__
