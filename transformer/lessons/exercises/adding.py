"""Exercises on one line: what was used several times forward is added up backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from transformer.lessons.exercises.drawing import matrices, numbered
from transformer.lessons.exercises.exercise import Exercise, Mistake


def bias(x: Any, b: Any) -> Any:
    """The same bias added to every row: (rows, d) + (d,) -> (rows, d)."""
    return x + b


BIAS = Exercise(
    title="one bias for every row",
    task="The bias is copied to every row before it is added. A gradient has the shape of its input.",
    forward=bias,
    inputs=matrices("nd", "d"),
    formulas={"x": "dx = dy", "b": "db = Σ over the rows of dy"},
    mistakes=(
        Mistake(
            "the copies are not added up",
            "This gradient still has a row for every copy. There is one bias, and every copy of it moved L.",
            {"b": lambda g, out, x, b: g},
        ),
        Mistake(
            "the copies are averaged",
            "Each copy moved L by its own share; the shares add up, they are not averaged.",
            {"b": lambda g, out, x, b: np.mean(g, axis=0)},
        ),
        Mistake(
            "only one of the copies is counted",
            "One row's gradient is here; every row used the bias.",
            {"b": lambda g, out, x, b: g[0]},
        ),
        Mistake(
            "everything is summed",
            "The bias has an element for every column. Only what was copied, the rows, is summed.",
            {"b": lambda g, out, x, b: np.full(b.shape, np.sum(g))},
        ),
    ),
    section=1,
)


def self_similarity(x: Any) -> Any:
    """Every token beside every token: (tokens, d) -> (tokens, tokens)."""
    return x @ x.T


SELF_SIMILARITY = Exercise(
    title="one value used twice",
    task="X is the query and the key at once, as in self-attention: each use sends a gradient back.",
    forward=self_similarity,
    inputs=matrices("nd"),
    formulas={"x": "dX = (dS + dSᵀ) X"},
    mistakes=(
        Mistake(
            "the use as a key is lost",
            "This is what X gets as the left factor. It is the right factor as well; gradients of all uses are added, "
            "not overwritten.",
            {"x": lambda g, out, x: g @ x},
        ),
        Mistake(
            "the use as a query is lost",
            "This is what X gets as the right factor. It is the left factor as well; gradients of all uses are added, "
            "not overwritten.",
            {"x": lambda g, out, x: g.T @ x},
        ),
        Mistake(
            "both uses are taken to be alike",
            "Twice the gradient of one use is right only where dS is symmetric, and nothing makes it so.",
            {"x": lambda g, out, x: 2.0 * (g @ x)},
        ),
    ),
    section=1,
)


def embedding(table: Any, ids: Any) -> Any:
    """A row per token: (vocabulary, d), (tokens,) -> (tokens, d)."""
    return table[ids]


def _overwritten(g: Any, out: Any, table: Any, ids: Any) -> Any:
    found = np.zeros_like(table)
    found[ids] = g
    return found


def _by_word(g: Any, out: Any, table: Any, ids: Any) -> Any:
    found = np.zeros_like(table)
    for word in ids:
        found[word] += g[word]
    return found


def _averaged(g: Any, out: Any, table: Any, ids: Any) -> Any:
    found = np.zeros_like(table)
    np.add.at(found, ids, g)
    return found / np.maximum(1, np.bincount(ids, minlength=len(table)))[:, None]


EMBEDDING = Exercise(
    title="a row that is read twice",
    task="A word that stands twice in the sentence reads the same row of the table twice.",
    forward=embedding,
    inputs=numbered("rows", "vd"),
    formulas={"table": "dE[i] = Σ over the places with id i of dy"},
    mistakes=(
        Mistake(
            "a row that is read twice counts once",
            "Where an id stands twice, the second write replaces the first (`found[ids] += g` does the same: NumPy "
            "reads, adds and writes once per row). Look at np.add.at.",
            {"table": _overwritten},
        ),
        Mistake(
            "the gradient stays where the tokens are",
            "This has a row per token. The table has a row per word, and it is the table's gradient that is asked for.",
            {"table": lambda g, out, table, ids: g},
        ),
        Mistake(
            "g is read by word, not by place",
            "g has a row per place in the sentence. The word that stands there says where it goes, not where it is.",
            {"table": _by_word},
        ),
        Mistake(
            "the places are averaged",
            "Each place where a word stands moved L by its own share; the shares add up, they are not averaged.",
            {"table": _averaged},
        ),
    ),
    section=1,
)
