"""Gradients are looked at before anything is done with them: a NaN must not reach a parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import NotFiniteError
from tinygrad_attn.tensor import Tensor


def all_finite(values: NDArray[Any]) -> bool:
    """Whether no element of a flat array is NaN or infinite, in one pass for ordinary values.

    A sum of squares is NaN or infinite as soon as one element is; only if it is does a second pass tell an element
    apart from a sum that was too large for its dtype.
    """
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.dot(values, values)) or np.isfinite(values).all())


def not_finite(parameter: Tensor, label: str) -> NotFiniteError:
    """The error for a gradient that `all_finite` has turned down."""
    gradient = np.asarray(parameter.grad)
    places = np.argwhere(~np.isfinite(gradient))
    place = tuple(int(index) for index in places[0])
    return NotFiniteError(
        f"the gradient of {label} holds {gradient[place]} at {place}, {len(places)} of {gradient.size} not finite\n"
        "  no parameter and no gradient was changed; is the loss finite? a smaller learning rate may keep it so"
    )


def label_of(parameter: Tensor, position: int) -> str:
    """What an error calls a parameter: its name, or where it stood among those given."""
    return parameter.name or f"parameter {position}, shape {parameter.shape}"
