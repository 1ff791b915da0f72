"""docs/recipes.md: every output on the page is what the block above it prints.

python -m tests.tinygrad_attn.test_recipes_page    # writes the outputs anew
"""

from __future__ import annotations

from pathlib import Path

from tests.tinygrad_attn.test_debugging_page import written_anew

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recipes.md"


def test_the_page_prints_what_it_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written_anew(page) == page


if __name__ == "__main__":
    PAGE.write_text(written_anew(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
