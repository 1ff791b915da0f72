"""The model that says what `it` stands for: what it learns, and that what is laid open is what it computes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import tinygrad_attn as ta
from transformer.lessons.word import WordLesson, build_word_lesson, opposite, other_adjective, ratio
from transformer.lessons.word_model import ReferentConfig, ReferentModel, mean_looks, score, train
from transformer.lessons.word_reading import read
from transformer.lessons.word_terminal import bar, chapter, looks_table
from transformer.tasks import Score
from transformer.tasks.coreference import ADJECTIVES, ARTICLE, NOVELTIES, CoreferenceTask
from viz.escape import display_width

WIDE = ARTICLE.replace("tired", "wide")


# --- learning ----------------------------------------------------------------------------------------------------


def test_two_layers_learn_what_one_layer_cannot() -> None:
    task = CoreferenceTask(seed=2)
    asked = task.held_out("sentence", 200) + task.held_out("pair", 200)
    configs = (ReferentConfig(layers=layers, steps=600, seed=2) for layers in (2, 1))
    deep, shallow = (score(train(task, config).model, task, asked) for config in configs)
    assert deep["meaning"].accuracy >= 0.99 and deep["role"].accuracy >= 0.99
    assert shallow["meaning"].accuracy > 0.9
    assert shallow["role"].accuracy < 0.75


def test_a_training_is_a_function_of_its_configuration() -> None:
    config = ReferentConfig(steps=3, examples=50, batch_size=8)
    one, same, other = (
        train(CoreferenceTask(), chosen) for chosen in (config, config, dataclasses.replace(config, seed=1))
    )
    assert one.losses == same.losses != other.losses
    for name, values in one.model.state_dict().items():
        np.testing.assert_array_equal(values, same.model.state_dict()[name])


def test_a_trained_model_has_64_bit_numbers_that_32_bits_hold(word_lesson: WordLesson) -> None:
    for values in word_lesson.deep.model.state_dict().values():
        assert values.dtype == np.float64
        np.testing.assert_array_equal(values, values.astype(np.float32))


def test_padding_and_neighbours_change_nothing(word_lesson: WordLesson) -> None:
    task, model = word_lesson.task, word_lesson.deep.model
    sentences = task.held_out("sentence", 20)
    batch = task.encode(sentences)
    together = np.asarray(model(batch.ids, batch.lengths, batch.pronoun))
    for row, sentence in enumerate(sentences):
        alone = task.encode([sentence])
        np.testing.assert_allclose(model(alone.ids, alone.lengths, alone.pronoun)[0], together[row], atol=1e-10)


def test_what_interrupts_a_step_ends_the_training() -> None:
    def stop(layers: int, step: int, loss: float) -> None:
        if (layers, step) == (1, 2):
            raise KeyboardInterrupt

    config = ReferentConfig(steps=2, examples=20, batch_size=4)
    with pytest.raises(KeyboardInterrupt):
        build_word_lesson(CoreferenceTask(), None, config, on_step=stop)


# --- what is laid open -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2])
def test_the_opened_model_is_the_model(word_lesson: WordLesson, layers: int) -> None:
    model = {1: word_lesson.shallow, 2: word_lesson.deep}[layers].model
    for reading in word_lesson.article[layers]:
        ids, lengths = word_lesson.task.tokenizer.encode_batch([reading.text])
        pronoun = word_lesson.task.pronouns(ids)
        expected = ta.softmax(model(ids, lengths, pronoun)[0])
        np.testing.assert_allclose(reading.probabilities, expected, atol=1e-12)
        _, weights = model.encoder(model.embedding(ids), return_weights=True)
        for opened, layer in zip(reading.layers, weights, strict=True):
            np.testing.assert_allclose(opened.weights, layer[0], atol=1e-12)


def test_weights_are_the_softmax_of_likeness_and_sum_to_one(word_lesson: WordLesson) -> None:
    for layer in word_lesson.reading.layers:
        d_head = layer.query.shape[-1]
        likeness = np.einsum("hqd,hkd->hqk", layer.query, layer.key) / np.sqrt(d_head)
        np.testing.assert_allclose(layer.scores, likeness, atol=1e-12)
        grown = np.exp(likeness)
        np.testing.assert_allclose(layer.weights, grown / grown.sum(axis=-1, keepdims=True), atol=1e-12)
        np.testing.assert_allclose(layer.weights.sum(axis=-1), 1.0, atol=1e-12)


def test_the_gradient_is_the_slope_of_the_log_odds(word_lesson: WordLesson, monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight is moved by adding a small number to what softmax gives, in one layer, head and column."""
    reading, moved = word_lesson.reading, {"call": 0, "at": (0, 0, 0), "by": 0.0}
    softmax = ta.softmax

    def nudged(x: ta.Tensor, axis: int = -1) -> ta.Tensor:
        weights = softmax(x, axis=axis)
        if x.ndim == 3:  # (heads, words, words): the weights of a layer, not the probabilities
            layer, head, key = moved["at"]  # type: ignore[misc]
            if moved["call"] == layer:
                change = np.zeros(x.shape)
                change[head, reading.pronoun, key] = moved["by"]
                weights = weights + change
            moved["call"] += 1  # type: ignore[operator]
        return weights

    monkeypatch.setattr(ta, "softmax", nudged)
    step, answer = 1e-5, int(reading.probabilities.argmax())
    for at in ((0, 0, 1), (0, 1, 10), (1, 0, 1), (1, 1, 5)):
        odds = []
        for by in (step, -step):
            moved.update(call=0, at=at, by=by)
            p = read(word_lesson.deep.model, word_lesson.task, reading.text).probabilities[answer]
            odds.append(np.log(p) - np.log1p(-p))
        layer, head, key = at
        found = reading.layers[layer].gradient[head, reading.pronoun, key]
        np.testing.assert_allclose(found, (odds[0] - odds[1]) / (2 * step), rtol=1e-4, atol=1e-7)


