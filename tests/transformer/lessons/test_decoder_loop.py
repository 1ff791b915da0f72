"""The recorded loop is the loop: its tokens, its probabilities, its attention."""

from __future__ import annotations

import numpy as np

from tinygrad_attn import no_grad, softmax
from transformer.lessons.dates import DatesLesson
from transformer.training import predict


def test_the_loop_says_what_the_model_answers(lesson: DatesLesson) -> None:
    trainer = lesson.trainer
    assert [lesson.loop.answer] == predict(trainer.model, trainer.task, [lesson.text])
    assert "".join(lesson.loop.source) == lesson.text


def test_each_step_reads_what_the_steps_before_it_said(lesson: DatesLesson) -> None:
    said = ["<Start of Sentence>", *lesson.loop.said]
    for number, step in enumerate(lesson.loop.steps):
        assert list(step.so_far) == said[: number + 1]


def test_probabilities_are_those_of_the_model_without_cache(lesson: DatesLesson) -> None:
    model, task = lesson.trainer.model, lesson.trainer.task
    target = task.target_tokenizer
    src, lengths = task.source_tokenizer.encode_batch([lesson.text])
    step = lesson.loop.steps[-1]
    ids = [[target.tokens.index(token) for token in step.so_far]]
    with no_grad():
        probabilities = softmax(model(src, ids, src_lengths=lengths).numpy()[0, -1], axis=-1)
    for token, probability in step.choices:
        np.testing.assert_allclose(probabilities[target.tokens.index(token)], probability, rtol=1e-4)
    assert step.choices[0][1] == max(probability for _, probability in step.choices)


def test_attention_rows_sum_to_one(lesson: DatesLesson) -> None:
    for step in lesson.loop.steps:
        np.testing.assert_allclose(step.cross_attention.sum(axis=-1), 1.0, atol=1e-5)
        np.testing.assert_allclose(step.self_attention.sum(axis=-1), 1.0, atol=1e-5)
        assert step.self_attention.shape[-1] == len(step.so_far)
    assert lesson.loop.cross_attention().shape == (2, 4, len(lesson.loop.steps), len(lesson.text))
    np.testing.assert_allclose(lesson.loop.last_layer(), lesson.loop.cross_attention()[-1].mean(axis=0))


def test_z_is_one_vector_per_character(lesson: DatesLesson) -> None:
    assert lesson.loop.memory.shape == (len(lesson.text), 64)
