"""SGD, Adam, AdamW and RMSprop beside PyTorch's, over 50 steps with gradients of very different sizes.

PyTorch rounds once where it multiplies and adds in one instruction, NumPy twice; so the two differ by rounding, and by
no more: after 50 steps, elementwise, by less than 16 times the machine epsilon of the largest value that the element
has had. `test_optimiser_bits.py` takes that instruction away, and then no bit differs.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import require
from tinygrad_attn import nn, optim

torch = require("torch")

SHAPES = [(7, 5), (5,), (), (300, 70)]
PAIRS = {
    "SGD": (optim.SGD, torch.optim.SGD),
    "Adam": (optim.Adam, torch.optim.Adam),
    "AdamW": (optim.AdamW, torch.optim.AdamW),
    "RMSprop": (optim.RMSprop, torch.optim.RMSprop),
}
CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("Adam", {}),
    ("Adam", {"lr": 1e-2}),
    ("Adam", {"lr": 1e-2, "weight_decay": 0.1}),
    ("Adam", {"lr": 1e-2, "betas": (0.8, 0.95), "eps": 1e-6}),
    ("AdamW", {}),
    ("AdamW", {"lr": 1e-2, "weight_decay": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 1e-3, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 1e-3, "momentum": 0.9}),
]


def pair(shapes, dtype, rng):
    values = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    ours = [nn.Parameter(array) for array in values]
    theirs = [torch.nn.Parameter(torch.tensor(array)) for array in values]
    return ours, theirs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name, settings", CASES, ids=lambda value: str(value))
def test_fifty_steps_differ_by_rounding_only(name, settings, dtype):
    rng = np.random.default_rng(1)
    ours, theirs = pair(SHAPES, dtype, rng)
    make, make_theirs = PAIRS[name]
    optimizer, other = make(ours, **settings), make_theirs(theirs, **settings)
    largest = [np.abs(parameter.numpy()) for parameter in ours]
    for step in range(50):
        for i, (mine, its) in enumerate(zip(ours, theirs, strict=True)):
            if i == 1 and step % 3 == 1:  # a parameter that takes no part in every third step
                mine.grad = its.grad = None
                continue
            gradient = np.asarray(rng.normal(size=mine.shape) * 10.0 ** rng.integers(-4, 2), dtype)
            mine.grad, its.grad = gradient.copy(), torch.tensor(gradient)
        optimizer.step()
        other.step()
        expected = [parameter.detach().numpy() for parameter in theirs]
        largest = [np.maximum(seen, np.abs(values)) for seen, values in zip(largest, expected, strict=True)]
        for mine, values, seen in zip(ours, expected, largest, strict=True):
            assert (np.abs(mine.numpy() - values) <= 16 * np.finfo(dtype).eps * seen).all(), f"step {step + 1}"


def test_the_defaults_are_pytorchs():
    for make, make_theirs in PAIRS.values():
        (mine,), (its,) = pair([(2,)], np.float32, np.random.default_rng(0))
        settings, theirs = make([mine]).param_groups[0], make_theirs([its]).param_groups[0]
        assert all(settings[name] == theirs[name] for name in settings if name != "params")


def test_groups_with_settings_of_their_own_agree():
    rng = np.random.default_rng(2)
    ours, theirs = pair([(4, 3), (3,)], np.float64, rng)
    optimizer = optim.AdamW([{"params": ours[:1], "weight_decay": 0.3}, {"params": ours[1:], "lr": 0.5}], lr=0.1)
    other = torch.optim.AdamW([{"params": theirs[:1], "weight_decay": 0.3}, {"params": theirs[1:], "lr": 0.5}], lr=0.1)
    for _ in range(10):
        for mine, its in zip(ours, theirs, strict=True):
            mine.grad = rng.normal(size=mine.shape)
            its.grad = torch.tensor(mine.grad)
        optimizer.step()
        other.step()
    for mine, its in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), its.detach().numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("max_norm", [1e-3, 1.0, 1e9])
def test_clipping_agrees_up_to_the_millionth_that_pytorch_adds(max_norm):
    rng = np.random.default_rng(3)
    ours, theirs = pair(SHAPES, np.float64, rng)
    for mine, its in zip(ours[1:], theirs[1:], strict=True):
        mine.grad = np.asarray(rng.normal(size=mine.shape))
        its.grad = torch.tensor(mine.grad)
    norm, other = optim.clip_grad_norm(ours, max_norm), torch.nn.utils.clip_grad_norm_(theirs, max_norm)
    assert abs(norm - float(other)) < 1e-12 * norm
    for mine, its in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(mine.grad, its.grad.numpy(), rtol=1e-6)