def test_a_hidden_word_has_no_influence_but_on_its_own_row(word_lesson: WordLesson) -> None:
    """Hiding the last word makes all last words alike, since nobody reads them and `it` stands elsewhere."""
    task, model = word_lesson.task, word_lesson.deep.model
    last = len(ARTICLE.split()) - 1
    alike = [read(model, task, text) for text in (ARTICLE, WIDE)]
    ids = np.concatenate([task.tokenizer.encode_batch([reading.text])[0] for reading in alike])
    lengths, hidden = np.array([last + 1] * 2), np.array([last] * 2)
    tired, wide = np.asarray(ta.softmax(model(ids, lengths, task.pronouns(ids), hidden=hidden)))
    np.testing.assert_allclose(tired, wide, atol=1e-12)
    answer = int(alike[0].probabilities.argmax())
    np.testing.assert_allclose(alike[0].without[last], tired[answer], atol=1e-12)


def test_with_one_layer_an_adjective_cannot_move_weight_between_two_other_words(word_lesson: WordLesson) -> None:
    tired, wide = word_lesson.article[1]
    for head in range(word_lesson.deep.config.num_heads):
        ratios = [ratio(reading, 0, head, "animal", "street") for reading in (tired, wide)]
        np.testing.assert_allclose(ratios[0], ratios[1], rtol=1e-12)
    deep_tired, deep_wide = word_lesson.article[2]
    for head in range(word_lesson.deep.config.num_heads):
        first, second = (ratio(reading, 1, head, "animal", "street") for reading in (deep_tired, deep_wide))
        assert abs(first / second - 1) > 1e-6


# --- the lesson --------------------------------------------------------------------------------------------------


def test_scores_tell_every_novelty_and_both_models_apart(word_lesson: WordLesson) -> None:
    assert list(word_lesson.scores) == list(NOVELTIES)
    for models in word_lesson.scores.values():
        for scores in models.values():
            parts = scores["meaning"], scores["role"]
            assert scores["all"] == Score(sum(s.right for s in parts), sum(s.total for s in parts))
            assert scores["all"].total == 400
    assert word_lesson.right_answer == "animal"


def test_mean_looks_are_those_of_the_readings(word_lesson: WordLesson) -> None:
    task, sentences = word_lesson.task, word_lesson.task.held_out("pair", 12)
    found = mean_looks(word_lesson.deep.model, task, sentences)
    looks = []
    for sentence in sentences:
        reading = read(word_lesson.deep.model, task, sentence.text.lower())
        looks.append([reading.looks()[reading.words.index(noun)] for noun in (sentence.referent, sentence.other)])
    np.testing.assert_allclose(found, np.mean(looks, axis=0), atol=1e-12)


def test_every_adjective_has_an_opposite_of_the_other_side() -> None:
    sides = {"of_animals": "of_places", "of_places": "of_animals", "of_doer": "of_other", "of_other": "of_doer"}
    for side, words in ADJECTIVES.items():
        assert all(opposite(word) in ADJECTIVES[sides[side]] for word in words)
    assert opposite("street") == "street"
    assert (opposite("tired"), opposite("wide"), opposite("weak"), opposite("slow")) == (
        *("wide", "tired", "heavy", "fast"),
    )


def test_a_sentence_without_a_deciding_adjective_is_read_alone(word_lesson: WordLesson) -> None:
    task = word_lesson.task
    assert other_adjective(task, "The animal was tired because it was tired") == []
    reading = read(word_lesson.deep.model, task, "it was")
    assert reading.words == ("it", "was") and reading.without.shape == (2,)
    alone = dataclasses.replace(word_lesson, opened=(reading,), typed=True)
    assert alone.right_answer is None
    assert "reading: it was\n" in chapter(alone)


# --- the terminal ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [ARTICLE, "The slippery tunnel looked so crowded because it seemed very slippery"])
def test_the_chapter_fits_80_columns_and_says_the_weights(word_lesson: WordLesson, text: str) -> None:
    reading = read(word_lesson.deep.model, word_lesson.task, text)
    lesson = dataclasses.replace(word_lesson, opened=(reading, *word_lesson.opened[1:])[: 2 if text == ARTICLE else 1])
    told = chapter(lesson)
    assert max(map(display_width, told.splitlines())) <= 80
    lines = looks_table(lesson.opened).splitlines()
    assert [line.split()[0] for line in lines] == list(reading.words)


def test_bars_are_as_long_as_the_share() -> None:
    for value in np.linspace(0, 1, 41):
        drawn = bar(float(value), 10)
        assert abs(len(drawn) - 10 * value) < 1 and len(drawn) <= 10


def test_an_untrained_model_looks_nowhere_in_particular() -> None:
    task = CoreferenceTask()
    model = ReferentModel(task, ReferentConfig(), rng=np.random.default_rng(0)).eval()
    assert read(model, task, ARTICLE).looks().max() < 0.5
