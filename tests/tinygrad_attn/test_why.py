"""why: the state of a gradient, the operation at fault, and nothing that is not so."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.tinygrad_attn.graphs import TAME, WILD, Graph, graphs
from tinygrad_attn import nn
from tinygrad_attn.diagnose import Cause, Explanation, detect_anomaly, why
from tinygrad_attn.graph import topological_order

Make = Callable[[], tuple[ta.Tensor, ta.Tensor]]


@pytest.fixture(autouse=True)
def silent() -> Any:
    with np.errstate(all="ignore"):
        yield


def variable(values: Any, name: str | None = "x", dtype: Any = np.float64) -> ta.Tensor:
    return ta.Tensor(values, dtype=dtype, requires_grad=True, name=name)


def randoms(*shape: int, name: str | None = "x") -> ta.Tensor:
    return variable(np.random.standard_normal(shape), name)


def uneven(x: Any) -> ta.Tensor:
    """A sum in which every element counts differently."""
    return np.sum(x * np.arange(1.0, x.size + 1.0).reshape(x.shape))


def of(f: Callable[[Any], Any], values: Any, dtype: Any = np.float64) -> Make:
    """A variable and an uneven sum of what f makes of it."""

    def make() -> tuple[ta.Tensor, ta.Tensor]:
        x = variable(values, dtype=dtype)
        return x, uneven(f(x))

    return make


# --- what is zero ----------------------------------------------------------------------------------------------------

TWO = np.array([[1.0, 2.0], [3.0, 4.0]])


def attended(parameter: str, **settings: Any) -> Make:
    """Attention of three positions, only one row of one operand of which matters here."""

    def make() -> tuple[ta.Tensor, ta.Tensor]:
        operands = {name: randoms(3, 2, name=name) for name in ("query", "key", "value")}
        operands |= {name: settings.pop(name) for name in tuple(settings) if name in operands}
        if "bias" in settings:
            operands["bias"] = settings["bias"]
        q, k, v = (operands[name] for name in ("query", "key", "value"))
        return operands[parameter], uneven(ta.scaled_dot_product_attention(q, k, v, **settings))

    return make


def zero_initialised() -> tuple[ta.Tensor, ta.Tensor]:
    inner, outer = nn.Linear(3, 4), nn.Linear(4, 2)
    outer.weight.data[...] = 0.0
    return inner.weight, ta.cross_entropy(outer(np.tanh(inner(np.eye(3, dtype=np.float32)))), np.array([0, 1, 0]))


def shared() -> tuple[ta.Tensor, ta.Tensor]:
    x = variable([1.0, 2.0])
    return x, uneven(x * 3.0) - uneven(x * 3.0)


def overwritten() -> tuple[ta.Tensor, ta.Tensor]:
    x = variable([1.0, 2.0])
    return x, uneven(ta.index_put(x, np.zeros(2), index=slice(None)))


def table(ids: list[int], padding: int | None) -> Make:
    def make() -> tuple[ta.Tensor, ta.Tensor]:
        weight = variable(np.ones((4, 2)))
        return weight, uneven(ta.embedding(weight, np.array(ids), padding_index=padding))

    return make


def classified(logits: Any, target: Any, **options: Any) -> Make:
    def make() -> tuple[ta.Tensor, ta.Tensor]:
        x = variable(logits)
        return x, ta.cross_entropy(x, np.array(target), **options)

    return make


ZERO: dict[str, tuple[Make, Any, str, str, list[str]]] = {
    # what: (tensor and loss, index asked about, operation, kind, words)
    "relu": (of(ta.relu, [-1.0, -3.0]), None, "relu", "dead relu", ["both elements are not above 0 (largest -1)"]),
    "relu of one": (of(ta.relu, [-2.0, 3.0]), 0, "relu", "dead relu", ["the element concerned is", "x[0]    -2"]),
    "relu6": (of(ta.relu6, [7.0]), None, "relu6", "clipped", ["outside (0, 6)"]),
    "sigmoid": (of(ta.sigmoid, [800.0, -900.0]), None, "sigmoid", "saturated", ["-900 … 800"]),
    "tanh": (of(np.tanh, [40.0]), None, "tanh", "saturated", ["so far from 0 (40)"]),
    "exp": (of(np.exp, [-800.0]), None, "exp", "underflow", ["e to the power of -800 or less rounds to 0 in float64"]),
    "exp2": (of(np.exp2, [-1100.0]), None, "exp2", "underflow", ["2 to the power of"]),
    "square at 0": (of(np.square, [0.0]), None, "square", "zero slope", ["its derivative by x is 0 here"]),
    "abs at 0": (of(np.absolute, [0.0]), None, "absolute", "zero slope", ["sign(x)"]),
    "clip": (of(lambda x: np.clip(x, -1.0, 1.0), [3.0]), None, "clip", "clipped", ["outside [-1, 1]"]),
    "clip below": (of(lambda x: np.clip(x, None, 1.0), [3.0]), None, "clip", "clipped", ["outside [−∞, 1]"]),
    "times 0": (
        of(lambda x: x * 0.0, [3.0]),
        None,
        "multiply",
        "times zero",
        ["multiplied by 0", "look at what made b"],
    ),
    "0 / x": (of(lambda x: np.divide(0.0, x), [3.0]), None, "divide", "times zero", ["the numerator is 0"]),
    "x ** 0": (of(lambda x: x**0.0, [3.0]), None, "power", "constant", ["the exponent is 0"]),
    "max": (of(np.max, [1.0, 5.0, 2.0]), 0, "max", "not chosen", ["not the largest"]),
    "min": (of(np.min, [1.0, 5.0, 2.0]), 1, "min", "not chosen", ["not the smallest"]),
    "maximum": (of(lambda x: np.maximum(x, 9.0), [1.0]), None, "maximum", "not chosen", ["not the larger one"]),
    "where": (
        of(lambda x: np.where(np.array([True, False]), x, 0.0), [1.0, 2.0]),
        1,
        "where",
        "branch not taken",
        ["the condition does not hold"],
    ),
    "where, otherwise": (
        of(lambda x: np.where(np.array([True, False]), 0.0, x), [1.0, 2.0]),
        0,
        "where",
        "branch not taken",
        ["the condition holds"],
    ),
    "masked": (
        of(lambda x: ta.masked_fill(x, np.array([False, True]), value=-5.0), TWO),
        (0, 1),
        "masked_fill",
        "masked",
        ["mask[1] is True, and -5 stands in the result"],
    ),
    "dropped": (of(lambda x: ta.dropout(x, 1.0), TWO), None, "apply_keep_mask", "dropped", ["every element"]),
    "dropped in part": (
        of(lambda x: ta.apply_keep_mask(x, np.array([0.0, 2.0])), [1.0, 2.0]),
        0,
        "apply_keep_mask",
        "dropped",
        ["the element concerned of x is dropped in this pass"],
    ),
    "not read": (
        of(lambda x: x[1:], [1.0, 2.0]),
        0,
        "getitem",
        "not read",
        ["is not in the result", "the right index"],
    ),
    "triangle": (of(np.tril, TWO), (0, 1), "tril", "not read", ["outside the part of the matrix"]),
    "overwritten": (overwritten, None, "index_put", "overwritten", ["overwritten with values"]),
    "not named": (table([1, 1, 3], None), 0, "embedding", "not read", ["no id names row 0"]),
    "none of several": (table([1, 1], None), None, "embedding", "not read", ["no id names the rows 0, 2, 3"]),
    "padding": (table([1, 2], 2), 2, "embedding", "padding", ["row 2 is the padding_index, which learns nothing"]),
    "padding and others": (
        table([1, 2], 2),
        None,
        "embedding",
        "not read",
        ["no id names the rows 0, 3; row 2 is the"],
    ),
    "product with a zero": (of(np.prod, [0.0, 2.0, 3.0]), 1, "prod", "times zero", ["another factor is 0"]),
    "zero matrix": (of(lambda x: x @ np.zeros((2, 2)), TWO), None, "matmul", "times zero", ["b is 0 throughout"]),
    "zero column": (
        of(lambda x: x @ np.array([[0.0], [2.0]]), TWO),
        (slice(None), 0),
        "matmul",
        "times zero",
        ["both elements concerned of x are multiplied by 0: what b has for them is 0 there"],
    ),
    "zeros at first": (zero_initialised, None, "linear", "times zero", ["weight is 0 throughout", "initialised"]),
    "variance of one": (of(lambda x: np.var(x, axis=-1), [[3.0]]), None, "var", "constant", ["over one element"]),
    "spread of equals": (of(np.std, [3.0, 3.0]), None, "std", "zero slope", ["equal to the mean"]),
    "norm of zeros": (of(np.linalg.norm, [0.0, 0.0]), None, "norm", "zero slope", ["both elements are 0"]),
    "layer_norm of one": (
        of(lambda x: ta.layer_norm(x, np.ones(1), np.zeros(1)), [[3.0], [4.0]]),
        None,
        "layer_norm",
        "constant",
        ["vectors of length 1"],
    ),
    "layer_norm without gain": (
        of(lambda x: ta.layer_norm(x, np.zeros(2), np.zeros(2)), TWO),
        None,
        "multiply",
        "times zero",
        ["multiply, inside layer_norm", "look at what made gain"],
    ),
    "softmax of one": (
        of(ta.softmax, [[1.0], [2.0]]),
        None,
        "softmax",
        "constant",
        ["axis 1 holds one element", "axis"],
    ),
    "log_softmax of one": (of(ta.log_softmax, [[1.0], [2.0]]), None, "log_softmax", "constant", ["axis 1 holds"]),
    "softmax, far below": (
        of(ta.softmax, [0.0, 2000.0]),
        0,
        "softmax",
        "saturated",
        ["score is 2000 below the largest"],
    ),
    "softmax, far above": (
        of(ta.softmax, [0.0, 2000.0]),
        1,
        "softmax",
        "saturated",
        ["other score is 2000 or more below"],
    ),
    "softmax, masked": (of(ta.softmax, [0.0, 1.0, -np.inf]), 2, "softmax", "masked", ["the score at [2] is −∞"]),
    "softmax, all masked": (of(ta.softmax, [-np.inf, -np.inf]), None, "softmax", "masked", ["has nothing to look at"]),
    "log_softmax, all masked": (of(ta.log_softmax, [-np.inf, -np.inf]), None, "log_softmax", "masked", ["nothing to"]),
    "softmax, but one masked": (of(ta.softmax, [0.0, -np.inf]), 0, "softmax", "constant", ["but one are −∞"]),
    "softmax, summed": (
        lambda: (x := variable([1.0, 2.0, 4.0]), np.sum(ta.softmax(x))),
        None,
        "softmax",
        "cancelled",
        ["as they always sum to 1, that is no change"],
    ),
    "ignored": (
        classified(TWO, [0, 0], ignore_index=0),
        None,
        "cross_entropy",
        "ignored",
        ["every target is the ignore_index, 0"],
    ),
    "ignored here": (classified(TWO, [0, 1], ignore_index=0), 0, "cross_entropy", "ignored", ["the target at [0] is"]),
    "sure": (
        classified([[900.0, 0.0]], [0]),
        (0, 0),
        "cross_entropy",
        "saturated",
        ["class 0 is wanted at [0] and has probability 1"],
    ),
    "impossible": (
        classified([[900.0, 0.0]], [0]),
        (0, 1),
        "cross_entropy",
        "saturated",
        ["class 1 has probability 0"],
    ),
    "no choice": (classified([[9.0]], [0]), None, "cross_entropy", "constant", ["one class only"]),
    "weightless": (
        classified(TWO, [0, 1], weight=np.array([0.0, 1.0])),
        0,
        "cross_entropy",
        "times zero",
        ["class 0 has weight 0"],
    ),
    "probabilities": (
        classified([[900.0, 0.0]], [[1.0, 0.0]]),
        (0, 1),
        "cross_entropy",
        "reached",
        ["that is wanted of it"],
    ),
    "reached": (of(lambda x: ta.mse_loss(x, TWO), TWO), None, "mse_loss", "reached", ["nothing to improve"]),
    "cancelled": (
        shared,
        None,
        "",
        "cancelled",
        ["what x (2,) gets from its 2 uses adds up to 0", "from multiply  -3"],
    ),
    "cancelled inside": (
        of(lambda x: np.sum(np.broadcast_to(x, (2, 1)) * np.array([[1.0], [-1.0]])), [1.0]),
        None,
        "broadcast_to",
        "cancelled",
        ["adds up to 0", "largest that arrives  1"],
    ),
    "underflow": (
        of(lambda x: x * np.float32(1e-30) * np.float32(1e-30), [1.0], np.float32),
        None,
        "multiply",
        "underflow",
        ["smaller than 1.4013e-45, the smallest number of float32", "float64"],
    ),
    "underflow in half precision": (
        of(lambda x: x * 1e-5 * 1e-5, [1.0], np.float16),
        None,
        "multiply",
        "underflow",
        [],
    ),
    "recomputed": (of(ta.checkpoint(ta.relu), [-1.0]), None, "checkpoint", "zero slope", ["without ta.checkpoint"]),
    "further on": (
        of(lambda x: ta.relu(np.exp(x) * 2.0 - 100.0), [1.0]),
        None,
        "relu",
        "dead relu",
        ["relu, after exp → multiply → subtract"],
    ),
    "further still": (
        of(lambda x: ta.relu(-np.exp(np.sin(np.cos(np.tanh(x))))), [1.0]),
        None,
        "relu",
        "dead relu",
        ["after … → sin → exp → negative"],
    ),
    "query sees nothing": (
        attended("query", mask=np.array([[True] * 3, [False] * 3, [True] * 3])),
        1,
        "attention",
        "masked",
        ["query 1 may look at no key"],
    ),
    "query sees one": (
        attended("query", causal=True),
        0,
        "attention",
        "constant",
        ["query 0 may look at one key only"],
    ),
    "query is sure": (
        attended("query", key=variable(1e4 * TWO[[0, 1, 0]]), query=variable(TWO[[0, 1, 1]])),
        0,
        "attention",
        "saturated",
        ["one weight of query 0 is 1"],
    ),
    "keys are zero": (
        attended("query", key=variable(np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 5.0]]))),
        (slice(None), 0),
        "attention",
        "times zero",
        ["component 0 is 0 in every key"],
    ),
    "key nobody sees": (
        attended("key", mask=np.array([True, True, False])),
        2,
        "attention",
        "masked",
        ["no query may look at key 2: its column of the mask is False throughout"],
    ),
    "key seen alone": (
        attended("key", mask=np.eye(3, dtype=bool)),
        1,
        "attention",
        "constant",
        ["whoever may look at key 1 may look at no other"],
    ),
    "queries are zero": (
        attended("key", query=variable(np.zeros((3, 2)))),
        0,
        "attention",
        "times zero",
        ["component 0 is 0 in every query that looks at key 0"],
    ),
    "values are equal": (
        attended("key", value=variable(np.zeros((3, 2)))),
        None,
        "attention",
        "constant",
        ["all values are the same"],
    ),
    "value nobody sees": (
        attended("value", mask=np.array([True, True, False])),
        2,
        "attention",
        "masked",
        ["no query may look at value 2"],
    ),
    "value without weight": (
        attended("value", bias=np.array([0.0, 0.0, -1e5])),
        2,
        "attention",
        "saturated",
        ["every weight on value 2 rounds to 0"],
    ),
    "value dropped": (
        attended("value", dropout=1.0),
        0,
        "attention",
        "dropped",
        ["has dropped every weight on value 0"],
    ),
    "bias without weight": (
        attended("bias", bias=variable(np.array([[0.0, 0.0, -1e5]]))),
        (0, 2),
        "attention",
        "saturated",
        ["the weight there rounds to 0"],
    ),
    "bias of equal values": (
        attended("bias", bias=variable(np.zeros((3, 3))), value=variable(np.zeros((3, 2)))),
        None,
        "attention",
        "constant",
        ["all values are the same"],
    ),
    "query of equal values": (
        attended("query", value=variable(np.zeros((3, 2)))),
        None,
        "attention",
        "constant",
        ["all values are the same"],
    ),
    "key is all or nothing": (
        attended("key", key=variable(1e4 * TWO[[0, 1, 0]]), query=variable(TWO[[0, 1, 1]])),
        1,
        "attention",
        "saturated",
        ["every weight on key 1 is 1 or rounds to 0"],
    ),
    "bias masked": (
        attended("bias", bias=variable(np.zeros((3, 3))), mask=np.tri(3, dtype=bool)),
        (0, 2),
        "attention",
        "masked",
        ["that query may not look at that key"],
    ),
    "bias that some may see": (
        attended("bias", bias=variable(np.array([[0.0, 0.0, -1e5]])), mask=np.tri(3, dtype=bool)),
        (0, 2),
        "attention",
        "saturated",
        ["the weight there rounds to 0"],
    ),
    "in chunks, with two masks": (
        attended("key", causal=True, chunk=2, mask=np.array([[True, True, True], [True] * 3, [True, True, False]])),
        2,
        "chunked_attention",
        "masked",
        ["no query may look at key 2"],
    ),
    "values equal in one component": (
        attended("query", value=variable(np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 4.0]])), causal=True),
        0,
        "attention",
        "constant",
        ["query 0 may look at one key only"],
    ),
    "bias alone": (
        attended("bias", bias=variable(np.zeros((3, 3))), mask=np.tri(3, dtype=bool)),
        (0, 0),
        "attention",
        "constant",
        ["one key only"],
    ),
    "in chunks": (
        attended("key", causal=True, chunk=2, value=variable(np.ones((3, 2)))),
        2,
        "chunked_attention",
        "constant",
        ["all values are the same"],
    ),
}


@pytest.mark.parametrize(("make", "index", "operation", "kind", "words"), ZERO.values(), ids=ZERO)
def test_zero(make: Make, index: Any, operation: str, kind: str, words: list[str]) -> None:
    tensor, loss = make()
    loss.backward()
    found = why(tensor, loss, index=index)
    assert found.state in ("zero", "partly zero", "rounding error")
    assert index is None or found.state == "zero"
    assert found.cause is not None
    assert (found.cause.operation, found.cause.kind) == (operation, kind), str(found)
    told = " ".join(str(found).split())
    assert all(" ".join(word.split()) in told for word in words), str(found)


def test_a_cause_that_explains_more_comes_first() -> None:
    x = variable(np.array([-1.0, 1.0, 2.0, 3.0]))
    found = why(x, uneven(ta.relu(x) * 0.0))
    assert [cause.operation for cause in found.causes] == ["multiply", "relu"]
    assert [cause.count for cause in found.causes] == [3, 1]
    assert "1 of 4 elements is not above 0" in str(found)
    assert "all 3 elements concerned of a are multiplied by 0" in str(found)


def test_how_many_elements_are_concerned_is_told() -> None:
    x = variable([-1.0, 2.0, 3.0])
    loss = uneven(ta.relu(x))
    loss.backward()
    assert why(x, loss).summary == "the gradient is zero in 1 of 3 elements"
    assert why(x, loss, index=slice(0, 2)).summary == "the gradient is zero in 1 of 2 elements"
    y = variable([0.0, 1.0])
    loss = np.sum(np.sqrt(y))
    loss.backward()
    assert why(y, loss).summary == "the gradient is not finite in 1 of 2 elements"
    assert why(y, loss, index=0).summary == "the gradient is not finite"
    assert why(y).summary == ".grad is not finite" and why(y).advice.startswith("why(tensor, loss)")
    assert why(y, loss, index=1).notes == ("its elements have sizes from 0.5 to 0.5",)
    assert why(y, index=1).state == "fine" and not why(y, index=1).advice


def test_of_several_reasons_in_a_batch_no_single_one_is_claimed() -> None:
    """In one sentence query 0 may look at one key only, in the other it is sure of itself; it takes both to explain."""
    query, value = variable(np.ones((1, 2, 1)), "query"), randoms(2, 2, 1)
    key = variable(np.array([[[1.0], [2.0]], [[0.0], [9e3]]]))
    mask = np.array([[[True, False]], [[True, True]]])
    loss = uneven(ta.scaled_dot_product_attention(query, key, value, mask=mask))
    found = why(query, loss, index=(0, 0))
    assert found.derivative == "zero" and found.cause is not None
    assert found.cause.kind not in ("constant", "masked")


def test_a_shared_key_is_looked_at_in_every_sentence() -> None:
    key, value = variable([[[1.0], [2.0]]], "key"), randoms(1, 2, 1)
    mask = np.array([[[True, False], [True, False]], [[True, True], [True, True]]])
    sure = variable(np.array([[[1.0], [1.0]], [[9e3], [9e3]]]))
    loss = uneven(ta.scaled_dot_product_attention(sure, key, value, mask=mask))
    assert why(key, loss).derivative == "zero"
    assert {cause.kind for cause in why(key, loss).causes} == {"saturated"}


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x @ np.array([[1.0, 2.0], [3.0, 4.0]]),
        lambda x: x.T,
        lambda x: np.sort(x, axis=0),
        lambda x: np.concatenate([x, np.ones((1, 2))]),
        lambda x: ta.softmax(x, axis=-1),
        lambda x: ta.layer_norm(x, np.ones(2), np.array([0.0, 1.0])) + np.square(x),
    ],
)
def test_only_what_the_elements_go_into_is_followed(f: Any) -> None:
    """Row 1 of x goes into two elements, though all that comes of x is lost in the same relu."""
    x = variable([[5.0, 8.0], [1.0, 3.0]])
    found = why(x, np.sum(ta.relu(f(x) - 1000.0)), index=1)
    assert found.cause is not None
    assert (found.cause.operation, found.cause.count) == ("relu", 2)


def test_only_the_elements_that_are_not_finite_are_followed() -> None:
    x = variable([0.0, 0.0])
    loss = np.sum(np.concatenate([np.sqrt(x[:1]), np.log(x[1:])]))
    assert {cause.operation for cause in why(x, loss).causes} == {"sqrt", "log"}
    assert {cause.operation for cause in why(x, loss, index=0).causes} == {"sqrt"}
    assert {cause.operation for cause in why(x, loss, index=1).causes} == {"log"}


def test_only_the_elements_that_are_too_small_are_called_so() -> None:
    x = variable([1.0, 1.0, 1.0], dtype=np.float32)
    found = why(x, np.sum(x * np.array([1e-30, 1.0, 0.0], np.float32) * np.float32(1e-30)))
    assert [(cause.kind, cause.count, cause.place) for cause in found.causes] == [
        ("times zero", 1, (2,)),
        ("underflow", 1, (0,)),
    ]


def test_only_the_elements_asked_about_are_explained() -> None:
    x = variable([-1.0, 2.0, 3.0])
    loss = uneven(ta.relu(x)[:2])
    assert why(x, loss).derivative == "partly zero"
    assert [cause.operation for cause in why(x, loss, index=[0]).causes] == ["relu"]
    assert [cause.operation for cause in why(x, loss, index=np.array([False, False, True])).causes] == ["getitem"]
    assert why(x, loss, index=1).derivative == "not zero"
    assert why(x, loss, index=1).causes == ()


def test_the_upstream_gradient_may_be_the_reason() -> None:
    x = variable([1.0, 2.0])
    found = why(x, x * 2.0, upstream=[0.0, 1.0], index=0)
    assert found.cause is not None and found.cause.kind == "zero upstream"
    assert "a gradient of ones was sent in" in str(why(x, x * 2.0))
    assert "ones" not in str(why(x, x * 2.0, upstream=[1.0, 1.0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("f", "operation"),
    [
        (lambda x: np.sum(ta.softmax(x)), "softmax"),
        (
            lambda x: np.sum(np.tanh(ta.softmax(x * 2.0) * 0.0 + ta.softmax(x))) * 0.0 + np.mean(ta.softmax(x)),
            "softmax",
        ),
        (lambda x: np.sum(ta.layer_norm(x, np.ones(7, x.dtype), np.zeros(7, x.dtype))), "layer_norm"),
    ],
)
def test_what_cancels_but_for_rounding_is_told_from_a_gradient(f: Any, operation: str, dtype: Any) -> None:
    x = ta.Tensor(np.random.standard_normal((5, 7)).astype(dtype), requires_grad=True)
    loss = f(x)
    loss.backward()
    found = why(x, loss)
    assert found.state == found.derivative == "rounding error"
    assert operation in [cause.operation for cause in found.causes]


def test_a_sum_that_cancels_but_for_rounding_is_told() -> None:
    x = randoms(4)
    found = why(x, uneven(x * 0.1 * 3.0 - x * 0.3))
    assert found.derivative == "rounding error"
    assert found.cause is not None and found.cause.text == "what x (4,) gets from its 2 uses cancels"


@pytest.mark.parametrize("seed", range(5))
def test_rounding_does_not_hide_that_a_weight_is_constant(seed: int) -> None:
    np.random.seed(seed)
    q, k, v = randoms(3, 2), randoms(3, 2, name="key"), randoms(3, 2)
    loss = np.sum(
        ta.scaled_dot_product_attention(q, k, v, mask=np.eye(3, dtype=bool)) * np.random.standard_normal((3, 2))
    )
    found = why(k, loss)
    assert found.derivative in ("zero", "partly zero", "rounding error")
    assert found.cause is not None and found.cause.kind == "constant"


def test_the_bias_of_keys_has_no_gradient() -> None:
    """What is added to all scores of a query alike, softmax does not see."""
    to_key = nn.Linear(4, 4, dtype=np.float64)
    q, x, v = randoms(5, 4), randoms(5, 4), randoms(5, 4)
    loss = uneven(ta.scaled_dot_product_attention(q, to_key(x), v))
    assert why(to_key.bias, loss).derivative == "rounding error"
    assert why(to_key.weight, loss).derivative == "not zero"


def test_a_small_gradient_is_no_rounding_error() -> None:
    x = randoms(5)
    assert why(x, np.sum(ta.softmax(x)) + 1e-15 * uneven(x)).derivative == "not zero"
    assert why(x, 1e-15 * uneven(np.sin(x))).derivative == "not zero"


# --- what is not finite ----------------------------------------------------------------------------------------------


def masked_row(x: Any) -> Any:
    return x + np.array([[-np.inf], [0.0]])


NOT_FINITE: dict[str, tuple[Make, str, str, list[str]]] = {
    "root of 0": (of(np.sqrt, [4.0, 0.0]), "sqrt", "infinite slope", ["becomes inf at [1]", "dx = dy / 2y", "1e-12"]),
    "N16": (of(lambda x: np.sqrt((x - 1.0) ** 2.0), [1.0]), "sqrt", "infinite slope", ["sqrt, after subtract → power"]),
    "root of -1": (of(np.sqrt, [-1.0]), "sqrt", "root of a negative number", ["x                       -1"]),
    "log 0": (of(np.log, [1.0, 0.0]), "log", "logarithm of 0", ["result                  -inf", "ta.log_softmax"]),
    "log2 0": (of(np.log2, [0.0]), "log2", "logarithm of 0", []),
    "log1p -1": (of(np.log1p, [-1.0]), "log1p", "logarithm of 0", []),
    "x / 0": (of(lambda x: x / np.array([1.0, 0.0]), [1.0, 2.0]), "divide", "division by 0", ["denominator", "b    0"]),
    "1 / 0": (of(lambda x: np.reciprocal(x), [0.0]), "reciprocal", "division by 0", []),
    "0 ** -1": (of(lambda x: x**-1.0, [0.0]), "power", "division by 0", []),
    "(-8) ** 1/3": (of(lambda x: x ** (1 / 3), [-8.0]), "power", "root of a negative number", []),
    "(-8) ** -1/3": (of(lambda x: x ** (-1 / 3), [-8.0]), "power", "root of a negative number", []),
    "exp 1000": (of(np.exp, [1000.0]), "exp", "overflow", ["subtract the maximum first"]),
    "softmax by hand": (of(lambda x: np.exp(x) / np.sum(np.exp(x)), [0.0, 999.0]), "exp", "overflow", ["inf at [1]"]),
    "arcsin 1": (of(np.arcsin, [1.0]), "arcsin", "infinite slope", ["np.clip"]),
    "arcsin 2": (of(np.arcsin, [2.0]), "arcsin", "outside its range", []),
    "0 times infinity": (
        of(lambda x: np.exp(x * 1000.0) * (x - 1.0), [1.0]),
        "exp",
        "overflow",
        ["in the forward pass", "multiply: 0 · ∞: nan"],
    ),
    "infinity less infinity": (
        of(lambda x: np.sin(np.exp(x) - np.exp(x)), [999.0]),
        "exp",
        "overflow",
        ["subtract: ∞ − ∞: nan", "a  inf", "np.where chooses without multiplying"],
    ),
    "infinity by infinity": (
        of(lambda x: np.sin(np.exp(x) / np.exp(x)), [999.0]),
        "exp",
        "overflow",
        ["divide: ∞ / ∞: nan"],
    ),
    "masked row, by hand": (
        of(lambda x: np.exp(masked_row(x) - np.max(masked_row(x), axis=-1, keepdims=True)), TWO),
        "subtract",
        "∞ − ∞",
        ["a row that is −∞ throughout, fully masked"],
    ),
    "put in": (of(lambda x: x * x, [1.0, np.nan]), "", "put in", ["x (2,) holds nan at [1]"]),
    "put in as a constant": (of(lambda x: x * np.array([1.0, np.inf]), [1.0, 2.0]), "", "put in", ["holds inf at [1]"]),
    "put in as a number": (of(lambda x: x * math.inf, [1.0]), "", "put in", ["the operand b of multiply is inf"]),
    "in a product of matrices": (of(lambda x: x @ np.array([[np.inf], [1.0]]), TWO), "", "put in", ["inf at [0, 0]"]),
    "gradients too large": (
        of(lambda x: x * np.float32(1e-38) * np.float32(1e30) * np.float32(1e30), [1e-30], np.float32),
        "multiply",
        "overflow",
        ["scale the loss down"],
    ),
    "put in as a number, before": (
        of(lambda x: np.sin(x * math.inf), [1.0]),
        "sin",
        "met an infinity",
        ["x  inf"],
    ),
    "filled in": (
        lambda: (w := variable(TWO, "w"), np.sum(w * ta.masked_fill(variable(TWO), TWO > 2.0, value=-np.inf))),
        "multiply",
        "met a NaN or an infinity",
        ["masked_fill: filled in: -inf at [1, 0]"],
    ),
    "quotient too large": (
        of(lambda x: np.sin(x / np.float32(1e-30)), [1e30], np.float32),
        "divide",
        "overflow",
        ["smaller numbers, or float64"],
    ),
    "power too large": (of(lambda x: np.sin(x**2.0), [1e200]), "power", "overflow", []),
    "no eps, later": (
        of(lambda x: np.sin(ta.layer_norm(x, np.ones(2), np.zeros(2), eps=0.0)), [[3.0, 3.0]]),
        "layer_norm",
        "division by 0",
        [],
    ),
    "sine of infinity": (of(lambda x: np.sin(np.exp(x)), [999.0]), "exp", "overflow", ["sin: met an infinity: nan"]),
    "slope of log too large": (of(np.log, [5e-324]), "log", "infinite slope", ["keep it above 0"]),
    "arctanh 1": (of(np.arctanh, [1.0]), "arctanh", "outside its range", []),
    "sum too large": (
        lambda: (x := variable([1e-30], dtype=np.float32), np.sum(x * np.float32(3e38) + x * np.float32(3e38))),
        "",
        "overflow",
        ["what x (1,) gets from its 2 uses adds up to more than float32 can hold", "from multiply  3e+38"],
    ),
    "no eps": (
        of(lambda x: ta.layer_norm(x, np.ones(2), np.zeros(2), eps=0.0), [[3.0, 3.0]]),
        "layer_norm",
        "undefined slope",
        ["give eps a small number"],
    ),
}


@pytest.mark.parametrize(("make", "operation", "kind", "words"), NOT_FINITE.values(), ids=NOT_FINITE)
def test_not_finite(make: Make, operation: str, kind: str, words: list[str]) -> None:
    tensor, loss = make()
    loss.backward()
    found = why(tensor, loss)
    assert found.state == found.derivative == "not finite"
    assert found.cause is not None
    assert (found.cause.operation, found.cause.kind) == (operation, kind), str(found)
    told = " ".join(str(found).split())
    assert all(" ".join(word.split()) in told for word in words), str(found)


def test_where_an_infinity_was_put_in_is_told_too() -> None:
    x = variable([1.0])
    causes = why(x, np.sin(x * math.inf)).causes
    assert "the operand b of multiply is inf, in the forward pass" in [cause.text for cause in causes]
    assert str(causes[0]).splitlines()[0] == "sin: met an infinity: nan at [0], in the forward pass"


def test_the_line_is_shown_where_it_was_noted() -> None:
    x = variable([1.0])
    with detect_anomaly():
        y = np.sqrt(x - 1.0)  # the line
    found = why(x, y)
    assert found.cause is not None and found.cause.source is not None
    assert "y = np.sqrt(x - 1.0)  # the line" in str(found) and "detect_anomaly" not in str(found)
    assert "run the forward pass inside ta.detect_anomaly()" in " ".join(str(why(x, np.sqrt(x - 1.0))).split())


def test_the_module_is_named() -> None:
    class Rooted(nn.Module):
        def __init__(self) -> None:
            self.inner = Root()

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    class Root(nn.Module):
        def forward(self, x: Any) -> Any:
            return np.sqrt(x)

    x = variable([0.0])
    assert "sqrt, in inner: infinite slope" in str(why(x, Rooted()(x)))


def test_a_gradient_that_was_sent_in_may_be_the_reason() -> None:
    x = variable([1.0, 2.0])
    found = why(x, x * 2.0, upstream=[np.nan, 1.0])
    assert found.cause is not None and found.cause.kind == "put in" and "sent in at the loss" in found.cause.text


def test_a_branch_not_taken_is_no_reason() -> None:
    x = variable([1.0])
    assert why(x, np.sum(np.where(x >= 0.0, x, np.sqrt(-x)))).derivative == "not zero"


def test_that_only_the_loss_is_not_finite_is_noted() -> None:
    x = variable([-1.0])
    found = why(x, np.sum(np.log(x)))
    assert found.derivative == "not zero"
    assert "the loss itself is not finite: log: logarithm of a negative number: nan at [0]" in str(found)


# --- what is None ----------------------------------------------------------------------------------------------------


def weighed(x: Any) -> ta.Tensor:
    return np.sum(x * variable([3.0, 5.0, 7.0], "weight"))


def under_no_grad(x: ta.Tensor) -> ta.Tensor:
    with ta.no_grad():
        return x * 2.0


NOT_CONNECTED: dict[str, tuple[Callable[[ta.Tensor], ta.Tensor], str | None, str]] = {
    "detached": (lambda x: weighed(x.detach()), "detached", "has the memory of x (3,) and no gradient"),
    "a view of it": (lambda x: np.sum(x.detach()[:1] * variable([1.0])), "detached", "has the memory of x"),
    "plain array": (lambda x: weighed(x.numpy()), "plain values", "has the values of x (3,) and no gradient"),
    "number": (lambda x: weighed(float(x[1])), None, "numbers without a gradient there: -2.5"),
    "floor": (lambda x: weighed(np.floor(x)), "no derivative", "the values that np.floor gives for x"),
    "argsort": (lambda x: weighed(np.argsort(x).astype(float)), "no derivative", "np.argsort"),
    "comparison": (lambda x: weighed((x > 0).astype(float)), "no derivative", "a comparison with 0"),
    "no_grad": (lambda x: weighed(under_no_grad(x)), None, "may have been computed from it: a of multiply (3,)"),
    "unused": (lambda x: np.sum(np.exp(variable([1.0], "weight"))), None, "it was not used"),
    "replaced": (lambda x: weighed(variable([0.0, 1.0, 2.0], "x")), "replaced", "from another tensor named x (3,)"),
    "loss without gradient": (lambda x: np.sum(under_no_grad(x)), None, "under no_grad(), or from values without"),
    "whole numbers": (lambda x: x.astype(np.int64), None, "holds int64, and whole numbers"),
}


@pytest.mark.parametrize(("f", "kind", "words"), NOT_CONNECTED.values(), ids=NOT_CONNECTED)
def test_not_connected(f: Callable[[ta.Tensor], ta.Tensor], kind: str | None, words: str) -> None:
    x = variable([7.0, -2.5, 3.0])
    found = why(x, f(x))
    assert found.state == "not connected" and found.derivative is None
    assert "there is no gradient" in found.summary
    assert (found.cause.kind if found.cause else None) == kind, str(found)
    assert words in " ".join(str(found).split()), str(found)
    if kind is None and found.notes:
        assert (
            found.notes[0] == "the loss depends on weight (3,)" or found.notes[0] == "the loss depends on weight (1,)"
        )


def test_long_lists_are_cut() -> None:
    x, others = variable([1.0]), [variable([1.0], f"w{i}") for i in range(7)]
    notes = why(x, np.sum(sum(other * (i + 2.0) for i, other in enumerate(others)))).notes
    assert notes[0] == "the loss depends on w0 (1,), w1 (1,), w2 (1,), w3 (1,) and 3 more"
    assert "numbers without a gradient there: 0, 2, 3, 4 and 4 more" in notes


def test_a_number_that_was_taken_out_is_found() -> None:
    x = variable(7.0)
    found = why(x, weighed(x.item()))
    assert found.cause is not None and found.cause.kind == "plain values"
    assert why(variable(1.0), weighed(1.0)).cause is None  # ones are everywhere
    assert why(variable([2.0, 2.0, 2.0]), weighed(np.full(3, 2.0))).cause is None  # and so are arrays of one number
    assert why(variable([2.0, 4.0, 6.0]), weighed(np.array([2.0, 4.0, 7.0]))).cause is None
    assert why(variable([np.nan, 4.0, 6.0]), weighed(np.array([np.nan, 4.0, 6.0]))).cause is not None
    assert why(variable([0.5, 0.6, 0.7]), weighed(np.zeros(3))).cause is None  # as their floor


def test_a_swapped_pair_is_told() -> None:
    x = variable([1.0])
    y = np.exp(x)
    found = why(np.sum(y), y)
    assert found.state == "not connected" and "swap the two" in str(found)


def test_what_requires_no_gradient_has_none() -> None:
    x = variable([1.0, 2.0])
    assert why(ta.Tensor([1.0])).state == why(ta.Tensor([1.0]), np.sum(x)).state == "not required"
    assert "without requires_grad=True" in str(why(ta.Tensor([1.0])))
    assert "holds int64" in str(why(ta.Tensor([1, 2])))
    assert "has the memory of x (2,)" in str(why(x.detach(), np.sum(x)))


def test_none_zero_and_not_computed_are_three_answers() -> None:
    """Misconception 18."""
    x, unused = variable([0.0]), variable([1.0], "unused")
    y = np.square(x)
    loss = np.sum(y)
    assert why(x).state == why(x, loss).state == "not computed"
    assert why(x, loss).derivative == "zero"
    assert why(y, loss).state == why(y).state == "not kept"
    assert why(unused, loss).state == "not connected"
    loss.backward()
    assert why(x).state == why(x, loss).state == "zero"
    x.zero_grad()
    assert why(x, loss).state == "not computed"
    y.retain_grad()
    assert why(y).state == why(y, loss).state == "not computed"
    loss.backward()
    assert why(y).state == why(y, loss).state == "fine"
    assert why(loss, loss).derivative == "not zero"


def test_a_freed_graph_is_told() -> None:
    x = variable([1.0])
    loss = np.sum(np.exp(x))
    loss.backward(retain_graph=False)
    assert why(x, loss).state == "freed"
    part = np.exp(x)
    both = np.sum(part * part)
    np.sum(part).backward(retain_graph=False)
    assert why(x, both).state == "freed"
    assert why(part, both).derivative == "not zero"
    assert "part of the graph has been freed (at exp)" in " ".join(str(why(x, both + np.sum(x))).split())


def test_changed_values_are_told() -> None:
    x = variable([1.0])
    loss = np.sum(np.exp(x) * x)
    x.data = [2.0]
    found = why(x, loss)
    assert found.state == "changed" and "before the change" in str(found)


def test_a_rule_that_fails_is_told() -> None:
    @ta.op
    def broken(x: Any) -> Any:
        return x * 1.0

    @broken.gradient("x")
    def _(g: Any, out: Any, x: Any) -> Any:
        raise KeyError("weights")

    try:
        x = variable([1.0])
        found = why(x, np.sum(broken(x)))
    finally:
        del ta.OPERATIONS[f"{__name__}.broken"]
    assert found.state == "failed" and "raised KeyError" in str(found)


def own_operation(rule: Callable[[Any, Any], Any]) -> Any:
    """An operation of a user's own, named like a built-in one, whose rule may do anything."""

    @ta.op
    def softmax(x: Any) -> Any:
        return np.sqrt(x[::-1])

    @softmax.gradient("x", formula="dx = …")
    def _(g: Any, out: Any, x: Any) -> Any:
        return rule(g, out)

    del ta.OPERATIONS[f"{__name__}.softmax"]
    return softmax


