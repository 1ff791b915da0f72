"""Hold a function of arrays to NumPy, forwards, and to the slopes of itself, backwards in first and second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn import Tensor


def assert_like_numpy(f: Callable[..., Any], *arrays: Any, order: int = 2) -> None:
    """Claim that `f`, written with NumPy's functions, answers Tensors as it does arrays, with the right gradients.

    Floating arrays are tried as Tensors in float64 and float32; other arguments are passed on as they are.
    """
    for dtype in (np.float64, np.float32):
        given = [np.asarray(x, dtype) if is_floating(x) else x for x in arrays]
        tensors = [Tensor(x, requires_grad=True) if is_floating(x) else x for x in given]
        expected, found = f(*given), f(*tensors)
        for one, other in zip(outputs(expected), outputs(found), strict=True):
            assert isinstance(other, Tensor)
            assert (other.shape, other.dtype) == (np.shape(one), np.asarray(one).dtype)
            np.testing.assert_allclose(other.numpy(), one, rtol=1e-12 if dtype == np.float64 else 1e-5, atol=1e-6)
        sum(np.sum(one) for one in outputs(found)).backward()
        for tensor in tensors:
            if isinstance(tensor, Tensor) and tensor.grad is not None:
                assert (tensor.grad.dtype, tensor.grad.shape) == (dtype, tensor.shape)
    ta.gradcheck(f, *arrays, order=order)


def outputs(result: Any) -> list[Any]:
    """One result, or several, as a list."""
    return list(result) if isinstance(result, (list, tuple)) else [result]


def is_floating(value: Any) -> bool:
    """Whether `value` is an array that can have a gradient."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def values(*shape: int, seed: int = 0) -> Any:
    """Reproducible float64 values of `shape`, none of them round."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape)
