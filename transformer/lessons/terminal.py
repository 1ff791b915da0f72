"""What the commands print: text that fits 80 columns, Korean letters counted as two, and colours only in a terminal."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from transformer.lessons.decoder_loop import DecoderLoop
from transformer.tasks import Score
from viz.escape import display_width, shorten, visible
from viz.numbers import share

WIDTH = 80
BARS = "▁▂▃▄▅▆▇█"

# Backgrounds among a terminal's 256 colours, for weights from each limit on; the text on them is white.
SHADES = ((0.6, 26), (0.3, 25), (0.1, 24))


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), width: int = WIDTH
) -> str:
    """Columns under a header, aligned by what a terminal shows.

    Args:
        header: names of the columns.
        rows: the cells as text.
        right: numbers of the columns that are aligned at their right edge.
        width: columns of the terminal; what does not fit is shortened visibly.

    >>> print(table(["token", "p"], [["년", ".98"], ["1", ".5"]], right=[1]))
    token    p
    년     .98
    1       .5
    """
    lines = [[visible(cell) for cell in row] for row in (header, *rows)]
    widths = [max(display_width(row[column]) for row in lines) for column in range(len(header))]
    return "\n".join(
        shorten("  ".join(pad(cell, widths[i], right=i in right) for i, cell in enumerate(row)).rstrip(), width)
        for row in lines
    )


def fit(text: str, width: int = WIDTH) -> str:
    """One line of at most so many columns, shortened visibly."""
    return shorten(visible(text), width)


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fills a text with spaces up to a width in terminal columns.

    >>> pad("월", 4) + "|", pad("월", 4, right=True)
    ('월  |', '  월')
    """
    space = " " * max(0, width - display_width(text))
    return space + text if right else text + space


def has_colours(stream: TextIO) -> bool:
    """Whether to send colours: to a terminal that knows them, unless the user set NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """A curve in one line, on a logarithmic scale: each character is the mean of a stretch of the values.

    >>> sparkline([1.0, 0.1, 0.01, 0.001], width=4)
    '█▆▃▁'
    """
    count = min(width, len(values))
    edges = [len(values) * i // count for i in range(count + 1)] if count else []
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    logs = [math.log(max(mean, 1e-12)) for mean in means]
    low, high = min(logs, default=0.0), max(logs, default=0.0)
    span = high - low or 1.0
    return "".join(BARS[round((value - low) / span * (len(BARS) - 1))] for value in logs)


def source_line(source: Sequence[str], weights: Any, *, colours: bool) -> str:
    """The source with its most looked-at token in brackets; in colours, every token shaded by its weight.

    >>> source_line(["1", "년"], [0.25, 0.75], colours=False)
    '1[년]'
    """
    between = "" if all(len(token) == 1 for token in source) else " "
    most = max(range(len(source)), key=lambda index: float(weights[index]))
    parts = []
    for index, token in enumerate(source):
        text = f"[{visible(token)}]" if index == most else visible(token)
        shade = next((colour for limit, colour in SHADES if float(weights[index]) >= limit), None)
        parts.append(f"\x1b[48;5;{shade};38;5;231m{text}\x1b[0m" if colours and shade is not None else text)
    return between.join(parts)


def loop_table(loop: DecoderLoop, *, colours: bool = False) -> str:
    """The decoder loop, a line per step: tokens so far, the token said, the second best, and where the decoder looks.

    Where it looks is the cross-attention of the last layer, mean over its heads; the share is that of the token in
    brackets.
    """
    between = "" if all(len(token) == 1 for token in loop.said[:-1]) else " "
    looks = loop.last_layer()  # (steps, source_len)
    rows = [["step", "so far", "says", "p", "or", "", "looks at"]]
    for number, step in enumerate(loop.steps):
        so_far = between.join(step.so_far[1:]) if number else step.so_far[0]
        (says, p), *others = step.choices
        second, q = others[0] if others else ("", 0.0)
        told = [shorten(visible(so_far), 10), shorten(visible(says), 5 if not between else 10), share(p)]
        rows.append([str(number + 1), *told, shorten(visible(second), 5), share(q), share(float(looks[number].max()))])
    widths = [max(display_width(row[i]) for row in rows) for i in range(6)]
    widths.append(4)
    room = WIDTH - sum(widths) - 13
    lines = [_spaced([*rows[0][:6], ""], widths) + "looks at"]
    for row, weights in zip(rows[1:], looks, strict=True):
        plain = source_line(loop.source, weights, colours=False)
        fits = display_width(plain) <= room
        shown = source_line(loop.source, weights, colours=colours) if fits else shorten(plain, room)
        lines.append(_spaced(row, widths) + shown)
    return "\n".join(lines)


def _spaced(cells: Sequence[str], widths: Sequence[int]) -> str:
    to_the_right = (0, 3, 5, 6)
    gaps = (2, 2, 2, 2, 1, 2, 2)
    parts = [pad(cell, widths[i], right=i in to_the_right) + " " * gaps[i] for i, cell in enumerate(cells)]
    return "".join(parts)


def score_table(scores: Mapping[str, Score], samples: Mapping[str, str]) -> str:
    """Held-out accuracy by language, with one of the texts that were asked, and all together.

    Args:
        scores: language to score.
        samples: language to one of its texts.
    """
    total = Score(sum(score.right for score in scores.values()), sum(score.total for score in scores.values()))
    rows = [
        [language or "all", f"{score.right}/{score.total}", f"{100 * score.accuracy:.1f} %", samples.get(language, "")]
        for language, score in scores.items()
    ]
    if len(scores) > 1:
        rows.append(["all", f"{total.right}/{total.total}", f"{100 * total.accuracy:.1f} %", ""])
    return table(["language", "right", "exact", "such as"], rows, right=[1, 2])
