from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.transformer import tiny
from tinygrad_attn.errors import (
    CheckpointError,
    DtypeError,
    GradientError,
    IndexRangeError,
    MaskError,
    OptionError,
    ShapeError,
)
from transformer import (
    CausalConfig,
    CausalLM,
    Transformer,
    TransformerConfig,
    sequence_loss,
    shift_right,
    sinusoidal_table,
)

SRC = np.array([[3, 4, 5, 6, 7], [8, 3, 0, 0, 0]])
LENGTHS = np.array([5, 2])
TGT = np.array([[1, 3, 4, 5], [1, 6, 0, 0]])
variants = pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_first": True},
        {"positions": "learned"},
        {"positions": "rotary"},
        {"tie_embeddings": True},
        {"activation": "gelu_tanh"},
        {"source_vocab": 7, "share_embeddings": True},
        {"encoder_layers": 1, "decoder_layers": 3, "num_heads": 4},
    ],
    ids=str,
)


def sources(vocabulary: int) -> np.ndarray:
    return np.minimum(SRC, vocabulary - 1)


# --- what the parts are to one another -------------------------------------------------------------------------------


@variants
def test_the_model_is_encode_then_decode(changes: dict[str, Any]) -> None:
    model = tiny.transformer(**changes)
    src = sources(model.config.source_vocab)
    memory = model.encode(src, src_lengths=LENGTHS)
    assert memory.shape == (2, 5, 8)  # one vector per source token, not one for the sentence
    logits = model.decode(TGT, memory, src_lengths=LENGTHS)
    assert logits.shape == (2, 4, 7)
    np.testing.assert_array_equal(model(src, TGT, src_lengths=LENGTHS).numpy(), logits.numpy())


@variants
def test_a_row_alone_equals_the_row_in_a_padded_batch(changes: dict[str, Any]) -> None:
    model = tiny.transformer(**changes)
    src = sources(model.config.source_vocab)
    together = model(src, TGT, src_lengths=LENGTHS).numpy()
    alone = model(src[1:, :2], TGT[1:, :2]).numpy()
    np.testing.assert_allclose(together[1:, :2], alone, rtol=1e-9, atol=1e-12)


@variants
def test_padding_on_the_left_changes_nothing(changes: dict[str, Any]) -> None:
    model = tiny.transformer(**changes)
    src, tgt = sources(model.config.source_vocab)[1:, :2], TGT[1:, :2]
    plain = model(src, tgt).numpy()
    left_src, left_tgt = np.pad(src, ((0, 0), (3, 0))), np.pad(tgt, ((0, 0), (2, 0)))
    padded = model(left_src, left_tgt, src_mask=left_src != 0, tgt_mask=left_tgt != 0).numpy()
    np.testing.assert_allclose(padded[:, 2:], plain, rtol=1e-9, atol=1e-12)


@given(seed=st.integers(0, 10_000), at=st.integers(0, 2))
def test_no_target_token_sees_the_future(seed: int, at: int) -> None:
    model, rng = tiny.transformer(seed % 5), np.random.default_rng(seed)
    changed = TGT.copy()
    changed[:, at + 1 :] = rng.integers(0, 7, size=changed[:, at + 1 :].shape)
    before, after = (model(SRC, tgt, src_lengths=LENGTHS).numpy()[:, : at + 1] for tgt in (TGT, changed))
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)


def test_swapping_two_source_words_matters_because_of_their_positions() -> None:
    model = tiny.transformer()
    assert not np.allclose(model(SRC[:1], TGT[:1]).numpy(), model(SRC[:1, ::-1], TGT[:1]).numpy(), rtol=1e-3)


@pytest.mark.parametrize("cached_layers", [1, 2])
def test_decoding_with_a_cache_equals_decoding_without(cached_layers: int) -> None:
    model = tiny.transformer(decoder_layers=cached_layers)
    memory = model.encode(SRC, src_lengths=LENGTHS)
    whole = model.decode(TGT, memory, src_lengths=LENGTHS).numpy()
    cache = model.new_cache()
    with ta.no_grad():
        parts = [
            model.decode(TGT[:, a:b], memory, src_lengths=LENGTHS, cache=cache).numpy() for a, b in ((0, 2), (2, 4))
        ]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-9, atol=1e-12)
    assert cache.length == 4


