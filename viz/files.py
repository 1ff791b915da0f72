"""Writing files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from tinygrad_attn.errors import RenderError

__all__ = ["replace_file"]


def replace_file(target: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Writes beside the target and renames, so that the file is there whole or not at all.

    Args:
        target: the file; its folder must exist.
        data: its whole content.
        mode: permissions of the file, less what the process withholds.
    Raises:
        RenderError: the file cannot be written; what stood there before still does.
    """
    unfinished = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with open(unfinished, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
        os.replace(unfinished, target)
    except OSError as failure:
        raise RenderError(f"save: {target} cannot be written: {failure.strerror or failure}") from failure
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
