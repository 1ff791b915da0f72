"""A figure is drawn, saved and shown by whatever renderer there is, or says plainly what is missing."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import viz.render as rendering
from tests.conftest import require
from tests.viz.needs import needs_graphviz
from tinygrad_attn.errors import OptionError, RenderError
from viz.dot import DotGraph, Edge, Node, to_dot
from viz.figure import GraphFigure, check_png_size
from viz.theme import _ROLES, colours

needs_graphviz()

DOT = to_dot(DotGraph((Node("a", "<s>"), Node("b", "B")), (Edge("e", "a", "b"),)))


def figure(**settings: str) -> GraphFigure:
    return GraphFigure(DOT, title="Title <&>", alt='Two nodes "a" & b', hints={"a": "hint <a>"}, **settings)


@pytest.fixture
def no_renderer(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine without Graphviz; gives its folder for temporary files."""
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(rendering.tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(rendering.graphviz, "pipe", _not_found)
    monkeypatch.setattr(rendering.importlib.util, "find_spec", lambda name: None)
    return temporary


def _not_found(*args: object, **options: object) -> bytes:
    raise rendering.graphviz.ExecutableNotFound(["dot"])


def test_all_formats_are_what_their_suffix_says(tmp_path: Path) -> None:
    starts = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF", ".html": b"<!doctype html>", ".dot": b"digraph"}
    for suffix, start in starts.items():
        path = figure().save(tmp_path / f"picture{suffix.upper()}")
        assert path.read_bytes().startswith(start)
    assert len(list(tmp_path.iterdir())) == len(starts)


def test_the_svg_says_in_words_what_it_shows() -> None:
    root = ElementTree.fromstring(figure().svg())
    texts = {element.tag.rpartition("}")[2]: element.text for element in root}
    assert root.get("role") == "img"
    assert texts["title"] == "Title <&>" and texts["desc"] == 'Two nodes "a" & b'
    assert root.get("aria-labelledby") == f"{root[0].get('id')} {root[1].get('id')}"


def test_ids_and_rules_of_two_figures_on_one_page_do_not_meet() -> None:
    one, other = figure(), GraphFigure(DOT, title="t", alt="other words")
    ids = [[e.get("id") for e in ElementTree.fromstring(f.svg()).iter() if e.get("id")] for f in (one, other)]
    assert not set(ids[0]) & set(ids[1])
    assert len(set(ids[0])) == len(ids[0])


def test_internal_names_are_no_hints() -> None:
    svg = figure().svg()
    assert "hint &lt;a&gt;" in svg and "<title>a</title>" not in svg and "a-&gt;b" not in svg


def test_the_size_is_the_view_box_so_that_nothing_is_cropped() -> None:
    root = ElementTree.fromstring(figure().svg())
    _, _, width, height = (float(number) for number in root.attrib["viewBox"].split())
    assert abs(float(root.attrib["width"]) - width * 4 / 3) <= 1
    assert abs(float(root.attrib["height"]) - height * 4 / 3) <= 1


def test_a_notebook_gets_svg_png_and_words() -> None:
    bundle = figure()._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert 'Two nodes "a" & b' in bundle["text/plain"]
    json.dumps(bundle)


def test_without_any_graphviz_the_error_says_how_to_get_it_and_keeps_the_dot(no_renderer: Path, tmp_path: Path) -> None:
    with pytest.raises(RenderError) as caught:
        figure().save(tmp_path / "graph.svg")
    message = str(caught.value)
    for way in ("apt-get install graphviz", "brew install", "winget install", "-m pip install", sys.executable):
        assert way in message
    assert str(tmp_path / "graph.dot") in message
    assert (tmp_path / "graph.dot").read_text(encoding="utf-8") == DOT
    assert [path.name for path in tmp_path.iterdir()] == ["graph.dot"]


def test_without_any_graphviz_dot_and_notebooks_still_work(no_renderer: Path, tmp_path: Path) -> None:
    assert figure().save(tmp_path / "a.gv").read_text(encoding="utf-8") == DOT
    bundle = figure()._repr_mimebundle_()
    assert list(bundle) == ["text/plain"] and "pip install" in bundle["text/plain"]


def test_what_cannot_be_drawn_is_kept_once_however_often_it_is_asked_for(no_renderer: Path) -> None:
    drawn = figure()
    for attempt in (drawn.svg, drawn.png, drawn.pdf, figure().svg, figure(theme="dark").svg):
        with pytest.raises(RenderError) as caught:
            attempt()
        (kept,) = no_renderer.iterdir()
        assert str(kept) in str(caught.value) and kept.read_text(encoding="utf-8") == DOT
    assert os.name != "posix" or kept.stat().st_mode & 0o077 == 0
    drawn._repr_mimebundle_()
    assert list(no_renderer.iterdir()) == [kept]


def test_a_kept_dot_that_was_changed_is_written_anew(no_renderer: Path) -> None:
    for _ in range(2):
        with pytest.raises(RenderError):
            figure().svg()
        (kept,) = no_renderer.iterdir()
        assert kept.read_text(encoding="utf-8") == DOT
        kept.write_text("changed", encoding="utf-8")


def test_a_link_that_stands_where_the_dot_is_kept_is_not_followed(no_renderer: Path) -> None:
    with pytest.raises(RenderError):
        figure().svg()
    (kept,) = no_renderer.iterdir()
    other = no_renderer / "other.txt"
    other.write_text("mine", encoding="utf-8")
    kept.unlink()
    kept.symlink_to(other)
    with pytest.raises(RenderError):
        figure().svg()
    assert other.read_text(encoding="utf-8") == "mine" and not kept.is_symlink()


def test_a_dot_without_plugins_falls_through_to_the_next_renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    require("pygraphviz")

    def broken(*args: object, **options: object) -> bytes:
        stderr = b"There is no layout engine support for dot\nPerhaps dot -c needs to be run"
        raise rendering.graphviz.CalledProcessError(1, ["dot"], b"", stderr)

    monkeypatch.setattr(rendering.graphviz, "pipe", broken)
    assert figure().backend.startswith("pygraphviz")
    monkeypatch.setattr(rendering.graphviz, "pipe", lambda *args, **options: b"No formats found.\n")
    assert figure().backend.startswith("pygraphviz")


def test_the_backend_is_the_program_that_drew() -> None:
    require("dot")
    assert figure().backend.startswith("system dot, Graphviz ")


def test_a_png_beyond_what_its_writers_can_do_is_an_error_that_names_svg() -> None:
    check_png_size(32_767, 100)
    for size in ((32_768, 10), (10, 40_000), (30_000, 30_000)):
        with pytest.raises(RenderError, match="SVG"):
            check_png_size(*size)
    with pytest.raises(RenderError, match="SVG"):
        figure().png(dpi=60_000)


@pytest.mark.parametrize("name", ["picture", "picture.jpg", "picture.svg.txt", ".svg"])
def test_an_unknown_suffix_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match=r"\.svg, \.png, \.pdf, \.html"):
        figure().save(tmp_path / name)


