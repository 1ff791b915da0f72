"""Elementwise functions and activations against PyTorch: values, gradients and second derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tests.conftest import require
from tests.parity.peer import Function, assert_equals_torch

torch = require("torch")
functional = torch.nn.functional

THEIRS: dict[str, Function] = {
    "add": torch.add,
    "subtract": torch.subtract,
    "multiply": torch.multiply,
    "divide": torch.divide,
    "power": torch.pow,
    "negative": torch.negative,
    "square": torch.square,
    "reciprocal": torch.reciprocal,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "ldexp": lambda x, exponent: torch.ldexp(x, exponent.double()),  # a negative whole power of 2 is 0 there
    "sqrt": torch.sqrt,
    "cbrt": lambda x: x.sign() * x.abs() ** (1.0 / 3.0),
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "arcsin": torch.arcsin,
    "arccos": torch.arccos,
    "arctan": torch.arctan,
    "arctan2": torch.arctan2,
    "hypot": torch.hypot,
    "deg2rad": torch.deg2rad,
    "rad2deg": torch.rad2deg,
    "sinc": torch.sinc,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "arcsinh": torch.arcsinh,
    "arccosh": torch.arccosh,
    "arctanh": torch.arctanh,
    "absolute": torch.abs,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "relu": torch.relu,
    "relu6": functional.relu6,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "hardswish": functional.hardswish,
    "sigmoid": torch.sigmoid,
    "log_sigmoid": functional.logsigmoid,
    "silu": functional.silu,
    "softplus": functional.softplus,
    "softsign": functional.softsign,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}


@pytest.mark.parametrize("name", THEIRS)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_gradients_and_second_derivatives_are_pytorchs(name: str, seed: int) -> None:
    assert_equals_torch(name, THEIRS[name], seed)


SHARED_CHOICES: dict[str, tuple[Function, Function, float]] = {
    "leaky_relu at 0": (ta.leaky_relu, functional.leaky_relu, 0.0),
    "elu at 0": (lambda x: ta.elu(x, alpha=0.5), lambda x: functional.elu(x, alpha=0.5), 0.0),
    "relu6 at 6": (ta.relu6, functional.relu6, 6.0),
    "softsign at 0": (ta.softsign, functional.softsign, 0.0),
    "arctan2 at 0": (lambda x: np.arctan2(x, 0.0), lambda x: torch.arctan2(x, torch.zeros_like(x)), 0.0),
    "arcsin at 1": (np.arcsin, torch.arcsin, 1.0),
    "arccosh at 1": (np.arccosh, torch.arccosh, 1.0),
    "remainder at a whole step": (lambda x: np.remainder(3.0, x), lambda x: torch.remainder(torch.tensor(3.0), x), 1.5),
}


@pytest.mark.parametrize(("ours", "theirs", "at"), SHARED_CHOICES.values(), ids=SHARED_CHOICES)
def test_at_these_singular_points_pytorch_chooses_as_we_do(ours: Function, theirs: Function, at: float) -> None:
    x, twin = ta.Tensor(at, requires_grad=True), torch.tensor(at, requires_grad=True)
    with np.errstate(divide="ignore"):
        ours(x).backward()
    theirs(twin).backward()
    assert_array_equal(x.grad, twin.grad.numpy())


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(np.hypot, torch.hypot), (np.logaddexp, torch.logaddexp)],
    ids=["hypot of zeros", "logaddexp of minus infinities"],
)
def test_difference_a_slope_that_could_be_anything_is_0_and_not_nan(ours: Function, theirs: Function) -> None:
    at = -np.inf if theirs is torch.logaddexp else 0.0
    a, b = (ta.Tensor(at, requires_grad=True) for _ in range(2))
    twins = [torch.tensor(at, requires_grad=True) for _ in range(2)]
    ours(a, b).backward()
    theirs(*twins).backward()
    assert a.grad == b.grad == 0.0
    assert all(torch.isnan(x.grad) for x in twins)
