"""Normalisation over the last axis: layer_norm, rms_norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser
from tinygrad_attn.explain import broadcast_clash
from tinygrad_attn.operation import op


def layer_norm_definition(x: Any, gain: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """Centre, divide by the standard deviation, scale and shift: what `layer_norm` must equal."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + bias


def _normalised(choose: Chooser) -> tuple[Any, ...]:
    width = choose.integer(1, 4)
    return choose.reals((*choose.shape(0, 2), width)), choose.reals((width,)), choose.reals((width,))


@op(
    reference=layer_norm_definition,
    domain=_normalised,
    options={"eps": lambda choose, inputs: 1e-2},
    clash=broadcast_clash,
)
def layer_norm(x: Any, gain: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """Each vector along the last axis with mean 0 and variance 1, then scaled and shifted.

    y = x̂ ∘ gain + bias,  x̂ = (x − mean) / √(variance + eps)

    Args:
        x: (..., d).
        gain, bias: (d,).
        eps: added to the variance, inside the root.
    Source:
        Ba, Kiros and Hinton (2016), arXiv:1607.06450, equation 4; the variance divides by d.
    """
    mean_of = np.full((x.shape[-1], 1), 1.0 / x.shape[-1], x.dtype)  # a product with it is a mean over the last axis
    centred = x - x @ mean_of
    inverse_std = 1.0 / np.sqrt((centred * centred) @ mean_of + eps)  # (..., 1)
    normed = np.multiply(centred, inverse_std, out=centred)
    out = normed * gain
    out = np.add(out, bias, out=out) if out.dtype == np.result_type(out, bias) else out + bias
    return out, (normed, inverse_std)


@layer_norm.gradients(
    "x", "gain", "bias", formula="dx = σ⁻¹ (dx̂ − mean dx̂ − x̂ mean dx̂∘x̂); dgain = Σ dy∘x̂; dbias = Σ dy"
)
def _(g: Any, saved: Any, x: Any, gain: Any, bias: Any, *, eps: float) -> Any:
    normed, inverse_std = saved
    width = x.shape[-1]
    mean_of = np.full((width, 1), 1.0 / width, g.dtype)
    ones = np.ones(g.size // width, g.dtype)
    weighted = g * normed  # (..., d)
    dgain = ones @ weighted.reshape(-1, width)
    dbias = ones @ g.reshape(-1, width)
    d_normed = g * gain
    in_place = weighted.dtype == np.result_type(weighted, gain)
    mean_weighted = np.multiply(weighted, gain, out=weighted if in_place else None) @ mean_of  # (..., 1)
    dx = d_normed - d_normed @ mean_of
    dx -= normed * mean_weighted
    dx *= inverse_std
    return dx, dgain, dbias


def rms_norm_definition(x: Any, gain: Any, *, eps: float = 1e-5) -> Any:
    """Divide by the root of the mean square and scale: what `rms_norm` must equal."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * gain


def _scaled(choose: Chooser) -> tuple[Any, ...]:
    width = choose.integer(1, 4)
    return choose.reals((*choose.shape(0, 2), width)), choose.reals((width,))


@op(
    reference=rms_norm_definition,
    domain=_scaled,
    options={"eps": lambda choose, inputs: 1e-2},
    clash=broadcast_clash,
)
def rms_norm(x: Any, gain: Any, *, eps: float = 1e-5) -> Any:
    """Each vector along the last axis with mean square 1, then scaled; unlike `layer_norm` it is not centred.

    y = x̂ ∘ gain,  x̂ = x / √(mean x² + eps)

    Args:
        x: (..., d).
        gain: (d,).
        eps: added to the mean square, inside the root; a vector of zeros stays one, with finite gradients.
    Source:
        Zhang and Sennrich (2019), arXiv:1910.07467, equation 4.
    """
    mean_of = np.full((x.shape[-1], 1), 1.0 / x.shape[-1], x.dtype)  # a product with it is a mean over the last axis
    inverse_rms = 1.0 / np.sqrt((x * x) @ mean_of + eps)  # (..., 1)
    normed = x * inverse_rms
    return normed * gain, (normed, inverse_rms)


@rms_norm.gradients("x", "gain", formula="dx = (dx̂ − x̂ mean dx̂∘x̂) / rms; dgain = Σ dy∘x̂")
def _(g: Any, saved: Any, x: Any, gain: Any, *, eps: float) -> Any:
    normed, inverse_rms = saved
    width = x.shape[-1]
    mean_of = np.full((width, 1), 1.0 / width, g.dtype)
    weighted = g * normed  # (..., d)
    dgain = np.ones(g.size // width, g.dtype) @ weighted.reshape(-1, width)
    mean_weighted = (weighted * gain) @ mean_of  # (..., 1)
    return (g * gain - normed * mean_weighted) * inverse_rms, dgain
