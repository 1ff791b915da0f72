"""BERT and GPT-2 from a folder give what Hugging Face's implementation gives from it: vectors, weights, gradients."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.transformer.published import BERT, WORDS
from transformer import generate, load_bert, load_gpt2

torch = require("torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = require("transformers")
require("tokenizers")
pytestmark = pytest.mark.filterwarnings("ignore")  # the peer's own

IDS = np.array([[2, 5, 6, 12, 9, 3], [2, 8, 3, 0, 0, 0]])
REAL = IDS != 0
SEGMENTS = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 0, 0]])


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    ta.set_default_dtype(np.float64)
    yield
    ta.set_default_dtype(np.float32)


@pytest.fixture
def bert(tmp_path: Path) -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(**{**BERT, "initializer_range": 0.5, "attn_implementation": "eager"})
    model = transformers.BertModel(config)
    model.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return model.double().eval()


@pytest.fixture
def gpt2(tmp_path: Path) -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        **{"vocab_size": 30, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 24, "initializer_range": 0.5},
        attn_implementation="eager",
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(config)
    model.save_pretrained(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps({chr(65 + n): n for n in range(30)}), encoding="utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    return model.double().eval()


def test_bert_gives_the_same_vectors_weights_and_gradients(bert: Any, tmp_path: Path) -> None:
    model = load_bert(tmp_path).model
    vectors, weights = model(IDS, mask=REAL, segments=SEGMENTS, return_weights=True)
    theirs = bert(
        *(torch.tensor(IDS), torch.tensor(REAL).long()),
        token_type_ids=torch.tensor(SEGMENTS),
        output_attentions=True,
    )
    real = REAL[..., None]
    expected = theirs.last_hidden_state
    np.testing.assert_allclose(vectors.numpy() * real, expected.detach().numpy() * real, rtol=1e-9, atol=1e-12)
    for mine, its in zip(weights, theirs.attentions, strict=True):
        rows = REAL[:, None, :, None]  # what padding itself looks at is nobody's business
        np.testing.assert_allclose(mine.numpy() * rows, its.detach().numpy() * rows, rtol=1e-9, atol=1e-12)

    upstream = np.random.default_rng(0).normal(size=vectors.shape) * real
    (vectors * upstream).sum().backward()
    (expected * torch.tensor(upstream)).sum().backward()
    table = bert.embeddings.word_embeddings.weight.grad.numpy()
    np.testing.assert_allclose(model.embedding.tokens.weight.grad, table, rtol=1e-8, atol=1e-10)
    query = bert.encoder.layer[0].attention.self.query.weight.grad.numpy()
    mine = model.encoder.layers[0].self_attention.to_query.weight.grad
    np.testing.assert_allclose(mine, query, rtol=1e-8, atol=1e-10)


def test_a_pickle_is_read_by_pytorch_and_gives_the_same(bert: Any, tmp_path: Path) -> None:
    expected = load_bert(tmp_path).model(IDS).numpy()
    torch.save(bert.float().state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    np.testing.assert_array_equal(load_bert(tmp_path).model(IDS).numpy(), expected)


def test_gpt2_gives_the_same_logits_weights_and_gradients(gpt2: Any, tmp_path: Path) -> None:
    model = load_gpt2(tmp_path).model
    ids = np.random.default_rng(1).integers(0, 30, (2, 7))
    logits, weights = model(ids, return_weights=True)
    theirs = gpt2(torch.tensor(ids), output_attentions=True)
    np.testing.assert_allclose(logits.numpy(), theirs.logits.detach().numpy(), rtol=1e-9, atol=1e-11)
    for mine, its in zip(weights, theirs.attentions, strict=True):
        np.testing.assert_allclose(mine.numpy(), its.detach().numpy(), rtol=1e-9, atol=1e-12)

    upstream = np.random.default_rng(0).normal(size=logits.shape)
    (logits * upstream).sum().backward()
    (theirs.logits * torch.tensor(upstream)).sum().backward()
    table = gpt2.transformer.wte.weight.grad.numpy()  # as embedding and as map to logits
    np.testing.assert_allclose(model.embedding.tokens.weight.grad, table, rtol=1e-8, atol=1e-9)


def test_gpt2_continues_a_text_with_the_same_tokens(gpt2: Any, tmp_path: Path) -> None:
    prompt = [[5, 17, 3]]
    expected = gpt2.generate(torch.tensor(prompt), max_new_tokens=10, do_sample=False, eos_token_id=None)
    model = load_gpt2(tmp_path).model
    said = generate(model, prompt, max_new_tokens=10, pad_id=0)
    assert said.sequences.tolist() == expected.tolist()
