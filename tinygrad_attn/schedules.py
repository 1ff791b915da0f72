"""Learning rates over time: pure functions of the number of the step that is about to be taken, counted from 1.

Each returns a factor for the learning rate (`noam` the rate itself), so that a loop reads

    optimizer.set_lr(peak * schedules.warmup_cosine(step, warmup_steps=100, total_steps=1000))
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad_attn.errors import OptionError
from tinygrad_attn.settings import is_integer, is_number


def constant(step: int) -> float:
    """1 at every step."""
    _check(step)
    return 1.0


def warmup(step: int, *, warmup_steps: int) -> float:
    """A straight line from 1/warmup_steps at the first step to 1, then 1.

    >>> [warmup(step, warmup_steps=4) for step in (1, 2, 4, 9)]
    [0.25, 0.5, 1.0, 1.0]
    """
    _check(step, warmup_steps=warmup_steps)
    return float(min(1.0, step / warmup_steps)) if warmup_steps else 1.0


def warmup_cosine(step: int, *, warmup_steps: int, total_steps: int, final: float = 0.0) -> float:
    """A straight line up to 1, then half a wave down to `final` at the last step, and `final` afterwards.

    final + (1 − final) · ½ (1 + cos π t),  t = (step − warmup_steps) / (total_steps − warmup_steps)

    Source:
        Loshchilov and Hutter (2017), arXiv:1608.03983, eq. 5, without restarts.

    >>> [round(warmup_cosine(step, warmup_steps=2, total_steps=6), 3) for step in (1, 2, 4, 6, 7)]
    [0.5, 1.0, 0.5, 0.0, 0.0]
    """
    _check(step, warmup_steps=warmup_steps, total_steps=total_steps)
    _check_factor("final", final)
    if total_steps < warmup_steps:
        raise OptionError(
            f"total_steps counts the warm-up too and must not be below it\n"
            f"  given total_steps={total_steps}, warmup_steps={warmup_steps}"
        )
    if step <= warmup_steps:
        return float(step / warmup_steps)
    if step >= total_steps:
        return float(final)
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return float(final) + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * progress))


def noam(step: int, *, d_model: int, warmup_steps: int = 4000) -> float:
    """The learning rate of the first Transformer: up in a straight line, then down with the root of the step.

    lr = d_model^−½ · min(step^−½, step · warmup_steps^−3/2)

    Source:
        Vaswani et al. (2017), arXiv:1706.03762, eq. 3.

    >>> f"{noam(4000, d_model=512):.6f}"
    '0.000699'
    """
    _check(step, d_model=d_model, warmup_steps=warmup_steps)
    if d_model < 1 or warmup_steps < 1:
        raise OptionError(
            f"noam needs positive d_model and warmup_steps\n  given d_model={d_model}, warmup_steps={warmup_steps}"
        )
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def step_decay(step: int, *, every: int, factor: float = 0.1) -> float:
    """1 for the first `every` steps, then `factor`, then `factor`², and so on.

    >>> [step_decay(step, every=10, factor=0.5) for step in (1, 10, 11, 21)]
    [1.0, 1.0, 0.5, 0.25]
    """
    _check(step, every=every)
    _check_factor("factor", factor)
    if every < 1:
        raise OptionError(f"every must be a positive number of steps\n  given {every}")
    return float(factor ** ((step - 1) // every))


def _check(step: Any, **counts: Any) -> None:
    """Raise unless all are whole numbers, `step` counts from 1 and the counts are not negative."""
    for name, value in {"step": step, **counts}.items():
        if not is_integer(value):
            raise OptionError(f"{name} must be a whole number\n  given {value!r}")
    if step < 1:
        raise OptionError(f"steps are counted from 1\n  given {step}; pass the number of the step about to be taken")
    for name, count in counts.items():
        if count < 0:
            raise OptionError(f"{name} must not be negative\n  given {count}")


def _check_factor(name: str, factor: Any) -> None:
    if not is_number(factor) or not 0.0 <= factor < math.inf:
        raise OptionError(f"{name} is a factor of the learning rate and must lie in [0, inf)\n  given {factor!r}")
