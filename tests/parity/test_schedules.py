"""Learning rates over time, beside PyTorch's schedulers, which count from 0 and keep a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.conftest import require
from tinygrad_attn import schedules

torch = require("torch")

STEPS, PEAK = 20, 0.5


def theirs(make: Callable[[Any], Any]) -> list[float]:
    """The rates of the first steps."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler, rates = make(optimizer), []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def linear(optimizer: Any, steps: int) -> Any:
    return torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0 / steps, end_factor=1.0, total_iters=steps - 1)


def cosine(optimizer: Any, steps: int) -> Any:
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=0.1 * PEAK)


PAIRS: dict[str, tuple[Callable[[int], float], Callable[[Any], Any]]] = {
    "constant": (
        schedules.constant,
        lambda o: torch.optim.lr_scheduler.ConstantLR(o, factor=1.0),
    ),
    "step": (
        lambda step: schedules.step_decay(step, every=3, factor=0.5),
        lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=3, gamma=0.5),
    ),
    "warmup": (
        lambda step: schedules.warmup(step, warmup_steps=4),
        lambda o: linear(o, 4),
    ),
    "warmup and cosine": (
        lambda step: schedules.warmup_cosine(step, warmup_steps=4, total_steps=STEPS, final=0.1),
        lambda o: torch.optim.lr_scheduler.SequentialLR(o, [linear(o, 4), cosine(o, STEPS - 4)], milestones=[3]),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PAIRS)
def test_the_rate_of_every_step_is_pytorchs(name: str) -> None:
    ours, make = PAIRS[name]
    np.testing.assert_allclose([PEAK * ours(step) for step in range(1, STEPS + 1)], theirs(make), rtol=1e-6)
