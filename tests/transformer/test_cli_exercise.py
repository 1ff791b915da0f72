"""`tinygrad-attn exercise`: begin, check, list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transformer.told import Run, assert_fits, assert_one_line
from transformer.lessons.exercises.catalogue import EXERCISES

FILE = Path("exercises/softmax.py")
RIGHT = "out * (g - np.sum(out * g, axis=-1, keepdims=True))"


def begin(run: Run, body: str, name: str = "softmax") -> None:
    assert run("exercise", name).code == 0
    file = Path(f"exercises/{name}.py")
    file.write_text(file.read_text(encoding="utf-8").replace("return ...", body), encoding="utf-8")


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_begins_with_a_file_that_runs_and_is_not_written_yet(run: Run, name: str) -> None:
    told = run("exercise", name)
    assert told.code == 0 and f"exercises/{name}.py" in told.out
    assert_fits(told.out)
    text = Path(f"exercises/{name}.py").read_text(encoding="utf-8")
    assert_fits(text)
    assert f"tinygrad-attn exercise {name}" in text and "Any" not in text
    again = run("exercise", name)
    assert again.code == 1 and again.out.count("is not written yet") == len(EXERCISES[name].formulas)


def test_a_right_rule_is_told_so_and_leads_on(run: Run) -> None:
    begin(run, f"return {RIGHT}")
    told = run("exercise", "softmax")
    assert told.code == 0 and "✓ d_scores" in told.out
    assert "next: tinygrad-attn exercise masked_softmax" in told.out


def test_a_wrong_rule_is_shown_its_smallest_failure(run: Run) -> None:
    begin(run, "return g * out * (1 - out)")
    told = run("exercise", "softmax")
    assert told.code == 1 and "the diagonal alone" in told.out and "derivations.md, section 2" in told.out
    assert_fits(told.out)


def test_a_file_is_never_overwritten(run: Run) -> None:
    begin(run, "return g")
    before = FILE.read_text(encoding="utf-8")
    run("exercise", "softmax")
    run("exercise")
    assert FILE.read_text(encoding="utf-8") == before


def test_the_line_that_stumbles_is_named(run: Run) -> None:
    begin(run, "return undefined_name * g")
    told = run("exercise", "softmax")
    assert "raises NameError" in told.out and "return undefined_name * g" in told.out


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("def d_scores(g, out, scores:\n    return g\n", ["exercises/softmax.py, line 1"]),
        ("import nothing_of_this_name\n", ["exercises/softmax.py", "ModuleNotFoundError", "line 1"]),
        ("exit()\n", ["exercises/softmax.py", "SystemExit", "line 1"]),
        ("x = 1\0\n", ["exercises/softmax.py: ", "null bytes"]),
        ("x = 1\n", ["the function d_scores(g, out, scores) is missing"]),
    ],
)
def test_a_file_that_cannot_be_run_is_said_in_one_line(run: Run, text: str, parts: list[str]) -> None:
    FILE.parent.mkdir()
    FILE.write_text(text, encoding="utf-8")
    assert_one_line(run("exercise", "softmax"), *parts)


def test_the_list_shows_how_far_one_is(run: Run) -> None:
    begin(run, "return g", "bias")
    begin(run, f"return {RIGHT}")
    run("exercise", "attention")
    told = run("exercise")
    assert told.code == 0
    states = {line.split()[1]: line[0] for line in told.out.splitlines()[1:] if line and line[0] in "✓✗–"}
    assert states == {
        "bias": "✗",
        "softmax": "✓",
        "attention": "–",
    }
    assert "next: tinygrad-attn exercise bias" in told.out
    assert_fits(told.out)


def test_another_folder_is_kept_to(run: Run) -> None:
    told = run("exercise", "softmax", "--dir", "mine")
    assert Path("mine/softmax.py").is_file() and "tinygrad-attn exercise softmax --dir mine" in told.out


def test_the_command_that_is_shown_can_be_typed_as_it_is(run: Run) -> None:
    told = run("exercise", "softmax", "--dir", "my own")
    assert "tinygrad-attn exercise softmax --dir 'my own'" in told.out


def test_a_file_may_use_its_neighbour(run: Run) -> None:
    begin(run, "import of_the_reader; return of_the_reader.right(g, out)")
    helper = f"import numpy as np\n\ndef right(g, out):\n    return {RIGHT}\n"
    Path("exercises/of_the_reader.py").write_text(helper, encoding="utf-8")
    assert run("exercise", "softmax").code == 0


def test_an_unknown_exercise_is_answered_with_the_nearest(run: Run) -> None:
    assert_one_line(run("exercise", "softmx"), "did you mean softmax?")
