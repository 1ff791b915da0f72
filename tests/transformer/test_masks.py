from __future__ import annotations

import numpy as np
import pytest

from tinygrad_attn.errors import MaskError, OptionError
from transformer import causal_mask, padding_mask, real_tokens, target_mask
from transformer.masks import first_real_position, token_mask

REAL = np.array([[True, True, False], [True, False, False]])


def test_tokens_are_real_where_they_are_not_padding() -> None:
    ids = np.array([[4, 5, 0], [6, 0, 0]])
    np.testing.assert_array_equal(real_tokens(ids, pad_id=0), padding_mask([2, 1], 3))


def test_a_target_token_sees_itself_and_the_real_ones_before_it() -> None:
    ids = np.array([[1, 5, 6, 0], [1, 4, 0, 0]])
    expected = causal_mask(4) & padding_mask([3, 2], 4)
    mask = target_mask(ids, pad_id=0)
    assert mask.shape == (2, 1, 4, 4)
    np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize("mask", [REAL, REAL[:, None, None, :]], ids=["(batch, length)", "(batch, 1, 1, length)"])
def test_a_mask_may_have_either_shape(mask: np.ndarray) -> None:
    np.testing.assert_array_equal(token_mask("src_mask", (2, 3), mask), padding_mask([2, 1], 3))


def test_lengths_are_another_way_to_say_it() -> None:
    np.testing.assert_array_equal(token_mask("src_mask", (2, 3), None, [2, 1]), padding_mask([2, 1], 3))
    assert token_mask("src_mask", (2, 3)) is None


@pytest.mark.parametrize("dtype", [float, int])
def test_a_mask_of_numbers_is_refused(dtype: type) -> None:
    with pytest.raises(MaskError, match="src_mask must be boolean, True = real token"):
        token_mask("src_mask", (2, 3), REAL.astype(dtype))


@pytest.mark.parametrize("shape", [(3, 2), (2, 4), (3,), (2, 1, 3), (2, 1, 3, 3), (3, 1, 1, 3)])
def test_a_mask_of_another_shape_is_refused_with_the_shapes_that_fit(shape: tuple[int, ...]) -> None:
    with pytest.raises(MaskError, match=r"expected shape \(2, 3\) or \(2, 1, 1, 3\), given \("):
        token_mask("src_mask", (2, 3), np.ones(shape, dtype=bool))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [([0, 3], "row 0 has length 0"), ([1, 4], "must lie in"), ([1], "one length per row"), (2, "one length per row")],
)
def test_impossible_lengths_are_refused(lengths: list[int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        token_mask("src_mask", (2, 3), None, lengths)


def test_mask_and_lengths_together_are_refused() -> None:
    with pytest.raises(OptionError, match="given both"):
        token_mask("src_mask", (2, 3), REAL, [2, 1])


def test_positions_of_a_row_count_from_its_first_real_token() -> None:
    real = np.array([[True, True, True], [False, True, True], [False, False, False], [True, False, True]])
    np.testing.assert_array_equal(first_real_position(real[:, None, None, :]), [0, 1, 0, 0])
