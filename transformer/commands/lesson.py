"""`tinygrad-attn lesson`: models learn while one watches, read one sentence or date, and show all that they did."""

from __future__ import annotations

import importlib.util
import sys
import webbrowser
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tinygrad_attn.errors import CheckpointError, MissingExtraError, OptionError
from transformer.checkpoint import describe_task, kept_score, last_training, save_training, total_score
from transformer.commands.lesson_attention import AttentionChapter
from transformer.commands.lesson_distance import DistanceChapter
from transformer.commands.lesson_word import WordChapter
from transformer.commands.lesson_z import ZChapter
from transformer.commands.train import introduce, new_trainer, report, train_and_keep
from transformer.lessons.contents import PAGES, Chapter, contents_page
from transformer.lessons.dates import DatesLesson, build_lesson, choose_text, say_flaw
from transformer.lessons.page import lesson_page
from transformer.lessons.pictures import attention_head_picture, attention_head_replay, cross_attention_picture
from transformer.lessons.publish import check_folder, is_marked, publish
from transformer.lessons.terminal import WIDTH, has_colours, loop_table
from transformer.tasks import DatesTask
from transformer.training import Trainer

INDEX = "index.html"
FILES = {
    "word": (PAGES["word"], "one_word.svg"),
    "attention": (PAGES["attention"],),
    "z": (PAGES["z"],),
    "dates": (PAGES["dates"], "backward.html", "attention_head.svg", "cross_attention.svg", "cross_attention.png"),
    "distance": (PAGES["distance"], "distance.svg"),
}
NEEDED = {
    "word": ("jinja2",),
    "attention": ("jinja2",),
    "z": ("jinja2",),
    "dates": ("babel", "jinja2", "latex2mathml", "matplotlib", "safetensors"),
    "distance": ("jinja2",),
}


def run(arguments: Namespace) -> int:
    """Trains, reads, prints and writes; what can fail without training is found out before."""
    chapters = tuple(FILES) if arguments.chapter == "all" else (arguments.chapter,)
    _check_options(arguments, chapters)
    files = [INDEX, *(name for chapter in chapters for name in FILES[chapter])]
    check_folder(arguments.out, files, force=arguments.force)
    present = [name for name in PAGES if name not in chapters and _is_there(arguments.out / PAGES[name])]
    # All are prepared before one of them trains.
    makers = [MAKERS[name](arguments) for name in chapters]

    made: list[Chapter] = []
    written: dict[str, bytes] = {}
    for maker in makers:
        if len(makers) > 1:
            before = "\n" if made else ""
            print(f"{before}── {maker.title} {'─' * (WIDTH - 4 - len(maker.title))}\n")
        chapter, content = maker.make([*chapters, *present])
        made.append(chapter)
        written.update(content)
    index = contents_page(made, present, language=arguments.lang).encode("utf-8")
    paths = publish(arguments.out, {INDEX: index, **written})
    first = arguments.out / (INDEX if len(chapters) > 1 else PAGES[chapters[0]])
    _say_what_was_written(paths, [maker.kept for maker in makers], first)
    if arguments.open and not webbrowser.open(first.absolute().as_uri()):
        print("no browser could be opened", file=sys.stderr)
    return 0


def _check_options(arguments: Namespace, chapters: tuple[str, ...]) -> None:
    for option, value, chapter in (("--sentence", arguments.sentence, "word"), ("--text", arguments.text, "dates")):
        if value is not None and chapter not in chapters:
            raise OptionError(f"{option} belongs to the chapter {chapter}: leave it out, or say `lesson {chapter}`")
    if chapters == ("attention",):
        for option in ("steps", "seed"):
            if getattr(arguments, option) is not None:
                raise OptionError(f"--{option}: nothing is trained or drawn in the chapter attention; leave it out")
    needed = dict.fromkeys(name for chapter in chapters for name in NEEDED[chapter])
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"the lesson needs {', '.join(missing)}: python -m pip install 'tinygrad-attn[lesson]'")


def _is_there(page: Path) -> bool:
    return page.is_file() and is_marked(page.read_bytes())


class Maker(Protocol):
    """A chapter that is ready to be made."""

    title: str
    kept: str

    def make(self, present: list[str]) -> tuple[Chapter, dict[str, bytes]]:
        """Trains, shows, and gives the announcement and the files, with links to the chapters that are present."""


