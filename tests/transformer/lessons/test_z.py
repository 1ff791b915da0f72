"""The chapter on z: what is squeezed and what is not, what moves, and the page that shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from transformer.lessons.z_lesson import KINDS, ZConfig, ZLesson, build_z_lesson, chapter, encoded, other_word
from transformer.lessons.z_model import SqueezedTransformer
from transformer.lessons.z_page import compared, z_page, z_words
from transformer.model import Transformer, TransformerConfig
from transformer.tasks.clauses import JOIN
from viz.escape import display_width

TEMPLATES = Path(__file__).resolve().parents[3] / "transformer" / "lessons" / "templates"


@pytest.fixture(scope="module")
def lesson() -> ZLesson:
    """A few steps only: both models answer badly, and everything computed from them must hold all the same."""
    return build_z_lesson(ZConfig(steps=4, most=3))


@pytest.fixture(scope="module")
def html(lesson: ZLesson) -> str:
    require("jinja2")
    return z_page(lesson)


# --- the model ---------------------------------------------------------------------------------------------------


@pytest.fixture
def pair() -> dict[str, Transformer]:
    """Both kinds with the same parameters."""
    config = TransformerConfig(source_vocab=9, target_vocab=9, d_model=8, num_heads=2, d_ff=16)
    made = {kind: cls(config, rng=np.random.default_rng(0)).eval().to(np.float64) for kind, cls in KINDS.items()}
    for mine, other in zip(made["each"].parameters(), made["one"].parameters(), strict=True):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())
    return made


def test_the_squeezed_z_is_the_mean_of_the_real_tokens_at_every_place(pair: dict[str, Transformer]) -> None:
    src, lengths = np.array([[4, 5, 6, 7], [8, 4, 0, 0]]), [4, 2]
    each, one = (pair[kind].encode(src, src_lengths=lengths).numpy() for kind in KINDS)
    for row, length in enumerate(lengths):
        for place in range(4):
            np.testing.assert_allclose(one[row, place], each[row, :length].mean(axis=0), atol=1e-12)
    whole = pair["one"].encode(src).numpy()
    np.testing.assert_allclose(whole[:, 0], pair["each"].encode(src).numpy().mean(axis=1), atol=1e-12)


def test_cross_attention_has_nothing_to_choose_from(pair: dict[str, Transformer]) -> None:
    """Decoding from the mean at every place is decoding from one place that holds it."""
    src, tgt = np.array([[4, 5, 6]]), np.array([[1, 4, 5]])
    memory = pair["one"].encode(src)
    np.testing.assert_allclose(
        pair["one"].decode(tgt, memory).numpy(), pair["one"].decode(tgt, memory[:, :1]).numpy(), atol=1e-12
    )


def test_every_real_token_gets_the_same_share_of_the_gradient() -> None:
    rng = np.random.default_rng(0)
    z, upstream = ta.Tensor(rng.standard_normal((1, 4, 3)), requires_grad=True), rng.standard_normal((1, 4, 3))
    real = np.array([True, True, True, False])[None, None, None]
    squeezed = SqueezedTransformer.share(z.shape, real, z.dtype) @ z
    (slope,) = ta.gradients((squeezed * upstream).sum(), [z])
    np.testing.assert_allclose(slope[0, :3], np.broadcast_to(upstream[0].sum(axis=0) / 3, (3, 3)))
    assert not np.any(slope[0, 3])


def test_weights_come_with_the_squeezed_memory(pair: dict[str, Transformer]) -> None:
    memory, weights = pair["one"].encode(np.array([[4, 5]]), return_weights=True)
    assert memory.shape == (1, 2, 8) and len(weights) == 2 and weights[0].shape == (1, 2, 2, 2)


# --- the run -----------------------------------------------------------------------------------------------------


def test_both_models_have_the_same_size_and_are_asked_the_same(lesson: ZLesson) -> None:
    sizes = {kind: trainer.model.num_parameters() for kind, trainer in lesson.trainers.items()}
    assert sizes["each"] == sizes["one"]
    assert isinstance(lesson.trainers["one"].model, SqueezedTransformer)
    assert not isinstance(lesson.trainers["each"].model, SqueezedTransformer)
    for clauses, score in lesson.scores["each"].items():
        assert score.total == lesson.scores["one"][clauses].total == (25 if clauses == 1 else 100)
    assert all(lesson.task.is_held_out(text) for text, _ in lesson.samples)


def test_the_run_is_a_function_of_its_configuration(lesson: ZLesson) -> None:
    again = build_z_lesson(lesson.config)
    for kind in KINDS:
        assert again.trainers[kind].history.losses == lesson.trainers[kind].history.losses
    np.testing.assert_array_equal(again.opened[-1].z, lesson.opened[-1].z)


def test_a_changed_word_moves_its_own_vector_most_and_the_others_too(lesson: ZLesson) -> None:
    for opened in lesson.opened:
        for place, other in enumerate(opened.others):
            moved = opened.moved(place)
            if not other:
                assert opened.words[place] == JOIN and not moved.any()
                continue
            assert moved.argmax() == place and (moved > 0).all()
            text = " ".join((*opened.words[:place], other, *opened.words[place + 1 :]))
            np.testing.assert_allclose(opened.changed[place], encoded(lesson.trainers["each"].model, lesson.task, text))


def test_words_are_replaced_by_their_kind() -> None:
    assert [other_word(word) for word in ("Anna", "counts", "shoes", JOIN)] == ["Ben", "sees", "birds", ""]


def test_the_terminal_has_eighty_columns(lesson: ZLesson) -> None:
    assert max(map(display_width, chapter(lesson).splitlines())) <= 80


def test_a_trained_model_says_long_sentences_from_all_vectors_and_not_from_one() -> None:
    """What the chapter claims, on shorter sentences and with less training."""
    lesson = build_z_lesson(ZConfig(steps=140, most=3))
    assert lesson.scores["each"][3].accuracy > 0.9
    assert lesson.scores["one"][3].accuracy < 0.2


# --- the page ----------------------------------------------------------------------------------------------------


def test_every_text_is_there_in_both_languages_and_used() -> None:
    require("jinja2")
    catalogues = z_words().catalogues
    assert list(catalogues) == ["en", "ko"]
    assert [key for key, text in catalogues["ko"].items() if not re.search("[가-힣]", text) and key != "see_z"] == []
    frame = TEMPLATES.parents[2] / "viz/templates/page.html"
    sources = [TEMPLATES / "z.html", TEMPLATES / "z.js", TEMPLATES / "chapters.html", frame]
    written = "".join(path.read_text(encoding="utf-8") for path in sources)
    computed = {"page_title", *(f"said_{kind}" for kind in KINDS)}
    assert [key for key in catalogues["en"] if f'"{key}"' not in written and key not in computed] == []


def test_the_page_holds_the_run(html: str, lesson: ZLesson) -> None:
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', html, flags=re.DOTALL)
    assert found is not None
    data = json.loads(found.group(1))
    for shown, opened, squeezed in zip(data["opened"], lesson.opened, lesson.squeezed, strict=True):
        assert tuple(shown["words"]) == opened.words
        np.testing.assert_allclose(shown["z"], opened.z, atol=6e-4)
        np.testing.assert_allclose(shown["squeezed"], squeezed, atol=6e-4)
        for place, changed in enumerate(shown["changed"]):
            if changed is not None:
                np.testing.assert_allclose(changed, opened.changed[place], atol=6e-4)
                np.testing.assert_allclose(shown["moved"][place], opened.moved(place), atol=6e-4)
    for scores in lesson.scores.values():
        assert all(f"{score.right}/{score.total}" in html for score in scores.values())


def test_words_that_differ_are_marked() -> None:
    assert compared("Anna sees birds", "Anna sees") == [("Anna", True), ("sees", True)]
    assert compared("Anna sees", "Ben sees Anna") == [("Ben", False), ("sees", True), ("Anna", False)]


def test_the_page_links_only_to_pages_that_are_there(lesson: ZLesson, html: str) -> None:
    def links(page: str) -> set[str]:
        without_data = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
        assert not re.findall(r"url\((?!#)|@import|<link|<iframe|<object|<embed", without_data)
        found = re.findall(r"""\b(?:src|href|action|data)=["']?([^"'\s>]*)""", without_data)
        return {reference for reference in found if not reference.startswith(("#", "data:"))}

    assert {"index.html", "attention.html"} <= links(html)
    assert links(z_page(lesson, present=["z"])) == {"index.html"}
