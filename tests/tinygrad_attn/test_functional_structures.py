"""Derivatives by and of nested structures, in every shape and dtype."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.structure import flatten, rebuild


class Layer(NamedTuple):
    weight: Any
    bias: Any


def test_arguments_may_be_nested_structures() -> None:
    parameters = {"layers": [Layer(np.eye(2), np.ones(2)), Layer(2.0 * np.eye(2), None)], "scale": 3.0, "rest": ()}
    x = np.array([1.0, 2.0])

    def f(p: Any, x: Any) -> Any:
        hidden = p["layers"][0].weight @ x + p["layers"][0].bias
        return (p["layers"][1].weight @ hidden).sum() * p["scale"]

    value, slope = ta.value_and_grad(f)(parameters, x)
    assert value.item() == 30.0
    assert isinstance(slope["layers"][0], Layer)
    assert slope["layers"][1].bias is None
    assert slope["rest"] == ()
    assert slope["scale"].item() == 10.0
    assert_array_equal(slope["layers"][0].bias.numpy(), [6.0, 6.0])
    assert_array_equal(slope["layers"][0].weight.numpy(), [[6.0, 12.0], [6.0, 12.0]])
    both = ta.grad(f, argnums=(0, 1))(parameters, x)
    assert_array_equal(both[1].numpy(), [6.0, 6.0])
    assert_array_equal(both[0]["layers"][1].weight.numpy(), [[6.0, 9.0], [6.0, 9.0]])


@dataclasses.dataclass(frozen=True)
class State:
    weight: Any
    bias: Any = None
    total: Any = dataclasses.field(init=False, default=2.0)


def test_dataclasses_and_kinds_of_dicts_keep_their_kind() -> None:
    x = collections.OrderedDict(one=State(np.array([1.0, 2.0])), two=collections.defaultdict(list, w=3.0))

    def f(s: Any) -> Any:
        return (s["one"].weight ** 2).sum() * s["two"]["w"] * s["one"].total

    slope = ta.grad(f)(x)
    assert type(slope) is collections.OrderedDict and type(slope["two"]) is collections.defaultdict
    assert type(slope["one"]) is State and slope["one"].bias is None
    assert_array_equal(slope["one"].weight.numpy(), [12.0, 24.0])
    assert (slope["one"].total.item(), slope["two"]["w"].item()) == (15.0, 10.0)
    assert x["one"].total == 2.0  # what was given stays as it was
    curved = ta.hvp(f, x, x)  # Euler: f has degree 4, so that its Hessian times x is three times its gradient
    assert_array_equal(curved["one"].weight.numpy(), [36.0, 72.0])
    out, pull = ta.vjp(lambda w: State(w * 2.0, w.sum()), np.array([1.0, 2.0]))
    assert type(out) is State
    assert_array_equal(pull(dataclasses.replace(out, weight=np.ones(2), bias=1.0))[0].numpy(), [3.0, 3.0])
    with pytest.raises(ta.errors.ShapeError, match=r"expected a State with 'weight', 'bias', 'total', given 1\.0"):
        pull(1.0)


def test_outputs_that_are_whole_numbers_or_constants_do_not_change() -> None:
    x = np.array([1.0, 3.0])

    def f(x: Any) -> Any:
        return {"y": x * 2.0, "where": np.argmax(x), "above": x > 2.0, "one": np.float32(1.0), "none": None}

    out, change = ta.jvp(f, [x], [np.ones(2)])
    assert (out["where"], out["above"].tolist(), out["one"], out["none"]) == (1, [False, True], 1.0, None)
    assert {key: part if part is None else part.tolist() for key, part in change.items()} == {
        "y": [2.0, 2.0],
        "where": 0.0,
        "above": [0.0, 0.0],
        "one": 0.0,
        "none": None,
    }
    assert change["one"].dtype == np.float32
    slope = ta.jacobian(f)(x)
    assert slope["where"].tolist() == [0.0, 0.0]
    upstream = {"y": np.ones(2), "where": 5, "above": np.ones(2), "one": 7.0, "none": None}
    assert ta.vjp(f, x)[1](upstream)[0].tolist() == [2.0, 2.0]


def test_flatten_and_rebuild_are_inverse() -> None:
    structure = {"a": [1.0, 2.0], "b": (np.ones(2), None, {"c": 3.0}), "d": [[1.0], [2.0]], "e": []}
    leaves = flatten(structure)
    assert len(leaves) == 4  # a list of numbers is an array written out, None is nothing
    again = rebuild(structure, leaves)
    assert again["a"] == [1.0, 2.0] and again["b"][1] is None and again["b"][2] == {"c": 3.0} and again["e"] == []


def test_jacobians_and_hessians_of_structures() -> None:
    point = {"x": np.array([1.0, 2.0]), "y": np.float64(3.0)}

    def f(p: Any) -> Any:
        return {"product": p["x"] * p["y"], "sum": p["x"].sum()}

    matrix = ta.jacobian(f)(point)
    assert_array_equal(matrix["product"]["x"].numpy(), 3.0 * np.eye(2))
    assert_array_equal(matrix["product"]["y"].numpy(), [1.0, 2.0])
    assert_array_equal(matrix["sum"]["x"].numpy(), [1.0, 1.0])
    assert matrix["sum"]["y"].item() == 0.0
    second = ta.hessian(lambda p: (p["x"] ** 2).sum() * p["y"])(point)
    assert_array_equal(second["x"]["x"].numpy(), 6.0 * np.eye(2))
    assert_array_equal(second["x"]["y"].numpy(), [2.0, 4.0])
    assert_array_equal(second["y"]["x"].numpy(), [2.0, 4.0])
    assert second["y"]["y"].item() == 0.0
    vector = {"x": np.array([1.0, 0.0]), "y": 2.0}
    product = ta.hvp(lambda p: (p["x"] ** 2).sum() * p["y"], point, vector)
    assert_array_equal(product["x"].numpy(), [6.0 + 4.0, 8.0])
    assert product["y"].item() == 2.0


def test_jacobian_by_several_arguments() -> None:
    of_x, of_y = ta.jacobian(lambda x, y: x * y, argnums=(0, 1))(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    assert_array_equal(of_x.numpy(), np.diag([3.0, 4.0]))
    assert_array_equal(of_y.numpy(), np.diag([1.0, 2.0]))
    (xx, xy), (yx, yy) = ta.hessian(lambda x, y: x**2 * y, argnums=(0, 1))(2.0, 3.0)
    assert [t.item() for t in (xx, xy, yx, yy)] == [6.0, 4.0, 4.0, 0.0]


def test_vjp_and_jvp_of_several_outputs() -> None:
    def f(x: Any, y: Any) -> Any:
        return {"product": x * y, "sums": [x + y, 7.0]}

    out, pull = ta.vjp(f, 2.0, 3.0)
    assert out["product"].item() == 6.0 and out["sums"][1] == 7.0
    by_x, by_y = pull({"product": 1.0, "sums": [10.0, 100.0]})
    assert (by_x.item(), by_y.item()) == (13.0, 12.0)
    out, change = ta.jvp(f, [2.0, 3.0], [1.0, 10.0])
    assert change["product"].item() == 23.0
    assert [x.item() for x in change["sums"]] == [11.0, 0.0]


def test_arguments_that_are_not_used_have_zero_gradients() -> None:
    x, unused = np.array([1.0, 2.0]), np.ones((2, 2))
    slope = ta.grad(lambda p: (p["x"] ** 2).sum())({"x": x, "unused": unused})
    assert_array_equal(slope["unused"].numpy(), np.zeros((2, 2)))
    assert ta.grad(lambda x: 3.0)(1.0).item() == 0.0
    assert_array_equal(ta.grad(lambda x: ta.Tensor(np.argmax(x)))(x).numpy(), [0.0, 0.0])
    assert_array_equal(ta.jacobian(lambda x: np.ones(3))(x).numpy(), np.zeros((3, 2)))
    assert_array_equal(ta.hessian(lambda x: x.sum())(x).numpy(), np.zeros((2, 2)))
    assert ta.vjp(lambda x, y: x, 1.0, 2.0)[1](1.0)[1].item() == 0.0
    assert ta.jvp(lambda x: ta.Tensor(2.0), [1.0], [1.0])[1].item() == 0.0
    assert_array_equal(ta.hvp(lambda x: x.sum(), x, x).numpy(), [0.0, 0.0])


def test_aux_is_passed_through() -> None:
    def f(x: Any) -> Any:
        return (x**2).sum(), {"last": x[-1], "note": "kept"}

    slope, aux = ta.grad(f, has_aux=True)([1.0, 2.0])
    assert_array_equal(slope.numpy(), [2.0, 4.0])
    assert aux["last"].item() == 2.0 and not aux["last"].requires_grad and aux["note"] == "kept"
    (value, aux), slope = ta.value_and_grad(f, has_aux=True)([1.0, 2.0])
    assert value.item() == 5.0 and aux["note"] == "kept" and slope.shape == (2,)


def test_keyword_arguments_go_to_the_function() -> None:
    def f(x: Any, *, power: int) -> Any:
        return x**power

    assert ta.grad(f)(2.0, power=3).item() == 12.0
    assert ta.hessian(f)(2.0, power=3).item() == 12.0


def test_argnums_count_from_either_end() -> None:
    assert ta.grad(lambda x, y: x * y, argnums=1)(2.0, 3.0).item() == 2.0
    assert ta.grad(lambda x, y: x * y, argnums=-1)(2.0, 3.0).item() == 2.0
    assert [g.item() for g in ta.grad(lambda x, y: x * y, argnums=[1, 0])(2.0, 3.0)] == [2.0, 3.0]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (0,), (2, 0), (2, 3)], ids=str)
def test_every_shape_has_derivatives_in_its_shape(shape: Any) -> None:
    x = np.full(shape, 2.0)
    assert ta.grad(lambda x: (x**3).sum())(x).shape == shape
    assert ta.jacobian(lambda x: x * 2.0)(x).shape == (*shape, *shape)
    assert ta.hessian(lambda x: (x**3).sum())(x).shape == (*shape, *shape)
    assert_array_equal(ta.hvp(lambda x: (x**3).sum(), x, x).numpy(), np.full(shape, 24.0))
    assert ta.jvp(lambda x: x * x, [x], [x])[1].shape == shape
    assert ta.vjp(lambda x: x * x, x)[1](x)[0].shape == shape


def test_dtypes_are_kept() -> None:
    for dtype in (np.float32, np.float64):
        x = np.array([1.0, 2.0], dtype=dtype)
        results = [ta.grad(lambda x: (x**3).sum())(x), ta.hessian(lambda x: (x**3).sum())(x)]
        results += [ta.jacobian(lambda x: x * x)(x), ta.hvp(lambda x: (x**3).sum(), x, x)]
        results += [ta.vjp(lambda x: x * x, x)[1](np.ones(2))[0], ta.jvp(lambda x: x * x, [x], [x])[1]]
        assert [result.dtype for result in results] == [dtype] * 6
