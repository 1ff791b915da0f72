"""`tinygrad-attn lesson`: a Transformer learns dates while one watches, reads one, and shows all that it did."""

from __future__ import annotations

import importlib.util
import sys
import webbrowser
from argparse import Namespace
from pathlib import Path

from tinygrad_attn.errors import CheckpointError, MissingExtraError
from transformer.checkpoint import describe_task, kept_score, last_training, save_training, total_score
from transformer.commands.train import introduce, new_trainer, report, train_and_keep
from transformer.lessons.dates import DatesLesson, build_lesson, choose_text, say_flaw
from transformer.lessons.page import lesson_page
from transformer.lessons.pictures import attention_head_picture, attention_head_replay, cross_attention_picture
from transformer.lessons.publish import check_folder, publish
from transformer.lessons.terminal import has_colours, loop_table
from transformer.tasks import DatesTask
from transformer.training import Trainer

FILES = ("index.html", "backward.html", "attention_head.svg", "cross_attention.svg", "cross_attention.png")
NEEDED = ("babel", "jinja2", "latex2mathml", "matplotlib", "safetensors")


def run(arguments: Namespace) -> int:
    """Trains, reads, prints and writes; what can fail without training is found out before."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"the lesson needs {', '.join(missing)}: python -m pip install 'tinygrad-attn[lesson]'")
    check_folder(arguments.out, FILES, force=arguments.force)
    trainer = new_trainer("dates", arguments)
    text = _text(trainer, arguments)
    attention_head_picture("head").svg()  # a missing Graphviz is known now, not after the training

    introduce(trainer)
    train_and_keep(trainer, None)
    scores = report(trainer)
    lesson = build_lesson(trainer, scores, text, drawn=arguments.text is None)
    _show_loop(lesson)
    kept = _keep(trainer)
    written = publish(arguments.out, _files(lesson, arguments.lang))
    _say_what_was_written(written, kept)
    if arguments.open and not webbrowser.open(written[0].absolute().as_uri()):
        print("no browser could be opened", file=sys.stderr)
    return 0


def _text(trainer: Trainer, arguments: Namespace) -> str:
    return choose_text(_dates_task(trainer), arguments.text, trainer.config.seed)


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


def _files(lesson: DatesLesson, language: str) -> dict[str, bytes]:
    loop = lesson.loop
    heads = loop.steps[0].cross_attention.shape[1]
    cross = cross_attention_picture(
        loop.last_layer(), loop.said, loop.source, title=f"Cross-attention, last layer, mean of {heads} heads"
    )
    return {
        "index.html": lesson_page(lesson, language=language).encode("utf-8"),
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


def _say_what_was_written(files: list[Path], kept: str) -> None:
    print("\nwrote")
    for file in files:
        print(f"  {file}")
    print(f"{kept}\n\nopen {files[0]} in a browser")