def test_a_folder_that_is_not_there_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match="cannot be written"):
        figure().save(tmp_path / "nowhere" / "picture.svg")


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "picture.svg"
    target.write_text("old")

    def full_disk(source: object, destination: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("viz.figure.os.replace", full_disk)
    with pytest.raises(RenderError, match="No space left"):
        figure().save(target)
    assert [path.name for path in tmp_path.iterdir()] == ["picture.svg"]
    assert target.read_text() == "old"


def test_a_page_needs_no_network_and_runs_no_script() -> None:
    page = figure().html()
    assert "default-src 'none'" in page and "<script" not in page and "http://" not in page.replace("http://www.w3", "")
    assert page.count("<svg") == 1 and "Two nodes &quot;a&quot; &amp; b" in page


def test_themes_change_colours_and_auto_changes_with_its_surroundings() -> None:
    assert "prefers-color-scheme" in figure().svg()
    assert "prefers-color-scheme" not in figure(theme="light").svg()
    assert figure(theme="dark").html().count(colours("dark")["page"]) >= 1
    with pytest.raises(OptionError, match="'auto', 'light', 'dark'"):
        figure(theme="blue")


def luminance(colour: str) -> float:
    parts = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable_on_every_ground(theme: str) -> None:
    palette = colours(theme)
    grounds = [palette[role] for role in palette if role.endswith("_fill") or role in ("page", "surface")]
    for ink, least in (("ink", 7.0), ("quiet", 4.5)):
        for ground in grounds:
            light, dark = sorted((luminance(palette[ink]), luminance(ground)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= least, (ink, ground)
    light, dark = sorted((luminance(palette["gradient"]), luminance(palette["gradient_fill"])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_every_light_colour_belongs_to_one_role() -> None:
    lights = [light for light, _ in _ROLES.values()]
    assert len(set(lights)) == len(lights)


def test_importing_viz_needs_no_matplotlib_and_opens_no_connection() -> None:
    program = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise RuntimeError('network')\n"
        "socket.socket.connect = refuse\n"
        "import viz\n"
        "assert not {'matplotlib', 'pygraphviz', 'jinja2', 'IPython', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
