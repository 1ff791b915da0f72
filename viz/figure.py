"""Figures: what `draw_graph` and `attention_map` return.

A figure is a finished picture that is drawn when it is first asked for: as SVG, PNG, PDF or one HTML page, saved by
suffix, shown in a notebook or a browser, and always with words that say what it shows (`alt`).
"""

from __future__ import annotations

import base64
import os
import sys
import tempfile
import webbrowser
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tinygrad_attn.errors import OptionError, RenderError

from .escape import visible, xml_text
from .files import replace_file
from .render import graphviz_version, render
from .svg import finish, prefix_for, size_in_pixels
from .theme import colours

__all__ = ["Figure", "GraphFigure", "check_png_size"]

# Cairo and libgd scale a larger picture down without a word, or hand back a black one.
LONGEST_SIDE = 32_767
MOST_PIXELS = 2**28  # 1 GiB of memory at four bytes each
NOTEBOOK_PIXELS = 8_000_000


class Figure(ABC):
    """A picture with an accessible description.

    Attributes:
        title: what the picture is, in a few words.
        alt: what the picture shows, in words; screen readers and text terminals get this.
        theme: "light", "dark", or "auto", which follows the surroundings in SVG and HTML and is light elsewhere.
    """

    def __init__(self, title: str, alt: str, theme: str = "auto") -> None:
        self.page_colour = colours(theme)["page"]
        self.title = visible(title)
        self.alt = visible(alt)
        self.theme = theme

    @property
    @abstractmethod
    def backend(self) -> str:
        """Name and version of the program that really drew the picture."""

    @abstractmethod
    def svg(self) -> str:
        """Draws as SVG: one `<svg>` element, valid as a file and inside a page."""

    @abstractmethod
    def png(self, *, dpi: int = 144) -> bytes:
        """Draws as PNG at `dpi` dots per inch."""

    @abstractmethod
    def pdf(self) -> bytes:
        """Draws as a PDF of one page."""

    def html(self) -> str:
        """Writes one self-contained HTML page: inline SVG, the description below, no script and no network."""
        scheme = {"auto": "light dark", "light": "light", "dark": "dark"}[self.theme]
        dark = colours("dark")
        swap = f"@media(prefers-color-scheme:dark){{body{{background:{dark['page']};color:{dark['ink']}}}}}"
        own = colours(self.theme)
        return (
            '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            'img-src data:">\n'
            f'<meta name="viewport" content="width=device-width">\n<meta name="color-scheme" content="{scheme}">\n'
            f"<title>{xml_text(self.title)}</title>\n"
            f"<style>body{{margin:1rem;font:16px/1.5 sans-serif;background:{own['page']};color:{own['ink']}}}"
            f"{swap if self.theme == 'auto' else ''}"
            "figure{margin:0}.picture{overflow:auto}.picture svg{max-width:none!important}"
            "figcaption{max-width:70ch}</style>\n"
            f'<figure>\n<div class="picture" tabindex="0">\n{self.svg()}</div>\n'
            f"<figcaption>{xml_text(self.alt)}</figcaption>\n</figure>\n</html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Draws and writes the picture in the format that the file name's suffix names.

        Args:
            path: a file name ending in .svg, .png, .pdf or .html (a graph also in .dot or .gv). The folder must exist.
        Returns:
            The path written.
        Raises:
            OptionError: for another suffix.
            RenderError: the picture cannot be drawn or written. Nothing half-written is left behind, and a file that
                stood at `path` is untouched.
        """
        target = Path(path)
        writers = self._writers(target)
        writer = writers.get(target.suffix.lower())
        if writer is None:
            raise OptionError(f"save: expected a file name ending in {', '.join(writers)}; got {target.name!r}")
        replace_file(target, writer())
        return target

    def _writers(self, target: Path) -> dict[str, Callable[[], bytes]]:
        return {
            ".svg": lambda: self.svg().encode("utf-8"),
            ".png": self.png,
            ".pdf": self.pdf,
            ".html": lambda: self.html().encode("utf-8"),
        }

    def show(self) -> None:
        """Shows the picture now: in the notebook that runs this, or else in the web browser."""
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if shell is not None and hasattr(shell, "kernel"):
            from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

            display(self)
            return
        handle, name = tempfile.mkstemp(prefix="tinygrad-attn-", suffix=".html")
        os.close(handle)
        self.save(name)
        if not webbrowser.open(Path(name).as_uri()):
            print(f"No browser could be opened; the picture is in {name}")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Gives a notebook SVG, PNG (for viewers that show no SVG) and words; it shows the best that it can."""
        bundle = {"text/plain": f"{self.title}\n{self.alt}"}
        try:
            bundle["image/svg+xml"] = svg = self.svg()
            width, height = size_in_pixels(svg.encode("utf-8"))
            # The SVG is what is seen; the PNG stands in for it and need not weigh a hundred megabytes.
            dpi = min(144, max(24, int(96 * (NOTEBOOK_PIXELS / max(1.0, width * height)) ** 0.5)))
            bundle["image/png"] = base64.b64encode(self.png(dpi=dpi)).decode("ascii")
        except RenderError as failure:
            if "image/svg+xml" not in bundle:
                bundle["text/plain"] += f"\n\n{failure}"
        return bundle

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.title}>"


