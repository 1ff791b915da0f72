"""The exercises, from one addition to a whole attention head."""

from __future__ import annotations

from transformer.lessons.exercises.adding import BIAS, EMBEDDING, SELF_SIMILARITY
from transformer.lessons.exercises.attending import ATTENTION, MASKED_SOFTMAX, SOFTMAX
from transformer.lessons.exercises.exercise import Exercise
from transformer.lessons.exercises.products import CROSS_ENTROPY, LAYER_NORM, MATMUL

EXERCISES: dict[str, Exercise] = {
    exercise.name: exercise
    for exercise in (
        BIAS,
        MATMUL,
        SELF_SIMILARITY,
        EMBEDDING,
        SOFTMAX,
        MASKED_SOFTMAX,
        CROSS_ENTROPY,
        LAYER_NORM,
        ATTENTION,
    )
}
