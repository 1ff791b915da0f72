"""`tinygrad-attn train`: a small Transformer learns a task, and is kept with all that is needed to go on."""

from __future__ import annotations

import dataclasses
import importlib.util
import shlex
from argparse import Namespace
from pathlib import Path

from tinygrad_attn.errors import CheckpointError, MissingExtraError, NotFiniteError, OptionError
from transformer.checkpoint import describe_task, last_training, load_training, make_task, save_training
from transformer.commands.progress import TrainingDisplay, interruptible
from transformer.lessons.terminal import score_table, sparkline
from transformer.tasks import Example, PhrasesTask, Score, Task
from transformer.threads import one_blas_thread
from transformer.training import Progress, Trainer, TrainingConfig, evaluate

RECIPES = {
    "dates": TrainingConfig(),
    "copy": TrainingConfig(),
    "phrases": TrainingConfig(steps=400, warmup=50),
}


def run(arguments: Namespace) -> int:
    """Trains, or goes on with a training, and measures what became of it."""
    path = arguments.checkpoint or last_training()
    prepare_place(path, replace=arguments.resume or arguments.overwrite)
    trainer = _resumed(path, arguments) if arguments.resume else new_trainer(arguments.task or "dates", arguments)
    introduce(trainer)
    train_and_keep(trainer, path)
    report(trainer)
    save_training(trainer, path)
    print(f"\nkept in {path}")
    return 0


def new_trainer(task: str, arguments: Namespace) -> Trainer:
    """A trainer for a task by name, with what the command line changes in its recipe."""
    changes = {name: getattr(arguments, name) for name in ("steps", "seed") if getattr(arguments, name) is not None}
    return Trainer(make_task({"kind": task}), dataclasses.replace(RECIPES[task], **changes))


def prepare_place(path: Path, *, replace: bool) -> None:
    """Find out before the training whether its result can be kept.

    Args:
        path: where it is going to be kept.
        replace: whether a file may stand there already.
    Raises:
        CheckpointError: the folder is missing, or a file stands there that must not be replaced.
        MissingExtraError: safetensors is not installed.
        OSError: the cache folder cannot be made.
    """
    if importlib.util.find_spec("safetensors") is None:
        raise MissingExtraError("a trained model is kept as safetensors: python -m pip install 'tinygrad-attn[io]'")
    if path == last_training():
        path.parent.mkdir(parents=True, exist_ok=True)
    if not path.absolute().parent.is_dir():
        raise CheckpointError(f"there is no folder {path.parent}: make it first, or name another with --checkpoint")
    if path.is_dir():
        raise CheckpointError(f"--checkpoint: {path} is a folder; add the name of a file")
    if path.exists() and not path.is_file():
        raise CheckpointError(f"--checkpoint: {path} is a device or a pipe; name a file")
    if path.exists() and not replace:
        raise CheckpointError(
            f"{path} exists and would be replaced: --resume goes on with it, --overwrite begins anew in its place, "
            "and --checkpoint FILE keeps this training elsewhere"
        )


def resuming(path: Path) -> str:
    """The command that goes on with the training kept there."""
    place = "" if path == last_training() else f" --checkpoint {shlex.quote(str(path))}"
    return f"tinygrad-attn train --resume{place}"


def _resumed(path: Path, arguments: Namespace) -> Trainer:
    trainer = load_training(path)
    kind = describe_task(trainer.task)["kind"]
    if arguments.task not in (None, kind):
        raise OptionError(f"--task {arguments.task}: {path} holds a training on {kind}")
    if arguments.seed not in (None, trainer.config.seed):
        raise OptionError(
            f"--seed {arguments.seed}: {path} was begun with seed {trainer.config.seed} and goes on with it"
        )
    steps = trainer.config.steps if arguments.steps is None else arguments.steps
    if steps <= trainer.step:
        print(
            f"nothing to train: step {trainer.step} is reached, and {steps} steps were asked for in all;\n"
            f"name more with --steps, such as --steps {2 * trainer.step}"
        )
        return trainer
    trainer.config = dataclasses.replace(trainer.config, steps=steps)
    print(f"going on after step {trainer.step}")
    return trainer


def introduce(trainer: Trainer) -> None:
    """Say what is trained on what."""
    model = trainer.model.config
    first = trainer.task.held_out(1, seed=trainer.config.seed)[0]
    print(f"task:  {first.source}  →  {first.target}")
    print(
        f"model: Transformer, {model.encoder_layers}+{model.decoder_layers} layers, d_model {model.d_model}, "
        f"{model.num_heads} heads, {trainer.model.num_parameters():,} parameters"
    )


def train_and_keep(trainer: Trainer, path: Path | None) -> None:
    """Runs the training with its display.

    Args:
        path: where it is kept at every look at new examples, and when it is interrupted; None keeps nothing meanwhile.
    Raises:
        KeyboardInterrupt: Ctrl-C; the message says what was kept.
        NotFiniteError: the message says what still stands.
    """
    kept = trainer.step if trainer.step and path is not None else None

    def on_step(progress: Progress) -> None:
        nonlocal kept
        display(progress)
        if path is not None and progress.validation is not None:
            save_training(trainer, path)
            kept = progress.step

    try:
        display = TrainingDisplay(trainer.step, trainer.config.steps)
        with interruptible() as pressed, one_blas_thread(), display:
            ending = trainer.run(on_step=on_step, should_stop=pressed.is_set)
    except NotFiniteError as error:
        stands = "" if kept is None else f"\n  {path} holds step {kept}"
        raise NotFiniteError(f"{error}{stands}") from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was kept" if kept is None else f"{path} holds step {kept}") from None
    if ending == "stopped" and path is not None:
        save_training(trainer, path)
        raise KeyboardInterrupt(f"step {trainer.step} is kept in {path}; `{resuming(path)}` goes on from there")
    if ending == "stopped":
        raise KeyboardInterrupt("nothing was kept")


def report(trainer: Trainer) -> dict[str, Score]:
    """Says how the training went and how many held-out examples are answered exactly right."""
    history, task = trainer.history, trainer.task
    if history.losses:
        curve = f"loss {history.losses[0]:.2f} {sparkline(history.losses)} {history.losses[-1]:.4f}"
        print(f"trained {trainer.step} steps in {history.seconds:.0f} s (CPU {history.cpu_seconds:.0f} s)   {curve}")
    examples = held_out(task)
    scores = evaluate(trainer.model, task, examples, by="language")
    history.held_out = {language: (score.right, score.total) for language, score in scores.items()}
    samples = {example.language: example.source for example in reversed(examples)}
    print("\nheld out, never seen in training:")
    print(score_table(scores, samples))
    return scores


def held_out(task: Task) -> list[Example]:
    """The examples that are asked at the end, the same ones after every training."""
    return task.held_out(len(task.reserved) if isinstance(task, PhrasesTask) else 500)
