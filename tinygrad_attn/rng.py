"""Randomness: one NumPy generator that everything draws from unless it is given another."""

from __future__ import annotations

from typing import Any

import numpy as np

_generator: np.random.Generator = np.random.default_rng()


def manual_seed(seed: int) -> None:
    """Start the shared generator anew, so that what follows is repeatable."""
    global _generator
    _generator = np.random.default_rng(seed)


def default_rng() -> np.random.Generator:
    """The shared generator."""
    return _generator


def get_state() -> dict[str, Any]:
    """The state of the shared generator, as plain data."""
    return dict(_generator.bit_generator.state)


def set_state(state: dict[str, Any]) -> None:
    """Continue from a state that `get_state` returned."""
    _generator.bit_generator.state = state
