"""The command lesson: its files, and nobody else's; the better model is kept."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.transformer.told import Run, assert_fits, assert_one_line
from transformer.checkpoint import last_training, load_training, save_training
from transformer.tasks import Score

# --- lesson ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("lesson_extras")
def test_the_lesson_writes_its_files_and_leaves_others_alone(run: Run) -> None:
    Path("out").mkdir()
    Path("out/mine.txt").write_text("mine")
    told = run("lesson", "--out", "out", "--steps", "2", "--text", "2026년 12월 1일 화요일")
    assert told.code == 0, told.err
    assert sorted(file.name for file in Path("out").iterdir()) == [
        "attention.html",
        "attention_head.svg",
        "backward.html",
        "cross_attention.png",
        "cross_attention.svg",
        "dates.html",
        "distance.html",
        "distance.svg",
        "index.html",
        "mine.txt",
        "one_word.svg",
        "word.html",
        "z.html",
    ]
    assert Path("out/mine.txt").read_text() == "mine"
    assert "2026년 12월 1일 화요일" in Path("out/dates.html").read_text(encoding="utf-8")
    index = Path("out/index.html").read_text(encoding="utf-8")
    links = [index.index(f'href="{name}.html"') for name in ("word", "dates", "distance")]
    assert links == sorted(links) and "2026년 12월 1일 화요일" in index
    titles = ("One word looks around", "A Transformer reads a date", "Like an RNN?")
    assert [told.out.index(title) for title in titles] == sorted(told.out.index(title) for title in titles)
    assert [entry.name for entry in Path().iterdir()] == ["out"]
    assert "<Start of" in told.out and "/500" in told.out
    assert_fits(told.out.rsplit("kept the model", 1)[0])
    assert run("predict", "1 May 2026").code == 0
    again = run("lesson", "dates", "--out", "out", "--steps", "1", "--text", "1. Mai 2031")
    assert again.code == 0, again.err
    assert "1. Mai 2031" in Path("out/dates.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("lesson_extras")
def test_one_chapter_at_a_time_makes_the_same_folder(run: Run) -> None:
    sentence = "The dog couldn't lift the cat because it was too weak."
    told = run("lesson", "word", "--steps", "3", "--sentence", sentence)
    assert told.code == 0, told.err
    assert sorted(file.name for file in Path("lesson").iterdir()) == ["index.html", "one_word.svg", "word.html"]
    assert_fits(told.out)
    assert "open lesson/word.html" in told.out and "weak / heavy" in told.out
    word = Path("lesson/word.html").read_text(encoding="utf-8")
    assert sentence.rstrip(".") in word and 'href="dates.html"' not in word
    assert 'href="dates.html"' not in Path("lesson/index.html").read_text(encoding="utf-8")
    assert run("lesson", "dates", "--steps", "1").code == 0
    index = Path("lesson/index.html").read_text(encoding="utf-8")
    assert 'href="word.html"' in index and 'href="dates.html"' in index
    assert 'href="word.html"' in Path("lesson/dates.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("lesson_extras")
def test_the_chapter_on_attention_needs_no_training(run: Run) -> None:
    told = run("lesson", "attention")
    assert told.code == 0, told.err
    assert sorted(file.name for file in Path("lesson").iterdir()) == ["attention.html", "index.html"]
    assert_fits(told.out)
    assert "ln 3" in told.out and "1/3" in told.out and "open lesson/attention.html" in told.out


@pytest.mark.usefixtures("lesson_extras")
def test_the_chapter_on_distance_tells_its_numbers(run: Run) -> None:
    told = run("lesson", "distance", "--steps", "2", "--lang", "ko")
    assert told.code == 0, told.err
    assert sorted(file.name for file in Path("lesson").iterdir()) == ["distance.html", "distance.svg", "index.html"]
    assert_fits(told.out)
    assert "open lesson/distance.html" in told.out
    assert re.search(r"GRU +longest .* 494\n", told.out) and re.search(r"Transformer  longest .* 107\n", told.out)
    page = Path("lesson/distance.html").read_text(encoding="utf-8")
    assert 'data-language="ko"' in page and 'href="dates.html"' not in page


@pytest.mark.usefixtures("lesson_extras")
def test_the_same_seed_makes_the_same_picture(run: Run) -> None:
    pictures = []
    for seed in ("3", "3", "4"):
        assert run("lesson", "word", "--steps", "2", "--seed", seed).code == 0
        pictures.append(Path("lesson/one_word.svg").read_bytes())
    assert pictures[0] == pictures[1] != pictures[2]


@pytest.mark.usefixtures("lesson_extras")
def test_a_lesson_does_not_replace_a_better_model(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    right = iter([400, 399, 400])

    def claimed(trainer: Any) -> Any:
        score = Score(next(right), 500)
        trainer.history.held_out = {"ko": (score.right, score.total)}
        return {"ko": score}

    monkeypatch.setattr("transformer.commands.lesson.report", claimed)
    assert "kept the model" in run("lesson", "dates", "--steps", "1").out
    good = last_training().read_bytes()
    worse = run("lesson", "dates", "--steps", "2")
    assert worse.code == 0 and "did not keep this model: it got 399/500" in worse.out and "400/500" in worse.out
    assert last_training().read_bytes() == good
    assert "kept the model" in run("lesson", "dates", "--steps", "2").out
    assert last_training().read_bytes() != good


@pytest.mark.usefixtures("lesson_extras")
@pytest.mark.parametrize("measured", [True, False])
def test_a_lesson_does_not_replace_another_training(run: Run, measured: bool) -> None:
    run("train", "--task", "copy" if measured else "dates", "--steps", "1")
    if not measured:  # as Ctrl-C leaves it
        trainer = load_training(last_training())
        trainer.history.held_out = {}
        save_training(trainer, last_training())
    kept = last_training().read_bytes()
    told = run("lesson", "--steps", "1")
    assert told.code == 0 and "did not keep this model: another training stands in" in told.out
    assert last_training().read_bytes() == kept


@pytest.mark.usefixtures("lesson_extras")
def test_the_lesson_does_not_write_over_what_is_not_its_own(run: Run) -> None:
    Path("site").mkdir()
    Path("site/index.html").write_text("my home page")
    told = run("lesson", "--out", "site", "--steps", "1")
    assert_one_line(told, "index.html", "--force")
    assert told.out == "" and Path("site/index.html").read_text() == "my home page"
    assert run("lesson", "word", "--out", "site", "--steps", "1", "--force").code == 0
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
        (["--sentence", "The animl was it"], "did you mean animal"),
        (["--sentence", "The animal was tired"], "it has 0"),
        (["dates", "--sentence", "it was tired"], "belongs to the chapter word"),
        (["word", "--text", "1 May 2026"], "belongs to the chapter dates"),
        (["attention", "--steps", "3"], "nothing is trained"),
        (["attention", "--seed", "3"], "nothing is trained"),
        (["attention", "--text", "1 May 2026"], "belongs to the chapter dates"),
        (["distance", "--text", "1 May 2026"], "belongs to the chapter dates"),
        (["words"], "invalid choice: 'words'"),
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
