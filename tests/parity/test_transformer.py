"""Our layers compute what PyTorch's compute: values and gradients, in float64, from the same parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from transformer import CausalConfig, CausalLM, Decoder, DecoderLayer, Encoder, EncoderLayer, MultiHeadAttention
from transformer.sublayers import ACTIVATIONS

torch = require("torch")

BATCH, SOURCE, TARGET, D_MODEL, HEADS, D_FF = 3, 6, 5, 8, 2, 12
TOLERANCE = {"rtol": 1e-9, "atol": 1e-11}


@pytest.fixture(autouse=True)
def in_float64() -> Iterator[None]:
    ta.set_default_dtype(np.float64)
    yield
    ta.set_default_dtype(np.float32)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


class Pair:
    """Our parameters beside PyTorch's: copies the values over, and compares the gradients."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Any, Any, slice]] = []

    def tie(self, name: str, ours: Any, theirs: Any, part: slice = slice(None)) -> None:
        with torch.no_grad():
            theirs[part] = torch.from_numpy(ours.numpy().copy())
        self.rows.append((name, ours, theirs, part))

    def linear(self, name: str, ours: Any, theirs: Any) -> None:
        self.tie(f"{name}.weight", ours.weight, theirs.weight)
        self.tie(f"{name}.bias", ours.bias, theirs.bias)

    def attention(self, name: str, ours: Any, theirs: Any) -> None:
        for index, part in enumerate(("to_query", "to_key", "to_value")):
            rows = slice(index * D_MODEL, (index + 1) * D_MODEL)
            self.tie(f"{name}.{part}.weight", getattr(ours, part).weight, theirs.in_proj_weight, rows)
            self.tie(f"{name}.{part}.bias", getattr(ours, part).bias, theirs.in_proj_bias, rows)
        self.linear(f"{name}.to_output", ours.to_output, theirs.out_proj)

    def feed_forward(self, name: str, ours: Any, theirs: Any) -> None:
        self.linear(f"{name}.expand", ours.expand, theirs.linear1)
        self.linear(f"{name}.contract", ours.contract, theirs.linear2)

    def encoder_layer(self, name: str, ours: Any, theirs: Any) -> None:
        self.attention(f"{name}.self_attention", ours.self_attention, theirs.self_attn)
        self.linear(f"{name}.self_attention_norm", ours.self_attention_norm, theirs.norm1)
        self.feed_forward(f"{name}.feed_forward", ours.feed_forward, theirs)
        self.linear(f"{name}.feed_forward_norm", ours.feed_forward_norm, theirs.norm2)

    def decoder_layer(self, name: str, ours: Any, theirs: Any) -> None:
        self.attention(f"{name}.self_attention", ours.self_attention, theirs.self_attn)
        self.linear(f"{name}.self_attention_norm", ours.self_attention_norm, theirs.norm1)
        self.attention(f"{name}.cross_attention", ours.cross_attention, theirs.multihead_attn)
        self.linear(f"{name}.cross_attention_norm", ours.cross_attention_norm, theirs.norm2)
        self.feed_forward(f"{name}.feed_forward", ours.feed_forward, theirs)
        self.linear(f"{name}.feed_forward_norm", ours.feed_forward_norm, theirs.norm3)

    def assert_same_gradients(self, model: ta.nn.Module) -> None:
        assert len(self.rows) == len(list(model.parameters()))  # none was forgotten
        for name, ours, theirs, part in self.rows:
            np.testing.assert_allclose(ours.grad, theirs.grad[part].numpy(), err_msg=name, **TOLERANCE)


def randomised(model: ta.nn.Module, rng: np.random.Generator) -> Any:
    """Parameters away from their tidy first values: biases of zero and gains of one would hide mistakes."""
    for parameter in model.parameters():
        parameter.data = parameter.numpy() + 0.3 * rng.normal(size=parameter.shape)
    return model


def tensors(rng: np.random.Generator, *shape: int) -> tuple[ta.Tensor, Any]:
    values = rng.normal(size=shape)
    return ta.Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)


