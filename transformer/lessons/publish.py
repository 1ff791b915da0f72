"""Several files into one folder, whole or not at all, and never over somebody else's."""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import tinygrad_attn
from tinygrad_attn.errors import OptionError

# How a file says that this program wrote it, so that the next run may write it anew.
_PAGE = b'<meta name="generator" content="tinygrad-attn'
_DRAWING = b"<!-- tinygrad-attn"
_IMAGE = b"tEXtSoftware\0tinygrad-attn"
_IMAGE_HEADER = 8 + 25  # bytes: the signature and the chunk IHDR, with which every PNG begins


def check_folder(folder: Path, names: Iterable[str] = (), *, force: bool = False) -> None:
    """Find out, before the work is done, whether its result can be written.

    Args:
        folder: where to.
        names: the files that are going to be written.
        force: also over files that this program did not write.
    Raises:
        OptionError: `folder` is a file, lies in one, cannot be written, or holds files of other origin.
    """
    for place in (folder, *folder.absolute().parents):
        if place.exists():
            if not place.is_dir():
                raise OptionError(f"--out {folder}: {place} is a file, not a folder")
            break
    # Making and removing a folder is the one test that holds on every file system, for every user.
    try:
        with tempfile.TemporaryDirectory(prefix=".tinygrad-attn-", dir=place):
            pass
    except OSError as error:
        raise OptionError(f"--out {folder}: nothing can be written in {place}: {error.strerror or error}") from error
    _check_own(folder, names, force)


def check_parent(file: Path) -> None:
    """Find out, before the work is done, whether the folder of one file exists.

    A folder is made for a lesson, which fills it; for a single file a folder that is missing is rather a misspelt one.

    Raises:
        OptionError: it does not exist.
    """
    if not file.absolute().parent.is_dir():
        raise OptionError(f"--out {file}: there is no folder {file.parent}\n  make it first, or name another")


def publish(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Writes files into a folder; until the last one is complete, nothing in it changes.

    Args:
        folder: made if it does not exist, with the folders above it; other files in it stay.
        files: name to content; pages and pictures get a mark by which `check_folder` knows them again.
    Returns:
        The paths written.
    Raises:
        OSError: something cannot be written. A folder that did not exist before does not exist then.
    """
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".tinygrad-attn-", dir=folder if folder.exists() else folder.parent))
    try:
        for name, content in files.items():
            (unfinished / name).write_bytes(marked(content))
        if not folder.exists():
            unfinished.chmod(0o755)
            unfinished.rename(folder)
        else:
            for name in files:
                os.replace(unfinished / name, folder / name)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return [folder / name for name in files]


def marked(content: bytes) -> bytes:
    """A page, drawing or image that says that this program wrote it; other content as it is.

    >>> marked(b'<svg></svg>').startswith(b'<svg></svg><!-- tinygrad-attn')
    True
    """
    version = tinygrad_attn.__version__.encode()
    if content.startswith(b"<svg"):
        return content.rstrip() + _DRAWING + b" " + version + b" -->\n"
    if content.startswith(b"\x89PNG"):
        chunk = _IMAGE + b" " + version
        length, checksum = (number.to_bytes(4, "big") for number in (len(chunk) - 4, zlib.crc32(chunk)))
        return content[:_IMAGE_HEADER] + length + chunk + checksum + content[_IMAGE_HEADER:]
    start = b'<meta charset="utf-8">'
    return content.replace(start, start + b"\n" + _PAGE + b" " + version + b'">', 1)


def is_marked(content: bytes) -> bool:
    """Whether this program wrote a file."""
    if content.startswith(b"<svg"):
        return _DRAWING in content[-100:]
    if content.startswith(b"\x89PNG"):
        return _IMAGE in content[:200]
    return _PAGE in content[:2000]


def _check_own(folder: Path, names: Iterable[str], force: bool) -> None:
    present = [folder / name for name in names if os.path.lexists(folder / name)]
    for path in present:
        if path.is_dir():
            raise OptionError(f"--out {folder}: {path} is a folder, where a file is going to be written")
    foreign = [path.name for path in present if not path.is_file() or not is_marked(path.read_bytes())]
    if foreign and not force:
        raise OptionError(
            f"--out {folder}: {', '.join(foreign)} there is not from a lesson and would be overwritten\n"
            "  name another folder, or add --force"
        )
