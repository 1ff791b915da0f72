"""What goes wrong in attention and raises no error, computed beside what is right; and why scores are divided by √d."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn import Tensor
from tinygrad_attn.errors import TinygradAttnError
from transformer.lessons.strip import D_MODEL, PAD, X_TOKENS, Array, Mask, Setting, Strip, X, forward, leaves

# x of the last token is made this much longer, to see whether an earlier token notices.
LONGER = 2.0


@dataclass(frozen=True, eq=False)
class Mistake:
    """Weights as a mistaken line computes them.

    Args:
        weights: (heads, query_len, key_len); NaN where the mistake makes them so.
        leaked: the same after the last token of x has changed; None where there is no later token to hide.
    """

    weights: Array
    leaked: Array | None = None


def mistakes(strip: Strip) -> dict[str, Mistake]:
    """Every mistake that a setting allows, by name; "right" is there as well.

    Args:
        strip: the setting as it ran.
    """
    setting = strip.setting
    before = strip.values["scaled"]
    after = _changed(setting) if setting.mask in ("causal", "both") else None
    return {
        name: Mistake(
            weights(name, before, setting),
            None if after is None else weights(name, after, setting),
        )
        for name in possible(setting)
    }


def possible(setting: Setting) -> list[str]:
    """Names of the mistakes that a setting allows."""
    allowed = setting.allowed()
    names = ["right", "wrong_axis"]
    if allowed is not None:
        names += ["after", "times_zero", "plus"]
        if not allowed.any(axis=-1).all():
            names.append("textbook")
    if setting.heads > 1 and setting.scaled:
        names.append("d_model")
    return names


def weights(name: str, scores: Array, setting: Setting) -> Array:
    """The weights of scores, computed rightly or with one mistake.

    Args:
        name: one of `possible(setting)`.
        scores: (heads, query_len, key_len), not masked yet.
        setting: whose mask and sizes hold.
    """
    allowed = setting.allowed()
    if name == "right":
        return _softmax(_hidden(scores, allowed))
    if name == "wrong_axis":
        return _softmax(_hidden(scores, allowed), axis=-2)
    if name == "d_model":
        return _softmax(_hidden(scores * math.sqrt(setting.d_head / D_MODEL), allowed))
    if allowed is None:
        raise ValueError(f"{name} is a mistake with a mask, and {setting.name} has none")
    if name == "after":
        return _softmax(scores) * allowed
    if name == "times_zero":
        return _softmax(scores * allowed)
    return _textbook(np.where(allowed, scores, math.inf if name == "plus" else -math.inf))


def forgotten_scale(strip: Strip) -> Array:
    """∂L/∂QKᵀ by one who forgets that the division by √d has a rule too: the gradient of S as it is."""
    return strip.gradients["scaled"]


def target_mask_on_a_source() -> str:
    """What the engine says when cross-attention gets the mask of x where that of z belongs."""
    setting = Setting("cross", "none")
    t = forward({name: Tensor(values) for name, values in leaves(setting).items()}, setting)
    real = np.array([[token != PAD for token in X_TOKENS]])  # (1, 4), and z has three tokens
    try:
        ta.scaled_dot_product_attention(t["q"], t["k"], t["v"], mask=real)
    except TinygradAttnError as error:
        return str(error)
    raise AssertionError("a mask that does not fit was taken")


@dataclass(frozen=True)
class ScaleRow:
    """What happens to random scores of one length.

    Args:
        d: length of queries and keys.
        spread: standard deviation of q·k.
        raw, scaled: mean of a row's largest weight, without and with the division by √d.
        raw_slope, scaled_slope: mean size of the gradient that comes through softmax, both ways.
    """

    d: int
    spread: float
    raw: float
    scaled: float
    raw_slope: float
    scaled_slope: float


def why_scale(lengths: tuple[int, ...] = (1, 4, 16, 64, 256), *, keys: int = 8, draws: int = 500) -> list[ScaleRow]:
    """Scores of standard normal queries and keys, with and without 1/√d.

    Args:
        lengths: values of d.
        keys: how many keys a query looks at.
        draws: how many queries, each with keys of its own.
    """
    rng = np.random.default_rng(0)
    rows = []
    for d in lengths:
        q, k = rng.standard_normal((draws, 1, d)), rng.standard_normal((draws, d, keys))
        upstream = rng.standard_normal((draws, 1, keys))
        scores = q @ k  # (draws, 1, keys)
        raw, raw_slope = _through_softmax(scores, upstream)
        scaled, scaled_slope = _through_softmax(scores / math.sqrt(d), upstream)
        rows.append(ScaleRow(d, float(scores.std()), raw, scaled, raw_slope, scaled_slope))
    return rows


def _through_softmax(scores: Array, upstream: Array) -> tuple[float, float]:
    """Mean of the largest weight, and mean length of the gradient of the scores."""
    given = Tensor(scores, requires_grad=True)
    looked = ta.softmax(given, axis=-1)
    (slope,) = ta.gradients((looked * upstream).sum(), [given])
    return float(looked.numpy().max(axis=-1).mean()), float(np.linalg.norm(slope, axis=-1).mean())


def _hidden(scores: Array, allowed: Mask | None) -> Array:
    return scores if allowed is None else np.where(allowed, scores, -math.inf)


def _softmax(scores: Array, axis: int = -1) -> Array:
    return np.array(ta.softmax(Tensor(scores), axis=axis).numpy())


def _textbook(scores: Array) -> Array:
    """Softmax as textbooks write it, which knows nothing of rows that are hidden throughout."""
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _changed(setting: Setting) -> Array:
    """The scores after the last token of x has changed."""
    longer = X.copy()
    longer[-1] *= LONGER
    computed = forward({name: Tensor(values) for name, values in {**leaves(setting), "x": longer}.items()}, setting)
    return np.array(computed["scaled"].numpy())
