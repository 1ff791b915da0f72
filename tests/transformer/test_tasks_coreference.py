"""What `it` stands for: answers follow from the words, and what is held out is new in one way only."""

from __future__ import annotations

import numpy as np
import pytest

from tinygrad_attn.errors import OptionError, VocabularyError
from transformer.tasks.coreference import (
    ADJECTIVES,
    ANIMALS,
    ARTICLE,
    DEEDS,
    NEW_ADJECTIVES,
    NEW_NOUNS,
    NOUNS,
    NOVELTIES,
    OF_ANIMALS,
    OF_PLACES,
    PLACES,
    CoreferenceTask,
    Novelty,
    Sentence,
)


@pytest.fixture(scope="module")
def task() -> CoreferenceTask:
    return CoreferenceTask()


@pytest.fixture(scope="module")
def training(task: CoreferenceTask) -> list[Sentence]:
    return task.draw(np.random.default_rng(0), 3000)


def test_the_adjective_decides_by_meaning_wherever_the_nouns_stand(training: list[Sentence]) -> None:
    for sentence in training:
        if sentence.family == "meaning":
            assert sentence.referent in (ANIMALS if sentence.adjective in OF_ANIMALS else PLACES)
            assert sentence.adjective in OF_ANIMALS + OF_PLACES


def test_the_adjective_decides_by_role_who_of_two_animals_is_meant(training: list[Sentence]) -> None:
    for sentence in training:
        if sentence.family == "role":
            _, doer, _, verb, _, other, *_ = sentence.text.split()
            (deed,) = (deed for deed in DEEDS if verb in deed.verbs)
            expected = doer if sentence.adjective in deed.of_doer else other
            assert sentence.referent == expected and sentence.adjective in deed.of_doer + deed.of_other


@pytest.mark.parametrize("novelty", [None, *NOVELTIES])
def test_the_label_found_from_the_words_is_the_one_that_was_drawn(
    task: CoreferenceTask, training: list[Sentence], novelty: Novelty | None
) -> None:
    for sentence in training if novelty is None else task.held_out(novelty, 200):
        found = task.label(sentence.text)
        assert found is not None
        drawn = (sentence.referent, sentence.other, sentence.adjective, sentence.family)
        assert (found.referent, found.other, found.adjective, found.family) == drawn


def test_neither_place_nor_order_of_the_nouns_gives_the_answer_away(training: list[Sentence]) -> None:
    first = [s.text.split().index(s.referent) < s.text.split().index(s.other) for s in training]
    assert 0.45 < np.mean(first) < 0.55
    for index in range(12):
        here = [s for s in training if len(s.text.split()) > index and s.text.split()[index] in s.pair]
        if here:
            assert 0.4 < np.mean([s.text.split()[index] == s.referent for s in here]) < 0.6


def test_one_word_swapped_swaps_the_answer(task: CoreferenceTask) -> None:
    tired, wide = task.label(ARTICLE), task.label(ARTICLE.replace("tired", "wide"))
    assert tired is not None and wide is not None
    assert (tired.referent, wide.referent) == ("animal", "street")
    weak, heavy = (task.label(f"The dog couldn't lift the cat because it was too {a}") for a in ("weak", "heavy"))
    assert weak is not None and heavy is not None and (weak.referent, heavy.referent) == ("dog", "cat")


@pytest.mark.parametrize(
    "text",
    [
        "It was tired",
        "The animal didn't cross the street because it was too heavy",
        "The dog couldn't lift the cat because it was too tired",
        "The street didn't cross the river because it was too wide",
        "The dog couldn't lift the dog because it was too weak",
    ],
)
def test_what_the_words_do_not_decide_has_no_label(task: CoreferenceTask, text: str) -> None:
    assert task.label(text) is None


# --- held out ----------------------------------------------------------------------------------------------------