def test_an_operation_of_ones_own_is_told_by_what_it_does() -> None:
    x = variable([0.0, 4.0, 9.0])
    found = why(x, np.sum(own_operation(lambda g, out: g[::-1] * 0.0)(x)))
    assert found.cause is not None and found.cause.kind == "zero slope"
    assert "softmax: its derivative by x is 0 here (dx = …)" in str(found)
    undefined = why(x, np.sum(np.sin(own_operation(lambda g, out: g)(x - 5.0))))
    assert undefined.cause is not None and undefined.cause.kind == "undefined"


def test_a_rule_that_cannot_be_differentiated_is_no_obstacle() -> None:
    x = variable([1.0, 4.0, 9.0])
    mirror = own_operation(lambda g, out: (np.asarray(g, dtype=np.float64) / (2.0 * out))[::-1].copy())
    found = why(x, uneven(ta.relu(mirror(x) - 2.5)), index=1)
    assert found.cause is not None and (found.cause.operation, found.cause.path) == ("relu", ("softmax", "subtract"))


def test_a_gradient_from_elsewhere_is_told() -> None:
    x = variable([1.0])
    loss = np.sum(x * 2.0)
    loss.backward()
    found = why(x, np.sum(x * 0.0))
    assert found.state == "stale" and "comes from elsewhere" in " ".join(str(found).split())
    loss.backward()  # 4 after two passes is of the same kind as 2
    assert why(x, loss).state == "fine"


