"""Convolutions, pooling and batch normalisation beside PyTorch's layers: values, gradients, running statistics."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import require
from tests.parity.test_layers import assert_layers_agree
from tinygrad_attn import Tensor, nn

torch = require("torch")

LENGTHS = {1: (8,), 2: (7, 6), 3: (4, 5, 3)}


def image(axes, channels=4):
    return np.random.default_rng(0).normal(1.0, 2.0, size=(3, channels, *LENGTHS[axes]))


@pytest.mark.parametrize("axes", LENGTHS)
@pytest.mark.parametrize("how", [{}, {"stride": 2, "padding": 1, "bias": False}, {"dilation": 2, "groups": 2}], ids=str)
def test_a_convolution_agrees(axes, how):
    size = 2 if axes == 3 else 3
    theirs = getattr(torch.nn, f"Conv{axes}d")(4, 6, size, dtype=torch.float64, **how)
    ours = getattr(nn, f"Conv{axes}d")(4, 6, size, dtype=np.float64, **how)
    assert_layers_agree(ours, theirs, image(axes), 1e-12)


@pytest.mark.parametrize("axes", LENGTHS)
@pytest.mark.parametrize("how", [{}, {"stride": 2, "output_padding": 1, "padding": 1}, {"groups": 2}], ids=str)
def test_a_transposed_convolution_agrees(axes, how):
    theirs = getattr(torch.nn, f"ConvTranspose{axes}d")(4, 6, 3, dtype=torch.float64, **how)
    ours = getattr(nn, f"ConvTranspose{axes}d")(4, 6, 3, dtype=np.float64, **how)
    assert_layers_agree(ours, theirs, image(axes), 1e-12)


@pytest.mark.parametrize("axes", LENGTHS)
@pytest.mark.parametrize("kind", ["MaxPool", "AvgPool"])
@pytest.mark.parametrize("how", [(2,), (3, 1, 1)])
def test_pooling_agrees(axes, kind, how):
    name = f"{kind}{axes}d"
    assert_layers_agree(getattr(nn, name)(*how), getattr(torch.nn, name)(*how), image(axes), 1e-12)


@pytest.mark.parametrize("axes", LENGTHS)
@pytest.mark.parametrize("how", [{}, {"momentum": None, "eps": 1e-2}, {"momentum": 0.5, "affine": False}], ids=str)
def test_batch_normalisation_agrees_in_training_and_after_it(axes, how):
    theirs = getattr(torch.nn, f"BatchNorm{axes}d")(4, dtype=torch.float64, **how)
    ours = getattr(nn, f"BatchNorm{axes}d")(4, dtype=np.float64, **how)
    if theirs.affine:
        with torch.no_grad():
            theirs.weight.copy_(torch.tensor([1.0, -2.0, 0.5, 3.0]))
            theirs.bias.copy_(torch.tensor([0.0, 1.0, -1.0, 2.0]))
    for _ in range(3):
        assert_layers_agree(ours, theirs, image(axes), 1e-10)
        for name, values in theirs.state_dict().items():
            np.testing.assert_allclose(ours.state_dict()[name], values.numpy(), rtol=1e-12, atol=1e-12)
    assert_layers_agree(ours.eval(), theirs.eval(), image(axes), 1e-10)


def test_batch_normalisation_of_one_axis_takes_vectors_too():
    x = np.random.default_rng(0).normal(size=(5, 4))
    assert_layers_agree(nn.BatchNorm1d(4, dtype=np.float64), torch.nn.BatchNorm1d(4, dtype=torch.float64), x, 1e-10)


def test_a_network_for_images_learns_step_by_step_what_pytorchs_learns():
    """Convolution, normalisation, pooling and a linear layer: ten steps of descent, the same losses to the end."""
    ours = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, dtype=np.float64),
        nn.BatchNorm2d(3, dtype=np.float64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 2, dtype=np.float64),
    )
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3, padding=1),
        torch.nn.BatchNorm2d(3),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(12, 2),
    ).double()
    theirs.load_state_dict({name: torch.tensor(values) for name, values in ours.state_dict().items()})
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=(6, 1, 4, 4)), rng.normal(size=(6, 2))
    losses = []
    for _ in range(10):
        loss, twin = ((ours(Tensor(x)) - target) ** 2).mean(), ((theirs(torch.tensor(x)) - torch.tensor(target)) ** 2)
        twin = twin.mean()
        ours.zero_grad()
        theirs.zero_grad()
        loss.backward()
        twin.backward()
        for p in ours.parameters():
            p.data -= 0.1 * p.grad
        with torch.no_grad():
            for p in theirs.parameters():
                p -= 0.1 * p.grad
        np.testing.assert_allclose(loss.item(), twin.item(), rtol=1e-9)
        losses.append(loss.item())
    assert losses[-1] < losses[0]
