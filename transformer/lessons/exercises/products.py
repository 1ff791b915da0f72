"""Exercises on matrix products, a loss, and layer normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from transformer.lessons.exercises.drawing import matrices, numbered
from transformer.lessons.exercises.exercise import Exercise, Mistake


def matmul(a: Any, b: Any) -> Any:
    """A matrix product: (n, k) @ (k, m) -> (n, m)."""
    return a @ b


MATMUL = Exercise(
    title="a matrix product",
    task="If you forget which factor is transposed, let the shapes decide.",
    forward=matmul,
    inputs=matrices("nk", "km"),
    formulas={"a": "dA = dC Bᵀ", "b": "dB = Aᵀ dC"},
    mistakes=(
        Mistake(
            "a transpose is missing",
            "The shapes fit only where the matrices happen to be square, and there the numbers are wrong.",
            {"a": lambda g, out, a, b: g @ b, "b": lambda g, out, a, b: a @ g},
        ),
        Mistake(
            "the factors are swapped",
            "Matrix products do not commute: which factor stands on the left matters, backward too.",
            {"a": lambda g, out, a, b: b.T @ g, "b": lambda g, out, a, b: g @ a.T},
        ),
        Mistake(
            "the result is transposed",
            "The numbers are right, rows and columns are exchanged.",
            {"a": lambda g, out, a, b: b @ g.T, "b": lambda g, out, a, b: g.T @ a},
        ),
    ),
    section=3,
)


def cross_entropy(logits: Any, target: Any) -> Any:
    """Mean of −ln p(target): (rows, classes), (rows,) -> ()."""
    shifted = logits - np.max(logits, axis=-1, keepdims=True)
    total = np.sum(np.exp(shifted), axis=-1, keepdims=True)
    log_probabilities = shifted - np.log(total)
    return -np.mean(log_probabilities[np.arange(len(target)), target])


def _probabilities(logits: Any) -> Any:
    e = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def _one_hot(logits: Any, target: Any) -> Any:
    return np.eye(logits.shape[-1])[target]


def _from_every_row(g: Any, out: Any, logits: Any, target: Any) -> Any:
    p = np.array(_probabilities(logits))
    p[:, target] -= 1.0
    return g * p / len(target)


CROSS_ENTROPY = Exercise(
    title="softmax and its loss in one",
    task="Let p be the softmax of the logits. The logarithm and softmax together give a gradient with no division.",
    forward=cross_entropy,
    inputs=numbered("columns", "nc"),
    formulas={"logits": "dx = g (p − onehot(target)) / rows"},
    mistakes=(
        Mistake(
            "the mean over the rows is forgotten",
            "The loss is a mean; each row has only its share of it.",
            {"logits": lambda g, out, x, t: g * (_probabilities(x) - _one_hot(x, t))},
        ),
        Mistake(
            "the target is left out",
            "These are the probabilities alone: every class would be pushed down, the right one too.",
            {"logits": lambda g, out, x, t: g * _probabilities(x) / len(t)},
        ),
        Mistake(
            "only the target's class gets a gradient",
            "The sum in the softmax holds every class, so raising another logit takes probability from the target.",
            {"logits": lambda g, out, x, t: g * _one_hot(x, t) * (_probabilities(x) - 1.0) / len(t)},
        ),
        Mistake(
            "every row has the targets of all rows",
            "`p[:, target]` is those columns in every row. Each row has one target: it takes the row's number as well.",
            {"logits": _from_every_row},
        ),
        Mistake(
            "neither g nor the mean over the rows",
            "This is the gradient of a sum of losses, before g = ∂L/∂out multiplies it; the loss is a mean.",
            {"logits": lambda g, out, x, t: _probabilities(x) - _one_hot(x, t)},
        ),
        Mistake(
            "divided by the number of all elements",
            "The mean is over the rows, not over rows and classes.",
            {"logits": lambda g, out, x, t: g * (_probabilities(x) - _one_hot(x, t)) / x.size},
        ),
        Mistake(
            "softmax's own gradient stands here as well",
            "Multiplied once more with p(1 − p): the logarithm has already cancelled the softmax's derivative.",
            {
                "logits": lambda g, out, x, t: (
                    g * (_probabilities(x) - _one_hot(x, t)) * _probabilities(x) * (1.0 - _probabilities(x)) / len(t)
                )
            },
        ),
    ),
    section=6,
)


def layer_norm(x: Any) -> Any:
    """Each row with mean 0 and variance 1: (rows, d) -> (rows, d)."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5)


