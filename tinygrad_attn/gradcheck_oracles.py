"""Second opinions of the gradient checker, beside differences: the complex step, and jvp against vjp.

The complex step replays the recorded graph with formulas alone, no gradient rules, on numbers x + ih: where every
formula is analytic, Im f(x + ih) / h is the slope to the last digits, since nothing is subtracted and h may be 1e-100.
It takes for constant what has left the graph, as the rules do; differences do not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tinygrad_attn import functional, graph, operands
from tinygrad_attn.gradcheck_report import Array
from tinygrad_attn.numerical import EPSILON, SAFETY, TINY
from tinygrad_attn.tensor import Tensor, plain

STEP = 1e-100  # h; its square is nothing beside any x² that matters
UNDERFLOW = TINY / STEP  # slopes below it are lost

# Of the real differences that a formula is tried with. The finer ones suit what is steep or near a kink.
_TRIALS = (2.0**-15, 2.0**-22, 2.0**-30)
_DIRECTIONS = 2  # along a single one, what a formula drops may cancel by chance


class ComplexStep:
    """Slopes of recorded outputs by the complex step.

    Attributes:
        refused: name of the first operation whose formula does not allow it, "" if all do. A formula allows it if it
            takes complex numbers, is real for real ones, and Im f(x + ih r) / h is the difference of f along r.
    """

    def __init__(self, outputs: Sequence[Any], leaves: Sequence[Tensor], generator: np.random.Generator) -> None:
        self._outputs, self._leaves = outputs, leaves
        moved = {id(leaf) for leaf in leaves}
        self._made: list[tuple[Tensor, graph.Node]] = []
        for tensor in graph.topological_order([output for output in outputs if isinstance(output, Tensor)]):
            if tensor.node is not None and any(id(value) in moved for value in tensor.node.inputs):
                moved.add(id(tensor))
                self._made.append((tensor, tensor.node))
        tried = (node.operation.name for tensor, node in self._made if not _allows(tensor, node, moved, generator))
        self.refused = next(tried, "")

    def slope(self, position: int, index: tuple[int, ...], upstreams: Sequence[Array]) -> float:
        """The derivative of Σ upstream∘f along one element of one leaf."""
        values = {id(leaf): plain(leaf).astype(np.complex128) for leaf in self._leaves}
        values[id(self._leaves[position])][index] += 1j * STEP
        with _strict():
            for tensor, node in self._made:
                values[id(tensor)] = _forward(node, [values.get(id(value), plain(value)) for value in node.inputs])
        total = 0.0
        for output, upstream in zip(self._outputs, upstreams, strict=True):
            if id(output) in values:
                live = upstream != 0.0  # it is zero where the output is infinite
                total += float(upstream[live] @ (values[id(output)].imag[live] / STEP))
        return total


def _allows(tensor: Tensor, node: graph.Node, moved: set[int], generator: np.random.Generator) -> bool:
    """Whether the complex step of one formula is its real slope, along random directions of all that moves."""
    inputs = [plain(value) for value in node.inputs]
    for _ in range(_DIRECTIONS):
        ways = [_direction(x, generator) if id(v) in moved else None for v, x in zip(node.inputs, inputs, strict=True)]
        try:
            with _strict():
                if not _agrees(node, inputs, ways, plain(tensor)):
                    return False
        except Exception:  # formulas are anyone's code, and fail on complex numbers in any way they like
            return False
    return True


def _agrees(node: graph.Node, inputs: list[Any], ways: list[Array | None], expected: Array) -> bool:
    def along(step: complex) -> Any:
        return _forward(node, [x if way is None else x + step * way for x, way in zip(inputs, ways, strict=True)])

    finite = np.isfinite(expected)
    still, stepped = along(0j), along(1j * STEP)
    if stepped.dtype != np.complex128 or stepped.shape != expected.shape or still.imag[finite].any():
        return False
    if not np.allclose(stepped.real, expected, rtol=1e-9, equal_nan=True):
        return False
    claimed = stepped.imag[finite] / STEP
    size = float(np.max(np.abs(expected[finite]), initial=0.0))
    for step in _TRIALS:
        measured = (along(step) - along(-step))[finite] / (2.0 * step)
        larger = np.maximum(np.abs(measured), np.abs(claimed))
        if np.all(np.abs(measured - claimed) <= 1e-5 * larger + SAFETY * EPSILON * size / step):
            return True
    return False


def _direction(x: Array, generator: np.random.Generator) -> Array:
    """Random steps in proportion to x; infinite elements stay where they are."""
    sizes = np.where((x == 0.0) | ~np.isfinite(x), np.isfinite(x), np.abs(x))
    return np.asarray(sizes * generator.uniform(0.5, 1.5, x.shape) * generator.choice([-1.0, 1.0], x.shape))


def _forward(node: graph.Node, inputs: Sequence[Any]) -> Any:
    """The formula of an operation on plain arrays."""
    result = node.operation.forward(*[operands.read_only(value) for value in inputs], **node.options)
    return np.asarray(result if node.operation.reference is None else result[0])


@contextmanager
def _strict() -> Iterator[None]:
    """An imaginary part that is dropped is an error; overflow is not."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        yield


class Products(NamedTuple):
    """⟨u, J t⟩ and ⟨Jᵀu, t⟩, which are equal; `size` is that of the terms they are sums of."""

    by_jvp: float
    by_vjp: float
    size: float


def products(
    function: Callable[[Sequence[Tensor]], list[Any]],
    inputs: Sequence[Array],
    fixed: Sequence[Array],
    upstreams: Sequence[Array],
    generator: np.random.Generator,
) -> Products | None:
    """Push random tangents t forward and pull u back; None if the two cannot be had or are not finite.

    Args:
        function: from a list of Tensors to a list of arrays and Tensors, all floating.
        inputs, fixed: where to differentiate; elements that stay where they are, boolean.
        upstreams: u, one for each output.
    """
    tangents = []
    for x, mask in zip(inputs, fixed, strict=True):
        signed = generator.uniform(0.5, 1.5, x.shape) * generator.choice([-1.0, 1.0], x.shape)
        largest = (
            float(np.max(np.abs(x[~mask]), initial=0.0)) or 1.0
        )  # so that rounding counts as it does in the values
        tangents.append(np.asarray(np.where(mask, 0.0, largest * signed)))

    def spread(*values: Tensor) -> list[Any]:
        return function(values)

    try:
        with np.errstate(all="ignore"):
            _, changes = functional.jvp(spread, inputs, tangents)
            _, pull = functional.vjp(spread, *inputs)
            pairs = (list(zip(upstreams, changes, strict=True)), list(zip(tangents, pull(upstreams), strict=True)))
    except Exception:  # a rule may be code that Tensors do not go through: it then has no derivative of its own
        return None
    terms = [np.concatenate([(np.where(a, plain(b), 0.0) * a).ravel() for a, b in pair]) for pair in pairs]
    if not all(np.isfinite(term).all() for term in terms):
        return None
    forward, back = (float(term.sum()) for term in terms)
    return Products(forward, back, float(sum(np.abs(term).sum() for term in terms)))
