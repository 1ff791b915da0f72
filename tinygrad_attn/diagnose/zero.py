"""Where a gradient that is exactly zero was lost, found by asking each operation on the way what it would pass on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tinygrad_attn.diagnose.dead import explain_dead
from tinygrad_attn.diagnose.explanation import Cause, Paths, first_place, label, number
from tinygrad_attn.diagnose.flow import Array, Flow, Use, is_built_in, random_gradient
from tinygrad_attn.diagnose.inside import opened
from tinygrad_attn.graph import fold, sweep
from tinygrad_attn.tensor import Tensor

HALVES = 6  # tries to split what arrives so that its parts do not cancel
ROUNDING = 64.0  # units in the last place that count as rounding error


class ZeroTrace:
    """Follows elements without a gradient from a tensor towards the root of a flow, until each is accounted for.

    At every use of a tensor, three questions are put to the gradient rule, and its answers are the evidence:

    1. Does a random gradient of the result come back to the element? If not, the derivative itself is zero here.
    2. Does one come back that is random only where a gradient arrives? If not, none arrives where it matters, and the
       search goes on with those elements of the result.
    3. Else what arrives cancels, or is too small for the dtype.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.rng = np.random.default_rng(0)

    def causes(self, tensor: Tensor, elements: Array) -> list[Cause]:
        """Why the gradient is zero at `elements`, boolean, in the tensor's shape.

        Returns:
            What accounts for the largest part of the elements first; of equals, what is nearest to the tensor.
        """
        found: list[tuple[float, Cause]] = []
        pending, paths = {id(tensor): elements}, Paths()
        shares = {id(tensor): 1.0}  # which part of the elements a search has been left with
        for current in self.flow.order:
            here = pending.pop(id(current), None)
            if here is None or not here.any():
                continue
            share, size = shares[id(current)], int(here.sum())
            if current is self.flow.root:
                found.append((share, Cause("zero upstream", "the gradient that was sent in at the loss is zero there")))
                continue
            causes: list[Cause] = []
            uses = self.flow.uses.get(id(current), [])
            left = self._uncancelled(current, uses, here, causes)
            reads = [use.reacts(True, self.rng) for use in uses] if left.any() else []
            passed_over = self._passed_over(uses, reads, left)
            for use, reacting, skipped in zip(uses, reads, passed_over, strict=False):
                key, (above, rest) = id(use.out), self._through(use, left & ~skipped, int(left.sum()), reacting, causes)
                pending[key] = pending.get(key, False) | above
                shares[key] = max(shares.get(key, 0.0), share * rest / size)
                paths.step(current, use.out)
            found += [(share * cause.count / size, replace(cause, path=paths.to(current))) for cause in _once(causes)]
        found.sort(key=lambda pair: -round(pair[0], 6))
        return [cause for _, cause in found]

    def rounding(self, tensor: Tensor) -> list[Cause]:
        """Where contributions cancel but for rounding, if nothing else has reached `tensor`; empty if something has."""
        found: list[Cause] = []
        dust: dict[int, bool] = {}  # whether nothing but rounding error has reached a tensor
        for current in reversed(self.flow.order):
            uses = self.flow.uses.get(id(current), [])
            dust[id(current)] = bool(uses) and all(dust[id(use.out)] or self._is_dust(use, found) for use in uses)
            sent = max((float(np.max(np.abs(use.contribution), initial=0.0)) for use in uses), default=0.0)
            left = float(np.max(np.abs(self.flow.gradient(current)), initial=0.0))
            if len(uses) > 1 and left <= ROUNDING * np.finfo(current.dtype).eps * sent:
                dust[id(current)] = True
                found.append(Cause("cancelled", f"what {label(current)} gets from its {len(uses)} uses cancels"))
        return found[::-1] if dust.get(id(tensor)) else []

    def _is_dust(self, use: Use, found: list[Cause]) -> bool:
        """Whether a use has sent nothing but rounding error; notes the cause."""
        left = np.max(np.abs(use.contribution), initial=0.0)
        if left == 0.0:
            return True
        upstream = self.flow.gradient(use.out)
        signs = np.where(self.rng.integers(0, 2, upstream.shape) == 1, 1, -1).astype(upstream.dtype)
        usual = np.max(np.abs(use.pull(upstream * signs)))  # the same sizes, which hardly cancel
        if left > ROUNDING * np.finfo(use.contribution.dtype).eps * usual:
            precise = use.pull_precisely(upstream)
            if precise is None or np.max(np.abs(precise)) > 0.01 * left:
                return False
        everywhere = np.ones(use.contribution.shape, dtype=bool)
        alive = use.reacts(True, self.rng).any()
        found.append(_cancelled(use, upstream, everywhere) if alive else self._dead(use, everywhere, everywhere.size))
        return True

    def _uncancelled(self, tensor: Tensor, uses: list[Use], elements: Array, found: list[Cause]) -> Array:
        """The elements to which every use sends zero; of the others, the contributions cancel."""
        sent = np.zeros(tensor.shape, dtype=bool)
        for use in uses:
            sent |= use.contribution != 0.0
        cancelled = elements & sent
        if cancelled.any():
            place = first_place(cancelled)
            parts = [(use.node.operation.name, use.contribution[place]) for use in uses if use.contribution[place] != 0]
            found.append(
                Cause(
                    "cancelled",
                    f"what {label(tensor)} gets from its {len(parts)} uses adds up to 0",
                    place=place,
                    values=tuple((f"from {name}", number(value)) for name, value in parts),
                    count=int(cancelled.sum()),
                    remedy="is the same amount added in one place and taken away in another?",
                )
            )
        return elements & ~sent

    def _passed_over(self, uses: list[Use], reads: list[Array], elements: Array) -> list[Array]:
        """For each use, the elements that it leaves to another one: x[0] is not to blame for x[1] if that is used too.

        Of several uses that leave an element out, the first is told, and the others are not.
        """
        partial = [_takes_a_part(use) for use in uses]
        taken = [reacting if part else elements for reacting, part in zip(reads, partial, strict=False)]
        anywhere, told = np.zeros_like(elements), np.zeros_like(elements)
        for found in taken:
            anywhere |= found
        passed_over = []
        for found, part in zip(taken, partial, strict=False):
            left_out = elements & ~found
            passed_over.append(left_out & (anywhere | told) if part else np.zeros_like(elements))
            told |= left_out
        return passed_over

    def _through(self, use: Use, elements: Array, asked: int, reacting: Array, found: list[Cause]) -> tuple[Array, int]:
        """Account for the elements at one use, out of so many `asked` about; some are `reacting` to what it is sent.

        Returns:
            The elements of the result whose lack of gradient is the cause, and how many of `elements` that leaves.
        """
        dead = elements & ~reacting
        if dead.any():
            found.append(self._dead(use, dead, asked))
        upstream = self.flow.gradient(use.out)
        arrived = upstream != 0.0
        rest = elements & reacting
        met = use.reacts(arrived, self.rng) if arrived.any() else np.zeros(rest.shape, dtype=bool)
        if use.node.operation.elementwise:  # 0 · ∞ in a branch not taken is NaN, and no gradient
            met &= fold(arrived.astype(np.float64), rest.shape) != 0.0
        lost = rest & met
        if lost.any():
            found += self._lost(use, upstream, lost)
        above = rest & ~met
        if not above.any():
            return np.zeros(use.out.shape, dtype=bool), 0
        missing = np.asarray(self._influenced(use, above) & ~arrived)
        if not missing.any():  # all that matters arrives, and once was answered and once was not
            found.append(_cancelled(use, upstream, above, "rounding", "nothing but rounding error comes back for it"))
        return missing, int(above.sum())

    def _dead(self, use: Use, dead: Array, asked: int) -> Cause:
        """The operation whose derivative is zero; inside a fused one, the primitive operation."""
        cause = explain_dead(use, dead, asked)
        if cause is None:
            cause = self._opened(use, dead) or explain_dead(use, dead, asked, general=True)
        if cause is None:
            raise TypeError("a general explanation exists for every operation")
        return replace(cause, scope=use.node.scope, source=use.node.source)

    def _opened(self, use: Use, dead: Array) -> Cause | None:
        """The culprit inside an operation that is made of others."""
        found = opened(use, random_gradient(use.out, self.rng))
        if found is None:
            return None
        flow, inner = found
        dead = dead & (flow.gradient(inner) == 0.0)
        causes = ZeroTrace(flow).causes(inner, dead) if dead.any() else []
        return replace(causes[0], path=(), inside=use.node.operation.name) if causes else None

    def _lost(self, use: Use, upstream: Array, lost: Array) -> list[Cause]:
        """What arrives, and does not come back: because its parts cancel, or because it is too small."""
        split = np.zeros(lost.shape, dtype=bool)
        for _ in range(HALVES):
            half = self.rng.integers(0, 2, upstream.shape) == 1
            split |= use.pull(np.where(half, upstream, 0.0).astype(upstream.dtype)) != 0.0
        return [_cancelled(use, upstream, lost & split)] * bool((lost & split).any()) + (
            [_underflow(use, upstream, lost & ~split)] * bool((lost & ~split).any())
        )

    def _influenced(self, use: Use, elements: Array) -> Array:
        """The elements of the result that `elements` of the operand have an influence on; more if that is not known."""
        shape = use.out.shape
        if use.node.operation.elementwise:
            return np.broadcast_to(elements, shape)
        for method in (_moved, self._derivative):
            reached = method(use, elements)
            if reached is not None and reached.shape == shape and not (elements & ~use.reacts(reached, self.rng)).any():
                return reached
        return np.ones(shape, dtype=bool)

    def _derivative(self, use: Use, elements: Array) -> Array | None:
        """The elements of the result that change when `elements` do: the rule is linear in the gradient it is given,
        so its derivative by that gradient is the forward derivative."""
        direction = np.where(elements, random_gradient(use.node.inputs[use.operand], self.rng), 0.0)
        sent = Tensor(random_gradient(use.out, self.rng), requires_grad=True)
        try:
            ((_, back),) = use.node.operation.pull(use.node, sent, use.out, [use.operand], create_graph=True)
            steps = sweep([back], [direction.astype(back.dtype)], targets=[sent], hooks=False)
            changes = {id(step.tensor): step.gradient for step in steps}.get(id(sent))
        except Exception:  # a rule of a user's own that cannot be differentiated is no reason to fail
            return None
        return None if changes is None else np.asarray(np.asarray(changes) != 0.0)


