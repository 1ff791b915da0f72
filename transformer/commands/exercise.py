"""`tinygrad-attn exercise`: a reader writes a gradient, and sees the smallest input on which it fails."""

from __future__ import annotations

import difflib
import importlib.util
import shlex
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tinygrad_attn.errors import MissingExtraError, OptionError
from transformer.lessons.terminal import table

if TYPE_CHECKING:
    from transformer.lessons.exercises.check import Verdict
    from transformer.lessons.exercises.exercise import Exercise

NOT_RIGHT_YET = 1


def run(arguments: Namespace) -> int:
    """Lists the exercises; begins one whose file is not there; checks one whose file is."""
    if importlib.util.find_spec("hypothesis") is None:
        raise MissingExtraError("exercises need hypothesis: python -m pip install 'tinygrad-attn[lesson]'")
    from transformer.lessons.exercises.catalogue import EXERCISES

    if arguments.name is None:
        return _list(EXERCISES.values(), arguments.dir)
    if arguments.name not in EXERCISES:
        near = difflib.get_close_matches(arguments.name, EXERCISES, n=1)
        raise OptionError(
            f"there is no exercise {arguments.name!r}; "
            + (f"did you mean {near[0]}?" if near else f"there are {', '.join(EXERCISES)}")
        )
    exercise, file = EXERCISES[arguments.name], arguments.dir / f"{arguments.name}.py"
    if not file.exists():
        return _begin(exercise, file, arguments.dir)
    return _check(exercise, file, list(EXERCISES))


def _command(name: str, folder: Path) -> str:
    elsewhere = "" if folder == Path("exercises") else f" --dir {shlex.quote(str(folder))}"
    return f"tinygrad-attn exercise {name}{elsewhere}"


def _list(exercises: Iterable[Exercise], folder: Path) -> int:
    rows = [[_state(exercise, folder / f"{exercise.name}.py"), exercise.name, exercise.title] for exercise in exercises]
    print(table(["", "exercise", "the gradient of"], rows))
    following = next((name for state, name, _ in rows if state != "✓"), None)
    print(f"\nnext: {_command(following, folder)}" if following else "\nall of them are right")
    return 0


def _state(exercise: Exercise, file: Path) -> str:
    if not file.exists():
        return " "
    try:
        verdicts = _verdicts(exercise, file)
    except OptionError:
        return "✗"
    if all(verdict.passed for verdict in verdicts):
        return "✓"
    return "✗" if any(verdict.written and not verdict.passed for verdict in verdicts) else "–"


def _begin(exercise: Exercise, file: Path, folder: Path) -> int:
    from transformer.lessons.exercises.starter import starter

    file.parent.mkdir(parents=True, exist_ok=True)
    command = _command(exercise.name, folder)
    with file.open("x", encoding="utf-8") as opened:
        opened.write(starter(exercise, command))
    print(f"wrote {file}: {exercise.title}")
    print(f"write {' and '.join(f'd_{name}' for name in exercise.formulas)} in it, then run again:\n  {command}")
    return 0


def _verdicts(exercise: Exercise, file: Path) -> list[Verdict]:
    from transformer.lessons.exercises.check import check_rule
    from transformer.lessons.exercises.starter import read_rules

    return [check_rule(exercise, name, rule, str(file)) for name, rule in read_rules(exercise, file).items()]


def _check(exercise: Exercise, file: Path, order: list[str]) -> int:
    from transformer.lessons.exercises.report import say

    verdicts = _verdicts(exercise, file)
    print("\n\n".join(say(exercise, verdict) for verdict in verdicts))
    if not all(verdict.passed for verdict in verdicts):
        return NOT_RIGHT_YET
    after = order[order.index(exercise.name) + 1 :]
    print(f"\nnext: {_command(after[0], file.parent)}" if after else "\nthat was the last one")
    return 0
