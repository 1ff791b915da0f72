"""What a test of finished pictures needs."""

from __future__ import annotations

import shutil

from tests.conftest import require


def needs_graphviz() -> None:
    """Skip, with the reason, where neither a system `dot` nor the wheel that ships one is there."""
    if shutil.which("dot") is None:
        require("pygraphviz")
