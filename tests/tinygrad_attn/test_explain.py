"""The words of errors: which operation, which operands, which axis, what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tinygrad_attn import explain
from tinygrad_attn.errors import AxisRangeError, DtypeError, ShapeError

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(st.lists(shapes, min_size=1, max_size=3))
def test_a_broadcast_clash_is_told_exactly_when_numpy_refuses(given_shapes: list[tuple[int, ...]]) -> None:
    try:
        np.broadcast_shapes(*given_shapes)
        fits = True
    except ValueError:
        fits = False
    assert (explain.broadcast_clash(*given_shapes) is None) == fits


@given(shapes, shapes)
def test_a_matmul_clash_is_told_exactly_when_numpy_refuses(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        np.matmul(np.ones(a), np.ones(b))
        fits = True
    except ValueError:
        fits = False
    assert (explain.matmul_clash(a, b) is None) == fits


def test_operands_are_aligned_with_their_names_and_shapes() -> None:
    x, weight = ta.Tensor(np.ones((2, 3)), name="scores"), np.ones((4, 5))
    linear = ta.OPERATIONS["linear"]
    assert explain.operands(linear, (x, weight, None)) == "    x (scores)  (2, 3)\n    weight      (4, 5)"


def test_a_long_story_reads_well() -> None:
    query = ta.Tensor(np.ones((2, 4, 7, 16)), requires_grad=True, name="query")
    with pytest.raises(ta.errors.ShapeError) as caught:
        query @ np.ones((2, 4, 5, 16))
    assert str(caught.value) == (
        "matmul: the inner axes differ: 16 ≠ 5 on the axis that is summed\n"
        "  the last axes agree: did you mean a @ np.swapaxes(b, -1, -2)?\n"
        "    a (query)  (2, 4, 7, 16)\n"
        "    b          (2, 4, 5, 16)"
    )
    assert caught.value.__cause__ is not None  # NumPy's own words are kept below


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (np.exceptions.AxisError(3, 2), ta.errors.AxisRangeError),
        (IndexError("i"), ta.errors.IndexRangeError),
        (TypeError("t"), ta.errors.DtypeError),
        (ValueError("v"), ta.errors.ShapeError),
    ],
)
def test_every_error_of_numpy_becomes_one_of_ours_and_stays_catchable_as_itself(
    error: Exception, ours: type[Exception]
) -> None:
    told = explain.failure(ta.OPERATIONS["exp"], (np.ones(2),), {}, error)
    assert type(told) is ours
    assert isinstance(told, ta.errors.TinygradAttnError)
    assert isinstance(told, type(error).__mro__[1] if isinstance(error, np.exceptions.AxisError) else type(error))
    assert str(told).startswith("exp: ") and "x  (2,)" in str(told)


def test_the_users_line_is_outside_the_package() -> None:
    assert __file__ in explain.user_line()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: t == np.ones(3), ShapeError, r"equal: .* 2 ≠ 3 on axis -1.*\n.*\n  given \(2,\), \(3,\)"),
        (lambda t: t < "a", DtypeError, "less: these cannot be put together\n  expected numbers, given float64, str"),
        (lambda t: t.argmax(axis=1), AxisRangeError, r"argmax: axis 1 is out of bounds.*\n  given shape \(2,\)"),
    ],
)  # fmt: skip
def test_functions_that_answer_in_plain_values_name_what_does_not_fit(call: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        call(ta.Tensor(np.ones(2)))
    assert (ta.Tensor(np.ones(2)) == None).tolist() == [False, False]  # noqa: E711 (what NumPy answers)


@pytest.mark.parametrize("f", [lambda x: x @ None, lambda x: None @ x, lambda x: np.matmul(x, None)])
def test_a_missing_operand_is_named(f: Any) -> None:
    with pytest.raises(DtypeError, match=r"matmul: [ab] is None"):
        f(ta.Tensor([1.0], requires_grad=True))
