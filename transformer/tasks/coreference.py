"""What does "it" stand for? English sentences with two nouns, a pronoun, and one adjective that decides.

"The animal didn't cross the street because it was too tired": an animal is tired, so `it` is the animal. With *wide* in
place of *tired* it is the street. Two kinds of sentences are written here:

- by meaning: an animal and a place. An adjective fits one of the two, wherever they stand.
- by role: two animals. "The dog couldn't lift the cat because it was too weak" speaks of the dog, with *heavy* of the
  cat: either noun could be weak, and who was to lift whom decides.

The sentences are synthetic: ordinary English, but from templates, and nobody's speech.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import OptionError, VocabularyError
from transformer.tokenizer import WordTokenizer

Family = Literal["meaning", "role"]
Novelty = Literal["sentence", "pair", "noun", "adjective"]
NOVELTIES: tuple[Novelty, ...] = ("sentence", "pair", "noun", "adjective")

ARTICLE = "The animal didn't cross the street because it was too tired"
ARTICLE_PAIR = "animal street"
PRONOUN = "it"


def _words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


ANIMALS = _words("animal dog cat horse cow sheep goat fox wolf bear rabbit donkey camel deer lion monkey")
PLACES = _words("street road river bridge field path square canal valley lake tunnel forest market garden desert beach")
NEW_ANIMALS, NEW_PLACES = ("zebra", "otter"), ("avenue", "meadow")
NEW_NOUNS = NEW_ANIMALS + NEW_PLACES
NOUNS = ANIMALS + PLACES + NEW_NOUNS

OF_ANIMALS = _words("tired hungry thirsty afraid sleepy shy sick lazy nervous scared")
OF_PLACES = _words("wide narrow deep busy crowded long dark muddy noisy slippery")
NEW_OF_ANIMALS, NEW_OF_PLACES = ("weary", "timid"), ("broad", "dusty")


@dataclass(frozen=True)
class Deed:
    """Verbs of two animals, and the adjectives that say which of them it failed for.

    Args:
        verbs: after "couldn't".
        of_doer, of_other: adjectives that speak of the one who acts, and of the one it is done to.
        new_of_doer, new_of_other: the same, never in training.
    """

    verbs: tuple[str, ...]
    of_doer: tuple[str, ...]
    of_other: tuple[str, ...]
    new_of_doer: tuple[str, ...] = ()
    new_of_other: tuple[str, ...] = ()


DEEDS = (
    Deed(("lift", "carry"), ("weak", "small", "thin"), ("heavy", "big", "large"), ("feeble",), ("bulky",)),
    Deed(("catch", "outrun"), ("slow", "clumsy"), ("fast", "quick")),
)
NEW_ADJECTIVES = (
    NEW_OF_ANIMALS + NEW_OF_PLACES + tuple(word for deed in DEEDS for word in deed.new_of_doer + deed.new_of_other)
)

# Every adjective, by what it speaks of; those that training never shows stand last.
ADJECTIVES = {
    "of_animals": OF_ANIMALS + NEW_OF_ANIMALS,
    "of_places": OF_PLACES + NEW_OF_PLACES,
    "of_doer": tuple(word for deed in DEEDS for word in deed.of_doer + deed.new_of_doer),
    "of_other": tuple(word for deed in DEEDS for word in deed.of_other + deed.new_of_other),
}

VISITS = {"cross": "crossed", "enter": "entered", "explore": "explored", "use": "used"}
CHARMS = ("tempt", "attract", "suit", "please")
CONNECTIVES, COPULAS, DEGREES = ("because", "since", "as"), ("was", "looked", "seemed"), ("too", "so", "very")

# The order of animal and place differs, so that no place in the sentence is the answer.
FORMS = (
    "The {animal} didn't {visit} the {place}",
    "The {place} didn't {charm} the {animal}",
    "At the {place} the {animal} turned back",
    "The {animal} turned back at the {place}",
    "The {place} wasn't {visited} by the {animal}",
)
DEED_FORM = "The {doer} couldn't {verb} the {other}"
END = "{connective} it {copula} {degree} {adjective}"


@dataclass(frozen=True)
class Sentence:
    """A sentence with its right answer.

    Args:
        text: the sentence, without a full stop.
        referent: the noun that `it` stands for.
        other: the noun that it does not stand for.
        adjective: the word that decides.
        family: "meaning" or "role".
    """

    text: str
    referent: str
    other: str
    adjective: str
    family: Family

    @property
    def pair(self) -> frozenset[str]:
        """Its two nouns."""
        return frozenset((self.referent, self.other))


@dataclass(frozen=True, eq=False)
class CoreferenceBatch:
    """Sentences as arrays, all int64, padded on the right.

    Args:
        ids: (batch, length), ids of the words.
        lengths: (batch,), words of each sentence.
        pronoun: (batch,), where `it` stands.
        answer: (batch,), number of the referent among the task's nouns.
    """

    ids: NDArray[np.int64]
    lengths: NDArray[np.int64]
    pronoun: NDArray[np.int64]
    answer: NDArray[np.int64]


class CoreferenceTask:
    """Sentences to learn from, and four kinds of sentences that are kept from training.

    Something is new about every held-out sentence, and one thing only: the sentence itself (its words and its pair of
    nouns are known), the pair of nouns (each of them is known), a noun, or the adjective. The article's own sentence is
    of the second kind: no training sentence speaks of an animal and a street.

    Args:
        seed: chooses which pairs and sentences are held out.

    >>> task = CoreferenceTask()
    >>> task.novelty(task.label(ARTICLE)), task.label(ARTICLE).referent
    ('pair', 'animal')
    >>> task.label("The animal didn't cross the street because it was too wide").referent
    'street'
    """

    max_length = 16

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.nouns = NOUNS
        self.tokenizer = WordTokenizer.build(_every_word(), lowercase=True)
        self.noun_ids = np.array([self.tokenizer.encode(noun)[0] for noun in NOUNS])
        self._pronoun_id = self.tokenizer.encode(PRONOUN)[0]

    @property
    def words(self) -> list[str]:
        """Every word that a sentence may have."""
        return self.tokenizer.tokens[3:]

    def draw(self, rng: np.random.Generator, n: int) -> list[Sentence]:
        """`n` random training sentences, as many by meaning as by role on average."""
        return self._draw(rng, n, None)

    def held_out(self, novelty: Novelty, n: int, seed: int = 0) -> list[Sentence]:
        """`n` sentences that training never shows, with one thing new about them; the same ones for the same seed.

        Raises:
            OptionError: no such kind of novelty.
        """
        if novelty not in NOVELTIES:
            raise OptionError(f"novelty: expected one of {', '.join(NOVELTIES)}; got {novelty!r}")
        return self._draw(np.random.default_rng([seed, NOVELTIES.index(novelty)]), n, novelty)

    def novelty(self, sentence: Sentence) -> str | None:
        """What is new about a sentence for one who knows all training sentences; None if it may be one of them.

        "several" if more than one thing is; a pair with a new noun in it counts as the noun.
        """
        noun = any(word in NEW_NOUNS for word in sentence.pair)
        adjective = sentence.adjective in NEW_ADJECTIVES
        pair = not noun and self._is_held_out(" ".join(sorted(sentence.pair)), 1 / 8)
        found = [name for name, new in (("noun", noun), ("adjective", adjective), ("pair", pair)) if new]
        if not found:
            return "sentence" if self._is_held_out(sentence.text.lower(), 1 / 8) else None
        return found[0] if len(found) == 1 else "several"

    def encode(self, sentences: Sequence[Sentence]) -> CoreferenceBatch:
        """The arrays of some sentences."""
        ids, lengths = self.tokenizer.encode_batch([sentence.text for sentence in sentences])
        answer = np.array([NOUNS.index(sentence.referent) for sentence in sentences], dtype=np.int64)
        return CoreferenceBatch(ids, lengths, self.pronouns(ids), answer)

    def pronouns(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where `it` stands in each row of ids; its first place, if there are more."""
        places: NDArray[np.int64] = (ids == self._pronoun_id).argmax(axis=1)
        return places

    def read(self, text: str, option: str = "") -> str:
        """A sentence as the model reads it: words with one space between them, punctuation left out.

        Args:
            text: what a person wrote.
            option: how errors begin.
        Raises:
            VocabularyError: words that the model has no vector for; the message names the nearest it has.
            OptionError: no `it`, or more words than there are places.
        """
        words = _split(text)
        unknown = [word for word in dict.fromkeys(words) if word.lower() not in self.tokenizer]
        if unknown:
            told = [repr(word) + _suggest(self.nearest(word)) for word in unknown]
            raise VocabularyError(
                f"{option}the model has no vector for {', '.join(told)}\n"
                f"  it has learned {len(self.words)} words, such as animal, dog, street, river, tired, wide"
            )
        count = sum(word.lower() == PRONOUN for word in words)
        if count != 1:
            raise OptionError(f'{option}expected a sentence with one "it", whose meaning is asked for; it has {count}')
        if len(words) > self.max_length:
            raise OptionError(f"{option}{len(words)} words; the model has places for {self.max_length}")
        return " ".join(words)

    def label(self, text: str) -> Sentence | None:
        """The right answer to a sentence, found from its words; None where these do not decide it.

        It needs two nouns and an adjective of the task at the end; two animals also need the deed.

        >>> CoreferenceTask().label("It was tired") is None
        True
        """
        words = [word.lower() for word in _split(text)]
        nouns = [word for word in words if word in NOUNS]
        if len(nouns) != 2 or nouns[0] == nouns[1]:
            return None
        adjective, animals = words[-1], [noun for noun in nouns if noun in ANIMALS + NEW_ANIMALS]
        if len(animals) == 1:
            (place,) = set(nouns) - set(animals)
            of_animal, of_place = adjective in OF_ANIMALS + NEW_OF_ANIMALS, adjective in OF_PLACES + NEW_OF_PLACES
            order = (animals[0], place) if of_animal else (place, animals[0])
            return Sentence(" ".join(words), *order, adjective, "meaning") if of_animal or of_place else None
        if len(animals) == 2:
            for deed in DEEDS:
                of_doer = adjective in deed.of_doer + deed.new_of_doer
                if any(f"couldn't {verb}" in " ".join(words) for verb in deed.verbs) and (
                    of_doer or adjective in deed.of_other + deed.new_of_other
                ):
                    order = (nouns[0], nouns[1]) if of_doer else (nouns[1], nouns[0])
                    return Sentence(" ".join(words), *order, adjective, "role")
        return None

    def nearest(self, word: str) -> list[str]:
        """The words of the vocabulary that look most like one, the most alike first; none if nothing does."""
        return difflib.get_close_matches(word.lower(), self.words, n=2, cutoff=0.6)

    def _draw(self, rng: np.random.Generator, n: int, novelty: Novelty | None) -> list[Sentence]:
        drawn: list[Sentence] = []
        while len(drawn) < n:
            sentence = _by_meaning(rng) if rng.random() < 0.5 else _by_role(rng)
            if self.novelty(sentence) == novelty:
                drawn.append(sentence)
        return drawn

    def _is_held_out(self, key: str, share: float) -> bool:
        if key == ARTICLE_PAIR:
            return True
        digest = blake2b(f"{self.seed}:{key}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little") < share * 2**32


