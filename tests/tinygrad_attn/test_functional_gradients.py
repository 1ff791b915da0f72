"""Gradients of a graph that stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tests.inputs import variable


def test_gradients_by_intermediates_and_in_the_structure_of_the_inputs() -> None:
    x = variable(2.0)
    y = x * x
    z = y * 3.0
    found = ta.gradients(z, {"x": x, "deeper": [y, z]})
    assert found["x"].item() == 12.0
    assert [t.item() for t in found["deeper"]] == [3.0, 1.0]
    assert x.grad is None and y.grad is None


def test_gradients_with_an_upstream() -> None:
    x = variable([1.0, 2.0])
    u = variable([3.0, 4.0])
    assert_array_equal(ta.gradients(x * x, x, [3.0, 4.0]).numpy(), [6.0, 16.0])
    through = ta.gradients(x * x, x, u, create_graph=True)
    assert_array_equal(ta.gradients(through.sum(), u).numpy(), [2.0, 4.0])
    with pytest.raises(ta.errors.ShapeError, match=r"expected \(2,\), given \(3,\)"):
        ta.gradients(x * x, x, np.ones(3))
    with pytest.raises(ta.errors.GradientError, match="more than one element"):
        ta.gradients(x * x, x)


def test_an_input_without_influence_is_an_error_unless_zeros_are_asked_for() -> None:
    x, other = variable([1.0, 2.0]), variable([1.0], name="other")
    with pytest.raises(ta.errors.GradientError, match=r"does not depend on other \(1,\)"):
        ta.gradients(x.sum(), [x, other])
    found = ta.gradients(x.sum(), [x, other], unused="zeros")
    assert_array_equal(found[1].numpy(), [0.0])
    assert_array_equal(ta.gradients(ta.Tensor(1.0), x, unused="zeros").numpy(), [0.0, 0.0])
    with pytest.raises(ta.errors.OptionError, match="'raise' or 'zeros'"):
        ta.gradients(x.sum(), x, unused="ignore")


def test_gradients_needs_something_to_differentiate_by_and_from() -> None:
    x = variable(1.0)
    with pytest.raises(ta.errors.GradientError, match="requires_grad=True"):
        ta.gradients(x * x, ta.Tensor(1.0))
    with pytest.raises(ta.errors.GradientError, match="requires no gradient"):
        ta.gradients(ta.Tensor(1.0), x)
    with pytest.raises(ta.errors.GradientError, match="requires no gradient"):
        ta.gradients(ta.Tensor(1.0), x, 1.0)


def test_only_the_paths_that_lead_to_the_inputs_are_walked() -> None:
    ran = []

    @ta.op
    def watched(x: Any) -> Any:
        return x * 1.0

    @watched.gradient("x")
    def _(g: Any, out: Any, x: Any) -> Any:
        ran.append("rule")
        return g

    x, other = variable(1.0), variable(1.0)
    y = x * 2.0 + watched(other)
    assert ta.gradients(y, x).item() == 2.0
    assert ran == []
    y.backward()
    assert ran == ["rule"]
    del ta.OPERATIONS[f"{watched.__module__}.watched"]


def test_what_is_no_tensor_is_named() -> None:
    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    for output in (3.0, [x], np.ones(2)):
        with pytest.raises(ta.errors.ArgumentError, match="the output must be one Tensor\n  given"):
            ta.gradients(output, x)  # type: ignore[arg-type]
    with pytest.raises(ta.errors.GradientError, match=r"every input must be a Tensor .*\n  given array"):
        ta.gradients(x.sum(), [x, np.ones(2)])
