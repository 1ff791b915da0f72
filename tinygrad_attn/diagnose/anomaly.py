"""Stop where the first NaN or infinity is made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from tinygrad_attn.modes import ModeSwitch


@contextlib.contextmanager
def detect_anomaly() -> Iterator[None]:
    """Raise where the first NaN or infinity is made, forward or backward; a block or a decorator.

    The error names the operation, the values that it was given, and the line of your code that applied it. Inside,
    every operation notes that line and every result is looked at, which costs time; NumPy's own warnings are silent.

    Raises:
        NotFiniteError: an operation made a NaN or an infinity from finite inputs, or a gradient rule from a finite
            gradient.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor(1.0, requires_grad=True)
    >>> with detect_anomaly():
    ...     ta.sqrt((x - 1.0) ** 2).backward()
    Traceback (most recent call last):
    ...
    tinygrad_attn.errors.NotFiniteError: sqrt: the gradient of x is inf at (), made from a finite gradient of the result
        x                       0.0
        result                  0.0
        gradient of the result  1.0
      rule: dx = dy / 2y
      computed at ...
    """
    with ModeSwitch(detect_anomaly=True), np.errstate(all="ignore"):
        yield
