"""Tries a reader's rule on drawn inputs, finds the smallest on which it fails, and says which mistake that looks like.

Hypothesis draws and shrinks: what it hands back is the simplest case it can find that still fails.
"""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, NoSuchExample

from transformer.lessons.exercises.drawing import numbers
from transformer.lessons.exercises.exercise import Answer, Array, Case, Exercise, Mistake, Rule

TRIES, RECOGNISED_BY, FEW = 200, 60, 2
NOT_WRITTEN = "is not written yet"
ANOTHER = "gives another gradient when it is asked the same again"
_SETTINGS = settings(
    max_examples=TRIES,
    derandomize=True,  # the same file gets the same answer
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)


@dataclass(frozen=True, eq=False)
class Failure:
    """Where a rule fails.

    Args:
        case: the smallest input on which it does.
        answer: what it gave there.
        right: what it should have given.
        mistake: what it looks like; None if it looks like nothing known.
    """

    case: Case
    answer: Answer
    right: Array
    mistake: Mistake | None


@dataclass(frozen=True, eq=False)
class Verdict:
    """What became of one rule.

    Args:
        parameter: the input whose gradient it is.
        tried: on how many drawn inputs it was right.
        failure: where it was not; None if it never failed.
    """

    parameter: str
    tried: int
    failure: Failure | None = None

    @property
    def passed(self) -> bool:
        """Whether no input was found on which it fails."""
        return self.failure is None

    @property
    def written(self) -> bool:
        """Whether there is anything to judge yet."""
        return self.failure is None or self.failure.answer.problem != NOT_WRITTEN


@st.composite
def cases(draw: Any, exercise: Exercise) -> Case:
    """Inputs of an exercise, its result, and a gradient that is never all ones by design."""
    inputs = draw(exercise.inputs)
    out = np.asarray(exercise.forward(*inputs))
    return Case(inputs, out, draw(numbers(*out.shape)))


def check_rule(exercise: Exercise, parameter: str, rule: Rule, file: str | None = None) -> Verdict:
    """Tries one rule until it fails or has been right often enough.

    Args:
        exercise: whose formula it belongs to.
        parameter: the input whose gradient it is.
        rule: `(g, out, *inputs) -> gradient`.
        file: the reader's file, to name the line on which it stumbled.
    """
    right_ones = 0
    last: Case | None = None

    def fails(case: Case) -> bool:
        nonlocal right_ones, last
        last = case
        right = ask(rule, case, file).agrees(exercise.gradient_of(parameter, case))
        right_ones += right
        return not right

    try:
        with _quietly():
            case = _smallest(cases(exercise), fails)
            mistake = recognise(exercise, parameter, rule)
        answer = ask(rule, case, file)  # what the rule prints, it prints about the case that is shown
        if answer.agrees(exercise.gradient_of(parameter, case)):
            answer = Answer(problem=ANOTHER)
    except NoSuchExample:
        return Verdict(parameter, right_ones)
    except Flaky:
        if last is None:
            raise
        case, mistake = last, None
        answer = Answer(problem=ANOTHER)
    return Verdict(parameter, right_ones, Failure(case, answer, exercise.gradient_of(parameter, case), mistake))


def _smallest(drawn: st.SearchStrategy[Case], fails: Callable[[Case], bool]) -> Case:
    """Shrinking leaves a side of 3 where 2 would do if the numbers then stand elsewhere: so 2 is tried by itself."""
    case = find(drawn, fails, settings=_SETTINGS)
    if _largest_side(case) > FEW:
        with contextlib.suppress(NoSuchExample):
            return find(drawn.filter(lambda other: _largest_side(other) <= FEW), fails, settings=_SETTINGS)
    return case


def _largest_side(case: Case) -> int:
    return int(max(side for array in case.inputs for side in array.shape))


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """While inputs are searched nothing is printed, no breakpoint stops, and whoever asks for input gets none."""
    stop, typed = sys.breakpointhook, sys.stdin
    sys.breakpointhook, sys.stdin = lambda *_, **__: None, io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        sys.breakpointhook, sys.stdin = stop, typed


