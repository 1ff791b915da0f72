"""Exercises: right rules pass, every known mistake is found and named, whatever a reader writes is answered."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from transformer.lessons.exercises import check
from transformer.lessons.exercises.catalogue import EXERCISES
from transformer.lessons.exercises.check import ask, check_rule
from transformer.lessons.exercises.exercise import Case, Exercise
from transformer.lessons.exercises.report import say


def softmax(scores: Any) -> Any:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def along(values: Any) -> Any:
    return values.sum(axis=-1, keepdims=True)


def head(query: Any, key: Any) -> Any:
    return softmax(query @ key.T / query.shape[-1] ** 0.5)


def d_scores(g: Any, query: Any, key: Any, value: Any) -> Any:
    weights, d_weights = head(query, key), g @ value.T
    return weights * (d_weights - along(weights * d_weights)) / query.shape[-1] ** 0.5


def d_table(g: Any, out: Any, table: Any, ids: Any) -> Any:
    found = np.zeros_like(table)
    np.add.at(found, ids, g)
    return found


def central_differences(loss: Callable[[Any], float], x: Any, step: float = 1e-5) -> Any:
    """∂loss/∂x, one element at a time."""
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[place] = step
        found[place] = (loss(x + moved) - loss(x - moved)) / (2.0 * step)
    return found


# What a reader should come to; written from the derivations, without the engine.
RIGHT: dict[tuple[str, str], Callable[..., Any]] = {
    ("bias", "x"): lambda g, out, x, b: g,
    ("bias", "b"): lambda g, out, x, b: g.sum(axis=0),
    ("matmul", "a"): lambda g, out, a, b: g @ b.T,
    ("matmul", "b"): lambda g, out, a, b: a.T @ g,
    ("self_similarity", "x"): lambda g, out, x: (g + g.T) @ x,
    ("embedding", "table"): d_table,
    ("softmax", "scores"): lambda g, out, s: out * (g - along(out * g)),
    ("masked_softmax", "scores"): lambda g, out, s, mask: out * (g - along(out * g)),
    ("cross_entropy", "logits"): lambda g, out, x, t: g * (softmax(x) - np.eye(x.shape[1])[t]) / len(x),
    ("layer_norm", "x"): lambda g, y, x: (
        (g - along(g) / x.shape[1] - y * along(g * y) / x.shape[1]) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    ),
    ("attention", "query"): lambda g, out, q, k, v: d_scores(g, q, k, v) @ k,
    ("attention", "key"): lambda g, out, q, k, v: d_scores(g, q, k, v).T @ q,
    ("attention", "value"): lambda g, out, q, k, v: head(q, k).T @ g,
}
MISTAKES = [
    pytest.param(exercise, parameter, mistake, id=f"{exercise.name}-{parameter}-{mistake.name}")
    for exercise in EXERCISES.values()
    for mistake in exercise.mistakes
    for parameter in mistake.rules
]


def test_every_gradient_that_is_asked_for_has_a_right_answer_here() -> None:
    assert set(RIGHT) == {(e.name, parameter) for e in EXERCISES.values() for parameter in e.formulas}


@pytest.mark.parametrize(("name", "parameter"), RIGHT)
def test_the_textbook_rule_passes(name: str, parameter: str) -> None:
    verdict = check_rule(EXERCISES[name], parameter, RIGHT[name, parameter])
    assert verdict.passed and verdict.tried >= 30  # some exercises have hardly more small cases
    assert EXERCISES[name].formulas[parameter] in say(EXERCISES[name], verdict)


@pytest.mark.parametrize(("name", "parameter"), RIGHT)
def test_what_is_called_right_is_the_numerical_derivative(name: str, parameter: str) -> None:
    exercise = EXERCISES[name]
    place = exercise.parameters.index(parameter)
    for case in check._many_cases(exercise)[:10]:

        def loss(value: Any, case: Case = case) -> float:
            inputs = [*case.inputs[:place], value, *case.inputs[place + 1 :]]
            return float(np.sum(case.upstream * np.asarray(exercise.forward(*inputs))))

        if name == "layer_norm" and (np.ptp(case.inputs[0], axis=-1) == 0.0).any():
            continue  # 1e-5 under a root: the differences would have to be much finer there
        expected = central_differences(loss, case.inputs[place])
        np.testing.assert_allclose(exercise.gradient_of(parameter, case), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("exercise", "parameter", "mistake"), MISTAKES)
def test_a_known_mistake_is_named_beside_a_small_input_on_which_it_fails(
    exercise: Exercise, parameter: str, mistake: Any
) -> None:
    verdict = check_rule(exercise, parameter, mistake.rules[parameter])
    assert verdict.failure is not None and verdict.failure.mistake is mistake
    case = verdict.failure.case
    assert sum(array.size for array in case.inputs) <= 10
    given = ask(mistake.rules[parameter], case)
    expected = RIGHT[exercise.name, parameter](case.upstream, case.out, *case.inputs)
    assert given.value is None or given.value.shape != expected.shape or not np.allclose(given.value, expected)
    told = say(exercise, verdict)
    assert mistake.name in " ".join(told.split()) and max(map(len, told.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "parameter", "wrong", "named"),
    [
        ("softmax", "scores", lambda right, g: -right(g), "the sign"),
        ("softmax", "scores", lambda right, g: 2 * right(g), "twice"),
        ("softmax", "scores", lambda right, g: right(g) / 2, "half"),
        ("softmax", "scores", lambda right, g: right(g).T, "rows and columns are exchanged"),
        ("softmax", "scores", lambda right, g: 0 * right(g), "zero"),
        ("cross_entropy", "logits", lambda right, g: right(np.ones_like(g)), "g is not used"),
    ],
)
def test_general_mistakes_are_named_too(name: str, parameter: str, wrong: Any, named: str) -> None:
    rule = RIGHT[name, parameter]

    def mistaken(g: Any, out: Any, *inputs: Any) -> Any:
        return wrong(lambda upstream: rule(upstream, out, *inputs), g)

    verdict = check_rule(EXERCISES[name], parameter, mistaken)
    assert verdict.failure is not None and verdict.failure.mistake is not None
    assert verdict.failure.mistake.name == named


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_rule_in_less_precision_is_right_as_far_as_that_goes(dtype: Any) -> None:
    rule = RIGHT["softmax", "scores"]
    exercise = EXERCISES["softmax"]
    assert check_rule(exercise, "scores", lambda *given: rule(*given).astype(dtype)).passed
    assert not check_rule(exercise, "scores", lambda *given: (1.05 * rule(*given)).astype(dtype)).passed


def test_an_unknown_mistake_is_shown_without_a_guess() -> None:
    verdict = check_rule(EXERCISES["softmax"], "scores", lambda g, out, s: 1.37 * g + s)
    assert verdict.failure is not None and verdict.failure.mistake is None
    assert "looks like" not in say(EXERCISES["softmax"], verdict)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (lambda g, out, s: ..., "not written yet"),
        (lambda g, out, s: None, "a `return` is missing"),
        (lambda g, out, s: "p", "returns str, not an array of numbers"),
        (lambda g, out, s: 1 / 0, "raises ZeroDivisionError: division by zero"),
        (lambda g, out, s: g.__imul__(2.0), "writes into what it was given"),
        (lambda g, out, s: g[0], "has the shape"),
        (lambda g, out, s: np.log(0 * g), "−∞"),
        (lambda g, out, s: 0 * g / (0 * g), "NaN"),
        (lambda g, out: g, "raises TypeError"),
        (lambda g, out, s: exit(), "raises SystemExit"),
        (lambda g, out, s: g + 0j, "returns complex numbers"),
        (lambda g, out, s: np.stack([g, g]), "2 numbers, shape (2, 1, 1)"),
        (lambda g, out, s: np.sum(g) @ s, "a number without axes stands in a matrix product"),
    ],
)
def test_whatever_a_rule_does_is_answered(rule: Any, told: str) -> None:
    text = say(EXERCISES["softmax"], check_rule(EXERCISES["softmax"], "scores", rule))
    assert told in text and max(map(len, text.splitlines())) <= 80


def test_a_rule_that_rounds_to_whole_numbers_is_wrong() -> None:
    for (name, parameter), rule in RIGHT.items():
        assert not check_rule(EXERCISES[name], parameter, lambda *given, rule=rule: rule(*given).astype(int)).passed


def test_what_a_rule_writes_into_its_inputs_is_not_seen_by_the_next_try() -> None:
    def wrong(g: Any, out: Any, table: Any, ids: Any) -> Any:
        np.add.at(table, ids, g)  # NumPy lets this write into a read-only array
        return table

    before = [case.inputs[0].copy() for case in check._many_cases(EXERCISES["embedding"])]
    assert not check_rule(EXERCISES["embedding"], "table", wrong).passed
    after = [case.inputs[0] for case in check._many_cases(EXERCISES["embedding"])]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_two_rows_are_shown_where_three_are_not_needed() -> None:
    failure = check_rule(EXERCISES["self_similarity"], "x", lambda g, out, x: 2 * g @ x).failure
    assert failure is not None and failure.case.inputs[0].shape == (2, 1)


def test_a_rule_prints_and_stops_on_the_case_that_is_shown_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[Any] = []
    monkeypatch.setattr("sys.breakpointhook", lambda: stops.append("here"))

    def talking(g: Any, out: Any, scores: Any) -> Any:
        print("g is", g.shape)
        breakpoint()
        return g

    assert not check_rule(EXERCISES["softmax"], "scores", talking).passed
    assert capsys.readouterr().out == "g is (1, 1)\n" and stops == ["here"]


def test_a_rule_that_is_stopped_says_in_which_line() -> None:
    def endless(g: Any, out: Any, scores: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"line \d+: raise KeyboardInterrupt"):
        check_rule(EXERCISES["softmax"], "scores", endless, __file__)


def test_a_rule_that_changes_its_mind_is_told_so() -> None:
    answers = iter(range(10**9))
    verdict = check_rule(EXERCISES["softmax"], "scores", lambda g, out, s: g * 0 + next(answers) % 2)
    assert not verdict.passed


def test_a_rule_that_fails_only_while_inputs_are_searched_is_not_shown_as_right_and_wrong_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("go on\n"))

    def asking(g: Any, out: Any, scores: Any) -> Any:
        input()
        return RIGHT["softmax", "scores"](g, out, scores)

    told = say(EXERCISES["softmax"], check_rule(EXERCISES["softmax"], "scores", asking))
    assert "gives another gradient when it is asked the same again" in told


def test_the_same_rule_gets_the_same_answer_every_time() -> None:
    (mistake, *_) = EXERCISES["attention"].mistakes
    texts = [
        say(EXERCISES["attention"], check_rule(EXERCISES["attention"], "key", mistake.rules["key"])) for _ in range(2)
    ]
    assert texts[0] == texts[1]
