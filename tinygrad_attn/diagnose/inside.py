"""Operations that are made of others: a fused one of its reference, a checkpoint of what it runs again."""

from __future__ import annotations

from typing import Any

from tinygrad_attn.checkpoint import Recomputed
from tinygrad_attn.diagnose.flow import Array, Flow, Use
from tinygrad_attn.graph import Node
from tinygrad_attn.operation import Operation
from tinygrad_attn.tensor import Tensor


def opens(operation: Operation) -> bool:
    """Whether an operation can be looked into."""
    return operation.reference is not None or isinstance(operation, Recomputed)


def opened(use: Use, upstream: Array) -> tuple[Flow, Tensor] | None:
    """The gradients inside an operation for one that arrives at its result, and the operand in there that they go to.

    None if it has no inside, or if the inside does not depend on the operand.
    """
    operands = _cut_off(use.node)
    inner = operands[use.operand]
    if inner is not use.node.inputs[use.operand]:
        inner.requires_grad_()
    out = _run(use.node, operands)
    if out is None or not out.requires_grad:
        return None
    flow = Flow(out, upstream, inner)
    return (flow, inner) if id(inner) in flow.gradients else None


def run_apart(node: Node) -> Tensor | None:
    """What a checkpoint computes again in the backward pass, recorded by itself; None for other operations."""
    if not isinstance(node.operation, Recomputed):
        return None
    operands = _cut_off(node)
    for value, original in zip(operands, node.inputs, strict=True):
        if value is not original and original.requires_grad:
            value.requires_grad_()
    return _run(node, operands)


def run_again(node: Node) -> Tensor | None:
    """What a checkpoint has computed, recorded; None if it is none, or does not run a second time."""
    return _run(node, list(node.inputs)) if isinstance(node.operation, Recomputed) else None


def _cut_off(node: Node) -> list[Any]:
    """The operands without their history; what a checkpoint has used without being given it stays as it is."""
    operation, operands = node.operation, list(node.inputs)
    given = node.saved[1] if isinstance(operation, Recomputed) else len(operands)
    for position, value in enumerate(operands[:given]):
        if isinstance(value, Tensor):
            operands[position] = value.detach()
            operands[position].name = value.name or operation.parameter_at(position)
            operands[position].requires_grad_(value.requires_grad and value.node is None)
    return operands


def _run(node: Node, operands: list[Any]) -> Tensor | None:
    operation, out = node.operation, None
    try:
        if isinstance(operation, Recomputed):
            out = operation.again(node, operands)
        elif operation.reference is not None:
            out = operation.reference(*operands, **node.options)
    except Exception:  # a function of a user's own need not run a second time
        return None
    return out if isinstance(out, Tensor) else None