def _sigma(x: Any, eps: float = 1e-5, fewer: int = 0) -> Any:
    return np.sqrt(np.var(x, axis=-1, keepdims=True, ddof=fewer) + eps)


def _mean(values: Any) -> Any:
    return np.mean(values, axis=-1, keepdims=True)


def _sum(values: Any) -> Any:
    return np.sum(values, axis=-1, keepdims=True)


def _down_the_columns(g: Any, out: Any, x: Any) -> Any:
    sigma = np.sqrt(np.var(x, axis=0) + 1e-5)
    return (g - np.mean(g, axis=0) - out * np.mean(g * out, axis=0)) / sigma


LAYER_NORM = Exercise(
    title="layer normalisation",
    task="Mean and variance depend on x too. With σ = √(variance + eps), out is already (x − mean) / σ.",
    forward=layer_norm,
    inputs=matrices("nd"),
    formulas={"x": "dx = σ⁻¹ (dy − mean dy − y · mean dy∘y)"},
    mistakes=(
        Mistake(
            "mean and variance are taken for constants",
            "Moving one element moves the mean and the variance of its row, and with them every other element.",
            {"x": lambda g, out, x: g / _sigma(x)},
        ),
        Mistake(
            "the variance is taken for a constant",
            "What goes through the mean is here. The variance of the row moves as well.",
            {"x": lambda g, out, x: (g - _mean(g)) / _sigma(x)},
        ),
        Mistake(
            "the mean is taken for a constant",
            "What goes through the variance is here. The mean of the row moves as well.",
            {"x": lambda g, out, x: (g - out * _mean(g * out)) / _sigma(x)},
        ),
        Mistake(
            "eps is left out of σ",
            "Small, until a row is constant: then the variance is 0, and so is what you divide by.",
            {"x": lambda g, out, x: (g - _mean(g) - out * _mean(g * out)) / _sigma(x, eps=0.0)},
        ),
        Mistake(
            "divided by the variance",
            "The result is scaled by 1/σ, so its gradient is too; the variance is σ².",
            {"x": lambda g, out, x: (g - _mean(g) - out * _mean(g * out)) / _sigma(x) ** 2},
        ),
        Mistake(
            "means over the whole array",
            "Every row is normalised for itself; nothing is shared between rows.",
            {"x": lambda g, out, x: (g - np.mean(g) - out * np.mean(g * out)) / _sigma(x)},
        ),
        Mistake(
            "sums in place of means",
            "Every element has its part of 1/d in the mean and in the variance; what comes back is a mean too.",
            {"x": lambda g, out, x: (g - _sum(g) - out * _sum(g * out)) / _sigma(x)},
        ),
        Mistake(
            "the sign of the variance's part",
            "Both parts are taken off: what moved all elements of a row alike, and what stretched them.",
            {"x": lambda g, out, x: (g - _mean(g) + out * _mean(g * out)) / _sigma(x)},
        ),
        Mistake(
            "eps is added to σ, not to the variance",
            "σ = √(variance + eps): eps stands under the root.",
            {"x": lambda g, out, x: (g - _mean(g) - out * _mean(g * out)) / (_sigma(x, eps=0.0) + 1e-5)},
        ),
        Mistake(
            "keepdims is missing",
            "A mean along the rows gives (rows,), and NumPy lays that beside the columns. keepdims=True keeps it "
            "(rows, 1).",
            {"x": lambda g, out, x: (g - np.mean(g, -1) - out * np.mean(g * out, -1)) / np.sqrt(np.var(x, -1) + 1e-5)},
        ),
        Mistake(
            "means down the columns",
            "Every row is normalised for itself: means run along the row.",
            {"x": _down_the_columns},
        ),
        Mistake(
            "not divided by σ",
            "The result is scaled by 1/σ, so its gradient is too.",
            {"x": lambda g, out, x: g - _mean(g) - out * _mean(g * out)},
        ),
    ),
    section=5,
)
