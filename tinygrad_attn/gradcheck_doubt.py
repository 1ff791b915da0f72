"""A second look at an element before its rule is called wrong: can the function be measured there at all?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tinygrad_attn import graph
from tinygrad_attn.gradcheck_report import Array, Fault
from tinygrad_attn.numerical import SAFETY, STEPS, Evaluate, Vector, is_stairs, slope
from tinygrad_attn.tensor import Tensor, plain


class Element(NamedTuple):
    """One element of one input, and what its slope is measured with: see `numerical.slope`."""

    evaluate: Evaluate
    array: Array
    place: tuple[int, ...]
    upstream: Vector
    base: Vector
    noise: float
    cancelled: float


def second_look(fault: Fault, element: Element, outputs: Sequence[Any], rtol: float) -> Fault:
    """The same fault, or what it is in truth: the slope from closer by, or a verdict that no rule is to blame for.

    Args:
        fault: an element that looks wrong.
        element: how it was measured.
        outputs: of the function, recorded.
        rtol: relative error that is tolerated.
    """
    if not np.isfinite(fault.analytic):
        return _called(fault, "overflow") if _overflows(outputs) else fault
    scale = abs(float(element.array[element.place])) or 1.0
    closer = slope(*element, steps=[step * scale for step in (STEPS if scale < 1.0 else STEPS[1:])])
    if closer.verdict == "smooth" and closer.uncertainty < 0.01 * fault.error:  # nothing lies between x and the steps
        tolerance = rtol * max(abs(fault.analytic), abs(closer.value)) + closer.uncertainty
        fault = replace(fault, slope=closer, tolerance=max(fault.tolerance, tolerance))
        if not fault.is_wrong:
            return fault
    # A steep gradient makes much rounding likely, and that may hide a pole, or waves that are finer than any step.
    size = float(np.abs(element.upstream) @ np.abs(np.where(element.upstream != 0.0, element.base, 0.0)))
    again = slope(*element._replace(cancelled=0.0))
    if again.verdict in ("kink", "jump"):
        return replace(fault, slope=again)
    enough = max(1e-3 * abs(again.value), 1e-9 * abs(fault.analytic))
    told = again.verdict == "smooth" and again.uncertainty <= enough
    only_noise = 0.0 < size < SAFETY * element.noise * float(np.abs(element.upstream).sum())
    if (only_noise or not told) and abs(fault.analytic) * STEPS[-1] * max(1.0, scale) > size:
        return _called(fault, "unclear")
    if is_stairs(element.evaluate, element.array, element.place, element.upstream, element.base):
        return _called(fault, "stairs")
    return fault


def _called(fault: Fault, verdict: Any) -> Fault:
    return replace(fault, slope=fault.slope._replace(verdict=verdict))


def _overflows(outputs: Sequence[Any]) -> bool:
    """Whether an operation on the way has made a NaN or an infinity of finite numbers: no wonder that gradients do."""
    for tensor in graph.topological_order([output for output in outputs if isinstance(output, Tensor)]):
        if tensor.node is not None and not np.isfinite(plain(tensor)).all():
            given = (*tensor.node.inputs, *tensor.node.options.values())
            if all(np.isfinite(plain(x)).all() for x in given if np.asarray(plain(x)).dtype.kind == "f"):
                return True
    return False