def ask(rule: Rule, case: Case, file: str | None = None) -> Answer:
    """Runs a rule on a case; whatever goes wrong is an answer too."""
    given = [_fixed(array) for array in (case.upstream, case.out, *case.inputs)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a division by zero shows in the numbers
            found = rule(*given)
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt(_line_in(file, stopped)) from stopped
    except (Exception, SystemExit) as error:  # whatever a reader's code may do
        return Answer(problem=_said(error), line=_line_in(file, error))
    if found is Ellipsis:
        return Answer(problem=NOT_WRITTEN)
    if found is None:
        return Answer(problem="returns nothing: a `return` is missing")
    try:
        value = np.asarray(found)
        if value.dtype.kind == "c":
            return Answer(problem="returns complex numbers; these inputs are real, and so are their gradients")
        return Answer(value if value.dtype.kind == "f" else value.astype(np.float64))
    except (TypeError, ValueError):
        return Answer(problem=f"returns {type(found).__name__}, not an array of numbers")


def _fixed(array: Array) -> Array:
    copy = np.array(array)  # np.add.at writes into a read-only array all the same
    copy.flags.writeable = False
    return copy


def _said(error: BaseException) -> str:
    message = str(error).splitlines()[0] if str(error) else ""
    if "read-only" in message:
        return "writes into what it was given: the forward pass still needs that; work on a copy"
    if "mismatch in its core dimension" in message:  # NumPy names the axes of its C code
        return "raises ValueError: the shapes of a matrix product do not fit"
    if "does not have enough dimensions" in message:
        return "raises ValueError: a number without axes stands in a matrix product"
    return f"raises {type(error).__name__}" + (f": {message}" if message else "")


def _line_in(file: str | None, error: BaseException) -> str:
    places = [place for place in extract_tb(error.__traceback__) if file is not None and _same(place.filename, file)]
    return f"line {places[-1].lineno}: {places[-1].line}" if places else ""


def _same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


# --- which mistake is it -------------------------------------------------------------------------------------------


def recognise(exercise: Exercise, parameter: str, rule: Rule) -> Mistake | None:
    """The known wrong rule that does what this one does on every one of many cases, if there is one."""
    answers = [(case, ask(rule, case)) for case in _many_cases(exercise)]
    known = [(mistake, mistake.rules[parameter]) for mistake in exercise.mistakes if parameter in mistake.rules]
    known += [(mistake, make(exercise, parameter)) for mistake, make in _GENERAL]
    for mistake, wrong in known:
        if all(answer.same(ask(wrong, case)) for case, answer in answers):
            return mistake
    return None


@functools.cache
def _many_cases(exercise: Exercise) -> list[Case]:
    """Cases of every size; those that a search leaves behind are small, and tell mistakes apart less well."""
    found: list[Case] = []

    def collect(case: Case) -> bool:
        found.append(case)
        return False

    with contextlib.suppress(NoSuchExample):
        find(cases(exercise), collect, settings=settings(_SETTINGS, max_examples=RECOGNISED_BY))
    return found


def _right(exercise: Exercise, parameter: str, g: Array, out: Array, inputs: tuple[Any, ...]) -> Array:
    return exercise.gradient_of(parameter, Case(inputs, out, g))


def _negated(exercise: Exercise, parameter: str) -> Rule:
    return lambda g, out, *inputs: -_right(exercise, parameter, g, out, inputs)


def _scaled(factor: float) -> Callable[[Exercise, str], Rule]:
    return lambda exercise, parameter: lambda g, out, *inputs: factor * _right(exercise, parameter, g, out, inputs)


def _transposed(exercise: Exercise, parameter: str) -> Rule:
    return lambda g, out, *inputs: _right(exercise, parameter, g, out, inputs).T


def _without_upstream(exercise: Exercise, parameter: str) -> Rule:
    return lambda g, out, *inputs: _right(exercise, parameter, np.ones_like(g), out, inputs)


def _nothing(exercise: Exercise, parameter: str) -> Rule:
    return lambda g, out, *inputs: np.zeros_like(_right(exercise, parameter, g, out, inputs))


def _general(name: str, says: str) -> Mistake:
    return Mistake(name, says, {})


_GENERAL: tuple[tuple[Mistake, Callable[[Exercise, str], Rule]], ...] = (
    (_general("zero", "Nothing is sent back, so nothing would be learned."), _nothing),
    (_general("the sign", "Right, but for its sign."), _negated),
    (
        _general(
            "g is not used",
            "This is the gradient for a g of ones. What comes from behind, g = ∂L/∂out, multiplies it.",
        ),
        _without_upstream,
    ),
    (_general("rows and columns are exchanged", "Right, but transposed."), _transposed),
    (_general("twice", "Twice what is right: something is counted two times."), _scaled(2.0)),
    (_general("half", "Half of what is right: something is counted once that happens twice."), _scaled(0.5)),
)
