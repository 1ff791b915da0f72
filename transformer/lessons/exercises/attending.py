"""Exercises on attention: softmax, softmax behind a mask, and a whole head."""

from __future__ import annotations

from typing import Any

import numpy as np

from transformer.lessons.exercises.drawing import masked_scores, matrices, scores
from transformer.lessons.exercises.exercise import Exercise, Mistake


def softmax(scores: Any) -> Any:
    """Positive weights that sum to 1 in every row: (rows, n) -> (rows, n)."""
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def _sum(values: Any) -> Any:
    return np.sum(values, axis=-1, keepdims=True)


SOFTMAX_MISTAKES = {
    "the diagonal alone": (
        "p(1 − p) is what a score does to its own weight. It moves all the others too: they sum to 1.",
        lambda g, p: g * p * (1.0 - p),
    ),
    "the sum is left out": (
        "p∘g is half of it. Raising one weight lowers the others of its row; that is the part that is missing.",
        lambda g, p: g * p,
    ),
    "g is summed without its weights": (
        "What is taken off is the mean of g under the weights, Σ p∘g, not its plain sum.",
        lambda g, p: p * (g - _sum(g)),
    ),
    "g is averaged without its weights": (
        "What is taken off is the mean of g under the weights, Σ p∘g, not its plain mean.",
        lambda g, p: p * (g - np.mean(g, axis=-1, keepdims=True)),
    ),
    "the sum runs over the whole array": (
        "Every row has a softmax of its own; the sum runs along the row.",
        lambda g, p: p * (g - np.sum(g * p)),
    ),
    "the sum runs down the columns": (
        "The weights sum to 1 along the last axis, and so does this sum.",
        lambda g, p: p * (g - np.sum(g * p, axis=0, keepdims=True)),
    ),
    "p∘g is averaged": (
        "The mean of g under the weights is Σ p∘g: the weights sum to 1 already; nothing is divided by their number.",
        lambda g, p: p * (g - np.mean(g * p, axis=-1, keepdims=True)),
    ),
    "keepdims is missing": (
        "A sum along the rows gives (rows,), and NumPy lays that beside the columns. keepdims=True keeps it (rows, 1).",
        lambda g, p: p * (g - np.sum(g * p, axis=-1)),
    ),
    "not multiplied by the weights": (
        "A weight of 0 cannot be moved; the whole bracket is multiplied by p.",
        lambda g, p: g - _sum(g * p),
    ),
}

SOFTMAX = Exercise(
    title="softmax",
    task="One score moves every weight of its row. Each row of your gradient must sum to 0: why?",
    forward=softmax,
    inputs=scores(),
    formulas={"scores": "dS = P ∘ (dP − Σ P∘dP), the sum along the row"},
    mistakes=tuple(
        Mistake(name, says, {"scores": lambda g, out, scores, rule=rule: rule(g, out)})
        for name, (says, rule) in SOFTMAX_MISTAKES.items()
    ),
    section=2,
)


def masked_softmax(scores: Any, mask: Any) -> Any:
    """Softmax over the keys that may be seen (True): (rows, n) -> (rows, n).

    A row that may see nothing gets zeros.
    """
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    e = np.where(mask, e, 0.0)
    total = np.sum(e, axis=-1, keepdims=True)
    return e / np.where(total == 0.0, 1.0, total)


def _of_unmasked(g: Any, out: Any, scores: Any, mask: Any) -> Any:
    p = np.asarray(softmax(scores))
    return p * (g - _sum(g * p))


def _masked_afterwards(g: Any, out: Any, scores: Any, mask: Any) -> Any:
    return np.where(mask, _of_unmasked(g, out, scores, mask), 0.0)


def _mask_after_softmax(g: Any, out: Any, scores: Any, mask: Any) -> Any:
    p = np.asarray(softmax(scores)) * mask
    return p * (g - _sum(g * p))


def _hidden_scores_become(value: float) -> Any:
    """The rule of a softmax that hides keys by their scores."""

    def rule(g: Any, out: Any, scores: Any, mask: Any) -> Any:
        p = np.asarray(softmax(np.where(mask, scores, value)))
        return p * (g - _sum(g * p))

    return rule


MASKED_SOFTMAX = Exercise(
    title="softmax behind a mask",
    task="A key that may not be seen has weight 0, whatever its score is. What is left of softmax's gradient?",
    forward=masked_softmax,
    inputs=masked_scores(),
    formulas={"scores": "dS = P ∘ (dP − Σ P∘dP): where P is 0, so is dS"},
    mistakes=(
        Mistake(
            "the mask is forgotten",
            "These are the weights without a mask: a hidden key would still be taught something.",
            {"scores": _of_unmasked},
        ),
        Mistake(
            "the mask comes after softmax",
            "Hidden weights are set to 0 here after they have taken their part of the sum, so the rest does not sum "
            "to 1. The result that you are given has been masked before.",
            {"scores": _mask_after_softmax},
        ),
        Mistake(
            "the mask comes after the gradient",
            "This is the gradient of an unmasked softmax with zeros written into it. The weights that are left are "
            "others than those of an unmasked softmax.",
            {"scores": _masked_afterwards},
        ),
        Mistake(
            "hidden scores are very negative",
            "Right, until a row may see nothing: all its scores are alike then, and softmax gives every key a share. "
            "The result that you are given has zeros there.",
            {"scores": _hidden_scores_become(-1e9)},
        ),
        Mistake(
            "hidden scores are −∞",
            "Right, until a row may see nothing: its largest score is −∞ too, and −∞ − (−∞) is not a number. The "
            "result that you are given has zeros there.",
            {"scores": _hidden_scores_become(-np.inf)},
        ),
        *(
            Mistake(name, says, {"scores": lambda g, out, scores, mask, rule=rule: rule(g, out)})
            for name, (says, rule) in SOFTMAX_MISTAKES.items()
        ),
    ),
    section=2,
)


