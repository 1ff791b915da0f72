"""What a gradient check found, as data and as text for a terminal of 80 columns."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.diagnose.explanation import wrapped
from tinygrad_attn.errors import TinygradAttnError
from tinygrad_attn.numerical import Slope

Array = NDArray[Any]


@dataclass(frozen=True)
class InputCheck:
    """One input whose gradient was compared, element by element.

    Attributes:
        name, shape: of the input; for second derivatives, "dy" is the gradient that arrives at the output.
        order: 1 for the gradient, 2 for the derivative of the gradient, ...
        elements: how many were compared.
        excluded: how many were not: named in `exclude=`, or infinite.
        unresolved: how many are too small, beside the values that they move, for differences to tell from rounding.
        max_relative_error: largest |analytic − numeric| / max(|analytic|, |numeric|) of the resolved elements.
        max_absolute_error: largest |analytic − numeric| of all.
    """

    name: str
    shape: tuple[int, ...]
    order: int
    elements: int
    excluded: int
    unresolved: int
    max_relative_error: float
    max_absolute_error: float


@dataclass(frozen=True)
class OracleCheck:
    """What another oracle than differences says: a disagreement is an error, so here it agrees or has no answer.

    Attributes:
        name: "complex step" or "jvp against vjp".
        order: of the derivative.
        elements: how many were compared; 0 if it could not be asked.
        max_relative_error: the largest, of the elements that stand out from rounding.
        reason: why it could not be asked, else "".
        unresolved: how many are too small, beside the values on the way, to tell a wrong gradient from rounding.
    """

    name: str
    order: int
    elements: int
    max_relative_error: float
    reason: str = ""
    unresolved: int = 0

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}, order {self.order}: not to be had, {self.reason}"
        hidden = f", {self.unresolved} unresolved" if self.unresolved else ""
        return (
            f"{self.name}, order {self.order}: agrees, {self.elements} compared, {self.max_relative_error:.1e}{hidden}"
        )


@dataclass(frozen=True)
class GradcheckReport:
    """A check that passed; print it, or let a notebook show it.

    Attributes:
        function: name of what was checked.
        checks: one entry per input and order.
        oracles: what the complex step and jvp say beside them.

    >>> import tinygrad_attn as ta
    >>> report = ta.gradcheck(ta.add, [1.0, 2.0], 3.0)
    >>> report.elements
    3
    """

    function: str
    checks: tuple[InputCheck, ...]
    oracles: tuple[OracleCheck, ...] = ()

    @property
    def elements(self) -> int:
        """Number of comparisons."""
        return sum(check.elements for check in self.checks)

    @property
    def unresolved(self) -> int:
        """Number of comparisons in which rounding hides the answer."""
        return sum(check.unresolved for check in self.checks)

    @property
    def max_relative_error(self) -> float:
        """Largest relative error of any resolved element."""
        return max((check.max_relative_error for check in self.checks), default=0.0)

    @property
    def max_absolute_error(self) -> float:
        """Largest absolute error of any element."""
        return max((check.max_absolute_error for check in self.checks), default=0.0)

    def __str__(self) -> str:
        return "\n".join([self._title, table(self._rows), *(f"  {line}" for line in self._below)])

    def html(self) -> str:
        """The same as a table in HTML that needs nothing else.

        >>> import tinygrad_attn as ta
        >>> ta.gradcheck(ta.exp, 1.0).html().startswith("<table")
        True
        """
        head, *body = self._rows
        cells = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in (*head[:-1], "notes"))
        lines = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in body]
        lines += [f'<td colspan="{len(head)}">{html.escape(line)}</td>' for line in self._below]
        rows = "\n".join(f"<tr>{line}</tr>" for line in lines)
        caption = f'<caption style="text-align: left; white-space: nowrap">{html.escape(self._title)}</caption>'
        look = "text-align: left; border-spacing: 1.2em 0.2em; font-variant-numeric: tabular-nums"
        return (
            f'<table style="{look}">\n{caption}\n<thead><tr>{cells}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>'
        )

    def _repr_html_(self) -> str:
        return self.html()

    @property
    def _title(self) -> str:
        return f"{self.function}: gradients agree with central differences (largest errors)"

    @property
    def _below(self) -> list[str]:
        """What stands under the table."""
        lines = [str(oracle) for oracle in self.oracles]
        if self.unresolved or any(oracle.unresolved for oracle in self.oracles):
            lines.append("unresolved: so small, beside the values that it moves, that rounding hides it")
        return lines

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("order", "input", "shape", "compared", "relative", "absolute", "")]
        for check in self.checks:
            notes = [f"{check.excluded} excluded"] if check.excluded else []
            notes += [f"{check.unresolved} unresolved"] if check.unresolved else []
            numbers = (f"{check.max_relative_error:.1e}", f"{check.max_absolute_error:.1e}", ", ".join(notes))
            rows.append((str(check.order), check.name, str(check.shape), str(check.elements), *numbers))
        return rows


@dataclass(frozen=True)
class OperationCheck:
    """What came of checking one operation of the registry on inputs drawn from its domain.

    Attributes:
        operation: its name.
        draws: how many inputs were drawn; `elements`: how many comparisons they made.
        max_relative_error: the largest, by order: {1: …, 2: …}.
        failure: the first error, or None.
    """

    operation: str
    draws: int
    elements: int
    max_relative_error: dict[int, float]
    failure: TinygradAttnError | None = None

    @property
    def passed(self) -> bool:
        """Whether every comparison agreed."""
        return self.failure is None

    def __str__(self) -> str:
        if self.failure is not None:
            return f"{self.operation:<18} FAILED  {str(self.failure).splitlines()[0]}"
        worst = "  ".join(f"order {order} {error:.0e}" for order, error in self.max_relative_error.items())
        return f"{self.operation:<18} ok  {self.draws:>4} inputs  {self.elements:>6} slopes  {worst}"


@dataclass(frozen=True)
class Fault:
    """An element at which the check failed."""

    name: str
    order: int
    index: tuple[int, ...]
    analytic: float
    slope: Slope
    tolerance: float

    @property
    def is_kink(self) -> bool:
        """Whether the function, not its rule, is to blame."""
        return self.slope.verdict != "smooth"

    @property
    def error(self) -> float:
        """Distance of the two answers; infinite if one of them is no number."""
        return abs(self.analytic - self.slope.value) if math.isfinite(self.analytic) else math.inf

    @property
    def is_wrong(self) -> bool:
        """Whether the rule is to blame; what is not finite is no slope of a smooth function, whatever is tolerated."""
        return not self.is_kink and not (self.error <= self.tolerance and math.isfinite(self.analytic))

    @property
    def severity(self) -> float:
        """How many times over what is tolerated."""
        return self.error / self.tolerance if self.tolerance > 0.0 else self.error and math.inf

    @property
    def place(self) -> str:
        """Such as "x[0, 2]"."""
        return f"{self.name}[{', '.join(map(str, self.index))}]" if self.index else self.name


class Found(Exception):
    """What is wrong with one variable, on its way to the report: elements, or a `reason` that is told in words.

    If it is `unsteady`, the backward pass changes something, so that no gradient of it can be compared.
    """

    def __init__(
        self,
        variable: str,
        order: int,
        faults: Sequence[Fault] = (),
        *,
        compared: int = 0,
        reason: str = "",
        oracle: str = "numeric",
        unsteady: bool = False,
    ) -> None:
        super().__init__()
        self.oracle, self.unsteady = oracle, unsteady
        self.variable, self.order, self.faults, self.compared, self.reason = variable, order, faults, compared, reason

    @property
    def is_kink(self) -> bool:
        """Whether the function is to blame, not a rule."""
        return bool(self.faults) and self.faults[0].is_kink


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned under the first row."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(f"  {line.rstrip()}" for line in lines)


def mismatch_text(subject: str, found: Found, blame: str) -> str:
    """The message for a wrong gradient: where, the two answers, what pattern the error has, whose rule it is."""
    if found.reason:
        return fitted(f"{subject}: {found.reason}\n  {blame}")
    faults = found.faults
    what = "the gradient" if found.order == 1 else f"derivative {found.order}"
    lines = [f"{subject}: {what} of {found.variable} is wrong at {len(faults)} of {found.compared} elements"]
    shown = sorted(faults, key=lambda fault: -fault.severity)[:5]
    rows = [("", "analytic", found.oracle, "error", "tolerated")]
    for fault in shown:
        numbers = (f"{fault.analytic:.9g}", f"{fault.slope.value:.9g}", f"{fault.error:.2g}", f"{fault.tolerance:.2g}")
        rows.append((fault.place, *numbers))
    lines.append(table(rows))
    lines += [fitted(f"  {line}") for line in (_pattern(found), blame) if line]
    return "\n".join(lines)


def fitted(text: str) -> str:
    """The same, with lines that are too long for a terminal broken."""
    lines = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()))
        lines += wrapped(line.lstrip(), indent, f"{indent}  ")
    return "\n".join(lines)


def _pattern(found: Found) -> str:
    """What the wrong elements have in common, as a hint at the mistake."""
    ours = np.array([fault.analytic for fault in found.faults])
    right = np.array([fault.slope.value for fault in found.faults])
    if not np.isfinite(ours).all():
        return "the rule returns NaN or infinity where the function is smooth"
    everywhere = len(ours) == found.compared
    if not ours.any():
        if everywhere:
            return "it is zero throughout: does the value leave the graph (numpy(), detach(), float(), no_grad)?"
        return "it is zero there; elements that are meant to get no gradient are named in exclude="
    if not right.any() and found.oracle == "numeric":
        return "the function itself does not change there; a stand-in for its gradient is named in exclude="
    if everywhere and len(ours) > 1 and right.all():
        factor = float(ours[0] / right[0])
        if np.allclose(ours, factor * right, rtol=1e-4, atol=0.0):
            turned = np.isclose(factor, -1.0)
            return "its sign is turned" if turned else f"every element is off by the factor {factor:.6g}"
    return ""


def kink_text(subject: str, fault: Fault, kinks: Sequence[str] = ()) -> str:
    """The message for a point at which there is nothing to compare with; `kinks` names operations on the way."""
    slope = fault.slope
    what = "the function" if fault.order == 1 else "its gradient"
    if kinks:
        reason = f"on the way, {', '.join(kinks)} is at a kink or at the edge of its domain"
    elif slope.verdict == "edge":
        reason = f"{what} is not finite on both sides of it, as at the edge of a domain"
    elif slope.verdict == "jump":
        reason = f"{what} jumps"
    elif slope.verdict == "overflow":
        reason = "values on the way become infinite; detect_anomaly() names the operation that makes them so"
    elif slope.verdict == "stairs":
        reason = f"{what} moves in steps: are values rounded on the way, or computed in float32?"
    elif slope.verdict == "unclear":
        reason = f"differences settle at no step, as just beside a kink or where {what} is noisy"
    else:
        reason = f"{what} has a kink: slope {slope.left:.6g} on the left, {slope.right:.6g} on the right"
    return fitted(
        f"{subject}: not differentiable here, at {fault.place}\n"
        f"  {reason}\n"
        f"  the rule says {fault.analytic:.6g}\n"
        "  check away from it; what a rule answers at it is a choice to state and test"
    )
