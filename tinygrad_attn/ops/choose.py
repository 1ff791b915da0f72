"""Letting a gradient through at some places and not at others."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.tensor import Tensor


def keep_where(condition: Any, g: Any) -> Any:
    """`g` where the condition holds and exactly 0 elsewhere, also where `g` is infinite or NaN.

    On plain arrays this is a product, because NumPy takes 30 times as long to choose element by element; but ∞ · 0 is
    NaN, so a gradient that is not finite throughout is chosen from.
    """
    condition = np.asarray(condition, dtype=bool)
    if isinstance(g, Tensor) or not np.isfinite(g).all():
        return np.where(condition, g, 0.0)
    kept = g * condition
    kept += 0.0  # no −0
    return kept