def test_hooks_are_noted_and_not_called() -> None:
    x = variable([1.0])
    calls: list[Any] = []
    x.register_hook(calls.append)
    loss = np.sum(np.exp(x))
    found = why(x, loss)
    assert "one is on x (1,); hooks were not called" in " ".join(str(found).split())
    assert not calls and x.grad is None


def test_an_empty_tensor_is_fine() -> None:
    x = variable(np.zeros((0, 2)))
    loss = np.sum(x * 2.0)
    loss.backward()
    assert why(x, loss).state == why(x).state == "fine"
    y = variable([1.0])
    assert why(y, np.sum(y[:0])).derivative == "zero"


@pytest.mark.parametrize("index", [5, (0, 0), np.array([7])])
def test_an_index_that_does_not_fit_is_refused(index: Any) -> None:
    x = variable([1.0, 2.0])
    with pytest.raises(ta.errors.IndexRangeError, match=r"why: .*\n  given index=.* for shape \(2,\)"):
        why(x, np.sum(x), index=index)


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(ta.errors.DtypeError, match="given ndarray"):
        why(np.ones(2))  # type: ignore[arg-type]
    with pytest.raises(ta.errors.DtypeError, match="given float"):
        why(variable([1.0]), 1.0)  # type: ignore[arg-type]
    with pytest.raises(ta.errors.ShapeError, match="upstream must have the loss's shape"):
        x = variable([1.0])
        why(x, x * 2.0, upstream=[1.0, 2.0])


