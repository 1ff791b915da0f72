"""What holds for the package as a whole."""

from __future__ import annotations

import ast
from pathlib import Path

import viz


def test_no_file_uses_a_private_name_of_another() -> None:
    private = [
        f"{path.name}: {alias.name}"
        for path in sorted(Path(viz.__file__).parent.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert private == []
