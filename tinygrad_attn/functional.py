"""Derivatives as functions: of a graph that stands already, and of a function, as often as one likes.

- `gradients(loss, [w, b])`: the graph stands, as in torch.autograd.grad.
- `grad(f)(x)`, `hessian(f)(x)`, …: transforms of functions; they nest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_attn.errors import GradientError, ShapeError
from tinygrad_attn.graph import Gradient, sweep, topological_order
from tinygrad_attn.modes import enable_grad
from tinygrad_attn.operation import identity
from tinygrad_attn.tensor import Tensor

Function = Callable[..., Any]


def gradients(
    output: Tensor,
    inputs: Any,
    upstream: Any = None,
    *,
    create_graph: bool = False,
    unused: str = "raise",
) -> Any:
    """∂output/∂inputs of a graph that stands already; `.grad` is not touched.

    Args:
        output: the tensor to differentiate.
        inputs: a Tensor, or a list, tuple or dict of them; leaves or not.
        upstream: ∂L/∂output, in the shape of output; may be left out if output holds one element.
        create_graph: record the computation of the gradients, so that they can be differentiated in turn.
        unused: what to do where an input does not influence the output: "raise" or "zeros".
    Returns:
        Tensors, in the structure of `inputs`.
    Raises:
        GradientError: output requires no gradient, or an input does not influence it.

    >>> x = Tensor(3.0, requires_grad=True)
    >>> first = gradients(x**3, x, create_graph=True)
    >>> first.item(), gradients(first, x).item()
    (27.0, 18.0)
    """
    targets = flatten(inputs)
    for target in targets:
        if not isinstance(target, Tensor) or not target.requires_grad:
            raise GradientError("gradients: every input must be a Tensor with requires_grad=True")
    start: Gradient
    if isinstance(upstream, Tensor):
        if upstream.shape != output.shape:
            raise ShapeError(
                f"upstream must have the output's shape\n  expected {output.shape}, given {upstream.shape}"
            )
        start = upstream if create_graph else upstream.numpy()
    else:
        start = output.seed_gradient(upstream)
    if create_graph and not isinstance(start, Tensor):
        start = Tensor.from_own(start)
    found: dict[int, Gradient] = {}
    wanted = {id(target) for target in targets}
    with enable_grad():
        for step in sweep([output], [start], targets=targets, create_graph=create_graph):
            if id(step.tensor) in wanted:
                found[id(step.tensor)] = step.gradient
    results = []
    for target in targets:
        if id(target) not in found and unused == "raise":
            raise GradientError(
                f"gradients: the output does not depend on {target.name or 'an input'} {target.shape}\n"
                "  was it replaced, detached, or used under no_grad()? unused='zeros' gives zeros"
            )
        value = found.get(id(target), np.zeros(target.shape, target.dtype))
        results.append(value if isinstance(value, Tensor) else Tensor(value))
    return rebuild(inputs, results)


# --- structures ----------------------------------------------------------------------------------------------------


def flatten(structure: Any) -> list[Any]:
    """The leaves of nested lists, tuples and dicts, in order."""
    if isinstance(structure, dict):
        return [leaf for value in structure.values() for leaf in flatten(value)]
    if isinstance(structure, (list, tuple)) and not _is_numbers(structure):
        return [leaf for value in structure for leaf in flatten(value)]
    return [structure]


def rebuild(structure: Any, leaves: Sequence[Any]) -> Any:
    """`leaves` in the shape of `structure`."""
    return _rebuild(structure, iter(leaves))


def _rebuild(structure: Any, leaves: Any) -> Any:
    if isinstance(structure, dict):
        return {key: _rebuild(value, leaves) for key, value in structure.items()}
    if isinstance(structure, (list, tuple)) and not _is_numbers(structure):
        rebuilt = [_rebuild(value, leaves) for value in structure]
        return type(structure)(*rebuilt) if hasattr(structure, "_fields") else type(structure)(rebuilt)
    return next(leaves)


def _is_numbers(structure: Any) -> bool:
    """Whether a list is an array written out, such as [[1.0, 2.0]], rather than a list of arrays."""
    if isinstance(structure, (list, tuple)):
        return len(structure) > 0 and all(_is_numbers(value) for value in structure)
    return isinstance(structure, (int, float))


# --- transforms ----------------------------------------------------------------------------------------------------


class _Traced:
    """`f` run on fresh variables: its output, the variables, and whether anything outside may ask for derivatives."""

    def __init__(self, f: Function, args: Sequence[Any], argnums: Sequence[int]) -> None:
        self.variables: list[Tensor] = []
        outer = False
        fresh = list(args)
        with enable_grad():
            for number in argnums:
                leaves = []
                for value in flatten(args[number]):
                    outer = outer or (isinstance(value, Tensor) and value.requires_grad)
                    leaves.append(_variable(value))
                self.variables += leaves
                fresh[number] = rebuild(args[number], leaves)
            self.output = f(*fresh)
        self._own = {id(variable) for variable in self.variables}
        self.outer = outer or self._reaches_others()

    def _reaches_others(self) -> bool:
        outputs = [out for out in flatten(self.output) if isinstance(out, Tensor)]
        return any(
            tensor.node is None and id(tensor) not in self._own for tensor in topological_order(outputs, self._own)
        )

    def pull(self, upstreams: Sequence[Any]) -> list[Tensor]:
        """Gradients of the variables, one Tensor each; recorded if anything outside may ask for more."""
        outputs = flatten(self.output)
        pairs = [(o, u) for o, u in zip(outputs, upstreams, strict=True) if isinstance(o, Tensor) and o.requires_grad]
        outer = self.outer or any(isinstance(u, Tensor) and u.requires_grad for _, u in pairs)
        starts = [_upstream(u, o, outer) for o, u in pairs]
        found: dict[int, Gradient] = {}
        with enable_grad():
            roots = [o for o, _ in pairs]
            for step in sweep(roots, starts, targets=self.variables, stop=self._own, create_graph=outer):
                if id(step.tensor) in self._own:
                    found[id(step.tensor)] = step.gradient
        answers = [found.get(id(v), np.zeros(v.shape, v.dtype)) for v in self.variables]
        return [answer if isinstance(answer, Tensor) else Tensor(answer) for answer in answers]


def _variable(value: Any) -> Tensor:
    """A variable to differentiate by, linked to `value` if that is part of an outer graph."""
    if isinstance(value, Tensor) and value.requires_grad:
        linked: Tensor = identity(value)
        return linked
    return Tensor(value, requires_grad=True)


def _upstream(value: Any, output: Tensor, outer: bool) -> Gradient:
    given = value if isinstance(value, Tensor) else Tensor(np.asarray(value, dtype=output.dtype))
    if given.shape != output.shape:
        raise ShapeError(f"upstream must have the output's shape\n  expected {output.shape}, given {given.shape}")
    return given if outer else given.numpy()


def value_and_grad(f: Function, argnums: int | Sequence[int] = 0) -> Function:
    """A function that returns f(*args) and its gradient by the arguments at `argnums`.

    Args:
        f: returns one number.
        argnums: a position, or several; each argument may be an array, a Tensor, or a list, tuple or dict of them.
    Returns:
        A function of the same arguments; it returns (value, gradient), the gradient in the argument's structure.
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def evaluate(*args: Any) -> tuple[Any, Any]:
        traced = _Traced(f, args, numbers)
        out = traced.output
        if not isinstance(out, Tensor):
            out = Tensor(out)
            traced.output = out
        if out.size != 1:
            raise ShapeError(
                f"grad needs a function that returns one number\n  given shape {out.shape}; use jacobian or vjp"
            )
        answers = traced.pull([np.ones(out.shape, out.dtype)])
        leaves = iter(answers)
        grads = [_rebuild(args[number], leaves) for number in numbers]
        value = out if traced.outer else out.detach()
        return value, grads[0] if isinstance(argnums, int) else tuple(grads)

    return evaluate


