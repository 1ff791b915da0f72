"""DOT text to SVG, PNG and PDF with whatever Graphviz this machine has.

First the `graphviz` package, which runs a system `dot`; where there is none, or a broken one, `pygraphviz`, whose wheel
ships Graphviz; where there is neither, an error that says how to get either, with the DOT text kept in a named file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import graphviz

from tinygrad_attn.errors import RenderError

from .files import replace_file

__all__ = ["FORMATS", "Picture", "render"]

FORMATS = ("svg", "png", "pdf")

HOW_TO_GET_GRAPHVIZ = """\
  Either install Graphviz itself:
    Debian, Ubuntu   sudo apt-get install graphviz
    Fedora           sudo dnf install graphviz
    macOS            brew install graphviz
    Windows          winget install graphviz     (then open a new terminal)
    conda            conda install graphviz
  or, into this very interpreter, the wheel that brings its own:
    {python} -m pip install "tinygrad-attn[render]"\
"""

# The layout runs in a process of its own: a crash in C code then costs a picture, not the session.
_PYGRAPHVIZ_PROGRAM = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode("utf-8"))
sys.stdout.buffer.write(graph.draw(format=sys.argv[1], prog="dot"))
"""

_STARTS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


@dataclass(frozen=True)
class Picture:
    """What a renderer gave: the bytes, and the name of the renderer that really made them."""

    data: bytes
    backend: str


class _Unavailable(Exception):
    """This renderer is missing or broken; the next one may still do."""


def render(dot: str, format: str = "svg", *, dpi: int | None = None, keep: Path | None = None) -> Picture:
    """Lays out and draws a graph.

    Args:
        dot: a graph in the DOT language, as `dot.to_dot` writes it.
        format: "svg", "png" or "pdf".
        dpi: dots per inch of a PNG; None means Graphviz's 96.
        keep: where the DOT text is kept if nothing can draw it; None means a file in the folder for
            temporary files, named after the text, so that no second one comes of asking again.
    Returns:
        The picture and the renderer's name.
    Raises:
        RenderError: no renderer is installed, or none could draw this graph.
    """
    if format not in FORMATS:
        raise RenderError(f"render: expected a format among {', '.join(FORMATS)}, got {format!r}")
    source = dot if dpi is None else dot.replace("{", f'{{\n  graph [dpi="{dpi}"];', 1)
    reasons = []
    for name, draw in _RENDERERS:
        try:
            data = draw(source, format)
        except _Unavailable as reason:
            reasons.append(f"    {name}: {reason}")
            continue
        if data.lstrip().startswith(_STARTS[format]):
            return Picture(data, name)
        reasons.append(f"    {name}: gave no {format.upper()} ({len(data)} bytes)")
    raise RenderError(
        f"this graph could not be drawn as {format.upper()}: no Graphviz on this machine did it\n"
        + "\n".join(reasons)
        + f"\n  {_keep(dot, keep)}\n"
        + HOW_TO_GET_GRAPHVIZ.format(python=sys.executable or "python")
    )


def _system_dot(dot: str, format: str) -> bytes:
    try:
        return bytes(graphviz.pipe("dot", format, dot.encode("utf-8"), quiet=True))
    except graphviz.ExecutableNotFound:
        raise _Unavailable("no program `dot` on PATH") from None
    except graphviz.CalledProcessError as failure:
        raise _Unavailable(_first_lines(failure.stderr)) from failure
    except OSError as failure:
        raise _Unavailable(f"`dot` could not be run: {failure}") from failure


def _pygraphviz(dot: str, format: str) -> bytes:
    if importlib.util.find_spec("pygraphviz") is None:
        raise _Unavailable("not installed")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    try:
        finished = subprocess.run(
            [sys.executable, "-c", _PYGRAPHVIZ_PROGRAM, format],
            input=dot.encode("utf-8"),
            capture_output=True,
            env=environment,
            check=False,
        )
    except OSError as failure:
        raise _Unavailable(f"Python could not be run: {failure}") from failure
    if finished.returncode != 0:
        raise _Unavailable(_last_line(finished.stderr) or f"stopped with code {finished.returncode}")
    return finished.stdout


_RENDERERS: tuple[tuple[str, Callable[[str, str], bytes]], ...] = (
    ("system dot", _system_dot),
    ("pygraphviz", _pygraphviz),
)


def _text(stderr: bytes | str | None) -> str:
    return stderr.decode("utf-8", "replace") if isinstance(stderr, bytes) else (stderr or "")


def _first_lines(stderr: bytes | str | None) -> str:
    lines = [line.strip() for line in _text(stderr).splitlines() if line.strip()]
    return "; ".join(lines[:2]) or "failed without a message"


def _last_line(stderr: bytes | str | None) -> str:
    lines = [line.strip() for line in _text(stderr).splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _keep(dot: str, keep: Path | None) -> str:
    data = dot.encode("utf-8")
    try:
        if keep is None:  # named after its content: asked for again, the same graph is the same file
            keep = Path(tempfile.gettempdir(), f"tinygrad-attn-{hashlib.sha256(data).hexdigest()[:16]}.dot")
            if keep.is_file() and not keep.is_symlink() and keep.read_bytes() == data:
                return _kept_in(keep)
            replace_file(keep, data, mode=0o600)  # others use that folder too
        else:
            replace_file(keep, data)
    except (OSError, RenderError) as failure:
        return f"(The DOT text could not be kept either: {failure}.)"
    return _kept_in(keep)


def _kept_in(keep: Path) -> str:
    return f"The DOT text is kept in {keep}; any Graphviz, or a viewer on the web, can draw it."


def graphviz_version(svg: bytes) -> str:
    """Reads the version of Graphviz that an SVG says it was made by, or an empty string."""
    found = re.search(rb"[Gg]enerated by graphviz version ([0-9][^ <>-]*)", svg[:2000])
    return found.group(1).decode("ascii", "replace") if found else ""
