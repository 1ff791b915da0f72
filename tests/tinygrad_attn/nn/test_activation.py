"""Activation modules are the operations of the same name; shapes are flattened in order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tinygrad_attn import Tensor, nn
from tinygrad_attn.errors import AxisRangeError, OptionError

SAME = [
    (nn.ReLU(), ta.relu),
    (nn.LeakyReLU(), ta.leaky_relu),
    (nn.LeakyReLU(0.5), lambda x: ta.leaky_relu(x, negative_slope=0.5)),
    (nn.GELU(), ta.gelu),
    (nn.GELU("tanh"), ta.gelu_tanh),
    (nn.SiLU(), ta.silu),
    (nn.Sigmoid(), ta.sigmoid),
    (nn.Tanh(), np.tanh),
    (nn.Softplus(), ta.softplus),
]


@pytest.mark.parametrize(("module", "function"), SAME, ids=[repr(module) for module, _ in SAME])
@given(x=st.lists(st.floats(-50.0, 50.0), max_size=5))
def test_the_module_is_the_operation(module: nn.Module, function: Any, x: list[float]) -> None:
    one, other = (Tensor(np.array(x), requires_grad=True) for _ in range(2))
    out, expected = module(one), function(other)
    np.testing.assert_array_equal(out.numpy(), expected.numpy())
    out.sum().backward()
    expected.sum().backward()
    np.testing.assert_array_equal(one.grad, other.grad)
    assert not module.state_dict()


def test_identity_hands_on_the_very_same_object() -> None:
    x = Tensor([1.0])
    assert nn.Identity()(x) is x


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple), st.data())
def test_flatten_keeps_the_order_and_joins_the_axes(shape: tuple[int, ...], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(shape) - 1))
    end = data.draw(st.integers(start, len(shape) - 1))
    x = np.arange(float(math.prod(shape))).reshape(shape)
    expected = (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])
    for bounds in ((start, end), (start - len(shape), end), (start, end - len(shape))):
        out = nn.Flatten(*bounds)(Tensor(x))
        assert out.shape == expected
        np.testing.assert_array_equal(out.numpy().ravel(), x.ravel())


def test_flatten_leaves_the_batch_alone_unless_told_otherwise() -> None:
    assert nn.Flatten()(Tensor(np.zeros((5, 2, 3)))).shape == (5, 6)
    assert nn.Flatten(0)(np.zeros((5, 2, 3))).shape == (30,)
    assert nn.Flatten(0)([[1.0, 2.0]]).shape == (2,)


@pytest.mark.parametrize("bounds", [(1, -1), (0, 1), (0, 2), (0, -2), (-2, 0)])
def test_flatten_says_which_axes_there_are(bounds: tuple[int, int]) -> None:
    with pytest.raises(AxisRangeError, match=r"given shape \(4,\)"):
        nn.Flatten(*bounds)(Tensor(np.zeros(4)))


@pytest.mark.parametrize(
    "make",
    [lambda: nn.GELU("exact"), lambda: nn.GELU(True), lambda: nn.LeakyReLU(math.nan), lambda: nn.LeakyReLU(math.inf)],
)
def test_impossible_settings_are_refused_at_once(make: Any) -> None:
    with pytest.raises(OptionError, match="given"):
        make()


def test_what_is_printed_says_what_was_set() -> None:
    assert repr(nn.Sequential(nn.GELU("tanh"), nn.LeakyReLU(0.2), nn.Flatten())) == "\n".join(
        [
            "Sequential(",
            "  (0): GELU(approximate='tanh')",
            "  (1): LeakyReLU(negative_slope=0.2)",
            "  (2): Flatten(start_axis=1, end_axis=-1)",
            ")",
        ]
    )
