"""Which operation's rule is at fault when the gradient of a whole function is wrong: each is checked by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_attn import graph
from tinygrad_attn.errors import GradientMismatch, TinygradAttnError
from tinygrad_attn.gradcheck_compare import Check, FlatFunction, Found, Variable
from tinygrad_attn.tensor import Tensor, plain


def culprit(check: Check, function: FlatFunction, variables: list[Variable], order: int) -> tuple[str, str]:
    """Name of the operation whose rule is wrong, and a sentence about it: each is checked with the values it had."""
    outputs, _ = check.record(function, variables)
    made = graph.topological_order([output for output in outputs if isinstance(output, Tensor)])
    nodes = [tensor.node for tensor in made if tensor.node is not None]
    if not nodes:
        return "", "no operation is recorded between the input and the output"
    for node in nodes:
        if len(nodes) == 1 and (order == 1 or node.operation.reference is None):
            name = node.operation.name
            return name, _rule_text(node, check.subject)
        alone = _node_function(node)
        try:
            Check(node.operation.name, order, check.rtol, check.seed).run(*alone)
        except Found as found:
            if found.faults[0].is_kink:
                continue
            if order > 1 and node.operation.reference is not None and found.faults[0].order > 1:
                return _inside_reference(check, node, alone[1], order)
            return node.operation.name, _rule_text(node, check.subject, found.faults[0].name)
        except TinygradAttnError as error:
            if isinstance(error, GradientMismatch):
                return node.operation.name, f"at fault: {str(error).splitlines()[0]}"
    return "", (
        "every operation in it is right by itself: does a value leave the graph on the way (numpy(), detach()),\n"
        "  or is a gradient overwritten where a value is used twice?"
    )


def _node_function(node: graph.Node) -> tuple[FlatFunction, list[Variable]]:
    """One recorded operation as a function of its differentiable operands, and their values."""
    operation, inputs = node.operation, node.inputs
    positions = [i for i, value in enumerate(inputs) if isinstance(value, Tensor) and value.requires_grad]
    names = [operation.parameter_at(position) for position in positions]
    arrays = [np.array(plain(inputs[position])) for position in positions]
    variables = [Variable(name, array, ~np.isfinite(array)) for name, array in zip(names, arrays, strict=True)]

    def function(values: Sequence[Tensor]) -> list[Any]:
        filled = list(inputs)
        for position, value in zip(positions, values, strict=True):
            filled[position] = value
        return [operation(filled, **node.options) if operation.sequence else operation(*filled, **node.options)]

    return function, variables


def _inside_reference(check: Check, node: graph.Node, variables: list[Variable], order: int) -> tuple[str, str]:
    """Second derivatives of a fused operation come from its reference: look for the culprit there."""
    reference = node.operation.reference
    positions = [i for i, value in enumerate(node.inputs) if isinstance(value, Tensor) and value.requires_grad]

    def function(values: Sequence[Tensor]) -> list[Any]:
        filled = list(node.inputs)
        for position, value in zip(positions, values, strict=True):
            filled[position] = value
        return [reference(*filled, **node.options)] if reference is not None else []

    name, blame = culprit(check, function, variables, order)
    return name or node.operation.name, f"{blame}; inside the reference of {node.operation.name}"


def _rule_text(node: graph.Node, subject: str, parameter: str = "") -> str:
    operation = node.operation
    formula = operation.formulas.get(parameter.split("[")[0], "")
    rule = f" for {parameter}" if parameter else ""
    where = f", in {node.scope}" if node.scope else ""
    shown = f" ({formula})" if formula else ""
    alone = "" if operation.name == subject else ", which fails by itself with the values it has here"
    return f"at fault: the rule of {operation.name}{rule}{shown}{where}{alone}"
