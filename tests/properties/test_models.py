"""Whole layers and a whole Transformer against central differences: every element of every parameter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import nn
from transformer import MultiHeadAttention, Transformer, TransformerConfig
from transformer.decoder import DecoderLayer
from transformer.encoder import EncoderLayer

RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def in_float64() -> Iterator[None]:
    """Parameters that are made inside are float64; a smooth activation, since relu has kinks."""
    before = ta.get_default_dtype()
    ta.set_default_dtype(np.float64)
    yield
    ta.set_default_dtype(before)


def uneven(module: Any) -> list[Any]:
    """The parameters of a module, moved away from the ones and zeros that layers begin with."""
    parameters = list(module.parameters())
    for parameter in parameters:
        parameter.data += RNG.normal(scale=0.1, size=parameter.shape)
    return parameters


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_is_right_in_first_and_second_order(norm_first: bool) -> None:
    layer = EncoderLayer(4, 2, 3, norm_first=norm_first, activation="gelu_tanh")
    mask = np.array([[True, True, False], [True, True, True], [False, True, True]])
    report = ta.gradgradcheck(layer, RNG.normal(size=(1, 3, 4)), mask=mask, parameters=uneven(layer))
    assert len({check.name for check in report.checks}) == 18  # x, 16 parameters, dy


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_decoder_layer_sends_gradients_to_the_memory_too(norm_first: bool) -> None:
    layer = DecoderLayer(4, 2, 3, norm_first=norm_first, activation="gelu_tanh")
    x, memory = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 2, 4))
    report = ta.gradcheck(layer, x, memory, parameters=uneven(layer))
    assert [check.name for check in report.checks][:2] == ["x", "memory"]


def test_self_attention_adds_what_comes_through_query_key_and_value() -> None:
    attention = MultiHeadAttention(4, 2)
    ta.gradgradcheck(attention, RNG.normal(size=(1, 3, 4)), parameters=uneven(attention))


@pytest.mark.parametrize("module", [nn.LayerNorm(3), nn.Linear(3, 2)], ids=["layer_norm", "linear"])
def test_a_layer_made_in_float32_is_refused_with_the_parameter_s_name(module: Any) -> None:
    parameters = [p for p in module.parameters() if p.dtype == np.float32]
    assert parameters
    with pytest.raises(ta.errors.CheckError, match="float32"):
        ta.gradcheck(module, np.ones((2, 3)), parameters=parameters)


def test_a_whole_transformer_with_tied_embeddings_learns_from_the_right_gradients() -> None:
    config = TransformerConfig(
        source_vocab=5,
        target_vocab=5,
        d_model=4,
        num_heads=2,
        d_ff=3,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.0,
        activation="gelu_tanh",
        max_length=4,
        tie_embeddings=True,
        share_embeddings=True,
    )
    model = Transformer(config)
    source, target = np.array([[1, 2, 3], [4, 4, 1]]), np.array([[1, 3], [2, 4]])

    def loss() -> Any:
        logits = model(source, target, src_lengths=[3, 2])
        return ta.cross_entropy(logits, np.array([[3, 2], [4, 2]]), label_smoothing=0.1)

    report = ta.gradcheck(loss, parameters=uneven(model))
    assert report.elements == sum(parameter.size for parameter in model.parameters())
    assert report.max_relative_error < 1e-6
