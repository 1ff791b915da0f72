"""Tasks to train on: real dates, and synthetic ones whose right answers are known in full."""

from transformer.tasks.base import Batch, Example, Score, Task, score
from transformer.tasks.copy import CopyConfig, CopyTask
from transformer.tasks.dates import DatesConfig, DatesTask
from transformer.tasks.phrases import PhrasesTask

__all__ = [
    "Batch",
    "CopyConfig",
    "CopyTask",
    "DatesConfig",
    "DatesTask",
    "Example",
    "PhrasesTask",
    "Score",
    "Task",
    "score",
]
