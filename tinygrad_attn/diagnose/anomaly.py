"""Stop where the first NaN or infinity is made."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from tinygrad_attn.modes import MODES, F, ModeSwitch


class _Watch(ModeSwitch):
    """The switch, and NumPy's own warnings off while it is on."""

    def __enter__(self) -> None:
        settings = np.seterr(all="ignore")
        super().__enter__()
        MODES.set(MODES.get()._replace(numpy_errors=settings))

    def __exit__(self, *_: object) -> None:
        settings = MODES.get().numpy_errors
        super().__exit__()
        np.seterr(**settings)


@overload
def detect_anomaly() -> ModeSwitch: ...
@overload
def detect_anomaly(function: F) -> F: ...
def detect_anomaly(function: Any = None) -> Any:
    """Raise where the first NaN or infinity is made, forward or backward; a block or a decorator.

    The error names the operation, the values that it was given, and the line of your code that applied it. Inside,
    every operation notes that line and every result is looked at, which costs time; NumPy's own warnings are silent.

    Raises:
        NotFiniteError: an operation made a NaN or an infinity from finite inputs, or a gradient rule or a hook from a
            finite gradient.

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
    switch = _Watch(detect_anomaly=True)
    return switch if function is None else switch(function)
