from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.transformer.tiny import float64
from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.ops import rotate_pairs
from transformer import (
    LearnedPositions,
    MultiHeadAttention,
    RotaryPositions,
    SinusoidalPositions,
    rotary_angles,
    sinusoidal_table,
)


def learned(d_model: int = 4, max_length: int = 6) -> LearnedPositions:
    with float64():
        return LearnedPositions(d_model, max_length, rng=np.random.default_rng(0))


@pytest.mark.parametrize("d_model", [1, 2, 5, 8])
def test_the_table_is_the_formula(d_model: int) -> None:
    table = sinusoidal_table(7, d_model)
    for t in range(7):
        for column in range(d_model):
            wave = math.cos if column % 2 else math.sin
            angle = t / 10000 ** (2 * (column // 2) / d_model)
            assert table[t, column] == pytest.approx(wave(angle), abs=1e-12)


def test_how_alike_two_positions_are_depends_on_their_distance_alone() -> None:
    table = sinusoidal_table(40, 16)
    likeness = table @ table.T
    for distance in range(40):
        along = np.diagonal(likeness, distance)
        np.testing.assert_allclose(along, along[0], rtol=1e-10)


@pytest.mark.parametrize("make", [lambda: SinusoidalPositions(4, 6), learned], ids=["sinusoidal", "learned"])
def test_an_offset_continues_where_the_tokens_before_ended(make) -> None:
    positions, x = make(), ta.Tensor(np.random.default_rng(0).normal(size=(2, 6, 4)))
    whole = positions(x).numpy()
    parts = [positions(x[:, :2]).numpy(), positions(x[:, 2:], offset=2).numpy()]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


@pytest.mark.parametrize("make", [lambda: SinusoidalPositions(4, 6), learned], ids=["sinusoidal", "learned"])
def test_each_row_may_have_positions_of_its_own(make) -> None:
    positions, x = make(), ta.Tensor(np.zeros((2, 3, 4)))
    rows = positions(x, positions=[[0, 1, 2], [0, 0, 1]]).numpy()
    usual = positions(x).numpy()[0]
    np.testing.assert_array_equal(rows[0], usual)
    np.testing.assert_array_equal(rows[1], usual[[0, 0, 1]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_tokens_keep_their_dtype(dtype: type) -> None:
    assert SinusoidalPositions(4, 6)(ta.Tensor(np.zeros((1, 3, 4), dtype))).dtype == dtype


def test_waves_are_not_trained_and_not_saved() -> None:
    positions = SinusoidalPositions(4, 6)
    assert positions.num_parameters() == 0
    assert positions.state_dict() == {}


def test_learned_positions_get_the_sum_of_what_arrives_at_them() -> None:
    positions = learned()
    out = positions(ta.Tensor(np.zeros((3, 2, 4))), offset=1)
    upstream = np.random.default_rng(0).normal(size=out.shape)
    out.backward(upstream)
    np.testing.assert_allclose(positions.weight.grad[1:3], upstream.sum(axis=0), rtol=1e-12)
    assert not positions.weight.grad[[0, 3, 4, 5]].any()


@pytest.mark.parametrize(("length", "offset"), [(7, 0), (2, 5)])
def test_a_sequence_beyond_the_limit_is_refused(length: int, offset: int) -> None:
    with pytest.raises(ShapeError, match="position 6 of at most 5"):
        SinusoidalPositions(4, 6)(ta.Tensor(np.zeros((1, length, 4))), offset=offset)


def test_the_last_position_can_be_used() -> None:
    assert SinusoidalPositions(4, 6)(ta.Tensor(np.zeros((1, 6, 4)))).shape == (1, 6, 4)


@pytest.mark.parametrize(("d_model", "max_length"), [(0, 6), (4, 0)])
def test_sizes_must_be_positive(d_model: int, max_length: int) -> None:
    with pytest.raises(OptionError, match="must be a positive integer"):
        SinusoidalPositions(d_model, max_length)


# --- rotary --------------------------------------------------------------------------------------------------------


def turned(x: Any, places: Any) -> Any:
    return rotate_pairs(x, rotary_angles(places, x.shape[-1]))


def test_a_turn_is_a_multiplication_by_a_complex_number_of_length_one() -> None:
    rng = np.random.default_rng(0)
    x, places = rng.normal(size=(2, 5, 6)), np.arange(3, 8)
    angles = places[:, None] / 10000.0 ** (np.arange(3) / 3)  # not reduced to less than 2π
    expected = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    found = turned(x, places)
    np.testing.assert_allclose(found[..., 0::2] + 1j * found[..., 1::2], expected, rtol=1e-12)


@given(query=st.integers(0, 400), key=st.integers(0, 400), shift=st.integers(0, 100))
def test_a_score_depends_on_the_distance_alone(query: int, key: int, shift: int) -> None:
    q, k = np.random.default_rng(1).normal(size=(2, 1, 8))
    here = np.sum(turned(q, [query]) * turned(k, [key]))
    there = np.sum(turned(q, [query + shift]) * turned(k, [key + shift]))
    assert there == pytest.approx(here, rel=1e-9, abs=1e-9)


def test_at_place_zero_nothing_is_turned_and_nowhere_a_length_changes() -> None:
    x = np.random.default_rng(2).normal(size=(4, 6))
    np.testing.assert_array_equal(turned(x, np.zeros(4)), x)
    np.testing.assert_allclose(np.linalg.norm(turned(x, np.arange(4)), axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-12)


def test_single_precision_keeps_the_angle_of_a_late_place() -> None:
    x = np.random.default_rng(3).normal(size=(1, 4))
    late = rotary_angles([100_000], 4)
    single = rotate_pairs(x.astype(np.float32), late.astype(np.float32))
    np.testing.assert_allclose(single, rotate_pairs(x, late), atol=2e-6)


def test_rotary_attention_tells_the_order_of_tokens_and_a_memory_is_refused() -> None:
    attention = MultiHeadAttention(8, 2, rotary=True, rng=np.random.default_rng(0))
    x = ta.Tensor(np.random.default_rng(4).normal(size=(1, 3, 8)))
    first, swapped = attention(x).numpy(), attention(x[:, [1, 0, 2]]).numpy()
    assert np.abs(first[0, 2] - swapped[0, 2]).max() > 1e-4  # without positions they would be equal
    plain = MultiHeadAttention(8, 2, rng=np.random.default_rng(0))
    np.testing.assert_allclose(plain(x).numpy()[0, 2], plain(x[:, [1, 0, 2]]).numpy()[0, 2], rtol=1e-5, atol=1e-6)
    with pytest.raises(OptionError, match="places in one sequence"):
        attention(x, x)
    with pytest.raises(OptionError, match="must be even"):
        MultiHeadAttention(6, 2, rotary=True)


def test_rotary_positions_keep_to_the_limit() -> None:
    with pytest.raises(ShapeError, match="sequence too long"):
        RotaryPositions(4, 6)(ta.Tensor(np.zeros((1, 7, 4))))
