"""Optimisers that hypothesis draws, parameters for them, and their whole state to compare."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tinygrad_attn import nn, optim

ADAM = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}


def parameters(*shapes, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [nn.Parameter(rng.normal(size=shape).astype(dtype)) for shape in shapes]


def give_gradients(params, seed=0):
    rng = np.random.default_rng(seed)
    for parameter in params:
        parameter.grad = rng.normal(size=parameter.shape).astype(parameter.dtype)


def everything(optimizer):
    """Values, state and settings, to compare before and after."""
    found = {f"value {i}": p.numpy().copy() for g in optimizer.param_groups for i, p in enumerate(g["params"])}
    return {**found, **optimizer.state_dict()}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


rates = st.floats(1e-4, 1.0)
decays = st.sampled_from([0.0, 0.1])
momenta = st.floats(0.1, 0.99)


@st.composite
def optimisers(draw):
    """A class, its settings, and its definition for one parameter."""
    lr, weight_decay = draw(rates), draw(decays)
    if draw(st.booleans()):
        betas = (draw(st.floats(0.0, 0.99)), draw(st.floats(0.0, 0.999)))
        settings = {"lr": lr, "betas": betas, "eps": draw(st.floats(1e-8, 1e-2)), "weight_decay": weight_decay}
        decoupled = draw(st.booleans())

        def adam(p, g, state, step):
            m, v = state or (np.zeros_like(p), np.zeros_like(p))
            p, m, v = optim.adam_definition(p, g, m, v, step=step, decoupled=decoupled, **settings)
            return p, (m, v)

        return (optim.AdamW if decoupled else optim.Adam), settings, adam
    momentum = draw(st.one_of(st.just(0.0), momenta))
    if draw(st.integers(0, 2)) == 0:
        settings = {"lr": lr, "alpha": draw(st.floats(0.0, 0.99)), "eps": draw(st.floats(1e-8, 1e-2))}
        settings |= {"momentum": momentum, "weight_decay": weight_decay}

        def rmsprop(p, g, state, step):
            v, velocity = state or (np.zeros_like(p), np.zeros_like(p))
            p, v, velocity = optim.rmsprop_definition(p, g, v, velocity, **settings)
            return p, (v, velocity)

        return optim.RMSprop, settings, rmsprop
    nesterov = momentum > 0.0 and draw(st.booleans())
    dampening = 0.0 if nesterov else draw(st.sampled_from([0.0, 0.3]))
    settings = {"lr": lr, "momentum": momentum, "dampening": dampening, "nesterov": nesterov}
    settings["weight_decay"] = weight_decay

    def sgd(p, g, state, step):
        return optim.sgd_definition(p, g, np.zeros_like(p) if state is None else state, step=step, **settings)

    return optim.SGD, settings, sgd
