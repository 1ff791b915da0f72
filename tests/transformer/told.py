"""What a command of the command line said, and what every such text must keep to."""

from __future__ import annotations

import re
from collections.abc import Callable

from viz.escape import display_width


class Told:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Run = Callable[..., Told]


def assert_one_line(told: Told, *parts: str) -> None:
    assert told.code == 2, told.out + told.err
    assert told.err.startswith("tinygrad-attn: ") and told.err.count("\n") == 1
    assert "Traceback" not in told.err
    for part in parts:
        assert part in told.err


def assert_fits(text: str) -> None:
    assert max(map(display_width, text.splitlines()), default=0) <= 80
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)