def test_training_never_shows_a_held_out_sentence_pair_noun_or_adjective(
    task: CoreferenceTask, training: list[Sentence]
) -> None:
    held = {novelty: task.held_out(novelty, 300) for novelty in NOVELTIES}
    assert not {s.text for s in training} & {s.text for group in held.values() for s in group}
    assert not {s.pair for s in training} & {s.pair for s in held["pair"]}
    assert not {word for s in training for word in s.text.split()} & {*NEW_NOUNS, *NEW_ADJECTIVES}


def test_a_held_out_sentence_is_new_in_one_way_only(task: CoreferenceTask, training: list[Sentence]) -> None:
    pairs = {s.pair for s in task.draw(np.random.default_rng(1), 20_000)}
    for novelty in NOVELTIES:
        for sentence in task.held_out(novelty, 200):
            assert task.novelty(sentence) == novelty
            assert bool(sentence.pair & {*NEW_NOUNS}) == (novelty == "noun")
            assert (sentence.adjective in NEW_ADJECTIVES) == (novelty == "adjective")
            if novelty in ("sentence", "adjective"):
                assert sentence.pair in pairs


def test_the_articles_sentence_is_held_out_with_its_pair(task: CoreferenceTask, training: list[Sentence]) -> None:
    for seed in range(5):
        sentence = CoreferenceTask(seed).label(ARTICLE)
        assert sentence is not None and CoreferenceTask(seed).novelty(sentence) == "pair"
    assert not [s for s in training if s.pair == {"animal", "street"}]


def test_draws_are_the_same_for_a_seed_and_differ_between_seeds(task: CoreferenceTask) -> None:
    assert task.held_out("pair", 50, seed=3) == CoreferenceTask().held_out("pair", 50, seed=3)
    assert task.held_out("pair", 50, seed=3) != task.held_out("pair", 50, seed=4)
    assert {s.pair for s in task.held_out("pair", 300)} != {s.pair for s in CoreferenceTask(1).held_out("pair", 300)}
    with pytest.raises(OptionError, match="novelty"):
        task.held_out("word", 1)  # type: ignore[arg-type]


# --- as arrays, and as a reader types them -----------------------------------------------------------------------


def test_arrays_hold_the_words_the_pronoun_and_the_answer(task: CoreferenceTask, training: list[Sentence]) -> None:
    batch = task.encode(training[:50])
    for row, sentence in enumerate(training[:50]):
        words = sentence.text.lower().split()
        assert task.tokenizer.tokens_of(batch.ids[row, : batch.lengths[row]]) == words
        assert words[batch.pronoun[row]] == "it" and NOUNS[batch.answer[row]] == sentence.referent


def test_every_word_of_every_kind_of_sentence_is_in_the_vocabulary(task: CoreferenceTask) -> None:
    words = {word for words in ADJECTIVES.values() for word in words}
    assert len(words) == sum(map(len, ADJECTIVES.values()))
    assert words | {*NOUNS} <= {*task.words}


def test_a_typed_sentence_is_tidied_up(task: CoreferenceTask) -> None:
    assert task.read("  The ANIMAL didn’t cross the street, because it was too tired. ") == (
        "The ANIMAL didn't cross the street because it was too tired"
    )


@pytest.mark.parametrize(
    ("text", "error", "part"),
    [
        ("The animl saw it", VocabularyError, "'animl' (did you mean animal or canal?), 'saw'"),
        ("The xyzzy was it", VocabularyError, "'xyzzy'\n"),
        ("The animal was tired", OptionError, "it has 0"),
        ("it was it", OptionError, "it has 2"),
        ("it " + "the " * 16, OptionError, "17 words"),
        ("", OptionError, "it has 0"),
    ],
)
def test_what_cannot_be_read_is_said_with_what_would_do(
    task: CoreferenceTask, text: str, error: type[Exception], part: str
) -> None:
    with pytest.raises(error) as told:
        task.read(text, "--sentence: ")
    assert str(told.value).startswith("--sentence: ") and part in str(told.value)
