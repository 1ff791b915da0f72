"""The gradients of a recorded graph by differences: the graph is run again in float64, with one number moved.

Nothing here uses a gradient rule. Intermediate tensors are moved like leaves, and what depends on them is recomputed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.checkpoint import Recomputed
from tinygrad_attn.graph import Node, topological_order
from tinygrad_attn.numerical import noise_of, slope
from tinygrad_attn.tensor import Tensor

__all__ = ["Checked", "Numerical", "numerical_gradients"]

Array = NDArray[Any]
Vector = NDArray[np.float64]

# Operations that may be run again before it takes longer than a reader waits: about half a second.
MOST_RUNS = 40_000
RUNS_PER_ELEMENT = 4


@dataclass(frozen=True, eq=False)
class Numerical:
    """A gradient by differences beside the one of the rules.

    Attributes:
        value: ∂L/∂x in float64; NaN where the function has no slope on both sides.
        uncertainty: how far rounding may have moved each element.
        smooth: where it has one slope; False at kinks, jumps and ends, where no comparison is made.
        error: the largest difference from the gradient of the rules, where smooth.
        agrees: whether that is no more than rounding explains.
    """

    value: Vector
    uncertainty: Vector
    smooth: NDArray[np.bool_]
    error: float
    agrees: bool


@dataclass(frozen=True, eq=False)
class Checked:
    """What came of the attempt: gradients by node id, or why there are none (see `Replay.unchecked`)."""

    by_tensor: Mapping[str, Numerical] = field(default_factory=dict)
    missing: str = ""
    at: str = ""


def numerical_gradients(
    root: Tensor, seed: Array, analytic: Mapping[str, tuple[Tensor, Array, float]], *, limit: bool
) -> Checked:
    """Computes ∂(Σ seed∘root)/∂x by differences for every tensor x of a graph.

    Args:
        root: where the backward pass started.
        seed: ∂L/∂root.
        analytic: by node id, a tensor, its gradient by the rules, and the largest contribution to that.
        limit: give up where it would take long.
    """
    order = topological_order([root])
    if any(tensor.dtype.kind == "c" for tensor in order):
        return Checked(missing="complex")
    users = _users(order, MOST_RUNS // RUNS_PER_ELEMENT if limit else None)
    if users is None:
        return Checked(missing="large")
    with np.errstate(all="ignore"):
        values, differs = _run_again(order)
        if differs:
            return Checked(missing="differs", at=differs)
        upstream = np.asarray(seed, dtype=np.float64).ravel()
        noise = _noise(order, values, root)
        found = {
            name: _compare(_slopes(tensor, root, users[id(tensor)], values, upstream, noise), gradient, largest)
            for name, (tensor, gradient, largest) in analytic.items()
        }
    return Checked(found)


def _users(order: list[Tensor], most: int | None) -> dict[int, list[Tensor]] | None:
    """For each tensor all that is computed from it, directly or not, in the order of computation.

    Gives None as soon as moving every element once would take more than `most` operations.
    """
    behind: dict[int, set[int]] = {}
    users: dict[int, list[Tensor]] = {id(tensor): [] for tensor in order}
    sizes = {id(tensor): tensor.size for tensor in order}
    runs = 0
    for tensor in order:
        sources: set[int] = set()
        for source in _sources(tensor):
            sources |= behind[id(source)]
        for key in sources:
            users[key].append(tensor)
            runs += sizes[key]
        if most is not None and runs > most:
            return None
        behind[id(tensor)] = sources | {id(tensor)}
    return users


def _sources(tensor: Tensor) -> list[Tensor]:
    inputs = tensor.node.inputs if tensor.node is not None else ()
    return [source for source in inputs if isinstance(source, Tensor) and source.requires_grad]


def _run_again(order: list[Tensor]) -> tuple[dict[int, Array], str]:
    """All values in float64, or the name of the first operation that does not give what it gave before."""
    values: dict[int, Array] = {}
    for tensor in order:
        if tensor.node is None:
            values[id(tensor)] = np.array(tensor.numpy(), dtype=np.float64)
            continue
        name = tensor.node.operation.name
        try:
            values[id(tensor)] = again = _run(tensor.node, values)
        except Exception:  # an operation of the user's own may refuse float64 in any way it likes
            return {}, name
        tolerance = float(np.finfo(tensor.dtype).eps) ** 0.5
        recorded = tensor.numpy()
        largest = float(np.max(np.abs(recorded[np.isfinite(recorded)]), initial=1.0))
        if again.shape != recorded.shape or not np.allclose(
            again, recorded, rtol=tolerance, atol=tolerance * largest, equal_nan=True
        ):
            return {}, name
    return values, ""


def _run(node: Node, values: Mapping[int, Array]) -> Array:
    """What an operation gives in float64."""
    operands = [values.get(id(operand), operand) for operand in node.inputs]
    arrays = [_double(operand.numpy() if isinstance(operand, Tensor) else operand) for operand in operands]
    if isinstance(node.operation, Recomputed):
        if node.saved[1] < len(arrays):
            raise LookupError("what a checkpoint uses without being given it cannot be moved")
        given = [Tensor(array) if isinstance(array, np.ndarray) else array for array in arrays]
        return np.asarray(node.operation.again(node, given).numpy())
    # A cast to fewer digits would hide small steps.
    options = {name: np.float64 if _is_real_dtype(option) else option for name, option in node.options.items()}
    result = node.operation.forward(*arrays, **options)
    return np.asarray(_double(result if node.operation.reference is None else result[0]))


def _double(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return array.astype(np.float64) if array.dtype.kind == "f" else array
    return value


def _is_real_dtype(option: Any) -> bool:
    if not isinstance(option, np.dtype) and not (isinstance(option, type) and issubclass(option, np.generic)):
        return False
    return bool(np.issubdtype(option, np.floating))


def _noise(order: list[Tensor], values: Mapping[int, Array], root: Tensor) -> float:
    """How far rounding may move the root."""
    moved = dict(values)
    leaves = [moved[id(tensor)] for tensor in order if tensor.node is None]

    def evaluate() -> Vector:
        for tensor in order:
            if tensor.node is not None:
                moved[id(tensor)] = _run(tensor.node, moved)
        return _flat(moved[id(root)])

    return noise_of(evaluate, leaves, _flat(values[id(root)]), np.random.default_rng(0))


def _slopes(
    tensor: Tensor,
    root: Tensor,
    users: list[Tensor],
    values: Mapping[int, Array],
    upstream: Vector,
    noise: float,
) -> tuple[Vector, NDArray[np.bool_], Vector]:
    """Slope, whether it is one, and its uncertainty, for every element of a tensor."""
    own = values[id(tensor)].copy()
    changed = {**values, id(tensor): own}

    def evaluate() -> Vector:
        for user in users:
            if user.node is not None:
                changed[id(user)] = _run(user.node, changed)
        return _flat(changed[id(root)])

    base = _flat(values[id(root)])
    slopes, uncertainty = np.full(own.shape, np.nan), np.zeros(own.shape)
    smooth = np.zeros(own.shape, dtype=np.bool_)
    for place in np.ndindex(own.shape):
        if not np.isfinite(own[place]):
            continue  # infinity cannot be moved a little
        found = slope(evaluate, own, place, np.where(np.isfinite(base), upstream, 0.0), base, noise)
        if found.verdict in ("smooth", "kink"):
            slopes[place] = found.value
        smooth[place], uncertainty[place] = found.verdict == "smooth", found.uncertainty
    return slopes, smooth, uncertainty


def _compare(found: tuple[Vector, NDArray[np.bool_], Vector], gradient: Array, largest: float) -> Numerical:
    value, smooth, uncertainty = found
    difference = np.where(smooth, np.abs(value - gradient), 0.0)
    # What cancels in the sum leaves rounding of the size of its parts.
    scale = max(largest, float(np.max(np.abs(gradient), initial=0.0)))
    allowed = 2.0 * np.where(smooth, uncertainty, 0.0) + 1e3 * float(np.finfo(gradient.dtype).eps) * scale
    return Numerical(
        value, uncertainty, smooth, float(np.max(difference, initial=0.0)), bool(np.all(difference <= allowed))
    )


def _flat(values: Array) -> Vector:
    return np.array(values, dtype=np.float64).ravel()
