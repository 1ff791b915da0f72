"""Chunked attention: the same function as attention, with memory that grows with the length."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tinygrad_attn.errors import OptionError
from tinygrad_attn.ops.scaled_dot_product import scaled_dot_product_attention


def operands(seed: int, queries: int, keys: int, *, heads: int = 2) -> list[ta.Tensor]:
    rng = np.random.default_rng(seed)
    shapes = [(2, heads, queries, 4), (2, heads, keys, 4), (2, heads, keys, 3)]
    return [ta.Tensor(rng.standard_normal(shape), requires_grad=True) for shape in shapes]


@given(
    seed=st.integers(0, 99),
    queries=st.integers(1, 7),
    keys=st.integers(1, 7),
    chunk=st.integers(1, 8),
    causal=st.sampled_from([False, "lower_right", "upper_left"]),
    masked=st.booleans(),
    biased=st.booleans(),
    dropout=st.sampled_from([0.0, 0.4]),
)
def test_any_chunk_gives_the_same_output_and_gradients(
    seed: int, queries: int, keys: int, chunk: int, causal: Any, masked: bool, biased: bool, dropout: float
) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.integers(0, 2, (2, 1, queries, keys)).astype(bool) if masked else None
    upstream = rng.standard_normal((2, 2, queries, 3))
    answers = []
    for size in (None, chunk):
        inputs = operands(seed, queries, keys)
        bias = ta.Tensor(np.ones((queries, keys)), requires_grad=True) if biased else None
        out = scaled_dot_product_attention(
            *inputs, mask=mask, bias=bias, causal=causal, dropout=dropout, chunk=size, rng=np.random.default_rng(seed)
        )
        wanted = [*inputs, bias] if bias is not None else inputs
        answers.append([out, *ta.gradients(out, wanted, upstream)])
    for whole, in_chunks in zip(*answers, strict=True):
        np.testing.assert_allclose(in_chunks.numpy(), whole.numpy(), atol=1e-12)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 1), (1, 5), (4, 1), (4, 5), (3, 1, 1), (3, 4, 1), (2, 1, 1, 5)])
def test_mask_and_bias_may_have_any_axes_that_broadcast(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    extras = {"mask": rng.random(shape) < 0.7, "bias": rng.standard_normal(shape)}
    for name, extra in extras.items():
        whole, in_chunks = (
            scaled_dot_product_attention(*operands(0, 4, 5, heads=3), **{name: extra}, chunk=chunk)
            for chunk in (None, 3)
        )
        np.testing.assert_allclose(in_chunks.numpy(), whole.numpy(), atol=1e-12)


def test_uniform_scores_average_the_past() -> None:
    """Case A5: Q = K = 0, V = [2, 10, 50]."""
    zeros, value = np.zeros((3, 1)), ta.Tensor([[2.0], [10.0], [50.0]], dtype=np.float64, requires_grad=True)
    out = scaled_dot_product_attention(zeros, zeros, value, causal=True, chunk=2)
    np.testing.assert_allclose(out.numpy()[:, 0], [2.0, 6.0, 62.0 / 3.0])
    first = ta.gradients(out[0, 0], value)
    np.testing.assert_array_equal(first.numpy()[:, 0], [1.0, 0.0, 0.0])


def test_nothing_in_the_future_reaches_a_query_however_large() -> None:
    key = np.array([[0.0], [2e10]])
    out = scaled_dot_product_attention(np.ones((2, 1)), key, np.array([[1.0], [9.0]]), causal=True, chunk=1)
    np.testing.assert_array_equal(out[:, 0], [1.0, 9.0])


def test_memory_grows_with_the_length_not_with_its_square() -> None:
    def peak(length: int, chunk: int | None) -> int:
        inputs = [ta.Tensor(np.ones((length, 8), np.float32), requires_grad=True) for _ in range(3)]
        tracemalloc.start()
        scaled_dot_product_attention(*inputs, causal=True, chunk=chunk).sum().backward()
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(1024, 32) < 2.5 * peak(512, 32)
    assert peak(1024, None) > 3.0 * peak(512, None)
    assert peak(1024, 32) < 0.1 * peak(1024, None)


@pytest.mark.parametrize("options", [{"chunk": 0}, {"chunk": 4, "return_weights": True}])
def test_a_chunk_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="chunk"):
        scaled_dot_product_attention(*operands(0, 2, 2), **options)
