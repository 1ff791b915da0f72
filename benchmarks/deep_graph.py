"""What the engine's graph costs as it grows: time per operation, for chains of 100,000 and 200,000 operations.

    python benchmarks/deep_graph.py

A chain is built, differentiated and freed; were any of that more than linear, the ratio between twice the length and
once would be well over 2. Then sixty doublings y = y + y, which have 2⁶⁰ paths but only sixty operations.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import tinygrad_attn as ta


def chain(length: int) -> tuple[float, float, float]:
    """Seconds to build a chain of `length` additions, to differentiate it and to free it."""
    x = ta.Tensor(1.0, requires_grad=True)
    start = time.perf_counter()
    y = x
    for _ in range(length):
        y = y + 1.0
    built = time.perf_counter()
    y.backward()
    differentiated = time.perf_counter()
    del y
    freed = time.perf_counter()
    assert x.grad == 1.0
    return built - start, differentiated - built, freed - differentiated


def doublings(count: int) -> float:
    """Seconds to build and differentiate `count` doublings."""
    x = ta.Tensor(1.0, dtype=np.float64, requires_grad=True)
    start = time.perf_counter()
    y = x
    for _ in range(count):
        y = y + y
    y.backward()
    seconds = time.perf_counter() - start
    assert x.grad == 2.0**count
    return seconds


def main() -> int:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=100_000, help="operations of the shorter chain (default 100000)")
    parser.add_argument("--rounds", type=int, default=5, help="chains of each length (default 5)")
    args = parser.parse_args()
    print(f"NumPy {np.__version__}, Python {platform.python_version()}; median seconds of {args.rounds} chains\n")
    print(f"{'garbage collector':20}{'operations':>12}{'build':>9}{'backward':>10}{'free':>8}{'all':>8}{'ratio':>8}")
    for collecting in (True, False):
        (gc.enable if collecting else gc.disable)()
        once: float | None = None
        chain(args.length)
        for length in (args.length, 2 * args.length):
            parts = list(zip(*(chain(length) for _ in range(args.rounds)), strict=True))
            build, backward, free = (statistics.median(part) for part in parts)
            whole = statistics.median(map(sum, zip(*parts, strict=True)))
            ratio = f"{whole / once:8.2f}" if once is not None else ""
            name = ("on" if collecting else "off") if once is None else ""
            print(f"{name:20}{length:12,d}{build:9.2f}{backward:10.2f}{free:8.2f}{whole:8.2f}{ratio}")
            once = whole
    print(f"\n60 doublings: {1e3 * statistics.median(doublings(60) for _ in range(20)):.2f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