class GraphFigure(Figure):
    """A picture of a graph, laid out by Graphviz.

    Attributes:
        dot: the DOT text that is drawn; the same in every run.
        hints: element id to the text shown under a resting pointer.
    """

    def __init__(
        self, dot: str, *, title: str, alt: str, theme: str = "auto", hints: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(title, alt, theme)
        self.dot = dot
        self.hints = MappingProxyType(dict(hints or {}))
        self._raw: bytes | None = None
        self._backend = ""

    @property
    def backend(self) -> str:
        """Name and version of the program that really drew the picture; draws it if nothing has yet."""
        self._layout()
        return self._backend

    def svg(self) -> str:
        """Draws as SVG: one `<svg>` element, valid as a file and inside a page.

        Raises:
            RenderError: no Graphviz is installed; the message says how to get it.
        """
        return finish(
            self._layout(),
            prefix=prefix_for("g", self.dot + self.theme + self.alt),
            title=self.title,
            description=self.alt,
            hints=self.hints,
            adaptive=self.theme == "auto",
        )

    def png(self, *, dpi: int = 144) -> bytes:
        """Draws as PNG.

        Args:
            dpi: dots per inch; 96 is the size the SVG has on a page.
        Raises:
            RenderError: no Graphviz is installed, or the picture would be wider or higher than 32,767 pixels.
        """
        width, height = size_in_pixels(self._layout())
        check_png_size(width * dpi / 96, height * dpi / 96)
        return render(self.dot, "png", dpi=dpi).data

    def pdf(self) -> bytes:
        """Draws as a PDF of one page.

        Raises:
            RenderError: no Graphviz is installed; the message says how to get it.
        """
        return render(self.dot, "pdf").data

    def _writers(self, target: Path) -> dict[str, Callable[[], bytes]]:
        def drawn(writer: Callable[[], bytes]) -> Callable[[], bytes]:
            def draw() -> bytes:
                self._layout(keep=target.with_suffix(".dot"))
                return writer()

            return draw

        writers = {suffix: drawn(writer) for suffix, writer in super()._writers(target).items()}
        text = self.dot.encode("utf-8")
        return {**writers, ".dot": lambda: text, ".gv": lambda: text}

    def _layout(self, keep: Path | None = None) -> bytes:
        if self._raw is None:
            picture = render(self.dot, "svg", keep=keep)
            self._raw = picture.data
            self._backend = f"{picture.backend}, Graphviz {graphviz_version(picture.data)}".removesuffix(", Graphviz ")
        return self._raw


def check_png_size(width: float, height: float) -> None:
    """Refuses a PNG that its writers would scale down or blacken without a word.

    Args:
        width, height: in pixels.
    Raises:
        RenderError: a side longer than 32,767 pixels, or more pixels than one GiB of memory holds.
    """
    if max(width, height) > LONGEST_SIDE or width * height > MOST_PIXELS:
        raise RenderError(
            f"a PNG of {width:,.0f} × {height:,.0f} pixels is too large (at most {LONGEST_SIDE:,} a side and "
            f"{MOST_PIXELS:,} in all): save it as SVG, which has no limit, lower dpi=, or draw less "
            "(depth=, focus=, max_nodes=)"
        )
