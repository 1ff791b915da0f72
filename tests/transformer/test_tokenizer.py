"""Tokenizers: what goes in comes out, what cannot go in is named, and what was saved is read back or refused."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_attn.errors import (
    CheckpointError,
    DtypeError,
    IndexRangeError,
    OptionError,
    ShapeError,
    TinygradAttnError,
    VocabularyError,
)
from transformer.tokenizer import CharTokenizer, Tokenizer, WordTokenizer

# Everything Unicode has but halves of surrogate pairs, with scripts and marks of this project made likelier.
CHARACTERS = st.one_of(
    st.characters(exclude_categories=["Cs"]), st.sampled_from("aZ09 _-'’.,!?()…<>\t\n\u0301é금요\u1100\u1161हि\u202f👍")
)
TEXTS = st.text(CHARACTERS, min_size=1, max_size=30)
WORDY = TEXTS.filter(lambda text: text.strip() != "")
SPECIAL = ["<pad>", "<Start of Sentence>", "<End of Sentence>"]
KINDS = pytest.mark.parametrize("kind", [CharTokenizer, WordTokenizer])


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_characters_survive_a_round_trip(texts: list[str]) -> None:
    tokenizer = CharTokenizer.build(texts)
    for text in texts:
        assert tokenizer.decode(tokenizer.encode(text)) == unicodedata.normalize("NFC", text)


@given(TEXTS, st.data())
def test_any_text_over_the_vocabulary_survives_a_round_trip(corpus: str, data: st.DataObject) -> None:
    tokenizer = CharTokenizer.build([corpus])
    text = data.draw(st.text(st.sampled_from(tokenizer.tokens[3:]), min_size=1))
    normal = unicodedata.normalize("NFC", text)
    if set(normal) <= set(tokenizer.tokens):  # two characters may compose to a third, which the corpus lacks
        assert tokenizer.decode(tokenizer.encode(text)) == normal


@given(st.lists(WORDY, min_size=1, max_size=5))
def test_words_survive_a_round_trip(texts: list[str]) -> None:
    tokenizer = WordTokenizer.build(texts)
    for text in texts:
        ids = tokenizer.encode(text)
        assert tokenizer.encode(tokenizer.decode(ids)) == ids


@given(WORDY, st.booleans())
def test_a_decoded_text_is_a_fixed_point(text: str, lowercase: bool) -> None:
    tokenizer = WordTokenizer.build([text], lowercase=lowercase)
    once = tokenizer.decode(tokenizer.encode(text))
    assert tokenizer.decode(tokenizer.encode(once)) == once


@given(WORDY)
def test_splitting_into_words_loses_nothing_but_space(text: str) -> None:
    tokenizer = WordTokenizer.build([text])
    joined = "".join(tokenizer.tokens_of(tokenizer.encode(text)))
    assert joined == "".join(unicodedata.normalize("NFC", text).split())


@pytest.mark.parametrize(
    "text",
    [
        "The animal didn't cross the street because it was too tired.",
        "I am good",
        "나는 좋다",
        "그녀는 피곤하지 않다.",
        "Well-known (and loved), isn't it?",
        "Il n’a pas plu…",
        "हिन्दी भाषा",
    ],
)
def test_ordinary_sentences_come_back_letter_by_letter(text: str) -> None:
    tokenizer = WordTokenizer.build([text])
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I am good", ["I", "am", "good"]),
        ("The animal didn't cross.", ["The", "animal", "didn't", "cross", "."]),
        ("나는 행복하지 않다", ["나는", "행복하지", "않다"]),
        ("너는 행복하니?", ["너는", "행복하니", "?"]),
        ("'quoted' - dash", ["'", "quoted", "'", "-", "dash"]),
        ("dogs' tails", ["dogs", "'", "tails"]),
        ("a_b 3.14\t(x)", ["a_b", "3", ".", "14", "(", "x", ")"]),
    ],
)
def test_words_and_punctuation_are_split(text: str, words: list[str]) -> None:
    tokenizer = WordTokenizer.build([text])
    assert tokenizer.tokens_of(tokenizer.encode(text)) == words


@KINDS
@given(texts=st.lists(WORDY, min_size=1, max_size=5), start=st.booleans(), end=st.booleans())
def test_a_batch_equals_its_rows_padded_on_the_right(
    kind: type[Tokenizer], texts: list[str], start: bool, end: bool
) -> None:
    tokenizer = kind.build(texts)
    ids, lengths = tokenizer.encode_batch(texts, start=start, end=end)
    assert ids.dtype == lengths.dtype == np.int64
    assert ids.shape == (len(texts), max(lengths))
    for text, row, length in zip(texts, ids.tolist(), lengths.tolist(), strict=True):
        expected = [tokenizer.start_id] * start + tokenizer.encode(text) + [tokenizer.end_id] * end
        assert row[:length] == expected
        assert row[length:] == [tokenizer.pad_id] * (len(row) - length)
        assert tokenizer.decode(row) == tokenizer.decode(tokenizer.encode(text))


@KINDS
@given(texts=st.lists(WORDY, max_size=5), unknown=st.booleans(), lowercase=st.booleans())
def test_json_gives_an_equal_tokenizer(kind: type[Tokenizer], texts: list[str], unknown: bool, lowercase: bool) -> None:
    tokenizer = kind.build(texts, unknown=unknown, lowercase=lowercase)
    for reader in (kind, Tokenizer):
        copy = reader.from_json(tokenizer.to_json())
        assert type(copy) is kind
        assert copy == tokenizer
        assert hash(copy) == hash(tokenizer)
        assert copy.tokens == tokenizer.tokens
        assert (copy.unknown_id, copy.lowercase) == (tokenizer.unknown_id, tokenizer.lowercase)
        for text in texts:
            assert copy.encode(text) == tokenizer.encode(text)


@KINDS
@given(texts=st.lists(WORDY, min_size=1, max_size=5), data=st.data())
def test_the_order_of_the_texts_does_not_change_the_vocabulary(
    kind: type[Tokenizer], texts: list[str], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(texts))
    tokens = kind.build(texts).tokens
    assert kind.build(shuffled + texts).tokens == tokens
    assert tokens[:3] == SPECIAL
    assert tokens[3:] == sorted(set(tokens[3:]))


def test_special_tokens_come_first_and_unknown_only_when_asked_for() -> None:
    plain, lenient = CharTokenizer.build(["a"]), CharTokenizer.build(["a"], unknown=True)
    assert plain.tokens == [*SPECIAL, "a"]
    assert lenient.tokens == [*SPECIAL, "<unknown>", "a"]
    assert (plain.pad_id, plain.start_id, plain.end_id, plain.unknown_id) == (0, 1, 2, None)
    assert lenient.unknown_id == 3
    assert (len(plain), len(lenient)) == (4, 5)
    assert plain != lenient


def test_decode_stops_at_the_first_end() -> None:
    tokenizer = CharTokenizer.build(["ab"])
    ids = [1, 3, 0, 4, 2, 3, 2, 0]
    assert tokenizer.decode(ids) == "ab"
    assert tokenizer.decode(ids, keep_special=True) == "<Start of Sentence>a<pad>b<End of Sentence>"
    assert tokenizer.tokens_of(ids) == [*SPECIAL[1:2], "a", "<pad>", "b", SPECIAL[2], "a", SPECIAL[2], "<pad>"]
    assert tokenizer.decode(np.array(ids, dtype=np.int32)) == "ab"
    assert tokenizer.decode([]) == ""
    words = WordTokenizer.build(["I am good"])
    assert words.decode([1, 3, 4, 5, 2, 0], keep_special=True) == "<Start of Sentence> I am good <End of Sentence>"


@KINDS
def test_special_tokens_are_never_read_out_of_a_text(kind: type[Tokenizer]) -> None:
    text = "<Start of Sentence> <pad> <unknown>"
    tokenizer = kind.build([text], unknown=True)
    assert not {0, 1, 2, 3} & set(tokenizer.encode(text))


def test_an_unknown_character_is_named_with_its_place() -> None:
    tokenizer = CharTokenizer.build(["2026년 12월 1일"])
    with pytest.raises(VocabularyError, match=r"(?s)'☃' \(U\+2603 SNOWMAN\) at position 5 .*unknown=True"):
        tokenizer.encode("2026년☃ 12월")
    with pytest.raises(VocabularyError, match=r"'\\ud800' \(U\+D800 no name\) at position 1"):
        tokenizer.encode("1\ud800")
    with pytest.raises(VocabularyError, match=r"U\+0000"):
        tokenizer.encode_batch(["1", "1\x00"])


def test_an_unknown_word_is_named_with_its_place() -> None:
    tokenizer = WordTokenizer.build(["I am good"])
    with pytest.raises(VocabularyError, match=r"'bad' at position 5 .* of 'I am bad'"):
        tokenizer.encode("I am bad")
    with pytest.raises(VocabularyError, match="'Good'"):
        tokenizer.encode("Good")


def test_errors_quote_an_excerpt_and_not_a_novel() -> None:
    with pytest.raises(VocabularyError) as error:
        CharTokenizer.build(["a"]).encode("a" * 50_000 + "b" + "a" * 50_000)
    assert "at position 50000" in str(error.value)
    assert len(str(error.value)) < 400


@given(TEXTS, TEXTS)
def test_with_unknown_every_text_has_ids(corpus: str, text: str) -> None:
    tokenizer = CharTokenizer.build([corpus], unknown=True)
    ids = tokenizer.encode(text)
    normal = unicodedata.normalize("NFC", text)
    known = set(unicodedata.normalize("NFC", corpus))
    assert tokenizer.tokens_of(ids) == [c if c in known else "<unknown>" for c in normal]
    assert "<unknown>" in tokenizer.decode(ids) or set(normal) <= known


def test_the_same_letter_typed_in_two_ways_is_one_token() -> None:
    tokenizer = CharTokenizer.build(["décembre"])
    assert tokenizer.encode("de\u0301c") == tokenizer.encode("déc")
    assert WordTokenizer.build(["금요일"]).encode(unicodedata.normalize("NFD", "금요일")) == [3]


def test_lowercase_merges_cases() -> None:
    tokenizer = WordTokenizer.build(["The animal, the street"], lowercase=True)
    assert tokenizer.tokens[3:] == [",", "animal", "street", "the"]
    assert tokenizer.decode(tokenizer.encode("THE Animal")) == "the animal"


@KINDS
@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_an_empty_text_is_an_empty_sequence(kind: type[Tokenizer], text: str) -> None:
    tokenizer = kind.build(["a \n\t"], unknown=True)
    if kind is CharTokenizer and text:
        assert tokenizer.decode(tokenizer.encode(text)) == text  # spaces are characters
        return
    with pytest.raises(OptionError, match="empty sequence"):
        tokenizer.encode(text)
    with pytest.raises(OptionError, match="empty sequence"):
        tokenizer.encode_batch(["a", text])


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(OptionError, match="empty batch"):
        CharTokenizer.build(["a"]).encode_batch([])


def test_what_is_no_text_is_refused() -> None:
    tokenizer = CharTokenizer.build(["a"])
    wrong: Any = 7
    with pytest.raises(DtypeError, match="expected a text"):
        tokenizer.encode(wrong)
    with pytest.raises(DtypeError, match="put it in a list"):
        tokenizer.encode_batch("aaa")
    with pytest.raises(DtypeError, match="put it in a list"):
        CharTokenizer.build("aaa")


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([4], IndexRangeError, "id 4 is outside the vocabulary: expected 0 to 3"),
        ([-1], IndexRangeError, "id -1"),
        ([[1, 3], [3, 2]], ShapeError, r"got \(2, 2\)"),
        (3, ShapeError, r"got \(\)"),
        ([0.1, 0.9], DtypeError, "argmax"),
    ],
)
def test_ids_that_mean_nothing_are_refused(ids: Any, error: type[Exception], message: str) -> None:
    tokenizer = CharTokenizer.build(["a"])
    for read in (tokenizer.decode, tokenizer.tokens_of):
        with pytest.raises(error, match=message):
            read(ids)


@pytest.mark.parametrize(
    ("kind", "vocabulary", "message"),
    [
        (CharTokenizer, ["a", "a"], "twice"),
        (CharTokenizer, ["ab"], "no text gives the token 'ab'"),
        (CharTokenizer, [""], "no text gives"),
        (CharTokenizer, ["\u212b"], "NFC"),  # the Ångström sign, which NFC writes as a letter
        (CharTokenizer, ["\ud800"], "surrogate"),
        (CharTokenizer, ["<pad>"], "no text gives"),
        (WordTokenizer, ["two words"], "no text gives"),
        (WordTokenizer, ["<pad>"], "no text gives"),
        (WordTokenizer, [" "], "no text gives"),
        (WordTokenizer, [7], "no text gives the token 7"),
    ],
)
def test_an_impossible_vocabulary_is_refused(kind: type[Tokenizer], vocabulary: list[Any], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        kind(vocabulary)


def test_a_lowercase_tokenizer_refuses_capitals_in_its_vocabulary() -> None:
    with pytest.raises(VocabularyError, match="lower case"):
        WordTokenizer(["Word"], lowercase=True)


GOOD = json.loads(CharTokenizer.build(["ab"]).to_json())


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "{",
        "[" * 100_000,
        "null",
        "[]",
        "{}",
        CharTokenizer.build(["ab"]).to_json()[:-5],
        json.dumps(GOOD | {"format": "other"}),
        json.dumps(GOOD | {"version": 2}),
        json.dumps(GOOD | {"version": True}),
        json.dumps(GOOD | {"version": "1"}),
        json.dumps(GOOD | {"kind": "subword"}),
        json.dumps(GOOD | {"kind": ["char"]}),
        json.dumps(GOOD | {"unknown": True}),
        json.dumps(GOOD | {"unknown": 0}),
        json.dumps(GOOD | {"lowercase": None}),
        json.dumps(GOOD | {"tokens": "ab"}),
        json.dumps(GOOD | {"tokens": ["a", "b"]}),
        json.dumps(GOOD | {"tokens": [*SPECIAL, "a", "a"]}),
        json.dumps(GOOD | {"tokens": [*SPECIAL, "a", 7]}),
        json.dumps(GOOD | {"tokens": [*SPECIAL, None]}),
        json.dumps(GOOD | {"extra": 1}),
        json.dumps({name: value for name, value in GOOD.items() if name != "unknown"}),
    ],
)
def test_a_damaged_file_is_refused(damaged: str) -> None:
    with pytest.raises(CheckpointError):
        Tokenizer.from_json(damaged)


@given(st.data())
def test_a_file_with_one_wrong_character_is_read_or_refused_and_never_crashes(data: st.DataObject) -> None:
    text = WordTokenizer.build(["나는 좋다", "I am good"]).to_json()
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.sampled_from('"{}[]:,\\x0 \n')) + text[place + 1 :]
    try:
        assert isinstance(Tokenizer.from_json(changed), WordTokenizer)
    except TinygradAttnError as error:
        assert isinstance(error, CheckpointError)


def test_one_kind_does_not_read_the_other() -> None:
    with pytest.raises(CheckpointError, match="kind 'char', which WordTokenizer cannot read"):
        WordTokenizer.from_json(CharTokenizer.build(["ab"]).to_json())


def test_kinds_with_the_same_tokens_are_not_equal() -> None:
    assert CharTokenizer("ab") != WordTokenizer(["a", "b"])
    assert CharTokenizer("ab") != 7
    assert repr(CharTokenizer("ab")) == "CharTokenizer(5 tokens, unknown=False, lowercase=False)"
    assert "a" in CharTokenizer("ab")
    assert "<pad>" not in CharTokenizer("ab")
