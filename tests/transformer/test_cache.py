from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tinygrad_attn.errors import DtypeError, GradientError, IndexRangeError, OptionError, ShapeError
from transformer import DecoderCache, KeyValueCache


def entries(length: int, seed: int = 0, batch: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(batch, 3, length, 4)), rng.normal(size=(batch, 3, length, 4))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_it_holds_all_that_was_appended_in_order(lengths: list[int]) -> None:
    cache = KeyValueCache()
    parts = [entries(length, seed) for seed, length in enumerate(lengths)]
    for number, (key, value) in enumerate(parts, start=1):
        all_keys, all_values = cache.append(key, value)
        np.testing.assert_array_equal(all_keys, np.concatenate([k for k, _ in parts[:number]], axis=2))
        np.testing.assert_array_equal(all_values, np.concatenate([v for _, v in parts[:number]], axis=2))
    assert cache.length == sum(lengths)


def test_it_keeps_a_copy() -> None:
    cache, (key, value) = KeyValueCache(), entries(2)
    expected = key.copy()
    cache.append(key, value)
    key[...] = 0.0
    np.testing.assert_array_equal(cache.key, expected)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=5))
def test_rows_can_be_dropped_repeated_and_reordered(rows: list[int]) -> None:
    cache, (key, value) = KeyValueCache(), entries(3)
    cache.append(key, value)
    cache.select(np.array(rows))
    np.testing.assert_array_equal(cache.key, key[rows])
    np.testing.assert_array_equal(cache.value, value[rows])
    more = entries(1, seed=9, batch=len(rows))
    np.testing.assert_array_equal(cache.append(*more)[0], np.concatenate([key[rows], more[0]], axis=2))


def test_selected_rows_do_not_share_memory() -> None:
    cache = KeyValueCache()
    cache.append(*entries(1))
    cache.select([0, 0])
    key, value = entries(1, seed=5)
    cache.append(key, value)
    np.testing.assert_array_equal(cache.key[:, :, 1:], key)


def test_after_a_reset_another_batch_may_come() -> None:
    cache = KeyValueCache()
    cache.append(*entries(3))
    cache.reset()
    assert cache.length == 0
    with pytest.raises(OptionError, match="empty"):
        _ = cache.key
    other = entries(2, batch=5)
    np.testing.assert_array_equal(cache.append(*other)[0], other[0])


def test_another_batch_without_a_reset_is_refused_and_changes_nothing() -> None:
    cache, (key, value) = KeyValueCache(), entries(3)
    cache.append(key, value)
    with pytest.raises(ShapeError, match=r"reset\(\)"):
        cache.append(*entries(1, batch=1))
    assert cache.length == 3
    np.testing.assert_array_equal(cache.key, key)


def test_a_gradient_is_not_lost_in_silence() -> None:
    key, value = (ta.Tensor(array, requires_grad=True) for array in entries(2))
    with pytest.raises(GradientError, match="no_grad"):
        KeyValueCache().append(key, value)
    with ta.no_grad():
        KeyValueCache().append(key * 1.0, value * 1.0)


def test_the_caches_of_a_decoder_move_together() -> None:
    cache = DecoderCache(2)
    assert cache.length == 0
    for number, layer in enumerate(cache.layers):
        layer.self_attention.append(*entries(2, seed=number))
        layer.cross_attention.append(*entries(5, seed=number + 10))
    assert cache.length == 2
    cache.select([1, 1, 0])
    for number, layer in enumerate(cache.layers):
        np.testing.assert_array_equal(layer.self_attention.key, entries(2, seed=number)[0][[1, 1, 0]])
        np.testing.assert_array_equal(layer.cross_attention.value, entries(5, seed=number + 10)[1][[1, 1, 0]])
    cache.reset()
    assert cache.length == 0
    assert all(layer.cross_attention.length == 0 for layer in cache.layers)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([2], IndexRangeError),
        ([-1], IndexRangeError),
        ([True, False], DtypeError),
        ([0.0], DtypeError),
        (1, ShapeError),
        ([[0, 1]], ShapeError),
    ],
    ids=str,
)
def test_rows_that_are_none_are_refused_and_change_nothing(rows: Any, error: type[Exception]) -> None:
    cache, (key, value) = KeyValueCache(), entries(3, batch=2)
    cache.append(key, value)
    with pytest.raises(error, match="rows to keep"):
        cache.select(rows)
    np.testing.assert_array_equal(cache.key, key)


def test_no_row_at_all_may_be_kept() -> None:
    cache = KeyValueCache()
    cache.append(*entries(3, batch=2))
    cache.select([])
    assert cache.key.shape[0] == 0 and cache.length == 3


def test_a_key_without_a_value_is_refused_and_changes_nothing() -> None:
    cache, (key, value) = KeyValueCache(), entries(3)
    cache.append(key, value)
    with pytest.raises(ShapeError, match="one value per key"):
        cache.append(key, value[..., :2, :])
    assert cache.length == 3
    np.testing.assert_array_equal(cache.value, value)


def test_numbers_of_higher_precision_are_not_rounded() -> None:
    cache, (key, value) = KeyValueCache(), entries(2)
    cache.append(key.astype(np.float32), value.astype(np.float32))
    both = cache.append(key / 3.0, value / 3.0)
    np.testing.assert_array_equal(both[0][:, :, 2:], key / 3.0)
    np.testing.assert_array_equal(both[1][:, :, :2], value.astype(np.float32))


@pytest.mark.parametrize("layers", [0, -1, 2.0, None])
def test_a_decoder_has_layers(layers: Any) -> None:
    with pytest.raises(OptionError, match="num_layers must be a positive integer"):
        DecoderCache(layers)


def test_a_step_that_was_interrupted_between_two_layers_is_noticed() -> None:
    cache = DecoderCache(2)
    cache.layers[0].self_attention.append(*entries(1))
    with pytest.raises(OptionError, match=r"layers hold \[1, 0\] tokens\n  call reset\(\)"):
        _ = cache.length
    cache.reset()
    assert cache.length == 0