# --- whatever the graph ----------------------------------------------------------------------------------------------

ANY_DTYPE = (np.float64, np.float32, np.float16)
wild = graphs(WILD, dtypes=ANY_DTYPE)


@given(wild, st.data())
def test_it_never_raises_and_fits_a_terminal(graph: Graph, data: st.DataObject) -> None:
    tensor = data.draw(st.sampled_from(graph.tensors))
    root = data.draw(st.sampled_from([graph.loss, graph.loss, None, *graph.tensors]))
    found = why(tensor, root)
    for line in str(found).splitlines():
        assert len(line) <= 80 or " " not in line.strip()
    assert found.causes or found.state not in ("zero", "partly zero", "not finite") or root is None


@given(wild, st.booleans())
def test_it_changes_nothing(graph: Graph, after: bool) -> None:
    assume(graph.loss.requires_grad)
    ones = np.ones(graph.loss.shape)
    if after:
        graph.loss.backward(ones)
    leaves = [tensor for tensor in graph.tensors if tensor.node is None]
    before = [None if leaf.grad is None else leaf.grad.copy() for leaf in leaves]
    values = [leaf.numpy().copy() for leaf in leaves]
    state = ta.rng.get_state()
    for tensor in graph.tensors:
        why(tensor, graph.loss)
    assert repr(ta.rng.get_state()) == repr(state)
    for leaf, gradient, value in zip(leaves, before, values, strict=True):
        np.testing.assert_array_equal(leaf.numpy(), value)
        assert (leaf.grad is None) == (gradient is None)
        if gradient is not None:
            np.testing.assert_array_equal(leaf.grad, gradient)
    graph.loss.backward(ones)


