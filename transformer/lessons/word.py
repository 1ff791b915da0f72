"""The lesson on one word: two models trained in this run, one layer and two, and what `it` looks at in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from transformer.lessons.word_model import ReferentConfig, Training, mean_looks, score, train
from transformer.lessons.word_reading import Reading, read
from transformer.tasks import Score
from transformer.tasks.coreference import (
    ARTICLE,
    DEEDS,
    NEW_OF_ANIMALS,
    NEW_OF_PLACES,
    NOVELTIES,
    OF_ANIMALS,
    OF_PLACES,
    CoreferenceTask,
    Novelty,
)

HELD_OUT = 400


@dataclass(frozen=True, eq=False)
class WordLesson:
    """What the page and the terminal show, all of it from one run.

    Args:
        task: where the sentences come from.
        deep, shallow: the model of two layers, which the lesson is about, and the one of one layer beside it.
        scores: by what is new about the held-out sentences, then by number of layers, as `word_model.score` gives them.
        looks: by number of layers, `word_model.mean_looks` of the held-out sentences with new pairs.
        opened: readings of the deep model: the sentence that was asked for, then the same with another adjective.
        article: readings of the article's sentence with *tired* and with *wide*, by number of layers.
        typed: whether somebody typed the sentence.
    """

    task: CoreferenceTask
    deep: Training
    shallow: Training
    scores: Mapping[Novelty, Mapping[int, Mapping[str, Score]]]
    looks: Mapping[int, tuple[float, float]]
    opened: tuple[Reading, ...]
    article: Mapping[int, tuple[Reading, Reading]]
    typed: bool

    @property
    def reading(self) -> Reading:
        """The sentence that was asked for."""
        return self.opened[0]

    @property
    def right_answer(self) -> str | None:
        """What `it` stands for by the rules of the task; None where they do not say."""
        known = self.task.label(self.reading.text)
        return None if known is None else known.referent


Watch = Callable[[int, int, float], None]


def build_word_lesson(
    task: CoreferenceTask,
    sentence: str | None = None,
    config: ReferentConfig | None = None,
    *,
    on_step: Watch | None = None,
) -> WordLesson:
    """Trains both models, asks them the held-out sentences, and lays the reading of a few sentences open.

    Args:
        sentence: from `task.read`; the article's if None.
        config: of the deep model; the shallow one has one layer and the rest the same.
        on_step: told the number of layers, the step and its loss; what it raises ends the training.
    """
    config = ReferentConfig() if config is None else config
    trained = {}
    for layers in (config.layers, 1):

        def told(step: int, loss: float, layers: int = layers) -> None:
            if on_step is not None:
                on_step(layers, step, loss)

        chosen = dataclasses.replace(config, layers=layers)
        trained[layers] = train(task, chosen, on_step=told)
    asked = {novelty: task.held_out(novelty, HELD_OUT, seed=config.seed) for novelty in NOVELTIES}
    deep, shallow = trained[config.layers], trained[1]
    opened = [ARTICLE if sentence is None else sentence]
    opened += other_adjective(task, opened[0])
    pair = (ARTICLE, *other_adjective(task, ARTICLE))
    return WordLesson(
        task,
        deep,
        shallow,
        {
            novelty: {layers: score(training.model, task, asked[novelty]) for layers, training in trained.items()}
            for novelty in NOVELTIES
        },
        {layers: mean_looks(training.model, task, asked["pair"]) for layers, training in trained.items()},
        tuple(read(deep.model, task, text) for text in opened),
        {layers: tuple(read(training.model, task, text) for text in pair) for layers, training in trained.items()},  # type: ignore[misc]
        typed=sentence is not None,
    )


def other_adjective(task: CoreferenceTask, text: str) -> list[str]:
    """The sentence with an adjective that speaks of the other noun; nothing where there is none.

    >>> other_adjective(CoreferenceTask(), "The animal didn't cross the street because it was too tired")
    ["The animal didn't cross the street because it was too wide"]
    """
    known = task.label(text)
    if known is None:
        return []
    *others, _ = text.split()
    return [" ".join([*others, opposite(known.adjective)])]


def opposite(adjective: str) -> str:
    """An adjective of the other side: *wide* for all that animals can be, *heavy* for *weak*, and so on."""
    sides = [(OF_ANIMALS + NEW_OF_ANIMALS, OF_PLACES + NEW_OF_PLACES)]
    sides += [(deed.of_doer + deed.new_of_doer, deed.of_other + deed.new_of_other) for deed in DEEDS]
    for one, other in sides:
        for mine, theirs in ((one, other), (other, one)):
            if adjective in mine:
                return theirs[min(mine.index(adjective), len(theirs) - 1)]
    return adjective


def ratio(reading: Reading, layer: int, head: int, first: str, second: str) -> float:
    """How many times as much `it` looks at one word as at another."""
    row = reading.layers[layer].weights[head, reading.pronoun]
    words = [word.lower() for word in reading.words]
    return float(row[words.index(first)] / row[words.index(second)])


def final_loss(training: Training) -> float:
    """Mean loss of the last twentieth of the training."""
    return float(np.mean(training.losses[-max(1, len(training.losses) // 20) :]))
