"""Lengths of paths from a loss to a number, on graphs small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from transformer.lessons.distance_model import KINDS, RecallConfig, draw, untrained
from transformer.lessons.distance_paths import Paths


def leaf(*shape: int) -> ta.Tensor:
    return ta.Tensor(np.random.default_rng(1).uniform(0.5, 1.5, shape), requires_grad=True)


def test_a_chain_is_as_long_as_it_has_operations() -> None:
    x = leaf(2)
    paths = Paths(np.sin(np.cos(np.exp(x))).sum())
    assert_array_equal(paths.shortest(x), [4, 4])
    assert_array_equal(paths.longest(x), [4, 4])
    assert paths.operations(x, (0,)) == ["sum", "sin", "cos", "exp"]


def test_a_way_around_is_the_shortest_path_and_the_detour_the_longest() -> None:
    x = leaf()
    paths = Paths(x + np.tanh(x * x))
    assert paths.shortest(x) == 1 and paths.longest(x) == 3
    assert paths.operations(x, ()) == ["add"]
    assert paths.operations(x, (), longest=True) == ["add", "tanh", "multiply"]


def test_numbers_of_one_tensor_are_told_apart() -> None:
    x = leaf(4)
    total = x[3]
    for index in (2, 1, 0):
        total = total * x[index]
    paths = Paths(total)
    assert_array_equal(paths.shortest(x), [2, 3, 4, 4])
    assert paths.operations(x, (2,)) == ["multiply", "multiply", "multiply", "getitem"]


def test_what_gets_no_gradient_has_no_path() -> None:
    x, other = leaf(3), leaf(3)
    paths = Paths((np.where([True, False, True], x, 0.0) * 2.0)[:2].sum())
    assert_array_equal(paths.shortest(x), [4, np.nan, np.nan])
    assert_array_equal(paths.longest(x), [4, np.nan, np.nan])
    assert_array_equal(paths.shortest(other), [np.nan] * 3)


def test_a_row_of_a_product_is_reached_from_its_own_row_alone() -> None:
    x, weight = leaf(3, 2), leaf(2, 2)
    rows = x @ weight
    paths = Paths(rows[0].sum() + np.exp(rows[2]).sum())
    assert_array_equal(paths.shortest(x), [[4, 4], [np.nan, np.nan], [5, 5]])
    assert_array_equal(paths.shortest(weight), [[4, 4], [4, 4]])
    assert_array_equal(paths.longest(weight), [[5, 5], [5, 5]])


def test_a_masked_key_is_on_no_path() -> None:
    query, key, value = leaf(1, 2), leaf(3, 2), leaf(3, 2)
    with ta.unfused():
        paths = Paths(ta.attention(query, key, value, np.array([[True, False, True]]), None, None, scale=1.0).sum())
        masked = np.isnan(paths.shortest(key)).all(axis=1), np.isnan(paths.shortest(value)).all(axis=1)
    assert_array_equal(masked, [[False, True, False]] * 2)
    assert paths.longest(key)[0, 0] > paths.longest(value)[0, 0]  # a value does not go through softmax


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("longest", [False, True])
def test_a_path_that_is_named_has_the_length_that_was_counted(kind: str, longest: bool) -> None:
    config = RecallConfig(width=4, layers=1)
    model = untrained(kind, config).to(np.float64)
    batch = draw(np.random.default_rng(0), 1, 4)
    with ta.unfused():
        x = ta.Tensor(np.asarray(model.embedding(batch.ids)), requires_grad=True)
        paths = Paths(ta.cross_entropy(model.to_logits(model.read(x)), batch.answer))
        steps = paths.longest(x) if longest else paths.shortest(x)
        for place in np.ndindex(x.shape):
            assert len(paths.operations(x, place, longest=longest)) == steps[place]
