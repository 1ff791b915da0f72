"""An attention map shows what the weights are, and refuses what is no attention map."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import require
from tinygrad_attn.errors import DtypeError, MaskError, NotFiniteError, OptionError, RenderError, ShapeError
from viz.attention import _hidden, attention_map
from viz.escape import shorten, visible

require("matplotlib")

SVG = "{http://www.w3.org/2000/svg}"
CAUSAL = np.tril(np.ones((4, 4), dtype=bool))
TOKENS = ["<Start of Sentence>", "the", "the", "안녕"]


def softmax(scores: Any, mask: Any = None) -> np.ndarray:
    scores = np.where(True if mask is None else mask, scores, -np.inf)
    peak = np.max(scores, axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def weights(*shape: int, mask: Any = None) -> np.ndarray:
    return softmax(np.random.default_rng(0).normal(size=shape), mask)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_token_has_its_own_row_and_column_even_where_a_word_occurs_twice() -> None:
    shown = texts(attention_map(weights(4, 4), TOKENS).svg())
    assert shown.count("the") == 4
    assert shown.count("<Start of Sentence>") == 2
    assert shown.count("안녕") == 2


@settings(max_examples=10)
@given(st.lists(st.text(min_size=1, max_size=40), min_size=2, max_size=5))
def test_tokens_come_out_as_written(tokens: list[str]) -> None:
    shown = texts(attention_map(np.full((len(tokens), len(tokens)), 1 / len(tokens)), tokens).svg())
    for token in tokens:
        core = token.strip(" ")
        if core and token == core:
            # XML readers see a no-break space as written; only the order of glyphs is the viewer's matter.
            assert shown.count(shorten(visible(token), 24, where="middle")) >= 2


def test_formulas_and_markup_are_tokens_too() -> None:
    tokens = ["$x$", "$", "\\alpha", "_^{", "</svg>", "&amp;", "a\nb", "\ud800"]
    shown = texts(attention_map(np.eye(8), tokens).svg())
    for token in tokens:
        assert visible(token) in shown


def test_axes_say_who_looks_at_whom() -> None:
    figure = attention_map(weights(2, 3), ["a", "b"], ["x", "y", "z"], query_title="decoder", key_title="encoder")
    shown = texts(figure.svg())
    assert "← decoder" in shown and "encoder →" in shown
    assert "2 queries in rows, 3 keys in columns" in figure.alt


def test_the_words_name_the_key_with_the_largest_weight() -> None:
    values = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5], [1 / 3] * 3])
    alt = attention_map(values, ["a", "b", "a"]).alt
    assert "“a” at 1 looks most at “a” at 1 (0.9)" in alt
    assert "“b” looks most at “a” at 3 (0.5), then “b” (0.3)" in alt
    assert "“a” at 3 looks equally at 3 keys" in alt


def test_one_batch_axis_of_size_one_is_taken_off_and_any_other_is_refused() -> None:
    assert attention_map(weights(1, 2, 4, 4), TOKENS).svg() == attention_map(weights(1, 2, 4, 4)[0], TOKENS).svg()
    with pytest.raises(ShapeError, match=r"batch axis has size 3.*\(3, 2, 4, 4\)"):
        attention_map(weights(3, 2, 4, 4), TOKENS)


@pytest.mark.parametrize(
    ("values", "queries", "keys", "error", "words"),
    [
        (weights(2, 3), ["a", "b", "c"], ["x", "y"], ShapeError, "wrong way round"),
        (weights(2, 3), ["a", "b"], None, ShapeError, "cross-attention needs keys="),
        (weights(2, 2), ["a"], None, ShapeError, "1 queries and 1 keys"),
        (weights(2, 2)[0], ["a", "b"], None, ShapeError, r"got \(2,\)"),
        (np.zeros((0, 0)), [], None, ShapeError, "nothing to draw"),
        (np.array([["a"]]), ["a"], None, DtypeError, "real numbers"),
        (np.array([[np.nan, 1.0]] * 2), ["a", "b"], None, NotFiniteError, r"query 0 \('a'\), key 0"),
        (np.array([[1.5, -0.5]] * 2), ["a", "b"], None, OptionError, "negative"),
        (np.array([[0.5, 0.2]] * 2), ["a", "b"], None, OptionError, "sums to 0.7"),
        (weights(4, 3).T / 1.0, ["a", "b", "c"], list("wxyz"), OptionError, "softmax ran over the queries"),
    ],
)
def test_what_is_no_attention_map_is_refused_by_name(
    values: np.ndarray, queries: list[str], keys: list[str] | None, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        attention_map(values, queries, keys)


def test_a_row_of_zeros_is_right_only_where_nothing_may_be_attended() -> None:
    mask = np.ones((2, 2), dtype=bool)
    mask[1] = False
    values = np.array([[0.5, 0.5], [0.0, 0.0]])
    assert "“b” may look at nothing" in attention_map(values, ["a", "b"], mask=mask).alt
    with pytest.raises(OptionError, match=r"query 1 \('b'\) sums to 0"):
        attention_map(values, ["a", "b"], mask=np.ones((2, 2), dtype=bool))


def test_a_mask_that_forbids_what_the_weights_do_is_refused() -> None:
    with pytest.raises(MaskError, match="inverted"):
        attention_map(weights(4, 4, mask=CAUSAL), TOKENS, mask=~CAUSAL | np.eye(4, dtype=bool))


@pytest.mark.parametrize("mask", [CAUSAL.astype(float), CAUSAL.astype(int), np.where(CAUSAL, 0.0, -np.inf)])
def test_a_mask_must_be_boolean(mask: np.ndarray) -> None:
    with pytest.raises(MaskError, match="True = may attend"):
        attention_map(weights(4, 4), TOKENS, mask=mask)


@given(
    queries=st.integers(1, 6),
    more_keys=st.integers(0, 3),
    padded=st.lists(st.booleans(), min_size=9, max_size=9),
)
def test_causal_and_padding_are_told_apart_and_together_are_the_mask(
    queries: int, more_keys: int, padded: list[bool]
) -> None:
    keys = queries + more_keys
    future = np.arange(keys) > np.arange(queries)[:, None] + more_keys
    padding = np.broadcast_to(np.array(padded[:keys]), (queries, keys))
    parts = _hidden(~(future | padding), (1, queries, keys))
    everything = np.logical_or.reduce([np.zeros((1, queries, keys), bool), *parts.values()])
    assert np.array_equal(everything[0], future | padding)
    assert np.array_equal(parts.get("causal", np.zeros((1, queries, keys), bool))[0], future & ~padding)
    assert np.array_equal(parts.get("padding", np.zeros((1, queries, keys), bool))[0], padding)
    assert "masked" not in parts


def test_causal_padding_and_zero_have_different_looks() -> None:
    mask = CAUSAL & np.array([True, True, True, False])
    values = weights(4, 4, mask=mask)
    values[2] = [1.0, 0.0, 0.0, 0.0]
    svg = attention_map(values, TOKENS, mask=mask).svg()
    shown = texts(svg)
    assert "hidden: comes later (causal)" in shown and "hidden: padding" in shown
    assert shown.count("0") == 1 + 2  # two cells and the end of the scale
    assert len(re.findall("<pattern", svg)) >= 2


def test_own_reasons_may_be_given() -> None:
    shown = texts(attention_map(weights(4, 4, mask=CAUSAL), TOKENS, mask={"teacher's rule": CAUSAL}).svg())
    assert "hidden: teacher's rule" in shown


def test_the_scale_of_weights_is_fixed_and_that_of_gradients_is_symmetric() -> None:
    gradient = np.zeros((4, 4))
    gradient[1, 2], gradient[3, 0] = -0.5, 0.25
    shown = texts(attention_map(np.full((4, 4), 0.25), TOKENS, grad=gradient).svg())
    assert {"−0.5", "0.5", "0.25"} <= set(shown)
    assert "gradient ∂L/∂weight" in shown and "attention weight" in shown


def test_a_gradient_of_another_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match="grad: expected the shape of weights"):
        attention_map(weights(4, 4), TOKENS, grad=np.zeros((4, 3)))


def test_a_tiny_gradient_is_not_zero() -> None:
    gradient = np.zeros((4, 4))
    gradient[0, 0], gradient[1, 1] = 1.0, 1e-9
    shown = texts(attention_map(np.full((4, 4), 0.25), TOKENS, grad=gradient).svg())
    assert "1e−9" in shown and shown.count("0") >= 14


def test_the_picture_is_the_same_in_every_process() -> None:
    program = (
        "import numpy as np; from viz import attention_map\n"
        "m = np.tril(np.ones((3, 3), bool)); w = m / m.sum(1, keepdims=True)\n"
        "f = attention_map(w, ['a', 'b', 'c'], mask=m, grad=w - 0.5)\n"
        "import hashlib; print(hashlib.sha256(f.svg().encode() + f.png() + f.pdf()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
def test_all_formats_in_all_themes(theme: str) -> None:
    figure = attention_map(weights(3, 4, 4), TOKENS, theme=theme, heads=["a", "b", "c"])
    assert figure.png().startswith(b"\x89PNG") and figure.pdf().startswith(b"%PDF")
    assert set(figure._repr_mimebundle_()) == {"text/plain", "image/svg+xml", "image/png"}
    assert ("prefers-color-scheme" in figure.svg()) == (theme == "auto")
    assert figure.backend.startswith("Matplotlib")


def test_nothing_in_the_svg_speaks_of_the_page_around_it() -> None:
    svg = attention_map(weights(4, 4), TOKENS, title="t").svg()
    root = ElementTree.fromstring(svg)
    prefix = root.get("id")
    assert prefix and root.get("role") == "img" and root[0].text == "t"
    assert all(e.get("id", prefix).startswith(prefix) for e in root.iter())
    assert all("*{" not in (e.text or "") for e in root.iter(f"{SVG}style"))


def test_a_png_too_large_for_its_format_says_so() -> None:
    with pytest.raises(RenderError, match="SVG"):
        attention_map(weights(4, 4), TOKENS).png(dpi=100_000)


def test_long_maps_stay_of_bounded_size() -> None:
    many = [f"token {i}" for i in range(300)]
    figure = attention_map(weights(300, 300), many)
    assert max(figure.drawing.get_size_inches()) < 12
    assert len(figure.svg()) < 1_500_000
    assert "276 more rows are left out" in figure.alt