def _by_meaning(rng: np.random.Generator) -> Sentence:
    animal, place = _pick(rng, ANIMALS + NEW_ANIMALS), _pick(rng, PLACES + NEW_PLACES)
    visit = _pick(rng, tuple(VISITS))
    opening = _pick(rng, FORMS).format(
        animal=animal, place=place, visit=visit, visited=VISITS[visit], charm=_pick(rng, CHARMS)
    )
    if rng.random() < 0.5:
        return _sentence(rng, opening, animal, place, _pick(rng, OF_ANIMALS + NEW_OF_ANIMALS), "meaning")
    return _sentence(rng, opening, place, animal, _pick(rng, OF_PLACES + NEW_OF_PLACES), "meaning")


def _by_role(rng: np.random.Generator) -> Sentence:
    animals = ANIMALS + NEW_ANIMALS
    doer = int(rng.integers(len(animals)))
    other = (doer + int(rng.integers(1, len(animals)))) % len(animals)
    deed = DEEDS[rng.integers(len(DEEDS))]
    opening = DEED_FORM.format(doer=animals[doer], verb=_pick(rng, deed.verbs), other=animals[other])
    if rng.random() < 0.5:
        adjective = _pick(rng, deed.of_doer + deed.new_of_doer)
        return _sentence(rng, opening, animals[doer], animals[other], adjective, "role")
    adjective = _pick(rng, deed.of_other + deed.new_of_other)
    return _sentence(rng, opening, animals[other], animals[doer], adjective, "role")


