"""The command line: help that fits, one line for every error, nothing half-written, Ctrl-C that keeps what it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tinygrad_attn.domain import reals
from transformer.checkpoint import last_training, load_training, save_training
from transformer.cli import main
from transformer.tasks import DatesTask, Score
from transformer.training import Trainer, TrainingConfig
from viz.escape import display_width

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ["lesson", "train", "predict", "graph", "backward", "gradcheck"]


class Told:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Run = Callable[..., Told]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in an empty folder, with an empty cache, in a terminal of 80 columns."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))

    def call(*arguments: str) -> Told:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        told = capsys.readouterr()
        return Told(code, told.out, told.err)

    return call


def assert_one_line(told: Told, *parts: str) -> None:
    assert told.code == 2, told.out + told.err
    assert told.err.startswith("tinygrad-attn: ") and told.err.count("\n") == 1
    assert "Traceback" not in told.err
    for part in parts:
        assert part in told.err


def assert_fits(text: str) -> None:
    assert max(map(display_width, text.splitlines()), default=0) <= 80
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)


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


@pytest.fixture(scope="module")
def dates_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("babel", "safetensors"):
        require(name)
    path = tmp_path_factory.mktemp("model") / "dates.safetensors"
    trainer = Trainer(DatesTask(), TrainingConfig(steps=1))
    save_training(trainer, path)
    return path


# --- train and predict -------------------------------------------------------------------------------------------


def test_a_training_can_be_asked_and_gone_on_with(run: Run) -> None:
    require("safetensors")
    told = run("train", "--task", "copy", "--steps", "2", "--seed", "3")
    assert told.code == 0, told.err
    assert "/500" in told.out
    assert_fits(told.out.rsplit("kept in", 1)[0])
    asked = run("predict", "abc")
    assert asked.code == 0 and asked.out.count("\n") == 1
    more = run("train", "--resume", "--steps", "4")
    assert more.code == 0 and "going on after step 2" in more.out
    assert_one_line(run("train", "--resume", "--task", "dates"), "copy")
    assert_one_line(run("train", "--resume", "--seed", "4"), "seed 3")


@pytest.mark.parametrize("steps", [[], ["--steps", "1"], ["--steps", "3"]])
def test_a_training_that_is_finished_says_that_there_is_nothing_to_do(run: Run, steps: list[str]) -> None:
    require("safetensors")
    run("train", "--task", "copy", "--steps", "3")
    told = run("train", "--resume", *steps)
    assert told.code == 0 and "nothing to train: step 3 is reached" in told.out
    kept = load_training(last_training())
    assert kept.step == kept.config.steps == 3
    assert "nothing to train" not in run("train", "--resume", "--steps", "4").out


def test_a_training_is_the_same_whether_it_is_resumed_or_not(run: Run) -> None:
    require("safetensors")
    run("train", "--task", "copy", "--steps", "3", "--checkpoint", "whole.safetensors")
    whole = load_training("whole.safetensors")
    whole.config = whole.config.__class__(**{**whole.config.__dict__, "steps": 4})
    whole.run()
    run("train", "--resume", "--steps", "4", "--checkpoint", "whole.safetensors")
    resumed = load_training("whole.safetensors")
    assert resumed.step == 4
    for name, values in whole.model.state_dict().items():
        np.testing.assert_array_equal(values, resumed.model.state_dict()[name])


def test_predict_shows_the_steps_on_request(run: Run) -> None:
    require("safetensors")
    run("train", "--task", "phrases", "--steps", "1")
    told = run("predict", "--steps", "나는 좋다")
    assert told.code == 0, told.err
    assert "so far" in told.out and "looks at" in told.out
    assert_fits(told.out)


def test_predict_without_a_model_says_how_to_get_one(run: Run) -> None:
    assert_one_line(run("predict", "1 May 2026"), "tinygrad-attn train")


def test_a_checkpoint_that_is_none_is_refused(run: Run) -> None:
    require("safetensors")
    Path("text.safetensors").write_text("hello")
    Path("folder.safetensors").mkdir()
    for name in ("text.safetensors", "folder.safetensors", "missing.safetensors"):
        assert_one_line(run("predict", "1 May 2026", "--checkpoint", name))
        assert_one_line(run("train", "--resume", "--checkpoint", name))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("February 30, 2020", "does not exist"),
        ("Monday, December 1, 2026", "weekday is another: Tuesday"),
        ("December 1, 1800", "it is 1800-12-01, outside"),
        ("1.12.2026 12", "no date in a form"),
    ],
)
def test_predict_says_why_it_can_only_guess(dates_model: Path, run: Run, text: str, reason: str) -> None:
    told = run("predict", text, "--checkpoint", str(dates_model))
    assert told.code == 0 and told.out.count("\n") == 1
    assert f"note: the answer is a guess: {reason}" in told.err.replace("this day ", "").replace("the w", "w")


def test_predict_tells_a_reader_and_no_programmer_what_it_cannot_read(dates_model: Path, run: Run) -> None:
    told = run("predict", "xyzzy", "--checkpoint", str(dates_model))
    assert_one_line(told, "'x'", "no date is written with it")
    run("train", "--task", "copy", "--steps", "1", "--checkpoint", "copy.safetensors")
    other = run("predict", "가", "--checkpoint", "copy.safetensors")
    assert_one_line(other, "'가'", "texts such as")
    assert "unknown=True" not in told.err + other.err


def test_too_little_memory_is_said_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(_: object) -> int:
        raise MemoryError("Unable to allocate 1.00 TiB")

    monkeypatch.setattr("transformer.commands.graph.run", exhausted)
    assert_one_line(run("graph"), "not enough memory", "1.00 TiB")


def test_unknown_characters_are_named(run: Run) -> None:
    require("safetensors")
    run("train", "--task", "copy", "--steps", "1")
    assert_one_line(run("predict", "abc가"), "'가'", "position 3")
    assert_one_line(run("predict", ""), "empty")


def test_a_checkpoint_that_cannot_be_kept_is_refused_before_the_training(run: Run) -> None:
    require("safetensors")
    Path("file").touch()
    for place in ("no/model.safetensors", "file/model.safetensors"):
        told = run("train", "--task", "copy", "--steps", "100000", "--checkpoint", place)
        assert_one_line(told)
        assert told.out == ""


def test_a_loss_that_is_not_finite_leaves_the_good_checkpoint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    require("safetensors")
    run("train", "--task", "copy", "--steps", "2", "--checkpoint", "m.safetensors")
    good = Path("m.safetensors").read_bytes()
    monkeypatch.setattr("transformer.training.batch_loss", lambda *_, **__: ta.Tensor(np.float32("nan")))
    assert_one_line(run("train", "--resume", "--steps", "9", "--checkpoint", "m.safetensors"), "loss is nan")
    assert Path("m.safetensors").read_bytes() == good


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


# --- lesson ------------------------------------------------------------------------------------------------------


@pytest.fixture
def lesson_extras() -> None:
    for name in ("babel", "jinja2", "latex2mathml", "matplotlib", "safetensors"):
        require(name)


@pytest.mark.usefixtures("lesson_extras")
def test_the_lesson_writes_its_files_and_leaves_others_alone(run: Run) -> None:
    Path("out").mkdir()
    Path("out/mine.txt").write_text("mine")
    told = run("lesson", "--out", "out", "--steps", "2", "--text", "2026년 12월 1일 화요일")
    assert told.code == 0, told.err
    assert sorted(file.name for file in Path("out").iterdir()) == [
        "attention_head.svg",
        "backward.html",
        "cross_attention.png",
        "cross_attention.svg",
        "index.html",
        "mine.txt",
    ]
    assert Path("out/mine.txt").read_text() == "mine"
    assert "2026년 12월 1일 화요일" in Path("out/index.html").read_text(encoding="utf-8")
    assert [entry.name for entry in Path().iterdir()] == ["out"]
    assert "<Start of" in told.out and "/500" in told.out
    assert_fits(told.out.rsplit("kept the model", 1)[0])
    assert run("predict", "1 May 2026").code == 0
    again = run("lesson", "--out", "out", "--steps", "1", "--text", "1. Mai 2031")
    assert again.code == 0, again.err
    assert "1. Mai 2031" in Path("out/index.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("lesson_extras")
def test_a_lesson_does_not_replace_a_better_model(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    right = iter([400, 399, 400])

    def claimed(trainer: Any) -> Any:
        score = Score(next(right), 500)
        trainer.history.held_out = {"ko": (score.right, score.total)}
        return {"ko": score}

    monkeypatch.setattr("transformer.commands.lesson.report", claimed)
    assert "kept the model" in run("lesson", "--steps", "1").out
    good = last_training().read_bytes()
    worse = run("lesson", "--steps", "2")
    assert worse.code == 0 and "did not keep this model: it got 399/500" in worse.out and "400/500" in worse.out
    assert last_training().read_bytes() == good
    assert "kept the model" in run("lesson", "--steps", "2").out
    assert last_training().read_bytes() != good


def test_predict_says_how_poor_a_poor_model_is(run: Run) -> None:
    require("safetensors")
    run("train", "--task", "copy", "--steps", "1")
    assert re.search(r"note: this model got \d+ of 500 held-out examples right", run("predict", "abc").err)
    trainer = load_training(last_training())
    trainer.history.held_out = {"": (450, 500)}
    save_training(trainer, last_training())
    assert run("predict", "abc").err == ""


@pytest.mark.usefixtures("lesson_extras")
def test_the_lesson_does_not_write_over_what_is_not_its_own(run: Run) -> None:
    Path("site").mkdir()
    Path("site/index.html").write_text("my home page")
    told = run("lesson", "--out", "site", "--steps", "1")
    assert_one_line(told, "index.html", "--force")
    assert told.out == "" and Path("site/index.html").read_text() == "my home page"
    assert run("lesson", "--out", "site", "--steps", "1", "--force").code == 0
    assert Path("site/index.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.usefixtures("lesson_extras")
def test_a_lesson_that_cannot_be_finished_writes_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformer.commands.lesson.publish", full)
    assert_one_line(run("lesson", "--out", "out", "--steps", "1"), "No space left")
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("lesson_extras")
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--text", "2026年12月1日"], "'年'"),
        (["--text", ""], "empty"),
        (["--text", "1" * 500], "500 characters"),
        (["--out", "file"], "is a file"),
        (["--out", ""], "name of a folder"),
        (["--out", "file/lesson"], "is a file"),
    ],
)
def test_what_is_wrong_is_found_before_the_training(run: Run, arguments: list[str], part: str) -> None:
    Path("file").touch()
    told = run("lesson", *arguments)
    assert_one_line(told, part)
    assert told.out == ""
    assert [entry.name for entry in Path().iterdir()] == ["file"]


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib", "babel"])
def test_a_missing_extra_is_named_with_its_command(run: Run, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert_one_line(run("lesson"), missing, "pip install 'tinygrad-attn[lesson]'")


# --- as a process of its own ----------------------------------------------------------------------------------------


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder), **more}


def test_an_error_in_a_process_of_its_own_has_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "transformer", "predict", "x", "--checkpoint", str(tmp_path / "none")]
    done = subprocess.run(command, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tinygrad-attn: ") and done.stderr.count("\n") == 1


def test_a_terminal_without_unicode_is_no_reason_to_fail(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "transformer", "graph", "--out", str(tmp_path / "h.dot")]
    done = subprocess.run(
        command, env=environment(tmp_path, PYTHONIOENCODING="ascii"), cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"?2" in done.stdout


# What presses Ctrl-C at the moment when NumPy is being imported.
PRESS = """
import sys
class Press:
    def find_spec(self, name, *_):
        if name == "numpy":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Press())
