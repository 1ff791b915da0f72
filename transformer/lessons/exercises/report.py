"""What the checker says, in 80 columns."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from transformer.lessons.attention_head import pencil
from transformer.lessons.exercises.check import Verdict
from transformer.lessons.exercises.exercise import Exercise
from transformer.lessons.terminal import WIDTH, fit

DERIVATIONS = "docs/derivations.md"


def say(exercise: Exercise, verdict: Verdict) -> str:
    """One rule's verdict: the smallest failure and what it looks like, or the rule itself once it is right."""
    name = f"d_{verdict.parameter}"
    if verdict.failure is None:
        return f"✓ {name}: right on {verdict.tried} drawn inputs\n    {exercise.formulas[verdict.parameter]}"
    if not verdict.written:
        return f"– {name} is not written yet"
    case, answer, right = verdict.failure.case, verdict.failure.answer, verdict.failure.right
    lines = [f"✗ {name} is wrong; the smallest input on which it fails:", ""]
    lines += _arrays({**dict(zip(exercise.parameters, case.inputs, strict=True)), "out": case.out, "g": case.upstream})
    lines.append("")
    if answer.value is None:
        lines += [*_arrays({"right": right}), *_filled(f"yours {answer.problem}", 4)]
        lines += [fit(f"      {answer.line}")] if answer.line else []
    else:
        lines += _arrays({"yours": answer.value, "right": right})
        if answer.value.shape != right.shape:
            lines += _filled(f"yours has the shape {answer.value.shape}; {verdict.parameter} has {right.shape}", 4)
    if verdict.failure.mistake is not None:
        mistake = verdict.failure.mistake
        lines += ["", *_filled(f"It looks like this: {mistake.name}.", 4), *_filled(mistake.says, 4)]
    lines += ["", f"    {DERIVATIONS}, section {exercise.section}, derives the rule."]
    return "\n".join(lines)


def _filled(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)


def _arrays(arrays: dict[str, Any]) -> list[str]:
    """Names with their arrays beside them, row under row."""
    margin = max(map(len, arrays)) + 2
    lines = []
    for name, array in arrays.items():
        for number, row in enumerate(_rows(np.asarray(array))):
            lines.append(fit(f"    {name if number == 0 else '':{margin}}{row}"))
    return lines


def _rows(array: np.ndarray[Any, Any]) -> list[str]:
    if array.dtype.kind in "ib":
        texts = np.vectorize(str, otypes=[object])(array)
    else:
        texts = np.vectorize(lambda value: "NaN" if np.isnan(value) else pencil(value), otypes=[object])(array)
    if texts.ndim < 2:
        return [str(texts.item()) if texts.ndim == 0 else f"[{'  '.join(texts.tolist())}]"]
    if texts.size == 0:
        return [f"no elements, shape {array.shape}"]
    if texts.ndim > 2:
        return [f"{texts.size} numbers, shape {array.shape}"]
    widths = [max(map(len, column)) for column in zip(*texts.tolist(), strict=True)]
    rows = ["  ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True)) for row in texts.tolist()]
    return [f"{' ' if n else '['}[{row}]{'' if n < len(rows) - 1 else ']'}" for n, row in enumerate(rows)]
