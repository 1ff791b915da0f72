"""Folders as published models come in: small, with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_attn import serialize

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "animal",
    "street",
    "it",
    "was",
    "too",
    "tired",
    "##s",
    ".",
]
BERT = {
    "model_type": "bert",
    "vocab_size": len(WORDS),
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 20,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}
LAYER = {
    "attention.self.query": (8, 8),
    "attention.self.key": (8, 8),
    "attention.self.value": (8, 8),
    "attention.output.dense": (8, 8),
    "attention.output.LayerNorm": (8,),
    "intermediate.dense": (12, 8),
    "output.dense": (8, 12),
    "output.LayerNorm": (8,),
}


def bert_weights() -> dict[str, Any]:
    """Arrays under their published names."""
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), 8),
        "embeddings.position_embeddings.weight": (20, 8),
        "embeddings.token_type_embeddings.weight": (2, 8),
        "embeddings.LayerNorm.weight": (8,),
        "embeddings.LayerNorm.bias": (8,),
        "pooler.dense.weight": (8, 8),
        "pooler.dense.bias": (8,),
    }
    for layer in range(2):
        for name, shape in LAYER.items():
            shapes[f"encoder.layer.{layer}.{name}.weight"] = shape
            shapes[f"encoder.layer.{layer}.{name}.bias"] = shape[:1]
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def bert_folder(folder: Path, weights: dict[str, Any] | None = None, **settings: Any) -> Path:
    """A whole BERT, two layers of two heads."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**BERT, **settings}), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    serialize.save(folder / "model.safetensors", bert_weights() if weights is None else weights)
    return folder
