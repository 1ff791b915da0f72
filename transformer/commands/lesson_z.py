"""The chapter on z, from the options of `tinygrad-attn lesson` to its files."""

from __future__ import annotations

import dataclasses
from argparse import Namespace

from transformer.commands.progress import TrainingDisplay, interruptible
from transformer.lessons.contents import PAGES, Chapter
from transformer.lessons.z_lesson import ZConfig, ZLesson, build_z_lesson, chapter
from transformer.lessons.z_page import z_page
from transformer.threads import one_blas_thread
from transformer.training import Progress


class ZChapter:
    """Trains a model with a vector per token and one with a single vector, compares them, and writes the page."""

    title = "z is not one vector"
    kept = ""

    def __init__(self, arguments: Namespace) -> None:
        changes = {name: getattr(arguments, name) for name in ("steps", "seed") if getattr(arguments, name) is not None}
        self.config = dataclasses.replace(ZConfig(), **changes)
        self.language = arguments.lang

    def make(self, present: list[str]) -> tuple[Chapter, dict[str, bytes]]:
        """Trains, shows, and gives the announcement and the files.

        Args:
            present: names of the chapters that the folder is going to hold.
        """
        lesson = self._train()
        seconds = sum(trainer.history.seconds for trainer in lesson.trainers.values())
        print(f"two models of {lesson.trainers['each'].model.num_parameters():,} parameters: {seconds:.0f} s\n")
        print(chapter(lesson))
        page = z_page(lesson, language=self.language, present=present)
        text, said = lesson.samples[1 if len(lesson.samples) > 1 else 0]
        return Chapter("z", source=text, answer=said["each"]), {PAGES["z"]: page.encode("utf-8")}

    def _train(self) -> ZLesson:
        steps = self.config.steps

        def on_step(kind: str, progress: Progress) -> None:
            if pressed.is_set():
                raise KeyboardInterrupt("nothing was kept")
            step = progress.step if kind == "each" else steps + progress.step
            display(Progress(step, 2 * steps, progress.loss, 0.0, 0.0))

        display = TrainingDisplay(0, 2 * steps)
        with interruptible() as pressed, one_blas_thread(), display:
            return build_z_lesson(self.config, on_step=on_step)
