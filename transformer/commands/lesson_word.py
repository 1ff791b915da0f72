"""The chapter on one word, from the options of `tinygrad-attn lesson` to its files."""

from __future__ import annotations

import dataclasses
from argparse import Namespace

from transformer.commands.progress import TrainingDisplay, interruptible
from transformer.lessons.contents import PAGES, Chapter
from transformer.lessons.terminal import sparkline
from transformer.lessons.word import WordLesson, build_word_lesson, final_loss
from transformer.lessons.word_model import ReferentConfig, Training
from transformer.lessons.word_page import word_page
from transformer.lessons.word_pictures import gaze_svg
from transformer.lessons.word_terminal import chapter
from transformer.tasks.coreference import ARTICLE, CoreferenceTask
from transformer.threads import one_blas_thread
from transformer.training import Progress


class WordChapter:
    """Trains both models, shows what `it` looks at, and writes the page.

    Raises:
        VocabularyError, OptionError: a sentence that the model cannot read.
    """

    title = "One word looks around"
    kept = ""

    def __init__(self, arguments: Namespace) -> None:
        changes = {name: getattr(arguments, name) for name in ("steps", "seed") if getattr(arguments, name) is not None}
        self.config = dataclasses.replace(ReferentConfig(), **changes)
        self.task = CoreferenceTask(self.config.seed)
        typed = arguments.sentence
        self.sentence = None if typed is None else self.task.read(typed, "--sentence: ")
        self.language = arguments.lang

    def make(self, present: list[str]) -> tuple[Chapter, dict[str, bytes]]:
        """Trains, shows, and gives the announcement and the files.

        Args:
            present: names of the chapters that the folder is going to hold.
        """
        config = self.config
        print(f"task:  {ARTICLE}  →  animal")
        print(
            f"model: Encoder, {config.layers} layers, and 1 layer beside it, d_model {config.d_model}, "
            f"{config.num_heads} heads"
        )
        lesson = self._train()
        for training in (lesson.deep, lesson.shallow):
            print(_trained(training))
        print(f"\n{chapter(lesson)}")
        picture = gaze_svg(lesson.opened)
        page = word_page(lesson, language=self.language, present=present)
        files = {PAGES["word"]: page.encode("utf-8"), "one_word.svg": picture.encode("utf-8")}
        return Chapter("word", picture=picture), files

    def _train(self) -> WordLesson:
        steps = self.config.steps

        def on_step(layers: int, step: int, loss: float) -> None:
            if pressed.is_set():
                raise KeyboardInterrupt("nothing was kept")
            display(Progress(step if layers > 1 else steps + step, 2 * steps, loss, 0.0, 0.0))

        display = TrainingDisplay(0, 2 * steps)
        with interruptible() as pressed, one_blas_thread(), display:
            return build_word_lesson(self.task, self.sentence, self.config, on_step=on_step)


def _trained(training: Training) -> str:
    layers = training.config.layers
    named = f"{layers} layer{'' if layers == 1 else 's'}, {training.model.num_parameters():,} parameters"
    curve = f"loss {training.losses[0]:.2f} {sparkline(training.losses, 16)} {final_loss(training):.4f}"
    return f"{named}: {len(training.losses)} steps in {training.seconds:.0f} s   {curve}"
