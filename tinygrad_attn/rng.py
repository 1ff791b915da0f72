"""Randomness: one NumPy generator that everything draws from unless it is given another."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.errors import DtypeError

_generator: np.random.Generator = np.random.default_rng()


def manual_seed(seed: int) -> None:
    """Start the shared generator anew, so that what follows is repeatable."""
    global _generator
    _generator = np.random.default_rng(seed)


def default_rng() -> np.random.Generator:
    """The shared generator."""
    return _generator


def generator(rng: np.random.Generator | None) -> np.random.Generator:
    """`rng`, or the shared generator if it is None.

    Raises:
        DtypeError: anything else, such as a seed.
    """
    if rng is None:
        return _generator
    if not isinstance(rng, np.random.Generator):
        raise DtypeError(f"rng must be a numpy.random.Generator\n  given {rng!r}; write np.random.default_rng(seed)")
    return rng


def get_state() -> dict[str, Any]:
    """The state of the shared generator, as plain data."""
    return dict(_generator.bit_generator.state)


def set_state(state: dict[str, Any]) -> None:
    """Continue from a state that `get_state` returned."""
    _generator.bit_generator.state = state
