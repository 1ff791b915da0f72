"""Shapes that do not fit a linear layer or an attention: which axis, and what would fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.errors import DtypeError, MaskError, ShapeError
from tinygrad_attn.ops import linear, scaled_dot_product_attention


def zeros(*shape: int) -> ta.Tensor:
    return ta.Tensor(np.zeros(shape), requires_grad=True)


@pytest.mark.parametrize(
    ("operands", "words"),
    [
        ((zeros(2, 3), zeros(4, 5)), "last axis of x must be in_features.*expected 5, given 3"),
        ((zeros(), zeros(4, 5)), "given a single number"),
        ((zeros(2, 3), zeros(3)), r"weight must be \(out_features, in_features\).*given \(3,\)"),
        ((zeros(2, 3), zeros(2, 3, 1)), r"weight must be .*given \(2, 3, 1\)"),
        ((zeros(2, 3), zeros(4, 3), zeros(3)), r"bias must be \(out_features,\).*expected \(4,\), given \(3,\)"),
        ((zeros(2, 3), zeros(4, 3), zeros(1)), r"bias must be \(out_features,\)"),
    ],
)
def test_a_linear_layer_says_which_operand_does_not_fit(operands: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ShapeError, match=f"(?s){words}"):
        linear(*operands)


@pytest.mark.parametrize(
    ("query", "key", "value", "words"),
    [
        ((3,), (2, 3), (2, 3), r"each input needs \(\.\.\., length, d\)"),
        ((2, 3), (2, 4), (2, 4), "same d: 3 ≠ 4"),
        ((2, 4), (2, 3), (2, 3), "same d: 4 ≠ 3"),
        ((2, 3), (5, 3), (4, 3), "one value per key: 5 ≠ 4.*from the decoder"),
        ((2, 3), (0, 3), (0, 3), "nothing to attend to"),
        ((2, 0), (2, 0), (2, 3), "nothing to attend to"),
        ((2, 2, 3), (3, 2, 3), (3, 2, 3), "leading axes"),
    ],
)
def test_attention_says_which_of_the_three_does_not_fit(query: Any, key: Any, value: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=f"(?s){words}"):
        scaled_dot_product_attention(zeros(*query), zeros(*key), zeros(*value))


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.ones((2, 4)), "must be boolean, True = may attend"),
        (np.ones((2, 4), dtype=int), "mask != 0"),
        (np.ones((2, 3), dtype=bool), r"expected \(2, 4\)"),
        (np.ones((4, 2), dtype=bool), r"expected \(2, 4\)"),
        (np.ones((1, 2, 4), dtype=bool), "does not fit"),
    ],
)
def test_a_mask_that_is_no_mask_is_refused(mask: Any, words: str) -> None:
    with pytest.raises(MaskError, match=words):
        scaled_dot_product_attention(zeros(2, 3), zeros(4, 3), zeros(4, 3), mask=mask)


def test_dropout_works_on_plain_arrays_too() -> None:
    ones = np.ones((2, 3))
    out = scaled_dot_product_attention(ones, ones, ones, dropout=0.5, rng=np.random.default_rng(0))
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(np.unique(out * 2), np.unique(np.round(out * 2)))


def test_layers_need_floating_values() -> None:
    with pytest.raises(DtypeError):
        ta.Tensor([1, 2], requires_grad=True)
