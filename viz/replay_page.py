"""The page on which a reader takes the steps of a replay: the graph drawn once, its states switched by a script.

Every step is written into the page as words and numbers, in every language; without a script they stand below one
another. The script shows one at a time and tells the picture and the table which gradients are known.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import RenderError

from .dot import to_dot
from .escape import shorten, visible
from .graph import GraphNode
from .numbers import NOT_COMPUTED, significant
from .page import TEMPLATES, Words, markup_type, render_page
from .render import render
from .replay_figure import Slots, gradient_texts, node_slots, number_texts, sign, step_graph
from .replay_text import call_text
from .replay_words import FORMULAS_KO, TEXTS
from .svg import finish, prefix_for
from .values import fits, summary

if TYPE_CHECKING:
    from .replay import Contribution, Replay, ReplayStep, TensorState

__all__ = ["replay_page"]

SVG = "{http://www.w3.org/2000/svg}"
FACTS = ("mean", "min", "max", "not finite")
MOST_GUESSES = 9
PADDING = 4  # points between a number and the frame of its cell
OUTLINES = {f"{SVG}{tag}" for tag in ("polygon", "path", "polyline", "ellipse")}
Array = NDArray[Any]


def replay_page(replay: Replay, *, title: str, language: str) -> str:
    """Writes the page.

    Args:
        replay: the recorded pass.
        title: of the page; chosen if empty.
        language: "en", "ko" or "auto".
    """
    words = _words(replay, title)
    slots = node_slots(replay)
    states = [replay.at(index) for index in range(len(replay))]
    final = {name: _settled(state) for name, state in states[-1].items()}
    svg, prefix = _picture(replay, slots, final, words)
    view = _View(replay)
    return render_page(
        "replay.html",
        folder=TEMPLATES,
        words=words,
        data={"prefix": prefix, "steps": _script_steps(replay, slots), "wholes": _script_wholes(replay, slots)},
        style=_read("replay.css"),
        script=_read("replay.js"),
        language=language,
        svg=markup_type()(svg),
        loss=visible(replay.loss),
        steps=[view.step(step) for step in replay.steps],
        ledger=[view.row(step, slots[step.tensor]) for step in replay.steps],
        check=_check(replay),
        hooked=", ".join(visible(replay.name_of(name)) for name in replay.hooked),
        statuses=["waiting", "arriving", "complete", "current", "done"],
        signs={"waiting": "○", "arriving": "◐", "complete": "●", "current": "▶", "done": "✓"},
        not_computed=NOT_COMPUTED,
    )


def _words(replay: Replay, title: str) -> Words:
    markup = markup_type()
    catalogues = {}
    for code, texts in TEXTS.items():
        own = markup(texts["title_default"]).format(loss=visible(replay.loss)) if not title else visible(title)
        # What stands in the catalogue is a template of HTML: braces and markup of a name are to be shown, not read.
        written = str(markup.escape(own)).replace("{", "{{").replace("}", "}}")
        catalogues[code] = {**texts, "page_title": written}
    return Words(catalogues)


def _check(replay: Replay) -> dict[str, Any]:
    """What the page says about the derivatives by differences: a text's key and its values."""
    if replay.unchecked:
        values = {"at": visible(replay.unchecked_at)} if replay.unchecked == "differs" else {}
        return {"key": f"unchecked_{replay.unchecked}", "values": values}
    checks = [(step.name, step.numerical) for step in replay.steps if step.numerical is not None]
    wrong = [visible(name) for name, check in checks if not check.agrees]
    if wrong:
        return {"key": "how_wrong", "values": {"names": ", ".join(wrong)}}
    count = sum(int(np.count_nonzero(check.smooth)) for _, check in checks)
    error = max((check.error for _, check in checks), default=0.0)
    loss = visible(replay.loss)
    return {"key": "how_text", "values": {"loss": loss, "count": f"{count:,}", "error": significant(error, 1)}}


