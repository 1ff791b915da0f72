"""docs/complex.md: its examples print what it says, and what it says of rotary positions and FNet holds."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np

import tinygrad_attn as ta

PAGE = Path(__file__).resolve().parents[2] / "docs" / "complex.md"


def test_the_examples_of_the_page_print_what_it_says() -> None:
    before = ta.get_default_dtype()
    try:
        found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    finally:
        ta.set_default_dtype(before)
    assert found.attempted >= 15 and not found.failed


def by_complex_numbers(x: Any, angles: Any) -> Any:
    pairs = x[:, 0::2] + 1j * x[:, 1::2]
    turned = pairs * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


def test_rotary_positions_are_the_same_in_complex_and_in_real_numbers() -> None:
    rng = np.random.default_rng(0)
    upstream, found = rng.normal(size=(5, 6)), []
    given = rng.normal(size=(5, 6)), rng.normal(size=(5, 3))
    for turn in (by_complex_numbers, ta.rotate_pairs):
        x, angles = (ta.Tensor(values, requires_grad=True) for values in given)
        turned = turn(x, angles)
        turned.backward(upstream)
        found.append([turned.numpy(), x.grad, angles.grad])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_a_score_of_two_rotated_vectors_knows_their_distance_alone() -> None:
    query, key = np.random.default_rng(1).normal(size=(2, 1, 6))
    theta = np.array([1.0, 0.1, 0.01])

    def score(m: int, n: int) -> float:
        return float(ta.Tensor(by_complex_numbers(query, m * theta) @ by_complex_numbers(key, n * theta).T).item())

    assert np.isclose(score(3, 1), score(12, 10)) and not np.isclose(score(3, 1), score(3, 2))


def test_fnet_s_mixing_is_two_products_with_the_matrix_of_the_transform() -> None:
    def transform(n: int) -> Any:
        return np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)

    x = ta.Tensor(np.random.default_rng(2).normal(size=(2, 5, 4)), requires_grad=True)
    upstream = np.random.default_rng(3).normal(size=(2, 5, 4))
    mixed, product = np.fft.fft2(x, axes=(-2, -1)).real, (transform(5) @ x @ transform(4)).real
    np.testing.assert_allclose(mixed.numpy(), product.numpy(), atol=1e-12)
    one, other = (ta.gradients(out, x, upstream).numpy() for out in (mixed, product))
    np.testing.assert_allclose(one, other, atol=1e-12)
