"""The strip: its numbers are attention's, its gradients those of numerical differentiation, its mistakes mistaken."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from transformer.lessons.strip import (
    PAD,
    X_TOKENS,
    Z_TOKENS,
    Setting,
    Strip,
    leaves,
    numerical,
    run,
    settings,
    upstream,
)
from transformer.lessons.strip_lesson import by_module, chapter
from transformer.lessons.strip_mistakes import mistakes, possible, target_mask_on_a_source, weights, why_scale
from transformer.lessons.strip_text import written

ALL = [pytest.param(setting, id=setting.name) for setting in settings()]


@pytest.fixture(scope="module")
def strips() -> dict[str, Strip]:
    return {setting.name: run(setting) for setting in settings()}


def test_every_choice_is_a_setting() -> None:
    assert len(settings()) == len({setting.name for setting in settings()}) == 32


# --- forward -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ALL)
def test_the_strip_is_the_attention_of_the_models(setting: Setting, strips: dict[str, Strip]) -> None:
    np.testing.assert_allclose(strips[setting.name].values["O"], by_module(setting), atol=1e-12)


@pytest.mark.parametrize("setting", ALL)
def test_rows_sum_to_one_and_hidden_cells_are_zero(setting: Setting, strips: dict[str, Strip]) -> None:
    looked, allowed = strips[setting.name].values["weights"], setting.allowed()
    assert looked.shape == (setting.heads, len(setting.query_tokens), len(setting.key_tokens))
    seen = np.ones(looked.shape[1:], dtype=bool) if allowed is None else allowed
    np.testing.assert_allclose(looked.sum(axis=-1), np.broadcast_to(seen.any(axis=-1), looked.shape[:2]), atol=1e-15)
    assert not looked[:, ~seen].any() and looked[:, seen].all()


def test_a_row_that_is_hidden_throughout_reads_and_sends_back_zeros(strips: dict[str, Strip]) -> None:
    strip = strips[Setting(mask="both").name]
    assert X_TOKENS[0] == PAD and not strip.setting.allowed()[0].any()  # type: ignore[index]
    assert not strip.values["weights"][:, 0].any() and not strip.values["O"][0].any()
    assert all(np.isfinite(gradient).all() for gradient in strip.gradients.values())


@pytest.mark.parametrize("setting", ALL)
def test_scores_are_for_a_pencil(setting: Setting, strips: dict[str, Strip]) -> None:
    """e to the power of a score is a whole number wherever the page calls it one: all but two unscaled heads."""
    if setting.scaled or setting.heads == 1:
        powers = np.exp(strips[setting.name].values["scaled"])
        np.testing.assert_allclose(powers, np.rint(powers), atol=1e-12)


def test_the_sentence_is_the_articles(strips: dict[str, Strip]) -> None:
    """What the page says of "am": it finds "I" in x, 좋아 in z, and with two heads "I" and <s>."""
    am = X_TOKENS.index("am")

    def most(setting: Setting, head: int = 0) -> str:
        return setting.key_tokens[int(strips[setting.name].values["weights"][head, am].argmax())]

    for mask in ("none", "padding", "causal", "both"):
        assert most(Setting(mask=mask)) == "I"  # type: ignore[arg-type]
        assert [most(Setting(mask=mask, heads=2), head) for head in (0, 1)] == ["I", "<s>"]  # type: ignore[arg-type]
    for mask in ("none", "padding"):
        assert most(Setting("cross", mask)) == "좋아"  # type: ignore[arg-type]
        assert [most(Setting("cross", mask, heads=2), head) for head in (0, 1)] == ["나는", "좋아"]  # type: ignore[arg-type]


def test_the_source_of_keys_and_values_is_the_only_difference(strips: dict[str, Strip]) -> None:
    own, cross = strips["self padding scaled 1"], strips["cross padding scaled 1"]
    for name in ("W_Q", "W_K", "W_V", "x", "z", "Q"):
        np.testing.assert_array_equal(own.values[name], cross.values[name])
    assert cross.values["K"].shape == cross.values["V"].shape == (len(Z_TOKENS), 4)
    assert cross.values["O"].shape == own.values["O"].shape == (len(X_TOKENS), 4)
    assert strips["reversed padding scaled 1"].values["O"].shape == (len(Z_TOKENS), 4)


def test_without_the_scale_odds_are_squared(strips: dict[str, Strip]) -> None:
    scaled, raw = strips["self none scaled 1"].values["exp"], strips["self none raw 1"].values["exp"]
    np.testing.assert_allclose(raw, scaled**2, rtol=1e-12)


# --- backward ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ALL)
def test_gradients_are_numerical_derivatives(setting: Setting, strips: dict[str, Strip]) -> None:
    for name in leaves(setting):
        np.testing.assert_allclose(strips[setting.name].gradients[name], numerical(setting, name), atol=1e-7)


@pytest.mark.parametrize("setting", ALL)
def test_gradients_in_between_follow_the_rules_that_the_page_states(setting: Setting, strips: dict[str, Strip]) -> None:
    value, slope = strips[setting.name].values, strips[setting.name].gradients
    read = slope["read"]  # (heads, query_len, d_head)
    joined = np.concatenate(list(read), axis=-1)
    np.testing.assert_allclose(joined, upstream(setting), atol=1e-14)
    np.testing.assert_allclose(slope["weights"], read @ value["v"].swapaxes(-1, -2), atol=1e-12)
    np.testing.assert_allclose(slope["v"], value["weights"].swapaxes(-1, -2) @ read, atol=1e-12)
    gain = np.sum(value["weights"] * slope["weights"], axis=-1, keepdims=True)
    np.testing.assert_allclose(slope["masked"], value["weights"] * (slope["weights"] - gain), atol=1e-12)
    np.testing.assert_allclose(slope["masked"].sum(axis=-1), 0.0, atol=1e-12)
    scale = math.sqrt(setting.d_head) if setting.scaled else 1.0
    np.testing.assert_allclose(slope["scores"], slope["scaled"] / scale, atol=1e-12)
    np.testing.assert_allclose(slope["q"], slope["scores"] @ value["k"], atol=1e-12)
    np.testing.assert_allclose(slope["k"], slope["scores"].swapaxes(-1, -2) @ value["q"], atol=1e-12)
    allowed = setting.allowed()
    if allowed is not None:
        assert not slope["scaled"][:, ~allowed].any()


# --- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ALL)
def test_right_is_right_and_every_mistake_differs(setting: Setting, strips: dict[str, Strip]) -> None:
    strip = strips[setting.name]
    made = mistakes(strip)
    np.testing.assert_allclose(made["right"].weights, strip.values["weights"], atol=1e-15)
    for name in made.keys() - {"right"}:
        assert not np.allclose(made[name].weights, made["right"].weights), name


def test_a_mistake_with_a_mask_needs_a_mask(strips: dict[str, Strip]) -> None:
    assert possible(Setting(mask="none")) == ["right", "wrong_axis"]
    with pytest.raises(ValueError, match="has none"):
        weights("after", strips["self none scaled 1"].values["scaled"], Setting(mask="none"))


@pytest.mark.parametrize("mask", ["causal", "both"])
@pytest.mark.parametrize("heads", [1, 2])
def test_the_future_shows_through_mistakes_and_through_nothing_else(
    strips: dict[str, Strip], mask: str, heads: int
) -> None:
    made = mistakes(strips[Setting(mask=mask, heads=heads).name])  # type: ignore[arg-type]
    earlier = slice(0, len(X_TOKENS) - 1)
    for name, kind in made.items():
        assert kind.leaked is not None
        kept = np.array_equal(kind.weights[:, earlier], kind.leaked[:, earlier], equal_nan=True)
        assert kept == (name not in ("after", "wrong_axis")), name
    assert not np.array_equal(made["right"].weights[:, -1], made["right"].leaked[:, -1])  # type: ignore[index]


def test_mistaken_weights_are_as_the_page_says(strips: dict[str, Strip]) -> None:
    made = mistakes(strips["self both scaled 1"])
    wrong = made["wrong_axis"].weights
    np.testing.assert_allclose(wrong.sum(axis=-2)[:, 1:], 1.0)
    assert not np.allclose(wrong.sum(axis=-1)[:, 1:], 1.0)
    assert (made["after"].weights.sum(axis=-1) < 1).all()
    hidden = ~Setting().allowed()  # type: ignore[operator]
    assert (made["times_zero"].weights[:, hidden] > 0).all()
    assert np.isnan(made["plus"].weights).all()
    assert np.isnan(made["textbook"].weights[:, 0]).all() and not np.isnan(made["textbook"].weights[:, 1:]).any()


def test_the_wrong_axis_has_correct_gradients_too() -> None:
    """The page says so: no gradient check finds the mistake."""
    assert ta.gradcheck(lambda scores: ta.softmax(scores, axis=-2), np.log(np.arange(1.0, 10.0).reshape(3, 3)))


def test_the_mask_of_another_sequence_is_refused_in_words() -> None:
    told = target_mask_on_a_source()
    assert "(1, 4, 3)" in told and "(1, 4)" in told


def test_larger_d_means_larger_scores_and_less_gradient_unless_scaled() -> None:
    rows = why_scale()
    for row in rows:
        assert abs(row.spread / math.sqrt(row.d) - 1) < 0.05
    assert [row.raw for row in rows] == sorted(row.raw for row in rows)
    assert [row.raw_slope for row in rows] == sorted((row.raw_slope for row in rows), reverse=True)
    assert max(row.scaled_slope for row in rows) < 1.1 * min(row.scaled_slope for row in rows)


# --- in words ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ALL)
def test_written_numbers_are_the_numbers(setting: Setting, strips: dict[str, Strip]) -> None:
    def read(text: str) -> float:
        sign, text = (-1.0, text[1:]) if text.startswith("−") else (1.0, text)
        factor, _, number = text.rpartition("ln ")
        if number != text:
            return sign * (float(factor) if factor else 1.0) * math.log(float(number))
        if text.startswith("√"):
            return sign * math.sqrt(float(text[1:]))
        above, _, below = text.replace("−", "-").partition("/")
        return sign * float(above.replace("∞", "inf")) / float(below or 1)

    for values in (*strips[setting.name].values.values(), *strips[setting.name].gradients.values()):
        for value in values.flat:
            np.testing.assert_allclose(
                read(written(float(value))), value, rtol=0.06, atol=5.01e-3 * (abs(value) > 0.09)
            )


def test_the_terminal_shows_one_query_in_eighty_columns() -> None:
    require("jinja2")
    from transformer.lessons.strip_lesson import build_attention_lesson

    told = chapter(build_attention_lesson())
    assert max(map(len, told.splitlines())) <= 80
    assert "1/3" in told and "−23/18" in told and "ln 3" in told
