"""Self-attention as one strip of small matrices, in every setting of a reader's choice, forward and backward.

The sentence is the article's: the decoder has said `<s> I am`, and `good` comes next; the encoder has read 나는 좋아.
Scores are logarithms of whole numbers, so every weight is a fraction that a pencil can check.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import tinygrad_attn as ta
from tinygrad_attn import Tensor
from tinygrad_attn.masks import causal_mask

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Source = Literal["self", "cross", "reversed"]
MaskName = Literal["none", "padding", "causal", "both"]

PAD = "[pad]"
X_TOKENS = (PAD, "<s>", "I", "am")
Z_TOKENS = ("나는", "좋아", PAD)
D_MODEL = 4

# What the four numbers of a token say: start, "I", "am", "good". 좋아 is "am" and "good" in one word; padding is zero.
X = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], dtype=np.float64)
Z = np.array([[0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], dtype=np.float64)
W_Q = 2.0 * np.array([[1, 0, 0, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 0, 1]])
W_K = np.log(np.array([[1, 1, 2, 2], [3, 1, 1, 1], [1, 2, 1, 1], [1, 1, 5, 1]], dtype=np.float64))
W_V = np.array([[0, 2, 0, 6], [6, 0, 2, 0], [0, 6, 0, 2], [2, 0, 6, 0]], dtype=np.float64)

# L = Σ O∘C, so C is the gradient that arrives at O; padding has no part in a loss.
C = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, -1], [1, -1, 0, 1]], dtype=np.float64)


@dataclass(frozen=True)
class Setting:
    """What a reader may choose.

    Args:
        source: "self": q, k, v from x. "cross": q from x, the decoder's; k and v from z, the encoder's. "reversed": the
            mistake of taking them the other way round.
        mask: which keys are hidden; "causal" and "both" exist where queries and keys are one sequence.
        scaled: whether scores are divided by √d.
        heads: 1 or 2.
    """

    source: Source = "self"
    mask: MaskName = "both"
    scaled: bool = True
    heads: int = 1

    @property
    def name(self) -> str:
        """The setting as one word.

        >>> Setting().name
        'self both scaled 1'
        """
        return f"{self.source} {self.mask} {'scaled' if self.scaled else 'raw'} {self.heads}"

    @property
    def query_tokens(self) -> tuple[str, ...]:
        """Who asks."""
        return Z_TOKENS if self.source == "reversed" else X_TOKENS

    @property
    def key_tokens(self) -> tuple[str, ...]:
        """Who is asked."""
        return Z_TOKENS if self.source == "cross" else X_TOKENS

    @property
    def d_head(self) -> int:
        """Length of a query and a key."""
        return D_MODEL // self.heads

    def allowed(self) -> Mask | None:
        """The mask, (query_len, key_len), True = may attend; None without one."""
        if self.mask == "none":
            return None
        shape = (len(self.query_tokens), len(self.key_tokens))
        real = np.array([token != PAD for token in self.key_tokens])
        allowed = np.ones(shape, dtype=bool)
        if self.mask in ("padding", "both"):
            allowed &= real
        if self.mask in ("causal", "both"):
            allowed &= causal_mask(shape[0])
        return allowed


def settings() -> list[Setting]:
    """All settings that a reader can choose: 32."""
    masks: dict[Source, tuple[MaskName, ...]] = {
        "self": ("none", "padding", "causal", "both"),
        "cross": ("none", "padding"),
        "reversed": ("none", "padding"),
    }
    return [
        Setting(source, mask, scaled, heads)
        for source, names in masks.items()
        for mask, scaled, heads in itertools.product(names, (True, False), (1, 2))
    ]


@dataclass(frozen=True, eq=False)
class Strip:
    """One setting, run forward and backward.

    Args:
        setting: which.
        values: name to values. "x", "z", "W_Q", "W_K", "W_V", "Q", "K", "V" and "O" are (rows, 4); with a first axis
            for the heads: "q", "k", "v", "scores", "scaled", "masked", "exp", "weights", "read".
        gradients: ∂L/∂ of the same, but for "exp", which is shown and not used.
    """

    setting: Setting
    values: Mapping[str, Array]
    gradients: Mapping[str, Array]

    @property
    def loss(self) -> float:
        """L = Σ O∘C."""
        return float(np.sum(self.values["O"] * upstream(self.setting)))


def leaves(setting: Setting) -> dict[str, Array]:
    """The numbers that are given.

    With two heads W_Q is divided by √2: a head's scale is then 1/√2 instead of 1/√4, and weights stay fractions.
    """
    return {"x": X, "z": Z, "W_Q": W_Q / math.sqrt(setting.heads), "W_K": W_K, "W_V": W_V}


def upstream(setting: Setting) -> Array:
    """∂L/∂O; with the sources reversed there are only as many rows as z has tokens."""
    return C[1:] if setting.source == "reversed" else C


def forward(t: Mapping[str, Any], setting: Setting) -> dict[str, Any]:
    """Attention with primitive operations, every intermediate result under its name.

    Args:
        t: the leaves, as arrays or Tensors.
        setting: which sources, mask, scale and number of heads.
    """
    asking = t["z"] if setting.source == "reversed" else t["x"]
    asked = t["z"] if setting.source == "cross" else t["x"]
    whole = {"Q": asking @ t["W_Q"], "K": asked @ t["W_K"], "V": asked @ t["W_V"]}  # (length, 4) each
    q, k, v = (_split(whole[name], setting.heads) for name in "QKV")  # (heads, length, d_head) each
    scores = q @ ta.swapaxes(k, -1, -2)  # (heads, query_len, key_len)
    scaled = scores / math.sqrt(setting.d_head) if setting.scaled else scores * 1.0
    allowed = setting.allowed()
    masked = scaled * 1.0 if allowed is None else ta.masked_fill(scaled, ~allowed, value=-math.inf)
    weights = ta.softmax(masked, axis=-1)  # (heads, query_len, key_len); rows sum to 1, or are hidden throughout
    read = weights @ v  # (heads, query_len, d_head)
    joined = ta.reshape(ta.swapaxes(read, 0, 1), (len(setting.query_tokens), D_MODEL))
    return {
        **whole,
        **{"q": q, "k": k, "v": v, "scores": scores, "scaled": scaled, "masked": masked},
        **{"weights": weights, "read": read, "O": joined},
    }


def run(setting: Setting) -> Strip:
    """Computes a setting forward and backward."""
    given = {name: Tensor(values, requires_grad=True) for name, values in leaves(setting).items()}
    computed = forward(given, setting)
    loss = (computed["O"] * upstream(setting)).sum()
    tensors = {**given, **computed}
    found = ta.gradients(loss, list(tensors.values()), unused="zeros")  # self-attention leaves z alone
    values = {name: np.array(tensor.numpy()) for name, tensor in tensors.items()}
    gradients = {name: np.array(gradient) for name, gradient in zip(tensors, found, strict=True)}
    return Strip(setting, {**values, "exp": np.exp(values["masked"])}, gradients)


def numerical(setting: Setting, name: str, step: float = 1e-5) -> Array:
    """∂L/∂leaf by central differences.

    Args:
        name: one of the leaves.
        step: how far to go to either side.
    """
    given = leaves(setting)

    def loss(values: Array) -> float:
        computed = forward({leaf: Tensor(array) for leaf, array in {**given, name: values}.items()}, setting)
        return float(np.sum(computed["O"].numpy() * upstream(setting)))

    slope = np.zeros_like(given[name])
    for index in np.ndindex(slope.shape):
        nudge = np.zeros_like(slope)
        nudge[index] = step
        slope[index] = (loss(given[name] + nudge) - loss(given[name] - nudge)) / (2.0 * step)
    return slope


def largest_error(strip: Strip) -> float:
    """Largest difference between a leaf's gradient and its numerical derivative."""
    return max(
        float(np.max(np.abs(strip.gradients[name] - numerical(strip.setting, name)))) for name in leaves(strip.setting)
    )


def _split(x: Any, heads: int) -> Any:
    """(length, 4) -> (heads, length, d_head)."""
    return ta.swapaxes(ta.reshape(x, (x.shape[0], heads, D_MODEL // heads)), 0, 1)
