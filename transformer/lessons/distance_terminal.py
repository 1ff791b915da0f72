"""The lesson on distance in a terminal: what arrives, how many operations it took, and who learned what."""

from __future__ import annotations

from transformer.lessons.distance import DistanceLesson
from transformer.lessons.distance_model import KINDS
from transformer.lessons.distance_pictures import NAMES, scientific
from transformer.lessons.terminal import WIDTH, fit, table


def chapter(lesson: DistanceLesson) -> str:
    """What the run showed, as text of 80 columns."""
    longest = lesson.config.longest
    return "\n".join(
        [
            f"reading: {fit(lesson.example, WIDTH - 18)}  →  {lesson.example[0]}",
            "\nof the gradient at the end, what arrives at the capital, by letters back:",
            arrival_table(lesson),
            "\noperations from the loss to the letter, shortest and longest path:",
            steps_table(lesson),
            "\nright, by number of letters, the capital standing first:",
            scores_table(lesson),
            f"* models trained only on {longest} letters with the capital standing first",
        ]
    )


def arrival_table(lesson: DistanceLesson) -> str:
    """‖∂L/∂x‖ at the capital as a part of ‖∂L/∂h‖ at the end, for a few distances."""
    distances = _few(lesson.config.longest - 1)
    rows = [
        [NAMES[kind], when, *(scientific(float(arrivals[kind].share[distance])) for distance in distances)]
        for kind in KINDS
        for when, arrivals in (("untrained", lesson.before), ("trained", lesson.after))
    ]
    return table(["", "", *map(str, distances)], rows, right=range(2, 2 + len(distances)))


def steps_table(lesson: DistanceLesson) -> str:
    """Shortest and longest path for the same distances."""
    distances = _few(lesson.config.longest - 1)
    rows = [
        [NAMES[kind], name, *(str(steps[distance]) for distance in distances)]
        for kind in KINDS
        for name, steps in (("shortest", lesson.ways[kind].shortest), ("longest", lesson.ways[kind].longest))
    ]
    return table(["", "", *map(str, distances)], rows, right=range(2, 2 + len(distances)))


def scores_table(lesson: DistanceLesson) -> str:
    """Right answers to held-out sequences by their length, and of the models that were trained on the farthest only."""
    lengths = list(lesson.scores[KINDS[0]])
    rows = [
        [
            NAMES[kind],
            *(f"{100 * lesson.scores[kind][length].accuracy:.0f} %" for length in lengths),
            f"{100 * lesson.far_scores[kind].accuracy:.0f} %",
        ]
        for kind in KINDS
    ]
    return table(["", *map(str, lengths), f"{lesson.config.longest}*"], rows, right=range(1, 2 + len(lengths)))


def _few(last: int) -> list[int]:
    return sorted({1, *(round(last * part / 4) for part in (1, 2, 3, 4))})
