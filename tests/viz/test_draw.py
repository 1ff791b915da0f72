"""The drawing of a graph shows every value and gradient, and tells zero, tiny, none and unknown apart."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.viz.needs import needs_graphviz
from tinygrad_attn.errors import OptionError, UnsupportedFunctionError
from tinygrad_attn.modes import scope
from viz import draw_graph
from viz.figure import GraphFigure
from viz.numbers import significant

needs_graphviz()


def leaf(value: Any, name: str | None = None, *, grad: bool = True) -> ta.Tensor:
    return ta.Tensor(value, requires_grad=grad, name=name)


def texts(figure: GraphFigure) -> dict[str, list[str]]:
    """The visible texts of every node and edge."""
    shown = {}
    root = ElementTree.fromstring(figure.svg())
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        if group.get("class") in ("node", "edge", "cluster"):
            name = str(group.get("id")).partition("-")[2]
            shown[name] = [(e.text or "").replace("\xa0", " ") for e in group.iter("{http://www.w3.org/2000/svg}text")]
    return shown


def small_loss() -> ta.Tensor:
    a, b, c = leaf(2.0, "a"), leaf(-3.0, "b"), leaf(10.0, "c")
    loss: ta.Tensor = (a * b + c) * leaf(-2.0, "f")
    loss.name = "L"
    return loss


def test_values_and_gradients_stand_in_their_tensors() -> None:
    shown = texts(draw_graph(small_loss()))
    assert shown["n0"] == ["a", "input", "value", "2", "∂L/∂a", "6"]
    assert next(node for node in shown.values() if node[:1] == ["L"]) == ["L", "output", "value", "−8", "∂L/∂L", "1"]
    assert any("×" in node for node in shown.values()) and any("+" in node for node in shown.values())


def test_drawing_leaves_grad_and_graph_alone() -> None:
    loss = small_loss()
    first = draw_graph(loss, backward=True, local_derivatives=True).dot
    leaves = [loss.node.inputs[1], *loss.node.inputs[0].node.inputs]
    assert all(tensor.grad is None for tensor in leaves)
    loss.backward()
    assert draw_graph(loss, backward=True, local_derivatives=True).dot == first


def test_zero_tiny_none_and_not_computed_are_four_looks() -> None:
    x, dead, constant = leaf([1.0], "x"), leaf([3.0], "dead"), leaf([5.0], "fixed", grad=False)
    loss = (x * np.float32(1e-9) + dead * 0.0 + constant).sum()
    by_name = {node[0]: node for node in texts(draw_graph(loss)).values() if node}
    assert by_name["x"][-1] == "1e−9"
    assert by_name["dead"][-1] == "0"
    assert by_name["fixed"][-1] == "–"
    several = leaf([1.0, 2.0], "several")
    assert texts(draw_graph(several * several))["n0"][-1] == "∂?"


def test_an_upstream_gradient_makes_a_vector_drawable() -> None:
    x = leaf([1.0, 2.0], "x")
    shown = texts(draw_graph(x * x, upstream=[1.0, 10.0]))
    assert shown["n0"][-2:] == ["2", "40"]


def test_both_edges_of_a_square_are_drawn_with_their_operand_and_their_share() -> None:
    a = leaf(3.0, "a")
    figure = draw_graph(a * a, local_derivatives=True, backward=True)
    assert figure.dot.count("n0 -> n1") == 2 and figure.dot.count("n1 -> n0") == 2
    shown = texts(figure)
    assert {tuple(shown["e0"]), tuple(shown["e1"])} == {("a:  da = dy ∘ b",), ("b:  db = dy ∘ a",)}
    assert shown["b0"] == shown["b1"] == ["+3"]
    assert "6" in shown["n0"]


def test_module_frames_are_nested_and_names_inside_them_short() -> None:
    from tinygrad_attn import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            self.first = nn.Linear(2, 2)
            self.norm = nn.LayerNorm(2)

        def forward(self, x: ta.Tensor) -> ta.Tensor:
            return self.norm(self.first(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            self.block = Block()

        def forward(self, x: ta.Tensor) -> ta.Tensor:
            return self.block(x).sum()

    model = Net()
    model.named_parameters()
    shown = texts(draw_graph(model(leaf(np.ones((3, 2)), "x"))))
    frames = [node for name, node in shown.items() if name.startswith("f")]
    assert ["block"] in frames and ["first"] in frames and ["norm"] in frames
    assert sum(bool(node) and node[0] == "weight" for node in shown.values()) == 2


@pytest.mark.parametrize("name", ["<Start of Sentence>", "</s>", "\\N", '"quoted"', "안녕", "a|{b}", "x\ny"])
def test_names_come_out_as_written(name: str) -> None:
    with scope(name.replace(".", "")):
        loss = leaf(2.0, name) * 3.0
    shown = texts(draw_graph(loss))
    assert shown["n0"][0] == name.replace("\n", "↵")
    assert [name.replace("\n", "↵")] in [node for key, node in shown.items() if key.startswith("f")]


def test_small_tensors_stand_in_full_and_large_ones_are_summed_up() -> None:
    small, large = leaf(np.arange(6.0).reshape(2, 3), "small"), leaf(np.ones((50, 50)), "large")
    shown = texts(draw_graph(small.sum() + large.sum(), grads=False))
    assert shown["n0"][-6:] == ["0", "1", "2", "3", "4", "5"]
    assert next(node for node in shown.values() if node[:1] == ["large"])[-6:] == ["mean", "1", "min", "1", "max", "1"]
    assert "mean" in texts(draw_graph(small.sum(), values="summary"))["n0"]
    assert "mean" not in texts(draw_graph(small.sum(), values=False, grads=False))["n0"]


@pytest.mark.parametrize(
    "value", [np.zeros((0, 3)), np.zeros((2, 2, 2)), np.array([np.nan, np.inf, -np.inf]), np.ones((2, 1, 1, 2))]
)
@pytest.mark.parametrize("values", ["auto", "full", "summary", "none"])
def test_arrays_of_any_kind_can_be_drawn(value: np.ndarray, values: str) -> None:
    draw_graph(leaf(value, "x").sum(), values=values, grads=False).svg()


def test_booleans_and_integers_have_no_gradient() -> None:
    x = leaf([1.0, 2.0], "x")
    ids = ta.Tensor([0, 1, 1], name="ids")
    loss = ta.where(np.array([True, False, True]), ta.embedding(x[:, None], ids)[:, 0], 0.0).sum()
    shown = [node for node in texts(draw_graph(loss)).values() if "–" in node]
    assert len(shown) == 2 and any("True" in node for node in shown)


def test_a_graph_without_any_gradient_shows_none() -> None:
    shown = texts(draw_graph(ta.Tensor([1.0, 2.0], name="x")))
    assert not any("∂" in text for node in shown.values() for text in node)


def test_the_words_name_every_step() -> None:
    alt = draw_graph(small_loss()).alt
    assert "Multiply of a = 2 and b = −3 gives −6." in alt
    assert "Gradients: a: 6; b: −4; c: −2; f: 4." in alt


def test_dot_is_the_same_in_every_process() -> None:
    program = (
        "import numpy as np, tinygrad_attn as ta; from viz import draw_graph\n"
        "x = ta.Tensor(np.arange(6.).reshape(3, 2), requires_grad=True, name='x')\n"
        "y = ta.scaled_dot_product_attention(x, x, x, mask=np.tril(np.ones((3, 3), bool)))\n"
        "print(draw_graph((y * y).sum(), opened=True, backward=True, local_derivatives=True).dot)"
    )
    drawn = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "99")
    }
    assert len(drawn) == 1 and drawn.pop().startswith(b"digraph {")


def test_a_chain_far_beyond_the_recursion_limit_is_drawn_up_to_the_cap() -> None:
    x = leaf(0.0, "x")
    for _ in range(5_000):
        x = x + 1.0
    figure = draw_graph(x, max_nodes=12)
    assert "… 14,990 more" in str(texts(figure))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"values": "some"}, "values"),
        ({"grads": "yes"}, "grads"),
        ({"direction": "up"}, "direction"),
        ({"theme": "blue"}, "theme"),
        ({"max_nodes": 1}, "max_nodes"),
        ({"depth": -1}, "depth"),
        ({"depth": True}, "depth"),
        ({"focus": "nobody"}, "focus"),
    ],
)
def test_impossible_options_are_refused_by_name(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        draw_graph(small_loss(), **options)


def test_a_model_in_the_place_of_its_output_is_refused() -> None:
    with pytest.raises(UnsupportedFunctionError, match="expected Tensors"):
        draw_graph(object())


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
@pytest.mark.parametrize("direction", ["LR", "TB"])
def test_themes_and_directions(theme: str, direction: str) -> None:
    figure = draw_graph(small_loss(), theme=theme, direction=direction)
    assert figure.png().startswith(b"\x89PNG")
    assert f'rankdir="{direction}"' in figure.dot


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1e-9, "1e−9"),
        (9.999, "10"),
        (0.0001234, "0.000123"),
        (-1234567.0, "−1.23e6"),
        (7, "7"),
    ],
)
def test_numbers_keep_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


def test_the_words_tell_the_whole_size_and_what_of_it_is_drawn() -> None:
    x = leaf(1.0, "x")
    for _ in range(1_000):
        x = -x
    alt = draw_graph(x).alt
    assert alt.startswith("A graph of 1,001 tensors and 1,000 operations; 200 tensors and 199 operations are drawn.")


def test_the_words_count_what_stands_in_collapsed_modules() -> None:
    x = leaf(1.0, "x")
    with scope("block"):
        x = ta.tanh(ta.tanh(x))
    words = "A graph of 3 tensors and 2 operations; 2 tensors, 0 operations and 1 collapsed module are drawn."
    assert draw_graph(x, depth=0).alt.startswith(words)


def test_the_words_count_once_where_everything_is_drawn() -> None:
    assert draw_graph(-leaf(1.0)).alt.startswith("A graph of 2 tensors and 1 operation. ")
