"""The backward pass, step by step: `replay` records what the sweep does, as plain data that can be read and drawn.

One step passes one tensor whose gradient is complete. The rule of the operation that made it gives one contribution
for each operand, and each contribution is added to what has arrived there before: a value that is used three times
gets its gradient in three parts. Nothing here draws; text, pictures and pages are made of this record elsewhere.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import OptionError, UnsupportedFunctionError
from tinygrad_attn.graph import sweep, topological_order
from tinygrad_attn.tensor import Tensor

from .escape import visible
from .figure import GraphFigure
from .files import replace_file
from .graph import Graph, GraphEdge, GraphNode, Traced, trace_live
from .numbers import significant
from .replay_check import Numerical, numerical_gradients
from .replay_figure import replay_figure
from .replay_page import replay_page
from .replay_text import replay_text

__all__ = ["Contribution", "Numerical", "Replay", "ReplayStep", "TensorState", "replay"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Contribution:
    """What a step sends to one operand, and what that makes of the operand's gradient.

    Attributes:
        tensor: node id of the operand.
        operand: its position among the operands; a value used twice by one operation has two.
        parameter: its name in the operation, such as "a" or "query".
        formula: the operation's gradient rule for it.
        value: what the rule gave, in the operand's shape.
        before: the sum of what had arrived until then; None if nothing had, which is not the same as zero.
        after: `before` plus `value`.
        arrived, expected: how many contributions are in now, and how many there will be.
    """

    tensor: str
    operand: int
    parameter: str
    formula: str
    value: Array
    before: Array | None
    after: Array
    arrived: int
    expected: int

    @property
    def complete(self) -> bool:
        """Whether `after` is the operand's whole gradient."""
        return self.arrived == self.expected


@dataclass(frozen=True, eq=False)
class ReplayStep:
    """One step of the sweep: a tensor whose gradient is complete, and what its operation makes of that.

    Attributes:
        number: 1 for the first step.
        tensor: node id of the tensor, as in `viz.trace`.
        name: the tensor's name, or its node id if it has none.
        shape: the tensor's shape.
        maker: node id of the operation that made it; "" for a leaf, where the way ends.
        operation, symbol: name and symbol of that operation.
        upstream: the tensor's complete gradient ȳ.
        contributions: what is sent to each operand that wants a gradient, in the order in which it is added.
        numerical: the same gradient by differences; None if it was not computed.
    """

    number: int
    tensor: str
    name: str
    shape: tuple[int, ...]
    maker: str
    operation: str
    symbol: str
    upstream: Array
    contributions: tuple[Contribution, ...]
    numerical: Numerical | None = None


