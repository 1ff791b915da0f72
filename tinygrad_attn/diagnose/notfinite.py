"""Where a NaN or an infinity comes from: the operation that made it, backward or forward, or what brought it in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinygrad_attn.checkpoint import Recomputed
from tinygrad_attn.diagnose.explanation import (
    STEPS,
    Cause,
    Paths,
    at,
    element_at,
    first_place,
    label,
    number,
    out_place,
)
from tinygrad_attn.diagnose.flow import Array, Flow, Use, is_built_in
from tinygrad_attn.diagnose.inside import opened, run_again
from tinygrad_attn.diagnose.remedies import Verdict, judge_backward, judge_forward
from tinygrad_attn.graph import Node
from tinygrad_attn.operation import Operation
from tinygrad_attn.tensor import Tensor, plain

Place = tuple[int, ...]


def not_finite_causes(flow: Flow, tensor: Tensor, elements: Array) -> list[Cause]:
    """The operations whose rules made what is not finite at `elements` of a gradient; the first one to run is first.

    Where such an operation had met a NaN or an infinity in the forward pass already, its origin comes before it.
    """
    found: list[Cause] = []  # the last one to run first
    pending, paths = {id(tensor): elements}, Paths()
    for current in flow.order:
        here = pending.pop(id(current), None)
        if here is None or not here.any():
            continue
        if current is flow.root:
            text = "the gradient that was sent in at the loss is not finite"
            found.append(Cause("put in", text, place=first_place(here), count=int(here.sum())))
            continue
        guilty = [use for use in flow.uses[id(current)] if (_bad(use.contribution) & here).any()]
        if not guilty:
            found.append(_sum_overflow(current, here, flow.uses[id(current)]))
        for use in guilty:
            bad = _bad(use.contribution) & here
            upstream = flow.gradient(use.out)
            usual = np.where(np.isfinite(upstream), upstream, 1.0).astype(upstream.dtype)
            made = bad & _bad(use.pull(usual))
            if made.any():
                inside = _made_inside(use, usual, made, paths.to(current))
                found += inside or _made_backward(use, usual, made, paths.to(current))
            above = _bad(upstream)
            if use.node.operation.elementwise:
                above = above & np.broadcast_to(bad, above.shape)
            pending[id(use.out)] = pending.get(id(use.out), False) | above
            paths.step(current, use.out)
    found.reverse()
    return list(dict.fromkeys(found))


def forward_origins(tensor: Tensor, place: Place | None = None) -> list[Cause]:
    """Where the NaN or infinity behind a value of `tensor` came from, the first operation first.

    These are two where an operation made an infinity and another a NaN of it.

    Args:
        tensor: whose values.
        place: which of them; a NaN if there is one, else an infinity.
    """
    if place is None:
        nan = np.isnan(tensor._data)
        bad = nan if nan.any() else _bad(tensor._data)
        if not bad.any():
            return []
        place = first_place(bad)
    maker, place, cause = _followed(tensor, place)
    if maker is None:
        return [cause]
    for position, value in enumerate(maker.node.inputs if maker.node is not None else ()):
        for there in _bad_places(plain(value), maker, place):
            if isinstance(operand := maker.node.inputs[position], Tensor):  # type: ignore[union-attr]
                _, _, before = _followed(operand, there)
                if before.kind not in ("put in", "filled in"):
                    return [before, cause]
    return [cause]


def _followed(tensor: Tensor, place: Place) -> tuple[Tensor | None, Place, Cause]:
    """The result, its place and the cause where the value at `place` became what it is; no result if it was put in."""
    while True:
        node = tensor.node
        if node is None or node.freed:
            text = f"{label(tensor)} holds {number(tensor._data[place])}{at(place)}"
            return None, place, Cause("put in", text, place=place, count=int(_bad(tensor._data).sum()))
        found = _guilty_operand(tensor, place)
        if found is None:
            return tensor, place, _made_forward(tensor, place)
        position, place = found
        operand = node.inputs[position]
        if not isinstance(operand, Tensor):
            return None, place, _number_put_in(node, position)
        tensor = operand


def _number_put_in(node: Node, position: int) -> Cause:
    name, value = node.operation.parameter_at(position), number(node.inputs[position])
    return Cause("put in", f"the operand {name} of {node.operation.name} is {value}", count=1)


def _guilty_operand(tensor: Tensor, place: Place) -> tuple[int, Place] | None:
    """The operand, and its element, that the value at `place` has its NaN or infinity from; None if it is new.

    A NaN that was made of infinities is new: ∞ − ∞ and 0 · ∞ are mistakes of their own.
    """
    node = tensor.node
    if node is None:
        return None
    for position, value in enumerate(node.inputs):
        values = np.asarray(0.0 if value is None else plain(value))
        if values.dtype.kind in "fc" and np.isnan(tensor._data[place]):
            values = np.where(np.isnan(values), np.nan, 0.0)
        for there in _bad_places(values, tensor, place):
            return position, there
    return None


def _made_forward(tensor: Tensor, place: Place) -> Cause:
    """The cause where an operation made a NaN or an infinity of what it was given."""
    node = tensor.node
    if node is None:
        raise TypeError("a leaf was made by no operation")
    again = run_again(node)
    if again is not None:
        origins = forward_origins(again, place)
        if origins and origins[0].kind not in ("put in", "filled in"):
            return replace(origins[0], inside=node.operation.name, source=origins[0].source or node.source)
    operation, value = node.operation, tensor._data[place]
    values = [plain(operand) for operand in node.inputs]
    elements = _elements(operation, values, place, tensor.shape)
    verdict = judge_forward(name_of(operation), elements, values, value, node.options)
    if name_of(operation) == "masked_fill" and not np.isfinite(node.options["value"]):
        verdict = Verdict("filled in")
    return Cause(
        verdict.kind,
        f"{verdict.kind}: {number(value)}{at(place)}",
        operation.name,
        "",
        place,
        _rows(operation, values, elements),
        int(_bad(tensor._data).sum()),
        scope=node.scope,
        source=node.source,
        remedy=verdict.remedy,
    )


def _made_inside(use: Use, upstream: Array, made: Array, path: tuple[str, ...]) -> list[Cause]:
    """The causes inside a checkpoint, the last one to run first; empty for other operations."""
    found = opened(use, upstream) if isinstance(use.node.operation, Recomputed) else None
    if found is None:
        return []
    flow, inner = found
    made = made & _bad(flow.gradient(inner))
    causes = not_finite_causes(flow, inner, made) if made.any() else []
    name, line = use.node.operation.name, use.node.source
    return [
        replace(c, path=(*path, *c.path)[-STEPS:], inside=c.inside or name, source=c.source or line)
        for c in reversed(causes)
    ]


def _made_backward(use: Use, upstream: Array, made: Array, path: tuple[str, ...]) -> list[Cause]:
    """The cause where a rule made a NaN or an infinity of a finite gradient; behind it, what it met in the values."""
    node, operation = use.node, use.node.operation
    place, values, out = first_place(made), list(use.values), use.out._data
    there = out_place(place, made.shape, out.shape)
    elements = _elements(operation, values, there, out.shape)
    origins = _met(use, there)
    if not origins and operation.elementwise and not np.isfinite(out[there]):
        verdict = judge_forward(name_of(operation), elements, values, out[there], node.options)
    else:
        slope = use.pull(np.ones_like(upstream))[place]
        precise = use.pull_precisely(np.ones_like(upstream)) if np.isinf(slope) else None
        in_range = precise is not None and bool(np.isfinite(precise[place]))
        verdict = judge_backward(name_of(operation), slope, not origins, node.options, in_range=in_range)
    rows = list(_rows(operation, values, elements))
    for name, array in (("result", out), ("gradient of the result", upstream)):
        rows.append((name, number(array[there]) if operation.elementwise else _range(array)))
    parameter = operation.parameter_at(use.operand)
    formula = operation.formulas.get(parameter.split("[")[0], "")
    becomes = f"{verdict.kind}: the gradient of {parameter} becomes {number(use.contribution[place])}{at(place)}"
    cause = Cause(
        verdict.kind,
        becomes + (f" ({formula})" if formula else ""),
        operation.name,
        parameter,
        place,
        tuple(rows),
        int(made.sum()),
        path,
        scope=node.scope,
        source=node.source,
        remedy=verdict.remedy,
    )
    if origins and origins[0].kind == "filled in":
        return [*origins, cause]
    return [cause, *(replace(origin, text=f"{origin.text}, in the forward pass") for origin in reversed(origins))]


def _met(use: Use, there: Place) -> list[Cause]:
    """The origins of a NaN or an infinity that an operation met in its values; none if it was given finite ones.

    Args:
        use: the operation.
        there: the place of the result; of operations that are not elementwise, all places count.
    """
    node, out = use.node, use.out
    guilty = [(i, places[0]) for i, value in enumerate(use.values) if (places := _bad_places(value, out, there))]
    if not guilty:
        return []
    made = _bad_places(np.where(np.isnan(out._data), np.nan, 0.0), out, there)
    if made:  # a NaN may have been made here, of infinities
        return forward_origins(out, made[0])
    position, place = guilty[0]
    operand = node.inputs[position]
    return forward_origins(operand, place) if isinstance(operand, Tensor) else [_number_put_in(node, position)]


def _bad_places(value: Any, out: Tensor, there: Place) -> list[Place]:
    """Where an operand of `out` is not finite: the element that meets `there`, or the first one if any may count."""
    values = np.asarray(0.0 if value is None else value)
    if values.dtype.kind not in "fc":
        return []
    if out.node is None or not out.node.operation.elementwise:
        return [first_place(_bad(values))] if _bad(values).any() else []
    own = there[len(there) - values.ndim :]
    place = tuple(0 if length == 1 else i for i, length in zip(own, values.shape, strict=True))
    return [place] if _bad(values[place]) else []


def _sum_overflow(tensor: Tensor, elements: Array, uses: Sequence[Use]) -> Cause:
    place = first_place(elements)
    return Cause(
        "overflow",
        f"what {label(tensor)} gets from its {len(uses)} uses adds up to more than {tensor.dtype} can hold",
        place=place,
        values=tuple((f"from {use.node.operation.name}", number(use.contribution[place])) for use in uses),
        count=int(elements.sum()),
        remedy="smaller numbers, or float64: scale the loss down",
    )


def _elements(operation: Operation, values: Sequence[Any], place: Place, shape: tuple[int, ...]) -> dict[str, Any]:
    """By name, the element of each operand that meets `place` of the result; None where shapes do not tell which."""
    return {
        name: element_at(value, place, shape) if operation.elementwise else None
        for name, value in operation.named_inputs(values)
        if value is not None
    }


def _rows(operation: Operation, values: Sequence[Any], elements: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, _range(value) if elements[name] is None else number(elements[name]))
        for name, value in operation.named_inputs(values)
        if value is not None
    )


def _range(value: Any) -> str:
    """Shape and range of an array."""
    values = np.asarray(value)
    if values.size == 0 or values.dtype.kind not in "fiu":
        return f"shape {values.shape}"
    finite = values[np.isfinite(values)]
    between = f"{number(finite.min())} … {number(finite.max())}" if finite.size else "nothing finite"
    bad = values.size - finite.size
    return f"shape {values.shape}, {between}" + (f", {bad} not finite" if bad and finite.size else "")


def name_of(operation: Operation) -> str:
    """The name under which mistakes are known; none for a user's own operation."""
    return operation.name if is_built_in(operation) else ""


def _bad(values: Any) -> Array:
    return np.asarray(~np.isfinite(values))
