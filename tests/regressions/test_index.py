"""The page that says where each known fault has its test is current, and no fault of the engine is without one."""

from __future__ import annotations

import pytest

from tests.regressions.index import HERE, files_by_id, page

ROWS = {
    "G": (1, 2, 3, 4, 6, 7, 8, 11, 13, 14, 15),
    "B": (1, 2, 4, 6, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 23, 24),
    "N": (1, 2, 4, 5, 6, 8, 9, 10, 13, 16),
    "D": (1, 2, 3, 6, 8),
    "C": (1, 2, 3, 5, 6, 7, 8, 9, 11, 12, 13, 16),
    "A": (1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 17, 19, 20, 21, 23, 24),
    "K": (1, 3, 4, 6, 7, 9, 11, 12, 13, 14, 15, 17, 19, 20, 22),
    "O": (1, 3, 4, 6, 7, 9),
    "V": (1, 2, 4, 6, 7, 8, 9),
}


@pytest.mark.parametrize("row", [f"{letter}{number}" for letter, numbers in ROWS.items() for number in numbers])
def test_every_known_fault_has_a_test_of_its_name(row: str) -> None:
    assert files_by_id().get(row)


def test_the_page_is_current() -> None:
    """If this fails, tests were added or moved: run `python -m tests.regressions.index`."""
    assert (HERE / "README.md").read_text(encoding="utf-8") == page()
