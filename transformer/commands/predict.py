"""`tinygrad-attn predict`: a trained model answers one text."""

from __future__ import annotations

import sys
from argparse import Namespace

from tinygrad_attn.errors import CheckpointError, VocabularyError
from transformer.checkpoint import last_training, load_training, total_score
from transformer.commands.train import resuming
from transformer.lessons.dates import readable_text, say_flaw
from transformer.lessons.decoder_loop import run_decoder_loop
from transformer.lessons.terminal import has_colours, loop_table
from transformer.tasks import DatesTask, Task
from transformer.training import Trainer

# Share of held-out examples below which a reader is told that the model is a poor one.
TRUSTED = 0.9


def run(arguments: Namespace) -> int:
    """Prints the answer alone on standard output; what there is to remark goes to standard error."""
    trainer = _trained(arguments)
    text = _text(trainer.task, arguments.text)
    loop = run_decoder_loop(trainer.model, trainer.task, text)
    if arguments.steps:
        print(loop_table(loop, colours=has_colours(sys.stdout)) + "\n")
    print(loop.answer, flush=True)
    _remark(trainer.task, text, loop.answer)
    score = total_score(trainer.history.held_out)
    if score.total and score.accuracy < TRUSTED:
        print(
            f"note: this model got {score.right} of {score.total} held-out examples right; more training "
            f"(`{resuming(arguments.checkpoint or last_training())} --steps N`) gives a better one",
            file=sys.stderr,
        )
    return 0


def _trained(arguments: Namespace) -> Trainer:
    if arguments.checkpoint is None and not last_training().exists():
        raise CheckpointError(
            "no model has been trained yet\n  run `tinygrad-attn train`, or name one with --checkpoint"
        )
    return load_training(arguments.checkpoint or last_training())


def _text(task: Task, typed: str) -> str:
    if isinstance(task, DatesTask):
        return readable_text(task, typed)
    try:
        task.source_tokenizer.encode(typed)
    except VocabularyError as error:
        example = task.held_out(1)[0].source
        raise VocabularyError(f"{str(error).splitlines()[0]}\n  this model reads texts such as {example!r}") from error
    return typed


def _remark(task: Task, text: str, answer: str) -> None:
    """Say where the answer cannot be right, for a reader who trusts a model too easily."""
    if not isinstance(task, DatesTask):
        return
    readings = {reading.target for reading in task.readings(text)}
    if not readings:
        print(f"note: the answer is a guess: {say_flaw(task.flaw(text), task)}", file=sys.stderr)
    elif answer not in readings:
        print(f"note: the model is wrong here: the date is {readings.pop()}", file=sys.stderr)
