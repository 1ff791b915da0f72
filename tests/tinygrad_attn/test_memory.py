"""Keeping freed memory: an explicit call, which says whether it had an effect."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tinygrad_attn import memory


def in_a_process(program: str) -> str:
    """What a program prints in a process of its own: the setting cannot be taken back."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


FAULTS = """
import resource
import numpy as np
from tinygrad_attn.memory import keep_freed_memory
if {keep}:
    print(keep_freed_memory())
for _ in range(3):
    np.ones(8_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    np.ones(8_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's thresholds exist on Linux")
def test_arrays_that_are_freed_and_asked_for_again_cause_no_page_faults() -> None:
    accepted, kept = in_a_process(FAULTS.format(keep=True)).split()
    if accepted != "True":
        pytest.skip("this C library is not glibc")
    given_back = int(in_a_process(FAULTS.format(keep=False)))
    assert int(kept) < 0.1 * given_back


def test_elsewhere_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert memory.keep_freed_memory() is False


@pytest.mark.parametrize("error", [OSError("no libc.so.6"), AttributeError("no mallopt")])
def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def missing(_: str) -> None:
        raise error

    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", missing)
    assert memory.keep_freed_memory() is False
