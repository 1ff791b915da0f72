"""Inputs that many tests begin with."""

from __future__ import annotations

from typing import Any

import numpy as np

import tinygrad_attn as ta


def variable(values: Any, **settings: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True, **settings)


def drawn(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape)
