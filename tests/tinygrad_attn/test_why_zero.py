"""why: gradients of zero, each with the operation at fault and its reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.tinygrad_attn.attention_zeros import ZERO_IN_ATTENTION
from tests.tinygrad_attn.explained import TWO, Make, of, silent, uneven, variable  # noqa: F401
from tinygrad_attn import nn
from tinygrad_attn.diagnose import why


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
    "square at 0": (of(np.square, [0.0]), None, "square", "zero slope", ["its rule gives 0 for x here"]),
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
    "recomputed": (of(ta.checkpoint(ta.relu), [-1.0]), None, "relu", "dead relu", ["relu, inside checkpoint"]),
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
    **ZERO_IN_ATTENTION,
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
