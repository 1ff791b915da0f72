"""Which operation's rule is at fault when the gradient of a whole function is wrong: each is checked by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_attn import graph
from tinygrad_attn.checkpoint import Recomputed
from tinygrad_attn.diagnose.explanation import at, first_place
from tinygrad_attn.errors import TinygradAttnError
from tinygrad_attn.gradcheck_compare import JVP, Check, FlatFunction, Variable
from tinygrad_attn.gradcheck_complex import in_real_parts
from tinygrad_attn.gradcheck_report import Array, Found
from tinygrad_attn.modes import no_grad
from tinygrad_attn.operation import Operation
from tinygrad_attn.tensor import Tensor, plain


class Blame(NamedTuple):
    """Whose rule is wrong, as far as that could be found out.

    Attributes:
        operation: its name, or "".
        text: a sentence about it.
        kinks: names of operations that are at a kink, so that they could not be judged.
    """

    operation: str
    text: str
    kinks: tuple[str, ...] = ()


def culprit(check: Check, function: FlatFunction, variables: list[Variable], found: Found) -> Blame:
    """The operation whose rule is wrong: each is checked with the values it had."""
    outputs, leaves = check.record(function, variables)
    excluded = {id(leaf): variable.excluded for leaf, variable in zip(leaves, variables, strict=True)}
    made = graph.topological_order([output for output in outputs if isinstance(output, Tensor)])
    nodes = [tensor.node for tensor in made if tensor.node is not None]
    order = found.order
    if not nodes:
        return Blame("", "no operation is recorded between the input and the output")
    unjudged, kinks = [], []
    for node in nodes:
        operation = node.operation
        inside: Callable[..., Any] | None = operation.reference
        alone = _as_function(node, operation, excluded)
        if isinstance(operation, Recomputed):
            inside = _run_again(node, operation)
            alone = _as_function(node, inside, excluded)
        if (found.order > 1 or found.oracle == JVP) and (other := _reference_differs(node)):
            return Blame(operation.name, other)
        try:
            Check(operation.name, order, check.rtol, check.seed, jvp=found.oracle == JVP).run(*alone)
        except Found as fault:
            if fault.is_kink:
                kinks.append(operation.name)
            elif inside is not None and (fault.order > 1 or isinstance(operation, Recomputed)):
                within = culprit(check, *_as_function(node, inside, excluded), fault)
                what = "the checkpoint" if isinstance(operation, Recomputed) else f"the reference of {operation.name}"
                return Blame(within.operation or operation.name, f"{within.text}\n    inside {what}")
            else:
                return Blame(operation.name, _rule_text(node, check.subject, fault.variable))
        except TinygradAttnError:
            unjudged.append(operation.name)
    lines = ["no operation in it is wrong by itself"]
    if kinks:
        lines.append(f"at a kink, and not judged: {', '.join(dict.fromkeys(kinks))}; check away from it")
    if unjudged:
        lines.append(f"not to be checked by itself: {', '.join(dict.fromkeys(unjudged))}")
    lines += [
        "does a value leave the graph on the way (numpy(), detach()), does a hook",
        "change a gradient, or is one overwritten where a value is used twice?",
    ]
    return Blame("", "\n    ".join(lines), tuple(dict.fromkeys(kinks)))


def _as_function(
    node: graph.Node, call: Callable[..., Any], excluded: dict[int, Array]
) -> tuple[FlatFunction, list[Variable]]:
    """One recorded operation, or what is inside it, as a function of its differentiable operands; and their values."""
    operands = node.inputs
    as_list = isinstance(call, Operation) and call.sequence
    positions = [i for i, value in enumerate(operands) if isinstance(value, Tensor) and value.requires_grad]
    names = [node.operation.parameter_at(position) for position in positions]
    arguments = node.saved[1] if isinstance(node.operation, Recomputed) else len(operands)
    leaves = [None if position < arguments else operands[position] for position in positions]  # used, but not given
    arrays = [
        np.array(plain(operands[position])) if leaf is None else plain(leaf)
        for position, leaf in zip(positions, leaves, strict=True)
    ]
    masks = [excluded.get(id(operands[i]), ~np.isfinite(a)) for i, a in zip(positions, arrays, strict=True)]
    variables = [Variable(*parts) for parts in zip(names, arrays, masks, leaves, strict=True)]

    def function(values: Sequence[Tensor]) -> list[Any]:
        filled = list(operands)
        for position, value in zip(positions, values, strict=True):
            filled[position] = value
        return [call(filled, **node.options) if as_list else call(*filled, **node.options)]

    return in_real_parts(function, variables)


def _reference_differs(node: graph.Node) -> str:
    """What a fused operation and its reference answer where they differ; "" if they agree, or if there is none."""
    operation = node.operation
    if operation.reference is None:
        return ""
    with no_grad():
        fused = plain(operation(*node.inputs, **node.options))
        expected = plain(operation.reference(*node.inputs, **node.options))
    if fused.shape != expected.shape:
        return f"at fault: the reference of {operation.name} has shape {expected.shape}, and its result {fused.shape}"
    apart = ~np.isclose(
        fused, expected, rtol=1e-7, atol=1e-9 * float(np.max(np.abs(fused), initial=0.0)), equal_nan=True
    )
    if not apart.any():
        return ""
    place = first_place(apart)
    return (
        f"at fault: the reference of {operation.name} computes something else, and its second derivatives are those of "
        f"the reference:\n    {expected[place]:.9g}{at(place)}, where the operation gives {fused[place]:.9g}"
    )


def _run_again(node: graph.Node, operation: Recomputed) -> Callable[..., Any]:
    """What a checkpoint has run, as a function of the operands of that call."""

    def run_again(*operands: Any) -> Any:
        return operation.again(node, operands)

    return run_again


def _rule_text(node: graph.Node, subject: str, parameter: str) -> str:
    operation = node.operation
    name = re.split(r"[.\[]", parameter)[0]
    rule = f"the rule of {operation.name} for {parameter}" if name in operation.rules else f"a rule of {operation.name}"
    lines = [f"at fault: {rule}{f', in {node.scope}' if node.scope else ''}"]
    if operation.formulas.get(name):
        lines.append(operation.formulas[name])
    if operation.name != subject:
        lines.append("it fails by itself too, with the values it has here")
    return "\n    ".join(lines)
