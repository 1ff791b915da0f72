"""Korean → English phrases from a small grammar, word by word: "나는 좋다" → "I am good".

Every phrase is a subject with an adjective in one of nine forms (tense, negation, "very", question). Korean adjectives
conjugate like verbs and stand last, English puts "am" and "not" in between and turns the order round in questions, so
the alignment is not the diagonal. The sentences are synthetic: correct, plain-style Korean, but no one's speech.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from transformer.tasks.base import Example, Task, check_count
from transformer.tokenizer import WordTokenizer


@dataclass(frozen=True)
class Subject:
    """A subject with its topic particle, and the forms of "to be" that its English takes."""

    korean: str
    english: str
    present: str
    past: str


@dataclass(frozen=True)
class Adjective:
    """An adjective, by the three stems that its forms are built from.

    Args:
        stem: before endings that begin with a consonant (다, 지, 니): 바쁘-.
        past: the stem with -았/었-: 바빴-.
        future: the stem with -ㄹ/을: 바쁠.
        english: its translation.
    """

    stem: str
    past: str
    future: str
    english: str


SUBJECTS = (
    Subject("나는", "I", "am", "was"),
    Subject("너는", "you", "are", "were"),
    Subject("그는", "he", "is", "was"),
    Subject("그녀는", "she", "is", "was"),
    Subject("우리는", "we", "are", "were"),
    Subject("그들은", "they", "are", "were"),
    Subject("아이는", "the child", "is", "was"),
    Subject("의사는", "the doctor", "is", "was"),
    Subject("학생은", "the student", "is", "was"),
    Subject("내 친구는", "my friend", "is", "was"),
)

ADJECTIVES = (
    Adjective("좋", "좋았", "좋을", "good"),
    Adjective("바쁘", "바빴", "바쁠", "busy"),
    Adjective("슬프", "슬펐", "슬플", "sad"),
    Adjective("아프", "아팠", "아플", "sick"),
    Adjective("배고프", "배고팠", "배고플", "hungry"),
    Adjective("외롭", "외로웠", "외로울", "lonely"),
    Adjective("자유롭", "자유로웠", "자유로울", "free"),
    Adjective("아름답", "아름다웠", "아름다울", "beautiful"),
    Adjective("귀엽", "귀여웠", "귀여울", "cute"),
    Adjective("게으르", "게을렀", "게으를", "lazy"),
    Adjective("빠르", "빨랐", "빠를", "fast"),
    Adjective("느리", "느렸", "느릴", "slow"),
    Adjective("재미있", "재미있었", "재미있을", "funny"),
    *(
        Adjective(f"{root}하", f"{root}했", f"{root}할", english)
        for root, english in (
            ("행복", "happy"),
            ("피곤", "tired"),
            ("친절", "kind"),
            ("건강", "healthy"),
            ("유명", "famous"),
            ("똑똑", "smart"),
            ("조용", "quiet"),
            ("정직", "honest"),
            ("용감", "brave"),
            ("강", "strong"),
            ("약", "weak"),
            ("현명", "wise"),
            ("겸손", "modest"),
            ("부유", "rich"),
            ("가난", "poor"),
        )
    ),
)


def _say(korean: Callable[[Adjective], str], english: str) -> Callable[[Subject, Adjective], tuple[str, str]]:
    def phrase(subject: Subject, adjective: Adjective) -> tuple[str, str]:
        words = english.format(
            subject=subject.english, am=subject.present, was=subject.past, adjective=adjective.english
        )
        return f"{subject.korean} {korean(adjective)}", words

    return phrase


FORMS: dict[str, Callable[[Subject, Adjective], tuple[str, str]]] = {
    "present": _say(lambda a: f"{a.stem}다", "{subject} {am} {adjective}"),
    "past": _say(lambda a: f"{a.past}다", "{subject} {was} {adjective}"),
    "future": _say(lambda a: f"{a.future} 것이다", "{subject} will be {adjective}"),
    "present negative": _say(lambda a: f"{a.stem}지 않다", "{subject} {am} not {adjective}"),
    "past negative": _say(lambda a: f"{a.stem}지 않았다", "{subject} {was} not {adjective}"),
    "present very": _say(lambda a: f"매우 {a.stem}다", "{subject} {am} very {adjective}"),
    "past very": _say(lambda a: f"매우 {a.past}다", "{subject} {was} very {adjective}"),
    "present question": _say(lambda a: f"{a.stem}니?", "{am} {subject} {adjective}?"),
    "past question": _say(lambda a: f"{a.past}니?", "{was} {subject} {adjective}?"),
}


class PhrasesTask(Task):
    """All phrases of the grammar, one subject of each adjective and form held out.

    So every word that a held-out phrase needs has been seen in training, and what is tested is putting known words
    together anew. "나는 좋다" → "I am good" is always held out.

    Args:
        seed: chooses the held-out subjects.

    >>> task = PhrasesTask()
    >>> len(task.training), len(task.reserved), Example("나는 좋다", "I am good", "ko", "present") in task.reserved
    (2212, 252, True)
    >>> task.translate("그녀는 피곤하지 않다")
    'she is not tired'
    """

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        training: list[Example] = []
        reserved: list[Example] = []
        for adjective in ADJECTIVES:
            for form, phrase in FORMS.items():
                # Nobody asks whether they themselves are tired.
                subjects = SUBJECTS[1:] if form.endswith("question") else SUBJECTS
                held_out = int(rng.integers(len(subjects)))
                if (adjective.english, form) == ("good", "present"):
                    held_out = 0  # "I", the first subject
                for index, subject in enumerate(subjects):
                    example = Example(*phrase(subject, adjective), language="ko", style=form)
                    (reserved if index == held_out else training).append(example)
        self.training, self.reserved = tuple(training), tuple(reserved)
        examples = self.training + self.reserved
        self._answers = {example.source: example.target for example in examples}
        self.source_tokenizer = WordTokenizer.build([example.source for example in examples])
        self.target_tokenizer = WordTokenizer.build([example.target for example in examples])
        self.max_source_length = max(len(self.source_tokenizer.encode(example.source)) for example in examples)
        self.max_target_length = max(len(self.target_tokenizer.encode(example.target)) for example in examples) + 1

    def draw(self, rng: np.random.Generator, n: int) -> list[Example]:
        """`n` random training examples."""
        return [self.training[index] for index in rng.integers(len(self.training), size=n)]

    def held_out(self, n: int, seed: int = 0) -> list[Example]:
        """`n` different held-out phrases; the same ones for the same seed.

        Raises:
            OptionError: there are not so many.
        """
        check_count(n, len(self.reserved), "held-out phrases")
        chosen = np.random.default_rng(seed).choice(len(self.reserved), size=n, replace=False)
        return [self.reserved[index] for index in chosen]

    def translate(self, korean: str) -> str | None:
        """What the grammar answers, without a model; None for a phrase that it does not have.

        Spaces are forgiven: "나는  좋다 " is "나는 좋다".
        """
        return self._answers.get(" ".join(self.source_tokenizer.normalise(korean).split()))
