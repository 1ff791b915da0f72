"""The one mask convention: boolean, True = may attend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.masks import check_bias, check_mask

lengths = st.integers(1, 6)


@given(lengths)
def test_a_query_sees_itself_and_the_past_and_nothing_else(length: int) -> None:
    mask = ta.causal_mask(length)
    assert mask.dtype == bool and mask.shape == (length, length)
    for query in range(length):
        assert_array_equal(mask[query], np.arange(length) <= query)


@given(lengths, lengths)
def test_lower_right_makes_the_last_query_see_everything(queries: int, keys: int) -> None:
    mask = ta.causal_mask(queries, keys, align="lower_right")
    assert mask.shape == (queries, keys) and mask[-1].all()
    assert_array_equal(mask, ta.causal_mask(max(queries, keys))[-queries:, -keys:])


@given(lengths, lengths)
def test_upper_left_makes_the_first_query_see_the_first_key_only(queries: int, keys: int) -> None:
    mask = ta.causal_mask(queries, keys, align="upper_left")
    assert_array_equal(mask, ta.causal_mask(max(queries, keys))[:queries, :keys])


@given(lengths, st.integers(0, 5))
def test_decoding_with_a_cache_sees_what_the_whole_sequence_would(new: int, cached: int) -> None:
    whole = ta.causal_mask(cached + new)
    assert_array_equal(ta.causal_mask(new, cached + new, align="lower_right"), whole[cached:])


def test_with_different_lengths_the_alignment_must_be_said() -> None:
    with pytest.raises(ta.errors.OptionError, match="2 queries and 4 keys: say where the diagonal ends"):
        ta.causal_mask(2, 4)
    with pytest.raises(ta.errors.OptionError, match="given 'left'"):
        ta.causal_mask(2, 2, align="left")  # type: ignore[arg-type]
    assert_array_equal(ta.causal_mask(3, 3), ta.causal_mask(3))


@given(st.lists(st.integers(0, 5), max_size=4))
def test_padding_is_hidden_and_what_is_real_is_seen(given_lengths: list[int]) -> None:
    mask = ta.padding_mask(np.array(given_lengths, dtype=np.int64), 5)
    assert mask.dtype == bool and mask.shape == (len(given_lengths), 1, 1, 5)
    assert_array_equal(mask.sum(axis=-1).reshape(-1), given_lengths)
    for row, length in zip(mask[:, 0, 0], given_lengths, strict=True):
        assert row[:length].all() and not row[length:].any()


@pytest.mark.parametrize(
    ("given_lengths", "kind", "words"),
    [
        ([1.0, 2.0], ta.errors.ShapeError, "integers"),
        ([[1, 2]], ta.errors.ShapeError, r"\(1, 2\)"),
        (3, ta.errors.ShapeError, r"\(batch,\)"),
        ([4], ta.errors.OptionError, r"\[0, 3\]\n  given \[4\]"),
        ([-1], ta.errors.OptionError, r"\[0, 3\]"),
    ],
)
def test_lengths_that_cannot_be_are_refused(given_lengths: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        ta.padding_mask(given_lengths, 3)


def test_masks_combine_with_and() -> None:
    both = ta.causal_mask(3) & ta.padding_mask([2, 3], 3)
    assert both.shape == (2, 1, 3, 3)
    assert_array_equal(both[0, 0], [[True, False, False], [True, True, False], [True, True, False]])
    assert_array_equal(both[1, 0], ta.causal_mask(3))


SCORES = (2, 4, 5, 7)  # batch, heads, query_len, key_len


@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (7,), (), (4, 5, 7), (2, 1, 5, 7), (2, 1, 1, 7), SCORES], ids=str)
def test_what_broadcasts_to_the_scores_is_accepted(shape: tuple[int, ...]) -> None:
    check_mask(np.ones(shape, dtype=bool), SCORES)
    check_bias(np.ones(shape), SCORES)


@pytest.mark.parametrize("shape", [(7, 5), (2, 5, 7), (2, 1, 5, 5), (3, 2, 4, 5, 7), (5,)], ids=str)
def test_what_does_not_is_refused_with_what_would(shape: tuple[int, ...]) -> None:
    with pytest.raises(ta.errors.MaskError) as mask_error:
        check_mask(np.ones(shape, dtype=bool), SCORES)
    with pytest.raises(ta.errors.ShapeError) as bias_error:
        check_bias(np.ones(shape), SCORES)
    for words in (str(mask_error.value), str(bias_error.value)):
        assert str(shape) in words and str(SCORES) in words
        assert "(5, 7)" in words and "(2, 1, 5, 7)" in words and "heads = 4" in words


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_only_booleans_are_masks(dtype: Any) -> None:
    with pytest.raises(ta.errors.MaskError, match=r"must be boolean, True = may attend\n.*bias="):
        check_mask(np.ones((5, 7), dtype=dtype), SCORES)


def test_booleans_are_no_bias() -> None:
    with pytest.raises(ta.errors.DtypeError, match="mask="):
        check_bias(np.ones((5, 7), dtype=bool), SCORES)
    with pytest.raises(ta.errors.DtypeError, match="mask="):
        ta.scaled_dot_product_attention(*(np.ones((2, 3)),) * 3, bias=np.ones((2, 2), dtype=bool))


@pytest.mark.parametrize("chunk", [None, 1])
def test_a_bias_does_not_make_the_output_larger_than_the_scores(chunk: int | None) -> None:
    with pytest.raises(ta.errors.ShapeError, match="the bias does not fit"):
        ta.scaled_dot_product_attention(*(np.ones((2, 3)),) * 3, bias=np.zeros((4, 1, 2)), chunk=chunk)


def test_attention_reads_lists_of_numbers() -> None:
    rows, bias = [[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [2.0, 0.0]]
    read = ta.scaled_dot_product_attention(rows, rows, rows, bias=bias)
    arrays = np.array(rows, np.float32)
    expected = ta.scaled_dot_product_attention(arrays, arrays, arrays, bias=np.array(bias, np.float32))
    assert_array_equal(read, expected)
