"""Turning pairs of numbers: how rotary positions enter queries and keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser
from tinygrad_attn.errors import ShapeError
from tinygrad_attn.operation import op


def _pairs_and_angles(choose: Chooser) -> tuple[Any, ...]:
    *batch, length, pairs = (*choose.shape(0, 1), choose.integer(1, 3), choose.integer(1, 2))
    angle = (length, pairs) if choose.integer(0, 1) else (pairs,)
    return choose.reals((*batch, length, 2 * pairs)), choose.reals(angle)


@op(symbol="↻", domain=_pairs_and_angles)
def rotate_pairs(x: Any, angle: Any) -> Any:
    """Neighbouring numbers, taken as points of a plane, turned around the origin.

    y₂ᵢ = x₂ᵢ cos θᵢ − x₂ᵢ₊₁ sin θᵢ,  y₂ᵢ₊₁ = x₂ᵢ sin θᵢ + x₂ᵢ₊₁ cos θᵢ

    Args:
        x: (..., length, d), d even.
        angle: θ, broadcastable to (..., length, d / 2), in radians.
    Returns:
        (..., length, d).
    Raises:
        ShapeError: d is odd, or the angles do not fit.
    Source:
        Su et al. (2021), arXiv:2104.09864, equation 34.
    """
    if x.ndim == 0 or x.shape[-1] % 2:
        raise ShapeError(f"rotate_pairs: the last axis of x holds pairs, so its length is even\n  given {x.shape}")
    first, second = x[..., 0::2], x[..., 1::2]  # (..., length, d / 2)
    cosine, sine = np.cos(angle), np.sin(angle)
    turned = np.stack([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
    return turned.reshape(*turned.shape[:-2], 2 * turned.shape[-2])


@rotate_pairs.gradient("x", formula="dx = dy turned back, by −θ")
def _(g: Any, out: Any, x: Any, angle: Any) -> Any:
    return rotate_pairs(g, -angle)


@rotate_pairs.gradient("angle", formula="dθᵢ = dy₂ᵢ₊₁ y₂ᵢ − dy₂ᵢ y₂ᵢ₊₁")
def _(g: Any, out: Any, x: Any, angle: Any) -> Any:
    return g[..., 1::2] * out[..., 0::2] - g[..., 0::2] * out[..., 1::2]
