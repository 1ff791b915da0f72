"""At a kink, a tie or a pole the gradient is a choice: each docstring states one, and here each is a row."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.properties.strategies import BUILT_IN
from tinygrad_attn import Operation, Tensor
from tinygrad_attn.errors import NotDifferentiableError, SingularMatrixError

INF, NAN = math.inf, math.nan
SENT = 3.0  # a rule that loses the arriving gradient, or raises something to its power, may be right for 1


@dataclass(frozen=True)
class Point:
    """A singular point: the value there, and the gradient of each input for each 1 that is sent in.

    `kink` says that the checker must refuse the point, since left and right slopes differ or one of them is infinite.
    """

    operation: Operation
    inputs: tuple[Any, ...]
    value: Any
    gradients: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    kink: bool = True

    def __str__(self) -> str:
        shown = ", ".join(str(value) for value in self.inputs)
        options = "".join(f", {name}={value}" for name, value in self.options.items())
        return f"{self.operation.name}({shown}{options})"


def at(
    operation: Operation,
    *inputs: Any,
    value: Any,
    kink: bool = True,
    options: dict[str, Any] | None = None,
    **slopes: Any,
) -> Point:
    return Point(operation, inputs, value, slopes, options or {}, kink)


HALF = [0.5, 0.5]

POINTS = [
    # kinks of one variable
    at(ta.angle, [0.0], value=[0.0], z=[0.0]),
    at(ta.relu, [0.0, -0.0], value=[0.0, 0.0], x=[0.0, 0.0]),
    at(ta.relu6, [0.0, 6.0], value=[0.0, 6.0], x=[0.0, 0.0]),
    at(ta.leaky_relu, [0.0, -0.0], value=[0.0, 0.0], x=[0.1, 0.1], options={"negative_slope": 0.1}),
    at(ta.elu, [0.0], value=[0.0], x=[2.0], options={"alpha": 2.0}),
    at(ta.hardswish, [-3.0, 3.0], value=[0.0, 3.0], x=[0.0, 1.0]),
    at(ta.absolute, [0.0, -0.0], value=[0.0, 0.0], x=[0.0, 0.0]),
    at(ta.clip, [-1.0, 1.0], value=[-1.0, 1.0], x=[1.0, 1.0], options={"min": -1.0, "max": 1.0}),
    # ties
    at(ta.maximum, [1.0, 2.0], [1.0, 3.0], value=[1.0, 3.0], a=[0.5, 0.0], b=[0.5, 1.0]),
    at(ta.maximum, 0.0, -0.0, value=0.0, a=0.5, b=0.5),
    at(ta.minimum, [1.0, 2.0], [1.0, 3.0], value=[1.0, 2.0], a=[0.5, 1.0], b=[0.5, 0.0]),
    at(ta.max, [1.0, 3.0, 3.0], value=3.0, x=[0.0, *HALF]),
    at(ta.max, [[2.0, 2.0], [1.0, 0.0]], value=[2.0, 1.0], x=[HALF, [1.0, 0.0]], options={"axis": 1}),
    at(ta.max, [-INF, -INF], value=-INF, x=HALF, kink=False),
    at(ta.min, [1.0, 1.0, 3.0], value=1.0, x=[*HALF, 0.0]),
    at(ta.norm, [2.0, -2.0, 1.0], value=2.0, x=[0.5, -0.5, 0.0], options={"ord": INF}),
    # zeros
    at(ta.norm, [0.0, 0.0], value=0.0, x=[0.0, 0.0]),
    at(ta.norm, [0.0, 0.0], value=0.0, x=[0.0, 0.0], options={"ord": 1}),
    at(ta.hypot, 0.0, 0.0, value=0.0, a=0.0, b=0.0),
    at(ta.arctan2, 0.0, 0.0, value=0.0, y=0.0, x=0.0),
    at(ta.arctan2, 0.0, -1.0, value=math.pi, y=-1.0, x=0.0),
    at(ta.std, [2.0, 2.0, 2.0], value=0.0, x=[0.0, 0.0, 0.0]),
    at(ta.var, [2.0, 2.0, 2.0], value=0.0, x=[0.0, 0.0, 0.0], kink=False),
    at(ta.prod, [0.0, 2.0, 3.0], value=0.0, x=[6.0, 0.0, 0.0], kink=False),
    at(ta.prod, [2.0, 0.0, 3.0, 4.0], value=0.0, x=[0.0, 24.0, 0.0, 0.0], kink=False),
    at(ta.prod, [0.0, 0.0, 3.0], value=0.0, x=[0.0, 0.0, 0.0], kink=False),
    at(ta.cumprod, [2.0, 0.0, 3.0], value=[2.0, 0.0, 0.0], x=[1.0, 8.0, 0.0], kink=False),
    at(ta.power, [0.0, 0.0, 0.0, -2.0], np.array([0, 1, 2, 2]), value=[1, 0, 0, 4], a=[0, 1, 0, -4], kink=False),
    at(ta.power, 0.0, 2.0, value=0.0, b=0.0, a=0.0, kink=False),
    at(ta.kl_divergence, [[0.0, 0.0]], [[1.0, 0.0]], value=0.0, log_prediction=[[-1.0, 0.0]], target=[[1.0, 0.0]]),
    at(ta.det, [[1.0, 2.0], [2.0, 4.0]], value=0.0, a=[[4.0, -2.0], [-2.0, 1.0]], kink=False),
    at(ta.layer_norm, [[3.0, 3.0]], [1.0, 1.0], [0.0, 0.0], value=[[0.0, 0.0]], x=[[0.0, 0.0]], kink=False),
    at(ta.rms_norm, [0.0, 0.0], [1.0, 1.0], value=[0.0, 0.0], x=[100.0, 100.0], options={"eps": 1e-4}, kink=False),
    # where y jumps
    at(ta.remainder, 2.0, 1.0, value=0.0, a=1.0, b=-2.0),
    at(ta.fmod, 2.0, 1.0, value=0.0, a=1.0, b=-2.0),
    # infinite slopes are told as such
    at(ta.sqrt, 0.0, value=0.0, x=INF),
    at(ta.cbrt, 0.0, value=0.0, x=INF),
    at(ta.arcsin, 1.0, value=math.pi / 2, x=INF),
    at(ta.arccos, 1.0, value=0.0, x=-INF),
    at(ta.arccosh, 1.0, value=0.0, x=INF),
    at(ta.arctanh, 1.0, value=INF, x=INF),
    # infinite inputs, and branches that are not taken
    at(ta.softmax, [-INF, -INF], value=[0.0, 0.0], x=[0.0, 0.0], kink=False),
    at(ta.softmax, [-INF, 0.0, 0.0], value=[0.0, *HALF], x=[0.0, 0.0, 0.0], kink=False),
    at(
        ta.log_softmax,
        [[-INF, -INF], [0.0, -INF]],
        value=[[-INF, -INF], [0.0, -INF]],
        x=[[0.0, 0.0], [-1.0, 1.0]],
        kink=False,
    ),
    at(ta.logsumexp, [-INF, -INF], value=-INF, x=[0.0, 0.0], kink=False),
    at(ta.logsumexp, [-INF, 0.0], value=0.0, x=[0.0, 1.0], kink=False),
    at(ta.logaddexp, -INF, -INF, value=-INF, a=0.0, b=0.0, kink=False),
    at(ta.OPERATIONS["logaddexp2"], -INF, -INF, value=-INF, a=0.0, b=0.0, kink=False),
    at(
        ta.masked_fill,
        [NAN, 1.0],
        np.array([True, False]),
        value=[-INF, 1.0],
        x=[0.0, 1.0],
        options={"value": -INF},
        kink=False,
    ),
    at(
        ta.where,
        np.array([True, False]),
        [1.0, NAN],
        [INF, 2.0],
        value=[1.0, 2.0],
        x=[1.0, 0.0],
        y=[0.0, 1.0],
        kink=False,
    ),
    # extremes that must not overflow
    at(ta.softplus, [1000.0, -1000.0], value=[1000.0, 0.0], x=[1.0, 0.0], kink=False),
    at(ta.sigmoid, [1000.0, -1000.0], value=[1.0, 0.0], x=[0.0, 0.0], kink=False),
    at(ta.cross_entropy, [1e8, 1e8], np.array(0), value=math.log(2.0), logits=[-0.5, 0.5], kink=False),
    at(
        ta.cross_entropy,
        [[0.0, 1.0]],
        np.array([1]),
        value=0.0,
        logits=[[0.0, 0.0]],
        options={"ignore_index": 1},
        kink=False,
    ),
]

every_point = pytest.mark.parametrize("point", POINTS, ids=str)


def tensors(point: Point) -> dict[str, Any]:
    """The inputs by name; those that the row states a gradient of require one."""
    named = zip(point.operation.parameters, point.inputs, strict=False)
    return {
        name: Tensor(np.asarray(value, np.float64), requires_grad=True) if name in point.gradients else value
        for name, value in ((name, np.asarray(value) if isinstance(value, list) else value) for name, value in named)
    }


@every_point
def test_the_value_and_the_gradient_at_a_singular_point_are_the_stated_ones(point: Point) -> None:
    inputs = tensors(point)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = point.operation(*inputs.values(), **point.options)
        out.backward(np.full(out.shape, SENT))
    np.testing.assert_allclose(out.numpy(), point.value, rtol=1e-12, atol=1e-12)
    for name, expected in point.gradients.items():
        np.testing.assert_allclose(inputs[name].grad, SENT * np.asarray(expected), rtol=1e-9, atol=1e-9, err_msg=name)


@every_point
def test_a_recorded_backward_pass_makes_the_same_choice(point: Point) -> None:
    inputs = tensors(point)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = point.operation(*inputs.values(), **point.options)
        targets = [value for value in inputs.values() if isinstance(value, Tensor)]
        recorded = ta.gradients(out, targets, np.full(out.shape, SENT), create_graph=True)
    for gradient, expected in zip(recorded, point.gradients.values(), strict=True):
        np.testing.assert_allclose(gradient.numpy(), SENT * np.asarray(expected), rtol=1e-9, atol=1e-9)


@every_point
def test_the_checker_tells_a_choice_from_a_slope(point: Point) -> None:
    inputs = tensors(point)
    with np.errstate(divide="ignore", invalid="ignore"):
        if point.kink:
            with pytest.raises(NotDifferentiableError):
                ta.gradcheck(point.operation, *inputs.values(), **point.options)
        elif not any(np.isnan(value).any() for value in point.inputs):
            ta.gradcheck(point.operation, *inputs.values(), **point.options)


@pytest.mark.parametrize(
    "function",
    [ta.relu, ta.relu6, ta.hardswish, lambda x: ta.clip(x, min=0.0, max=1.0), lambda x: ta.maximum(x, 0.0)],
    ids=["relu", "relu6", "hardswish", "clip", "maximum"],
)
def test_what_lets_nothing_through_lets_no_infinite_slope_through_either(function: Any) -> None:
    weight, x = (Tensor(np.array(value), requires_grad=True) for value in (0.0, -4.0))
    slope = ta.gradients(np.sqrt(weight) * function(x), x, create_graph=True)  # √w · 0
    with np.errstate(divide="ignore", invalid="ignore"):
        assert ta.gradients(slope, weight).item() == 0.0


def test_what_one_branch_leaves_out_another_may_take() -> None:
    x = Tensor(np.array([1.0, 4.0]), requires_grad=True)
    root, first = np.sqrt(x), np.array([True, False])
    total = np.where(first, root, 0.0) + np.where(first, 0.0, root)
    total.backward(np.ones(2))
    np.testing.assert_allclose(x.grad, [0.5, 0.25])


STATED = re.compile(
    r"(is|are) taken as|equal ones|infinite|at a bound|are those of|−∞ and|−∞ throughout|nothing but −∞|with zeros"
    r"|not taken"
)


def test_every_choice_that_a_docstring_states_has_a_row() -> None:
    own = {name: f for name, f in BUILT_IN.items() if "." not in name}  # SciPy's have rows in tests/tinygrad_attn/scipy
    stating = {name for name, operation in own.items() if STATED.search(operation.__doc__ or "")}
    assert len(stating) >= 20
    assert stating <= {point.operation.name for point in POINTS}


def test_the_logarithm_of_the_determinant_of_a_singular_matrix_has_no_gradient() -> None:
    a = Tensor(np.ones((2, 2)), requires_grad=True)
    out = BUILT_IN["logabsdet"](a)
    assert out.item() == -INF
    with pytest.raises(SingularMatrixError):
        out.backward()


def test_a_query_that_may_see_nothing_gets_zeros_and_sends_zeros() -> None:
    query, key, value = (Tensor(np.full((2, 2), number), requires_grad=True) for number in (1.0, 2.0, 3.0))
    out = ta.scaled_dot_product_attention(query, key, value, mask=np.array([[True, True], [False, False]]))
    assert out.numpy()[1].tolist() == [0.0, 0.0]
    out.sum().backward()
    for tensor in (query, key, value):
        assert np.isfinite(tensor.grad).all()
    assert query.grad[1].tolist() == [0.0, 0.0]


def test_what_stands_at_a_key_that_nobody_may_see_does_not_matter() -> None:
    key, value = np.ones((2, 2)), np.ones((2, 2))
    key[1], value[1] = NAN, INF
    tensors = [Tensor(array, requires_grad=True) for array in (np.ones((2, 2)), key, value)]
    out = ta.scaled_dot_product_attention(*tensors, mask=np.array([True, False]))
    assert out.numpy().tolist() == [[1.0, 1.0], [1.0, 1.0]]
    out.sum().backward()
    for tensor in tensors:
        assert np.isfinite(tensor.grad).all()
