"""The numbers of the pencil examples are those of the textbook, and the engine's gradients are their slopes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from transformer.lessons.attention_head import EXAMPLES, pencil


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_gradients_are_the_slopes(name: str) -> None:
    head = EXAMPLES[name].run()
    assert head.largest_error < 1e-8
    assert head.gradients["L"] == 1.0


def test_the_head_has_the_numbers_of_the_lesson() -> None:
    head = EXAMPLES["head"].run()
    value = {name: tensor.numpy() for name, tensor in head.tensors.items()}
    np.testing.assert_allclose(value["S"], [[0.0, math.log(3.0)]], rtol=1e-12)
    np.testing.assert_allclose(value["P"], [[1 / 4, 3 / 4]], rtol=1e-12)
    np.testing.assert_allclose(value["O"], [[1.0, 3.0]], rtol=1e-12)
    np.testing.assert_allclose(head.gradients["O"], [[1.0, 0.0]])
    np.testing.assert_allclose(head.gradients["P"], [[4.0, 0.0]])
    np.testing.assert_allclose(head.gradients["S"], [[3 / 4, -3 / 4]], rtol=1e-12)


def test_self_attention_sees_no_later_token_and_adds_up_three_gradients() -> None:
    head = EXAMPLES["self"].run()
    g, t = head.gradients, {name: tensor.numpy() for name, tensor in head.tensors.items()}
    np.testing.assert_allclose(t["P"], [[1.0, 0.0], [1 / 4, 3 / 4]], rtol=1e-12)
    parts = g["Q"] @ t["W_Q"].T + g["K"] @ t["W_K"].T + g["V"] @ t["W_V"].T
    np.testing.assert_allclose(g["X"], parts, atol=1e-12)
    assert np.isfinite(g["S"]).all()


def test_cross_attention_has_simple_fractions() -> None:
    head = EXAMPLES["cross"].run()
    np.testing.assert_allclose(head.tensors["P"].numpy(), [[1 / 8, 1 / 4, 5 / 8]], rtol=1e-12)
    np.testing.assert_allclose(head.gradients["S"], [[-1 / 4, 3 / 2, -5 / 4]], rtol=1e-12)


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_rows_of_the_scores_gradient_sum_to_zero(name: str) -> None:
    np.testing.assert_allclose(EXAMPLES[name].run().gradients["S"].sum(axis=-1), 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("value", "text"), [(1 / 3, "1/3"), (-0.625, "−5/8"), (1e-9, "1e-09"), (math.inf, "∞"), (math.log(5.0), "ln 5")]
)
def test_numbers_are_written_as_on_paper(value: float, text: str) -> None:
    assert pencil(value) == text
