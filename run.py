#!/usr/bin/env python3
"""Everything from a fresh clone, with Python and nothing else.

    python3 run.py lesson [...]   the lesson; arguments go to `tinygrad-attn lesson`
    python3 run.py test [...]     the tests and doctests; arguments, if any, go to pytest instead
    python3 run.py check          what has to hold besides the tests: lint, format, types, imports, the wheel
    python3 run.py setup [...]    only the set-up, with the extras named (default: all)

The first call makes `.venv` beside this file and installs the project into it, editable; later calls find it ready. It
is brought up to date when pyproject.toml changes. Standard library only, and it parses on Pythons too old to run the
project, so that they are told.
"""

import hashlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Callable

OLDEST = (3, 10)
if sys.version_info < OLDEST:
    sys.stderr.write(
        "tinygrad-attn needs Python {}.{} or newer; this is Python {}. If a newer one is installed, name it: "
        "python3.12 run.py ...\n".format(*OLDEST, sys.version.split()[0])
    )
    sys.exit(2)

ROOT = Path(__file__).resolve().parent
PACKAGES = ["tinygrad_attn", "transformer", "viz"]
VENV = ROOT / ".venv"
STAMP = VENV / "tinygrad-attn.json"
LOG = VENV / "tinygrad-attn-install.log"


def say(line: str) -> None:
    """Report progress beside, not within, what the command itself prints."""
    print(f"run.py: {line}", file=sys.stderr, flush=True)


def stop(line: str) -> "SystemExit":
    """Make the exit for a machine that lacks something: one line, code 2."""
    say(line)
    return SystemExit(2)


# ------------------------------------------------------------------------------------------------------------- set-up


def script(name: str, venv: "Path | None" = None, windows: bool = os.name == "nt") -> str:
    """Path of a program inside a virtual environment (ours by default)."""
    return str((venv or VENV) / (f"Scripts/{name}.exe" if windows else f"bin/{name}"))


def environment() -> "dict[str, str]":
    """Our environment without what would let another Python's packages into the virtual environment."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}


def wanted_stamp(extras: "list[str]") -> "dict[str, object]":
    """What a ready `.venv` is known by: this checkout, this Python, this pyproject.toml and these extras."""
    return {
        "root": str(ROOT),
        "python": "{}.{}".format(*sys.version_info),
        "pyproject": hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest(),
        "extras": extras,
    }


def prepare(extras: "list[str]") -> str:
    """Make or refresh `.venv` with these extras of the project and give the path of its Python."""
    python = script("python")
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stamp = None
    if not isinstance(stamp, dict):
        stamp = {}
    # What an earlier call installed stays: `lesson` after `test` must not leave pytest behind, out of date.
    together = sorted({*extras, *stamp.get("extras", [])})
    wanted = wanted_stamp(together)
    if stamp == wanted and os.path.exists(python):
        return python

    started = time.monotonic()
    # Scripts in a virtual environment name their folder and their Python, so neither can change under it.
    elsewhere = stamp and any(stamp.get(fact) != wanted[fact] for fact in ("root", "python"))
    if elsewhere or not os.path.exists(python):
        make_environment(VENV)
    STAMP.unlink(missing_ok=True)
    names = ",".join(together)
    say(f"installing tinygrad-attn[{names}] into .venv (the first time takes a minute or two) ...")
    install(python, ["--editable", f"{ROOT}[{names}]"])
    STAMP.write_text(json.dumps(wanted), encoding="utf-8")
    say(f"ready after {time.monotonic() - started:.0f} s")
    return python


def make_environment(venv: Path) -> None:
    """Make a virtual environment with this Python, in place of what stood there."""
    version = "{}.{}".format(*sys.version_info)
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        raise stop(
            f"this Python has no module {missing[0]}, so it cannot make a virtual environment; on Debian and Ubuntu: "
            f"apt-get install python{version}-venv"
        )
    say(f"making {venv.name} with Python {sys.version.split()[0]} ...")
    made = run_quietly([sys.executable, "-m", "venv", "--clear", str(venv)])
    if made.returncode:
        raise stop(f"could not make {venv}: {last_words(made.stdout)}")


def install(python: str, arguments: "list[str]") -> None:
    """Run pip without its chatter; if it fails, say why in a line and where the rest is."""
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    reported = run_quietly([*pip, "--version"]).stdout.split()
    if reported[:1] != ["pip"]:
        # The making of `.venv` was interrupted, or another tool made it and left pip out.
        run_quietly([python, "-m", "ensurepip"])
    # Editable installs of projects without a setup.py came with pip 21.3; some Pythons 3.10 bundle an older one.
    elif len(reported) > 1 and [int(part) for part in reported[1].split(".")[:2] if part.isdigit()] < [21, 3]:
        run_quietly([*pip, "install", "--upgrade", "pip"])
    done = run_quietly([*pip, "install", *arguments])
    if done.returncode:
        LOG.write_text(done.stdout, encoding="utf-8")
        cut_off = "pip could not reach its package index; " if "connection broken by" in done.stdout else ""
        raise stop(f"pip could not install it: {cut_off}{last_words(done.stdout)} (all it said: {LOG})")


def run_quietly(command: "list[str]") -> "subprocess.CompletedProcess[str]":
    """Run a command and keep what it prints."""
    return subprocess.run(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def last_words(text: str) -> str:
    """The line of a tool's output that says what went wrong: its last error, or else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|\w+Error): ", line)]
    return (errors or lines or ["it gave no reason"])[-1]


