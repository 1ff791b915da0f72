"""Convolution, windows and pooling against PyTorch: values, gradients and second derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import tinygrad_attn as ta
from tests.conftest import require
from tests.parity.peer import Function, assert_equals_torch
from tinygrad_attn import Tensor

torch = require("torch")
functional = torch.nn.functional

CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}
MAX_POOL = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
AVG_POOL = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


def conv(x: Any, weight: Any, bias: Any, **how: Any) -> Any:
    return (
        CONV[weight.ndim - 2](x, weight, bias, **how) if x.numel() else None
    )  # PyTorch has no second derivative there


def conv_transpose(x: Any, weight: Any, bias: Any, **how: Any) -> Any:
    return TRANSPOSED[weight.ndim - 2](x, weight, bias, **how) if x.numel() else None


def unfolded(x: Any, *, size: Any, stride: int, dilation: int) -> Any:
    for axis, k in zip(range(x.ndim - len(size), x.ndim), size, strict=True):
        x = x.unfold(axis, dilation * (k - 1) + 1, stride)[..., ::dilation]
    return x


THEIRS: dict[str, Function] = {"conv": conv, "conv_transpose": conv_transpose, "windows": unfolded}


@pytest.mark.parametrize("name", THEIRS)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_gradients_and_second_derivatives_are_pytorchs(name: str, seed: int) -> None:
    assert_equals_torch(name, THEIRS[name], seed)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "one axis": ((2, 3, 9), (4, 3, 3), {"stride": 2, "padding": 1}),
    "a number for each axis": ((2, 2, 7, 9), (4, 2, 2, 3), {"stride": (1, 2), "padding": (0, 2), "dilation": (2, 1)}),
    "three axes": ((1, 2, 4, 5, 6), (2, 2, 2, 3, 1), {"padding": 1, "stride": 2}),
    "no batch": ((2, 5, 5), (3, 2, 3, 3), {}),
    "a filter for every channel": ((2, 4, 6), (8, 1, 3), {"groups": 4, "padding": 1}),
    "the same length": ((2, 2, 5, 6), (2, 2, 4, 3), {"padding": "same", "dilation": (1, 2)}),
    "an empty batch": ((0, 2, 5), (3, 2, 2), {}),
    "what the stride leaves over": ((1, 1, 8), (1, 1, 3), {"stride": 3}),
}


def assert_agree(ours: Function, theirs: Function, *arrays: Any) -> None:
    """Value, gradients and a second derivative of every input."""
    mine = [Tensor(a, requires_grad=True) for a in arrays]
    others = [torch.tensor(a, requires_grad=True) for a in arrays]
    out, twin = ours(*mine), theirs(*others)
    assert out.shape == tuple(twin.shape)
    assert_allclose(out.numpy(), twin.detach().numpy(), rtol=1e-12, atol=1e-12)
    found = ta.gradients((out * out * out).sum(), mine, create_graph=True)
    expected = torch.autograd.grad((twin * twin * twin).sum(), others, create_graph=True)
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-10, atol=1e-10)
    second = ta.gradients(sum((one * one).sum() for one in found), mine)
    for one, other in zip(second, torch.autograd.grad(sum((g * g).sum() for g in expected), others), strict=True):
        assert_allclose(one.numpy(), other.numpy(), rtol=1e-8, atol=1e-8)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # PyTorch tells of a copy it makes
@pytest.mark.parametrize(("shape", "kernel", "how"), CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_a_convolution_is_pytorchs_whatever_its_options(shape: Any, kernel: Any, how: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=shape), rng.normal(size=kernel), rng.normal(size=kernel[0])
    assert_agree(lambda *a: ta.conv(*a, **how), lambda *a: CONV[len(kernel) - 2](*a, **how), *arrays)


TRANSPOSED_CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "one axis": ((2, 3, 4), (3, 2, 3), {}),
    "a stride": ((2, 4, 3, 4), (4, 2, 3, 2), {"stride": (2, 3), "output_padding": (1, 2), "padding": (1, 0)}),
    "groups": ((2, 4, 5), (4, 3, 3), {"groups": 2, "dilation": 2, "stride": 2}),
    "three axes": ((1, 2, 2, 3, 2), (2, 1, 2, 2, 2), {"stride": 2}),
}


@pytest.mark.parametrize(("shape", "kernel", "how"), TRANSPOSED_CONVOLUTIONS.values(), ids=TRANSPOSED_CONVOLUTIONS)
def test_a_transposed_convolution_is_pytorchs_whatever_its_options(shape: Any, kernel: Any, how: Any) -> None:
    rng = np.random.default_rng(0)
    out = kernel[1] * how.get("groups", 1)
    arrays = rng.normal(size=shape), rng.normal(size=kernel), rng.normal(size=out)
    assert_agree(lambda *a: ta.conv_transpose(*a, **how), lambda *a: TRANSPOSED[len(kernel) - 2](*a, **how), *arrays)


POOLS: dict[str, tuple[tuple[int, ...], Any, dict[str, Any]]] = {
    "two axes": ((2, 3, 6, 7), 2, {}),
    "one axis": ((2, 3, 9), (3,), {"stride": 2, "padding": 1}),
    "three axes": ((1, 2, 4, 4, 5), (2, 2, 1), {"stride": (1, 2, 2)}),
    "padding": ((2, 2, 5, 5), (3, 2), {"padding": 1, "stride": 2}),
}


@pytest.mark.parametrize(("shape", "size", "how"), POOLS.values(), ids=POOLS)
def test_pooling_is_pytorchs(shape: Any, size: Any, how: dict[str, Any]) -> None:
    axes = len(shape) - 2
    x = np.random.default_rng(0).permutation(np.arange(np.prod(shape)) * 0.1).reshape(shape)  # no ties
    assert_agree(lambda a: ta.max_pool(a, size, **how), lambda a: MAX_POOL[axes](a, size, **how), x)
    assert_agree(lambda a: ta.avg_pool(a, size, **how), lambda a: AVG_POOL[axes](a, size, **how), x)
    assert_agree(
        lambda a: ta.avg_pool(a, size, count_include_pad=False, **how),
        lambda a: AVG_POOL[axes](a, size, count_include_pad=False, **how),
        x,
    )


def test_max_pooling_with_holes_is_pytorchs() -> None:
    x = np.random.default_rng(0).normal(size=(2, 2, 6, 6))
    how = {"stride": 1, "dilation": (2, 1), "padding": (1, 1)}
    assert_agree(lambda a: ta.max_pool(a, (2, 3), **how), lambda a: functional.max_pool2d(a, (2, 3), **how), x)
