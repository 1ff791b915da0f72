"""RMSprop: gradient descent whose steps are divided by how large the gradient has been of late."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tinygrad_attn.optim.optimizer import Array, Group, Optimizer, check_number
from tinygrad_attn.tensor import Tensor


def rmsprop_definition(
    p: Array,
    g: Array,
    v: Array,
    velocity: Array,
    *,
    lr: float,
    alpha: float,
    eps: float,
    momentum: float,
    weight_decay: float,
) -> tuple[Array, Array, Array]:
    """One step of `RMSprop` as it stands in the books: what the update in place must equal.

    Returns:
        The new values, mean square and velocity.
    """
    g = g + weight_decay * p
    v = alpha * v + (1.0 - alpha) * g * g
    velocity = momentum * velocity + g / (np.sqrt(v) + eps)
    return p - lr * velocity, v, velocity


class RMSprop(Optimizer):
    """Steps of about the same size in every coordinate; Adam without a mean of the gradient and without its start.

    v ← α v + (1 − α) g²
    u ← momentum · u + g / (√v + eps)
    p ← p − lr · u

    Args:
        params: tensors, or groups of them (see `Optimizer`).
        lr: learning rate.
        alpha: α, how much of the mean square is kept.
        eps: added to the root, so that a gradient of zero divides by something.
        weight_decay: λ; g ← g + λ p.
        momentum: share of the velocity u that is kept.
    Source:
        Tieleman and Hinton (2012), "Lecture 6.5", Coursera: Neural networks for machine learning.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float = 1e-2,
        *,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
    ) -> None:
        settings: Group = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, settings)

    def check_settings(self, group: Group) -> None:
        """Alpha in [0, 1), momentum not negative, eps not 0 in any dtype: a gradient of 0 would make 0/0."""
        check_number("alpha", group["alpha"], 0.0, 1.0)
        check_number("momentum", group["momentum"], 0.0, math.inf)
        check_number("eps", group["eps"], 1e-45, math.inf)

    def state_names(self, group: Group) -> Sequence[str]:
        """v, and u where there is momentum."""
        return ("mean_square", "velocity") if group["momentum"] else ("mean_square",)

    def update(self, group: Group, step: int, p: Array, g: Array, state: dict[str, Array], scratch: Array) -> None:
        """`rmsprop_definition` in place."""
        v, lr = state["mean_square"], group["lr"]
        if group["weight_decay"]:
            g += np.multiply(p, group["weight_decay"], out=scratch)

        np.multiply(g, 1.0 - group["alpha"], out=scratch)  # α v + (1 − α) g²
        scratch *= g
        v *= group["alpha"]
        v += scratch

        denominator = np.sqrt(v, out=scratch)
        denominator += group["eps"]
        if group["momentum"]:
            velocity = state["velocity"]
            velocity *= group["momentum"]
            velocity += np.divide(g, denominator, out=g)
            p -= np.multiply(velocity, lr, out=scratch)
        else:
            g *= lr
            g /= denominator
            p -= g
