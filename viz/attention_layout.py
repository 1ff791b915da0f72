"""Where everything in an attention map stands, in inches, before anything is drawn.

Cells shrink and words turn until tokens of any length fit beside any number of columns and panels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BAR", "LINE", "MARGIN", "Layout", "Measure", "Panel", "flow", "footer_widths", "lay_out", "text_measure"]

# All lengths in inches.
_LONGEST_PANEL = 9.0
_WIDEST_PICTURE = 15.0
MARGIN = 0.16
LINE = 0.21
BAR = (1.6, 0.11)
_SLANTED_ROOM = 1.3
_SMALLEST_TEXT = 5.0  # points


@dataclass(frozen=True)
class Panel:
    """One grid of cells: a head's weights, or its gradient."""

    values: NDArray[np.float64]
    hidden: Mapping[str, NDArray[np.bool_]]
    heading: str
    is_gradient: bool


@dataclass(frozen=True)
class Layout:
    """Where everything stands, in inches from the top left corner."""

    cell: float
    columns: int
    rows: int
    panel: tuple[float, float]
    origin: tuple[float, float]
    gap: tuple[float, float]
    label_room: float
    angle: int
    points: float
    step: int
    size: tuple[float, float]
    footer: float


Measure = Callable[[str, float], float]


def text_measure() -> Measure:
    """Gives the function that measures a text's width in inches at a size in points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing
    from matplotlib.font_manager import FontProperties

    canvas: Any = FigureCanvasAgg(Drawing(dpi=144))
    renderer = canvas.get_renderer()

    def width(text: str, points: float) -> float:
        pixels, _, _ = renderer.get_text_width_height_descent(text or " ", FontProperties(size=points), False)
        return float(pixels) / 144

    return width


def lay_out(
    panels: Sequence[Panel],
    queries: Sequence[str],
    keys: Sequence[str],
    legend: Sequence[str],
    measure: Measure,
    numbers: bool | None,
) -> Layout:
    """Chooses the sizes of cells and text and the places of everything.

    Args:
        panels: all grids, of one shape; with gradients, each head's weights and gradient in turn.
        queries, keys: the tokens as they will be shown.
        legend: what stands beside the hatched swatches.
        measure: gives a text's width in inches.
        numbers: True makes room for a number in every cell.
    """
    pairs = panels[-1].is_gradient
    columns = len(panels) if len(panels) <= 3 else (2 if pairs and len(panels) <= 8 else 4)
    rows = math.ceil(len(panels) / columns)
    longest = max(len(queries), len(keys))
    wanted = 0.62 if longest <= 5 else 0.46 if longest <= 16 or numbers else 0.28
    room = min(_LONGEST_PANEL, _WIDEST_PICTURE / columns)
    cell = min(wanted, room / longest)
    readable = min(9.5, cell * 72 * 0.78)
    step = 1 if readable >= _SMALLEST_TEXT else math.ceil(_SMALLEST_TEXT / readable)
    points = max(readable, _SMALLEST_TEXT)
    widest_key = max(measure(text, points) for text in keys)
    # Horizontal where the words fit their columns; slanted where one picture has room for it; else upright.
    angle = 0 if widest_key <= cell * 0.92 else 45 if columns == 1 and widest_key <= _SLANTED_ROOM else 90
    height = points / 72
    label_room = {0: height, 45: (widest_key + height) * 0.7072, 90: widest_key}[angle] + 0.09
    overhang = max(0.0, widest_key * 0.7072 - cell / 2) if angle == 45 else 0.0
    panel = (cell * len(keys), cell * len(queries))
    heading = LINE if any(panel.heading for panel in panels) else 0.0
    left = MARGIN + 0.26 + max(measure(text, points) for text in queries) + 0.09
    top = MARGIN + 0.3 + 0.24 + heading + label_room
    widest_heading = max(measure(panel.heading, 9.5) for panel in panels)
    gap = (max(0.3, widest_heading + 0.2 - panel[0]), 0.16 + heading)
    block = (columns * panel[0] + (columns - 1) * gap[0], rows * panel[1] + (rows - 1) * gap[1])
    width = max(left + block[0] + overhang + MARGIN, 4.3)
    footer = top + block[1] + 0.2
    lines = flow(footer_widths(pairs, legend, measure), width - 2 * MARGIN)
    return Layout(
        cell=cell,
        columns=columns,
        rows=rows,
        panel=panel,
        origin=(left, top),
        gap=gap,
        label_room=label_room,
        angle=angle,
        points=points,
        step=step,
        size=(width, footer + 0.5 * len(lines) + 0.04),
        footer=footer,
    )


def footer_widths(pairs: bool, legend: Sequence[str], measure: Measure) -> list[float]:
    """Gives the widths of the scales and of the legend's entries, in the order in which they stand."""
    return [BAR[0]] * (2 if pairs else 1) + [0.36 + measure(text, 8.5) for text in legend]


def flow(widths: Sequence[float], room: float) -> list[list[float]]:
    """Puts items into lines from left to right; gives the left edge of each, by line."""
    lines: list[list[float]] = [[]]
    edge = 0.0
    for width in widths:
        if lines[-1] and edge + width > room:
            lines.append([])
            edge = 0.0
        lines[-1].append(edge)
        edge += width + 0.4
    return lines