def test_a_token_enters_as_its_scaled_vector_and_its_position() -> None:
    model = tiny.transformer()
    table = model.source_embedding.tokens.weight.numpy()
    expected = table[SRC] * np.sqrt(8.0) + sinusoidal_table(5, 8)
    np.testing.assert_allclose(model.source_embedding(SRC).numpy(), expected, rtol=1e-12)


def test_dropout_is_everywhere_where_the_paper_has_it() -> None:
    layer = {"self_attention": 1, "self_attention_norm": 1, "feed_forward": 1, "feed_forward_norm": 1}
    cross = {"cross_attention": 1, "cross_attention_norm": 1}
    places = 2 + 2 * len(layer) + 2 * len(layer | cross)  # two embeddings, two layers on each side
    model = tiny.transformer(dropout=0.5).train()
    masks: set[int] = set()
    todo = [model(SRC, TGT)]
    seen = set()
    while todo:
        node = todo.pop().node
        if node is not None and id(node) not in seen:
            seen.add(id(node))
            for name, source in node.operation.named_inputs(node.inputs):
                if name == "keep" and source is not None:
                    masks.add(id(source))
                elif isinstance(source, ta.Tensor):
                    todo.append(source)
    assert len(masks) == places


def test_a_cache_outside_of_no_grad_is_refused() -> None:
    model = tiny.transformer()
    with pytest.raises(GradientError, match="no_grad"):
        model.decode(TGT, model.encode(SRC), cache=model.new_cache())


def test_weights_come_with_the_logits() -> None:
    model = tiny.transformer()
    memory, looks = model.encode(SRC, src_lengths=LENGTHS, return_weights=True)
    assert [w.shape for w in looks] == [(2, 2, 5, 5)] * 2
    assert not looks[0].numpy()[1, :, :, 2:].any()  # nobody looks at padding
    logits, layers = model.decode(TGT, memory, src_lengths=LENGTHS, return_weights=True)
    np.testing.assert_allclose(logits.numpy(), model(SRC, TGT, src_lengths=LENGTHS).numpy(), rtol=1e-9)
    assert [layer.cross_attention.shape for layer in layers] == [(2, 2, 4, 5)] * 2
    assert not layers[1].cross_attention.numpy()[1, :, :, 2:].any()


# --- gradients -------------------------------------------------------------------------------------------------------


@variants
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_every_parameter_learns(changes: dict[str, Any], dropout: float) -> None:
    model = tiny.transformer(**changes, dropout=dropout).train()
    src = sources(model.config.source_vocab)
    sequence_loss(model(src, TGT, src_lengths=LENGTHS), np.roll(TGT, -1, axis=1), pad_id=0).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert np.isfinite(parameter.grad).all(), name
        assert parameter.grad.any(), name


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_first": True, "tie_embeddings": True, "positions": "learned", "activation": "gelu_tanh"},
        {"positions": "rotary"},
    ],
)
def test_gradients_of_the_whole_model_match_central_differences(changes: dict[str, Any]) -> None:
    sizes = {"d_model": 4, "d_ff": 4, "source_vocab": 5, "target_vocab": 5, "encoder_layers": 1, "decoder_layers": 1}
    model = tiny.transformer(**sizes, max_length=4, **changes)
    src, tgt, target = np.array([[3, 4, 2], [4, 0, 0]]), np.array([[1, 3], [1, 4]]), np.array([[3, 2], [4, 0]])

    def loss() -> Any:
        return sequence_loss(model(src, tgt, src_lengths=[3, 1]), target, pad_id=0)

    loss().backward()
    for name, parameter in model.named_parameters():
        numeric = tiny.numeric_gradient(lambda: loss().item(), parameter)
        np.testing.assert_allclose(parameter.grad, numeric, rtol=2e-5, atol=1e-8, err_msg=name)


def test_a_tied_table_gets_the_sum_of_both_uses() -> None:
    tied = tiny.transformer(tie_embeddings=True)
    table = tied.target_embedding.tokens.weight
    apart = tiny.transformer(tie_embeddings=True)
    apart.load_state_dict(tied.state_dict())
    apart.to_logits.weight = ta.nn.Parameter(table.numpy())
    for model in (tied, apart):
        sequence_loss(model(SRC, TGT), np.roll(TGT, -1, axis=1)).backward()
    both_uses = apart.target_embedding.tokens.weight.grad + apart.to_logits.weight.grad
    np.testing.assert_allclose(table.grad, both_uses, rtol=1e-9, atol=1e-12)


# --- parameters, configuration ---------------------------------------------------------------------------------------


def test_tied_embeddings_are_one_object_also_after_loading() -> None:
    model = tiny.transformer(tie_embeddings=True)
    other = tiny.transformer(seed=5, tie_embeddings=True)
    other.load_state_dict(model.state_dict())
    assert other.to_logits.weight is other.target_embedding.tokens.weight
    assert model.to_logits.bias is None
    names = [name for name, parameter in model.named_parameters() if parameter is model.to_logits.weight]
    assert names == ["target_embedding.tokens.weight"]
    np.testing.assert_array_equal(other(SRC, TGT).numpy(), model(SRC, TGT).numpy())


def test_shared_embeddings_are_one_object() -> None:
    model = tiny.transformer(source_vocab=7, share_embeddings=True, tie_embeddings=True)
    assert model.source_embedding.tokens.weight is model.target_embedding.tokens.weight is model.to_logits.weight


def test_the_same_generator_gives_the_same_model() -> None:
    config = TransformerConfig(source_vocab=9, target_vocab=7, d_model=8, num_heads=2, d_ff=12)
    first, second, other = (Transformer(config, rng=np.random.default_rng(seed)).state_dict() for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not np.array_equal(first["to_logits.weight"], other["to_logits.weight"])


def test_parameters_are_float32_unless_asked_otherwise() -> None:
    model = Transformer(TransformerConfig(source_vocab=9, target_vocab=7, d_model=8, num_heads=2, d_ff=12))
    assert {parameter.dtype for parameter in model.parameters()} == {np.dtype(np.float32)}
    assert model(SRC, TGT).dtype == np.float32


def test_a_configuration_survives_json() -> None:
    config = TransformerConfig(source_vocab=60, target_vocab=14, norm_first=True, dropout=0.0, positions="learned")
    assert TransformerConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert dataclasses.replace(config, d_model=128).d_model == 128


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_model": 0}, "d_model must be an integer ≥ 1"),
        ({"d_model": 64.0}, "d_model must be an integer ≥ 1"),
        ({"encoder_layers": True}, "encoder_layers must be an integer ≥ 1"),
        ({"num_heads": 7}, "num_heads must divide d_model"),
        ({"dropout": 1.5}, "dropout must be a probability"),
        ({"dropout": float("nan")}, "dropout must be a probability"),
        ({"norm_first": 1}, "norm_first must be True or False"),
        ({"activation": "tanh"}, "activation must be one of relu, gelu, gelu_tanh, silu"),
        ({"positions": "relative"}, "positions must be one of sinusoidal, learned, rotary"),
        ({"share_embeddings": True}, "needs one vocabulary"),
    ],
)
def test_an_impossible_configuration_says_why(change: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        TransformerConfig(**{"source_vocab": 9, "target_vocab": 7, **change})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source_vocab": 9}, "missing: target_vocab"),
        ({"source_vocab": 9, "target_vocab": 7, "depth": 2}, "unknown: depth"),
    ],
)
def test_settings_of_something_else_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        TransformerConfig.from_dict(fields)


# --- wrong input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("src", "error", "message"),
    [
        (np.zeros((1, 0), dtype=int), ShapeError, "src: empty sequence"),
        ([[3, 9]], IndexRangeError, r"src: ids must lie in \[0, 9\).*\n  given 9 at position 1 of row 0"),
        ([[3], [-1]], IndexRangeError, "given -1 at position 0 of row 1"),
        ([[3.0]], DtypeError, "ids must be integers"),
        ([3, 4], ShapeError, r"\(batch, length\), given \(2,\); write ids\[None\]"),
        ([[3, 4], [5]], ShapeError, "rows differ in length"),
        (np.full((1, 17), 3), ShapeError, "sequence too long: position 16 of at most 15"),
    ],
)
def test_a_source_that_cannot_be_read_says_why(src: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tiny.transformer().encode(src)


def test_a_target_that_cannot_be_read_says_why() -> None:
    model = tiny.transformer()
    memory = model.encode(SRC)
    with pytest.raises(IndexRangeError, match=r"tgt: ids must lie in \[0, 7\)"):
        model.decode([[1, 8], [1, 3]], memory)
    with pytest.raises(ShapeError, match="the memory of its own source row"):
        model.decode(TGT[:1], memory)
    with pytest.raises(ShapeError, match="tgt: empty sequence"):
        model.decode(TGT[:, :0], memory)


def test_a_source_mask_of_numbers_or_of_another_shape_is_refused() -> None:
    model = tiny.transformer()
    with pytest.raises(MaskError, match="src_mask must be boolean"):
        model.encode(SRC, src_mask=(SRC != 0).astype(float))
    with pytest.raises(MaskError, match=r"expected shape \(2, 5\)"):
        model(SRC, TGT, src_mask=TGT != 0)  # the cross mask is the source's, never the target's


# --- decoder-only ----------------------------------------------------------------------------------------------------


def test_the_decoder_only_model_sees_no_future_and_continues_with_a_cache() -> None:
    model, ids = tiny.causal(), np.array([[3, 4, 5, 6]])
    whole = model(ids).numpy()
    np.testing.assert_allclose(model(ids[:, :2]).numpy(), whole[:, :2], rtol=1e-9)
    cache = model.new_cache()
    with ta.no_grad():
        parts = [model(ids[:, a:b], cache=cache).numpy() for a, b in ((0, 1), (1, 4))]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-9, atol=1e-12)


def test_every_parameter_of_the_decoder_only_model_learns() -> None:
    model, ids = tiny.causal(), np.array([[3, 4, 5, 6, 2, 1, 0, 3, 4, 5, 6, 2, 1, 0, 3, 4]])
    sequence_loss(model(ids), np.roll(ids, -1, axis=1)).backward()
    for name, parameter in model.named_parameters():
        assert np.isfinite(parameter.grad).all(), name
        assert parameter.grad.any(), name


def test_the_decoder_only_configuration_is_checked_too() -> None:
    with pytest.raises(OptionError, match="CausalConfig: num_heads must divide d_model"):
        CausalLM(CausalConfig(vocab=7, d_model=8, num_heads=3))
    config = CausalConfig(vocab=7)
    assert CausalConfig.from_dict(config.to_dict()) == config


# --- targets ---------------------------------------------------------------------------------------------------------


def test_the_decoder_reads_the_target_one_step_late() -> None:
    target = np.array([[7, 8, 2], [9, 2, 0]])
    np.testing.assert_array_equal(shift_right(target, start_id=1), [[1, 7, 8], [1, 9, 2]])


def test_the_loss_is_the_mean_over_real_tokens() -> None:
    rng = np.random.default_rng(0)
    logits, target = ta.Tensor(rng.normal(size=(2, 3, 5)), requires_grad=True), np.array([[3, 4, 2], [2, 0, 0]])
    loss = sequence_loss(logits, target, pad_id=0)
    p = np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(axis=-1, keepdims=True)
    surprise = [-np.log(p[row, place, target[row, place]]) for row, place in ((0, 0), (0, 1), (0, 2), (1, 0))]
    assert loss.item() == pytest.approx(np.mean(surprise))
    loss.backward()
    assert not logits.grad[1, 1:].any()
    assert sequence_loss(logits, np.zeros((2, 3), dtype=int), pad_id=0).item() == 0.0