def _sentence(
    rng: np.random.Generator, opening: str, referent: str, other: str, adjective: str, family: Family
) -> Sentence:
    end = END.format(
        connective=_pick(rng, CONNECTIVES), copula=_pick(rng, COPULAS), degree=_pick(rng, DEGREES), adjective=adjective
    )
    return Sentence(f"{opening} {end}", referent, other, adjective, family)


def _pick(rng: np.random.Generator, words: Sequence[str]) -> str:
    return words[int(rng.integers(len(words)))]


def _split(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:['-][^\W_]+)*", text.replace("’", "'"))


def _suggest(words: Sequence[str]) -> str:
    return f" (did you mean {' or '.join(words)}?)" if words else ""


def _every_word() -> list[str]:
    """Every word of every sentence that the templates can make."""
    templates = " ".join(re.sub(r"{\w+}", "", form) for form in (*FORMS, DEED_FORM, END))
    deeds = [word for deed in DEEDS for word in deed.verbs + deed.of_doer + deed.of_other]
    adjectives = OF_ANIMALS + OF_PLACES + NEW_ADJECTIVES
    links = CONNECTIVES + COPULAS + DEGREES + CHARMS + tuple(VISITS) + tuple(VISITS.values())
    return [templates, *NOUNS, *adjectives, *deeds, *links]