"""


@pytest.mark.parametrize(
    "start",
    [
        "import runpy; runpy.run_module('transformer', run_name='__main__')",
        "import importlib; module = importlib.import_module({module!r}); sys.exit(getattr(module, {name!r})())",
    ],
    ids=["python -m transformer", "console script"],
)
def test_ctrl_c_while_the_program_starts_is_one_line(tmp_path: Path, start: str) -> None:
    script = re.search(
        r'^tinygrad-attn = "(.*):(.*)"$', (ROOT / "pyproject.toml").read_text("utf-8"), flags=re.MULTILINE
    )
    assert script is not None
    command = [sys.executable, "-c", PRESS + start.format(module=script.group(1), name=script.group(2))]
    done = subprocess.run(command, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tinygrad-attn: interrupted\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGPIPE")
def test_a_reader_who_has_seen_enough_ends_it_quietly(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "transformer", "gradcheck", "exp", "log", "add"],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    said = child.stderr.read()
    child.stderr.close()
    assert child.wait() in (0, 128 + signal.SIGPIPE)
    assert said == b""


@pytest.mark.skipif(os.name == "nt", reason="Windows sends Ctrl-C to whole groups of processes")
def test_ctrl_c_keeps_a_checkpoint_that_can_be_gone_on_with(tmp_path: Path) -> None:
    require("safetensors")
    model = tmp_path / "model.safetensors"
    arguments = ["train", "--task", "copy", "--steps", "100000", "--checkpoint", str(model)]
    child = subprocess.Popen(
        [sys.executable, "-m", "transformer", *arguments],
        env=environment(tmp_path, PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stderr is not None
    for line in child.stdout:
        if line.startswith("step"):
            break
    child.send_signal(signal.SIGINT)
    _, err = child.communicate()
    assert child.returncode == 130
    kept = load_training(model)
    assert f"step {kept.step} is kept in {model}" in err and err.count("\n") == 1
    assert kept.step >= 100
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
