"""Adam, and AdamW, which keeps weight decay out of the moments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tinygrad_attn.errors import OptionError
from tinygrad_attn.optim.optimizer import Array, Group, Optimizer, check_number
from tinygrad_attn.tensor import Tensor


def adam_definition(
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    *,
    step: int,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float = 0.0,
    decoupled: bool = False,
) -> tuple[Array, Array, Array]:
    """One step of `Adam` as it stands in the paper: what the update in place must equal.

    Args:
        p, g, m, v: values, gradient, first and second moment, all of one shape.
        step: number of the step, from 1.
        decoupled: whether weight decay acts on `p` alone, as in AdamW.
    Returns:
        The new values and moments.
    """
    beta1, beta2 = betas
    if decoupled:
        p = p - lr * weight_decay * p
    else:
        g = g + weight_decay * p
    m = beta1 * m + (1.0 - beta1) * g
    v = beta2 * v + (1.0 - beta2) * g * g
    m_hat = m / (1.0 - beta1**step)
    v_hat = v / (1.0 - beta2**step)
    return p - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


class Adam(Optimizer):
    """Steps of about the same size in every coordinate, whatever the scale of its gradient.

    m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²
    p ← p − lr · m̂ / (√v̂ + eps),  m̂ = m / (1 − β₁ᵗ),  v̂ = v / (1 − β₂ᵗ)

    Args:
        params: tensors, or groups of them (see `Optimizer`).
        lr: learning rate.
        betas: β₁ and β₂, how much of the moments is kept.
        eps: added to the root, so that a gradient of zero divides by something.
        weight_decay: λ; g ← g + λ p.
    Source:
        Kingma and Ba (2015), arXiv:1412.6980, algorithm 1.

    >>> import tinygrad_attn as ta
    >>> p = ta.nn.Parameter([1.0])
    >>> optimizer = Adam([p], lr=0.1)
    >>> (p * 0.5).sum().backward()
    >>> optimizer.step()
    >>> p.numpy().round(4).tolist()
    [0.8999999761581421]
    """

    decoupled = False

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def check_settings(self, group: Group) -> None:
        """Two betas in [0, 1), eps not 0 in any dtype: a gradient of 0 would make 0/0."""
        if not isinstance(group["betas"], (tuple, list)) or len(group["betas"]) != 2:
            raise OptionError(f"betas must be two numbers\n  given {group['betas']!r}")
        check_number("betas[0]", group["betas"][0], 0.0, 1.0)
        check_number("betas[1]", group["betas"][1], 0.0, 1.0)
        check_number("eps", group["eps"], 1e-45, math.inf)
        group["betas"] = (float(group["betas"][0]), float(group["betas"][1]))

    def state_names(self, group: Group) -> Sequence[str]:
        """m and v."""
        return ("first_moment", "second_moment")

    def update(self, group: Group, step: int, p: Array, g: Array, state: dict[str, Array], scratch: Array) -> None:
        """`adam_definition` in place, with its scalar factors drawn together."""
        m, v = state["first_moment"], state["second_moment"]
        lr, (beta1, beta2), weight_decay = group["lr"], group["betas"], group["weight_decay"]
        if weight_decay and self.decoupled:
            p *= 1.0 - lr * weight_decay
        elif weight_decay:
            g += np.multiply(p, weight_decay, out=scratch)

        np.subtract(g, m, out=scratch)  # m + (1 − β₁)(g − m)
        scratch *= 1.0 - beta1
        m += scratch

        np.multiply(g, 1.0 - beta2, out=scratch)  # β₂ v + (1 − β₂) g²
        scratch *= g
        v *= beta2
        v += scratch

        denominator = np.sqrt(v, out=scratch)  # √v̂ + eps
        denominator /= (1.0 - beta2**step) ** 0.5  # math.sqrt would now and then differ from PyTorch in the last bit
        denominator += group["eps"]
        move = np.multiply(m, lr / (1.0 - beta1**step), out=g)  # the gradient is not needed any more
        move /= denominator
        p -= move


class AdamW(Adam):
    """Adam with weight decay that acts on the values directly: p ← p − lr · λ · p, and then Adam's step.

    Args:
        params, lr, betas, eps: as for `Adam`.
        weight_decay: λ.
    Source:
        Loshchilov and Hutter (2019), arXiv:1711.05101, algorithm 2; λ is multiplied by lr, as in PyTorch.
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas=betas, eps=eps, weight_decay=weight_decay)
