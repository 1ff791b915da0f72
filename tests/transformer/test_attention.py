from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.transformer.tiny import float64, numeric_gradient, uneven
from tinygrad_attn.errors import MaskError, OptionError, ShapeError
from transformer import KeyValueCache, MultiHeadAttention, causal_mask

BATCH, QUERIES, KEYS, D_MODEL, HEADS = 2, 3, 5, 8, 2


def attention(seed: int = 0, **options: Any) -> MultiHeadAttention:
    with float64():
        module = MultiHeadAttention(D_MODEL, HEADS, rng=np.random.default_rng(seed), **options)
    return uneven(module, seed)


def sequence(seed: int, length: int, batch: int = BATCH) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(batch, length, D_MODEL))


seeds = st.integers(0, 10_000)


@given(seeds, st.booleans())
def test_it_is_each_head_by_itself_joined_by_the_output_map(seed: int, masked: bool) -> None:
    module, query, memory = attention(seed), sequence(seed + 1, QUERIES), sequence(seed + 2, KEYS)
    mask = np.random.default_rng(seed).random((BATCH, 1, QUERIES, KEYS)) < 0.7 if masked else None
    q = query @ module.to_query.weight.numpy().T + module.to_query.bias.numpy()
    k = memory @ module.to_key.weight.numpy().T + module.to_key.bias.numpy()
    v = memory @ module.to_value.weight.numpy().T + module.to_value.bias.numpy()
    d_head = D_MODEL // HEADS
    heads, weights = [], []
    for head in range(HEADS):
        part = slice(head * d_head, (head + 1) * d_head)
        scores = q[..., part] @ np.swapaxes(k[..., part], -1, -2) / np.sqrt(d_head)
        e = np.exp(scores) * (1.0 if mask is None else mask[:, 0])
        p = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
        heads.append(p @ v[..., part])
        weights.append(p)
    expected = np.concatenate(heads, axis=-1) @ module.to_output.weight.numpy().T + module.to_output.bias.numpy()

    out, seen = module(query, memory, mask=mask, return_weights=True)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(seen.numpy(), np.stack(weights, axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(module(query, memory, mask=mask).numpy(), expected, rtol=1e-9, atol=1e-12)


def test_self_attention_is_cross_attention_to_oneself() -> None:
    module, x = attention(), sequence(1, QUERIES)
    np.testing.assert_array_equal(module(x).numpy(), module(x, x).numpy())


def test_cross_attention_takes_queries_from_one_side_and_keys_and_values_from_the_other() -> None:
    module = attention()
    query, memory = (ta.Tensor(sequence(n, length), requires_grad=True) for n, length in ((1, QUERIES), (2, KEYS)))
    out, weights = module(query, memory, return_weights=True)
    assert out.shape == (BATCH, QUERIES, D_MODEL)
    assert weights.shape == (BATCH, HEADS, QUERIES, KEYS)
    # The values alone decide what is read: with the keys' map at zero every weight is 1/KEYS, whatever the query.
    module.to_key.weight.data = np.zeros((D_MODEL, D_MODEL))
    mean = module.to_value(memory.numpy()).numpy().mean(axis=1, keepdims=True)
    expected = np.broadcast_to(module.to_output(mean).numpy(), out.shape)
    np.testing.assert_allclose(module(query, memory).numpy(), expected, rtol=1e-9)


@given(seeds)
def test_self_attention_without_positions_does_not_see_the_order(seed: int) -> None:
    module, x = attention(seed), sequence(seed, KEYS)
    order = np.random.default_rng(seed).permutation(KEYS)
    np.testing.assert_allclose(module(x[:, order]).numpy(), module(x).numpy()[:, order], rtol=1e-9, atol=1e-12)


@given(seeds)
def test_the_order_of_the_memory_does_not_matter(seed: int) -> None:
    module, query, memory = attention(seed), sequence(seed, QUERIES), sequence(seed + 1, KEYS)
    order = np.random.default_rng(seed).permutation(KEYS)
    np.testing.assert_allclose(module(query, memory[:, order]).numpy(), module(query, memory).numpy(), rtol=1e-9)


@given(seeds, st.sampled_from([1e9, np.inf, np.nan]), st.booleans())
def test_what_stands_at_a_masked_key_has_no_influence(seed: int, poison: float, return_weights: bool) -> None:
    module = attention(seed)
    query, memory = ta.Tensor(sequence(seed, QUERIES), requires_grad=True), sequence(seed + 1, KEYS)
    real = np.arange(KEYS) < np.random.default_rng(seed).integers(1, KEYS + 1, size=BATCH)[:, None]
    gradients, outputs = [], []
    for fill in (0.0, poison):
        filled = ta.Tensor(np.where(real[..., None], memory, fill), requires_grad=True)
        with np.errstate(invalid="ignore"):
            out = module(query, filled, mask=real[:, None, None, :], return_weights=return_weights)
        out = out[0] if return_weights else out
        query.zero_grad()
        with np.errstate(invalid="ignore"):
            out.backward(np.ones(out.shape))
        outputs.append(out.numpy())
        gradients.append(query.grad)
    np.testing.assert_array_equal(outputs[0], outputs[1])
    np.testing.assert_array_equal(gradients[0], gradients[1])


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_query_that_may_see_nothing_reads_zeros(return_weights: bool, dropout: float) -> None:
    module = attention(dropout=dropout)
    query = ta.Tensor(sequence(1, QUERIES), requires_grad=True)
    mask = np.ones((QUERIES, KEYS), dtype=bool)
    mask[1] = False
    out = module(query, sequence(2, KEYS), mask=mask, return_weights=return_weights)
    out, weights = out if return_weights else (out, None)
    only_bias = np.broadcast_to(module.to_output.bias.numpy(), (BATCH, D_MODEL))
    np.testing.assert_array_equal(out.numpy()[:, 1], only_bias)
    if weights is not None:
        assert not weights.numpy()[:, :, 1].any()
    out.backward(np.ones(out.shape))
    assert not query.grad[:, 1].any()
    assert all(np.isfinite(p.grad).all() for p in module.parameters())


# --- dropout ---------------------------------------------------------------------------------------------------------


def test_weights_are_dropped_in_training_only() -> None:
    module, x = attention(dropout=0.5), sequence(1, KEYS)
    trained = module(x).numpy()
    evaluated = module.eval()(x).numpy()
    assert not np.array_equal(trained, evaluated)
    np.testing.assert_array_equal(evaluated, attention()(x).numpy())


def test_dropout_of_zero_changes_nothing_in_training() -> None:
    module, x = attention(dropout=0.0), sequence(1, KEYS)
    np.testing.assert_array_equal(module.train()(x).numpy(), module.eval()(x).numpy())


def test_dropout_of_one_reads_nothing() -> None:
    module, x = attention(dropout=1.0), sequence(1, KEYS)
    np.testing.assert_array_equal(module(x).numpy(), np.broadcast_to(module.to_output.bias.numpy(), x.shape))


# --- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["self", "cross", "causal", "weights"])
def test_gradients_match_central_differences(kind: str) -> None:
    module = attention(3)
    query, memory = ta.Tensor(sequence(1, QUERIES), requires_grad=True), None
    if kind in ("cross", "weights"):
        memory = ta.Tensor(sequence(2, KEYS), requires_grad=True)
    mask = np.random.default_rng(5).random((BATCH, 1, QUERIES, KEYS)) < 0.8 if memory is not None else None
    upstream = np.random.default_rng(4).normal(size=query.shape)
    on_weights = np.random.default_rng(6).normal(size=(BATCH, HEADS, QUERIES, KEYS))

    def loss() -> Any:
        out = module(query, memory, mask=mask, causal=kind == "causal", return_weights=kind == "weights")
        if kind == "weights":  # a loss may look at the weights as well as at what was read
            return (out[0] * upstream).sum() + (out[1] * on_weights).sum()
        return (out * upstream).sum()

    loss().backward()
    leaves = [query, *([] if memory is None else [memory]), *module.parameters()]
    for leaf in leaves:
        numeric = numeric_gradient(lambda: loss().item(), leaf)
        np.testing.assert_allclose(leaf.grad, numeric, rtol=1e-6, atol=1e-8, err_msg=leaf.name)


def test_a_bias_is_added_to_the_scores_and_gets_a_gradient() -> None:
    module, x = attention(), sequence(1, KEYS)
    bias = ta.Tensor(np.zeros((1, HEADS, KEYS, KEYS)), requires_grad=True)
    out = module(x, bias=bias)
    np.testing.assert_array_equal(out.numpy(), module(x).numpy())
    out.backward(np.random.default_rng(0).normal(size=out.shape))
    assert bias.grad.any()
    np.testing.assert_allclose(bias.grad.sum(axis=-1), 0.0, atol=1e-12)  # a softmax does not see what is added to all
    hidden = np.where(causal_mask(KEYS), 0.0, -np.inf)
    np.testing.assert_array_equal(module(x, bias=hidden).numpy(), module(x, causal=True).numpy())


# --- shapes, options, cache ------------------------------------------------------------------------------------------


def test_a_single_sequence_needs_no_batch() -> None:
    module, x = attention(), sequence(1, KEYS)
    np.testing.assert_allclose(module(x[0]).numpy(), module(x).numpy()[0], rtol=1e-12)


def test_heads_must_divide_the_model() -> None:
    with pytest.raises(OptionError, match="given d_model=8, num_heads=3"):
        MultiHeadAttention(8, 3)


@pytest.mark.parametrize("dropout", [-0.1, 1.1, float("nan"), "0.1", True])
def test_dropout_is_a_probability(dropout: Any) -> None:
    with pytest.raises(OptionError, match="probability"):
        MultiHeadAttention(8, 2, dropout=dropout)


def test_masks_cannot_be_given_by_position() -> None:
    with pytest.raises(TypeError):
        attention()(sequence(1, KEYS), sequence(2, KEYS), causal_mask(KEYS))


def test_a_mask_that_does_not_fit_says_what_would() -> None:
    with pytest.raises(MaskError, match=r"scores  \(2, 2, 3, 5\)\n.*mask    \(5, 3\)"):
        attention()(sequence(1, QUERIES), sequence(2, KEYS), mask=np.ones((KEYS, QUERIES), dtype=bool))


def test_a_memory_of_another_batch_is_refused() -> None:
    with pytest.raises(ShapeError, match="leading axes"):
        attention()(sequence(1, QUERIES), sequence(2, KEYS, batch=3))


def test_cached_self_attention_reads_what_uncached_reads() -> None:
    module, x = attention(), sequence(1, KEYS)
    whole = module(x, causal=True).numpy()
    cache = KeyValueCache()
    with ta.no_grad():
        parts = [module(x[:, [t]], causal=True, cache=cache).numpy() for t in range(KEYS)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-9, atol=1e-12)


def test_cached_cross_attention_projects_the_memory_once() -> None:
    module, query, memory = attention(), sequence(1, QUERIES), sequence(2, KEYS)
    cache = KeyValueCache()
    with ta.no_grad():
        first = module(query, memory, cache=cache).numpy()
        key = cache.key.copy()
        module.to_key.weight.data = np.zeros((D_MODEL, D_MODEL))  # would change the keys if they were asked for again
        again = module(query, memory, cache=cache).numpy()
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(cache.key, key)
    assert cache.length == KEYS


def test_a_cache_of_another_memory_is_noticed() -> None:
    module, cache = attention(), KeyValueCache()
    with ta.no_grad():
        module(sequence(1, QUERIES), sequence(2, KEYS), cache=cache)
        with pytest.raises(ShapeError, match="another memory"):
            module(sequence(1, QUERIES), sequence(2, KEYS - 1), cache=cache)


def added_or_allowed(name: str, *shape: int) -> Any:
    """A mask or a bias."""
    drawn = np.random.default_rng(0).normal(size=shape)
    return drawn < 0.5 if name == "mask" else drawn


@pytest.mark.parametrize(("name", "error"), [("mask", MaskError), ("bias", ShapeError)])
def test_three_axes_that_could_mean_batch_or_heads_are_refused(name: str, error: type[Exception]) -> None:
    module, x = attention(), sequence(1, QUERIES)
    given = added_or_allowed(name, BATCH, QUERIES, QUERIES)
    assert BATCH == HEADS
    with pytest.raises(error, match=rf"(?s)batch or the heads.*{name}\[:, None\].*{name}\[None\]"):
        module(x, **{name: given})
    assert module(x, **{name: given[:, None]}).shape == module(x, **{name: given[None]}).shape == x.shape


@pytest.mark.parametrize(("name", "error"), [("mask", MaskError), ("bias", ShapeError)])
def test_three_axes_with_the_batch_first_are_told_what_to_do(name: str, error: type[Exception]) -> None:
    x = sequence(1, QUERIES, batch=3)
    with pytest.raises(error, match=rf"(?s)no axis for the heads.*batch of 3.*{name}\[:, None\]"):
        attention()(x, **{name: added_or_allowed(name, 3, QUERIES, QUERIES)})


@pytest.mark.parametrize("name", ["mask", "bias"])
@pytest.mark.parametrize("batch", [1, 3])
def test_three_axes_that_can_only_mean_heads_are_one_per_head(name: str, batch: int) -> None:
    module, x = attention(), sequence(1, QUERIES, batch=batch)
    given = added_or_allowed(name, HEADS, QUERIES, QUERIES)
    read, same = module(x, **{name: given}), module(x, **{name: given[None]})
    np.testing.assert_array_equal(read.numpy(), same.numpy())


def test_batch_and_heads_in_one_axis_as_in_pytorch_are_told_what_fits() -> None:
    x = sequence(1, QUERIES, batch=3)
    with pytest.raises(ShapeError, match=r"the bias does not fit.*\n(.*\n)*.*\(3, 1, 3, 3\)"):
        attention()(x, bias=np.zeros((3 * HEADS, QUERIES, QUERIES)))


@pytest.mark.parametrize("sizes", [(8, 0), (0, 1), (8, -2), (8, 2.0), (8, True), ("8", 2), (8.0, 2)], ids=str)
def test_sizes_are_whole_numbers(sizes: Any) -> None:
    with pytest.raises(OptionError, match="must be a positive integer"):
        MultiHeadAttention(*sizes)


def test_sequences_may_be_written_as_lists_and_need_two_axes() -> None:
    module = attention()
    np.testing.assert_array_equal(module([[[1.0] * D_MODEL]]).numpy(), module(np.ones((1, 1, D_MODEL))).numpy())
    for sequences in ([np.ones(D_MODEL)], [np.ones((1, D_MODEL)), np.ones(D_MODEL)]):
        with pytest.raises(ShapeError, match=r"(query|memory) must be \(batch, length, d_model\)\n  given \(8,\)"):
            module(*sequences)
