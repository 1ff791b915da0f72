"""Arrays in a file that holds arrays and nothing that runs: the safetensors format.

A file is written beside its place and moved there when it is complete, so that whoever reads it finds the old one or
the new one, never half of one. Needs the extra `io`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_attn.errors import CheckpointError, DtypeError, MissingExtraError

Array = NDArray[Any]
PathLike = str | os.PathLike[str]

# What the format stores and NumPy has; complex numbers, text and objects are refused before anything is written.
DTYPES = frozenset(
    ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32", "float64"]
)


def save(path: PathLike, tensors: Mapping[str, ArrayLike], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays to a file, all of it or nothing: an older file stays as it was until the new one is complete.

    The new file may be read by whoever could read the old one.

    Args:
        path: where; the folder must exist. By custom the name ends in ".safetensors".
        tensors: arrays by name, such as a module's `state_dict()`. Which of them are one parameter is not kept.
        metadata: text by name, such as settings written as JSON.
    Raises:
        CheckpointError: the folder is missing or cannot be written, or `path` is a folder, a device or no name.
        DtypeError: an array's dtype cannot be stored, or a name or the metadata is not text.
        MissingExtraError: safetensors is not installed.

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> save(file, {"weight": np.eye(2)}, {"epoch": "3"})
    >>> tensors, metadata = load(file)
    >>> tensors["weight"].tolist(), metadata
    ([[1.0, 0.0], [0.0, 1.0]], {'epoch': '3'})
    """
    if not isinstance(tensors, Mapping):
        raise DtypeError(
            f"save: tensors must be arrays by name, as state_dict() gives them\n"
            f"  given {type(tensors).__name__}; the order is save(path, tensors)"
        )
    library = _safetensors()
    # safetensors 0.8 writes a broken header for no arrays with metadata {}, and a sound one with None.
    data = library.save(_storable(tensors), metadata=_text(metadata or {}) or None)
    if "\0" in os.fspath(path):
        raise CheckpointError(f"cannot save to {path!r}\n  expected the name of a file, which cannot hold a NUL")
    target = Path(os.path.realpath(path))  # through a symbolic link, not over it
    if os.path.exists(target) and not os.path.isfile(target):
        kind = "a folder; add a file name" if os.path.isdir(target) else "a device or a pipe"
        raise CheckpointError(f"cannot save to {path}\n  expected the name of a file, given {kind}")
    try:
        _write_whole(target, data)
    except OSError as error:
        hint = "use another name or folder, or make room in this one"
        if not os.path.exists(target.parent):
            hint = f"make the folder first: {target.parent}"
        raise CheckpointError(f"cannot save to {path}\n  {error.strerror or error}; {hint}") from error


def load(path: PathLike) -> tuple[dict[str, Array], dict[str, str]]:
    """Read what `save`, or any other program that writes safetensors, has written.

    Returns:
        The arrays by name, each in memory of its own; and the metadata.
    Raises:
        CheckpointError: the file is missing, cannot be read, is no safetensors file, is shorter or longer than its
            header says, or holds a dtype that NumPy lacks.
        MissingExtraError: safetensors is not installed.
    """
    library = _safetensors()
    source = Path(path)
    if os.path.isdir(source):
        raise CheckpointError(
            f"cannot load {source}\n  expected a file, given a folder; add the name of the file in it"
        )
    try:
        _check_size(source)
        with library.safe_open(source, framework="np") as file:
            arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 (not a dict)
            return arrays, dict(file.metadata() or {})
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no checkpoint {source}\n  {_neighbours(source)}") from error
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"cannot read {source}\n  {error.strerror or error}") from error
    except Exception as error:  # the parser has several types of its own for what it cannot read
        raise CheckpointError(
            f"{source} cannot be read as a safetensors file: {str(error)[:160]}\n"
            "  it is damaged, or holds a dtype that NumPy lacks, such as bfloat16: convert that to float32 first"
        ) from error


