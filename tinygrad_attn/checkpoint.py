"""Memory for time: forget what happens inside a function and run it again when the gradient comes back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tinygrad_attn import rng
from tinygrad_attn.errors import DtypeError, GradientError
from tinygrad_attn.functional import flatten, rebuild
from tinygrad_attn.graph import Gradient, Node, sweep, topological_order
from tinygrad_attn.modes import MODES, enable_grad
from tinygrad_attn.operation import Operation, identity
from tinygrad_attn.tensor import Tensor


def checkpoint(f: Callable[..., Any]) -> Callable[..., Tensor]:
    """The same function, which keeps nothing for the backward pass but its arguments and runs once more there.

    Args:
        f: returns one Tensor; its arguments may be Tensors, arrays, or lists, tuples and dicts of them. Parameters that
            it uses without being given them, such as a module's, get their gradients too. What it draws from the
            shared generator, as dropout does, is drawn again the same.
    Returns:
        A function of the same arguments. In drawings it is one node.
    Raises:
        DtypeError: f returns something else than one Tensor.
        GradientError: in the backward pass, if f answers differently the second time.
    Source:
        Chen et al. (2016), arXiv:1604.06174.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: (x * x).sum())(x).backward()
    >>> x.grad
    array([2., 4.], dtype=float32)
    """
    operation = _Recomputed(f)

    @functools.wraps(f, updated=())
    def run(*args: Any) -> Tensor:
        if not MODES.get().record:
            return cast(Tensor, f(*args))
        given = flatten(args)
        state = rng.get_state()
        stand_ins = [_cut_off(value) for value in given]
        out = f(*rebuild(args, stand_ins))
        if not isinstance(out, Tensor):
            raise DtypeError(f"checkpoint: the function must return one Tensor\n  given {type(out).__name__}")
        own = {id(value) for value in stand_ins}
        captured = [leaf for leaf in topological_order([out]) if leaf.node is None and id(leaf) not in own]
        if not out.requires_grad:
            return out
        inputs = (*(Tensor(value) if isinstance(value, np.ndarray) else value for value in given), *captured)
        return Tensor._made_by(out._data, Node(operation, inputs, {}, (args, len(given), state), MODES.get().scope))

    return run


class _Recomputed(Operation):
    """The operation behind a checkpoint: its rule is to run the function again, recorded, and sweep through that."""

    def __init__(self, f: Callable[..., Any]) -> None:
        def recomputed(*inputs: Any) -> Any:
            """Run again when the gradient comes back."""

        super().__init__(recomputed, symbol=f"checkpoint {getattr(f, '__name__', type(f).__name__)}")
        self.name = "checkpoint"
        self.formulas = {"inputs": "run again, and differentiate that"}
        self.function = f

    def pull(
        self,
        node: Node,
        gradient: Gradient,
        out: Tensor,
        wanted: Sequence[int],
        *,
        create_graph: bool = False,
        untaken: Any = None,
    ) -> list[tuple[int, Gradient]]:
        """Run the function once more on stand-ins of its arguments and differentiate it."""
        args, count, state = node.saved
        link = identity if create_graph else _cut_off
        stand_ins = [link(x) if isinstance(x, Tensor) and x.requires_grad else x for x in node.inputs[:count]]
        now = rng.get_state()
        rng.set_state(state)
        try:
            with enable_grad():
                again = self.function(*rebuild(args, stand_ins))
        finally:
            rng.set_state(now)
        if not np.array_equal(again._data, out._data, equal_nan=True):
            raise GradientError(
                f"{self.symbol}: the function answered differently when it was run again for the gradient\n"
                "  does it draw from a generator of its own, or depend on something that has changed since?"
            )
        targets = [*stand_ins, *node.inputs[count:]]
        stop = {id(value) for value in targets}  # the sweep outside calls the hooks of captured tensors
        chosen = [targets[index] for index in wanted]
        found: dict[int, Gradient] = {}
        for step in sweep([again], [gradient], targets=chosen, stop=stop, create_graph=create_graph):
            found[id(step.tensor)] = step.gradient
        return [(i, found.get(id(targets[i]), np.zeros(node.inputs[i].shape, node.inputs[i].dtype))) for i in wanted]


def _cut_off(value: Any) -> Any:
    """The same values as a leaf of its own; what carries no gradient stays as it is."""
    if not isinstance(value, Tensor) or not value.requires_grad:
        return value
    return value.detach().requires_grad_()
