"""The strip as one small picture: every matrix as coloured cells with its numbers, from left to right."""

from __future__ import annotations

import numpy as np

from transformer.lessons.strip import Strip
from transformer.lessons.strip_text import written
from viz.escape import xml_text
from viz.svg import finish
from viz.theme import colours

# Pixels: of a cell, between matrices, and of a line of text.
WIDE, HIGH, GAP, LINE = 44, 28, 46, 24

DRAWN = (("Q", "Q"), ("k", "Kᵀ"), ("masked", "S + mask"), ("weights", "P"), ("v", "V"), ("O", "O"))
BETWEEN = ("·", "→", "softmax", "·", "=")


def strip_svg(strip: Strip, *, prefix: str = "strip") -> str:
    """The matrices of one head from the query to what it reads.

    Args:
        strip: a setting with one head.
        prefix: begins every id, so that several pictures can stand on one page.
    """
    role = colours("light")
    parts, x = [], 4.0
    for number, (name, label) in enumerate(DRAWN):
        values = strip.values[name]
        matrix = values[0] if values.ndim == 3 else values
        matrix = matrix.T if label == "Kᵀ" else matrix
        most = float(np.max(np.abs(matrix[np.isfinite(matrix)]), initial=1e-9))
        parts.append(_text(x + WIDE * matrix.shape[1] / 2, LINE - 7, label, role["ink"], 15, "bold"))
        for (row, column), value in np.ndenumerate(matrix):
            left, top = x + WIDE * column, LINE + HIGH * row
            share = 0.08 + 0.5 * abs(value) / most if value and np.isfinite(value) else 0.0
            parts.append(
                f'<rect x="{left:.0f}" y="{top:.0f}" width="{WIDE - 2}" height="{HIGH - 2}" rx="4" '
                f'fill="{role["input"]}" fill-opacity="{share:.2f}" stroke="{role["rule"]}"/>'
            )
            parts.append(_text(left + WIDE / 2 - 1, top + HIGH / 2 + 4, written(value), role["ink"], 12.5))
        x += WIDE * matrix.shape[1]
        if number < len(BETWEEN):
            sign = BETWEEN[number]
            x += GAP / 2 + (12 if len(sign) > 1 else 0)
            parts.append(_text(x, LINE + 2 * HIGH + 4, sign, role["quiet"], 13))
            x += GAP / 2 + (12 if len(sign) > 1 else 0)
    width, height = x + 4, LINE + 4 * HIGH + 4
    drawn = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}px" height="{height:.0f}px" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">{"".join(parts)}</svg>'
    )
    return finish(
        drawn.encode("utf-8"),
        prefix=prefix,
        title="One head of self-attention, matrix by matrix",
        description="Queries times keys give scores, hidden where nobody may look; softmax gives weights; "
        "weights times values give what was read.",
        adaptive=True,
    )


def _text(x: float, y: float, text: str, colour: str, size: float, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="{size}" font-weight="{weight}" '
        f'fill="{colour}">{xml_text(text, 40)}</text>'
    )
