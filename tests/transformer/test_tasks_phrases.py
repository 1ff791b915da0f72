"""The phrase grammar: right Korean, right English, and held-out phrases made of known words."""

from __future__ import annotations

import unicodedata

import pytest

from transformer.tasks import Example, PhrasesTask
from transformer.tasks.phrases import ADJECTIVES, FORMS, SUBJECTS

TASK = PhrasesTask()
ALL = TASK.training + TASK.reserved


@pytest.mark.parametrize(
    ("korean", "english"),
    [
        ("나는 좋다", "I am good"),
        ("나는 행복하다", "I am happy"),
        ("그녀는 피곤하지 않다", "she is not tired"),
        ("그들은 바빴다", "they were busy"),
        ("우리는 자유로울 것이다", "we will be free"),
        ("아이는 매우 귀여웠다", "the child was very cute"),
        ("너는 배고프니?", "are you hungry?"),
        ("의사는 슬펐니?", "was the doctor sad?"),
        ("내 친구는 게으르지 않았다", "my friend was not lazy"),
        ("그는 빨랐다", "he was fast"),
        ("학생은 똑똑할 것이다", "the student will be smart"),
    ],
)
def test_phrases_of_which_the_translation_is_known(korean: str, english: str) -> None:
    assert TASK.translate(korean) == english
    assert TASK.translate(f"  {korean.replace(' ', '  ')} ") == english
    assert TASK.translate(unicodedata.normalize("NFD", korean)) == english


def test_what_the_grammar_does_not_have_has_no_translation() -> None:
    assert TASK.translate("나는 나는") is None
    assert TASK.translate("") is None


@pytest.mark.parametrize("seed", range(20))
def test_i_am_good_is_never_trained_on(seed: int) -> None:
    task = PhrasesTask(seed)
    assert Example("나는 좋다", "I am good", "ko", "present") in task.reserved
    assert all(example.target != "I am good" for example in task.training)


@pytest.mark.parametrize("seed", range(20))
def test_every_word_of_a_held_out_phrase_has_been_trained_on(seed: int) -> None:
    task = PhrasesTask(seed)
    for tokenizer, side in ((task.source_tokenizer, "source"), (task.target_tokenizer, "target")):
        trained = {token for example in task.training for token in tokenizer.encode(getattr(example, side))}
        held_out = {token for example in task.reserved for token in tokenizer.encode(getattr(example, side))}
        assert held_out <= trained
        assert trained == set(range(3, len(tokenizer)))


def test_every_phrase_occurs_once_and_has_one_translation() -> None:
    sources = [example.source for example in ALL]
    assert len(set(sources)) == len(sources)
    assert len({example.target for example in ALL}) == len(ALL)
    assert len(TASK.reserved) == len(ADJECTIVES) * len(FORMS)


def test_phrases_survive_the_tokenizers_letter_by_letter() -> None:
    for example in ALL:
        assert TASK.source_tokenizer.decode(TASK.source_tokenizer.encode(example.source)) == example.source
        assert TASK.target_tokenizer.decode(TASK.target_tokenizer.encode(example.target)) == example.target


def jamo(syllable: str) -> list[str]:
    return list(unicodedata.normalize("NFD", syllable))


@pytest.mark.parametrize("adjective", ADJECTIVES, ids=lambda adjective: adjective.english)
def test_stems_are_those_of_korean_conjugation(adjective: object) -> None:
    stem, past, future = (getattr(adjective, name) for name in ("stem", "past", "future"))
    assert jamo(past)[-1] == "\u11bb"  # the past ends in ㅆ
    assert jamo(future)[-1] == "\u11af"  # the future in ㄹ
    if len(jamo(stem[-1])) == 2:  # a stem that ends in a vowel takes the ㄹ into its last syllable
        assert jamo(future) == [*jamo(stem), "\u11af"]
    elif stem[-1] in "롭답엽" and stem != "좋":  # ㅂ turns to 우 before a vowel
        assert jamo(future) == [*jamo(stem)[:-1], *jamo("울")]
    else:
        assert future == stem + "을"


def test_particles_agree_with_their_nouns() -> None:
    for subject in SUBJECTS:
        noun, particle = subject.korean[:-1], subject.korean[-1]
        assert particle == ("은" if len(jamo(noun[-1])) == 3 else "는")
