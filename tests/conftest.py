"""What all tests share: hypothesis profiles, a seed for every test, and what to do where a program is missing."""

from __future__ import annotations

import importlib
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

# Before NumPy is imported: arrays in tests are small, and a second BLAS thread waits for the first in a busy loop.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

import tinygrad_attn

# Examples are counted, never timed: a busy machine must not turn a claim false. The first two draw the same examples
# every time, so that a red run is red again; the third looks for new ones. Where a failure is all that is wanted, it
# need not shrink.
for _name, _examples, _derandomize, _phases in (
    ("quick", 25, True, tuple(Phase)),
    ("thorough", 100, True, tuple(Phase)),
    ("explore", 300, False, tuple(Phase)),
    ("mutation", 25, True, (Phase.explicit, Phase.generate)),
):
    settings.register_profile(
        _name,
        max_examples=_examples,
        derandomize=_derandomize,
        phases=_phases,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
settings.load_profile(os.environ.get("TINYGRAD_ATTN_HYPOTHESIS_PROFILE", "quick"))

# Programs, each with the names under which systems install it; any other requirement is a Python module.
PROGRAMS = {
    "dot": ("dot",),
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "mpiexec": ("mpiexec",),
}


def require(name: str) -> Any:
    """Give the path of a program or the module of that name; without it skip, or fail where nothing may be missing.

    Works in a test, in a fixture, and at the top of a test file (`torch = require("torch")`).

    Args:
        name: a key of `PROGRAMS` or a module, such as `"torch"` or `"matplotlib"`.
    Returns:
        The program's path, or the imported module.
    """
    if name in PROGRAMS:
        path = os.pathsep.join(
            [os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)]
        )  # wheels bring some
        found: Any = next(filter(None, (shutil.which(program, path=path) for program in PROGRAMS[name])), None)
        reason = f"needs the program {name}, which is not on PATH"
    else:
        try:
            found, reason = importlib.import_module(name), ""
        except ImportError as error:
            found, reason = None, f"needs the Python package {name}: {error}"
    if found is None:
        if os.environ.get("TINYGRAD_ATTN_REQUIRE_ALL") == "1":
            pytest.fail(f"{reason}; TINYGRAD_ATTN_REQUIRE_ALL=1 forbids to skip", pytrace=False)
        pytest.skip(reason, allow_module_level=True)
    return found


@pytest.fixture(name="require", scope="session")
def require_fixture() -> Callable[[str], Any]:
    """`require` for tests that would rather ask for it than import it."""
    return require


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Start every test from the same random state, so that no test depends on which ran before it."""
    random.seed(0)
    np.random.seed(0)
    tinygrad_attn.manual_seed(0)


@pytest.fixture(scope="module")  # playwright's event loop would stand in the way of asyncio in later files
def browser() -> Iterator[Any]:
    """A headless Chromium of the system, driven by playwright, with its own empty profile and no network of its own."""
    api = require("playwright.sync_api")
    program = require("chromium")
    # Root, as on most build machines, cannot use Chromium's sandbox.
    sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    quiet = ["--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update"]
    with api.sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=program,
            headless=True,
            args=[*sandbox, *quiet, "--disable-sync", "--no-first-run"],
        )
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A fresh page; whatever goes wrong inside it (an exception, an error on the console) fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    problems: list[str] = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    yield tab
    context.close()
    if problems:
        pytest.fail("the page reported errors:\n" + "\n".join(problems), pytrace=False)
