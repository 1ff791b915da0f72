"""The lesson on dates: a model that was trained in this run reads one date, and everything it computed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinygrad_attn.errors import OptionError, VocabularyError
from transformer.lessons.attention_head import EXAMPLES, AttentionHead
from transformer.lessons.decoder_loop import DecoderLoop, run_decoder_loop
from transformer.tasks import DatesTask, Example, Score
from transformer.tasks.flaws import Flaw
from transformer.training import Trainer, predict

LANGUAGE_ORDER = ("ko", "en_US", "en_GB", "de", "fr")


@dataclass(frozen=True, eq=False)
class DatesLesson:
    """What the page and the terminal show, all of it from one run.

    Args:
        trainer: the trained model, its task and what happened in training.
        scores: held-out accuracy by language.
        text: the date that is read.
        drawn: whether it was drawn from the held-out dates, not typed.
        right_answer: what CLDR's patterns say the text means; None if no pattern writes it.
        loop: the decoder loop on the text.
        samples: a few held-out dates with what the model answered.
        head: the attention head that is differentiated, in numbers.
    """

    trainer: Trainer
    scores: Mapping[str, Score]
    text: str
    drawn: bool
    right_answer: str | None
    loop: DecoderLoop
    samples: Sequence[tuple[Example, str]]
    head: AttentionHead

    @property
    def total(self) -> Score:
        """Held-out accuracy of all languages together."""
        return Score(sum(s.right for s in self.scores.values()), sum(s.total for s in self.scores.values()))

    @property
    def is_right(self) -> bool | None:
        """Whether the answer is right; None where nobody knows."""
        return None if self.right_answer is None else self.loop.answer == self.right_answer

    @property
    def flaw(self) -> Flaw | None:
        """Why nobody knows the right answer; None where it is known, or where the text has several meanings."""
        task = self.trainer.task
        return task.flaw(self.text) if isinstance(task, DatesTask) and self.right_answer is None else None


def say_flaw(flaw: Flaw | None, task: DatesTask) -> str:
    """Why a text has no right answer, in a line of the terminal."""
    if flaw is None or flaw.kind == "form":
        return "no date in a form that the model has learned"
    if flaw.kind == "no_day":
        return "this day does not exist"
    if flaw.kind == "weekday":
        return f"the weekday is another: {flaw.written}"
    return f"it is {flaw.day}, outside the days that the model has learned, {task.config.first} to {task.config.last}"


def choose_text(task: DatesTask, typed: str | None, seed: int) -> str:
    """The date to read: what was typed, tidied up, or one of the held-out dates.

    Raises:
        VocabularyError: a character that no date of the task has.
        OptionError: nothing that could be read, or too much.
    """
    if typed is None:
        language = LANGUAGE_ORDER[seed % len(LANGUAGE_ORDER)]
        candidates = task.held_out(400, seed=seed + 1)
        return next(
            (e.source for e in candidates if e.language == language and e.style == "full"), candidates[0].source
        )
    return readable_text(task, typed, "--text: ")


def readable_text(task: DatesTask, typed: str, option: str = "") -> str:
    """What was typed, tidied up, if the model can read it.

    Args:
        task: whose characters and lengths count.
        typed: what a person wrote.
        option: how errors begin.
    Raises:
        VocabularyError: a character that no date of the task has.
        OptionError: nothing that could be read, or too much.
    """
    text = task.normalise(typed)
    try:
        length = len(task.source_tokenizer.encode(text))
    except VocabularyError as error:
        raise VocabularyError(
            f"{option}{str(error).splitlines()[0]}\n"
            "  no date is written with it in Korean, English, German or French, as the task has them"
        ) from error
    if length > task.max_source_length + 10:
        raise OptionError(f"{option}{length} characters; the longest date has {task.max_source_length}")
    return text


def build_lesson(trainer: Trainer, scores: Mapping[str, Score], text: str, *, drawn: bool) -> DatesLesson:
    """Runs everything that the lesson shows.

    Args:
        trainer: after training; its task is the dates task.
        scores: held-out accuracy by language.
        text: from `choose_text`.
        drawn: whether it was drawn.
    """
    task = trainer.task
    if not isinstance(task, DatesTask):
        raise OptionError(f"the lesson reads dates; this model was trained on {type(task).__name__}")
    meanings = {reading.target for reading in task.readings(text)}
    examples = _samples(task)
    answers = predict(trainer.model, task, [example.source for example in examples])
    return DatesLesson(
        trainer=trainer,
        scores={language: scores[language] for language in LANGUAGE_ORDER if language in scores},
        text=text,
        drawn=drawn,
        right_answer=meanings.pop() if len(meanings) == 1 else None,
        loop=run_decoder_loop(trainer.model, task, text),
        samples=list(zip(examples, answers, strict=True)),
        head=EXAMPLES["head"].run(),
    )


def _samples(task: DatesTask) -> list[Example]:
    """Two held-out dates of each language, in different styles."""
    chosen: list[Example] = []
    candidates = task.held_out(min(500, len(task.held_out_days) * len(task.forms)), seed=7)
    for language in LANGUAGE_ORDER:
        for style in ("long", "yMMMEd"):
            chosen += [e for e in candidates if (e.language, e.style) == (language, style)][:1]
    return chosen


def rounded(values: object, digits: int = 4) -> list[object]:
    """An array as nested lists of short numbers, for a page."""
    lists: list[object] = np.round(np.asarray(values, dtype=np.float64), digits).tolist()
    return lists
