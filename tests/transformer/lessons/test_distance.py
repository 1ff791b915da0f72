"""What arrives from afar: that the numbers are the engine's, and that the models learn what the page says."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from transformer.lessons import distance
from transformer.lessons.distance import DistanceLesson, arrival, gate, radius, sent_back, slope, turns, way
from transformer.lessons.distance_model import (
    KINDS,
    GatedReader,
    PlainReader,
    RecallConfig,
    draw,
    score,
    train,
    untrained,
)
from transformer.lessons.distance_terminal import chapter
from viz.escape import display_width

SMALL = RecallConfig(width=4, layers=1, longest=6)


def small(kind: str, config: RecallConfig = SMALL) -> Any:
    return untrained(kind, config).eval().to(np.float64)


def without_letters(value: float, bias: float = 0.0) -> PlainReader:
    """A plain network that sees no difference between letters, with W = value · I and the weights of letters I."""
    model = small("rnn")
    assert isinstance(model, PlainReader)
    model.embedding.weight.data[:] = 0.0
    cell = model.cell
    cell.weight_ih.data = np.eye(SMALL.width)
    cell.weight_hh.data = value * np.eye(SMALL.width)
    cell.bias_ih.data = np.full(SMALL.width, bias)  # type: ignore[union-attr]
    cell.bias_hh.data = np.zeros(SMALL.width)  # type: ignore[union-attr]
    return model


# --- learning ----------------------------------------------------------------------------------------------------


def test_gru_and_transformer_learn_it_and_the_gru_not_from_afar_alone() -> None:
    config = RecallConfig()
    for kind in ("gru", "transformer"):
        model = train(kind, config).model
        assert min(score(model, config, length, 100).accuracy for length in (8, 24, 48)) >= 0.99
    assert score(train("gru", config, far=True).model, config, 48, 200).accuracy < 0.25
    assert score(train("transformer", config, far=True).model, config, 48, 200).accuracy >= 0.99


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("far", [False, True])
def test_a_training_is_a_function_of_its_configuration(kind: str, far: bool) -> None:
    config = dataclasses.replace(SMALL, steps=3, far_steps=3, batch_size=4)
    same, again = (train(kind, config, far=far) for _ in range(2))
    other = train(kind, dataclasses.replace(config, seed=1), far=far)
    assert same.losses == again.losses != other.losses
    for name, values in same.model.state_dict().items():
        assert_array_equal(values, again.model.state_dict()[name])


def test_there_is_one_capital_and_it_is_the_answer() -> None:
    batch = draw(np.random.default_rng(0), 50, 9)
    capitals = batch.ids >= 8
    assert_array_equal(capitals.sum(axis=1), 1)
    assert_array_equal(capitals.argmax(axis=1), batch.place)
    assert_array_equal(batch.ids[np.arange(50), batch.place] - 8, batch.answer)
    assert set(batch.place) == set(range(9))
    assert_array_equal(draw(np.random.default_rng(0), 5, 9, 3).place, [3] * 5)


@pytest.mark.parametrize("kind", KINDS)
def test_no_model_sees_what_comes_later(kind: str) -> None:
    model, ids = small(kind), draw(np.random.default_rng(0), 2, 6).ids
    changed = ids.copy()
    changed[:, -1] = (changed[:, -1] + 1) % 8
    with ta.no_grad():
        one, other = (np.asarray(model.read(model.embedding(letters[:, :5]))) for letters in (ids, changed))
    assert_array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_one_letter_after_the_other_gives_the_same_as_all_at_once(kind: str) -> None:
    told = turns(small(kind), SMALL)
    assert told.difference < 1e-14
    assert told.kept == (SMALL.width if kind != "transformer" else 2 * SMALL.layers * SMALL.longest * SMALL.width)


# --- gradients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_arrives_is_the_numerical_derivative_of_the_loss(kind: str) -> None:
    model, batch = small(kind), draw(np.random.default_rng(3), 2, 6)
    at_end, at_letters = sent_back(model, batch)
    x = np.asarray(model.embedding(batch.ids))

    def loss(of: Any, read: bool) -> float:
        with ta.no_grad():
            logits = model.to_logits(of if read else model.read(of))
            return float(ta.cross_entropy(logits, batch.answer, reduction="sum"))

    def numerical(values: Any, read: bool) -> Any:
        slopes = np.zeros_like(values)
        for place in np.ndindex(values.shape):
            up, down = values.copy(), values.copy()
            up[place] += 1e-5
            down[place] -= 1e-5
            slopes[place] = (loss(up, read) - loss(down, read)) / 2e-5
        return np.linalg.norm(slopes, axis=-1)

    assert_allclose(at_letters[:, ::-1], numerical(x, read=False), rtol=1e-6, atol=1e-10)
    with ta.no_grad():
        last = np.asarray(model.read(x))
    assert_allclose(at_end, numerical(last, read=True), rtol=1e-6)


@pytest.mark.parametrize("value", [0.5, 1.25])
def test_a_plain_network_multiplies_by_its_weights_at_every_letter(value: float) -> None:
    arrived = arrival(without_letters(value), SMALL)  # the state stays 0, where tanh′ is 1
    assert_allclose(arrived.share, value ** np.arange(6), rtol=1e-12)
    assert_allclose(arrived.others, arrived.share, rtol=1e-12)
    assert arrived.per_letter == pytest.approx(value)


def test_radius_and_slope_are_those_of_the_weights() -> None:
    assert radius(without_letters(-0.75)) == pytest.approx(0.75)
    assert slope(without_letters(0.0, bias=0.5), SMALL) == pytest.approx(1 - np.tanh(0.5) ** 2)


def test_the_gate_is_the_part_of_the_state_that_stays() -> None:
    model, size = small("gru"), SMALL.width
    assert isinstance(model, GatedReader)
    for values in (model.gru.weight_ih_l0, model.gru.weight_hh_l0, model.gru.bias_ih_l0, model.gru.bias_hh_l0):  # type: ignore[attr-defined]
        values.data[:] = 0.0
    assert gate(model, SMALL) == (0.5, 0.5)
    model.gru.bias_hh_l0.data[size] = np.log(3)  # type: ignore[attr-defined]
    mean, best = gate(model, SMALL)
    assert best == pytest.approx(0.75) and mean == pytest.approx((0.75 + 3 * 0.5) / 4)


# --- paths -------------------------------------------------------------------------------------------------------


def test_a_recurrent_path_grows_with_the_distance_and_an_attention_path_does_not() -> None:
    rnn, gru, transformer = (way(small(kind), 6) for kind in KINDS)
    assert rnn.one_more == ["tanh", "add", "add", "matmul"] and rnn.shortest == rnn.longest
    assert_array_equal(np.diff(rnn.shortest), 4)
    assert sorted(gru.one_more) == ["add", "multiply"]
    assert_array_equal(np.diff(gru.shortest)[1:], 2)
    assert_array_equal(np.diff(gru.longest)[1:], len(gru.one_more_longest))
    assert transformer.one_more == transformer.one_more_longest == []
    assert len(set(transformer.shortest[1:])) == len(set(transformer.longest[1:])) == 1
    assert len(transformer.names) == transformer.shortest[1] > transformer.shortest[0]


# --- all together ------------------------------------------------------------------------------------------------


def test_a_lesson_is_a_function_of_its_configuration(distance_lesson: DistanceLesson) -> None:
    again = distance.build_distance_lesson(distance_lesson.config)
    for kind in KINDS:
        for one, other in ((distance_lesson.before, again.before), (distance_lesson.after, again.after)):
            assert_array_equal(one[kind].capital, other[kind].capital)
            assert_array_equal(one[kind].others, other[kind].others)
        assert distance_lesson.scores[kind] == again.scores[kind]
    assert distance_lesson.ways == again.ways and distance_lesson.example == again.example
    assert (distance_lesson.radius, distance_lesson.slope) == (again.radius, again.slope)


def test_every_step_is_told() -> None:
    told: list[float] = []
    config = dataclasses.replace(SMALL, steps=2, far_steps=1, batch_size=2)
    lesson = distance.build_distance_lesson(config, on_step=told.append)
    assert len(told) == 3 * len(KINDS)
    assert told[:2] == lesson.trained["rnn"].losses and told[-1:] == lesson.far["transformer"].losses


def test_the_terminal_shows_it_in_80_columns(distance_lesson: DistanceLesson) -> None:
    text = chapter(distance_lesson)
    assert max(map(display_width, text.splitlines())) <= 80
    last = distance_lesson.config.longest - 1
    for kind in KINDS:
        assert str(distance_lesson.ways[kind].longest[last]) in text
