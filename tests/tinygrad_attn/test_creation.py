"""Tensors from a shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta

MAKERS: dict[str, Any] = {
    "zeros": (ta.zeros, np.zeros((2, 3))),
    "ones": (ta.ones, np.ones((2, 3))),
    "full": (lambda shape, **options: ta.full(shape, 2.5, **options), np.full((2, 3), 2.5)),
    "eye": (lambda shape, **options: ta.eye(2, **options), np.eye(2)),
    "randn": (
        lambda shape, **options: ta.randn(shape, rng=np.random.default_rng(3), **options),
        np.random.default_rng(3).standard_normal((2, 3)),
    ),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dtype", [None, np.float64, np.float16])
def test_the_values_are_numpys_in_the_dtype_asked_for(name: str, dtype: Any) -> None:
    make, expected = MAKERS[name]
    made = make((2, 3), dtype=dtype, requires_grad=True, name="w")
    assert made.dtype == (dtype or ta.get_default_dtype())
    assert made.requires_grad and made.is_leaf and made.name == "w"
    np.testing.assert_array_equal(made.numpy(), expected.astype(made.dtype))


def test_random_numbers_follow_the_seed() -> None:
    ta.manual_seed(5)
    first = ta.randn(4)
    ta.manual_seed(5)
    np.testing.assert_array_equal(ta.randn(4).numpy(), first.numpy())


def test_one_number_is_a_length() -> None:
    assert ta.zeros(3).shape == (3,)
    assert ta.ones(()).shape == ()
