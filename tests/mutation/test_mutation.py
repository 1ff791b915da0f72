"""The driver changes what it says it changes, and the list of equivalent mutants speaks of code that stands there."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.mutation.equivalent import EQUIVALENT, Equivalent, reason, tight
from tests.mutation.functions import ROOT, outermost_functions, replace_code, trace_functions
from tinygrad_attn import Tensor

SOFTMAX = "tinygrad_attn/ops/softmax.py"


def slope(function: Any, *values: float, **options: Any) -> list[float]:
    x = Tensor(np.array(values), requires_grad=True)
    function(x, **options)[0].backward()
    return [float(value) for value in x.grad]


def test_code_is_replaced_where_it_lives_and_put_back() -> None:
    source = (ROOT / SOFTMAX).read_text("utf-8")
    right = slope(ta.softmax, 0.0, 0.0)
    try:
        replace_code(SOFTMAX, source.replace("y * (g - np.sum", "y * (g + np.sum"))
        assert slope(ta.softmax, 0.0, 0.0) != right
    finally:
        replace_code(SOFTMAX, source)
    assert slope(ta.softmax, 0.0, 0.0) == right


def test_a_changed_default_reaches_the_operation() -> None:
    path = "tinygrad_attn/ops/activation.py"
    source = (ROOT / path).read_text("utf-8")
    changed = source.replace("negative_slope: float = 0.01", "negative_slope: float = 0.25")
    assert changed != source
    old = ta.leaky_relu.bind, ta.leaky_relu.options, ta.leaky_relu.forward.__kwdefaults__
    try:
        replace_code(path, changed)
        assert slope(ta.leaky_relu, -1.0) == [0.25]
    finally:
        replace_code(path, source)
        ta.leaky_relu.bind, ta.leaky_relu.options, ta.leaky_relu.forward.__kwdefaults__ = old
    assert slope(ta.leaky_relu, -1.0) == [0.01]


def test_functions_say_when_they_are_reached() -> None:
    reached: list[str] = []
    try:
        trace_functions(SOFTMAX, reached.append)
        slope(ta.softmax, 0.0, 1.0)
    finally:
        replace_code(SOFTMAX, (ROOT / SOFTMAX).read_text("utf-8"))
    assert reached == [f"{SOFTMAX}:softmax", f"{SOFTMAX}:softmax.gradient('x')"]


def test_mutants_lie_in_code_and_not_in_words() -> None:
    require("cosmic_ray")
    from tests.mutation.mutants import mutants

    found = mutants(SOFTMAX)
    changes = {(mutant.function, *mutant.lines()) for mutant in found if mutant.function == "softmax.gradient('x')"}
    line = "return y * (g - np.sum(g * y, axis=axis, keepdims=True))"
    assert ("softmax.gradient('x')", line, line.replace("-", "+")) in changes
    assert ("softmax.gradient('x')", line, line.replace("np.sum", "np.mean")) in changes
    assert ("softmax.gradient('x')", line, line.replace("True", "False")) in changes
    assert all(before == line for _, before, _ in changes)


@pytest.mark.parametrize("row", EQUIVALENT, ids=lambda row: f"{row.path}-{row.function}-{row.before}")
def test_an_equivalent_mutant_is_one_of_code_that_still_stands(row: Equivalent) -> None:
    source = (ROOT / "tinygrad_attn" / row.path).read_text("utf-8")
    (node,) = [node for name, node in outermost_functions(ast.parse(source)) if name == row.function]
    lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
    assert any(tight(row.before) in tight(line) for line in lines)
    assert tight(row.before) != tight(row.after)


def test_an_equivalent_mutant_is_known_by_its_text() -> None:
    here = ("tinygrad_attn/ops/products.py", "matrix_power")
    assert reason(*here, "x if n < 0 else y", "x if n < 1 else y")
    assert not reason(*here, "x if n < 0 else y", "x if n < 2 else y")
    assert not reason("tinygrad_attn/ops/index.py", "matrix_power", "n < 0", "n < 1")