class _Library:
    """The parts of safetensors in use."""

    def __init__(self) -> None:
        try:
            from safetensors import safe_open
            from safetensors.numpy import save as to_bytes
        except ImportError as error:
            raise MissingExtraError(
                "checkpoints need the package safetensors, which is not installed\n"
                "  python -m pip install 'tinygrad-attn[io]'"
            ) from error
        self.safe_open: Any = safe_open
        self.save: Any = to_bytes


def _safetensors() -> _Library:
    return _Library()


def _storable(tensors: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Arrays as the format wants them: the library writes the memory as it lies, in whatever order that is."""
    storable: dict[str, Array] = {}
    for name, values in tensors.items():
        _check_text("the name of an array", name)
        if name == "__metadata__":
            raise DtypeError("an array cannot be called '__metadata__'\n  the format keeps that name for the metadata")
        try:
            array = np.asarray(values)
        except ValueError as error:  # rows of different lengths
            raise DtypeError(f"{name} cannot be stored\n  {error}") from error
        if array.dtype.name not in DTYPES:
            raise DtypeError(
                f"{name} cannot be stored\n  expected numbers or booleans, given dtype {array.dtype}; convert it first"
            )
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        storable[name] = np.ascontiguousarray(native).reshape(array.shape)  # ascontiguousarray makes 0-d arrays 1-d
    return storable


def _text(metadata: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(metadata, Mapping):
        raise DtypeError(f"save: metadata must be text by name\n  given {type(metadata).__name__}")
    for name, value in metadata.items():
        _check_text("the name of a metadata entry", name)
        _check_text(f"the metadata entry {name!r}", value)
    return dict(metadata)


def _check_text(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise DtypeError(f"{what} must be text\n  given {type(value).__name__}; json.dumps turns settings into text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DtypeError(f"{what} must be text that can be encoded\n  given {value!r}: {error.reason}") from error


def _write_whole(target: Path, data: bytes) -> None:
    """Write beside `target`, make sure that it is on the disk, and move it there; leave nothing behind on failure."""
    beside = target.with_name(f".saving-{secrets.token_hex(8)}")
    try:
        with open(beside, "xb") as file:
            with contextlib.suppress(FileNotFoundError):
                shutil.copymode(target, beside)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError, AttributeError):  # not every system can open a folder to make the move last
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _check_size(source: Path) -> None:
    """Raise unless the file starts with a header and is as long as the header says.

    The format: eight bytes with the header's length, the header as JSON, and the arrays, whose places it gives.
    """
    size = source.stat().st_size
    with open(source, "rb") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > size:
            raise CheckpointError(f"{source} is not a safetensors file{_other_format(start)}")
        text = file.read(length)
    if len(text) < length:
        raise CheckpointError(
            f"{source} is cut off in its header\n  expected more than {8 + length} bytes, found {size}"
        )
    try:
        header = json.loads(text)
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        expected = 8 + length + max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise CheckpointError(f"{source} is not a safetensors file, or its header is damaged\n  {error}") from error
    if size != expected:
        what = "cut off" if size < expected else "longer than its header says"
        raise CheckpointError(f"{source} is {what}\n  expected {expected} bytes, found {size}; save or copy it again")


def _other_format(start: bytes) -> str:
    """What a file that starts so probably is."""
    if not start:
        return "\n  it is empty: whoever wrote it did not finish"
    if start.startswith(b"PK"):
        return "\n  it is a zip archive, as np.savez and torch.save write them; save its arrays with serialize.save"
    if start.startswith(b"\x80"):
        return "\n  it looks like a pickle, which can run code when it is read and is never read here"
    if start.startswith(b"\x93NUMPY"):
        return "\n  it is a NumPy file; np.load reads it"
    return "\n  expected a length in its first eight bytes; is it the right file, or was it cut off?"


def _neighbours(source: Path) -> str:
    """What there is instead of a file that is missing."""
    if not source.parent.is_dir():
        return f"the folder {source.parent} does not exist either"
    others = sorted(other.name for other in source.parent.glob("*.safetensors"))
    if not others:
        return f"the folder {source.parent} holds no .safetensors file"
    return "in that folder there are " + ", ".join(others[:5]) + (" …" if len(others) > 5 else "")
