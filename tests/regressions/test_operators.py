"""Whose operator answers, hashes and comparisons: faults seen in other engines, by their ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tests.inputs import variable

LEFT: dict[str, Callable[[ta.Tensor], Any]] = {
    "ndarray *": lambda t: np.array([1.0, 2.0]) * t,
    "ndarray +": lambda t: np.array([1.0, 2.0]) + t,
    "ndarray -": lambda t: np.array([1.0, 2.0]) - t,
    "ndarray /": lambda t: np.array([1.0, 2.0]) / t,
    "ndarray **": lambda t: np.array([1.0, 2.0]) ** t,
    "np.eye @": lambda t: np.eye(2) @ t,
    "float64 *": lambda t: np.float64(2.0) * t,
    "float64 -": lambda t: np.float64(2.0) - t,
    "float32 **": lambda t: np.float32(2.0) ** t,
    "int64 /": lambda t: np.int64(2) / t,
    "bool_ *": lambda t: np.bool_(True) * t,
    "0-d ndarray *": lambda t: np.array(2.0) * t,
    "ufunc": lambda t: np.multiply([1.0, 2.0], t),
    "number -": lambda t: 1 - t,
    "number /": lambda t: 2 / t,
    "number **": lambda t: 2**t,
    "number +": lambda t: 1 + t,
    "number *": lambda t: True * t,
}


@pytest.mark.parametrize("apply", LEFT.values(), ids=LEFT)
def test_B18_what_stands_on_the_left_does_not_take_the_result_away(apply: Callable[[ta.Tensor], Any]) -> None:
    t = variable([3.0, 4.0])
    out = apply(t)
    assert isinstance(out, ta.Tensor)
    assert out.requires_grad
    assert_array_equal(out.numpy(), apply(t.numpy()))  # type: ignore[arg-type]
    out.sum().backward()
    assert t.grad is not None and t.grad.shape == (2,)


def test_B18_in_place_on_an_array_is_refused_rather_than_losing_the_graph() -> None:
    array, t = np.ones(2), variable([3.0, 4.0])
    with pytest.raises(ta.errors.InPlaceError, match="instead of a \\+= t"):
        array += t
    with pytest.raises(ta.errors.InPlaceError):
        np.add(t, 1.0, out=array)
    assert_array_equal(array, [1.0, 1.0])
    before = s = t * 1.0
    s += 1.0  # on a result it means s = s + 1
    assert s is not before and s.node is not None
    with pytest.raises(ta.errors.InPlaceError, match="no_grad"):
        t += 1.0  # on a leaf it would be forgotten


def test_B19_tensors_are_hashed_by_identity_and_compared_by_element() -> None:
    t, u, v = (variable([1.0, 2.0]) for _ in range(3))
    assert len({t, u, v}) == 3
    assert {t: "this one"}[t] == "this one"
    assert {u: 1}.get(t) is None
    assert_array_equal(t == u, [True, True])
    assert t in [t, u]
    with pytest.raises(ValueError, match="ambiguous"):  # as for arrays: == says more than one thing
        assert t in [u, t]
    assert any(t is x for x in [u, t])


def test_B19_equal_values_do_not_make_two_variables_one() -> None:
    t, u = variable([1.0, 2.0]), variable([1.0, 2.0])
    first, second = ta.gradients((t * 2.0 + u * 3.0).sum(), [t, u])
    assert_array_equal(first.numpy(), [2.0, 2.0])
    assert_array_equal(second.numpy(), [3.0, 3.0])


def test_B23_reflected_operators_and_comparisons() -> None:
    t = variable(2.0)
    assert (1 - t).item() == -1.0
    assert (2 / t).item() == 1.0
    assert (2**t).item() == 4.0
    assert bool(t > 0) and bool(t > 0.0) and bool(t <= 2) and bool(t >= 2) and not bool(t != 2) and not bool(t < 2)
    assert type(t > 0) in (np.bool_, np.ndarray)
