"""Several files into one folder, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tinygrad_attn.errors import OptionError


def check_folder(folder: Path) -> None:
    """Find out, before the work is done, whether its result can be written.

    Raises:
        OptionError: `folder` is a file, or lies in one.
        OSError: it cannot be written; nothing is left behind.
    """
    for place in (folder, *folder.absolute().parents):
        if place.exists():
            if not place.is_dir():
                raise OptionError(f"--out {folder}: {place} is a file, not a folder")
            break
    # Making and removing a folder is the one test that holds on every file system, for every user.
    with tempfile.TemporaryDirectory(prefix=".tinygrad-attn-", dir=place):
        pass


def publish(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Writes files into a folder; until the last one is complete, nothing in it changes.

    Args:
        folder: made if it does not exist, with the folders above it; other files in it stay.
        files: name to content.
    Returns:
        The paths written.
    Raises:
        OSError: something cannot be written. A folder that did not exist before does not exist then.
    """
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.absolute().parent))
    try:
        for name, content in files.items():
            (unfinished / name).write_bytes(content)
        if not folder.exists():
            unfinished.chmod(0o755)
            unfinished.rename(folder)
        else:
            for name in files:
                os.replace(unfinished / name, folder / name)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return [folder / name for name in files]
