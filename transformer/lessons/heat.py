"""Small heat maps and curves as SVG that takes its colours from the page around it.

Cells of one strength share one path, so that a map of 2,000 cells is some 30 KB, sharp at every size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVELS = 8


def heat_svg(values: Any, *, largest: float = 1.0, css_class: str = "heat") -> str:
    """A matrix as cells whose opacity is their size; negative ones have a colour of their own.

    Args:
        values: (rows, columns); NaN cells stay empty.
        largest: the size that is drawn in full colour; larger ones look the same.
        css_class: of the `<svg>`; its paths have the classes `plus` and `minus`.
    Returns:
        An `<svg>` with one unit per cell, stretched to its box and hidden from screen readers: words stand beside it.
    """
    array: NDArray[np.float64] = np.nan_to_num(np.asarray(values, dtype=np.float64))
    rows, columns = array.shape
    strength = np.rint(np.clip(np.abs(array) / largest, 0.0, 1.0) * LEVELS).astype(int)
    paths = []
    for name, wanted in (("plus", array >= 0), ("minus", array < 0)):
        for level in range(1, LEVELS + 1):
            cells = np.argwhere(wanted & (strength == level))
            if len(cells):
                steps = "".join(f"M{column} {row}h1v1h-1z" for row, column in cells.tolist())
                paths.append(f'<path class="{name}" fill-opacity="{level / LEVELS:g}" d="{steps}"/>')
    return (
        f'<svg class="{css_class}" viewBox="0 0 {columns} {rows}" preserveAspectRatio="none" aria-hidden="true" '
        f'focusable="false">{"".join(paths)}</svg>'
    )


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 220, 46, 46, 14, 30


def training_curve_svg(losses: Sequence[float], looks: Sequence[tuple[int, float]]) -> str:
    """The loss of every step on a logarithmic scale, and the share of new examples that are answered exactly.

    Args:
        losses: one per step; drawn as means over stretches of steps.
        looks: (step, share from 0 to 1); without any, there is no scale for them.
    """
    steps = max(1, len(losses))
    stretch = max(1, steps // 100)
    means = [float(np.mean(losses[i : i + stretch])) for i in range(0, len(losses), stretch)]
    low = math.floor(math.log10(max(min(means, default=0.1), 1e-6)))
    high = math.ceil(math.log10(max(*means, 1.0))) if means else 1

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / steps

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    def y_loss(loss: float) -> float:
        return y((math.log10(max(loss, 10.0**low)) - low) / max(1, high - low))

    parts = []
    for power in range(low, high + 1):
        at = y_loss(10.0**power)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text class="loss" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{power_of_ten(power)}</text>'
        )
    for share in (0.0, 0.5, 1.0) if looks else ():
        text = f'<text class="right" x="{WIDTH - RIGHT + 8}" y="{y(share) + 4:.1f}">{100 * share:.0f} %</text>'
        parts.append(text)
    for step in range(0, steps + 1, round_step(steps / 8)):
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - 10}" text-anchor="middle">{step}</text>')
    points = " ".join(f"{x((i + 0.5) * stretch):.1f},{y_loss(mean):.1f}" for i, mean in enumerate(means))
    parts.append(f'<polyline class="loss" points="{points}"/>')
    if looks:
        points = " ".join(f"{x(step):.1f},{y(share):.1f}" for step, share in looks)
        parts.append(f'<polyline class="right" points="{points}"/>')
        parts += [f'<circle class="right" cx="{x(step):.1f}" cy="{y(share):.1f}" r="3.5"/>' for step, share in looks]
    return (
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true" focusable="false">{"".join(parts)}</svg>'
    )


def round_step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, … that is no smaller than `least`."""
    candidates = (digit * int(10.0**power) for power in range(16) for digit in (1, 2, 5))
    return next(step for step in candidates if step >= least)


def power_of_ten(power: int) -> str:
    """A power of ten as a number, or with a raised exponent where that would be long."""
    if -3 <= power <= 3:
        return f"{10.0**power:g}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
