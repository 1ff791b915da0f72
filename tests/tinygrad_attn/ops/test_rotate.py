from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.errors import ShapeError


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 5)])
def test_what_holds_no_pairs_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="the last axis of x holds pairs"):
        ta.rotate_pairs(ta.Tensor(np.ones(shape)), np.zeros(1))


@pytest.mark.parametrize("shape", [(2,), (4,), (1, 2), (2, 3, 6)])
def test_a_quarter_turn_moves_each_pair_to_the_next_axis(shape: tuple[int, ...]) -> None:
    x = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    expected = np.empty_like(x)
    expected[..., 0::2], expected[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    np.testing.assert_allclose(ta.rotate_pairs(x, np.pi / 2), expected, atol=1e-14)


def test_angles_that_do_not_fit_are_named() -> None:
    with pytest.raises(ShapeError, match=r"rotate_pairs"):
        ta.rotate_pairs(ta.Tensor(np.ones((2, 4))), np.zeros(3))
