"""Tensor: leaves and constants, and what may change their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tests.inputs import variable

# --- leaves and constants --------------------------------------------------------------------------------------------


def test_requires_grad_can_be_switched_on_leaves_only() -> None:
    x = ta.Tensor([1.0, 2.0])
    assert x.requires_grad_() is x and x.requires_grad
    assert not x.requires_grad_(False).requires_grad
    y = x.requires_grad_() * 2.0
    with pytest.raises(ta.errors.GradientError, match="use detach"):
        y.requires_grad_(False)


def test_detach_cuts_off_and_shares_memory() -> None:
    x = variable([1.0, 2.0], name="x")
    y = x * 2.0
    for tensor in (x, y):
        cut = tensor.detach()
        assert not cut.requires_grad and cut.is_leaf and cut.name == tensor.name
        assert np.shares_memory(cut.numpy(), tensor.numpy())
    (y.detach() * x).sum().backward()
    assert_array_equal(x.grad, [2.0, 4.0])


def test_clone_is_recorded_in_memory_of_its_own() -> None:
    x = variable([1.0, 2.0])
    y = x.clone()
    assert y.node is not None and not np.shares_memory(y.numpy(), x.numpy())
    (y * y).sum().backward()
    assert_array_equal(x.grad, [2.0, 4.0])


def test_to_another_precision_and_back() -> None:
    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    y = x.to(np.float64)
    assert y.dtype == np.float64 and x.astype(np.float64).dtype == np.float64
    (y * y).sum().backward()
    assert x.grad is not None and x.grad.dtype == np.float32


def test_data_can_be_given_new_values_of_the_same_shape_and_kind() -> None:
    x = variable([1.0, 2.0])
    x.data = [3, 4]
    assert_array_equal(x.numpy(), [3.0, 4.0])
    x.data += 1.0
    assert_array_equal(x.numpy(), [4.0, 5.0])
    with pytest.raises(ta.errors.ShapeError, match=r"expected \(2,\), given \(\)"):
        x.data = 1.0
    whole = ta.Tensor([1, 2])
    with pytest.raises(ta.errors.DtypeError, match="expected int64, given float64"):
        whole.data = [0.5, 1.5]


def test_every_change_counts() -> None:
    x = ta.Tensor([1.0, 2.0])
    assert x.version == 0
    x.bump_version()
    assert x.version == 1
    x.data = [3.0, 4.0]
    assert x.version == 2
    handle = x.data
    assert x.version == 2
    handle[0] = 9.0
    assert x.version == 3 and x.version == 3


def test_move_to_keeps_values_and_writes_into_the_new_place() -> None:
    x, place = ta.Tensor([1.0, 2.0]), np.zeros(2, np.float32)
    x.move_to(place)
    assert_array_equal(place, [1.0, 2.0])
    place += 1.0
    assert_array_equal(x.numpy(), [2.0, 3.0])


# --- updates in place -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (lambda p: p.__isub__(np.array([0.5, 0.5])), [0.5, 1.5]),
        (lambda p: p.__iadd__(1.0), [2.0, 3.0]),
        (lambda p: p.__imul__(2.0), [2.0, 4.0]),
        (lambda p: p.__itruediv__(2.0), [0.5, 1.0]),
    ],
)
def test_a_leaf_is_updated_in_place_where_nothing_is_recorded(update: Any, expected: list[float]) -> None:
    p = ta.Tensor([1.0, 2.0], requires_grad=True)
    memory = p.data
    with ta.no_grad():
        assert update(p) is p
    np.testing.assert_array_equal(p.numpy(), expected)
    assert p.requires_grad and p.data is memory


def test_an_update_in_place_where_it_would_be_recorded_is_refused() -> None:
    p = ta.Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ta.errors.InPlaceError, match="no_grad"):
        p -= 1.0


def test_an_update_between_forward_and_backward_is_noticed() -> None:
    p = ta.Tensor([1.0, 2.0], requires_grad=True)
    loss = (p * p).sum()
    with ta.no_grad():
        p -= 0.5
    with pytest.raises(ta.errors.MutatedError):
        loss.backward()


def test_a_running_sum_of_losses_is_a_new_tensor_each_time() -> None:
    x = ta.Tensor(2.0, requires_grad=True)
    total: Any = 0.0
    for _ in range(3):
        total += x * x
    total.backward()
    assert x.grad == 12.0
