"""Mutants that no test can notice, each with the reason: the same is computed, or nothing is promised about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Equivalent:
    """Changes of one line that change nothing.

    Attributes:
        path, function: where, as the driver prints them.
        before: the line, without comment.
        after: the changed lines.
        reason: why no test can tell.
    """

    path: str
    function: str
    before: str
    after: tuple[str, ...]
    reason: str


EQUIVALENT: list[Equivalent] = []


def reason(path: str, function: str, before: str, after: str) -> str:
    """Why a mutant is equivalent; "" if nobody has said so."""
    for row in EQUIVALENT:
        if (row.path, row.function, row.before) == (path, function, before) and after in row.after:
            return row.reason
    return ""
