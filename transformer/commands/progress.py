"""Training as one watches it: a bar in a terminal, a line now and then elsewhere, and Ctrl-C between two steps."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from transformer.training import Progress

WIDTH = 80


class TrainingDisplay:
    """Shows a training while it runs; call it with the progress of every step.

    In a terminal a bar, if rich is installed; else a line at every look at new examples.

    Args:
        step, steps: where the training stands, and how far it goes.
    """

    def __init__(self, step: int, steps: int) -> None:
        self.steps = steps
        self._looked = ""
        self._bar: Any = _bar() if sys.stdout.isatty() and importlib.util.find_spec("rich") else None
        if self._bar is not None:
            self._task = self._bar.add_task("training", total=steps, completed=step, loss="", looked="")

    def __enter__(self) -> TrainingDisplay:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Takes note of one step."""
        if progress.validation is not None:
            self._looked = f"right {100 * progress.validation.accuracy:.0f} %"
        if self._bar is not None:
            self._bar.update(self._task, completed=progress.step, loss=f"{progress.loss:.4f}", looked=self._looked)
        elif progress.validation is not None:
            step = f"{progress.step:>{len(str(self.steps))}}/{self.steps}"
            print(f"step {step}   loss {progress.loss:.4f}   right on new examples {progress.validation}", flush=True)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    console = Console(width=min(WIDTH, Console().width), highlight=False, emoji=False)
    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=18),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("{task.fields[looked]}"),
        TimeRemainingColumn(compact=True),
        console=console,
    )


@contextlib.contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Let the first Ctrl-C only set a flag, so that a step is finished and all can be saved; a second one interrupts.

    Yields:
        An event that is set once Ctrl-C was pressed.
    """
    pressed = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            signal.default_int_handler(number, frame)
        pressed.set()

    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
