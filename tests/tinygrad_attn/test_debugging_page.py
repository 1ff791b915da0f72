"""docs/debugging.md: every output on the page is what the block above it prints.

python -m tests.tinygrad_attn.test_debugging_page    # writes the outputs anew
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).resolve().parents[2] / "docs" / "debugging.md"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL)


def written_anew(page: str) -> str:
    """The page with the output that each of its blocks has now; all of them share their names."""
    names: dict[str, Any] = {"__name__": "train"}

    def run(block: re.Match[str]) -> str:
        code = block["code"]
        linecache.cache["train.py"] = (len(code), None, code.splitlines(keepends=True), "train.py")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), np.errstate(all="ignore"):
            exec(compile(code, "train.py", "exec"), names)
        output = f"\n```text\n{printed.getvalue()}```\n" if printed.getvalue() else ""
        return f"```python\n{code}```\n{output}"

    try:
        return BLOCK.sub(run, page)
    finally:
        linecache.cache.pop("train.py", None)


def test_the_page_prints_what_it_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(BLOCK.findall(page)) >= 10
    assert written_anew(page) == page, "python -m tests.tinygrad_attn.test_debugging_page writes the outputs anew"


if __name__ == "__main__":
    PAGE.write_text(written_anew(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
