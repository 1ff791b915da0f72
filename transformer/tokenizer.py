"""Text to ids and back: one token per character, or one per word.

Both tokenizers learn their vocabulary from the texts they are given; nothing is downloaded. Batches come out padded on
the right, as the models take them. Subword vocabularies of published models live elsewhere.
"""

from __future__ import annotations

import json
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_attn.errors import (
    CheckpointError,
    DtypeError,
    IndexRangeError,
    OptionError,
    ShapeError,
    VocabularyError,
)

if TYPE_CHECKING:
    from typing_extensions import Self

PAD = "<pad>"
START = "<Start of Sentence>"
END = "<End of Sentence>"
UNKNOWN = "<unknown>"

_FORMAT = "tinygrad-attn tokenizer"
_VERSION = 1


class Tokenizer(ABC):
    """What the character and the word tokenizer share: ids, special tokens, batches and JSON.

    Texts are first brought to Unicode's NFC form, so that "é" is one character however it was typed, and, with
    `lowercase`, to lower case. Special tokens are never read out of a text: `<pad>` in a sentence is five characters.

    Args:
        vocabulary: the tokens without the special ones, in the order of their ids.
        unknown: give everything outside the vocabulary the token `<unknown>` instead of raising.
        lowercase: bring texts to lower case first.
    Raises:
        VocabularyError: a token occurs twice, or no text could ever produce it.
    """

    kind: ClassVar[str]

    def __init__(self, vocabulary: Iterable[str], *, unknown: bool = False, lowercase: bool = False) -> None:
        self.lowercase = bool(lowercase)
        special = [PAD, START, END, UNKNOWN] if unknown else [PAD, START, END]
        self.tokens: list[str] = [*special, *vocabulary]
        self.pad_id, self.start_id, self.end_id = 0, 1, 2
        self.unknown_id: int | None = 3 if unknown else None
        self._ids: dict[str, int] = {}
        for index, token in enumerate(self.tokens[len(special) :], start=len(special)):
            self._check_token(token)
            if token in self._ids:
                raise VocabularyError(f"the vocabulary lists {token!r} twice: each token has one id")
            self._ids[token] = index

    @classmethod
    def build(cls, texts: Iterable[str], *, unknown: bool = False, lowercase: bool = False) -> Self:
        """Make a tokenizer whose vocabulary is everything that occurs in `texts`, sorted.

        The same texts in any order give the same ids, in every run.

        Args:
            texts: the texts to cover.
            unknown, lowercase: as in the constructor.

        >>> CharTokenizer.build(["cab"]).tokens
        ['<pad>', '<Start of Sentence>', '<End of Sentence>', 'a', 'b', 'c']
        """
        empty = cls((), lowercase=lowercase)
        found = {token for text in _checked_texts(texts) for token, _ in empty._split(empty.normalise(text))}
        return cls(sorted(found), unknown=unknown, lowercase=lowercase)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without start or end.

        Raises:
            VocabularyError: something in the text has no token; the message names it and where it stands.
            OptionError: the text holds no token at all, and a model cannot read an empty sequence.

        >>> CharTokenizer.build(["2026"]).encode("62")
        [5, 4]
        """
        normal = self.normalise(_checked_text(text))
        pieces = self._split(normal)
        if not pieces:
            raise OptionError(f"empty sequence: {text!r} holds no token, and a model needs at least one")
        ids = self._ids
        if self.unknown_id is not None:
            unknown = self.unknown_id
            return [ids.get(token, unknown) for token, _ in pieces]
        try:
            return [ids[token] for token, _ in pieces]
        except KeyError:
            raise self._no_token(normal, pieces) from None

    def encode_batch(
        self, texts: Iterable[str], *, start: bool = False, end: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ids of several texts, padded on the right.

        Args:
            texts: at least one text, none of them empty.
            start: put the start id before each text.
            end: put the end id after each text.
        Returns:
            ids: (batch, longest length), int64, `pad_id` after the end of the shorter ones.
            lengths: (batch,), int64, start and end counted.
        Raises:
            VocabularyError, OptionError: as `encode`.

        >>> ids, lengths = CharTokenizer.build(["ab"]).encode_batch(["b", "ab"], start=True)
        >>> ids.tolist(), lengths.tolist()
        ([[1, 4, 0], [1, 3, 4]], [2, 3])
        """
        before = [self.start_id] if start else []
        after = [self.end_id] if end else []
        rows = [before + self.encode(text) + after for text in _checked_texts(texts)]
        if not rows:
            raise OptionError("empty batch: encode_batch needs at least one text")
        lengths = np.array([len(row) for row in rows], dtype=np.int64)  # (batch,)
        ids = np.full((len(rows), int(lengths.max())), self.pad_id, dtype=np.int64)  # (batch, length)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
        return ids, lengths

    def decode(self, ids: ArrayLike, *, keep_special: bool = False) -> str:
        """Text of a row of ids, up to the first end id.

        Args:
            ids: (length,), integers.
            keep_special: show start, end and padding as their token texts; the end token is then the last thing shown.
                `<unknown>` is always shown, since leaving it out would hide that something stood there.
        Raises:
            IndexRangeError: an id lies outside the vocabulary.
            ShapeError, DtypeError: not one row of integers.

        >>> tokenizer = CharTokenizer.build(["good"])
        >>> tokenizer.decode([1, 4, 5, 5, 3, 2, 0, 0])
        'good'
        >>> tokenizer.decode([1, 4, 5, 2, 0], keep_special=True)
        '<Start of Sentence>go<End of Sentence>'
        """
        row = self._checked_ids(ids)
        if self.end_id in row:
            row = row[: row.index(self.end_id) + 1]
        hidden = () if keep_special else (self.pad_id, self.start_id, self.end_id)
        return self._join([self.tokens[index] for index in row if index not in hidden])

    def tokens_of(self, ids: ArrayLike) -> list[str]:
        """Token text of every id, special ones included: the labels of a picture's axis.

        >>> CharTokenizer.build(["ab"]).tokens_of([1, 3, 2, 0])
        ['<Start of Sentence>', 'a', '<End of Sentence>', '<pad>']
        """
        return [self.tokens[index] for index in self._checked_ids(ids)]

    def normalise(self, text: str) -> str:
        """The text as the tokenizer reads it: in Unicode's NFC form, and in lower case where that was asked for.

        >>> len("e\\u0301"), len(CharTokenizer("é").normalise("e\\u0301"))
        (2, 1)
        """
        text = unicodedata.normalize("NFC", text)
        return unicodedata.normalize("NFC", text.lower()) if self.lowercase else text

    def to_json(self) -> str:
        """The tokenizer as JSON text; `from_json` gives an equal one."""
        fields = {
            "format": _FORMAT,
            "version": _VERSION,
            "kind": self.kind,
            "unknown": self.unknown_id is not None,
            "lowercase": self.lowercase,
            "tokens": self.tokens,
        }
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The tokenizer that `to_json` wrote. `Tokenizer.from_json` takes either kind, a subclass only its own.

        Raises:
            CheckpointError: not JSON, or not a tokenizer, or not one that could have been written.

        >>> tokenizer = WordTokenizer.build(["I am good"])
        >>> Tokenizer.from_json(tokenizer.to_json()) == tokenizer
        True
        """
        fields = _checked_fields(text)
        chosen = {known.kind: known for known in (CharTokenizer, WordTokenizer)}.get(fields["kind"])
        if chosen is None or not issubclass(chosen, cls):
            raise CheckpointError(f"the tokenizer is of kind {fields['kind']!r}, which {cls.__name__} cannot read")
        special = [PAD, START, END, UNKNOWN] if fields["unknown"] else [PAD, START, END]
        if fields["tokens"][: len(special)] != special:
            raise CheckpointError(f"damaged tokenizer: expected the tokens to begin with {special}")
        try:
            vocabulary = fields["tokens"][len(special) :]
            return cast("Self", chosen(vocabulary, unknown=fields["unknown"], lowercase=fields["lowercase"]))
        except VocabularyError as error:
            raise CheckpointError(f"damaged tokenizer: {error}") from error

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return (self.kind, self.lowercase, self.tokens) == (other.kind, other.lowercase, other.tokens)

    def __hash__(self) -> int:
        return hash((self.kind, self.lowercase, tuple(self.tokens)))

    def __repr__(self) -> str:
        options = f"unknown={self.unknown_id is not None}, lowercase={self.lowercase}"
        return f"{type(self).__name__}({len(self)} tokens, {options})"

    @abstractmethod
    def _split(self, text: str) -> Sequence[tuple[str, int]]:
        """Tokens of a normalised text, each with the position where it begins."""

    @abstractmethod
    def _join(self, tokens: Sequence[str]) -> str:
        """The text that tokens stand for."""

    def _check_token(self, token: object) -> None:
        if not isinstance(token, str) or [piece for piece, _ in self._split(self.normalise(token))] != [token]:
            raise VocabularyError(f"no text gives the token {token!r}: expected {self._expects}")
        if any(0xD800 <= ord(character) <= 0xDFFF for character in token):
            raise VocabularyError(f"{token!r} holds half of a surrogate pair, which is no character")

    _expects: ClassVar[str]

    def _no_token(self, text: str, pieces: Sequence[tuple[str, int]]) -> VocabularyError:
        token, position = next(piece for piece in pieces if piece[0] not in self._ids)
        return VocabularyError(
            f"no token for {_describe(token)} at position {position} (counting from 0) of {_excerpt(text, position)}\n"
            f"  the vocabulary has {len(self._ids)} {self._unit}s: leave this {self._unit} out, or build the tokenizer "
            f"from texts that hold it, or with unknown=True"
        )

    _unit: ClassVar[str]

    def _checked_ids(self, ids: ArrayLike) -> list[int]:
        array = np.asarray(ids)
        if array.ndim != 1:
            raise ShapeError(f"expected one row of ids, shape (length,), and got {array.shape}: decode row by row")
        if array.size and not np.issubdtype(array.dtype, np.integer):
            raise DtypeError(f"expected integer ids, and got {array.dtype}: logits need an argmax first")
        row: list[int] = array.astype(np.int64).tolist()
        for index in row:
            if not 0 <= index < len(self.tokens):
                raise IndexRangeError(f"id {index} is outside the vocabulary: expected 0 to {len(self.tokens) - 1}")
        return row


class CharTokenizer(Tokenizer):
    """One token per character (Unicode code point after NFC). Nothing of a text is lost: decode undoes encode.

    >>> tokenizer = CharTokenizer.build(["2026년 12월 1일"])
    >>> tokenizer.decode(tokenizer.encode("1월 26일"))
    '1월 26일'
    >>> tokenizer.encode("1 May")
    Traceback (most recent call last):
        ...
    tinygrad_attn.errors.VocabularyError: no token for 'M' (U+004D LATIN CAPITAL LETTER M) at position 2 ...
    """

    kind = "char"
    _expects = "a single character in NFC form (and lower case, where lowercase=True)"
    _unit = "character"

    def _split(self, text: str) -> Sequence[tuple[str, int]]:
        return list(zip(text, range(len(text)), strict=True))

    def _join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class WordTokenizer(Tokenizer):
    """One token per word and one per punctuation mark.

    A word is a run of letters, digits, combining marks and underscores; an apostrophe or hyphen between two of them
    belongs to it, so "didn't" is one word. Korean words are what stands between spaces, particles included. Decoding
    puts one space between tokens, none before `. , ! ? ; : … ) ] }` and none after `( [ {`. So tokens always survive a
    round trip, and text spaced in this ordinary way comes back letter by letter; other spacing ("3.14", tabs, quotation
    marks) does not.

    >>> tokenizer = WordTokenizer.build(["The animal didn't cross the street."])
    >>> tokenizer.tokens[3:]
    ['.', 'The', 'animal', 'cross', "didn't", 'street', 'the']
    >>> tokenizer.decode(tokenizer.encode("the  animal didn't  cross ."))
    "the animal didn't cross."
    """

    kind = "word"
    _expects = "one word or one punctuation mark in NFC form (and lower case, where lowercase=True)"
    _unit = "word"
    _NO_SPACE_BEFORE = frozenset(".,!?;:…)]}")
    _NO_SPACE_AFTER = frozenset("([{")

    def _split(self, text: str) -> Sequence[tuple[str, int]]:
        pieces: list[tuple[str, int]] = []
        position = 0
        while position < len(text):
            end = position + 1
            if _in_word(text[position]):
                while end < len(text) and _continues_word(text, end):
                    end += 1
            if not text[position].isspace():
                pieces.append((text[position:end], position))
            position = end
        return pieces

    def _join(self, tokens: Sequence[str]) -> str:
        text, previous = "", ""
        for token in tokens:
            tight = not previous or token in self._NO_SPACE_BEFORE or previous in self._NO_SPACE_AFTER
            text += token if tight else " " + token
            previous = token
        return text


def _in_word(character: str) -> bool:
    # Combining marks are no letters to Python, yet most scripts of India write their vowels with them.
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")


def _continues_word(text: str, position: int) -> bool:
    if text[position] in "'’-":
        return position + 1 < len(text) and _in_word(text[position + 1])
    return _in_word(text[position])


def _describe(token: str) -> str:
    if len(token) != 1:
        return repr(token)
    name = unicodedata.name(token, "no name")
    return f"{token!r} (U+{ord(token):04X} {name})"


def _excerpt(text: str, position: int) -> str:
    begin, end = max(0, position - 20), position + 21
    return ("…" if begin else "") + repr(text[begin:end]) + ("…" if end < len(text) else "")


def _checked_text(text: str) -> str:
    if not isinstance(text, str):
        raise DtypeError(f"expected a text (str), and got {type(text).__name__}")
    return text


def _checked_texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise DtypeError(f"expected several texts, and got the one text {texts[:40]!r}: put it in a list")
    return [_checked_text(text) for text in texts]


def _checked_fields(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"damaged tokenizer: not JSON ({error})") from error
    if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
        raise CheckpointError(f"not a tokenizer: expected a JSON object with format {_FORMAT!r}")
    if type(fields.get("version")) is not int or fields["version"] != _VERSION:
        raise CheckpointError(f"tokenizer of version {fields.get('version')!r}: this release reads version {_VERSION}")
    types = {"format": str, "version": int, "kind": str, "unknown": bool, "lowercase": bool, "tokens": list}
    wrong = [name for name, kind in types.items() if type(fields.get(name)) is not kind]
    wrong += [name for name in fields if name not in types]
    if wrong:
        raise CheckpointError(f"damaged tokenizer: missing, unknown or of the wrong type: {', '.join(sorted(wrong))}")
    return fields