@given(wild, st.data())
def test_the_derivative_is_what_it_is(graph: Graph, data: st.DataObject) -> None:
    tensor = data.draw(st.sampled_from(graph.tensors))
    found = why(tensor, graph.loss)
    connected = graph.loss.requires_grad and any(x is tensor for x in topological_order([graph.loss]))
    assert (found.derivative is not None) == (connected and tensor.requires_grad)
    if found.derivative is None:
        return
    gradient = ta.gradients(graph.loss, tensor, np.ones(graph.loss.shape)).numpy()
    expected = (
        "not finite" if not np.isfinite(gradient).all() else "zero" if gradient.size and not gradient.any() else ""
    )
    assert expected in ("", found.derivative)
    if expected == "":
        assert found.derivative in ("not zero", "partly zero", "rounding error")
        assert found.derivative != "partly zero" or (gradient == 0.0).any()


CONVENTIONS = ("padding", "cancelled", "underflow", "zero upstream", "dropped")


@given(st.one_of(graphs(TAME), graphs(WILD)), st.data())
def test_a_derivative_that_is_called_zero_is_zero(graph: Graph, data: st.DataObject) -> None:
    """Each cause is tried out: moving the element leaves the result where it is, to first order."""
    assume(graph.loss.requires_grad)
    tensor = data.draw(st.sampled_from([t for t in topological_order([graph.loss])]))
    found = why(tensor, graph.loss)
    if found.derivative not in ("zero", "partly zero"):
        return
    for cause in found.causes:
        if cause.kind not in CONVENTIONS and not cause.inside and cause.operation != "checkpoint":
            assert any(is_flat(made, cause) for made in topological_order([graph.loss]) if made.node), str(found)


