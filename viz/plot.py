"""Pictures drawn by Matplotlib: the figure, and the settings under which all of them are drawn.

Matplotlib is imported when a picture is drawn, not before, and never through `pyplot`: no window opens, and the
caller's own settings stay as they were.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

from tinygrad_attn.errors import MissingExtraError

from .figure import Figure, check_png_size
from .svg import finish, prefix_for

__all__ = ["PlotFigure", "plot_settings"]

# The first of each list that is installed; fonts for Korean stand behind those for Latin.
_LATIN = ("Arial", "Liberation Sans", "DejaVu Sans")
_CJK = ("Noto Sans CJK KR", "Noto Sans CJK JP", "Noto Sans KR", "NanumGothic", "Malgun Gothic", "Apple SD Gothic Neo")


@contextlib.contextmanager
def plot_settings() -> Iterator[None]:
    """Sets Matplotlib up for reproducible pictures whose text appears as written, for as long as the block lasts.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib import font_manager
    except ImportError as failure:
        raise MissingExtraError(
            "this picture is drawn with Matplotlib, which is not installed\n"
            '  python -m pip install "tinygrad-attn[plot]"'
        ) from failure
    known = {entry.name for entry in font_manager.fontManager.ttflist}
    families = [name for name in _LATIN if name in known][:1] + [name for name in _CJK if name in known][:1]
    settings = {
        "font.family": [*families, "DejaVu Sans"],  # ships with Matplotlib and knows most symbols
        "font.size": 9.0,
        "svg.fonttype": "none",  # text stays text, in a font of the viewer's
        "svg.hashsalt": "tinygrad-attn",
        "pdf.fonttype": 3,  # the only kind that takes fonts from a collection, as Noto's Korean one
        "text.parse_math": False,  # a token such as $x$ is no formula
        "text.usetex": False,
        "hatch.linewidth": 0.7,
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():  # type: ignore[arg-type]
        # An SVG leaves the choice of font to its viewer; what this machine's fonts lack is no fault of the picture.
        warnings.filterwarnings("ignore", message=r"(?s).*[Gg]lyph.*missing from.*font")
        warnings.filterwarnings("ignore", message=r"(?s)Matplotlib currently does not support")
        yield


class PlotFigure(Figure):
    """A picture drawn by Matplotlib.

    Attributes:
        drawing: the `matplotlib.figure.Figure`, to be changed further by those who wish.
    """

    def __init__(self, drawing: Any, *, title: str, alt: str, theme: str = "auto") -> None:
        super().__init__(title, alt, theme)
        self.drawing = drawing

    @property
    def backend(self) -> str:
        """Name and version of the program that draws the picture."""
        import matplotlib

        return f"Matplotlib {matplotlib.__version__}"

    def svg(self) -> str:
        """Draws as SVG: one `<svg>` element, valid as a file and inside a page."""
        raw = self._drawn("svg", metadata={"Date": None, "Creator": None})
        return finish(
            raw,
            prefix=prefix_for("a", raw.decode("utf-8") + self.theme + self.alt),
            title=self.title,
            description=self.alt,
            adaptive=self.theme == "auto",
            only={"page", "ink", "quiet", "rule"},
        )

    def png(self, *, dpi: int = 144) -> bytes:
        """Draws as PNG.

        Args:
            dpi: dots per inch; 96 is the size the SVG has on a page.
        Raises:
            RenderError: the picture would be wider or higher than 32,767 pixels.
        """
        width, height = self.drawing.get_size_inches()
        check_png_size(width * dpi, height * dpi)
        return self._drawn("png", dpi=dpi, metadata={"Software": None})

    def pdf(self) -> bytes:
        """Draws as a PDF of one page."""
        return self._drawn("pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})

    def _drawn(self, format: str, **options: Any) -> bytes:
        buffer = io.BytesIO()
        with plot_settings():
            self.drawing.savefig(buffer, format=format, facecolor=self.drawing.get_facecolor(), **options)
        return buffer.getvalue()