class _View:
    """Steps as the template reads them: texts and matrices of texts."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.nodes = replay.nodes

    def step(self, step: ReplayStep) -> dict[str, Any]:
        operands = self.replay.operands.get(step.maker, ())
        return {
            "number": step.number,
            "tensor": step.tensor,
            "name": visible(step.name),
            "derivative": self.derivative(step.name),
            "shape": str(step.shape) if step.shape else "",
            "maker": step.maker,
            "operation": visible(step.operation),
            "call": call_text(self.replay, step),
            "upstream": self.matrix(step.upstream),
            "numerical": self.numerical(step),
            "operands": [self.operand(edge.parameter, edge.tail) for edge in operands],
            "result": self.operand("", step.tensor),
            "sent": [self.contribution(each) for each in step.contributions],
        }

    def row(self, step: ReplayStep, slots: Slots) -> dict[str, Any]:
        """A line of the table of all gradients."""
        return {
            "number": step.number,
            "tensor": step.tensor,
            "name": visible(step.name),
            "shape": str(step.shape) if step.shape else "",
            "gradient": self.matrix(step.upstream, slots=slots),
            "numerical": self.numerical(step),
        }

    def contribution(self, each: Contribution) -> dict[str, Any]:
        name = self.replay.name_of(each.tensor)
        korean = FORMULAS_KO.get(each.formula, each.formula)
        passed = next(step for step in self.replay.steps if step.tensor == each.tensor)
        return {
            "tensor": each.tensor,
            "name": visible(name),
            "derivative": self.derivative(name),
            "parameter": each.parameter,
            "formulas": [("", each.formula)] if korean == each.formula else [("en", each.formula), ("ko", korean)],
            "before": None if each.before is None else self.matrix(each.before),
            "value": self.guessable(each.value),
            "after": self.matrix(each.after),
            "arrived": each.arrived,
            "expected": each.expected,
            "numerical": self.numerical(passed) if each.complete else None,
        }

    def operand(self, parameter: str, identity: str) -> dict[str, Any]:
        node = self.nodes[identity]
        bare = not node.name and not node.requires_grad
        return {
            "parameter": parameter,
            "tensor": identity,
            "name": "" if bare else visible(self.replay.name_of(identity)),
            "value": None if node.value is None else self.matrix(node.value),
        }

    def derivative(self, name: str) -> str:
        return f"∂{visible(shorten(self.replay.loss, 12))}/∂{visible(shorten(name, 24, where='middle'))}"

    def numerical(self, step: ReplayStep) -> dict[str, Any] | None:
        found = step.numerical
        if found is None:
            return None
        key = "disagrees" if not found.agrees else "agrees" if found.smooth.all() else "agrees_partly"
        counts = {"smooth": int(np.count_nonzero(found.smooth)), "size": found.smooth.size}
        return {
            "matrix": self.matrix(found.value, uncertainty=found.uncertainty),
            "key": key,
            "values": counts if key == "agrees_partly" else {},
        }

    def guessable(self, values: Array) -> dict[str, Any]:
        """A matrix that a reader can fill in before it is shown: small, finite, with the exact numbers."""
        matrix = self.matrix(values)
        if matrix["names"] is None and values.size <= MOST_GUESSES and np.isfinite(values).all():
            matrix["exact"] = values.reshape(len(matrix["rows"]), -1).tolist()
        return matrix

    def matrix(self, values: Array, *, slots: Slots | None = None, uncertainty: Array | None = None) -> dict[str, Any]:
        """An array as rows of texts, or as named facts where it is too large."""
        if not fits(values.shape):
            facts = dict(summary(values))
            if slots is not None:
                facts = dict(zip(slots.names or (), gradient_texts(self.replay, slots, values), strict=True))
            return {"names": list(facts), "rows": [[text] for text in facts.values()], "plane": 0, "exact": None}
        texts = number_texts(self.replay, values)
        if uncertainty is not None:  # rounding of an exact zero
            pairs = zip(texts, values.ravel().tolist(), uncertainty.ravel().tolist(), strict=True)
            texts = [
                "–" if value != value else "≈ 0" if 0 < abs(value) <= doubt else text for text, value, doubt in pairs
            ]
        columns = values.shape[-1] if values.ndim else 1
        rows = [texts[start : start + columns] for start in range(0, len(texts), columns)]
        return {"names": None, "rows": rows, "plane": values.shape[-2] if values.ndim == 3 else 0, "exact": None}


def _doubtful(text: str, value: float, doubt: float) -> str:
    """A derivative by differences: "–" where there is none, "≈ 0" for what may be the rounding of an exact zero."""
    if value != value:
        return "–"
    return "≈ 0" if 0 < abs(value) <= doubt else text


# --- what the script switches -----------------------------------------------------------------------------------------


def _script_steps(replay: Replay, slots: Mapping[str, Slots]) -> list[dict[str, Any]]:
    """For each step what changes when it begins, and when what it sends arrives: node id, status, sign, texts."""
    told: list[dict[str, Any]] = []
    for index, step in enumerate(replay.steps):
        states = replay.at(index)

        def change(name: str, states: Mapping[str, TensorState] = states, index: int = index) -> list[Any]:
            number = next((past.number for past in replay.steps[: index + 1] if past.tensor == name), 0)
            state = states[name]
            return [name, state.status, sign(state, number), gradient_texts(replay, slots[name], state.gradient)]

        begins = [change(step.tensor)]
        if index:
            begins.append(change(replay.steps[index - 1].tensor))
        told.append(
            {
                "tensor": step.tensor,
                "name": visible(step.name),
                "maker": step.maker,
                "inputs": list(dict.fromkeys(each.tensor for each in step.contributions)),
                "names": ", ".join(dict.fromkeys(visible(replay.name_of(each.tensor)) for each in step.contributions)),
                "begins": begins,
                "arrives": [change(name) for name in dict.fromkeys(each.tensor for each in step.contributions)],
            }
        )
    return told


def _script_wholes(replay: Replay, slots: Mapping[str, Slots]) -> list[list[Any]]:
    """Every tensor that gets a gradient, as it is before the first step."""
    return [[step.tensor, "waiting", "○", gradient_texts(replay, slots[step.tensor], None)] for step in replay.steps]


# --- the picture ------------------------------------------------------------------------------------------------------


def _settled(state: TensorState) -> TensorState:
    return replace(state, status="done") if state.status == "current" else state


def _picture(
    replay: Replay, slots: Mapping[str, Slots], states: Mapping[str, TensorState], words: Words
) -> tuple[str, str]:
    """The SVG with everything that will change marked, and the prefix of its ids."""
    dot = to_dot(step_graph(replay, states, direction="TB", theme="auto", arrows=False))
    root = ElementTree.fromstring(render(dot, "svg").data)
    by_id = replay.nodes
    edges = {f"e{number}": edge for number, edge in enumerate(replay.graph.edges)}
    numbers = {step.tensor: step.number for step in replay.steps}
    for group in root.iter(f"{SVG}g"):
        identity = group.get("id", "")
        if group.get("class") == "node" and identity in by_id:
            group.set("data-node", identity)
            group.set("class", f"node {by_id[identity].kind}{' wants' if by_id[identity].requires_grad else ''}")
            _mark_outline(group)
            if identity in slots:
                texts = gradient_texts(replay, slots[identity], states[identity].gradient)
                _mark_texts(group, by_id[identity], texts, slots[identity], sign(states[identity], numbers[identity]))
        elif group.get("class") == "edge" and identity in edges:
            edge = edges[identity]
            maker = edge.tail if edge.operand is None else edge.head
            carries = by_id[edge.tail].requires_grad and by_id[edge.head].requires_grad
            group.set("class", f"edge{' carries' if carries else ''}")
            group.set("data-maker", maker)
            for path in group.iter(f"{SVG}path"):
                path.set("marker-start", "url(#back)")
                path.set("marker-end", "url(#ahead)")
    root.insert(0, _arrowheads())
    told = " / ".join(words.text(code, "picture", loss=visible(replay.loss)).striptags() for code in words.languages)
    prefix = prefix_for("r", dot)
    titles = " / ".join(words.text(code, "graph").striptags() for code in words.languages)
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
    root.set("xmlns", SVG.strip("{}"))
    data = ElementTree.tostring(root, encoding="utf-8")
    return finish(data, prefix=prefix, title=titles, description=told, adaptive=True), prefix


def _mark_outline(group: ElementTree.Element) -> None:
    """Marks what Graphviz draws first in a node: its own shape, in one colour, before what stands inside."""
    colour = None
    for child in group:
        if child.tag not in OUTLINES or colour not in (None, child.get("stroke")):
            if child.tag == f"{SVG}title":
                continue
            break
        colour = child.get("stroke")
        child.set("class", "outline")


def _mark_texts(group: ElementTree.Element, node: GraphNode, texts: list[str], slots: Slots, mark: str) -> None:
    """Marks the texts of a label that change: the gradient's numbers, which stand last, and the sign in the header."""
    elements = [child for child in group.iter(f"{SVG}text")]
    stride = 1 if slots.names is None else 2
    numbers = elements[len(elements) - len(texts) * stride :][stride - 1 :: stride]
    found = elements[2 if node.shape else 1]  # after the name and the shape
    if [_plain(element) for element in numbers] != texts or _plain(found) != mark:
        raise RenderError(f"replay: the picture that Graphviz drew does not hold the texts of {node.id} in their order")
    cells = dict(zip(list(group)[1:], list(group), strict=False))  # each text follows the frame of its cell
    for element in numbers:
        element.set("data-gradient", node.id)
        corners = cells[element].get("points", "").split()
        # Numbers of another length are to end where this one does.
        element.set("x", f"{max(float(corner.partition(',')[0]) for corner in corners) - PADDING:.2f}")
        element.set("text-anchor", "end")
    found.set("data-sign", node.id)
    if slots.names is not None:
        # Both blocks name their rows; the gradient's stands last, its caption before it, then that of the values.
        last = len(elements) - 2 * len(texts)
        for element in [*elements[last::2], *elements[last - 1 - 2 * len(texts) : last - 1 : 2]]:
            if _plain(element) in FACTS:
                element.set("data-fact", _plain(element))
    filled = [child for child in group if child.tag == f"{SVG}polygon" and child.get("fill", "none") != "none"]
    filled[-1].set("class", "ground")


def _plain(element: ElementTree.Element) -> str:
    return (element.text or "").replace("\xa0", " ")


def _arrowheads() -> ElementTree.Element:
    definitions = ElementTree.Element(f"{SVG}defs")
    for name, turn in (("ahead", "auto"), ("back", "auto-start-reverse")):
        marker = ElementTree.SubElement(
            definitions,
            f"{SVG}marker",
            {
                "id": name,
                "class": f"head-{name}",
                "viewBox": "0 0 10 8",
                "refX": "9",
                "refY": "4",
                "markerWidth": "10",
                "markerHeight": "8",
                "markerUnits": "userSpaceOnUse",
                "orient": turn,
            },
        )
        ElementTree.SubElement(marker, f"{SVG}path", {"d": "M0 0 10 4 0 8z"})
    return definitions


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
