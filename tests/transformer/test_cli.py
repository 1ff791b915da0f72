"""The command line: help that fits, one line for every error, nothing half-written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.transformer.told import Run, assert_fits, assert_one_line
from tinygrad_attn.domain import reals

COMMANDS = ["lesson", "train", "predict", "graph", "backward", "attention", "exercise", "gradcheck"]


# --- help --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_80_columns_and_shows_examples(run: Run, command: str) -> None:
    told = run(*command.split(), "--help")
    assert told.code == 0
    assert "examples:\n  tinygrad-attn " in told.out
    assert_fits(told.out)


def test_the_examples_in_the_help_are_understood(run: Run) -> None:
    import shlex

    from transformer.cli import parser

    for command in ("", *COMMANDS):
        for line in re.findall(r"^  tinygrad-attn (.*)$", run(*command.split(), "--help").out, flags=re.MULTILINE):
            parser().parse_args(shlex.split(line.split(" > ")[0]))


def test_the_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version").out == f"tinygrad-attn {ta.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["lessons"],
        ["lesson", "--speed", "9"],
        ["lesson", "--steps", "0"],
        ["lesson", "--seed", "-1"],
        ["train", "--steps", "many"],
        ["train", "--task", "chess"],
        ["predict"],
        ["graph", "tail"],
        ["lesson", "--lang", "fr"],
    ],
)
def test_what_is_not_understood_is_said_in_one_line(run: Run, arguments: list[str]) -> None:
    assert_one_line(run(*arguments), "--help")


# --- graph -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", ["head", "self", "cross"])
def test_graph_draws_each_example(run: Run, example: str) -> None:
    told = run("graph", example)
    assert told.code == 0, told.err
    assert Path(f"{example}.svg").read_text(encoding="utf-8").startswith("<svg")
    assert_fits(told.out)


def test_graph_prints_dot_and_nothing_else(run: Run) -> None:
    told = run("graph", "head", "--out", "-")
    assert told.out.startswith("digraph") and told.out.rstrip().endswith("}")
    assert "∂L/∂Q" in told.out
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("command", ["graph", "backward"])
def test_a_missing_folder_is_named_with_the_way_to_make_it(run: Run, command: str) -> None:
    told = run(command, "--out", "no/such/head.html")
    assert_one_line(told, f"there is no folder {Path('no/such')}", "make it first")
    assert told.out == "" and list(Path().iterdir()) == []


@pytest.mark.parametrize("name", ["head.jpeg", "head", "no/head.svg", "no/head.dot"])
def test_graph_into_a_file_that_cannot_be_written(run: Run, name: str) -> None:
    assert_one_line(run("graph", "--out", name))
    assert list(Path().iterdir()) == []


def test_without_a_renderer_one_remedy_is_named_and_the_dot_text_is_kept(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viz.render._RENDERERS", ())
    assert_one_line(run("graph", "--out", "head.png"), "pip install", "head.dot")
    assert [file.name for file in Path().iterdir()] == ["head.dot"]


# --- gradcheck ---------------------------------------------------------------------------------------------------


def test_gradcheck_has_a_line_for_each_operation(run: Run) -> None:
    told = run("gradcheck", "softmax", "matmul")
    assert told.code == 0
    assert [line.split()[:2] for line in told.out.splitlines()[:2]] == [["softmax", "ok"], ["matmul", "ok"]]
    assert_fits(told.out)


def test_gradcheck_of_an_unknown_operation_names_one_that_is_near(run: Run) -> None:
    assert_one_line(run("gradcheck", "sofmax"), "softmax")


def test_gradcheck_of_a_wrong_rule_exits_with_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    @ta.op(domain=reals())
    def wrong_square(x: Any) -> Any:
        return x * x

    @wrong_square.gradient("x", formula="dx = dy x")
    def _(g: Any, out: Any, x: Any) -> Any:
        return g * x

    monkeypatch.setitem(ta.OPERATIONS, "wrong_square", wrong_square)
    told = run("gradcheck", "exp", "wrong_square")
    assert told.code == 1
    assert "wrong_square       FAILED" in told.out and "1 of 2 disagree: wrong_square" in told.out
    assert_fits(told.out)


# --- backward ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", ["head", "self", "cross"])
def test_backward_prints_every_step_in_fractions(run: Run, example: str) -> None:
    told = run("backward", example)
    assert told.code == 0, told.err
    assert "∂L/∂P" in told.out and "/4" in told.out and "agree" in told.out
    assert_fits(told.out)


def test_backward_writes_a_page(run: Run) -> None:
    require("jinja2")
    told = run("backward", "self", "--out", "b.html")
    assert told.code == 0, told.err
    assert "<!doctype html>" in Path("b.html").read_text(encoding="utf-8")


def test_backward_refuses_another_kind_of_file(run: Run) -> None:
    assert_one_line(run("backward", "--out", "b.png"), ".html or .txt")
