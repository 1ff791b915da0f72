"""Whatever a label holds, the picture shows it as written, or visibly shortened, and stays a well-formed picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.conftest import require
from tests.viz.needs import needs_graphviz
from viz.dot import Cell, DotGraph, Edge, Node, Table, to_dot
from viz.escape import ELLIPSIS, display_width, html_text, quoted, shorten, visible, xml_text
from viz.render import render

NASTY = [
    "<Start of Sentence>", "<s>", "</s>", "<lambda> <map>", "a|b", "{x}", "a<b", "a>b", "\\",
    "\\N", "\\G", "\\E", "\\L", "path\\new", "a &lt; b", "&amp;lt;", "&nbsp;", "&#65;", "&",
    "a\nb", "a\tb", "a\r\nb", "nul\x00nul", "\x01\x1b[31m\x7f", "\x85\x9f", "\ud800",
    "\udfff tail", "\ufffe\uffff", "\ufdd0", "\U0001fffe", '"quoted"', "'single'", "it's", "♂",
    "<=", "안녕하세요", "日本語", "é é", "👩‍👩‍👧 😀", "\u202egnirts", "\ufeffbom", "\u2028\u2029", "$x$",
    "<B>bold</B>", "<BR/>", "<!-- c -->", "]]>", "<![CDATA[x]]>", "%3", "a  b   c", " leading",
    "trailing ", "", " ", "x" * 20_000, "&" * 20_000, "가" * 20_000, "\u0301" * 20_000,
    "label=<x>", "->", "};", "\\\\", "\\\"", "<W>|{x}\\N ...",
]  # fmt: skip

texts = st.one_of(st.text(), st.sampled_from(NASTY), st.text(alphabet="<>&\\|{}\"'\n\t $N;#x", max_size=30))


def drawn_texts(labels: Sequence[str | Table]) -> list[str]:
    """Draws one node for every label and gives the text that each node shows."""
    needs_graphviz()
    nodes = tuple(Node(f"n{i}", label, {"shape": "plain"}) for i, label in enumerate(labels))
    root = ElementTree.fromstring(render(to_dot(DotGraph(nodes)), "svg").data)
    shown = {}
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        if group.get("class") == "node":
            found = group.iter("{http://www.w3.org/2000/svg}text")
            shown[group.get("id")] = "".join(element.text or "" for element in found)
    return [shown[f"n{i}"] for i in range(len(labels))]


def as_drawn(text: str) -> str:
    # Graphviz keeps runs of spaces by writing some of them as no-break spaces.
    return text.replace("\xa0", " ")


def expected(text: str, limit: int = 80) -> str:
    return as_drawn(shorten(visible(text), limit))


def table(text: str) -> Table:
    return Table(((Cell(text, {}),),), {"border": 0})


def without_edges(text: str) -> str:
    return text.strip(" \xa0\u3000")


@pytest.fixture(scope="module", params=["system dot", "pygraphviz"])
def one_renderer(request: pytest.FixtureRequest) -> str:
    require("dot" if request.param == "system dot" else "pygraphviz")
    return str(request.param)


@pytest.fixture
def only(one_renderer: str, monkeypatch: pytest.MonkeyPatch) -> str:
    import viz.render as module

    chosen = tuple(entry for entry in module._RENDERERS if entry[0] == one_renderer)
    monkeypatch.setattr(module, "_RENDERERS", chosen)
    return one_renderer


def test_every_known_trap_is_drawn_as_written_in_tables(only: str) -> None:
    assert [as_drawn(text) for text in drawn_texts([table(text) for text in NASTY])] == [expected(t) for t in NASTY]


def test_every_known_trap_is_drawn_as_written_in_plain_labels(only: str) -> None:
    shown = drawn_texts(NASTY)
    assert [without_edges(text) for text in map(as_drawn, shown)] == [without_edges(expected(t)) for t in NASTY]


@given(st.lists(texts, min_size=1, max_size=40))
def test_any_text_is_drawn_as_written(labels: list[str]) -> None:
    both = drawn_texts([table(text) for text in labels] + labels)
    wanted = [without_edges(expected(text)) for text in labels]
    assert [without_edges(as_drawn(text)) for text in both] == wanted + wanted


@given(texts)
def test_visible_text_is_valid_xml_and_encodes(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert ElementTree.fromstring(f"<t>{xml_text(text, 10**9)}</t>").text in (shown, None) or len(text) > 2_000
    assert visible(shown) == shown


@given(texts)
def test_the_page_form_leaves_no_markup(text: str) -> None:
    assert not set(xml_text(text)) & set("<>\"'")


@given(texts, st.integers(1, 60), st.sampled_from(["end", "middle"]))
@example("가나다", 4, "end")
@example("\u0301" * 1000, 5, "middle")
def test_shortening_keeps_what_fits_and_marks_what_does_not(text: str, limit: int, where: str) -> None:
    short = shorten(text, limit, where=where)
    assert display_width(short) <= limit
    if short != text:
        head, _, tail = short.rpartition(ELLIPSIS) if where == "end" else short.partition(ELLIPSIS)
        assert ELLIPSIS in short and text.startswith(head) and text.endswith(tail)
    elif len(text) < limit:
        assert short == text


def test_twenty_thousand_characters_stay_below_the_limit_of_the_dot_language() -> None:
    for text in ("x" * 20_000, "&" * 20_000, '"' * 20_000, "\\" * 20_000):
        assert len(html_text(text, 10**6)) < 16_384
        assert len(quoted(text, 10**6)) < 16_384


def test_edge_and_hint_texts_pass_the_same_escaper() -> None:
    graph = DotGraph(
        (Node("a", "a", {"tooltip": 'x"\\N'}), Node("b", "b")), (Edge("e", "a", "b", 'dA = "\\E" <&amp;>'),)
    )
    assert 'label="dA = \\"\\\\E\\" <&amp;amp;>"' in to_dot(graph)
    needs_graphviz()
    render(to_dot(graph), "svg")
