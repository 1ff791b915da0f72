"""The chapter on distance, from the options of `tinygrad-attn lesson` to its files."""

from __future__ import annotations

import dataclasses
import itertools
from argparse import Namespace

from transformer.commands.progress import TrainingDisplay, interruptible
from transformer.lessons.contents import PAGES, Chapter
from transformer.lessons.distance import DistanceLesson, build_distance_lesson
from transformer.lessons.distance_model import KINDS, RecallConfig
from transformer.lessons.distance_page import distance_page
from transformer.lessons.distance_pictures import arrival_charts
from transformer.lessons.distance_terminal import chapter
from transformer.threads import one_blas_thread
from transformer.training import Progress


class DistanceChapter:
    """Trains three kinds of model in two ways, shows what arrives from afar, and writes the page."""

    title = "Like an RNN?"
    kept = ""

    def __init__(self, arguments: Namespace) -> None:
        config = RecallConfig()
        steps = config.steps if arguments.steps is None else arguments.steps
        seed = config.seed if arguments.seed is None else arguments.seed
        far_steps = max(1, config.far_steps * steps // config.steps)
        self.config = dataclasses.replace(config, steps=steps, far_steps=far_steps, seed=seed)
        self.language = arguments.lang

    def make(self, present: list[str]) -> tuple[Chapter, dict[str, bytes]]:
        """Trains, shows, and gives the announcement and the files.

        Args:
            present: names of the chapters that the folder is going to hold.
        """
        config = self.config
        print(f"task:   name the one capital among {config.shortest} to {config.longest} letters, at the end")
        print(f"models: RNN, GRU, Transformer ({config.layers} layers), {config.width} numbers for each letter")
        lesson = self._train()
        print(f"{2 * len(KINDS)} trainings, {self._steps():,} steps in {lesson.seconds:.0f} s")
        print(chapter(lesson))
        page = distance_page(lesson, language=self.language, present=present)
        picture, _ = arrival_charts(lesson)
        files = {PAGES["distance"]: page.encode("utf-8"), "distance.svg": picture.encode("utf-8")}
        return Chapter("distance", picture=picture), files

    def _steps(self) -> int:
        return len(KINDS) * (self.config.steps + self.config.far_steps)

    def _train(self) -> DistanceLesson:
        counter = itertools.count(1)

        def on_step(loss: float) -> None:
            if pressed.is_set():
                raise KeyboardInterrupt("nothing was kept")
            display(Progress(next(counter), self._steps(), loss, 0.0, 0.0))

        display = TrainingDisplay(0, self._steps())
        with interruptible() as pressed, one_blas_thread(), display:
            return build_distance_lesson(self.config, on_step=on_step)
