"""Stochastic gradient descent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tinygrad_attn.errors import OptionError
from tinygrad_attn.optim.optimizer import Array, Group, Optimizer, check_number
from tinygrad_attn.tensor import Tensor


def sgd_definition(
    p: Array,
    g: Array,
    velocity: Array,
    *,
    step: int,
    lr: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    weight_decay: float,
) -> tuple[Array, Array]:
    """One step of `SGD` as it stands in the books: what the update in place must equal.

    Returns:
        The new values and the new velocity.
    """
    g = g + weight_decay * p
    if momentum == 0.0:
        return p - lr * g, velocity
    velocity = g if step == 1 else momentum * velocity + (1.0 - dampening) * g
    return p - lr * (g + momentum * velocity if nesterov else velocity), velocity


class SGD(Optimizer):
    """Gradient descent, with momentum if asked for.

    g ← g + weight_decay · p
    u ← momentum · u + (1 − dampening) · g    (u = g at the first step)
    p ← p − lr · u                            (with nesterov, p − lr · (g + momentum · u))

    Args:
        params: tensors, or groups of them (see `Optimizer`).
        lr: learning rate.
        momentum: share of the velocity u that is kept.
        dampening: share of the gradient that does not enter the velocity.
        nesterov: look ahead along the velocity.
        weight_decay: pull towards zero, added to the gradient.
    Source:
        Sutskever et al. (2013), "On the importance of initialization and momentum in deep learning"; in PyTorch's form,
        where lr multiplies the whole velocity.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        *,
        momentum: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        settings: Group = {"lr": lr, "momentum": momentum, "dampening": dampening, "nesterov": nesterov}
        super().__init__(params, {**settings, "weight_decay": weight_decay})

    def check_settings(self, group: Group) -> None:
        """Momentum and dampening in range; nesterov only where it means something."""
        check_number("momentum", group["momentum"], 0.0, math.inf)
        check_number("dampening", group["dampening"], -math.inf, math.inf)
        if group["nesterov"] and (group["momentum"] == 0.0 or group["dampening"] != 0.0):
            raise OptionError(
                "nesterov needs a momentum above 0 and no dampening\n"
                f"  given momentum={group['momentum']}, dampening={group['dampening']}"
            )

    def state_names(self, group: Group) -> Sequence[str]:
        """The velocity, where there is momentum."""
        return ("velocity",) if group["momentum"] else ()

    def update(self, group: Group, step: int, p: Array, g: Array, state: dict[str, Array], scratch: Array) -> None:
        """`sgd_definition` in place."""
        if group["weight_decay"]:
            g += np.multiply(p, group["weight_decay"], out=scratch)
        if not group["momentum"]:
            p -= np.multiply(g, group["lr"], out=scratch)
            return
        velocity = state["velocity"]
        if step == 1:
            velocity[...] = g
        else:
            velocity *= group["momentum"]
            velocity += np.multiply(g, 1.0 - group["dampening"], out=scratch)
        if group["nesterov"]:
            g += np.multiply(velocity, group["momentum"], out=scratch)
            p -= np.multiply(g, group["lr"], out=scratch)
        else:
            p -= np.multiply(velocity, group["lr"], out=scratch)
