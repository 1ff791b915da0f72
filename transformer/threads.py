"""How many threads the matrix products of a small model should use: one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run NumPy's matrix products on one thread inside.

    A product of a small model takes some microseconds; a second BLAS thread saves little of that, and where another
    process wants the core it waits for the first in a busy loop: a training step took 12 ms with one thread and 127 ms
    with two on a busy machine of two cores. Needs `threadpoolctl` (extra `lesson`); without it nothing is changed.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield
        return
    with threadpool_limits(limits=1, user_api="blas"):
        yield
