"""Changes of values in place, noticed: memory that a leaf and its views share, and how often it was written to."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Memory:
    """The values of a leaf, shared by all Tensors that view them, and the number of changes they have seen.

    Whoever changes them and says so (`changed`) is counted. Once others hold a writable array (`watch`), changes are
    found by comparing a checksum.
    """

    __slots__ = ("_array", "_checksum", "_version")

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        self._checksum: int | None = None
        self._version = 0

    def version(self) -> int:
        """How often the values have been changed."""
        if self._checksum is not None and self._checksum != (current := checksum(self._array)):
            self._checksum = current
            self._version += 1
        return self._version

    def watch(self) -> None:
        """Compare checksums from now on: somebody else can write."""
        if self._checksum is None:
            self._checksum = checksum(self._array)

    def move_to(self, array: NDArray[Any]) -> None:
        """Follow the values, unchanged, to `array`."""
        self._array = array

    def changed(self) -> None:
        """Count a change."""
        self._version += 1
        if self._checksum is not None:
            self._checksum = checksum(self._array)


def checksum(array: NDArray[Any]) -> int:
    """A number that almost surely differs when a byte of `array` does."""
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data) if array.size else 0
