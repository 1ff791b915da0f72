"""First values of parameters: functions from a shape to an array.

A weight has the shape (fan_out, fan_in), as `nn.Linear` holds it; further axes, as in a convolution, multiply both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.rng import generator
from tinygrad_attn.tensor import get_default_dtype

Array = NDArray[Any]
Shape = tuple[int, ...]
Rng = np.random.Generator | None


def zeros(shape: Shape, *, dtype: DTypeLike | None = None) -> Array:
    """All zeros, for biases."""
    return np.zeros(shape, dtype or get_default_dtype())


def ones(shape: Shape, *, dtype: DTypeLike | None = None) -> Array:
    """All ones, for gains."""
    return np.ones(shape, dtype or get_default_dtype())


def uniform(
    shape: Shape, low: float = 0.0, high: float = 1.0, *, rng: Rng = None, dtype: DTypeLike | None = None
) -> Array:
    """Evenly spread over [low, high)."""
    if not -math.inf < low <= high < math.inf:
        raise OptionError(
            f"uniform: low and high must be finite, and low must not exceed high\n  given low={low}, high={high}"
        )
    return generator(rng).uniform(low, high, shape).astype(dtype or get_default_dtype())


def normal(
    shape: Shape, mean: float = 0.0, std: float = 1.0, *, rng: Rng = None, dtype: DTypeLike | None = None
) -> Array:
    """Normally distributed."""
    if not (math.isfinite(mean) and 0.0 <= std < math.inf):
        raise OptionError(f"normal: mean and std must be finite, and std not negative\n  given mean={mean}, std={std}")
    return generator(rng).normal(mean, std, shape).astype(dtype or get_default_dtype())


def xavier_uniform(shape: Shape, *, gain: float = 1.0, rng: Rng = None, dtype: DTypeLike | None = None) -> Array:
    """Evenly spread so that signals neither grow nor shrink, forward or backward, through a linear layer.

    U(−a, a),  a = gain · √(6 / (fan_in + fan_out))

    Source:
        Glorot and Bengio (2010), "Understanding the difficulty of training deep feedforward neural networks", eq. 16.
    """
    fan_in, fan_out = fans(shape)
    _check_factor("xavier_uniform", gain=gain)
    bound = gain * math.sqrt(6.0 / max(1, fan_in + fan_out))
    return uniform(shape, -bound, bound, rng=rng, dtype=dtype)


def xavier_normal(shape: Shape, *, gain: float = 1.0, rng: Rng = None, dtype: DTypeLike | None = None) -> Array:
    """As `xavier_uniform`, normally distributed.

    N(0, σ²),  σ = gain · √(2 / (fan_in + fan_out))

    Source:
        Glorot and Bengio (2010), eq. 12.
    """
    fan_in, fan_out = fans(shape)
    _check_factor("xavier_normal", gain=gain)
    return normal(shape, 0.0, gain * math.sqrt(2.0 / max(1, fan_in + fan_out)), rng=rng, dtype=dtype)


def kaiming_uniform(shape: Shape, *, slope: float = 0.0, rng: Rng = None, dtype: DTypeLike | None = None) -> Array:
    """Evenly spread so that signals keep their size through a layer and the rectifier behind it.

    U(−a, a),  a = √(6 / ((1 + slope²) · fan_in))

    Args:
        shape: (fan_out, fan_in, ...).
        slope: the rectifier's slope below 0; √5 gives 1/√fan_in, PyTorch's default for linear layers.
        rng, dtype: as elsewhere.
    Source:
        He, Zhang, Ren and Sun (2015), arXiv:1502.01852, eq. 15; a uniform law of that variance has a = √3 σ.
    """
    fan_in, _ = fans(shape)
    _check_factor("kaiming_uniform", slope=abs(slope))
    bound = math.sqrt(6.0 / ((1.0 + slope * slope) * max(1, fan_in)))
    return uniform(shape, -bound, bound, rng=rng, dtype=dtype)


def fans(shape: Shape) -> tuple[int, int]:
    """How many inputs one output sees, and how many outputs one input reaches."""
    if len(shape) < 2:
        raise ShapeError(f"fan_in and fan_out need a weight (fan_out, fan_in, ...)\n  given shape {shape}")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _check_factor(initialiser: str, **factors: float) -> None:
    for name, factor in factors.items():
        if not 0.0 <= factor < math.inf:
            raise OptionError(f"{initialiser}: {name} must be finite and not negative\n  given {factor}")