def grad(f: Function, argnums: int | Sequence[int] = 0) -> Function:
    """The gradient of a function as a function of the same arguments; it nests.

    >>> grad(grad(lambda x: x**3))(2.0).item()
    12.0
    """
    evaluate = value_and_grad(f, argnums)

    def gradient(*args: Any) -> Any:
        return evaluate(*args)[1]

    return gradient


def vjp(f: Function, *args: Any) -> tuple[Any, Function]:
    """f(*args), and a function that pulls a gradient of the output back to every argument.

    Returns:
        (out, pull); pull(upstream) returns uᵀJ as a tuple, one entry per argument.
    """
    traced = _Traced(f, args, range(len(args)))

    def pull(upstream: Any) -> tuple[Any, ...]:
        leaves = iter(traced.pull(flatten(upstream)))
        return tuple(_rebuild(arg, leaves) for arg in args)

    return traced.output if traced.outer else _detached(traced.output), pull


def _detached(structure: Any) -> Any:
    return rebuild(structure, [x.detach() if isinstance(x, Tensor) else x for x in flatten(structure)])


def jvp(f: Function, args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """f(*args), and how it changes when the arguments move along `tangents`: J t.

    Computed as the derivative of u ↦ uᵀJ along t, since uᵀJ is linear in u: two backward passes, no forward rules.
    """
    traced = _Traced(f, args, range(len(args)))
    out = traced.output
    traced.outer = True
    u = Tensor(np.zeros(out.shape, out.dtype), requires_grad=True)
    pulled = traced.pull([u])
    with enable_grad():
        inner = Tensor(0.0, dtype=out.dtype)
        flat_tangents = [leaf for tangent in tangents for leaf in flatten(tangent)]
        for gradient, tangent in zip(pulled, flat_tangents, strict=True):
            inner = inner + (gradient * tangent).sum()
    if not inner.requires_grad:
        return _detached(out), Tensor(np.zeros(out.shape, out.dtype))
    return _detached(out), gradients(inner, u, unused="zeros")


def jacobian(f: Function) -> Function:
    """The matrix of all partial derivatives: x -> (*output shape, *x shape)."""

    def evaluate(x: Any) -> Tensor:
        traced = _Traced(f, (x,), (0,))
        out = traced.output
        rows = []
        for index in range(out.size):
            upstream = np.zeros(out.size, out.dtype)
            upstream[index] = 1.0
            rows.append(traced.pull([upstream.reshape(out.shape)])[0])
        shape = (*out.shape, *np.shape(x))
        if not rows:
            return Tensor(np.zeros(shape, out.dtype))
        with enable_grad():
            stacked: Tensor = np.stack(rows)  # type: ignore[assignment]
            return stacked.reshape(shape)

    return evaluate


def hessian(f: Function) -> Function:
    """The matrix of second derivatives of a function that returns one number: x -> (*x shape, *x shape)."""
    return jacobian(grad(f))


def hvp(f: Function, x: Any, v: Any) -> Tensor:
    """Hessian times vector, without the Hessian: ∂/∂x (∇f(x) · v).

    >>> hvp(lambda x: (x**3).sum(), [1.0, 2.0], [1.0, 0.0]).tolist()
    [6.0, 0.0]
    """
    direction = v if isinstance(v, Tensor) else Tensor(v)
    product: Tensor = grad(lambda y: (grad(f)(y) * direction).sum())(x)
    return product
