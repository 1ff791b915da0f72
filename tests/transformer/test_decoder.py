from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.transformer.tiny import float64, uneven
from transformer import Decoder, DecoderCache, padding_mask

BATCH, TARGET, SOURCE, D_MODEL = 2, 4, 6, 8
both_norms = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])


def decoder(num_layers: int = 2, seed: int = 0, **options: Any) -> Decoder:
    with float64():
        stack = Decoder(num_layers, D_MODEL, 2, 12, rng=np.random.default_rng(seed), **options)
    return uneven(stack, seed)


def vectors(seed: int, length: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(BATCH, length, D_MODEL))


X, MEMORY = vectors(1, TARGET), vectors(2, SOURCE)


@both_norms
def test_a_layer_is_the_figure_of_the_paper(norm_first: bool) -> None:
    layer = decoder(1, norm_first=norm_first).layers[0]
    h = X
    sublayers = (
        (layer.self_attention_norm, lambda x: layer.self_attention(x, causal=True)),
        (layer.cross_attention_norm, lambda x: layer.cross_attention(x, MEMORY)),
        (layer.feed_forward_norm, layer.feed_forward),
    )
    for norm, sublayer in sublayers:
        h = h + sublayer(norm(h)).numpy() if norm_first else norm(h + sublayer(h).numpy()).numpy()
    np.testing.assert_allclose(layer(X, MEMORY).numpy(), h, rtol=1e-10)


@both_norms
@given(seed=st.integers(0, 10_000), at=st.integers(0, TARGET - 2))
def test_no_token_sees_the_future(norm_first: bool, seed: int, at: int) -> None:
    stack, x = decoder(seed=seed, norm_first=norm_first), vectors(seed, TARGET)
    changed = x.copy()
    changed[:, at + 1 :] = vectors(seed + 1, TARGET)[:, at + 1 :] * 1e3
    np.testing.assert_allclose(
        stack(changed, MEMORY).numpy()[:, : at + 1], stack(x, MEMORY).numpy()[:, : at + 1], rtol=1e-9, atol=1e-12
    )


def test_every_token_sees_its_past_and_the_whole_memory() -> None:
    stack = decoder()
    x, memory = ta.Tensor(X, requires_grad=True), ta.Tensor(MEMORY, requires_grad=True)
    out = stack(x, memory)
    for at in range(TARGET):
        upstream = np.zeros(out.shape)
        upstream[:, at] = np.random.default_rng(at).normal(size=(BATCH, D_MODEL))
        x.zero_grad()
        memory.zero_grad()
        out.backward(upstream)
        reached = np.abs(x.grad).max(axis=(0, 2)) > 0.0
        np.testing.assert_array_equal(reached, np.arange(TARGET) <= at)
        assert (np.abs(memory.grad) > 0.0).all()


def test_the_memory_gets_gradient_from_every_layer() -> None:
    stack = decoder(3)
    upstream = np.random.default_rng(0).normal(size=X.shape)

    def memory_gradient(readers: list[int]) -> np.ndarray:
        """∂/∂memory when only these layers are handed the memory itself, the others a copy of it."""
        memory, copy = ta.Tensor(MEMORY, requires_grad=True), ta.Tensor(MEMORY)
        x = ta.Tensor(X, requires_grad=True)
        for number, layer in enumerate(stack.layers):
            x = layer(x, memory if number in readers else copy)
        x.backward(upstream)
        return memory.grad

    parts = [memory_gradient([number]) for number in range(3)]
    assert all(part.any() for part in parts)
    np.testing.assert_allclose(memory_gradient([0, 1, 2]), sum(parts), rtol=1e-9, atol=1e-12)


@both_norms
def test_padding_in_the_source_is_not_read(norm_first: bool) -> None:
    stack = decoder(norm_first=norm_first)
    short = stack(X, MEMORY[:, :3]).numpy()
    poisoned = MEMORY.copy()
    poisoned[:, 3:] = np.nan
    with np.errstate(invalid="ignore"):
        padded = stack(X, poisoned, memory_mask=padding_mask([3, 3], SOURCE)).numpy()
    np.testing.assert_allclose(padded, short, rtol=1e-9)


@both_norms
@pytest.mark.parametrize("chunks", [[1, 1, 1, 1], [2, 2], [3, 1], [4]], ids=str)
def test_cached_in_any_pieces_equals_all_at_once(norm_first: bool, chunks: list[int]) -> None:
    stack = decoder(norm_first=norm_first)
    whole, whole_weights = stack(X, MEMORY, return_weights=True)
    cache, start, parts = DecoderCache(2), 0, []
    with ta.no_grad():
        for size in chunks:
            out, weights = stack(X[:, start : start + size], MEMORY, cache=cache, return_weights=True)
            parts.append(out.numpy())
            for layer, expected in zip(weights, whole_weights, strict=True):
                rows = slice(start, start + size)
                np.testing.assert_allclose(
                    layer.self_attention.numpy(),
                    expected.self_attention.numpy()[:, :, rows, : start + size],
                    rtol=1e-9,
                    atol=1e-12,
                )
                np.testing.assert_allclose(
                    layer.cross_attention.numpy(), expected.cross_attention.numpy()[:, :, rows], rtol=1e-9
                )
            start += size
    assert cache.length == TARGET
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole.numpy(), rtol=1e-9, atol=1e-12)


def test_the_two_kinds_of_weights_have_names() -> None:
    out, weights = decoder(2)(X, MEMORY, return_weights=True)
    np.testing.assert_allclose(out.numpy(), decoder(2)(X, MEMORY).numpy(), rtol=1e-10)
    for layer in weights:
        assert layer.self_attention.shape == (BATCH, 2, TARGET, TARGET)
        assert layer.cross_attention.shape == (BATCH, 2, TARGET, SOURCE)
        assert not np.triu(layer.self_attention.numpy(), 1).any()
