"""Attention: what a query may not see has no influence on it, in whichever way the weights are computed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tinygrad_attn.ops import scaled_dot_product_attention

WAYS = ("kernel", "weights", "unfused", "second order", "chunked")


def attend(way: str, arrays: list[Any], mask: Any, upstream: Any) -> list[np.ndarray[Any, Any]]:
    """The output and the three gradients, computed in one of `WAYS`."""
    inputs = [ta.Tensor(array, requires_grad=True) for array in arrays]
    with ta.unfused() if way == "unfused" else nullcontext():
        chunk = 1 if way == "chunked" else None
        out = scaled_dot_product_attention(*inputs, mask=mask, return_weights=way == "weights", chunk=chunk)
    out = out[0] if way == "weights" else out
    gradients = ta.gradients(out, inputs, upstream, create_graph=way == "second order")
    return [np.asarray(t) for t in (out, *gradients)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@given(seed=st.integers(0, 50), bad_key=st.integers(0, 2))
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_at_a_key_reaches_only_the_queries_that_see_it(way: str, poison: float, seed: int, bad_key: int) -> None:
    rng = np.random.default_rng(seed)
    query, key, value = (rng.standard_normal((2, 3, 2)) for _ in range(3))
    mask = rng.integers(0, 2, (2, 3, 3)).astype(bool)
    blind = ~mask[..., bad_key]  # queries that do not see the bad key
    upstream = rng.standard_normal((2, 3, 2)) * blind[..., None]
    clean = attend(way, [query, key, value], mask, upstream)
    bad_keys, bad_values = key.copy(), value.copy()
    bad_keys[:, bad_key], bad_values[:, bad_key] = poison, poison
    for arrays in ([query, bad_keys, value], [query, key, bad_values], [query, bad_keys, bad_values]):
        out, d_query, _, _ = attend(way, arrays, mask, upstream)
        np.testing.assert_allclose(out[blind], clean[0][blind], atol=1e-12)
        np.testing.assert_allclose(d_query[blind], clean[1][blind], atol=1e-12)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_at_a_visible_key_is_not_hidden(way: str) -> None:
    query, key, value = np.ones((2, 1)), np.array([[1.0], [np.nan]]), np.ones((2, 1))
    out = attend(way, [query, key, value], np.array([[True, False], [True, True]]), np.ones((2, 1)))[0]
    assert np.isfinite(out[0]).all()
    assert np.isnan(out[1]).all()


@pytest.mark.parametrize("chunk", [None, 1])
def test_a_scale_may_be_learned(chunk: int | None) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, 2)) for _ in range(3)]

    def attended(*operands: Any) -> Any:
        return scaled_dot_product_attention(*operands[:3], scale=operands[3], chunk=chunk)

    learned = attended(*arrays, ta.Tensor(0.7, dtype=np.float64))
    np.testing.assert_allclose(learned.numpy(), attended(*arrays, 0.7), rtol=1e-12)
    ta.gradcheck(attended, *arrays, np.array(0.7), order=2)


@pytest.mark.parametrize("chunk", [None, 1])
def test_infinity_at_a_masked_key_is_no_cause_for_a_warning_but_at_a_visible_key_it_is(chunk: int | None) -> None:
    query, key, value = np.zeros((2, 2)), np.array([[1.0, 1.0], [np.inf, np.inf]]), np.ones((2, 2))
    out = scaled_dot_product_attention(query, key, value, mask=np.array([True, False]), chunk=chunk)
    np.testing.assert_array_equal(out, 1.0)
    with pytest.warns(RuntimeWarning, match="invalid value"):  # 0 · ∞
        scaled_dot_product_attention(query, key, value, chunk=chunk)


@pytest.mark.parametrize("way", WAYS)
def test_a_query_that_sees_nothing_gets_zeros_and_gives_zeros(way: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 3)) for _ in range(3)]
    mask = np.array([[False, False], [True, False]])
    out, d_query, d_key, d_value = attend(way, arrays, mask, np.ones((2, 3)))
    np.testing.assert_array_equal(out[0], 0.0)
    np.testing.assert_array_equal(d_query[0], 0.0)
    np.testing.assert_array_equal(d_key[1], 0.0)
    np.testing.assert_array_equal(d_value, [[1.0] * 3, [0.0] * 3])
