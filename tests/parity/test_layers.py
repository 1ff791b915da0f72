"""Layers beside PyTorch's with the same parameters: values, all gradients, and what a new layer holds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import require
from tinygrad_attn import Tensor, nn

torch = require("torch")


def assert_layers_agree(ours, theirs, x, rtol):
    """Same state, same input, same upstream gradient: same output and same gradients everywhere."""
    ours.load_state_dict({name: values.detach().numpy() for name, values in theirs.state_dict().items()})
    if x.dtype.kind == "f":
        mine, its = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    else:
        mine, its = x, torch.tensor(x)
    out, expected = ours(mine), theirs(its)
    assert out.dtype == expected.detach().numpy().dtype
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=rtol, atol=rtol)
    upstream = np.random.default_rng(1).normal(size=out.shape).astype(out.dtype)
    out.backward(upstream)
    expected.backward(torch.tensor(upstream))
    pairs = [(name, p.grad, dict(theirs.named_parameters())[name].grad) for name, p in ours.named_parameters()]
    if x.dtype.kind == "f":
        pairs.append(("x", mine.grad, its.grad))
    for name, gradient, other in pairs:
        np.testing.assert_allclose(gradient, other.numpy(), rtol=10 * rtol, atol=10 * rtol, err_msg=name)


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


def tolerance(dtype):
    return 16 * np.finfo(dtype).eps


def of(dtype):
    return {np.float32: torch.float32, np.float64: torch.float64}[dtype]


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5), (0, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_agrees(shape, bias, dtype):
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    theirs = torch.nn.Linear(5, 4, bias=bias, dtype=of(dtype))
    assert_layers_agree(nn.Linear(5, 4, bias, dtype=dtype), theirs, x, tolerance(dtype))


@pytest.mark.parametrize("eps", [1e-5, 1e-2])
@pytest.mark.parametrize("shape", [(6,), (2, 3, 6)])
def test_layer_norm_agrees(shape, eps, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(2.0, 3.0, size=shape).astype(dtype)
    theirs = torch.nn.LayerNorm(6, eps=eps, dtype=of(dtype))
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(rng.normal(size=6)))
        theirs.bias.copy_(torch.tensor(rng.normal(size=6)))
    assert_layers_agree(nn.LayerNorm(6, eps, dtype=dtype), theirs, x, 4 * tolerance(dtype))


@pytest.mark.parametrize("eps", [1e-5, 1e-2])
@pytest.mark.parametrize("shape", [(6,), (2, 3, 6), (0, 6)])
def test_rms_norm_agrees(shape, eps, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(2.0, 3.0, size=shape).astype(dtype)
    theirs = torch.nn.RMSNorm(6, eps=eps, dtype=of(dtype))
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(rng.normal(size=6)))
    assert_layers_agree(nn.RMSNorm(6, eps, dtype=dtype), theirs, x, 4 * tolerance(dtype))


def test_difference_the_eps_of_rms_norm_does_not_depend_on_the_dtype():
    """PyTorch's is the dtype's own, so that its vectors of zeros have slopes of 3,000 or 7e7; ours is LayerNorm's."""
    assert torch.nn.RMSNorm(6).eps is None and nn.RMSNorm(6).eps == torch.nn.LayerNorm(6).eps


ACTIVATIONS = {
    "ReLU": (),
    "LeakyReLU": (0.2,),
    "GELU": (),
    "SiLU": (),
    "Sigmoid": (),
    "Tanh": (),
    "Softplus": (),
    "Identity": (),
    "Flatten": (),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_have_pytorchs_names_and_values(name, dtype):
    x = np.random.default_rng(0).normal(0.0, 3.0, size=(2, 3, 5)).astype(dtype)
    ours, theirs = getattr(nn, name)(*ACTIVATIONS[name]), getattr(torch.nn, name)(*ACTIVATIONS[name])
    assert_layers_agree(ours, theirs, x, tolerance(dtype))


def test_the_tanh_form_of_gelu_agrees(dtype):
    x = np.random.default_rng(0).normal(0.0, 3.0, size=(2, 3, 5)).astype(dtype)
    assert_layers_agree(nn.GELU("tanh"), torch.nn.GELU("tanh"), x, tolerance(dtype))


@pytest.mark.parametrize("padding", [None, 0, 2])
@pytest.mark.parametrize("shape", [(4,), (2, 3), (0,), ()])
def test_embedding_agrees_with_repeated_and_padding_ids(shape, padding, dtype):
    ids = np.random.default_rng(0).integers(0, 3, shape)
    theirs = torch.nn.Embedding(5, 4, padding_idx=padding, dtype=of(dtype))
    assert_layers_agree(nn.Embedding(5, 4, padding, dtype=dtype), theirs, np.asarray(ids), tolerance(dtype))


def test_names_and_shapes_of_the_state_are_pytorchs():
    ours = nn.Sequential(
        nn.Embedding(7, 4), nn.Linear(4, 6), nn.LayerNorm(6), nn.Dropout(0.1), nn.Linear(6, 2, bias=False)
    )
    theirs = torch.nn.Sequential(
        torch.nn.Embedding(7, 4),
        torch.nn.Linear(4, 6),
        torch.nn.LayerNorm(6),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(6, 2, bias=False),
    )
    mine = [(name, values.shape) for name, values in ours.state_dict().items()]
    assert mine == [(name, tuple(values.shape)) for name, values in theirs.state_dict().items()]


def test_a_new_layer_is_drawn_from_the_same_law():
    """Spread and quantiles of 60,000 draws; uniform ones also stay within the same bounds."""
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    linear, other_linear = nn.Linear(300, 200, rng=generator), torch.nn.Linear(300, 200)
    embedding, other_embedding = nn.Embedding(300, 200, rng=generator), torch.nn.Embedding(300, 200)
    quantiles = [0.05, 0.25, 0.5, 0.75, 0.95]
    for ours, theirs in ((linear, other_linear), (embedding, other_embedding)):
        mine, its = ours.weight.numpy(), theirs.weight.detach().numpy()
        atol = 0.04 * its.std()
        np.testing.assert_allclose(np.quantile(mine, quantiles), np.quantile(its, quantiles), atol=atol)
        np.testing.assert_allclose(mine.std(), its.std(), rtol=0.02)
    for name, values in linear.state_dict().items():
        bound = np.abs(other_linear.state_dict()[name].numpy()).max()
        np.testing.assert_allclose(np.abs(values).max(), bound, rtol=0.05, err_msg=name)
