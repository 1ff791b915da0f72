"""The chapter on self-attention: all settings of the strip in one run, and what the terminal says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tinygrad_attn as ta
from transformer.attention import MultiHeadAttention
from transformer.lessons.strip import D_MODEL, Setting, Strip, largest_error, leaves, run, settings
from transformer.lessons.strip_mistakes import Mistake, ScaleRow, mistakes, target_mask_on_a_source, why_scale
from transformer.lessons.strip_text import written
from transformer.lessons.terminal import WIDTH, table


@dataclass(frozen=True, eq=False)
class AttentionLesson:
    """What the page and the terminal show, all of it from one run.

    Args:
        strips: every setting as it ran, by name.
        mistakes: for every setting, what goes wrong.
        scale: random scores of growing length, with and without 1/√d.
        says: the engine's words on a mask that belongs to another sequence.
        largest_error: largest difference between a gradient and its numerical derivative, over all settings.
        module_error: largest difference between O and what the models' own attention gives, over all settings.
    """

    strips: Mapping[str, Strip]
    mistakes: Mapping[str, Mapping[str, Mistake]]
    scale: list[ScaleRow]
    says: str
    largest_error: float
    module_error: float

    @property
    def first(self) -> Strip:
        """The setting with which the page opens."""
        return self.strips[Setting().name]


def build_attention_lesson() -> AttentionLesson:
    """Runs every setting forward, backward and with every mistake; there is nothing to train."""
    strips = {setting.name: run(setting) for setting in settings()}
    return AttentionLesson(
        strips,
        {name: mistakes(strip) for name, strip in strips.items()},
        why_scale(),
        target_mask_on_a_source(),
        max(largest_error(strip) for strip in strips.values()),
        max(float(np.max(np.abs(strip.values["O"] - by_module(strip.setting)))) for strip in strips.values()),
    )


def by_module(setting: Setting) -> Any:
    """O as the class gives it that the project's Transformer is built from, with the same numbers as parameters.

    A class that always scales gets W_Q times √d where the setting does not scale.
    """
    given = leaves(setting)
    layer = MultiHeadAttention(D_MODEL, setting.heads, bias=False)
    undo = 1.0 if setting.scaled else np.sqrt(setting.d_head)
    parts = {"to_query": given["W_Q"] * undo, "to_key": given["W_K"], "to_value": given["W_V"]}
    for name, values in {**parts, "to_output": np.eye(D_MODEL)}.items():
        getattr(layer, name).weight = ta.nn.Parameter(values.T)  # (out, in)
    query = given["z" if setting.source == "reversed" else "x"][None]
    memory = {"self": None, "cross": given["z"][None], "reversed": given["x"][None]}[setting.source]
    return layer(query, memory, mask=setting.allowed()).numpy()[0]


def chapter(lesson: AttentionLesson) -> str:
    """The strip of the last query as text of 80 columns."""
    strip = lesson.first
    tokens, values = strip.setting.key_tokens, strip.values
    row = len(tokens) - 1
    rows = [
        [
            token,
            written(float(values["scaled"][0, row, key])),
            written(float(values["masked"][0, row, key])),
            written(float(values["exp"][0, row, key])),
            written(float(values["weights"][0, row, key])),
            "  ".join(written(value) for value in values["V"][key].tolist()),
        ]
        for key, token in enumerate(tokens)
    ]
    total = written(float(values["exp"][0, row].sum()))
    read = "  ".join(written(value) for value in values["O"][row].tolist())
    slope = "  ".join(written(value) for value in strip.gradients["scaled"][0, row].tolist())
    return "\n".join(
        [
            f"{tokens[row]!r} asks: q = {'  '.join(written(value) for value in values['Q'][row].tolist())}\n",
            table(["", "q·k/√d", "masked", "e^s", "weight", "v"], rows, right=[1, 2, 3, 4]),
            f"\nsum of e^s: {total}, so the weights are e^s/{total}; Σ weight·v = {read}",
            f"gradient of the four scores, which adds up to 0: {slope}",
            f"\n{len(lesson.strips)} settings computed: self or cross, mask, scale, heads. Largest difference of a",
            f"gradient from its numerical derivative: {lesson.largest_error:.0e}"[:WIDTH],
        ]
    )