# ----------------------------------------------------------------------------------------------------------- commands


def call(command: "list[str]", folder: Path = ROOT) -> int:
    """Run a command in the open and give its exit code; it decides what Ctrl-C and a polite kill mean."""
    child = subprocess.Popen(command, cwd=str(folder), env=environment())
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            continue


def lesson(arguments: "list[str]") -> int:
    """Run the lesson where the user stands, so that `--out` means their folder."""
    prepare(["all"])
    return call([script("tinygrad-attn"), "lesson", *arguments], Path.cwd())


def test(arguments: "list[str]") -> int:
    """Run the doctests and the tests; given arguments, only what they select."""
    python = prepare(["all", "test"])
    pytest = [python, "-m", "pytest"]
    if arguments:
        return call([*pytest, *arguments])
    # tinygrad_attn.scipy is passed over where its extra is not installed.
    doctests = call([*pytest, "--doctest-modules", "--doctest-ignore-import-errors", "--quiet", *PACKAGES])
    tests = call(pytest)
    if doctests:
        say("the doctests failed: see above, before the tests")
    return tests or doctests


def check(arguments: "list[str]") -> int:
    """Run all checks, also past a failing one, and name those that failed."""
    if arguments:
        raise stop("check takes no arguments")
    python = prepare(["all", "test", "dev"])
    checks: "dict[str, Callable[[], int]]" = {
        "lint": lambda: call([script("ruff"), "check", "."]),
        "format": lambda: call([script("ruff"), "format", "--check", "."]),
        "types": lambda: call([python, "-m", "mypy"]),
        "imports": lambda: call([script("lint-imports")]),
        "wheel": lambda: wheel(python),
    }
    failed = []
    for name, passes in checks.items():
        say(f"check: {name}")
        if passes() != 0:
            failed.append(name)
    say("failed: " + ", ".join(failed) if failed else "all checks passed")
    return 1 if failed else 0


# Runs in an environment that holds the wheel and its core dependencies only, away from the checkout.
SMOKE = """
import sys, time
def took(name):
    start = time.perf_counter()
    module = __import__(name)
    print(f"import {name}: {time.perf_counter() - start:.3f} s from {module.__file__}")
    return module
took("numpy")
for name in ("tinygrad_attn", "transformer", "viz"):
    if not took(name).__file__.startswith(sys.prefix):
        sys.exit(f"{name} does not come from the wheel")
"""


def wheel(python: str) -> int:
    """Build the distributions, see that nothing was left out, and try the wheel alone in a clean environment."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        built = run_quietly([python, "-m", "build", "--outdir", str(folder), str(ROOT)])
        if built.returncode:
            say(f"the wheel was not built: {last_words(built.stdout)}")
            return 1
        path = next(folder.glob("*.whl"))
        inside = set(zipfile.ZipFile(path).namelist())
        files = {
            file.relative_to(ROOT).as_posix()
            for package in PACKAGES
            for file in (ROOT / package).rglob("*")
            if file.is_file() and "__pycache__" not in file.parts
        }
        if files - inside:
            say(f"the wheel lacks {', '.join(sorted(files - inside))}")
            return 1
        make_environment(folder / "clean")
        clean = script("python", folder / "clean")
        install(clean, [str(path)])
        imported = call([clean, "-c", SMOKE], folder)
        helped = call([script("tinygrad-attn", folder / "clean"), "--help"], folder)
        return imported or helped


def setup(arguments: "list[str]") -> int:
    """Prepare `.venv` and print the path of its Python."""
    print(prepare(arguments or ["all"]))
    return 0


COMMANDS = {"lesson": lesson, "test": test, "check": check, "setup": setup}


def main() -> int:
    """Find the command and run it."""
    name, arguments = (sys.argv[1:2] or ["--help"])[0], sys.argv[2:]
    if name in ("-h", "--help"):
        print(__doc__)
        return 0
    if name not in COMMANDS:
        raise stop(f"unknown command {name!r}; there are {', '.join(COMMANDS)}")
    try:
        return COMMANDS[name](arguments)
    except KeyboardInterrupt:
        say("interrupted; nothing is lost, the next call goes on from here")
        return 130


if __name__ == "__main__":
    sys.exit(main())
