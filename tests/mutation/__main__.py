"""Changes the gradient engine in one place after another and counts the changes that no test notices.

    python -m tests.mutation                                        # 20 mutants of each file of tinygrad_attn/ops
    python -m tests.mutation --sample 0 tinygrad_attn/ops/loss.py   # all mutants of one file

The tests are imported once. Each mutant is a fork in which the code of one function is replaced; the tests that run
through this function follow, those that noticed earlier mutants first, then the quick ones, until one fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import signal
import sys
import time
from bisect import bisect
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from typing import Any

os.environ["TINYGRAD_ATTN_HYPOTHESIS_PROFILE"] = "mutation"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

from tests.mutation.equivalent import reason
from tests.mutation.functions import ROOT, live_functions, replace_code, trace_functions
from tests.mutation.mutants import mutants

TESTS = ("tests/properties", "tests/tinygrad_attn", "tests/regressions", "tests/parity")
GIGABYTE = 2**30


class MutationRun:
    """A pytest plugin: in place of running the tests once, run some of them for each mutant."""

    def __init__(self, paths: list[str], sample: int, seed: int, patience: float) -> None:
        self.paths, self.sample, self.seed, self.patience = paths, sample, seed, patience
        self.total: Counter[str] = Counter()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure which tests reach which functions, then try the mutants of each file."""
        if session.testsfailed:
            raise session.Interrupted("some tests could not be collected")
        for path in self.paths:
            live_functions(path)  # found once here, not in every fork
        baseline = forked(lambda: measured(session, self.paths), limit=3600)
        if not baseline or baseline["failed"]:
            raise pytest.UsageError(f"all tests must pass before they are tried: {baseline and baseline['failed']}")
        print(f"{len(session.items)} tests in {sum(baseline['seconds'].values()):.0f} s", flush=True)
        for path in self.paths:
            started = time.perf_counter()
            counts = self.try_file(session, path, baseline["seconds"], baseline["reached"])
            print(f"{path}: {summary(counts)} ({time.perf_counter() - started:.0f} s)", flush=True)
            self.total += counts
        print(f"all: {summary(self.total)}")
        return True

    def try_file(
        self, session: pytest.Session, path: str, seconds: dict[str, float], reached: dict[str, list[str]]
    ) -> Counter[str]:
        """Try a sample of the mutants of one file; print those that survive."""
        candidates = mutants(path)
        random.Random(self.seed).shuffle(candidates)
        counts, noticed = Counter[str](), Counter[str]()
        control = (ROOT / path).read_text("utf-8")
        if forked(lambda: tried(session, path, control, session.items[:1]), 60) != "":
            raise pytest.UsageError(f"the tests fail without any change of {path}")
        for mutant in candidates[: self.sample or None]:
            named = re.compile(
                rf"\b{re.escape(mutant.function.partition('.')[0])}\b"
            )  # a look at a signature is no call
            tests = [
                item
                for item in session.items
                if f"{path}:{mutant.function}" in reached[item.nodeid] or named.search(item.nodeid)
            ]
            tests.sort(key=lambda item: (-noticed[item.nodeid], seconds[item.nodeid]))
            spent = list(accumulate(seconds[item.nodeid] for item in tests))
            tests = tests[: bisect(spent, self.patience) + 1]
            limit = 10 + 5 * int(self.patience)
            outcome = forked(lambda mutant=mutant, tests=tests: tried(session, path, mutant.source(), tests), limit)
            if outcome == "":
                before, after = mutant.lines()
                outcome = "equivalent" if reason(path, mutant.function, before, after) else "survived"
                if outcome == "survived":
                    print(f"{path}:{mutant.line} {mutant.function} survives {len(tests)} tests")
                    print(f"  - {before}\n  + {after}", flush=True)
            elif outcome is None:
                outcome = "out of time or memory"
            elif outcome != "no program":
                noticed[outcome] += 1
                outcome = "killed"
            counts[outcome] += 1
        return counts


def summary(counts: Counter[str]) -> str:
    """The numbers, without what was no program at all."""
    counted = {name: number for name, number in counts.items() if name != "no program"}
    return f"{sum(counted.values())} mutants: " + ", ".join(f"{counted[name]} {name}" for name in sorted(counted))


def tried(session: pytest.Session, path: str, source: str, tests: list[pytest.Item]) -> str:
    """Put a mutant in place and name the first test that fails; "" if none does."""
    try:
        replace_code(path, source)
    except SyntaxError:
        return "no program"
    resource.setrlimit(resource.RLIMIT_DATA, (4 * GIGABYTE, 4 * GIGABYTE))
    return next((test.nodeid for test in tests if not passes(session, test)), "")


def measured(session: pytest.Session, paths: list[str]) -> dict[str, Any]:
    """Run every test once: how long each takes, and which functions of `paths` it runs through."""
    seconds, reached, hits = {}, {}, set[str]()
    for path in paths:
        trace_functions(path, hits.add)
    for item in session.items:
        hits.clear()
        started = time.perf_counter()
        if not passes(session, item):
            return {"failed": item.nodeid}
        seconds[item.nodeid], reached[item.nodeid] = time.perf_counter() - started, sorted(hits)
    return {"seconds": seconds, "reached": reached, "failed": ""}


def passes(session: pytest.Session, test: pytest.Item) -> bool:
    """Run one test."""
    test.config.hook.pytest_runtest_protocol(item=test, nextitem=None)
    return not session.testsfailed


def forked(work: Callable[[], Any], limit: int) -> Any:
    """What `work` returns in a process of its own; None if it dies or takes more than `limit` seconds."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(limit)
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            with os.fdopen(writer, "w") as pipe:
                json.dump(work(), pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else None


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", help="files to change (all of tinygrad_attn/ops)")
    parser.add_argument("--sample", type=int, default=20, help="mutants of each file, 0 for all (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (%(default)s)")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds of tests for each (%(default)s)")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="what may notice (%(default)s)")
    given = parser.parse_args()
    ours = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tinygrad_attn/ops").glob("*.py"))
    run = MutationRun(given.files or ours, given.sample, given.seed, given.patience)
    options = ["-q", "-s", "--tb=no", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--rootdir", str(ROOT)]
    status = pytest.main([*options, *given.tests], plugins=[run])
    return int(status) or int(run.total["survived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