@dataclass(frozen=True, eq=False)
class TensorState:
    """What is known of one tensor's gradient at one moment.

    Attributes:
        status: "none" (no gradient flows here), "waiting" (nothing has arrived), "arriving" (some of it has),
            "complete" (all has), "current" (its step is being taken), "done" (its step has been taken).
        gradient: the sum of what has arrived; None if nothing has.
        arrived, expected: how many contributions are in, of how many.
    """

    status: str
    gradient: Array | None
    arrived: int
    expected: int


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """A recorded backward pass.

    Attributes:
        graph: the computation, with the values that it had.
        steps: what happened, in the order of the sweep.
        loss: what is differentiated, as it stands in ∂L/∂x.
        unchecked: why there are no derivatives by differences: "off", "large" (too many elements), "complex"
            (numbers), "differs" (run again in float64, the operation `unchecked_at` gives other values), or "" if there
            are some.
        hooked: node ids of tensors that have hooks. They were not called: these are the plain derivatives.
        number: writes one finite number as text.
    """

    graph: Graph
    steps: tuple[ReplayStep, ...]
    loss: str
    unchecked: str = ""
    unchecked_at: str = ""
    hooked: tuple[str, ...] = ()
    number: Callable[[float], str] = field(default=significant)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Replay: the backward pass of {self.loss} in {len(self)} steps>"

    @cached_property
    def nodes(self) -> Mapping[str, GraphNode]:
        """The nodes of the graph by id."""
        return self.graph.by_id()

    @cached_property
    def operands(self) -> Mapping[str, tuple[GraphEdge, ...]]:
        """By node id of an operation, the edges that lead to it, in the order of its operands."""
        found: dict[str, tuple[GraphEdge, ...]] = {}
        for edge in self.graph.edges:
            if edge.operand is not None:
                found[edge.head] = (*found.get(edge.head, ()), edge)
        return found

    @property
    def gradients(self) -> Mapping[str, Array]:
        """∂L/∂tensor by node id, as they are when all is done."""
        return {step.tensor: step.upstream for step in self.steps}

    def name_of(self, identity: str) -> str:
        """Gives the name of a node, or its id if it has none."""
        return self.nodes[identity].name or identity

    def write(self, value: float) -> str:
        """Writes one number; what is not finite, and what is no real number, in the usual way."""
        real = isinstance(value, float) and math.isfinite(value)
        return visible(self.number(value) if real else significant(value)) or "·"

    def index_of(self, step: int) -> int:
        """Checks a step's index; negative ones count from the end, as in a list.

        Raises:
            OptionError: there is no such step.
        """
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or not -len(self) <= step < len(self):
            raise OptionError(f"step: expected a whole number from 0 to {len(self) - 1}, got {step!r}")
        return int(step) % len(self)

    def at(self, step: int) -> dict[str, TensorState]:
        """Says how far every tensor's gradient is when a step has just been taken.

        Args:
            step: index into `steps`.
        Returns:
            Node id of each tensor to its state.
        """
        index = self.index_of(step)
        taken = self.steps[: index + 1]
        states = {
            node.id: TensorState("waiting" if node.requires_grad else "none", None, 0, 0)
            for node in self.graph.nodes
            if node.kind == "tensor"
        }
        for contribution in (each for past in self.steps for each in past.contributions):
            states[contribution.tensor] = TensorState("waiting", None, 0, contribution.expected)
        for each in (each for past in taken for each in past.contributions):
            status = "complete" if each.complete else "arriving"
            states[each.tensor] = TensorState(status, each.after, each.arrived, each.expected)
        for past in taken:
            status = "current" if past is taken[-1] else "done"
            states[past.tensor] = replace(states[past.tensor], status=status, gradient=past.upstream)
        return states

    def text(self, width: int = 80) -> str:
        """Writes the whole pass for a terminal.

        Args:
            width: columns of the terminal, at least 40; Korean letters count as two.
        """
        return replay_text(self, width)

    def figure(self, step: int, *, direction: str = "LR", theme: str = "auto") -> GraphFigure:
        """Draws the graph as it stands when a step has just been taken.

        All steps have the same layout: laid over each other, no node moves.

        Args:
            step: index into `steps`.
            direction: "LR", "TB", "RL" or "BT".
            theme: "auto", "light" or "dark".
        Raises:
            OptionError: no such step, or more nodes than a picture has room for.
        """
        return replay_figure(self, step, direction=direction, theme=theme)

    def html(self, title: str = "", *, language: str = "auto") -> str:
        """Writes a page on which the reader takes the steps: one file, no network, Korean and English.

        Args:
            title: of the page; says what is differentiated if empty.
            language: "en", "ko", or "auto", which follows the reader's browser. The page can switch.
        Raises:
            OptionError: an unknown language, or more nodes than a picture has room for.
            MissingExtraError: Jinja2 is not installed.
            RenderError: no Graphviz is installed.
        """
        return replay_page(self, title=title, language=language)

    def save(self, path: str | os.PathLike[str], *, title: str = "", language: str = "auto") -> Path:
        """Writes the page (.html) or the text (.txt); the file is there whole or not at all.

        Args:
            path: the folder must exist.
            title, language: as for `html`.
        Returns:
            The path written.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in (".html", ".txt"):
            raise OptionError(f"save: expected a file name ending in .html or .txt; got {target.name!r}")
        text = self.html(title, language=language) if suffix == ".html" else self.text() + "\n"
        replace_file(target, text.encode("utf-8"))
        return target


def replay(
    root: Tensor,
    upstream: Any = None,
    *,
    numerical: str | bool = "auto",
    number: Callable[[float], str] = significant,
) -> Replay:
    """Records the backward pass from a tensor, step by step.

    The steps are those of `root.backward(upstream)`, sums included, to the last bit. No `.grad` is touched and no hook
    is called.

    Args:
        root: usually the loss.
        upstream: ∂L/∂root, in the root's shape; may be left out if the root holds one element.
        numerical: whether every gradient is also computed by differences, from the graph run again in float64; "auto"
            does so where it takes no longer than a moment.
        number: writes one number as text; three significant digits unless given.
    Returns:
        Copies of everything, so that later changes of the tensors change nothing in it.
    Raises:
        UnsupportedFunctionError: `root` is no Tensor.
        GradientError: `root` requires no gradient, or `upstream` is missing; GraphFreedError: its graph was freed.

    >>> import tinygrad_attn as ta
    >>> a = ta.Tensor(3.0, requires_grad=True, name="a")
    >>> first, last = replay(a * a).steps
    >>> [(float(c.value), float(c.after), c.complete) for c in first.contributions]
    [(3.0, 3.0, False), (3.0, 6.0, True)]
    """
    if not isinstance(root, Tensor):
        raise UnsupportedFunctionError(f"replay: expected one Tensor, got {type(root).__name__}")
    if numerical is not True and numerical is not False and numerical != "auto":
        raise OptionError(f"numerical: expected 'auto', True or False; got {numerical!r}")
    seed = root.seed_gradient(upstream)
    traced = trace_live(root)
    steps = _steps(root, seed, traced)
    unchecked, place = "off", ""
    if numerical is not False:
        found = numerical_gradients(root, seed, _analytic(root, traced, steps), limit=numerical is not True)
        unchecked, place = found.missing, found.at
        steps = tuple(replace(step, numerical=found.by_tensor.get(step.tensor)) for step in steps)
    hooked = tuple(traced.id_of(tensor) for tensor in topological_order([root]) if tensor.hooks)
    graph = replace(traced.graph, nodes=tuple(map(_with_own_value, traced.graph.nodes)))
    loss = graph.node(graph.roots[0]).name or "L"
    return Replay(graph, steps, loss, unchecked, place, hooked, number)


def _steps(root: Tensor, seed: Array, traced: Traced) -> tuple[ReplayStep, ...]:
    nodes = traced.graph.by_id()
    edges = {(edge.head, edge.operand): edge for edge in traced.graph.edges if edge.operand is not None}
    makers = {edge.head: edge.tail for edge in traced.graph.edges if edge.operand is None}
    expected = Counter(edge.tail for edge in edges.values() if nodes[edge.tail].requires_grad)
    sums: dict[str, Array] = {}
    arrived: Counter[str] = Counter()
    steps: list[ReplayStep] = []
    for passed in sweep([root], [seed], hooks=False):
        identity = traced.id_of(passed.tensor)
        maker = makers.get(identity, "")
        contributions = []
        for operand, gradient in passed.contributions:
            edge = edges[maker, operand]
            before, value = sums.get(edge.tail), _frozen(gradient)
            sums[edge.tail] = after = value if before is None else _frozen(before + value)
            arrived[edge.tail] += 1
            counts = arrived[edge.tail], expected[edge.tail]
            contributions.append(
                Contribution(edge.tail, operand, edge.parameter, edge.formula, value, before, after, *counts)
            )
        steps.append(
            ReplayStep(
                number=len(steps) + 1,
                tensor=identity,
                name=nodes[identity].name or identity,
                shape=nodes[identity].shape,
                maker=maker,
                operation=nodes[maker].name if maker else "",
                symbol=nodes[maker].symbol if maker else "",
                upstream=_frozen(passed.gradient),
                contributions=tuple(contributions),
            )
        )
    return tuple(steps)


def _analytic(root: Tensor, traced: Traced, steps: tuple[ReplayStep, ...]) -> dict[str, tuple[Tensor, Array, float]]:
    """By node id: the tensor, its gradient, and the largest number that was added up on the way to it."""
    largest: dict[str, float] = {}
    for contribution in (each for step in steps for each in step.contributions):
        size = float(np.max(np.abs(contribution.value), initial=0.0))
        largest[contribution.tensor] = max(size, largest.get(contribution.tensor, 0.0))
    tensors = {traced.id_of(tensor): tensor for tensor in topological_order([root])}
    return {step.tensor: (tensors[step.tensor], step.upstream, largest.get(step.tensor, 0.0)) for step in steps}


def _with_own_value(node: GraphNode) -> GraphNode:
    return node if node.value is None else replace(node, value=_frozen(node.value))


def _frozen(values: Any) -> Array:
    own = np.array(values, copy=True)
    own.flags.writeable = False
    return own