def _takes_a_part(use: Use) -> bool:
    """Whether an operation only takes elements out of this operand and does not look at the others."""
    return use.node.operation.moves or use.node.operation.name == "embedding"


def _once(causes: list[Cause]) -> list[Cause]:
    """Causes that read alike, told once: both operands of x · x are x."""
    told: dict[Any, Cause] = {}
    for cause in causes:
        told.setdefault(replace(cause, parameter="", values=cause.values[:1]), cause)
    return list(told.values())


def _moved(use: Use, elements: Array) -> Array | None:
    """Where elements go that only change places, are copied or added."""
    operation, operands = use.node.operation, use.values
    if not operation.moves:
        return None
    marks: list[Any] = [np.zeros_like(value) if isinstance(value, np.ndarray) else value for value in operands]
    marks[use.operand] = elements.astype(np.float64)
    return np.asarray(np.asarray(operation.forward(*marks, **use.node.options)) != 0.0)


def _cancelled(
    use: Use,
    upstream: Array,
    lost: Array,
    kind: str = "cancelled",
    text: str = "gradients arrive, and what they make of it adds up to 0",
) -> Cause:
    operation = use.node.operation
    remedy = "send different gradients in, or check that no term is subtracted from itself"
    if operation.name == "softmax" and is_built_in(operation) and _is_even(upstream, use.node.options["axis"]):
        text = "all weights get the same gradient; as they always sum to 1, that is no change"
        remedy = "use the weights unevenly: their sum, or their mean, is a constant"
    elif _is_spread(use):
        text = "it is added in many places, and the gradients that come back from these add up to 0"
        remedy = "does a softmax, or a mean that is subtracted, take away what all have in common? it can be left out"
    return Cause(
        kind,
        text,
        operation.name,
        operation.parameter_at(use.operand),
        first_place(lost),
        (("largest that arrives", number(np.max(np.abs(upstream)))),),
        int(lost.sum()),
        scope=use.node.scope,
        source=use.node.source,
        remedy=remedy,
    )


def _is_spread(use: Use) -> bool:
    """Whether the operand is added to many places of the result."""
    operation = use.node.operation
    added = operation.name in ("add", "subtract") or operation.parameter_at(use.operand) == "bias"
    return added and is_built_in(operation) and use.contribution.size < use.out.size


def _is_even(gradient: Array, axis: int) -> bool:
    return gradient.ndim > 0 and bool(np.all(gradient == np.take(gradient, [0], axis)))


def _underflow(use: Use, upstream: Array, lost: Array) -> Cause:
    operation, dtype = use.node.operation, use.contribution.dtype
    wider = "" if dtype == np.float64 else "float64, or "
    smallest = number(np.finfo(dtype).smallest_subnormal)
    return Cause(
        "underflow",
        f"what comes back is smaller than {smallest}, the smallest number of {dtype}, and rounds to 0",
        operation.name,
        operation.parameter_at(use.operand),
        first_place(lost),
        (("largest that arrives", number(np.max(np.abs(upstream)))),),
        int(lost.sum()),
        scope=use.node.scope,
        source=use.node.source,
        remedy=f"{wider}multiply the loss by a large number and divide the gradients by it",
    )
