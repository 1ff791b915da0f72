"""One sentence read by the model, with everything that attention computed on the way, its gradient, and what if not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tinygrad_attn as ta
from tinygrad_attn import Tensor
from transformer.lessons.word_model import ReferentModel
from transformer.tasks.coreference import CoreferenceTask

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LayerReading:
    """Self-attention of one layer.

    Args:
        query, key, value: (heads, words, d_head).
        scores: (heads, words, words), q·k/√d_head; rows ask, columns are asked.
        weights: the same after softmax; rows sum to 1.
        gradient: ∂ log-odds(answer)/∂ weights, each weight on its own.
    """

    query: Array
    key: Array
    value: Array
    scores: Array
    weights: Array
    gradient: Array


@dataclass(frozen=True, eq=False)
class Reading:
    """What the model made of one sentence.

    Args:
        words: the sentence.
        pronoun: where `it` stands.
        layers: self-attention, layer by layer.
        probabilities: (nouns,), that `it` stands for each of the task's nouns.
        nouns: these nouns.
        without: (words,), the probability of `answer` when nobody may look at a word.
    """

    words: tuple[str, ...]
    pronoun: int
    layers: tuple[LayerReading, ...]
    probabilities: Array
    nouns: tuple[str, ...]
    without: Array

    @property
    def text(self) -> str:
        """The words with spaces."""
        return " ".join(self.words)

    @property
    def answer(self) -> str:
        """The noun that the model names."""
        return self.nouns[int(self.probabilities.argmax())]

    @property
    def probability(self) -> float:
        """How sure it is of that."""
        return float(self.probabilities.max())

    def choices(self, count: int = 4) -> list[tuple[str, float]]:
        """The most probable nouns, the best first."""
        order = np.argsort(-self.probabilities, kind="stable")[:count]
        return [(self.nouns[index], float(self.probabilities[index])) for index in order]

    def looks(self, layer: int = -1) -> Array:
        """(words,), where `it` looks in a layer, mean over the heads; the last layer if none is named."""
        mean: Array = self.layers[layer].weights[:, self.pronoun].mean(axis=0)
        return mean


def read(model: ReferentModel, task: CoreferenceTask, text: str) -> Reading:
    """Reads a sentence with everything laid open; the numbers are those of `model(…)`.

    Args:
        text: from `task.read`.
    """
    ids, lengths = task.tokenizer.encode_batch([text])  # (1, words)
    pronoun = task.pronouns(ids)
    x, opened = model.embedding(ids), []  # (1, words, d_model)
    for layer in model.encoder.layers:
        x, inside = _layer(layer, x)
        opened.append(inside)
    if model.encoder.norm is not None:
        x = model.encoder.norm(x)
    logits = model.compare(x[0, pronoun[0]])  # (nouns,)
    answer = int(np.asarray(logits).argmax())
    others = np.flatnonzero(np.arange(len(task.nouns)) != answer)
    # The odds, p/(1 − p): p itself hardly changes where the model is sure, and its slope would say so of every word.
    log_odds = logits[answer] - ta.logsumexp(logits[others])
    gradients = ta.gradients(log_odds, [inside["weights"] for inside in opened])
    layers = tuple(
        LayerReading(**{name: _plain(tensor) for name, tensor in inside.items()}, gradient=_plain(gradient))
        for inside, gradient in zip(opened, gradients, strict=True)
    )
    words = tuple(text.split())
    without = _probabilities(model, np.repeat(ids, len(words), 0), lengths, pronoun, hidden=np.arange(len(words)))
    return Reading(words, int(pronoun[0]), layers, _plain(ta.softmax(logits)), task.nouns, without[:, answer])


def _layer(layer: Any, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """`EncoderLayer.forward` of one sentence, with what is inside attention: (heads, words, …) each."""
    attention, norm = layer.self_attention, layer.self_attention_norm
    inside = norm.before(x)[0]  # (words, d_model)
    q, k, v = (
        project(inside).reshape(len(inside), attention.num_heads, attention.d_head).swapaxes(0, 1)
        for project in (attention.to_query, attention.to_key, attention.to_value)
    )  # (heads, words, d_head) each
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(attention.d_head)  # (heads, words, words)
    weights = ta.softmax(scores, axis=-1)
    read_there = (weights @ v).swapaxes(0, 1).reshape(1, len(inside), attention.d_model)
    x = norm.after(x, attention.to_output(read_there))  # (1, words, d_model)
    changed = layer.feed_forward(layer.feed_forward_norm.before(x))
    return layer.feed_forward_norm.after(x, changed), {
        "query": q,
        "key": k,
        "value": v,
        "scores": scores,
        "weights": weights,
    }


def _probabilities(
    model: ReferentModel, ids: Any, lengths: Any, pronoun: Any, *, hidden: NDArray[np.int64] | None = None
) -> Array:
    n = len(ids)
    with ta.no_grad():
        logits = model(ids, np.repeat(lengths, n), np.repeat(pronoun, n), hidden=hidden)
        return _plain(ta.softmax(logits, axis=-1))


def _plain(tensor: Any) -> Array:
    return np.array(tensor, dtype=np.float64)