def attention(query: Any, key: Any, value: Any) -> Any:
    """One head: (queries, d), (keys, d), (keys, d_v) -> (queries, d_v)."""
    scores = query @ key.T / np.sqrt(query.shape[-1])  # (queries, keys)
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights = e / np.sum(e, axis=-1, keepdims=True)
    return weights @ value


def _weights(query: Any, key: Any) -> Any:
    return np.asarray(softmax(query @ key.T / np.sqrt(query.shape[-1])))


def _d_scores(g: Any, query: Any, key: Any, value: Any) -> Any:
    p, d_weights = _weights(query, key), g @ value.T
    return p * (d_weights - _sum(p * d_weights))


def _d_scores_of_unscaled(g: Any, query: Any, key: Any, value: Any) -> Any:
    p, d_weights = np.asarray(softmax(query @ key.T)), g @ value.T
    return p * (d_weights - _sum(p * d_weights))


def _d_scores_without_softmax(g: Any, query: Any, key: Any, value: Any) -> Any:
    return g @ value.T


def _query_and_key(d_scores: Any, power: float) -> dict[str, Any]:
    """Rules for query and key that get dS from `d_scores` and scale it by d^power."""
    return {
        "query": lambda g, out, q, k, v: d_scores(g, q, k, v) @ k * q.shape[-1] ** power,
        "key": lambda g, out, q, k, v: d_scores(g, q, k, v).T @ q * q.shape[-1] ** power,
    }


ATTENTION = Exercise(
    title="a whole attention head",
    task="Go back line by line, last line first: weights, softmax, scores. `out` holds no weights; compute them again.",
    forward=attention,
    inputs=matrices("qd", "kd", "kv"),
    formulas={
        "query": "dQ = dS K / √d, dS = P ∘ (dP − Σ P∘dP), dP = dO Vᵀ",
        "key": "dK = dSᵀ Q / √d",
        "value": "dV = Pᵀ dO",
    },
    mistakes=(
        Mistake(
            "√d is forgotten on the way back",
            "The scores were divided by √d, so what reaches queries and keys is too.",
            _query_and_key(_d_scores, 0.0),
        ),
        Mistake(
            "divided by d, not by its root",
            "The scores were divided by √d, once.",
            _query_and_key(_d_scores, -1.0),
        ),
        Mistake(
            "softmax's gradient is skipped",
            "dP is the gradient of the weights. Softmax stands between them and the scores.",
            _query_and_key(_d_scores_without_softmax, -0.5),
        ),
        Mistake(
            "a transpose is missing",
            "Rows of dS belong to queries, columns to keys. What goes to the keys sums over the queries, and what goes "
            "to the queries over the keys.",
            {
                "query": lambda g, out, q, k, v: _d_scores(g, q, k, v).T @ k / np.sqrt(q.shape[-1]),
                "key": lambda g, out, q, k, v: _d_scores(g, q, k, v) @ q / np.sqrt(q.shape[-1]),
                "value": lambda g, out, q, k, v: _weights(q, k) @ g,
            },
        ),
        Mistake(
            "queries and keys are exchanged",
            "Each gets the other back: dQ is a mixture of keys, dK one of queries.",
            {
                "query": lambda g, out, q, k, v: _d_scores(g, q, k, v) @ q / np.sqrt(q.shape[-1]),
                "key": lambda g, out, q, k, v: _d_scores(g, q, k, v).T @ k / np.sqrt(q.shape[-1]),
            },
        ),
        Mistake(
            "the weights' scores are not divided by √d",
            "The weights were computed again from scores that were not scaled: other weights than those of the head.",
            {
                "value": lambda g, out, q, k, v: np.asarray(softmax(q @ k.T)).T @ g,
                **_query_and_key(_d_scores_of_unscaled, -0.5),
            },
        ),
        Mistake(
            "√d is forgotten both ways",
            "Neither the scores whose weights are computed again nor what comes back from them is divided by √d.",
            _query_and_key(_d_scores_of_unscaled, 0.0),
        ),
        *(
            Mistake(
                f"in softmax's gradient: {name}",
                says,
                _query_and_key(lambda g, q, k, v, rule=rule: rule(g @ v.T, _weights(q, k)), -0.5),
            )
            for name, (says, rule) in SOFTMAX_MISTAKES.items()
        ),
    ),
    section=4,
)
