from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.transformer.tiny import float64
from tinygrad_attn.errors import OptionError, ShapeError
from transformer import LearnedPositions, SinusoidalPositions, sinusoidal_table


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
