"""Randomness: one generator, repeatable, and a state that is plain data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn import rng
from tinygrad_attn.errors import DtypeError


def test_the_same_seed_gives_the_same_numbers() -> None:
    ta.manual_seed(7)
    first = ta.default_rng().random(5)
    ta.manual_seed(7)
    assert_array_equal(ta.default_rng().random(5), first)
    ta.manual_seed(8)
    assert (ta.default_rng().random(5) != first).any()


def test_what_draws_without_a_generator_draws_from_the_shared_one() -> None:
    x = np.ones((4, 4))
    ta.manual_seed(0)
    first, second = ta.dropout(x, 0.5), ta.dropout(x, 0.5)
    assert (first != second).any()
    ta.manual_seed(0)
    assert_array_equal(ta.dropout(x, 0.5), first)


def test_a_generator_of_ones_own_leaves_the_shared_one_alone() -> None:
    ta.manual_seed(0)
    expected = ta.default_rng().random()
    ta.manual_seed(0)
    own = ta.dropout(np.ones(8), 0.5, rng=np.random.default_rng(3))
    assert_array_equal(own, ta.dropout(np.ones(8), 0.5, rng=np.random.default_rng(3)))
    assert ta.default_rng().random() == expected


def test_the_state_is_plain_data_and_continues_where_it_was_taken() -> None:
    ta.manual_seed(3)
    ta.default_rng().random(10)
    state = json.loads(json.dumps(rng.get_state()))
    expected = ta.default_rng().random(3)
    ta.manual_seed(99)
    rng.set_state(state)
    assert_array_equal(ta.default_rng().random(3), expected)


def test_a_state_that_was_taken_does_not_move_on() -> None:
    state = rng.get_state()
    before = json.dumps(state)
    ta.default_rng().random(10)
    assert json.dumps(state) == before


@pytest.mark.parametrize("seed", [0, 1, "0", np.random], ids=str)
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: ta.nn.Linear(2, 2, rng=rng),
        lambda rng: ta.nn.GRU(2, 2, rng=rng),
        lambda rng: ta.nn.Dropout(0.5, rng=rng)(np.ones(3)),
        lambda rng: ta.nn.init.normal((2,), rng=rng),
        lambda rng: ta.randn(2, rng=rng),
    ],
    ids=["linear", "gru", "dropout", "init", "randn"],
)
def test_a_seed_is_no_generator_and_not_passed_over(draw: Callable[[Any], Any], seed: Any) -> None:
    with pytest.raises(DtypeError, match=r"rng must be .*\n.*default_rng\(seed\)"):
        draw(seed)