def is_flat(made: ta.Tensor, cause: Cause) -> bool:
    """Whether `made` is the result of the operation of a cause, and does not move with the element that it names."""
    node = made.node
    assert node is not None and cause.place is not None
    operation = node.operation
    for position, (parameter, value) in enumerate(operation.named_inputs(node.inputs)):
        if (operation.name, parameter) != (cause.operation, cause.parameter) or not isinstance(value, ta.Tensor):
            continue
        if value.ndim != len(cause.place) or any(i >= n for i, n in zip(cause.place, value.shape, strict=True)):
            continue
        results = [forward(node, position, cause.place, step) for step in (-1e-6, 0.0, 1e-6)]
        same = np.isclose(results[1], results[1], rtol=0, atol=0, equal_nan=False)
        left, middle, right = (np.where(same, result, 0.0) for result in results)
        slopes = [np.abs(right - middle), np.abs(middle - left), np.abs(right - left)]
        if any(np.max(np.where(np.isfinite(slope), slope, 0.0), initial=0.0) < 1e-10 for slope in slopes):
            return True
    return False


def forward(node: Any, position: int, place: tuple[int, ...], step: float) -> Any:
    operands = [x._data if isinstance(x, ta.Tensor) else x for x in node.inputs]
    operands[position] = operands[position].copy()
    operands[position][place] += step
    result = node.operation.forward(*operands, **node.options)
    return result if node.operation.reference is None else result[0]


@given(wild)
def test_the_first_operation_that_detect_anomaly_stops_at_is_among_the_causes(graph: Graph) -> None:
    """Two ways to the same answer: one watches the backward pass, the other follows it back."""
    assume(graph.loss.requires_grad)
    with detect_anomaly():
        try:
            graph.loss.backward(np.ones(graph.loss.shape))
            return
        except ta.errors.NotFiniteError as error:
            stopped = str(error).split(":")[0]
    leaves = [tensor for tensor in topological_order([graph.loss]) if tensor.node is None]
    found = [why(leaf, graph.loss) for leaf in leaves]
    if any(explanation.derivative == "not finite" for explanation in found):
        made_by = {cause.operation for explanation in found for cause in explanation.causes}
        finite = all(np.isfinite(t.numpy()).all() for t in topological_order([graph.loss]))
        assert stopped in made_by or not finite, (stopped, made_by)


def test_a_long_chain_is_followed_without_recursion() -> None:
    x = variable([1.0])
    y = x
    for _ in range(3000):
        y = y + 0.001
    found: Explanation = why(x, ta.relu(-y))
    assert found.cause is not None and found.cause.kind == "dead relu"
    assert found.cause.path == ("add", "add", "add", "negative")
