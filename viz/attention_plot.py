"""How an attention map looks: panels of cells, hatched where nothing may be attended, one scale for all of them.

Every length is known before anything is drawn, so that tokens of any length stay readable and never overlap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .attention_layout import (
    BAR,
    LINE,
    MARGIN,
    Layout,
    Measure,
    Panel,
    flow,
    footer_widths,
    lay_out,
    text_measure,
)
from .escape import shorten, visible
from .numbers import share, significant
from .plot import PlotFigure, plot_settings
from .theme import colours

if TYPE_CHECKING:
    from .attention import AttentionMap

__all__ = ["draw_map"]

# Lightness changes in one direction, so that the order is seen in grey and with any colour vision.
_WEIGHT_RAMP = {
    "light": ("#f7fafc", "#b9d9ee", "#4f9fd0", "#0072b3", "#00283f"),
    "dark": ("#1c2129", "#12415f", "#0072b3", "#56b4e9", "#e6f5ff"),
}
_GRADIENT_RAMP = {
    "light": ("#003a5c", "#0072b3", "#a6cde6", "#f8f8f7", "#f2c09c", "#d55e01", "#6b2f00"),
    "dark": ("#bfe4fb", "#56b4e9", "#0f5580", "#23272e", "#8a3f05", "#f08a3d", "#ffe0c7"),
}
_HIDDEN_CELL = {"light": ("#eef0f2", "#8f97a3"), "dark": ("#262a31", "#6d7684")}  # fill and hatch
# Numbers stand on cells, which keep their colours when the page around them turns dark.
_NUMBER_INKS = ("#16191e", "#fdfdfd")

_HATCHES = {"causal": "////", "padding": "xxxx", "masked": "...."}
_OTHER_HATCHES = ("\\\\\\\\", "++++", "ooo", "**")
_MEANINGS = {"causal": "hidden: comes later (causal)", "padding": "hidden: padding", "masked": "hidden: masked"}

_MOST_VECTOR_CELLS = 2_500
_NUMBER_CELL = 0.38  # inches


def draw_map(
    data: AttentionMap,
    *,
    title: str,
    alt: str,
    query_title: str,
    key_title: str,
    numbers: bool | None,
    theme: str,
) -> PlotFigure:
    """Draws a checked attention map; `attention.attention_map` says what the arguments mean."""
    palette = colours(theme)
    with plot_settings():
        from matplotlib.figure import Figure as Drawing

        measure = text_measure()
        panels = _panels(data)
        queries, keys = [_token(token) for token in data.queries], [_token(token) for token in data.keys]
        legend = [(_MEANINGS.get(reason, f"hidden: {reason}"), hatch) for reason, hatch in _hatches(data).items()]
        layout = lay_out(panels, queries, keys, [text for text, _ in legend], measure, numbers)
        drawing = Drawing(figsize=layout.size, facecolor=palette["page"])
        brush = _Brush(drawing, layout, palette, "dark" if theme == "dark" else "light", measure)
        extreme = _extreme(data.gradient)
        show_numbers = layout.cell >= _NUMBER_CELL if numbers is None else numbers
        for position, panel in enumerate(panels):
            brush.panel(position, panel, queries, keys, _hatches(data), extreme, show_numbers)
        brush.titles(title, query_title, key_title)
        brush.footer(extreme if data.gradient is not None else None, legend)
    return PlotFigure(drawing, title=title, alt=alt, theme=theme)


def _token(token: str) -> str:
    core = token.strip(" ")
    lead = len(token) - len(token.lstrip(" "))
    marked = "␣" * lead + core + "␣" * (len(token) - lead - len(core))
    return shorten(visible(marked), 24, where="middle")


def _hatches(data: AttentionMap) -> dict[str, str]:
    others = iter(_OTHER_HATCHES * (1 + len(data.hidden)))
    return {reason: _HATCHES.get(reason) or next(others) for reason in data.hidden}


def _panels(data: AttentionMap) -> list[Panel]:
    panels = []
    for head, name in enumerate(data.heads):
        hidden = {reason: part[head] for reason, part in data.hidden.items()}
        if data.gradient is None:
            panels.append(Panel(data.weights[head], hidden, name, False))
            continue
        lead = f"{name}, " if name else ""
        panels.append(Panel(data.weights[head], hidden, f"{lead}weight", False))
        power = _power(_extreme(data.gradient))
        unit = f" (in 10{str(power).translate(_SUPERSCRIPTS)})" if power else ""
        panels.append(Panel(data.gradient[head], hidden, f"{lead}∂L/∂weight{unit}", True))
    return panels


def _extreme(gradient: NDArray[np.float64] | None) -> float:
    if gradient is None:
        return 1.0
    finite = np.abs(gradient[np.isfinite(gradient)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def _power(extreme: float) -> int:
    """The power of ten in whose units the numbers of a map are short: 0 for everyday sizes."""
    exponent = math.floor(math.log10(extreme))
    return 0 if -2 <= exponent <= 3 else 3 * (exponent // 3)


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class _Brush:
    """Draws the parts of one map at the places that the layout gives."""

    def __init__(self, drawing: Any, layout: Layout, palette: Mapping[str, str], shade: str, measure: Measure) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        self.drawing = drawing
        self.layout = layout
        self.palette = palette
        self.shade = shade
        self.measure = measure
        self.weight_map = LinearSegmentedColormap.from_list("weight", _WEIGHT_RAMP[shade])
        self.gradient_map = LinearSegmentedColormap.from_list("gradient", _GRADIENT_RAMP[shade])

    def axes(self, x: float, y: float, width: float, height: float) -> Any:
        total_width, total_height = self.layout.size
        box = (x / total_width, 1 - (y + height) / total_height, width / total_width, height / total_height)
        axes = self.drawing.add_axes(box)
        for spine in axes.spines.values():
            spine.set(color=self.palette["rule"], linewidth=0.8)
        axes.set_xticks([])
        axes.set_yticks([])
        return axes

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        total_width, total_height = self.layout.size
        style = {"fontsize": 9.0, "color": self.palette["ink"], "va": "baseline", "ha": "left", **style}
        self.drawing.text(x / total_width, 1 - y / total_height, text, **style)

    def panel(
        self,
        position: int,
        panel: Panel,
        queries: Sequence[str],
        keys: Sequence[str],
        hatches: Mapping[str, str],
        extreme: float,
        show_numbers: bool,
    ) -> None:
        layout = self.layout
        row, column = divmod(position, layout.columns)
        x = layout.origin[0] + column * (layout.panel[0] + layout.gap[0])
        y = layout.origin[1] + row * (layout.panel[1] + layout.gap[1])
        axes = self.axes(x, y, *layout.panel)
        self._cells(axes, panel, hatches, extreme)
        if show_numbers:
            self._numbers(axes, panel, extreme)
        axes.tick_params(length=0, pad=3, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.tick_params(colors=self.palette["ink"], labelsize=layout.points)
        if row == 0:
            turned = {0: {}, 45: {"ha": "left", "rotation_mode": "anchor"}, 90: {"va": "bottom"}}[layout.angle]
            places = range(0, len(keys), layout.step)
            axes.set_xticks([place + 0.5 for place in places], [keys[place] for place in places])
            for label in axes.get_xticklabels():
                label.set(rotation=layout.angle, **turned)
        if column == 0:
            places = range(0, len(queries), layout.step)
            axes.set_yticks([place + 0.5 for place in places], [queries[place] for place in places])
        if panel.heading:
            above = layout.label_room if row == 0 else 0.0
            self.text(x, y - above - 0.06, panel.heading, fontsize=9.5, fontweight="bold")

    def _cells(self, axes: Any, panel: Panel, hatches: Mapping[str, str], extreme: float) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path
        from matplotlib.transforms import Affine2D

        num_queries, num_keys = panel.values.shape
        barred = np.logical_or.reduce([np.zeros(panel.values.shape, dtype=bool), *panel.hidden.values()])
        shown = np.ma.masked_where(barred | ~np.isfinite(panel.values), panel.values)
        colour_map = self.gradient_map if panel.is_gradient else self.weight_map
        low, high = (-extreme, extreme) if panel.is_gradient else (0.0, 1.0)
        axes.set_facecolor(_HIDDEN_CELL[self.shade][0])
        if shown.size <= _MOST_VECTOR_CELLS:
            edges = {"edgecolors": self.palette["page"], "linewidth": min(1.2, self.layout.cell * 2.6)}
            axes.pcolormesh(shown, cmap=colour_map, vmin=low, vmax=high, **edges)
        else:
            extent = (0, num_keys, num_queries, 0)
            axes.imshow(shown, cmap=colour_map, vmin=low, vmax=high, extent=extent, aspect="auto", interpolation="none")
        fill, ink = _HIDDEN_CELL[self.shade]
        for reason, part in panel.hidden.items():
            # One path for all cells of a reason: between separate ones, thin lines would shine through.
            runs = [
                Path.unit_rectangle().transformed(Affine2D().scale(n, 1).translate(x, y)) for y, x, n in _runs(part)
            ]
            if runs:
                outline = Path.make_compound_path(*runs)
                axes.add_patch(PathPatch(outline, facecolor=fill, edgecolor=ink, linewidth=0, hatch=hatches[reason]))
        axes.set_xlim(0, num_keys)
        axes.set_ylim(num_queries, 0)

    def _numbers(self, axes: Any, panel: Panel, extreme: float) -> None:
        barred = np.logical_or.reduce([np.zeros(panel.values.shape, dtype=bool), *panel.hidden.values()])
        unit = 10.0 ** _power(extreme)
        texts = {}
        for row, column in np.argwhere(~barred).tolist():
            value = float(panel.values[row, column])
            texts[row, column] = significant(value / unit, 2) if panel.is_gradient else share(value)
        widest = max((self.measure(text, 8.5) for text in texts.values()), default=0.0)
        points = min(8.5, 8.5 * self.layout.cell * 0.86 / widest) if widest else 8.5
        for (row, column), text in texts.items():
            value = float(panel.values[row, column])
            colour = self._ink_on(
                self.gradient_map((value / extreme + 1) / 2) if panel.is_gradient else self.weight_map(value)
            )
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center_baseline", fontsize=points, color=colour)

    @staticmethod
    def _ink_on(colour: Sequence[float]) -> str:
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
        # Dark and light text have the same contrast at 0.18 (WCAG 2); a little above it, light reads better.
        return _NUMBER_INKS[0] if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.22 else _NUMBER_INKS[1]

    def titles(self, title: str, query_title: str, key_title: str) -> None:
        layout = self.layout
        left, top = layout.origin
        name = visible(title)
        columns = 200
        while self.measure(name, 12) > layout.size[0] - 2 * MARGIN and columns > 8:
            columns = int(columns * 0.9)
            name = shorten(visible(title), columns)
        self.text(MARGIN, MARGIN + 0.16, name, fontsize=12, fontweight="bold")
        heading = LINE if layout.rows * layout.columns > 1 else 0.0
        quiet = {"fontsize": 9.0, "color": self.palette["quiet"]}
        self.text(left, top - layout.label_room - heading - 0.06, f"{visible(key_title)} →", **quiet)
        block = layout.rows * layout.panel[1] + (layout.rows - 1) * layout.gap[1]
        style = {**quiet, "rotation": 90, "ha": "center", "va": "center", "rotation_mode": "anchor"}
        self.text(MARGIN + 0.1, top + block / 2, f"← {visible(query_title)}", **style)

    def footer(self, extreme: float | None, legend: Sequence[tuple[str, str]]) -> None:
        from matplotlib.patches import Rectangle

        texts = [text for text, _ in legend]
        places = []
        widths = footer_widths(extreme is not None, texts, self.measure)
        for line, edges in enumerate(flow(widths, self.layout.size[0] - 2 * MARGIN)):
            places += [(MARGIN + edge, self.layout.footer + 0.5 * line) for edge in edges]
        self._bar(*places.pop(0), self.weight_map, (0.0, 1.0), "attention weight", ("0", "0.5", "1"))
        if extreme is not None:
            ends = (significant(-extreme, 2), "0", significant(extreme, 2))
            self._bar(*places.pop(0), self.gradient_map, (-1.0, 1.0), "gradient ∂L/∂weight", ends)
        fill, ink = _HIDDEN_CELL[self.shade]
        for (x, y), (text, hatch) in zip(places, legend, strict=True):
            swatch = self.axes(x, y + 0.1, 0.28, 0.18)
            swatch.add_patch(Rectangle((0, 0), 1, 1, facecolor=fill, edgecolor=ink, linewidth=0, hatch=hatch))
            self.text(x + 0.36, y + 0.235, text, fontsize=8.5)

    def _bar(
        self, x: float, y: float, colour_map: Any, limits: tuple[float, float], name: str, ticks: Sequence[str]
    ) -> None:
        width, height = BAR
        self.text(x, y + 0.1, name, fontsize=8.5)
        axes = self.axes(x, y + 0.15, width, height)
        axes.pcolormesh(np.linspace(*limits, 96)[None, :], cmap=colour_map, edgecolors="face", linewidth=1.0)
        for place, text, align in zip((0, width / 2, width), ticks, ("left", "center", "right"), strict=True):
            self.text(x + place, y + 0.38, text, fontsize=8, ha=align, color=self.palette["quiet"])


def _runs(part: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Gives (row, start, length) of every horizontal run of True."""
    padded = np.pad(part, ((0, 0), (1, 1))).astype(np.int8)
    changes = np.diff(padded, axis=1)
    starts, stops = np.argwhere(changes == 1), np.argwhere(changes == -1)
    return [(int(row), int(start), int(stop - start)) for (row, start), (_, stop) in zip(starts, stops, strict=True)]
