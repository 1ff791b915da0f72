"""The gated recurrent unit: what its gates do, what padding does not do, and what clashing shapes are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import values
from tinygrad_attn.errors import ShapeError

BATCH, LENGTH, SIZE = 3, 4, 2
SURE = 1e3  # σ(±SURE) is 1 or 0


def sequence(seed: int = 0) -> tuple[Any, ...]:
    """projected, hidden, weight, bias."""
    shapes = [(BATCH, LENGTH, 3 * SIZE), (BATCH, SIZE), (3 * SIZE, SIZE), (3 * SIZE,)]
    return tuple(values(*shape, seed=seed) for shape in shapes)


def variables(arrays: tuple[Any, ...]) -> list[ta.Tensor]:
    return [ta.Tensor(x, requires_grad=True) for x in arrays]


# --- one step --------------------------------------------------------------------------------------------------------


def test_by_hand() -> None:
    """One number each: r = z = σ(0) = ½, n = tanh(1 + ½ · 2) = tanh 2, h′ = ½ tanh 2 + ½ · 4."""
    after = ta.gru_step(np.array([0.0, 0.0, 1.0]), np.array([4.0]), np.array([[0.0], [0.0], [0.5]]))
    assert_allclose(after, [0.5 * np.tanh(2.0) + 2.0], rtol=1e-15)


def test_a_closed_update_gate_keeps_the_state_and_lets_the_whole_gradient_through() -> None:
    projected, hidden, weight, bias = (x[:, 0] if x.ndim == 3 else x for x in sequence())
    projected = projected + np.repeat([0.0, SURE, 0.0], SIZE)
    state = ta.Tensor(hidden, requires_grad=True)
    after = ta.gru_step(projected, state, weight, bias)
    assert_array_equal(after.numpy(), hidden)
    upstream = values(BATCH, SIZE, seed=5)
    after.backward(upstream)
    assert_array_equal(state.grad, upstream)


def test_a_closed_reset_gate_forgets_what_was_before() -> None:
    projected, hidden, weight, _ = sequence()
    shut = projected[:, 0] - np.repeat([SURE, SURE, 0.0], SIZE)  # r = 0 and z = 0: h′ = tanh(pₙ)
    assert_allclose(ta.gru_step(shut, hidden, weight), np.tanh(shut[:, 2 * SIZE :]), rtol=1e-15)


def test_extreme_inputs_saturate_without_a_warning() -> None:
    projected, hidden, weight, bias = variables(
        (np.full((2, 3), 1e30), np.full((2, 1), -1e30), np.ones((3, 1)), [0.0] * 3)
    )
    ta.gru_step(projected, hidden, weight, bias).sum().backward()
    assert all(np.isfinite(x.grad).all() for x in (projected, hidden, weight, bias))


# --- a sequence ------------------------------------------------------------------------------------------------------


@given(st.booleans(), st.integers(0, 99))
def test_a_sequence_is_one_step_after_the_other(reverse: bool, seed: int) -> None:
    projected, hidden, weight, bias = sequence(seed)
    states = ta.gru_sequence(projected, hidden, weight, bias, reverse=reverse)
    for t in range(LENGTH)[:: -1 if reverse else 1]:
        hidden = ta.gru_step(projected[:, t], hidden, weight, bias)
        assert_allclose(states[:, t], hidden, rtol=1e-12)


def test_reversed_reading_is_reading_the_reversed() -> None:
    projected, *others = sequence()
    backwards = ta.gru_sequence(projected[:, ::-1], *others)[:, ::-1]
    assert_array_equal(ta.gru_sequence(projected, *others, reverse=True), backwards)


@given(st.lists(st.integers(0, LENGTH), min_size=BATCH, max_size=BATCH), st.booleans())
def test_what_stands_in_the_padding_has_no_influence(lengths: list[int], reverse: bool) -> None:
    projected, *others = sequence()
    poisoned = np.where(np.arange(LENGTH)[:, None] < np.reshape(lengths, (-1, 1, 1)), projected, np.nan)
    results = []
    for given_projection in (projected, poisoned):
        inputs = variables((given_projection, *others))
        out = ta.gru_sequence(*inputs, lengths=lengths, reverse=reverse)
        out.backward(values(*out.shape, seed=1))
        results.append([out.numpy(), *(x.grad for x in inputs)])
    for clean, other in zip(*results, strict=True):
        assert_array_equal(clean, other)


@given(st.lists(st.integers(1, LENGTH), min_size=BATCH, max_size=BATCH), st.booleans())
def test_a_padded_row_is_what_it_is_alone_and_its_state_stays(lengths: list[int], reverse: bool) -> None:
    projected, hidden, weight, bias = sequence()
    states = ta.gru_sequence(projected, hidden, weight, bias, lengths=lengths, reverse=reverse)
    for row, length in enumerate(lengths):
        one = slice(row, row + 1)
        alone = ta.gru_sequence(projected[one, :length], hidden[one], weight, bias, reverse=reverse)
        assert_allclose(states[one, :length], alone, rtol=1e-12)
        kept = hidden[row] if reverse else states[row, length - 1]
        assert_array_equal(states[row, length:], np.broadcast_to(kept, (LENGTH - length, SIZE)))


def test_one_operand_in_float64_is_enough_for_a_result_in_float64() -> None:
    for position in range(4):
        mixed = [ta.Tensor(x, dtype=np.float64 if i == position else np.float32) for i, x in enumerate(sequence())]
        assert ta.gru_sequence(*mixed).dtype == np.float64
        assert ta.gru_step(mixed[0][:, 0], *mixed[1:]).dtype == np.float64


def test_the_lengths_may_be_changed_after_the_forward_pass() -> None:
    inputs, lengths = variables(sequence()), np.array([1, 2, 3])
    out = ta.gru_sequence(*inputs, lengths=lengths)
    lengths[:] = 0
    out.sum().backward()
    assert inputs[0].grad[0, 0].any() and not inputs[0].grad[0, 1:].any()


# --- shapes that clash -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "shape", "words"),
    [
        (0, (BATCH, 5), r"three numbers for each.*\n  expected \(3, 6\), given \(3, 5\)"),
        (1, (), "three numbers for each"),
        (2, (SIZE, 3 * SIZE), r"weight must be \(3 · hidden_size, hidden_size\)\n  expected \(6, 2\), given \(2, 6\)"),
        (3, (1,), r"bias must be \(3 · hidden_size,\)\n  expected \(6,\), given \(1,\)"),
        (3, (7,), r"expected \(6,\), given \(7,\)"),
    ],
)
def test_a_step_says_which_shape_does_not_fit(position: int, shape: tuple[int, ...], words: str) -> None:
    projected, *others = sequence()
    inputs = [projected[:, 0], *others]
    inputs[position] = np.zeros(shape)
    with pytest.raises(ShapeError, match=words):
        ta.gru_step(*inputs)


@pytest.mark.parametrize(
    ("position", "shape", "words"),
    [
        (0, (BATCH, 3 * SIZE), r"projected must be \(batch, length, 3 · hidden_size\)"),
        (0, (BATCH, 0, 3 * SIZE), "at least one step"),
        (0, (BATCH, LENGTH, 7), r"hidden must be \(batch, hidden_size\)"),
        (1, (BATCH + 1, SIZE), r"hidden must be .*\n  expected \(3, 2\), given \(4, 2\)"),
        (2, (1, 1), "weight must be"),
        (3, (SIZE,), "bias must be"),
    ],
)
def test_a_sequence_says_which_shape_does_not_fit(position: int, shape: tuple[int, ...], words: str) -> None:
    inputs = list(sequence())
    inputs[position] = np.zeros(shape)
    with pytest.raises(ShapeError, match=words):
        ta.gru_sequence(*inputs)


def test_one_length_per_row_is_asked_for() -> None:
    with pytest.raises(ShapeError, match=r"lengths must be \(batch,\)\n  expected \(3,\), given \(2,\)"):
        ta.gru_sequence(*sequence(), lengths=[1, 2])
