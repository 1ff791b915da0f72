from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.transformer.tiny import float64, uneven
from tinygrad_attn.errors import OptionError
from transformer import AddAndNorm, Encoder, EncoderLayer, FeedForward, padding_mask

BATCH, LENGTH, D_MODEL = 2, 5, 8
both_norms = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])


def encoder(num_layers: int = 2, seed: int = 0, **options: Any) -> Encoder:
    with float64():
        stack = Encoder(num_layers, D_MODEL, 2, 12, rng=np.random.default_rng(seed), **options)
    return uneven(stack, seed)


def vectors(seed: int = 1, length: int = LENGTH) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(BATCH, length, D_MODEL))


@both_norms
def test_a_layer_is_the_figure_of_the_paper(norm_first: bool) -> None:
    layer, x = encoder(1, norm_first=norm_first).layers[0], vectors()
    norm1, norm2 = layer.self_attention_norm, layer.feed_forward_norm
    if norm_first:
        h = x + layer.self_attention(norm1(x)).numpy()
        expected = h + layer.feed_forward(norm2(h)).numpy()
    else:
        h = norm1(x + layer.self_attention(x).numpy()).numpy()
        expected = norm2(h + layer.feed_forward(h).numpy()).numpy()
    np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-10)


def test_only_a_pre_norm_stack_needs_a_last_norm() -> None:
    post, pre = encoder(norm_first=False), encoder(norm_first=True)
    assert post.norm is None
    x = vectors()
    before = pre.layers[1](pre.layers[0](x))
    np.testing.assert_array_equal(pre(x).numpy(), pre.norm(before).numpy())


@both_norms
@given(seed=st.integers(0, 10_000))
def test_without_positions_the_encoder_does_not_see_the_order(norm_first: bool, seed: int) -> None:
    stack, x = encoder(seed=seed, norm_first=norm_first), vectors(seed)
    order = np.random.default_rng(seed).permutation(LENGTH)
    np.testing.assert_allclose(stack(x[:, order]).numpy(), stack(x).numpy()[:, order], rtol=1e-8, atol=1e-10)


@both_norms
def test_padding_changes_nothing_at_the_real_tokens(norm_first: bool) -> None:
    stack, x = encoder(norm_first=norm_first), vectors()
    for length in range(1, LENGTH):
        padded = stack(x, mask=padding_mask([length] * BATCH, LENGTH)).numpy()[:, :length]
        np.testing.assert_allclose(padded, stack(x[:, :length]).numpy(), rtol=1e-9, atol=1e-12)


def test_the_weights_of_every_layer_are_handed_out() -> None:
    stack, x = encoder(3), vectors()
    out, weights = stack(x, return_weights=True)
    np.testing.assert_allclose(out.numpy(), stack(x).numpy(), rtol=1e-10)
    assert [w.shape for w in weights] == [(BATCH, 2, LENGTH, LENGTH)] * 3
    for w in weights:
        np.testing.assert_allclose(w.numpy().sum(axis=-1), 1.0, rtol=1e-12)


def test_what_is_recorded_carries_the_path_of_its_module() -> None:
    class Model(ta.nn.Module):
        def __init__(self) -> None:
            self.encoder = encoder()

    model = Model()
    scopes = set()
    todo = [model.encoder(vectors())]
    while todo:
        node = todo.pop().node
        if node is not None:
            scopes.add(node.scope)
            todo.extend(source for source in node.inputs if isinstance(source, ta.Tensor))
    assert "encoder.layers.0.self_attention.to_query" in scopes
    assert "encoder.layers.1.feed_forward.expand" in scopes


# --- feed-forward, Add & Norm ----------------------------------------------------------------------------------------


def test_the_feed_forward_network_sees_one_token_at_a_time() -> None:
    with float64():
        network = uneven(FeedForward(D_MODEL, 12))
    x = vectors()
    alone = np.concatenate([network(x[:, [t]]).numpy() for t in range(LENGTH)], axis=1)
    np.testing.assert_allclose(network(x).numpy(), alone, rtol=1e-10)


def test_an_unknown_activation_is_refused_with_those_that_exist() -> None:
    with pytest.raises(OptionError, match=r"relu, gelu, gelu_tanh, silu\n  given 'gelu_new'"):
        FeedForward(D_MODEL, 12, activation="gelu_new")


def test_post_norm_leaves_every_token_with_mean_zero_and_variance_one() -> None:
    out = AddAndNorm(D_MODEL, norm_first=False).after(ta.Tensor(vectors()), ta.Tensor(vectors(2))).numpy()
    np.testing.assert_allclose(out.mean(axis=-1), 0.0, atol=1e-7)
    np.testing.assert_allclose(out.var(axis=-1), 1.0, rtol=1e-3)


def test_pre_norm_lets_a_token_pass_untouched_where_the_sublayer_adds_nothing() -> None:
    x = vectors()
    box = AddAndNorm(D_MODEL, norm_first=True)
    np.testing.assert_array_equal(box.after(ta.Tensor(x), ta.Tensor(np.zeros_like(x))).numpy(), x)


def test_dropout_works_in_training_and_not_in_evaluation() -> None:
    with float64():
        layer = uneven(EncoderLayer(D_MODEL, 2, 12, dropout=0.5))
    x = vectors()
    assert not np.array_equal(layer(x).numpy(), layer(x).numpy())
    layer.eval()
    np.testing.assert_array_equal(layer(x).numpy(), layer(x).numpy())
