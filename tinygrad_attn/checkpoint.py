"""Memory for time: forget what happens inside a function and run it again when the gradient comes back."""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tinygrad_attn import explain, rng
from tinygrad_attn.errors import ArgumentError, DtypeError, GradientError
from tinygrad_attn.graph import NODE_NUMBERS, Gradient, Node, sweep
from tinygrad_attn.modes import MODES, ModeSwitch
from tinygrad_attn.operation import Operation, identity
from tinygrad_attn.structure import flatten, rebuild
from tinygrad_attn.tensor import Tensor, plain


def checkpoint(f: Callable[..., Any]) -> Callable[..., Tensor]:
    """The same function, which keeps nothing for the backward pass but its arguments and runs once more there.

    Args:
        f: returns one Tensor; its arguments may be Tensors, arrays, or lists, tuples and dicts of them. Parameters that
            it uses without being given them, such as a module's, and tensors that were computed before get their
            gradients too. What it draws from the shared generator, as dropout does, is drawn again the same.
    Returns:
        A function of the same arguments. In drawings it is one node.
    Raises:
        ArgumentError: f is no function.
        DtypeError: f returns something else than one Tensor.
        GradientError: in the backward pass, if f answers differently the second time.
    Source:
        Chen et al. (2016), arXiv:1604.06174.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: (x * x).sum())(x).backward()
    >>> x.grad
    array([2., 4.], dtype=float32)
    """
    if not callable(f):
        raise ArgumentError(f"checkpoint: expected a function\n  given {f!r}")
    return _Checkpointed(f)


class _Checkpointed:
    """What `checkpoint` makes of a function, or, in the body of a class, of a method.

    Not a function inside `checkpoint`: a copy of a module would go on running the original's bound method.
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        self.function = f
        self.operation = Recomputed(f)
        functools.update_wrapper(self, f, updated=())

    def __call__(self, *args: Any, **settings: Any) -> Tensor:
        if not MODES.get().record:
            return cast(Tensor, self.function(*args, **settings))
        given = flatten((args, settings))
        state, start = rng.get_state(), next(NODE_NUMBERS)
        stand_ins = [_cut_off(value) for value in given]
        out = _call(self.function, (args, settings), stand_ins)
        if not isinstance(out, Tensor):
            raise DtypeError(f"checkpoint: the function must return one Tensor\n  given {type(out).__name__}")
        if not out.requires_grad:
            return out
        kept = [Tensor(value) if isinstance(value, np.ndarray) else value for value in given]
        inputs = (*kept, *_captured(out, stand_ins, start))
        saved = ((args, settings), len(given), state)
        node = Node(self.operation, inputs, {}, saved, MODES.get().scope)
        if MODES.get().detect_anomaly:
            node.source = explain.user_line()
        return Tensor._made_by(out._data, node)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Checkpointed:
        return _Checkpointed(copy.deepcopy(self.function, memo))


def _call(f: Callable[..., Any], arguments: Any, leaves: Sequence[Any]) -> Any:
    """Run `f` with `leaves` in place of those in `arguments`, a pair of positional and keyword arguments."""
    args, settings = rebuild(arguments, leaves)
    return f(*args, **settings)


def _captured(out: Tensor, given: Sequence[Any], start: int) -> list[Tensor]:
    """What `out` was made of without being `given` it: leaves, and what was recorded before `start`."""
    captured: list[Tensor] = []
    seen, stack = {id(value) for value in given}, [out]
    while stack:
        tensor = stack.pop()
        if id(tensor) in seen or not tensor.requires_grad:
            continue
        seen.add(id(tensor))
        if tensor.node is None or tensor.node.number < start:
            captured.append(tensor)
        else:
            stack.extend(source for source in reversed(tensor.node.inputs) if isinstance(source, Tensor))
    return captured


class Recomputed(Operation):
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
        count = node.saved[1]
        link = identity if create_graph else _cut_off
        stand_ins = [link(kept) if _requires_grad(kept) else kept for kept in node.inputs[:count]]
        again = self.again(node, stand_ins)
        if not isinstance(again, Tensor) or not np.array_equal(again._data, out._data, equal_nan=True):
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

    def again(self, node: Node, operands: Sequence[Any]) -> Any:
        """Run the function once more, recorded and with the same random numbers.

        Args:
            node: a call of it.
            operands: what stands in for the operands of that call; only those that were arguments are replaced.
        """
        arguments, count, state = node.saved
        leaves = [
            value if isinstance(given, Tensor) else plain(value)
            for given, value in zip(flatten(arguments), operands[:count], strict=True)
        ]
        now = rng.get_state()
        rng.set_state(state)
        try:
            with ModeSwitch(record=True, recomputing=True):
                return _call(self.function, arguments, leaves)
        finally:
            rng.set_state(now)


def _cut_off(value: Any) -> Any:
    """The same values as a leaf of its own; what carries no gradient stays as it is."""
    return value.detach().requires_grad_() if _requires_grad(value) else value


def _requires_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad
