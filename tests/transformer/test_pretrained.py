"""Published models: every weight finds its place, and what does not fit is said; numbers are held in tests/parity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import require
from tests.transformer.published import WORDS, bert_folder, bert_weights
from tests.transformer.told import Run, assert_fits, assert_one_line
from tinygrad_attn import serialize
from tinygrad_attn.errors import CheckpointError
from transformer import load_bert, load_gpt2, load_pretrained

require("safetensors")
require("tokenizers")
TEXT = "The animal was too tired."


def test_every_weight_finds_its_place(tmp_path: Path) -> None:
    known = load_bert(bert_folder(tmp_path / "bert"))
    assert set(known.passed_over) == {"pooler.dense.weight", "pooler.dense.bias"}
    weights = bert_weights()
    layer = known.model.encoder.layers[1]
    np.testing.assert_array_equal(
        layer.feed_forward.contract.weight.numpy(), weights["encoder.layer.1.output.dense.weight"]
    )
    np.testing.assert_array_equal(
        layer.self_attention.to_key.bias.numpy(), weights["encoder.layer.1.attention.self.key.bias"]
    )
    assert not known.model.training and load_pretrained(tmp_path / "bert").model.config == known.model.config


def test_a_text_becomes_the_ids_of_the_vocabulary_and_text_again(tmp_path: Path) -> None:
    tokenizer = load_bert(bert_folder(tmp_path / "bert")).tokenizer
    ids = tokenizer.encode("The animals")
    assert tokenizer.tokens_of(ids) == ["[CLS]", "the", "animal", "##s", "[SEP]"]
    assert tokenizer.decode(ids) == "the animals" and len(tokenizer) == len(WORDS)
    batch, lengths = tokenizer.encode_batch(["the", "the animals"])
    assert batch.tolist() == [[2, 5, 3, 0, 0], [2, 5, 6, 12, 3]] and lengths.tolist() == [3, 5]


def test_padding_has_no_influence(tmp_path: Path) -> None:
    known = load_bert(bert_folder(tmp_path / "bert"))
    batch, lengths = known.tokenizer.encode_batch(["the", "the animals"])
    together = known.model(batch, mask=np.arange(batch.shape[1]) < lengths[:, None])
    alone = known.model(batch[:1, : lengths[0]])
    np.testing.assert_allclose(together.numpy()[0, : lengths[0]], alone.numpy()[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: f"bert.{name}",
        lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"),
    ],
)
def test_other_names_of_the_same_weights_are_known(tmp_path: Path, rename: Any) -> None:
    renamed = {rename(name): array for name, array in bert_weights().items()}
    usual, other = load_bert(bert_folder(tmp_path / "usual")), load_bert(bert_folder(tmp_path / "other", renamed))
    ids = usual.tokenizer.encode(TEXT)
    np.testing.assert_array_equal(usual.model([ids]).numpy(), other.model([ids]).numpy())


def test_weights_in_several_files_are_one_model(tmp_path: Path) -> None:
    folder, weights = bert_folder(tmp_path / "bert"), bert_weights()
    expected = load_bert(folder).model([[2, 5, 3]]).numpy()
    (folder / "model.safetensors").unlink()
    parts = {"a.safetensors": dict(list(weights.items())[:20]), "b.safetensors": dict(list(weights.items())[20:])}
    for file, part in parts.items():
        serialize.save(folder / file, part)
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    np.testing.assert_array_equal(load_bert(folder).model([[2, 5, 3]]).numpy(), expected)


# --- what does not fit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model_type": "t5"}, "expected 'bert', given 't5'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"hidden_act": "elu"}, "unknown activation 'elu'"),
        ({"hidden_act": ["gelu"]}, r"unknown activation \['gelu'\]"),
        ({"num_attention_heads": 5}, "config.json does not fit: BertConfig: num_heads must divide d_model"),
        ({"hidden_size": None}, "lacks what a BertConfig needs: d_model"),
        ({"vocab_size": 9}, "embedding.tokens.weight"),
    ],
)
def test_settings_that_make_another_model_are_refused(tmp_path: Path, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(CheckpointError, match=told):
        load_bert(bert_folder(tmp_path / "bert", **settings))


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("config.json", "there is no config.json in .*it holds model.safetensors, vocab.txt"),
        ("model.safetensors", "there are no weights in"),
        ("vocab.txt", "there is no vocabulary in"),
    ],
)
def test_a_missing_file_is_named(tmp_path: Path, missing: str, told: str) -> None:
    folder = bert_folder(tmp_path / "bert")
    (folder / missing).unlink()
    with pytest.raises(CheckpointError, match=f"(?s){told}"):
        load_bert(folder)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{'model_type': 'bert'}"])
def test_a_config_that_is_no_object_is_said(tmp_path: Path, text: str) -> None:
    folder = bert_folder(tmp_path / "bert")
    (folder / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_bert(folder)


def test_a_missing_weight_is_named(tmp_path: Path) -> None:
    weights = bert_weights()
    del weights["encoder.layer.1.intermediate.dense.bias"]
    with pytest.raises(CheckpointError, match=r"missing +encoder\.layers\.1\.feed_forward\.expand\.bias"):
        load_bert(bert_folder(tmp_path / "bert", weights))


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 90868376\n", "git lfs pull"),
        (b"<html>404</html>", "not a safetensors file"),
        (b"", "empty"),
    ],
)
def test_a_file_that_is_not_the_weights_is_said(tmp_path: Path, held: bytes, told: str) -> None:
    folder = bert_folder(tmp_path / "bert")
    (folder / "model.safetensors").write_bytes(held)
    with pytest.raises(CheckpointError, match=told):
        load_bert(folder)


@pytest.mark.parametrize("places", [None, ["a.safetensors"], {"a": 1}])
def test_an_index_that_says_no_files_is_said(tmp_path: Path, places: Any) -> None:
    folder = bert_folder(tmp_path / "bert")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}), encoding="utf-8")
    with pytest.raises(CheckpointError, match="does not say which file holds which weight"):
        load_bert(folder)


def test_quantised_weights_are_refused(tmp_path: Path) -> None:
    weights = {name: (100.0 * array).astype(np.int8) for name, array in bert_weights().items()}
    with pytest.raises(CheckpointError, match="quantised"):
        load_bert(bert_folder(tmp_path / "bert", weights))


@pytest.mark.parametrize("found", [{"model": {}, "step": 3}, [1], b"no pickle"])
def test_a_pytorch_file_without_weights_is_said_and_nothing_advises_to_run_it(tmp_path: Path, found: Any) -> None:
    torch = require("torch")
    folder = bert_folder(tmp_path / "bert")
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    path.write_bytes(found) if isinstance(found, bytes) else torch.save(found, path)
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin") as caught:
        load_bert(folder)
    assert "weights_only" not in str(caught.value)


def test_a_model_is_called_by_its_folder_not_by_what_it_was_tuned_from(tmp_path: Path) -> None:
    assert load_bert(bert_folder(tmp_path / "tuned", _name_or_path="base")).name == "tuned"


def test_a_folder_of_another_kind_and_no_folder_are_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="expected model_type 'bert' or 'gpt2', given 'roberta'"):
        load_pretrained(bert_folder(tmp_path / "roberta", model_type="roberta"))
    with pytest.raises(CheckpointError, match="expected 'gpt2', given 'bert'"):
        load_gpt2(bert_folder(tmp_path / "bert"))
    with pytest.raises(CheckpointError, match="is no folder"):
        load_pretrained(tmp_path / "nothing")


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_says_where_a_word_looks_and_draws_a_layer(run: Run, tmp_path: Path) -> None:
    require("matplotlib")
    folder = str(bert_folder(tmp_path / "bert"))
    told = run("attention", TEXT, "--model", folder, "--word", "Tired", "--layer", "1", "--out", "a.svg")
    assert told.code == 0, told.err
    assert "'tired' looks at" in told.out and "Of 4 heads" in told.out
    assert "layer 1 of 2, all its heads" in told.out
    assert_fits(told.out)
    drawn = Path("a.svg").read_text(encoding="utf-8")
    assert "[CLS]" in drawn and "animal" in drawn


@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_text_without_words_is_said(run: Run, tmp_path: Path, text: str) -> None:
    require("matplotlib")
    told = run("attention", text, "--model", str(bert_folder(tmp_path / "bert")))
    assert_one_line(told, "the text is empty")


def test_of_a_word_that_stands_twice_the_first_is_shown_and_said_to_be(run: Run, tmp_path: Path) -> None:
    require("matplotlib")
    folder = str(bert_folder(tmp_path / "bert"))
    assert (
        "'the', the first of 2, looks at" in run("attention", "the animal the", "--model", folder, "--word", "the").out
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--layer", "3"], "--layer 3: this model has 2"),
        (["--head", "3"], "--head 3: this model has 2"),
        (["--word", "horse"], "is no token of the text: it is read as [CLS] the animal was too tired . [SEP]"),
        (["--out", "a.txt"], "expected a file name ending in .svg, .png, .pdf"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(run: Run, tmp_path: Path, arguments: list[str], told: str) -> None:
    require("matplotlib")
    assert_one_line(run("attention", TEXT, "--model", str(bert_folder(tmp_path / "bert")), *arguments), told)
