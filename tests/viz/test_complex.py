"""Graphs with complex numbers: values and gradients are readable, and what cannot be shown says so."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta
from viz import draw_graph, replay
from viz.numbers import significant
from viz.values import summary


def turned() -> ta.Tensor:
    query = ta.Tensor(np.array([1 + 2j, -0.5j]), requires_grad=True, name="query")
    return (query * np.array([1.0, 1j])).real.sum()


@pytest.mark.parametrize(
    ("value", "text"),
    [(1 + 2j, "1 + 2i"), (0.5 - 2j, "0.5 − 2i"), (complex(1, -0.0), "1 + 0i"), (1e-9j, "0 + 1e−9i")],
)
def test_a_complex_number_has_one_sign_between_its_parts(value: complex, text: str) -> None:
    assert significant(value) == text


def test_values_and_gradients_are_in_the_drawing() -> None:
    dot = draw_graph(turned(), local_derivatives=True, backward=True).dot
    assert "1 + 2i" in dot and "complex128" in dot
    assert "0 − 1i" in dot  # the gradient of the second element, which is turned by a quarter: conj(i)


def test_many_numbers_are_summed_up_by_mean_and_size() -> None:
    facts = summary(np.array([3 + 4j, -3 + 0j, np.nan + 0j]))
    assert facts == {"mean": "0 + 2i", "max |z|": "5", "not finite": "1 of 3"}


def test_a_replay_ends_with_the_gradient_and_says_why_there_are_no_differences() -> None:
    text = str(replay(turned(), numerical=True))
    assert "∂L/∂query = [1 + 0i" in text
    assert "complex numbers are moved along two axes" in text.replace("\n    ", " ")
