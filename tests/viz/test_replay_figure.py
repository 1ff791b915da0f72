"""Stepping moves no node, and what is not computed yet looks like nothing else."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given, settings

import tinygrad_attn as ta
from tests.viz.needs import needs_graphviz
from tests.viz.test_replay import graphs, leaf
from tinygrad_attn.errors import OptionError
from viz.replay import Replay, replay
from viz.theme import colours

needs_graphviz()

SVG = "{http://www.w3.org/2000/svg}"


def groups(svg: str, kind: str = "node") -> dict[str, ElementTree.Element]:
    return {
        str(group.get("id")).partition("-")[2]: group
        for group in ElementTree.fromstring(svg).iter(f"{SVG}g")
        if group.get("class") == kind
    }


def texts(group: ElementTree.Element) -> list[str]:
    return [(element.text or "").replace("\xa0", " ") for element in group.iter(f"{SVG}text")]


def outline(group: ElementTree.Element) -> ElementTree.Element:
    return next(child for child in group if child.tag in (f"{SVG}polygon", f"{SVG}path", f"{SVG}ellipse"))


def places(svg: str) -> dict[str, str]:
    """Where every node's own shape lies."""
    found = {"": ElementTree.fromstring(svg).get("viewBox") or ""}
    for name, group in groups(svg).items():
        shape = outline(group)
        found[name] = str([shape.get(key) for key in ("points", "d", "cx", "cy", "rx", "ry")])
    return found


def three_uses() -> Replay:
    x = leaf([[1.0, -123456.0], [0.5, 1e-9]], "X")
    loss = (ta.tanh(x * 2.0) @ x + x).sum()
    loss.name = "L"
    return replay(loss)


@pytest.mark.parametrize("direction", ["LR", "TB"])
def test_no_node_moves_from_step_to_step(direction: str) -> None:
    recorded = three_uses()
    first, *rest = (places(recorded.figure(step, direction=direction).svg()) for step in range(len(recorded)))
    assert all(each == first for each in rest)


@settings(max_examples=5)
@given(graphs())
def test_no_node_moves_in_any_graph(graph: tuple[ta.Tensor, list[ta.Tensor]]) -> None:
    recorded = replay(graph[0], numerical=False)
    assert places(recorded.figure(0).svg()) == places(recorded.figure(-1).svg())


def test_the_layout_holds_for_large_arrays_and_long_numbers() -> None:
    x = ta.Tensor(np.linspace(-1e6, 1e-6, 900).reshape(30, 30), requires_grad=True, name="가중치")
    recorded = replay((x * x + x * 1e-9).sum(), number=lambda value: f"{value:.8e}")
    assert places(recorded.figure(0).svg()) == places(recorded.figure(-1).svg())
    assert "mean" in texts(groups(recorded.figure(0).svg())["n0"])


def test_unknown_gradients_are_neither_zero_nor_missing() -> None:
    dead, x = leaf(3.0, "dead"), leaf([1.0, 2.0], "x")
    recorded = replay((x * dead * 0.0).sum() + ta.Tensor(1.0, name="fixed"))
    before, after = (groups(recorded.figure(step).svg()) for step in (0, -1))
    by_name = {node.name: node.id for node in recorded.graph.nodes if node.name}
    assert texts(before[by_name["x"]])[-2:] == ["∂?", "∂?"]
    assert texts(after[by_name["x"]])[-2:] == ["0", "0"]
    assert texts(after[by_name["dead"]])[-1] == "0"
    assert "–" in texts(after[by_name["fixed"]])


def test_states_differ_in_sign_border_and_colour() -> None:
    recorded = three_uses()
    looks = {}
    for step in range(len(recorded)):
        nodes = groups(recorded.figure(step).svg())
        for name, state in recorded.at(step).items():
            if state.status != "none":
                shape = outline(nodes[name])
                border = shape.get("stroke"), shape.get("stroke-dasharray"), shape.get("stroke-width")
                sign = next(text[0] for text in texts(nodes[name]) if text and text[0] in "○◐●▶✓")
                looks.setdefault(state.status, set()).add((sign, *border))
    assert set(looks) == {"waiting", "arriving", "complete", "current", "done"}
    assert all(len(each) == 1 for each in looks.values())
    assert len({next(iter(each))[0] for each in looks.values()}) == 5
    assert len({next(iter(each))[1:] for each in looks.values()}) == 5


def test_running_sums_grow_in_the_picture() -> None:
    a = leaf(3.0, "a")
    recorded = replay(a * 2.0 + a * 5.0)
    shown = [texts(groups(recorded.figure(step).svg())["n0"]) for step in range(len(recorded))]
    assert [each[-1] for each in shown] == ["∂?", "2", "7", "7"] or [each[-1] for each in shown] == [
        "∂?",
        "5",
        "7",
        "7",
    ]
    assert "◐ 1/2" in shown[1] and "● 2/2" in shown[2] and "▶ 4" in shown[3]


def test_arrows_turn_round_where_a_gradient_has_come_back() -> None:
    recorded = three_uses()
    dot = recorded.figure(0).dot
    assert dot.count('dir="back"') == 2  # from the loss to its operation, and on to its operand
    carrying = sum(
        recorded.nodes[edge.tail].requires_grad and recorded.nodes[edge.head].requires_grad
        for edge in recorded.graph.edges
    )
    assert recorded.figure(-1).dot.count('dir="back"') == carrying


def test_the_picture_is_told_in_words() -> None:
    recorded = three_uses()
    figure = recorded.figure(0)
    assert figure.title == f"Backward pass of L, step 1 of {len(recorded)}: L"
    assert "Not computed yet:" in figure.alt and "X" in figure.alt.split("Not computed yet:")[1]
    assert "Partly known: X (" in "".join(recorded.figure(step).alt for step in range(len(recorded)))
    assert "Not computed yet" not in recorded.figure(-1).alt


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
def test_themes_use_their_own_colours(theme: str) -> None:
    figure = three_uses().figure(2, theme=theme)
    assert colours(theme)["output"] in figure.dot
    figure.svg()


def test_an_unknown_direction_is_an_error() -> None:
    with pytest.raises(OptionError, match="direction"):
        three_uses().figure(0, direction="up")


@pytest.mark.parametrize("name", ["<Start of Sentence>", "</s>", "\\N", '"quoted"', "안녕", "a|{b}", "x\ny", "∂?", " "])
def test_names_come_out_as_written(name: str) -> None:
    shown = texts(groups(replay(leaf(2.0, name) * 3.0).figure(-1).svg())["n0"])
    assert shown[0] == name.replace("\n", "↵")
