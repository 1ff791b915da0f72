"""How the C library treats the large arrays that a training step frees and asks for again."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1  # glibc's malloc.h
_M_MMAP_THRESHOLD = -3


def keep_freed_memory(threshold: int = 1 << 30) -> bool:
    """Keep freed arrays in the process instead of giving them back to the system after every operation.

    A training step frees and asks for the same few hundred megabytes again and again. By default glibc returns blocks
    above a threshold at once, and the kernel has to hand out and clear every page anew: page faults then take up to a
    third of the step. This raises both thresholds. The memory that the process has used at its peak stays with it.
    Nothing calls this by itself; training does, and so may you.

    Args:
        threshold: bytes; free blocks below it are kept.
    Returns:
        Whether the C library accepted it; False without glibc, where nothing is changed.
    Source:
        mallopt(3), M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, threshold)) and bool(mallopt(_M_MMAP_THRESHOLD, threshold))
