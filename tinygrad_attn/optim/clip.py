"""Clipping: a gradient that is too long is shortened, its direction kept."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import DtypeError, OptionError
from tinygrad_attn.optim.finite import label_of, not_finite
from tinygrad_attn.settings import is_number
from tinygrad_attn.tensor import Tensor


def clip_grad_norm(params: Iterable[Tensor], max_norm: float) -> float:
    """Shorten all gradients together, in place, so that their common norm is at most `max_norm`.

    g ← g · min(1, max_norm / ‖g‖),  ‖g‖² = Σ over all parameters of Σ g²

    Divergence from PyTorch: nothing is added to ‖g‖, so a clipped gradient has the norm `max_norm` and not a millionth
    less; and a NaN or an infinity is an error instead of spreading to every parameter.

    Args:
        params: tensors; those whose gradient is None are passed over, one given twice counts once.
        max_norm: not negative; infinity only measures.
    Returns:
        ‖g‖ before clipping.
    Raises:
        NotFiniteError: a gradient holds a NaN or an infinity; the message names it, and no gradient was changed.
        OptionError: `max_norm` is negative, NaN or no number.
        DtypeError: something other than tensors.
    """
    if not is_number(max_norm) or not max_norm >= 0.0:
        raise OptionError(f"max_norm must not be negative\n  given {max_norm!r}; infinity measures without clipping")
    entries = [params] if isinstance(params, Tensor) or not isinstance(params, Iterable) else list(params)
    for entry in entries:
        if not isinstance(entry, Tensor):
            raise DtypeError(f"clip_grad_norm takes tensors\n  given {type(entry).__name__}; write model.parameters()")
    distinct = {id(parameter): parameter for parameter in entries}.values()
    gradients, norms = [], []
    for position, parameter in enumerate(distinct):
        if parameter.grad is None:
            continue
        norm = _norm(parameter.grad)
        if not math.isfinite(norm):
            raise not_finite(parameter, label_of(parameter, position))
        gradients.append(parameter.grad)
        norms.append(norm)
    total = math.hypot(*norms)
    if total > max_norm:
        for gradient in gradients:
            gradient *= float(max_norm) / total
    return total


def _norm(gradient: NDArray[Any]) -> float:
    """√Σ g², in one pass unless the squares leave the range of the dtype."""
    flat = gradient.reshape(-1)
    flat = flat.view(flat.real.dtype)  # a complex number counts as its two parts
    if flat.dtype.itemsize < 4:
        flat = flat.astype(np.float32)
    with np.errstate(all="ignore"):
        squares = float(np.dot(flat, flat))
        if 1e-30 < squares < math.inf:
            return math.sqrt(squares)
        largest = float(np.max(np.absolute(flat), initial=0.0))
        if largest == 0.0 or not math.isfinite(largest):
            return largest
        scaled = flat / largest
        return largest * math.sqrt(float(np.dot(scaled, scaled)))
