"""One attention head in numbers that a pencil can check, forward and backward.

Scores are logarithms of whole numbers, so softmax gives simple fractions; d = 2; the values are multiples of the unit
vectors. Every example asks for the gradient of one element of the output, L = O[0, 0], so dO is a one among zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tinygrad_attn as ta
from tinygrad_attn import Tensor

Array = NDArray[np.float64]
LN2, LN3, LN5 = math.log(2.0), math.log(3.0), math.log(5.0)
ROOT2 = math.sqrt(2.0)


@dataclass(frozen=True, eq=False)
class AttentionHead:
    """A head that has been run forward, with the gradients of one element of what it put out.

    Args:
        loss: L, one element of the output.
        tensors: every named tensor, in the order in which it was computed; the leaves come first.
        gradients: ∂L/∂tensor for each.
        numerical: the same for the leaves, by central differences.
    """

    loss: Tensor
    tensors: Mapping[str, Tensor]
    gradients: Mapping[str, Array]
    numerical: Mapping[str, Array]

    @property
    def largest_error(self) -> float:
        """Largest difference between a gradient and its numerical derivative."""
        return max(float(np.max(np.abs(self.gradients[name] - self.numerical[name]))) for name in self.numerical)


Leaves = Mapping[str, Array]
Forward = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]


@dataclass(frozen=True, eq=False)
class HeadExample:
    """An example before it is run: its leaves, and what is computed from them.

    Args:
        summary: what it shows, in one line.
        leaves: name to values of the tensors that want a gradient.
        forward: from the leaves to every further named tensor; the last one is the loss.
    """

    summary: str
    leaves: Leaves
    forward: Forward

    def run(self) -> AttentionHead:
        """Computes the example forward and backward, and once more by central differences."""
        leaves = {name: Tensor(values, requires_grad=True, name=name) for name, values in self.leaves.items()}
        computed = _named(self.forward(leaves))
        tensors = {**leaves, **computed}
        loss = list(computed.values())[-1]
        found = ta.gradients(loss, list(tensors.values()))
        gradients = {name: np.array(gradient) for name, gradient in zip(tensors, found, strict=True)}
        return AttentionHead(loss, tensors, gradients, {name: self._slope(name) for name in leaves})

    def _slope(self, name: str, step: float = 1e-5) -> Array:
        values = self.leaves[name]
        slope = np.zeros_like(values)
        for index in np.ndindex(values.shape):
            ahead, behind = values.copy(), values.copy()
            ahead[index] += step
            behind[index] -= step
            slope[index] = (self._loss({name: ahead}) - self._loss({name: behind})) / (2.0 * step)
        return slope

    def _loss(self, changed: Leaves) -> float:
        computed = self.forward({name: Tensor(values) for name, values in {**self.leaves, **changed}.items()})
        return float(list(computed.values())[-1])


def attend(query: Any, key: Any, value: Any, mask: NDArray[np.bool_] | None = None) -> dict[str, Tensor]:
    """One head with primitive operations, every intermediate result under its usual letter.

    S = Q Kᵀ/√d, P = softmax(S), O = P V

    Args:
        query: (query_len, d).
        key, value: (key_len, d).
        mask: (query_len, key_len), True = may attend, or None.
    """
    turned = key.T  # (d, key_len)
    likeness = query @ turned  # (query_len, key_len)
    scores = likeness / math.sqrt(query.shape[-1])
    seen = scores if mask is None else ta.masked_fill(scores, ~mask, value=-math.inf)
    weights = ta.softmax(seen, axis=-1)  # (query_len, key_len), rows sum to 1
    named = {"Kᵀ": turned, "QKᵀ": likeness, "S": scores}
    masked = {} if mask is None else {"S masked": seen}
    return {**named, **masked, "P": weights, "O": weights @ value}  # O: (query_len, d)


def _head(t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    computed = attend(t["Q"], t["K"], t["V"])
    return {**computed, "L": computed["O"][0, 0]}


def _self(t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    q, k, v = t["X"] @ t["W_Q"], t["X"] @ t["W_K"], t["X"] @ t["W_V"]
    computed = attend(q, k, v, ta.causal_mask(2))
    return {"Q": q, "K": k, "V": v, **computed, "L": computed["O"][1, 0]}


def _cross(t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    q, k, v = t["y"] @ t["W_Q"], t["z"] @ t["W_K"], t["z"] @ t["W_V"]
    computed = attend(q, k, v)
    return {"Q": q, "K": k, "V": v, **computed, "L": computed["O"][0, 0]}


def _named(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    for name, tensor in tensors.items():
        tensor.name = name
    return tensors


EXAMPLES: dict[str, HeadExample] = {
    # scores [0, ln 3] -> weights [1/4, 3/4]; dP = [4, 0]; dS = [3/4, −3/4]
    "head": HeadExample(
        "one query looks at two keys",
        {
            "Q": np.array([[ROOT2, 0.0]]),
            "K": np.array([[0.0, 0.0], [LN3, 0.0]]),
            "V": 4.0 * np.eye(2),
        },
        _head,
    ),
    # The first token may only see itself: weights [[1, 0], [1/4, 3/4]]. X feeds Q, K and V, whose gradients it adds up.
    "self": HeadExample(
        "self-attention: Q, K and V all come from X, and no token sees a later one",
        {
            "X": np.eye(2),
            "W_Q": np.array([[ROOT2, 0.0], [ROOT2, 0.0]]),
            "W_K": np.array([[0.0, 0.0], [LN3, 0.0]]),
            "W_V": 4.0 * np.eye(2),
        },
        _self,
    ),
    # scores [0, ln 2, ln 5] -> weights [1/8, 1/4, 5/8]; dS = [−1/4, 3/2, −5/4]
    "cross": HeadExample(
        "cross-attention: Q comes from the decoder, K and V from the encoder's z",
        {
            "y": np.array([[1.0, 0.0]]),
            "z": np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
            "W_Q": np.array([[ROOT2, 0.0], [0.0, ROOT2]]),
            "W_K": np.array([[LN2, 0.0], [LN5, 0.0]]),
            "W_V": 8.0 * np.eye(2),
        },
        _cross,
    ),
}


def pencil(value: float) -> str:
    """Writes a number as one would on paper: a simple fraction, a known logarithm or root, else three digits.

    >>> [pencil(x) for x in (0.75, -1.25, 4.0, 0.0, math.log(3.0), -math.sqrt(2.0), 0.1234, -math.inf)]
    ['3/4', '−5/4', '4', '0', 'ln 3', '−√2', '0.123', '−∞']
    """
    sign, size = ("−" if value < 0 else ""), abs(float(value))
    if math.isinf(size):
        return f"{sign}∞"
    simple = Fraction(size).limit_denominator(16)
    if abs(float(simple) - size) < 1e-9:
        return f"{sign}{simple}"
    known = {"ln 2": LN2, "ln 3": LN3, "ln 5": LN5, "√2": ROOT2}
    return sign + next((name for name, exact in known.items() if abs(exact - size) < 1e-9), f"{size:.3g}")


def pencil_rows(values: Any) -> list[list[str]]:
    """A matrix, vector or number as rows of `pencil` texts."""
    return [[pencil(value) for value in row] for row in np.atleast_2d(np.asarray(values)).tolist()]
