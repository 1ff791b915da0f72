"""Faults that other graph drawers and attention maps have had; the ids are those of the acceptance cases."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import tinygrad_attn as ta
import viz.render as rendering
from tests.conftest import require
from tests.viz.needs import needs_graphviz
from tests.viz.test_draw import texts
from tests.viz.test_figure import no_renderer
from tinygrad_attn.errors import OptionError, RenderError, ShapeError
from tinygrad_attn.modes import scope
from viz import attention_map, draw_graph, trace

needs_graphviz()

__all__ = ["no_renderer"]


def leaf(value: object, name: str | None = None) -> ta.Tensor:
    return ta.Tensor(value, requires_grad=True, name=name)  # type: ignore[arg-type]


def doublings(count: int) -> ta.Tensor:
    x = leaf(1.0, "x")
    for _ in range(count):
        x = x + x
    return x


def test_G6_a_graph_of_18_doublings_has_19_tensors_and_18_operations() -> None:
    graph = trace(doublings(18))
    kinds = [node.kind for node in graph.nodes]
    assert (kinds.count("tensor"), kinds.count("operation"), len(graph.edges)) == (19, 18, 54)


def test_P38_a_chain_of_20_000_steps_is_traced_without_recursion() -> None:
    x = leaf(0.0)
    for _ in range(20_000):
        x = -x
    assert len(trace(x).nodes) == 40_001


def test_V1_P1_without_dot_there_is_dot_text_and_one_typed_error_with_the_remedy(no_renderer: Path) -> None:
    figure = draw_graph(doublings(2))
    assert figure.dot.startswith("digraph")
    with pytest.raises(RenderError, match="apt-get install graphviz"):
        figure.svg()


def test_P1_an_empty_path_still_gives_a_picture_where_the_wheel_is_installed() -> None:
    require("pygraphviz")
    program = (
        "import tinygrad_attn as ta; from viz import draw_graph\n"
        "f = draw_graph(ta.Tensor(2., requires_grad=True) * 3.); print(f.backend, f.svg()[:4])"
    )
    environment = {**os.environ, "PATH": ""}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("pygraphviz, Graphviz ") and result.stdout.rstrip().endswith("<svg")


def test_V2_a_missing_graphviz_never_becomes_a_name_error(no_renderer: Path) -> None:
    for _ in range(2):
        with pytest.raises(RenderError):
            draw_graph(doublings(1)).png()


def test_P2_a_dot_that_knows_no_formats_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    require("pygraphviz")
    monkeypatch.setattr(rendering.graphviz, "pipe", lambda *a, **k: b"No formats found.\nPerhaps run dot -c")
    assert draw_graph(doublings(1)).backend.startswith("pygraphviz")


def test_P5_the_backend_is_told() -> None:
    assert re.match(r"(system dot|pygraphviz), Graphviz \d", draw_graph(doublings(1)).backend)


def test_V4_P39_a_graph_of_3_000_nodes_is_capped_and_says_how_many_more() -> None:
    x = leaf(1.0, "x")
    for _ in range(1_500):
        x = -x
    figure = draw_graph(x, max_nodes=50)
    assert figure.dot.count("label=<") <= 50
    assert "… 2,952 more" in str(texts(figure))


def test_V4_modules_are_collapsed_before_anything_is_left_out() -> None:
    x = leaf(1.0, "x")
    for number in range(300):
        with scope(f"layer{number // 30}"):
            x = -x
    figure = draw_graph(x, max_nodes=50)
    assert "more" not in str(texts(figure)) and "30 operations" in str(texts(figure))


def test_V6_the_output_shows_its_name_and_shape() -> None:
    y = leaf(np.ones((2, 3)), "x") * 2.0
    y.name = "logits"
    assert texts(draw_graph(y))["n3"][:3] == ["logits", "(2, 3)", "output"]


def test_V7_P48_a_notebook_gets_svg_and_png() -> None:
    bundle = draw_graph(doublings(1))._repr_mimebundle_()
    assert {"image/svg+xml", "image/png", "text/plain"} <= set(bundle)


def test_P33_a_picture_can_be_shown_from_anywhere_in_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr("viz.figure.webbrowser.open", lambda address: opened.append(address) or True)
    draw_graph(doublings(1)).show()
    assert opened and opened[0].startswith("file:") and opened[0].endswith(".html")
    os.remove(opened[0].removeprefix("file://"))


def test_V8_P37_dot_is_the_same_twice_and_in_two_processes() -> None:
    assert draw_graph(doublings(5)).dot == draw_graph(doublings(5)).dot
    program = (
        "import tinygrad_attn as ta; from viz import draw_graph\n"
        "x = ta.Tensor(2., requires_grad=True, name='x'); print(draw_graph(x * x + x, backward=True).dot)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": s}, capture_output=True, check=True
        ).stdout
        for s in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    "name", ["{", "}", "|", "<", ">", '"', "\\", "a\nb", "<W>|{x}\\N ...", "<s>", "a<b|c>d", "\\G\\E"]
)
def test_V9_P8_P10_P11_P17_names_appear_as_written(name: str) -> None:
    assert texts(draw_graph(leaf(1.0, name) * 2.0))["n0"][0] == name.replace("\n", "↵")


def test_P12_entities_are_not_resolved() -> None:
    assert texts(draw_graph(leaf(1.0, "a &lt; b &amp;lt;") * 2.0))["n0"][0] == "a &lt; b &amp;lt;"


def test_P15_control_characters_and_surrogates_leave_the_svg_well_formed() -> None:
    name = "nul\x00 bell\x07 esc\x1b lone\ud800 non\uffff"
    assert texts(draw_graph(leaf(1.0, name) * 2.0))["n0"][0] == "nul␀ bell␇ esc␛ lone\ufffd non\ufffd"


def test_P16_a_name_of_20_000_characters_is_visibly_shortened() -> None:
    shown = texts(draw_graph(leaf(1.0, "a" * 20_000) * 2.0))["n0"][0]
    assert "…" in shown and len(shown) < 100


def test_P24_P25_a_square_has_two_edges_that_can_be_told_apart() -> None:
    a = leaf(3.0, "a")
    shown = texts(draw_graph(a * a))
    assert [shown["e0"], shown["e1"]] == [["a"], ["b"]]


def test_P26_different_tensors_are_never_one_node() -> None:
    x = leaf([1.0, 2.0], "x")
    y = (x * ta.Tensor([1.0, 1.0])) * ta.Tensor([1.0, 1.0])
    assert sum(node.role == "constant" for node in trace(y).nodes) == 2


def test_P27_one_module_called_twice_makes_no_loop() -> None:
    x = leaf(1.0, "x")
    for name in ("linear", "activation", "linear", "activation"):
        with scope(name):
            x = x * 2.0
    figure = draw_graph(x, depth=0)
    position = {name: number for number, name in enumerate(re.findall(r"^  (\w+) \[id=", figure.dot, re.M))}
    edges = re.findall(r"^  (\w+) -> (\w+)", figure.dot, re.M)
    assert all(position[tail] < position[head] for tail, head in edges)
    assert "activation (call 2)" in figure.dot


def test_P28_a_module_and_its_contents_are_never_drawn_one_after_the_other() -> None:
    with scope("block"), scope("inner"):
        y = leaf(1.0, "x") * 2.0
    dot = draw_graph(y).dot
    assert dot.count("multiply") == 1 and "cluster_" in dot


def test_P29_a_tensor_that_passes_through_untouched_is_drawn() -> None:
    x = leaf(1.0, "x")
    assert texts(draw_graph([x, x]))["n0"][0] == "x"


def test_P30_weights_and_biases_are_shown() -> None:
    from tinygrad_attn import nn

    shown = str(texts(draw_graph(nn.Linear(2, 2)(leaf(np.ones((1, 2), np.float32), "x")).sum())))
    assert "weight" in shown and "bias" in shown and "parameter" in shown


def test_P31_dicts_and_several_outputs_are_drawn_and_a_model_is_refused() -> None:
    x = leaf(1.0, "x")
    assert len(trace({"a": x * 2.0, "b": [x * 3.0]}).roots) == 2


def test_P36_ids_are_counted_not_addresses() -> None:
    assert all(re.fullmatch(r"n\d+", node.id) for node in trace(doublings(3)).nodes)


def test_P44_a_png_beyond_32_767_pixels_is_an_explicit_error() -> None:
    with pytest.raises(RenderError, match="save it as SVG"):
        draw_graph(doublings(40)).png(dpi=2_000)


def test_P47_width_height_and_view_box_agree() -> None:
    root = ElementTree.fromstring(draw_graph(doublings(3)).svg())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert float(root.attrib["width"]) / width == pytest.approx(float(root.attrib["height"]) / height, rel=0.02)


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
def test_P49_the_ground_is_never_transparent(theme: str) -> None:
    figure = draw_graph(doublings(1), theme=theme)
    assert re.search(r'bgcolor="#[0-9a-f]{6}"', figure.dot)


def test_P51_ids_of_different_pictures_have_nothing_in_common() -> None:
    ids = [set(re.findall(r' id="([^"]+)"', draw_graph(doublings(n)).svg())) for n in (1, 2)]
    assert ids[0] and not ids[0] & ids[1]


def test_P52_markup_in_a_token_is_text() -> None:
    require("matplotlib")
    page = attention_map(np.eye(2), ["</script><script>window.PWN=1</script>", "b"]).html()
    assert "<script" not in page


def test_P53_nan_weights_are_refused_not_written() -> None:
    with pytest.raises(Exception, match="not finite"):
        attention_map(np.array([[np.nan]]), ["a"])


def test_P58_P59_rows_are_queries_and_swapped_axes_are_refused() -> None:
    require("matplotlib")
    weights = np.array([[0.9, 0.1, 0.0], [0.0, 0.1, 0.9]])
    figure = attention_map(weights, ["ich", "bin"], ["I", "am", "x"])
    assert "“ich” looks most at “I”" in figure.alt and "“bin” looks most at “x”" in figure.alt
    with pytest.raises(ShapeError, match="wrong way round"):
        attention_map(weights, ["I", "am", "x"], ["ich", "bin"])


def test_P60_repeated_words_keep_their_own_columns() -> None:
    require("matplotlib")
    words = ["The", "animal", "did", "n't", "cross", "the", "street", "because", "the"]
    svg = attention_map(np.full((9, 9), 1 / 9), words).svg()
    root = ElementTree.fromstring(svg)
    places = [
        (e.get("x"), e.get("y"), e.get("transform"))
        for e in root.iter("{http://www.w3.org/2000/svg}text")
        if e.text == "the"
    ]
    assert len(places) == 4 and len(set(places)) == 4


def test_P61_the_scale_of_weights_runs_from_0_to_1_and_masks_are_told_apart() -> None:
    require("matplotlib")
    mask = np.tril(np.ones((3, 3), bool)) & np.array([True, True, False])
    weights = mask / mask.sum(1, keepdims=True)
    alt = attention_map(weights, list("abc"), mask=mask).alt
    assert "causal mask hides later keys (1 of 9" in alt and "Padding is hidden from every query (3 of 9" in alt


def test_P63_a_fully_masked_query_is_a_row_of_zeros() -> None:
    require("matplotlib")
    mask = np.array([[False, False], [True, True]])
    assert "may look at nothing" in attention_map(np.array([[0, 0], [0.5, 0.5]]), ["a", "b"], mask=mask).alt


def test_P64_softmax_over_the_wrong_axis_is_noticed() -> None:
    columns = np.array([[0.9, 0.5], [0.1, 0.5]])
    with pytest.raises(OptionError, match="softmax ran over the queries"):
        attention_map(columns, ["a", "b"])


def test_P70_not_computed_is_not_zero() -> None:
    x = leaf([1.0, 2.0], "x")
    assert "∂?" in texts(draw_graph(x * x))["n0"]
    assert "∂?" not in texts(draw_graph((x * 0.0).sum()))["n0"]


def test_P6_P7_pages_name_no_other_host() -> None:
    page = draw_graph(doublings(1)).html()
    hosts = set(re.findall(r"https?://([^/\"' ]+)", page))
    assert hosts <= {"www.w3.org"}
    json.dumps(page)
