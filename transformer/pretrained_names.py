"""What the weights of BERT and GPT-2 are called where they are published, and what they are called here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Translated = tuple[Arrays, list[str]]

BERT = {
    "embeddings.word_embeddings": "embedding.tokens",
    "embeddings.position_embeddings": "embedding.positions",
    "embeddings.token_type_embeddings": "embedding.segments",
    "embeddings.LayerNorm": "embedding.norm",
}
BERT_LAYER = {
    "attention.self.query": "self_attention.to_query",
    "attention.self.key": "self_attention.to_key",
    "attention.self.value": "self_attention.to_value",
    "attention.output.dense": "self_attention.to_output",
    "attention.output.LayerNorm": "self_attention_norm",
    "intermediate.dense": "feed_forward.expand",
    "output.dense": "feed_forward.contract",
    "output.LayerNorm": "feed_forward_norm",
}
GPT2 = {
    "wte": "embedding.tokens",
    "wpe": "embedding.positions",
    "ln_f": "decoder.norm",
}
GPT2_LAYER = {
    "ln_1": "self_attention_norm",
    "attn.c_proj": "self_attention.to_output",
    "ln_2": "feed_forward_norm",
    "mlp.c_fc": "feed_forward.expand",
    "mlp.c_proj": "feed_forward.contract",
}
OLD_NAMES = {"gamma": "weight", "beta": "bias"}  # of layer norms, in the first BERT files


def bert_state(published: Mapping[str, NDArray[Any]]) -> Translated:
    """Published arrays as a `BertEncoder` names them, and the names of those it has no place for."""
    state, passed_over = {}, []
    for full, array in published.items():
        name = full.removeprefix("bert.")
        ours = _translated(name, r"encoder\.layer\.(\d+)\.(.+)", "encoder.layers", BERT, BERT_LAYER)
        if ours is None:
            passed_over.append(full)
        else:
            state[ours] = array
    return state, passed_over


def gpt2_state(published: Mapping[str, NDArray[Any]]) -> Translated:
    """Published arrays as a `CausalLM` names them, and the names of those it has no place for.

    GPT-2 keeps its matrices as (in, out), and query, key and value side by side in one.
    """
    state, passed_over = {}, []
    for full, array in published.items():
        name = full.removeprefix("transformer.")
        joint = re.fullmatch(r"h\.(\d+)\.attn\.c_attn\.(weight|bias)", name)
        if joint:
            layer, kind = joint.groups()
            for part, piece in zip(("query", "key", "value"), np.split(array, 3, axis=-1), strict=True):
                state[f"decoder.layers.{layer}.self_attention.to_{part}.{kind}"] = piece.T
            continue
        if name == "lm_head.weight":  # tied: the embedding once more
            continue
        ours = _translated(name, r"h\.(\d+)\.(.+)", "decoder.layers", GPT2, GPT2_LAYER)
        if ours is None:
            passed_over.append(full)
        else:
            state[ours] = array.T if ".c_" in name else array
    return state, passed_over


def _translated(
    name: str, pattern: str, layers: str, outside: Mapping[str, str], inside: Mapping[str, str]
) -> str | None:
    """Our name for an array; None if there is no place for it."""
    in_layer = re.fullmatch(pattern, name)
    path, _, kind = (in_layer.group(2) if in_layer else name).rpartition(".")
    module = (inside if in_layer else outside).get(path)
    kind = OLD_NAMES.get(kind, kind)
    if module is None or kind not in ("weight", "bias"):
        return None
    return f"{layers}.{in_layer.group(1)}.{module}.{kind}" if in_layer else f"{module}.{kind}"
