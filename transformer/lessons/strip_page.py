"""The strip as one HTML page: every setting, computed beforehand, for a script that only shows and compares."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tinygrad_attn
from transformer.lessons.contents import PAGES, neighbours
from transformer.lessons.strip import Array, Setting, Strip
from transformer.lessons.strip_lesson import AttentionLesson
from transformer.lessons.strip_mistakes import forgotten_scale
from transformer.lessons.strip_text import written
from viz.numbers import significant
from viz.page import Words, render_page

TEMPLATES = Path(__file__).parent / "templates"
LANGUAGES = ("en", "ko")

STEPS = {"x": "x", "q": "Q", "k": "K", "v": "V", "scores": "QKᵀ", "scale": "S", "mask": "S′", "softmax": "P"}
STEPS |= {"sum": "O", "all": "P V", "heads": "P₁ P₂", "join": "O"}
NAMES = {"scores": "QKᵀ", "scaled": "S", "masked": "S′", "exp": "exp S′", "weights": "P"}
RULES = {
    "q": "∂L/∂W_Q = xᵀ dQ,  dx += dQ W_Qᵀ",
    "k": "∂L/∂W_K = xᵀ dK,  dx += dK W_Kᵀ",
    "v": "∂L/∂W_V = xᵀ dV,  dx += dV W_Vᵀ",
    "scores": "dQ = dA K,  dK = dAᵀ Q,  A = QKᵀ",
    "scale": "dA = dS/√d",
    "mask": "dS = dS′ where allowed, else 0",
    "softmax": "dS′ = P ∘ (dP − Σ P∘dP)",
    "sum": "dP = dO Vᵀ,  dV = Pᵀ dO",
    "join": "[dO₁ | dO₂] = dO",
}
# Under which step a mistake is shown.
MISTAKES = {
    "scale": ("forgotten",),
    "mask": ("target_mask",),
    "softmax": ("wrong_axis",),
    "sum": ("reversed",),
    "all": ("after", "times_zero", "plus", "textbook"),
    "heads": ("d_model",),
}

# The steps that have one query at a time, for a page without a script: what is on the left, and what comes out.
STILL: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("q", ("x", "W_Q"), "Q"),
    ("k", ("x", "W_K"), "K"),
    ("v", ("x", "W_V"), "V"),
    ("scores", ("Q", "Kᵀ"), "scores"),
    ("scale", ("scores",), "scaled"),
    ("mask", ("scaled",), "masked"),
    ("softmax", ("exp",), "weights"),
    ("sum", ("weights", "V"), "O"),
)


def attention_words() -> Words:
    """All texts of the page, English and Korean."""
    return Words({code: json.loads(_read(f"strip.{code}.json")) for code in LANGUAGES})


def attention_page(lesson: AttentionLesson, *, language: str = "auto", present: Sequence[str] = tuple(PAGES)) -> str:
    """The whole page.

    Args:
        lesson: the run.
        language: "en", "ko", or "auto" for the reader's.
        present: names of the chapters whose pages stand beside this one; links lead to no others.
    """
    first = lesson.strips[Setting().name]
    return render_page(
        "strip.html",
        folder=TEMPLATES,
        words=attention_words(),
        data=attention_data(lesson),
        style=_read("lesson.css") + _read("strip.css"),
        script=_read("strip_tools.js") + _read("strip.js"),
        language=language,
        still=[
            (step, [_table(first, name) for name in left], _table(first, out), _table(first, out, slope=True))
            for step, left, out in STILL
        ],
        steps=list(STEPS.items()),
        names={**{name: NAMES.get(name, name) for name in first.values}, "Kᵀ": "Kᵀ"},
        rules=RULES,
        mistakes=MISTAKES,
        scale=lesson.scale,
        significant=significant,
        says=lesson.says,
        largest_error=significant(lesson.largest_error, 1),
        module_error=significant(lesson.module_error, 1),
        count=len(lesson.strips),
        version=tinygrad_attn.__version__,
        numpy=np.__version__,
        neighbours=neighbours("attention", present),
    )


def attention_data(lesson: AttentionLesson) -> dict[str, Any]:
    """What the script needs: the numbers of every setting, each matrix once, as text and as number."""
    pool: dict[str, int] = {}

    def keep(values: Array) -> int:
        """The place of a matrix among all different ones."""
        texts = [[written(value) for value in row] for row in values.tolist()]
        numbers = [[float(f"{value:.6g}") if math.isfinite(value) else 0.0 for value in row] for row in values.tolist()]
        return pool.setdefault(json.dumps({"t": texts, "v": numbers}, ensure_ascii=False), len(pool))

    def kept(values: Array) -> list[int]:
        return [keep(matrix) for matrix in (values if values.ndim == 3 else values[None])]

    runs = {}
    for name, strip in lesson.strips.items():
        setting, allowed = strip.setting, strip.setting.allowed()
        gain = np.sum(strip.values["weights"] * strip.gradients["weights"], axis=-1, keepdims=True)
        runs[name] = {
            "queries": setting.query_tokens,
            "keys": setting.key_tokens,
            "d": setting.d_head,
            "allowed": None if allowed is None else allowed.astype(int).tolist(),
            "values": {matrix: kept(values) for matrix, values in strip.values.items()},
            "slopes": {matrix: kept(values) for matrix, values in strip.gradients.items()},
            "total": kept(strip.values["exp"].sum(axis=-1, keepdims=True)),
            "gain": kept(gain),
            "forgotten": kept(forgotten_scale(strip)),
            "mistakes": {
                mistake: {
                    "weights": kept(made.weights),
                    "rows": kept(made.weights.sum(axis=-1, keepdims=True)),
                    "columns": kept(made.weights.sum(axis=-2, keepdims=True)),
                    "leaked": None if made.leaked is None else kept(made.leaked),
                }
                for mistake, made in lesson.mistakes[name].items()
            },
        }
    return {"pool": [json.loads(text) for text in pool], "runs": runs, "first": Setting().name}


def _table(strip: Strip, name: str, *, slope: bool = False) -> Mapping[str, Any]:
    """A matrix of the opening setting, with one head, for a page without a script."""
    values = (strip.gradients if slope else strip.values)[name.removesuffix("ᵀ")]
    matrix = values[0] if values.ndim == 3 else values
    matrix = matrix.T if name.endswith("ᵀ") else matrix
    tokens = strip.setting.key_tokens if name in ("K", "V") else strip.setting.query_tokens
    return {
        "name": name,
        "rows": list(zip([""] * 4 if name[0] == "W" or name == "Kᵀ" else tokens, matrix.tolist(), strict=True)),
        "shape": f"{matrix.shape[0]} × {matrix.shape[1]}",
        "written": written,
    }


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