def assert_equal(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(np.asarray(ours), theirs.detach().numpy(), **TOLERANCE)


def backward(rng: np.random.Generator, ours: Any, theirs: Any) -> None:
    upstream = rng.normal(size=ours.shape)
    ours.backward(upstream)
    theirs.backward(torch.from_numpy(upstream))


def torch_activation(name: str) -> Any:
    import functools

    gelu = torch.nn.functional.gelu
    tanh_form = functools.partial(gelu, approximate="tanh")
    return {"relu": torch.nn.functional.relu, "gelu": gelu, "gelu_tanh": tanh_form, "silu": torch.nn.functional.silu}[
        name
    ]


def torch_layer(kind: str, *, norm_first: bool, activation: str = "relu") -> Any:
    make = {"encoder": torch.nn.TransformerEncoderLayer, "decoder": torch.nn.TransformerDecoderLayer}[kind]
    return make(
        *(D_MODEL, HEADS, D_FF),
        dropout=0.0,
        activation=torch_activation(activation),
        batch_first=True,
        norm_first=norm_first,
        dtype=torch.float64,
    )


def padding(rng: np.random.Generator, length: int) -> np.ndarray:
    """(BATCH, length), True = real; every row has a real token."""
    return np.arange(length) < rng.integers(1, length + 1, size=BATCH)[:, None]


# --- attention -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["self", "cross", "causal", "padded"])
def test_multi_head_attention(kind: str, rng: np.random.Generator) -> None:
    ours = randomised(MultiHeadAttention(D_MODEL, HEADS), rng)
    theirs = torch.nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True, dtype=torch.float64)
    pair = Pair()
    pair.attention("attention", ours, theirs)
    query, torch_query = tensors(rng, BATCH, TARGET, D_MODEL)
    memory, torch_memory = tensors(rng, BATCH, SOURCE, D_MODEL) if kind in ("cross", "padded") else (None, torch_query)
    real = padding(rng, SOURCE) if kind == "padded" else None

    out, weights = ours(
        query,
        memory,
        mask=None if real is None else real[:, None, None, :],
        causal=kind == "causal",
        return_weights=True,
    )
    torch_out, torch_weights = theirs(
        *(torch_query, torch_memory, torch_memory),
        key_padding_mask=None if real is None else torch.from_numpy(~real),
        attn_mask=torch.from_numpy(~ta.causal_mask(TARGET)) if kind == "causal" else None,
        average_attn_weights=False,
    )
    assert_equal(out, torch_out)
    assert_equal(weights, torch_weights)
    backward(rng, out, torch_out)
    pair.assert_same_gradients(ours)
    np.testing.assert_allclose(query.grad, torch_query.grad.numpy(), **TOLERANCE)
    if memory is not None:
        np.testing.assert_allclose(memory.grad, torch_memory.grad.numpy(), **TOLERANCE)


# --- layers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
def test_encoder_layer(norm_first: bool, activation: str, rng: np.random.Generator) -> None:
    ours = randomised(EncoderLayer(D_MODEL, HEADS, D_FF, norm_first=norm_first, activation=activation), rng)
    theirs = torch_layer("encoder", norm_first=norm_first, activation=activation)
    pair = Pair()
    pair.encoder_layer("layer", ours, theirs)
    x, torch_x = tensors(rng, BATCH, SOURCE, D_MODEL)
    real = padding(rng, SOURCE)

    out = ours(x, mask=real[:, None, None, :])
    torch_out = theirs(torch_x, src_key_padding_mask=torch.from_numpy(~real))
    assert_equal(out, torch_out)
    backward(rng, out, torch_out)
    pair.assert_same_gradients(ours)
    np.testing.assert_allclose(x.grad, torch_x.grad.numpy(), **TOLERANCE)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
def test_decoder_layer(norm_first: bool, rng: np.random.Generator) -> None:
    ours = randomised(DecoderLayer(D_MODEL, HEADS, D_FF, norm_first=norm_first), rng)
    theirs = torch_layer("decoder", norm_first=norm_first)
    pair = Pair()
    pair.decoder_layer("layer", ours, theirs)
    x, torch_x = tensors(rng, BATCH, TARGET, D_MODEL)
    memory, torch_memory = tensors(rng, BATCH, SOURCE, D_MODEL)
    real = padding(rng, SOURCE)

    out = ours(x, memory, memory_mask=real[:, None, None, :])
    torch_out = theirs(
        *(torch_x, torch_memory),
        tgt_mask=torch.from_numpy(~ta.causal_mask(TARGET)),
        memory_key_padding_mask=torch.from_numpy(~real),
    )
    assert_equal(out, torch_out)
    backward(rng, out, torch_out)
    pair.assert_same_gradients(ours)
    np.testing.assert_allclose(x.grad, torch_x.grad.numpy(), **TOLERANCE)
    np.testing.assert_allclose(memory.grad, torch_memory.grad.numpy(), **TOLERANCE)


