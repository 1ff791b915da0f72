"""Dropout: its mask, what it refuses, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import Tensor
from tinygrad_attn.errors import OptionError

ONES = np.ones(4000)


@pytest.mark.parametrize("p", [0.25, 0.5, 0.9])
def test_what_is_kept_is_scaled_so_that_the_mean_stays(p: float) -> None:
    y = ta.dropout(ONES, p, rng=np.random.default_rng(0))
    assert set(np.unique(y)) == {0.0, 1.0 / (1.0 - p)}
    assert np.mean(y == 0.0) == pytest.approx(p, abs=0.05)


def test_half_is_dropped_unless_something_else_is_said() -> None:
    np.testing.assert_array_equal(
        ta.dropout(ONES, rng=np.random.default_rng(0)), ta.dropout(ONES, 0.5, rng=np.random.default_rng(0))
    )


def test_all_is_dropped_for_1() -> None:
    assert not ta.dropout(ONES, 1.0).any()


@pytest.mark.parametrize("p", [-0.1, 1.1, -1.0, 2.0])
def test_what_is_no_probability_is_refused(p: float) -> None:
    with pytest.raises(OptionError, match=r"must lie in \[0, 1\]"):
        ta.dropout(ONES, p)


def test_an_array_stays_an_array() -> None:
    assert type(ta.dropout(ONES)) is np.ndarray
    assert type(ta.dropout(Tensor(ONES))) is Tensor


def test_without_training_and_without_probability_nothing_is_done() -> None:
    x = Tensor(ONES)
    assert ta.dropout(x, 0.5, training=False) is x
    assert ta.dropout(x, 0.0) is x
