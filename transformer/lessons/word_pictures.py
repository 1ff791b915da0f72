"""Pictures of where one word looks: lines as wide as the weights, and two readings bar by bar."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from transformer.lessons.word_reading import Reading
from viz.escape import display_width, xml_text
from viz.numbers import share
from viz.svg import finish
from viz.theme import colours

# Pixels: of a letter, around a word, of a line of text, and between who looks and what is looked at.
LETTER, PADDING, LINE, DISTANCE = 8.6, 16, 26, 112


def gaze_svg(readings: Sequence[Reading], *, prefix: str = "gaze") -> str:
    """Each sentence twice, one below the other, with lines from `it` to every word; one sentence below the other.

    The weights are those of the last layer, mean over its heads.

    Args:
        readings: one or more sentences.
        prefix: begins every id, so that several pictures can stand on one page.
    """
    role = colours("light")
    parts, top, width = [], 8.0, 0.0
    for reading in readings:
        widths = [max(LETTER * display_width(word), 28.0) + PADDING for word in reading.words]
        ends = np.cumsum(widths)
        middles = [float(end - wide / 2) for end, wide in zip(ends, widths, strict=True)]
        width = max(width, float(ends[-1]))
        weights = reading.looks()
        above, below = top + 2 * LINE - 2, top + 2 * LINE + DISTANCE
        start = middles[reading.pronoun]
        for x, weight in sorted(zip(middles, weights, strict=True), key=lambda pair: float(pair[1])):
            bend = (above + below) / 2
            parts.append(
                f'<path d="M{start:.1f} {below:.1f}C{start:.1f} {bend:.1f} {x:.1f} {bend:.1f} {x:.1f} {above:.1f}" '
                f'fill="none" stroke="{role["input"]}" '
                f'stroke-width="{max(0.6, 20 * weight):.2f}" stroke-opacity="{0.25 + 0.5 * weight:.2f}"/>'
            )
        for index, (word, x, weight) in enumerate(zip(reading.words, middles, weights, strict=True)):
            meant = word.lower() == reading.answer
            parts.append(_text(x, top + LINE - 6, word, role["ink"], 17, "bold" if meant else "normal"))
            parts.append(_text(x, top + 2 * LINE - 10, share(float(weight)), role["quiet"], 12))
            asks = index == reading.pronoun
            colour, strength = (role["input"], "bold") if asks else (role["quiet"], "normal")
            parts.append(_text(x, below + LINE - 4, word, colour, 17, strength))
        verdict = f"it = {reading.answer}, {share(reading.probability)}"
        parts.append(_text(start, below + 2 * LINE - 8, verdict, role["output"], 14, "bold"))
        top = below + 2 * LINE + 22
    height = top - 14
    drawn = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}px" height="{height:.0f}px" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">{"".join(parts)}</svg>'
    )
    return finish(
        drawn.encode("utf-8"),
        prefix=prefix,
        title="Where the word “it” looks: last layer, mean of its heads",
        description=" ".join(map(_in_words, readings)),
        adaptive=True,
    )


def _text(x: float, y: float, text: str, colour: str, size: int, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="{size}" font-weight="{weight}" '
        f'fill="{colour}">{xml_text(text, 40)}</text>'
    )


def _in_words(reading: Reading) -> str:
    order = np.argsort(-reading.looks(), kind="stable")[:3]
    told = ", ".join(f"{reading.words[index]} {share(float(reading.looks()[index]))}" for index in order)
    return f"{reading.text}: it looks most at {told}; it stands for {reading.answer}."


WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 560, 170, 34, 10, 44


def pairs_svg(one: Reading, other: Reading) -> str:
    """Two readings of sentences that differ in the last word, as two bars over each word; colours are the page's."""
    count = len(one.words)
    step = (WIDTH - LEFT) / count

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value

    parts = []
    for value in (0.0, 0.5, 1.0):
        parts.append(f'<path class="grid" d="M{LEFT} {y(value):.1f}H{WIDTH}"/>')
        parts.append(
            f'<text class="scale" x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{share(value)}</text>'
        )
    for index in range(count):
        middle = LEFT + step * (index + 0.5)
        for name, reading, left in (("one", one, middle - 0.36 * step), ("other", other, middle + 0.02 * step)):
            top = y(float(reading.looks()[index]))
            parts.append(
                f'<rect class="{name}" x="{left:.1f}" y="{top:.1f}" width="{0.34 * step:.1f}" '
                f'height="{HEIGHT - BOTTOM - top:.1f}"/>'
            )
        same = one.words[index] == other.words[index]
        labels = [one.words[index]] if same else [one.words[index], other.words[index]]
        for line, label in enumerate(labels):
            at = HEIGHT - BOTTOM + 16 + 15 * line
            parts.append(f'<text x="{middle:.1f}" y="{at}" text-anchor="middle">{xml_text(label, 16)}</text>')
    return (
        f'<svg class="pairs" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true" focusable="false">{"".join(parts)}</svg>'
    )