# --- stacks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
def test_encoder_and_decoder_together(norm_first: bool, rng: np.random.Generator) -> None:
    encoder = randomised(Encoder(2, D_MODEL, HEADS, D_FF, norm_first=norm_first), rng)
    decoder = randomised(Decoder(2, D_MODEL, HEADS, D_FF, norm_first=norm_first), rng)

    def last_norm() -> Any:
        return torch.nn.LayerNorm(D_MODEL, dtype=torch.float64) if norm_first else None

    torch_encoder = torch.nn.TransformerEncoder(
        torch_layer("encoder", norm_first=norm_first), 2, norm=last_norm(), enable_nested_tensor=False
    )
    torch_decoder = torch.nn.TransformerDecoder(torch_layer("decoder", norm_first=norm_first), 2, norm=last_norm())
    encoder_pair, decoder_pair = Pair(), Pair()
    for number in range(2):
        encoder_pair.encoder_layer(f"encoder.{number}", encoder.layers[number], torch_encoder.layers[number])
        decoder_pair.decoder_layer(f"decoder.{number}", decoder.layers[number], torch_decoder.layers[number])
    if norm_first:
        encoder_pair.linear("encoder.norm", encoder.norm, torch_encoder.norm)
        decoder_pair.linear("decoder.norm", decoder.norm, torch_decoder.norm)
    source, torch_source = tensors(rng, BATCH, SOURCE, D_MODEL)
    target, torch_target = tensors(rng, BATCH, TARGET, D_MODEL)
    real = padding(rng, SOURCE)
    mask, torch_mask = real[:, None, None, :], torch.from_numpy(~real)

    out = decoder(target, encoder(source, mask=mask), memory_mask=mask)
    torch_memory = torch_encoder(torch_source, src_key_padding_mask=torch_mask)
    torch_out = torch_decoder(
        *(torch_target, torch_memory),
        tgt_mask=torch.from_numpy(~ta.causal_mask(TARGET)),
        memory_key_padding_mask=torch_mask,
    )
    assert_equal(out, torch_out)
    backward(rng, out, torch_out)
    encoder_pair.assert_same_gradients(encoder)
    decoder_pair.assert_same_gradients(decoder)
    np.testing.assert_allclose(source.grad, torch_source.grad.numpy(), **TOLERANCE)
    np.testing.assert_allclose(target.grad, torch_target.grad.numpy(), **TOLERANCE)


def test_a_decoder_only_model_with_tied_embeddings(rng: np.random.Generator) -> None:
    config = CausalConfig(vocab=11, d_model=D_MODEL, num_heads=HEADS, d_ff=D_FF, layers=2, dropout=0.0, max_length=9)
    ours = randomised(CausalLM(config), rng)
    ids = rng.integers(0, 11, size=(BATCH, TARGET))
    target = rng.integers(0, 11, size=(BATCH, TARGET))

    stack = torch.nn.TransformerEncoder(
        torch_layer("encoder", norm_first=True, activation="gelu_tanh"),
        2,
        norm=torch.nn.LayerNorm(D_MODEL, dtype=torch.float64),
        enable_nested_tensor=False,
    )
    tokens = torch.nn.Parameter(torch.empty(11, D_MODEL, dtype=torch.float64))
    positions = torch.nn.Parameter(torch.empty(9, D_MODEL, dtype=torch.float64))
    pair = Pair()
    pair.tie("tokens", ours.embedding.tokens.weight, tokens)
    pair.tie("positions", ours.embedding.positions.weight, positions)
    for number in range(2):
        pair.encoder_layer(f"layer.{number}", ours.decoder.layers[number], stack.layers[number])
    pair.linear("norm", ours.decoder.norm, stack.norm)

    loss = ta.cross_entropy(ours(ids), target)
    x = tokens[torch.from_numpy(ids)] * D_MODEL**0.5 + positions[:TARGET]
    logits = stack(x, mask=torch.from_numpy(~ta.causal_mask(TARGET))) @ tokens.T
    torch_loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 11), torch.from_numpy(target.reshape(-1)))
    np.testing.assert_allclose(loss.item(), torch_loss.item(), rtol=1e-12)
    loss.backward()
    torch_loss.backward()
    pair.assert_same_gradients(ours)
