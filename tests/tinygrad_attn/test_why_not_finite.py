"""why: gradients that are not finite, and the operation that made them so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.tinygrad_attn.explained import TWO, Make, of, silent, variable  # noqa: F401
from tinygrad_attn import nn
from tinygrad_attn.diagnose import detect_anomaly, why


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
    "slope of log too large": (of(np.log, [5e-324]), "log", "overflow", ["keep it above 0"]),
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
