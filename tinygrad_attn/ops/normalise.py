"""Normalisation: layer_norm and rms_norm over the last axis, batch_norm over all but the channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser
from tinygrad_attn.errors import DtypeError
from tinygrad_attn.explain import broadcast_clash
from tinygrad_attn.operation import op
from tinygrad_attn.ops.reduce import centred
from tinygrad_attn.tensor import as_array


def layer_norm_definition(x: Any, gain: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """Centre, divide by the standard deviation, scale and shift: what `layer_norm` must equal."""
    from_mean = centred(x, -1)
    variance = np.mean(from_mean * from_mean, axis=-1, keepdims=True)
    return from_mean / np.sqrt(variance + eps) * gain + bias


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
    from_mean = x - x @ mean_of
    from_mean -= from_mean @ mean_of  # once more, as in `centred`: else equal elements would not give zeros
    inverse_std = _inverse_rms(from_mean, mean_of, eps)  # (..., 1)
    normed = np.multiply(from_mean, inverse_std, out=from_mean)
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
    inverse_rms = _inverse_rms(x, mean_of, eps)  # (..., 1)
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


def _inverse_rms(x: Any, mean_of: Any, eps: float) -> Any:
    """1 / √(mean x² + eps) over the last axis: (..., d) -> (..., 1)."""
    with np.errstate(over="ignore", invalid="ignore"):  # BLAS fills its blocks up with zeros, and 0 · ∞ raises a flag
        mean_square = (x * x) @ mean_of
    if np.isinf(mean_square).any():  # squares overflowed: divide by the largest element before, multiply afterwards
        largest = np.maximum(np.max(np.absolute(x), axis=-1, keepdims=True), 1.0)
        x = x / largest
        return 1.0 / np.sqrt((x * x) @ mean_of + eps / largest / largest) / largest
    return 1.0 / np.sqrt(mean_square + eps)


def batch_norm(
    x: Any, gain: Any = None, bias: Any = None, mean: Any = None, variance: Any = None, *, eps: float = 1e-5
) -> Any:
    """Each channel with mean 0 and variance 1 over batch and spatial axes, then scaled and shifted.

    y = (x − mean) / √(variance + eps) ∘ gain + bias, for every channel

    Args:
        x: (batch, channels, *spatial).
        gain, bias: (channels,), or None to leave them out.
        mean, variance: (channels,); those of x, through which gradients flow too, if left out.
        eps: added to the variance, inside the root.
    Source:
        Ioffe and Szegedy (2015), arXiv:1502.03167, algorithm 1; the variance divides by n. The paper's long chain of
        gradients is what its own line gives, step by step.

    >>> batch_norm(np.array([[1.0, 10.0], [3.0, 30.0]]), eps=0.0).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    x = as_array(x)
    if np.iscomplexobj(x):
        raise DtypeError("batch_norm takes real numbers, given complex ones\n  normalise real and imaginary part")
    axes = all_but_channels(x.ndim)
    from_mean = centred(x, axes) if mean is None else x - _by_channel(mean, x.ndim)
    variance = np.mean(np.square(from_mean), axis=axes) if variance is None else variance
    normed = from_mean / _by_channel(np.sqrt(variance + eps), x.ndim)
    scaled = normed if gain is None else normed * _by_channel(gain, x.ndim)
    return scaled if bias is None else scaled + _by_channel(bias, x.ndim)


def all_but_channels(ndim: int) -> tuple[int, ...]:
    """The axes of (batch, channels, *spatial) that a statistic of each channel goes over."""
    return (0, *range(2, ndim))


def _by_channel(numbers: Any, ndim: int) -> Any:
    """(channels,) in a shape that broadcasts to (batch, channels, *spatial)."""
    return np.reshape(numbers, (-1, *(1,) * (ndim - 2)))
