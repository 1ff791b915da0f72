"""The lesson on one word in a terminal: what `it` looks at, word by word, with one adjective and with another."""

from __future__ import annotations

from transformer.lessons.terminal import WIDTH, fit, pad, table
from transformer.lessons.word import WordLesson
from transformer.lessons.word_reading import Reading
from transformer.tasks import Score
from transformer.tasks.coreference import NOVELTIES
from viz.escape import display_width
from viz.numbers import share

EIGHTHS = " ▏▎▍▌▋▊▉█"

NEW = {
    "sentence": "the sentence",
    "pair": "the pair of nouns",
    "noun": "a noun",
    "adjective": "the adjective",
}


def looks_table(readings: tuple[Reading, ...]) -> str:
    """Where `it` looks in one sentence or two, a line per word with a bar as long as the weight.

    The weights are those of the last layer, mean over its heads.
    """
    words = [" / ".join(dict.fromkeys(pair)) for pair in zip(*(reading.words for reading in readings), strict=True)]
    first = max(map(display_width, words))
    room = (WIDTH - first) // len(readings) - 8
    lines = []
    for index, word in enumerate(words):
        cells = [
            f"{pad(share(float(reading.looks()[index])), 4, right=True)} {bar(float(reading.looks()[index]), room)}"
            for reading in readings
        ]
        lines.append("  ".join((pad(word, first), *(pad(cell, room + 5) for cell in cells))).rstrip())
    return "\n".join(lines)


def bar(value: float, width: int) -> str:
    """A bar that is as long as a share of its full width, to an eighth of a column.

    >>> bar(0.5, 4), bar(0.03, 4), bar(1.0, 2)
    ('██', '▏', '██')
    """
    eighths = round(value * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (EIGHTHS[rest] if rest else "")


def chapter(lesson: WordLesson) -> str:
    """What the run showed, as text of 80 columns."""
    first, *others = lesson.opened
    parts = [
        f"reading: {fit(first.text, WIDTH - 9)}",
        '\n"it" looks at (last layer, mean of its heads)' + (f", and with {others[0].words[-1]!r}:" if others else ":"),
        looks_table(lesson.opened),
        "",
    ]
    for reading in lesson.opened:
        known = lesson.task.label(reading.text)
        verdict = "" if known is None else "   (right)" if known.referent == reading.answer else "   (wrong)"
        parts.append(f"… {reading.words[-1]}:  it = {reading.answer}, {share(reading.probability)}{verdict}")
    parts += ["\nheld out, never seen in training:", scores_table(lesson)]
    parts += [f"\n{_mean_looks(lesson)}"]
    return "\n".join(parts)


def _mean_looks(lesson: WordLesson) -> str:
    (right, other), (right_1, other_1) = lesson.looks[lesson.deep.config.layers], lesson.looks[1]
    return (
        f'with new pairs, "it" gives {share(right)} of its weight to the right noun and\n'
        f"{share(other)} to the other one, on average; with one layer {share(right_1)} and {share(other_1)}"
    )


def scores_table(lesson: WordLesson) -> str:
    """Right answers by what is new about a sentence, of both models."""
    layers = lesson.deep.config.layers
    columns = [(layers, "meaning"), (layers, "role"), (1, "meaning"), (1, "role")]
    rows = [
        [NEW[novelty], *(_score(lesson.scores[novelty][depth][family]) for depth, family in columns)]
        for novelty in NOVELTIES
    ]
    header = ["new is", f"{layers} layers: meaning", "role", "1 layer: meaning", "role"]
    return table(header, rows, right=[1, 2, 3, 4])


def _score(score: Score) -> str:
    return f"{100 * score.accuracy:.0f} %"
