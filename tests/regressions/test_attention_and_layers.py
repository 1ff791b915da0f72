"""Attention, masks and layers: faults seen in other engines, by their ids."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.transformer import tiny
from tinygrad_attn import nn
from tinygrad_attn.errors import IndexRangeError, MaskError, OptionError
from transformer import (
    CausalLM,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    KeyValueCache,
    MultiHeadAttention,
    SinusoidalPositions,
    Transformer,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
    sequence_loss,
)


def variable(values: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True)


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


# --- fully masked rows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("return_weights", [False, True])
def test_A1_a_fully_masked_row_gives_zeros_and_finite_gradients(return_weights: bool, dropout: float) -> None:
    q, k, v = variable(drawn(0, 1, 2)), variable(drawn(1, 2, 2)), variable(drawn(2, 2, 2))
    nothing = np.zeros((1, 2), dtype=bool)
    found = scaled_dot_product_attention(q, k, v, mask=nothing, return_weights=return_weights, dropout=dropout)
    out, weights = found if return_weights else (found, None)
    assert_array_equal(out.numpy(), np.zeros((1, 2)))
    if weights is not None:
        assert_array_equal(weights.numpy(), np.zeros((1, 2)))
    out.sum().backward()
    for leaf in (q, k, v):
        assert_array_equal(leaf.grad, np.zeros(leaf.shape))


@pytest.mark.parametrize("norm_first", [False, True])
def test_A2_a_fully_masked_sample_poisons_nobody(norm_first: bool) -> None:
    model = tiny.transformer(norm_first=norm_first)
    src, tgt = np.array([[3, 4, 5], [0, 0, 0]]), np.array([[1, 3], [0, 0]])
    real = src != 0

    sequence_loss(model(src, tgt, src_mask=real), [[3, 2], [0, 0]], pad_id=0).backward()
    together = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    sequence_loss(model(src[:1], tgt[:1], src_mask=real[:1]), [[3, 2]], pad_id=0).backward()
    for name, parameter in model.named_parameters():
        assert np.isfinite(together[name]).all(), name
        assert_allclose(together[name], parameter.grad, rtol=1e-9, atol=1e-13, err_msg=name)


# --- causal masks ----------------------------------------------------------------------------------------------------


def test_A4_which_diagonal_is_meant_must_be_said() -> None:
    q, k, v = np.zeros((2, 1)), np.zeros((4, 1)), np.array([[1.0], [2.0], [3.0], [4.0]])
    assert_allclose(scaled_dot_product_attention(q, k, v, causal="lower_right")[:, 0], [2.0, 2.5])
    assert_allclose(scaled_dot_product_attention(q, k, v, causal="upper_left")[:, 0], [1.0, 1.5])
    assert_allclose(scaled_dot_product_attention(q[:1], k, v, causal="lower_right")[:, 0], [2.5])
    with pytest.raises(OptionError, match="say where the diagonal ends"):
        scaled_dot_product_attention(q, k, v, causal=True)
    with pytest.raises(OptionError, match="say where the diagonal ends"):
        MultiHeadAttention(1, 1)(q[None], k[None], causal=True)


def test_A5_nothing_leaks_from_the_future_in_one_go_or_in_pieces() -> None:
    k, v = np.zeros((3, 1)), variable([[2.0], [10.0], [50.0]])
    out = scaled_dot_product_attention(np.zeros((3, 1)), k, v, causal=True)
    assert_allclose(out.numpy()[:, 0], [2.0, 6.0, 62.0 / 3.0])
    out[0].sum().backward()
    assert_array_equal(v.grad[:, 0], [1.0, 0.0, 0.0])

    pieces = [(0, 1), (1, 3)]
    rows = [
        scaled_dot_product_attention(np.zeros((b - a, 1)), k[:b], v.numpy()[:b], causal="lower_right")
        for a, b in pieces
    ]
    assert_allclose(np.concatenate(rows)[:, 0], [2.0, 6.0, 62.0 / 3.0])

    huge = np.array([[0.0], [2e10], [0.0]])
    first = scaled_dot_product_attention(np.ones((3, 1)), huge, v.numpy(), causal=True)[0]
    assert_array_equal(first, [2.0])


LENGTH, D_MODEL = 6, 8


@pytest.mark.parametrize(
    ("dropout", "return_weights", "masked", "pieces"),
    list(itertools.product([0.0, 0.4], [False, True], [False, True], [None, [LENGTH], [2, 4], [1] * LENGTH])),
)
def test_A7_the_future_never_changes_the_past(
    dropout: float, return_weights: bool, masked: bool, pieces: list[int] | None
) -> None:
    with tiny.float64():
        module = tiny.uneven(MultiHeadAttention(D_MODEL, 2, dropout=dropout, rng=np.random.default_rng(0)))
    extra = drawn(5, 2, 1, LENGTH, LENGTH) < 0.8

    def attend(x: np.ndarray) -> np.ndarray:
        """All outputs, the same weights dropped each time; in pieces if a cache is used."""
        ta.manual_seed(0)
        cache, start, outs = None if pieces is None else KeyValueCache(), 0, []
        for size in pieces or [LENGTH]:
            rows = slice(start, start + size)
            mask = extra[:, :, rows, : start + size] if masked else None
            found = module(x[:, rows], mask=mask, causal=True, cache=cache, return_weights=return_weights)
            outs.append((found[0] if return_weights else found).numpy())
            start += size
        return np.concatenate(outs, axis=1)

    x = drawn(1, 2, LENGTH, D_MODEL)
    with ta.no_grad():
        before = attend(x)
        for at in range(LENGTH - 1):
            changed = x.copy()
            changed[:, at + 1 :] = 100.0 * drawn(at, 2, LENGTH - at - 1, D_MODEL)
            after = attend(changed)
            assert_allclose(after[:, : at + 1], before[:, : at + 1], rtol=1e-10, atol=1e-12)
            assert not np.allclose(after[:, at + 1 :], before[:, at + 1 :])


# --- what a mask is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_A8_a_mask_of_numbers_is_refused_and_the_error_says_what_to_write(dtype: type) -> None:
    x = drawn(0, 1, 3, D_MODEL)
    tril = np.tril(np.ones((3, 3), dtype))
    for call in (
        lambda: MultiHeadAttention(D_MODEL, 2)(x, mask=tril),
        lambda: scaled_dot_product_attention(x, x, x, mask=tril),
        lambda: EncoderLayer(D_MODEL, 2, 8)(x, mask=tril),
        lambda: DecoderLayer(D_MODEL, 2, 8)(x, x, memory_mask=tril),
    ):
        with pytest.raises(MaskError, match=r"True = may attend\n.*write mask != 0 .*bias="):
            call()


def test_A8_true_means_may_attend_everywhere() -> None:
    first_only = np.array([[True, False]])
    q, k, v = np.zeros((1, 2)), np.zeros((2, 2)), np.array([[1.0], [5.0]])
    assert_array_equal(scaled_dot_product_attention(q, k, v, mask=first_only), [[1.0]])
    assert_array_equal(padding_mask([1], 2)[0, 0], first_only)
    assert_array_equal(causal_mask(2)[:1], first_only)


def test_A8_a_triangle_of_ones_is_only_ever_added_on_purpose() -> None:
    zeros = np.zeros((3, 1))
    _, weights = scaled_dot_product_attention(zeros, zeros, zeros, bias=np.tril(np.ones((3, 3))), return_weights=True)
    assert_allclose(weights[0], [0.576, 0.212, 0.212], atol=5e-4)


@pytest.mark.parametrize("shape", [(4, 3), (3,) * 5, (5, 3, 3), (2, 5, 3, 3), (2, 3)])
def test_A20_a_mask_that_does_not_fit_says_which_shapes_would(shape: tuple[int, ...]) -> None:
    x = drawn(0, 2, 3, D_MODEL)
    expected = r"expected \(3, 3\), \(heads, 3, 3\) with heads = 4, \(2, 1, 3, 3\) or \(2, 1, 1, 3\)"
    with pytest.raises(MaskError, match=expected) as caught:
        MultiHeadAttention(D_MODEL, 4)(x, mask=np.ones(shape, dtype=bool))
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [
        scaled_dot_product_attention,
        MultiHeadAttention.forward,
        EncoderLayer.forward,
        Encoder.forward,
        DecoderLayer.forward,
        Decoder.forward,
        Transformer.forward,
        Transformer.encode,
        Transformer.decode,
        CausalLM.forward,
    ],
    ids=lambda function: function.__qualname__,
)
def test_A21_masks_cannot_be_confused_by_their_order(function: Any) -> None:
    masks = [p for name, p in inspect.signature(function).parameters.items() if "mask" in name or name == "bias"]
    assert masks
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in masks)


# --- batches, modes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_first", [False, True])
def test_A10_padding_common_to_the_batch_keeps_its_place_and_modes_agree(norm_first: bool) -> None:
    with tiny.float64():
        stack = tiny.uneven(Encoder(2, D_MODEL, 2, 8, norm_first=norm_first))
    x, mask = drawn(0, 2, 5, D_MODEL), padding_mask([3, 2], 5)
    trained, evaluated = stack.train()(x, mask=mask), stack.eval()(x, mask=mask)
    assert trained.shape == (2, 5, D_MODEL)
    assert_array_equal(trained.numpy(), evaluated.numpy())
    with ta.no_grad():
        assert_array_equal(stack(x, mask=mask).numpy(), evaluated.numpy())


def test_A19_a_sequence_may_be_shorter_than_the_context() -> None:
    model = tiny.causal(max_length=8)
    for length in (1, 5, 8):
        assert model(np.full((1, length), 3)).shape == (1, length, 7)


# --- layers ----------------------------------------------------------------------------------------------------------


def test_A11_the_variance_of_layer_norm_divides_by_n_and_eps_is_inside_the_root() -> None:
    out = nn.LayerNorm(4, dtype=np.float64)(np.array([1.0, 0.0, 0.0, 0.0])).numpy()
    assert_allclose(out, [1.73200462, -0.57733487, -0.57733487, -0.57733487], atol=5e-9)


def test_A13_eps_is_added_to_the_variance_before_the_root() -> None:
    x = np.array([1.0, 3.0])
    out = nn.LayerNorm(2, eps=3.0, dtype=np.float64)(x).numpy()
    assert_allclose(out, [-0.5, 0.5])  # (x − 2) / √(1 + 3)


@pytest.mark.parametrize("norm_first", [False, True])
def test_A11_every_norm_of_the_model_is_that_layer_norm(norm_first: bool) -> None:
    model = tiny.transformer(norm_first=norm_first)
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 2 * 2 + 2 * 3 + 2 * norm_first
    assert {norm.eps for norm in norms} == {1e-5}


def test_A14_an_odd_width_has_positions_too() -> None:
    positions = SinusoidalPositions(5, 10)
    out = positions(ta.Tensor(np.zeros((1, 2, 5)))).numpy()[0]
    assert_allclose(out[0], [0.0, 1.0, 0.0, 1.0, 0.0])
    assert_allclose(out[1], [0.84147098, 0.54030231, 0.02511622, 0.99968454, 0.00063096], atol=5e-9)


def test_A17_dropout_at_its_ends_and_between() -> None:
    x = variable(1.0 + np.arange(1000.0))
    gone = nn.Dropout(1.0)(x)
    assert_array_equal(gone.numpy(), np.zeros(1000))
    gone.sum().backward()
    assert_array_equal(x.grad, np.zeros(1000))

    some = nn.Dropout(0.3)(x)
    survivors = some.numpy() != 0.0
    assert 600 < survivors.sum() < 800
    assert_allclose(some.numpy()[survivors], x.numpy()[survivors] / 0.7)
    x.zero_grad()
    some.sum().backward()
    assert_array_equal(x.grad != 0.0, survivors)  # the same mask backward

    assert_array_equal(nn.Dropout(0.3).eval()(x).numpy(), x.numpy())
    for p in (-0.1, 1.1):
        with pytest.raises(OptionError, match=r"must lie in \[0, 1\]"):
            nn.Dropout(p)


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_A17_a_whole_model_survives_any_dropout(p: float) -> None:
    model = tiny.transformer(dropout=p).train()
    loss = sequence_loss(model([[3, 4]], [[1, 3]]), [[3, 2]])
    loss.backward()
    assert np.isfinite(loss.item())
    assert all(np.isfinite(parameter.grad).all() for parameter in model.parameters() if parameter.grad is not None)


def test_G15_every_parameter_of_every_layer_gets_a_gradient() -> None:
    x, memory = drawn(0, 2, 4, D_MODEL), drawn(1, 2, 3, D_MODEL)
    upstream = drawn(2, 2, 4, D_MODEL)
    with tiny.float64():
        layers = {
            "attention": (MultiHeadAttention(D_MODEL, 2), (x,)),
            "cross-attention": (MultiHeadAttention(D_MODEL, 2), (x, memory)),
            "encoder layer": (EncoderLayer(D_MODEL, 2, 12), (x,)),
            "decoder layer": (DecoderLayer(D_MODEL, 2, 12), (x, memory)),
            "encoder": (Encoder(2, D_MODEL, 2, 12, norm_first=True), (x,)),
            "decoder": (Decoder(2, D_MODEL, 2, 12, norm_first=True), (x, memory)),
        }
    for kind, (layer, inputs) in layers.items():
        tiny.uneven(layer)(*inputs).backward(upstream)
        for name, parameter in layer.named_parameters():
            assert parameter.grad is not None, (kind, name)
            assert np.isfinite(parameter.grad).all(), (kind, name)
            assert parameter.grad.any(), (kind, name)


# --- loss ------------------------------------------------------------------------------------------------------------


def test_A23_where_no_target_counts_the_loss_is_zero_and_teaches_nothing() -> None:
    logits = variable(drawn(0, 2, 3, 5))
    loss = sequence_loss(logits, np.zeros((2, 3), dtype=int), pad_id=0)
    loss.backward()
    assert loss.item() == 0.0
    assert_array_equal(logits.grad, np.zeros((2, 3, 5)))


@pytest.mark.parametrize(("target", "given"), [(-4, "-4"), (5, "5")])
def test_A24_a_target_that_is_no_class_is_named_with_the_range(target: int, given: str) -> None:
    with pytest.raises(IndexRangeError, match=rf"\[0, 5\)(.|\n)*{given}"):
        ta.cross_entropy(variable(drawn(0, 1, 5)), np.array([target]), ignore_index=-1)
