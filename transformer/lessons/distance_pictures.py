"""Pictures of what arrives from afar: curves over the distance, and the way of a gradient as hops or as one jump.

In all of them the end of the sequence, where the gradient sets out, is on the right, as in a line of text.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transformer.lessons.distance import DistanceLesson
from transformer.lessons.distance_model import KINDS
from transformer.lessons.heat import power_of_ten, round_step
from viz.numbers import significant
from viz.svg import finish
from viz.theme import colours

NAMES = {"rnn": "RNN", "gru": "GRU", "transformer": "Transformer"}
COLOURS = {"rnn": "output", "gru": "parameter", "transformer": "input"}  # roles of the theme
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 320, 54, 14, 34, 30
CELL, HOP_HEIGHT = 14, 40
FAINTEST = 1e-8  # a gradient below this is drawn dotted
SUPERSCRIPTS = str.maketrans("−0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Line:
    """One curve.

    Args:
        name: as written beside its sign, the same in every language.
        kind: one of `KINDS`, which decides colour and shape of the markers.
        values: by distance.
        dash: of the stroke, or "" for a solid one.
        filled: whether its markers are.
    """

    name: str
    kind: str
    values: Sequence[float]
    dash: str = ""
    filled: bool = True


def arrival_charts(lesson: DistanceLesson) -> tuple[str, str]:
    """What share of the gradient reaches the capital, by distance: before training and after."""
    before = [Line(NAMES[kind], kind, list(lesson.before[kind].share), filled=False) for kind in KINDS]
    before.insert(1, Line("RNN, W × 4", "rnn", list(lesson.louder.share), "6 4", filled=False))
    after = [Line(NAMES[kind], kind, list(lesson.after[kind].share)) for kind in KINDS]
    after += [Line("", kind, list(lesson.after[kind].others), "2 4") for kind in KINDS]
    return (
        chart_svg(
            before, prefix="chart-before", title="What is left of the gradient at each distance, before training"
        ),
        chart_svg(after, prefix="chart-after", title="What is left of the gradient at each distance, after training"),
    )


def steps_chart(lesson: DistanceLesson) -> str:
    """How many operations the gradient passes on its way, by distance: shortest and longest path."""
    lines = []
    for kind in KINDS:
        way = lesson.ways[kind]
        lines.append(Line(NAMES[kind], kind, way.shortest))
        if way.longest != way.shortest:
            lines.append(Line("", kind, way.longest, "6 4", filled=False))
    return chart_svg(
        lines, prefix="chart-steps", title="Operations from the loss to a letter at each distance", log=False
    )


def losses_chart(lesson: DistanceLesson) -> str:
    """The losses where the capital always stood first, over the steps."""
    steps = lesson.config.far_steps
    stretch = max(1, steps // 60)
    lines = []
    for kind in KINDS:
        losses = lesson.far[kind].losses
        means = [float(np.mean(losses[start : start + stretch])) for start in range(0, len(losses), stretch)]
        lines.append(Line(NAMES[kind], kind, means))
    return chart_svg(
        lines, prefix="chart-losses", title="Loss where the capital always stands first", backwards=False, unit=stretch
    )


def chart_svg(
    lines: Sequence[Line],
    *,
    prefix: str,
    title: str,
    log: bool = True,
    backwards: bool = True,
    unit: int = 1,
) -> str:
    """Curves over the distance, which grows to the left, with a line that a script may move; or over the steps.

    Args:
        prefix: begins every id, so that several pictures can stand on one page.
        log: a logarithmic scale; values that are 0 are left out.
        backwards: over the distance, from right to left.
        unit: what one value is worth on the horizontal axis.
    """
    role, last = colours("light"), len(lines[0].values) - 1
    values = [value for line in lines for value in line.values if value > 0 or not log]
    if log:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        every = max(1, math.ceil((high - low) / 7))
        ticks = [10.0**power for power in range(high, low - 1, -every)]
    else:
        low, high = 0, math.ceil(max(values))
        ticks = [step * round_step(high / 5) for step in range(math.ceil(high / round_step(high / 5)))]

    def x(index: float) -> float:
        way = (WIDTH - LEFT - RIGHT) * index / max(1, last)
        return WIDTH - RIGHT - way if backwards else LEFT + way

    def y(value: float) -> float:
        part = ((math.log10(value) if log else value) - low) / max(high - low, 1e-9)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    parts = []
    for tick in ticks:
        text = power_of_ten(round(math.log10(tick))) if log else f"{tick:g}"
        parts.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="{role["rule"]}"/>')
        parts.append(_text(LEFT - 8, y(tick) + 4, text, role["quiet"], "end"))
    for index in sorted({*range(0, last, round_step(last / 5)), *([last] if backwards else [])}):
        parts.append(_text(x(index), HEIGHT - 9, str(index * unit), role["quiet"], "middle"))
    if backwards:
        place = f'data-right="{x(0):.1f}" data-step="{x(0) - x(1):.4f}"'
        upright = f"M{x(last):.1f} {TOP}V{HEIGHT - BOTTOM}"
        parts.append(f'<path class="here" {place} d="{upright}" stroke="{role["edge"]}"/>')
    at = LEFT
    for line in lines:
        colour, dash = role[COLOURS[line.kind]], f' stroke-dasharray="{line.dash}"' if line.dash else ""
        points = [(x(index), y(value)) for index, value in enumerate(line.values) if value > 0 or not log]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>')
        if line.name:
            fill = colour if line.filled else role["page"]
            chosen = points[:: max(1, len(points) // 12)]
            parts += [_marker(line.kind, *point, colour, fill) for point in chosen]
            parts.append(f'<path d="M{at} 14h24" stroke="{colour}" stroke-width="1.6"{dash}/>')
            parts.append(_marker(line.kind, at + 12, 14, colour, fill))
            parts.append(_text(at + 30, 18, line.name, role["ink"], "start"))
            at += 48 + 7 * len(line.name)
    first, end = ("at the last letter", f"{last} letters back") if backwards else ("at first", "at last")
    told = "; ".join(
        f"{line.name}: {significant(line.values[0], 2)} {first}, {significant(line.values[-1], 2)} {end}"
        for line in lines
        if line.name
    )
    return _finished(WIDTH, HEIGHT, "".join(parts), prefix, title, told)


def is_chain(shortest: Sequence[int]) -> bool:
    """Whether a letter farther back is farther away: the gradient then hops from letter to letter.

    >>> is_chain([14, 18, 22]), is_chain([19, 33, 33])
    (True, False)
    """
    return any(after > before for before, after in itertools.pairwise(shortest[1:]))


def hops_svg(shortest: Sequence[int], shares: Sequence[float], kind: str, *, prefix: str, title: str) -> str:
    """The way from the last letter back: a hop wherever one letter more costs more operations, else one jump.

    Lines are as wide as what arrives, on a logarithmic scale, and dotted below `FAINTEST`. All hops or jumps are
    there; those to the farthest letter show, and a script may choose others.

    Args:
        shortest: operations by distance.
        shares: what arrives, by distance.
        kind: one of `KINDS`.
    """
    role, count = colours("light"), len(shares)
    chain, colour = is_chain(shortest), role[COLOURS[kind]]
    width, floor = CELL * count, HOP_HEIGHT - 6

    def x(distance: int) -> float:
        return width - CELL * (distance + 0.5)

    parts = [f'<path d="M0 {floor}H{width}" stroke="{role["rule"]}"/>']
    for distance in range(1, count):
        start = distance - 1 if chain else 0
        high = floor - min(HOP_HEIGHT - 12, 12 + 3 * (distance - start - 1))
        faint = shares[distance] < FAINTEST
        dotted = ' stroke-dasharray="1 3"' if faint else ""
        strength = 1.0 if faint else 0.8 + 4.2 * min(1.0, 1 + math.log10(shares[distance]) / 8)
        shown = chain or distance == count - 1
        parts.append(
            f'<path class="hop{"" if shown else " off"}" data-at="{distance}" fill="none" stroke="{colour}" '
            f'stroke-width="{strength:.1f}"{dotted} '
            f'd="M{x(start):.1f} {floor}C{x(start):.1f} {high} {x(distance):.1f} {high} {x(distance):.1f} {floor}"/>'
        )
    told = f"{'A hop per letter' if chain else 'One jump'}; {significant(shares[-1], 2)} of the gradient arrives"
    drawn = _finished(width, HOP_HEIGHT, "".join(parts), prefix, title, told)
    return drawn.replace("<svg", f'<svg class="hops" data-way="{"chain" if chain else "jump"}"', 1)


def scientific(value: float) -> str:
    """A number of two digits, with its power of ten written out where it is small or large.

    >>> scientific(0.031), scientific(1.7e-16), scientific(0.0)
    ('0.031', '1.7·10⁻¹⁶', '0')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return significant(value, 2)
    mantissa, _, power = f"{value:.1e}".partition("e")
    return f"{mantissa}·10{str(int(power)).replace('-', '−').translate(SUPERSCRIPTS)}"


def _finished(width: float, height: float, parts: str, prefix: str, title: str, description: str) -> str:
    drawn = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}px" height="{height:.0f}px" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">{parts}</svg>'
    )
    return finish(drawn.encode("utf-8"), prefix=prefix, title=title, description=description, adaptive=True)


def _marker(kind: str, x: float, y: float, colour: str, fill: str) -> str:
    shapes = {
        "rnn": f"M{x - 4:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        "gru": f"M{x - 3.5:.1f} {y - 3.5:.1f}h7v7h-7z",
        "transformer": f"M{x:.1f} {y - 5:.1f}l4.6 8h-9.2z",
    }
    return f'<path d="{shapes[kind]}" fill="{fill}" stroke="{colour}" stroke-width="1.4"/>'


def _text(x: float, y: float, text: str, colour: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" text-anchor="{anchor}" fill="{colour}">{text}</text>'
