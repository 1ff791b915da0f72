"""How large a graph is and what it is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tinygrad_attn.diagnose.flow import require_tensor
from tinygrad_attn.diagnose.table import largest_first, merged, rows_of
from tinygrad_attn.graph import topological_order
from tinygrad_attn.tensor import Tensor


@dataclass(frozen=True)
class Statistics:
    """The graph behind a loss in numbers; `str` and `print` show it as a table.

    Attributes:
        nodes: operations.
        edges: operands of all operations that are Tensors; `a * a` has two.
        leaves: leaves that require a gradient; `parameters`: numbers in them.
        constants: Tensors that require no gradient.
        shared: Tensors that are operands more than once: their gradient is a sum.
        depth: operations on the longest path from a leaf to the loss.
        freed: operations whose inputs have been freed; what lay behind them is not counted.
        by_operation, by_scope: operations by name and by module path, the most frequent first.
    """

    nodes: int
    edges: int
    leaves: int
    parameters: int
    constants: int
    shared: int
    depth: int
    freed: int
    by_operation: Mapping[str, int]
    by_scope: Mapping[str, int]

    def __str__(self) -> str:
        return self.table()

    def table(self, rows: int = 12) -> str:
        """The numbers as text of at most 80 columns, with so many rows for operations and for modules."""
        shown = {
            "operations": self.nodes,
            "edges": self.edges,
            "longest path": self.depth,
            "leaves that require a gradient": self.leaves,
            "  numbers in them": self.parameters,
            "constants": self.constants,
            "tensors used more than once": self.shared,
        }
        if self.freed:
            shown["freed operations"] = self.freed
        lines = [f"{name:<42}{value:>12,}" for name, value in shown.items()]
        lines += rows_of("operation", self.by_operation, _grouped, rows)
        lines += rows_of("module", merged(self.by_scope, rows), _grouped, rows)
        return "\n".join(lines)


def _grouped(count: int) -> str:
    return f"{count:,}"


def statistics(loss: Tensor) -> Statistics:
    """Count what the graph behind `loss` is made of.

    Raises:
        DtypeError: `loss` is no Tensor.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> counted = statistics((x * x).sum())
    >>> counted.nodes, counted.edges, counted.depth, counted.shared
    (2, 3, 2, 1)
    """
    require_tensor("diagnose.statistics", loss)
    order = topological_order([loss])
    depths: dict[int, int] = {}
    uses: Counter[int] = Counter()
    constants = set() if loss.requires_grad else {id(loss)}
    for tensor in order:
        operands = [value for value in (tensor.node.inputs if tensor.node else ()) if isinstance(value, Tensor)]
        uses.update(id(operand) for operand in operands)
        constants |= {id(operand) for operand in operands if not operand.requires_grad}
        behind = max((depths.get(id(operand), 0) for operand in operands), default=0)
        depths[id(tensor)] = behind + (tensor.node is not None)
    nodes = [tensor.node for tensor in order if tensor.node is not None]
    leaves = [tensor for tensor in order if tensor.node is None]
    return Statistics(
        nodes=len(nodes),
        edges=sum(uses.values()),
        leaves=len(leaves),
        parameters=sum(leaf.size for leaf in leaves),
        constants=len(constants),
        shared=sum(count > 1 for count in uses.values()),
        depth=max(depths.values(), default=0),
        freed=sum(node.freed for node in nodes),
        by_operation=largest_first(Counter(node.operation.name for node in nodes)),
        by_scope=largest_first(Counter(node.scope for node in nodes)),
    )
