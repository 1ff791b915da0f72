"""Activation functions; at a kink each makes one stated choice of slope."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_attn.domain import one_of, reals
from tinygrad_attn.operation import op
from tinygrad_attn.ops.choose import keep_where
from tinygrad_attn.ops.erf import erfc
from tinygrad_attn.tensor import as_array


@op(elementwise=True, domain=reals(avoid=(0.0,)))
def relu(x: Any) -> Any:
    """Rectified linear unit; the slope at 0 is taken as 0.

    y = max(x, 0)

    Source:
        Nair and Hinton (2010), "Rectified linear units improve restricted Boltzmann machines".
    """
    return np.maximum(x, 0)


@relu.gradient("x", formula="dx = dy where x > 0")
def _(g: Any, out: Any, x: Any) -> Any:
    return keep_where(np.greater(x, 0), g)


@op(elementwise=True, domain=reals(low=-1.0, high=8.0, avoid=(0.0, 6.0)))
def relu6(x: Any) -> Any:
    """Relu that stops at 6; the slopes at 0 and at 6 are taken as 0.

    y = min(max(x, 0), 6)

    Source:
        Krizhevsky (2010), "Convolutional deep belief networks on CIFAR-10".
    """
    return np.clip(x, 0, 6)


@relu6.gradient("x", formula="dx = dy where 0 < x < 6")
def _(g: Any, out: Any, x: Any) -> Any:
    return keep_where(np.logical_and(np.greater(x, 0), np.less(x, 6)), g)


@op(elementwise=True, domain=reals(avoid=(0.0,)), options={"negative_slope": one_of(0.01, 0.5)})
def leaky_relu(x: Any, *, negative_slope: float = 0.01) -> Any:
    """Relu that lets a little through below 0, so that no unit dies; the slope at 0 is taken as the one below.

    y = x if x > 0 else slope · x

    Source:
        Maas, Hannun and Ng (2013), "Rectifier nonlinearities improve neural network acoustic models".
    """
    return np.where(np.greater(x, 0), x, negative_slope * x)


@leaky_relu.gradient("x", formula="dx = dy where x > 0, else slope · dy")
def _(g: Any, out: Any, x: Any, *, negative_slope: float) -> Any:
    return np.where(np.greater(x, 0), g, negative_slope * g)


@op(elementwise=True, domain=reals(avoid=(0.0,)), options={"alpha": one_of(1.0, 0.5)})
def elu(x: Any, *, alpha: float = 1.0) -> Any:
    """Exponential linear unit, which runs out to −α; the slope at 0 is taken as the one below, α.

    y = x if x > 0 else α (eˣ − 1)

    Source:
        Clevert, Unterthiner and Hochreiter (2015), arXiv:1511.07289, equation 15.
    """
    return np.where(np.greater(x, 0), x, alpha * np.expm1(np.minimum(x, 0)))


@elu.gradient("x", formula="dx = dy where x > 0, else α eˣ dy")
def _(g: Any, out: Any, x: Any, *, alpha: float) -> Any:
    below = np.where(np.greater(x, 0), 0.0, x)  # an exponential of large x would overflow
    return np.where(np.greater(x, 0), g, g * (alpha * np.exp(below)))


@op(elementwise=True, domain=reals(low=-4.0, high=4.0, avoid=(-3.0, 3.0)))
def hardswish(x: Any) -> Any:
    """Silu with a piecewise linear sigmoid; the slope at −3 is taken as 0, at 3 as 1.

    y = x · min(max(x + 3, 0), 6) / 6

    Source:
        Howard et al. (2019), arXiv:1905.02244, §5.2.
    """
    return x * (np.clip(x + 3.0, 0, 6) / 6.0)


@hardswish.gradient("x", formula="dx = 0 for x ≤ −3, dy for x ≥ 3, (2x + 3)/6 ∘ dy between")
def _(g: Any, out: Any, x: Any) -> Any:
    between = keep_where(np.less(np.absolute(x), 3), g * (2.0 * x + 3.0) / 6.0)
    return between + keep_where(np.greater_equal(x, 3), g)


@op(symbol="σ", elementwise=True, domain=reals(low=-4.0, high=4.0))
def sigmoid(x: Any) -> Any:
    """Logistic function, without overflow at either end.

    y = 1 / (1 + e⁻ˣ)
    """
    small = np.exp(-np.absolute(x))  # in (0, 1], whatever the sign of x
    return np.where(np.greater_equal(x, 0), 1.0, small) / (1.0 + small)


@sigmoid.gradient("x", formula="dx = y(1 − y) ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * out * sigmoid(-x)  # 1 − σ(x) = σ(−x), which keeps its digits where σ(x) rounds to 1


@op(elementwise=True, domain=reals(low=-4.0, high=4.0))
def silu(x: Any) -> Any:
    """Sigmoid linear unit, also called swish.

    y = x σ(x)

    Source:
        Elfwing, Uchibe and Doya (2017), arXiv:1702.03118.
    """
    return x * sigmoid(x)


@silu.gradient("x", formula="dx = (σ + x σ(1 − σ)) ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    s = sigmoid(x)
    return g * (s + x * s * sigmoid(-x))


@op(elementwise=True, domain=reals(low=-4.0, high=4.0))
def softplus(x: Any) -> Any:
    """Smooth relu; equals x for large x instead of overflowing.

    y = ln(1 + eˣ)
    """
    return np.logaddexp(x, 0)


@softplus.gradient("x", formula="dx = σ(x) ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * sigmoid(x)


@op(symbol="ln σ", elementwise=True, domain=reals(low=-4.0, high=4.0))
def log_sigmoid(x: Any) -> Any:
    """Logarithm of the sigmoid; equals x for very negative x, where the sigmoid itself rounds to 0.

    y = ln σ(x) = −ln(1 + e⁻ˣ)
    """
    return -softplus(-x)


@log_sigmoid.gradient("x", formula="dx = σ(−x) ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g * sigmoid(-x)


@op(elementwise=True, domain=reals(avoid=(0.0,)))
def softsign(x: Any) -> Any:
    """Squashed into (−1, 1) like tanh, but approached more slowly; smooth at 0, where the slope is 1.

    y = x / (1 + |x|)

    Source:
        Bergstra, Desjardins, Lamblin and Bengio (2009), "Quadratic polynomials learn better image features".
    """
    return x / (1.0 + np.absolute(x))


@softsign.gradient("x", formula="dx = dy / (1 + |x|)²")
def _(g: Any, out: Any, x: Any) -> Any:
    return g / (1.0 + np.absolute(x)) / (1.0 + np.absolute(x))  # a square could overflow


# --- written with those above ------------------------------------------------------------------------------------

_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def selu(x: Any) -> Any:
    """Elu scaled so that mean 0 and variance 1 are kept from layer to layer.

    y = 1.0507… · elu(x, α = 1.6733…)

    Source:
        Klambauer, Unterthiner, Mayr and Hochreiter (2017), arXiv:1706.02515, equation 2.
    """
    return _SELU_SCALE * elu(x, alpha=_SELU_ALPHA)


def celu(x: Any, *, alpha: float = 1.0) -> Any:
    """Elu whose slope has no jump at 0, whatever α is.

    y = α elu(x / α)

    Source:
        Barron (2017), arXiv:1704.07483.
    """
    return alpha * elu(as_array(x) / alpha)


def hardtanh(x: Any, *, min: float = -1.0, max: float = 1.0) -> Any:
    """Tanh as three straight lines: `np.clip`, whose slope at the bounds is 1.

    y = min(max(x, −1), 1)
    """
    return np.clip(as_array(x), min, max)


def mish(x: Any) -> Any:
    """A relative of silu.

    y = x tanh(softplus x)

    Source:
        Misra (2019), arXiv:1908.08681.
    """
    x = as_array(x)
    return x * np.tanh(softplus(x))


def quick_gelu(x: Any) -> Any:
    """Gelu with a sigmoid in place of Φ.

    y = x σ(1.702 x)

    Source:
        Hendrycks and Gimpel (2016), arXiv:1606.08415, §2.
    """
    x = as_array(x)
    return x * sigmoid(1.702 * x)


def glu(x: Any, *, axis: int = -1) -> Any:
    """Gated linear unit: the second half says how much of the first passes.

    y = a σ(b), x = [a b] along `axis`

    Args:
        x: (..., 2n, ...).
        axis: the axis that is halved.
    Source:
        Dauphin, Fan, Auli and Grangier (2016), arXiv:1612.08083, §2.
    """
    passing, gate = np.split(as_array(x), 2, axis=axis)
    return passing * sigmoid(gate)


# --- gelu, in its two forms --------------------------------------------------------------------------------------

_SQRT_HALF = math.sqrt(0.5)
_NORMAL_PEAK = 1.0 / math.sqrt(2.0 * math.pi)
_SETTLED = 100.0  # beyond ±this both forms are 0 or x to the last digit; a square or cube of it overflows nowhere


def gelu_definition(x: Any) -> Any:
    """x times the probability that a standard normal variable lies below it: what `gelu` must equal."""
    return x * (0.5 * erfc(-_SQRT_HALF * x))


@op(reference=gelu_definition, elementwise=True, domain=reals(low=-4.0, high=4.0))
def gelu(x: Any) -> Any:
    """Gaussian error linear unit, exactly: BERT's. See `gelu_tanh` for the approximation in GPT-2.

    y = x Φ(x),  Φ(x) = ½ (1 + erf(x/√2))

    Source:
        Hendrycks and Gimpel (2016), arXiv:1606.08415, §2. Φ is computed as ½ erfc(−x/√2), which is the same and keeps
        its digits where Φ is small.
    """
    below = 0.5 * erfc(-_SQRT_HALF * x)
    return x * below, below


@gelu.gradients("x", formula="dx = (Φ(x) + x φ(x)) ∘ dy, φ(x) = e^(−x²/2) / √2π")
def _(g: Any, saved: Any, x: Any) -> Any:
    near = np.clip(x, -_SETTLED, _SETTLED)
    return (g * (saved + x * (_NORMAL_PEAK * np.exp(-0.5 * near * near))),)


_GELU_SCALE = math.sqrt(2.0 / math.pi)
_GELU_CUBIC = 0.044715


@op(symbol="gelu", elementwise=True, domain=reals(low=-4.0, high=4.0))
def gelu_tanh(x: Any) -> Any:
    """Gaussian error linear unit in its tanh form, which GPT-2 uses.

    y = x/2 · (1 + tanh u),  u = √(2/π) (x + 0.044715 x³)

    Source:
        Hendrycks and Gimpel (2016), arXiv:1606.08415, §2. ½ (1 + tanh u) is computed as σ(2u), which is the same and
        keeps its digits where it is small.
    """
    near = np.clip(x, -_SETTLED, _SETTLED)
    return x * sigmoid(2.0 * _GELU_SCALE * (near + _GELU_CUBIC * near * near * near))


@gelu_tanh.gradient("x", formula="dx = ½(1 + tanh u + x (1 − tanh² u) u′) ∘ dy")
def _(g: Any, out: Any, x: Any) -> Any:
    near = np.clip(x, -_SETTLED, _SETTLED)
    twice_u = 2.0 * _GELU_SCALE * (near + _GELU_CUBIC * near * near * near)
    slope = 2.0 * _GELU_SCALE * (1.0 + 3.0 * _GELU_CUBIC * near * near)
    s = sigmoid(twice_u)
    return g * (s + near * s * sigmoid(-twice_u) * slope)
