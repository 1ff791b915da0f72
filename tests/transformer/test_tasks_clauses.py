"""The task of saying clauses again: its sentences, and what is held out."""

from __future__ import annotations

import numpy as np

from transformer.tasks.clauses import JOIN, NAMES, THINGS, VERBS, ClausesConfig, ClausesTask


def test_a_sentence_is_clauses_joined() -> None:
    task, rng = ClausesTask(), np.random.default_rng(0)
    for clauses in (1, 2, 3):
        words = task.sentence(rng, clauses).split()
        assert len(words) == 4 * clauses - 1
        for place, word in enumerate(words):
            assert word in ((*NAMES,), (*VERBS,), (*THINGS,), (JOIN,))[place % 4]


def test_training_never_shows_a_held_out_sentence() -> None:
    task = ClausesTask(ClausesConfig(most=2))
    held_out = {example.source for example in task.held_out(60)}
    assert len(held_out) == 60
    assert held_out.isdisjoint(example.source for example in task.draw(np.random.default_rng(1), 3000))
    assert all(example.source == example.target for example in task.draw(np.random.default_rng(2), 20))


def test_held_out_sentences_have_the_length_that_was_asked_for_and_are_the_same_again() -> None:
    task = ClausesTask()
    for clauses in (1, 2, 3):
        found = task.held_out_of(clauses, 20)
        assert {len(example.source.split()) for example in found} == {4 * clauses - 1}
        assert found == task.held_out_of(clauses, 20) != task.held_out_of(clauses, 20, seed=1)


def test_every_length_is_equally_frequent_in_training() -> None:
    task = ClausesTask(ClausesConfig(most=4))
    styles = [example.style for example in task.draw(np.random.default_rng(0), 2000)]
    assert all(400 < styles.count(str(clauses)) < 600 for clauses in (1, 2, 3, 4))


def test_the_tokenizer_knows_every_word() -> None:
    task = ClausesTask()
    text = " ".join(task.words)
    assert task.source_tokenizer.decode(task.source_tokenizer.encode(text)) == text
