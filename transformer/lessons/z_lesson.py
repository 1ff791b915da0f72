"""The chapter on z: one Transformer keeps a vector per token, another one vector for all, and both say it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import tinygrad_attn as ta
from transformer.lessons.terminal import WIDTH, fit, table
from transformer.lessons.z_model import SqueezedTransformer
from transformer.model import Transformer, TransformerConfig
from transformer.tasks import Score
from transformer.tasks.clauses import NAMES, THINGS, VERBS, ClausesConfig, ClausesTask
from transformer.training import Progress, Trainer, TrainingConfig, evaluate, predict

Array = NDArray[np.float64]

HELD_OUT = {1: 25}  # there are only some fifty held-out sentences of one clause
OTHERWISE = 100
KINDS: Mapping[str, type[Transformer]] = {"each": Transformer, "one": SqueezedTransformer}


@dataclass(frozen=True)
class ZConfig:
    """Sizes of both models, and how they are trained.

    Args:
        d_model: numbers per vector.
        steps, batch_size, learning_rate: of the training.
        most: clauses in the longest sentence.
        seed: decides first values and sentences.
    """

    d_model: int = 32
    steps: int = 300
    batch_size: int = 64
    learning_rate: float = 1e-2
    most: int = 5
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Opened:
    """A sentence with its z, and z again after one word has been replaced, for every word that can be.

    Args:
        words: of the sentence.
        others: for each place the word that replaces it, or "" where none does.
        z: (words, d_model).
        changed: for each place z after that replacement; `z` itself where there is none.
    """

    words: tuple[str, ...]
    others: tuple[str, ...]
    z: Array
    changed: tuple[Array, ...]

    def moved(self, place: int) -> Array:
        """How far each token's vector moved when a word was replaced, relative to its length, (words,)."""
        return np.asarray(
            np.linalg.norm(self.changed[place] - self.z, axis=-1) / np.linalg.norm(self.z, axis=-1), dtype=np.float64
        )


@dataclass(frozen=True, eq=False)
class ZLesson:
    """What the page and the terminal show, all of it from one run.

    Args:
        task: where the sentences come from.
        config: sizes and training.
        trainers: "each" keeps a vector per token, "one" their mean alone.
        scores: by kind, then by number of clauses: held-out sentences said again exactly.
        samples: held-out sentences, one of each number of clauses, and what either kind says.
        opened: some sentences with their z, from the model that keeps all.
        squeezed: the one vector that the other model keeps of each of them, (d_model,).
    """

    task: ClausesTask
    config: ZConfig
    trainers: Mapping[str, Trainer]
    scores: Mapping[str, Mapping[int, Score]]
    samples: tuple[tuple[str, Mapping[str, str]], ...]
    opened: tuple[Opened, ...]
    squeezed: tuple[Array, ...]


def build_z_lesson(config: ZConfig | None = None, *, on_step: Callable[[str, Progress], None] | None = None) -> ZLesson:
    """Trains both models and asks them the same held-out sentences.

    Args:
        config: sizes and training.
        on_step: told the kind and the progress; what it raises ends the training.
    """
    config = ZConfig() if config is None else config
    task = ClausesTask(ClausesConfig(config.most, config.seed))
    trainers = {kind: _trainer(made, task, config) for kind, made in KINDS.items()}
    for kind, trainer in trainers.items():

        def told(progress: Progress, kind: str = kind) -> None:
            if on_step is not None:
                on_step(kind, progress)

        trainer.run(on_step=told)
    asked = {n: task.held_out_of(n, HELD_OUT.get(n, OTHERWISE), config.seed) for n in range(1, config.most + 1)}
    first = [examples[0].source for examples in asked.values()]
    said = {kind: predict(trainer.model, task, first) for kind, trainer in trainers.items()}
    opened = [asked[n][0].source for n in range(1, min(config.most, 3) + 1)]
    return ZLesson(
        task,
        config,
        trainers,
        {
            kind: {n: evaluate(trainer.model, task, examples)["all"] for n, examples in asked.items()}
            for kind, trainer in trainers.items()
        },
        tuple((text, {kind: said[kind][index] for kind in KINDS}) for index, text in enumerate(first)),
        tuple(open_sentence(trainers["each"].model, task, text) for text in opened),
        tuple(encoded(trainers["one"].model, task, text)[0] for text in opened),
    )


def encoded(model: Transformer, task: ClausesTask, text: str) -> Array:
    """The memory of one sentence, (words, d_model)."""
    src, lengths = task.source_tokenizer.encode_batch([text])
    with ta.no_grad():
        return np.asarray(model.encode(src, src_lengths=lengths)[0].numpy(), dtype=np.float64)


def open_sentence(model: Transformer, task: ClausesTask, text: str) -> Opened:
    """The z of a sentence, and of the same with one word replaced, place by place."""
    words = tuple(text.split())
    others = tuple(other_word(word) for word in words)
    z = encoded(model, task, text)
    changed = tuple(
        encoded(model, task, " ".join((*words[:place], other, *words[place + 1 :]))) if other else z
        for place, other in enumerate(others)
    )
    return Opened(words, others, z, changed)


def other_word(word: str) -> str:
    """The next word of the same kind; "" for one that has none.

    >>> other_word("birds"), other_word("Hugo"), other_word("and")
    ('apples', 'Anna', '')
    """
    for words in (NAMES, VERBS, THINGS):
        if word in words:
            return words[(words.index(word) + 1) % len(words)]
    return ""


def chapter(lesson: ZLesson) -> str:
    """What the run showed, as text of 80 columns."""
    rows = [
        [f"{n} ({4 * n - 1} words)", *(str(lesson.scores[kind][n]) for kind in KINDS)]
        for n in range(1, lesson.config.most + 1)
    ]
    text, said = lesson.samples[-1]
    return "\n".join(
        [
            "held-out sentences said again exactly:",
            table(["clauses", "a vector per token", "one vector for all"], rows, right=[1, 2]),
            f"\nsaid:   {fit(text, WIDTH - 8)}",
            f"all z:  {fit(said['each'], WIDTH - 8)}",
            f"one:    {fit(said['one'], WIDTH - 8)}",
        ]
    )


def _trainer(made: type[Transformer], task: ClausesTask, config: ZConfig) -> Trainer:
    vocabulary = len(task.source_tokenizer)
    sizes = TransformerConfig(
        source_vocab=vocabulary,
        target_vocab=vocabulary,
        d_model=config.d_model,
        num_heads=2,
        d_ff=2 * config.d_model,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.0,
        norm_first=True,
        max_length=task.max_target_length,
    )
    training = TrainingConfig(
        steps=config.steps,
        batch_size=config.batch_size,
        long_share=0.0,
        learning_rate=config.learning_rate,
        warmup=40,
        validate_every=0,
        seed=config.seed,
    )
    return Trainer(task, training, made(sizes, rng=np.random.default_rng([config.seed, 0])))