class DatesChapter:
    """The chapter on dates, from the options to its files."""

    title = "A Transformer reads a date"

    def __init__(self, arguments: Namespace) -> None:
        self.trainer = new_trainer("dates", arguments)
        self.text = choose_text(_dates_task(self.trainer), arguments.text, self.trainer.config.seed)
        self.drawn = arguments.text is None
        self.language = arguments.lang
        self.kept = ""
        attention_head_picture("head").svg()  # a missing Graphviz is known now, not after the training

    def make(self, present: list[str]) -> tuple[Chapter, dict[str, bytes]]:
        """Trains, shows, and gives the announcement and the files.

        Args:
            present: names of the chapters that the folder is going to hold.
        """
        introduce(self.trainer)
        train_and_keep(self.trainer, None)
        scores = report(self.trainer)
        lesson = build_lesson(self.trainer, scores, self.text, drawn=self.drawn)
        _show_loop(lesson)
        self.kept = _keep(self.trainer)
        return Chapter("dates", source=lesson.text, answer=lesson.loop.answer), _files(lesson, self.language, present)


MAKERS: dict[str, Callable[[Namespace], Maker]] = {
    "word": WordChapter,
    "attention": AttentionChapter,
    "z": ZChapter,
    "dates": DatesChapter,
    "distance": DistanceChapter,
}


def _dates_task(trainer: Trainer) -> DatesTask:
    if not isinstance(trainer.task, DatesTask):
        raise TypeError(f"the lesson reads dates, not {type(trainer.task).__name__}")
    return trainer.task


def _show_loop(lesson: DatesLesson) -> None:
    loop = lesson.loop
    print(f"\nreading: {lesson.text}")
    print(f"z: {len(loop.source)} vectors, one per character, of {loop.memory.shape[1]} numbers each\n")
    print(loop_table(loop, colours=has_colours(sys.stdout)))
    print("looks at: cross-attention of the last layer, mean over its heads")
    known = "right" if lesson.is_right else f"wrong, it is {lesson.right_answer}"
    verdict = known if lesson.is_right is not None else say_flaw(lesson.flaw, _dates_task(lesson.trainer))
    print(f"\n{lesson.text}  →  {loop.answer}   ({verdict})")


def _files(lesson: DatesLesson, language: str, present: list[str]) -> dict[str, bytes]:
    loop = lesson.loop
    heads = loop.steps[0].cross_attention.shape[1]
    cross = cross_attention_picture(
        loop.last_layer(), loop.said, loop.source, title=f"Cross-attention, last layer, mean of {heads} heads"
    )
    return {
        PAGES["dates"]: lesson_page(lesson, language=language, present=present).encode("utf-8"),
        "backward.html": attention_head_replay("self").html(language=language).encode("utf-8"),
        "attention_head.svg": attention_head_picture("head", lesson.head).svg().encode("utf-8"),
        "cross_attention.svg": cross.svg().encode("utf-8"),
        "cross_attention.png": cross.png(),
    }


def _keep(trainer: Trainer) -> str:
    """Keep the model for `predict`, unless a better one or another training is kept; the lesson goes on regardless.

    Returns:
        What became of it, for the reader.
    """
    path, score = last_training(), total_score(trainer.history.held_out)
    kept = kept_score(path)
    if path.exists() and (kept is None or kept[0] != describe_task(trainer.task)["kind"]):
        return f"did not keep this model: another training stands in\n  {path}\n  move or delete that file to make room"
    if kept is not None and kept[1].accuracy > score.accuracy:
        return (
            f"did not keep this model: it got {score} right, and the one in\n"
            f"  {path}\n  {kept[1]}; `tinygrad-attn predict` goes on with that"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_training(trainer, path)
    except (OSError, CheckpointError) as error:
        return f"could not keep the model for `tinygrad-attn predict`: {str(error).splitlines()[0]}"
    return f"kept the model for `tinygrad-attn predict` in\n  {path}"


def _say_what_was_written(files: list[Path], kept: list[str], first: Path) -> None:
    print("\nwrote")
    for file in files:
        print(f"  {file}")
    for line in filter(None, kept):
        print(line)
    print(f"\nopen {first} in a browser")
