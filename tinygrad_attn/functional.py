"""Derivatives as functions: of a graph that stands already, and of a function, as often as one likes.

- `gradients(loss, [w, b])`: the graph stands, as in torch.autograd.grad.
- `grad(f)(x)`, `hessian(f)(x)`, …: transforms of functions; they nest.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_attn.errors import ArgumentError, DtypeError, GradientError, OptionError, ShapeError
from tinygrad_attn.graph import Gradient, sweep, topological_order
from tinygrad_attn.modes import enable_grad, is_grad_enabled
from tinygrad_attn.operation import identity
from tinygrad_attn.outside import as_gradient
from tinygrad_attn.structure import flatten, matching, rebuild, rebuild_each
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
        inputs: a Tensor, or a list, tuple, dict or dataclass of them; leaves or not.
        upstream: ∂L/∂output, in the shape of output; may be left out if output holds one element.
        create_graph: record the computation of the gradients, so that they can be differentiated in turn.
        unused: what to do where an input does not influence the output: "raise" or "zeros".
    Returns:
        Tensors, in the structure of `inputs`.
    Raises:
        ArgumentError: output is no Tensor.
        GradientError: output requires no gradient, or an input does not influence it (unless `unused` is "zeros").
        ShapeError: `upstream` has another shape than `output`.

    >>> x = Tensor(3.0, requires_grad=True)
    >>> first = gradients(x**3, x, create_graph=True)
    >>> first.item(), gradients(first, x).item()
    (27.0, 18.0)
    """
    if unused not in ("raise", "zeros"):
        raise OptionError(f"gradients: unused must be 'raise' or 'zeros'\n  given {unused!r}")
    if not isinstance(output, Tensor):
        raise ArgumentError(
            f"gradients: the output must be one Tensor\n  given {reprlib.repr(output)}; vjp takes several"
        )
    targets = flatten(inputs)
    for target in targets:
        if not _requires_grad(target):
            raise GradientError(
                f"gradients: every input must be a Tensor with requires_grad=True\n  given {reprlib.repr(target)}"
            )
    found: dict[int, Gradient] = {}
    wanted = {id(target) for target in targets}
    if output.requires_grad or unused == "raise":
        start = _upstream(output.seed_gradient(None) if upstream is None else upstream, output, create_graph)
        with enable_grad():
            for step in sweep([output], [start], targets=targets, create_graph=create_graph):
                if id(step.tensor) in wanted:
                    found[id(step.tensor)] = step.gradient
    for target in targets:
        if id(target) not in found and unused == "raise":
            raise GradientError(
                f"gradients: the output does not depend on {target.name or 'an input'} {target.shape}\n"
                "  was it replaced, detached, or used under no_grad()? unused='zeros' gives zeros"
            )
    return rebuild(inputs, [_found_or_zeros(found, target) for target in targets])


def _upstream(value: Any, output: Tensor, recorded: bool) -> Gradient:
    """Check ∂L/∂output; a Tensor if the computation of gradients is recorded, else an array."""
    if not output.requires_grad:
        output.seed_gradient(None)  # raises, and says why there is nothing to differentiate
    plain = as_gradient(value, output, "upstream")
    if not recorded:
        return plain
    return value if isinstance(value, Tensor) else Tensor.from_own(plain)


def _found_or_zeros(found: dict[int, Gradient], target: Tensor) -> Tensor:
    value = found.get(id(target))
    if isinstance(value, Tensor):
        return value
    return Tensor(np.zeros(target.shape, target.dtype) if value is None else np.asarray(value))


# --- transforms ----------------------------------------------------------------------------------------------------


class _Traced:
    """`f` run on fresh variables: its output, the variables, and whether anything outside may ask for derivatives."""

    def __init__(
        self, f: Function, args: Sequence[Any], argnums: Sequence[int], settings: dict[str, Any], has_aux: bool = False
    ) -> None:
        self.output: Any
        self.aux: Any
        outside_records = is_grad_enabled()
        self.variables: list[Tensor] = []
        linked = False
        fresh = list(args)
        _check_range(argnums, len(args))
        with enable_grad():
            for number in argnums:
                leaves = flatten(args[number])
                linked = linked or any(_requires_grad(leaf) for leaf in leaves)
                fresh[number] = rebuild(args[number], variables := [_variable(leaf, number) for leaf in leaves])
                self.variables += variables
            result = f(*fresh, **settings)
            self.output, self.aux = _pair(result) if has_aux else (result, None)
        self.outputs = [_result(leaf) for leaf in flatten(self.output)]
        self._own = {id(variable) for variable in self.variables}
        self.outer = outside_records and (linked or self._reaches_others())

    def _reaches_others(self) -> bool:
        behind = topological_order(self.outputs, self._own)
        return any(tensor.node is None and id(tensor) not in self._own for tensor in behind)

    def only_number(self) -> Tensor:
        """The output, if it is one number and not, say, a dict of one."""
        leaves = flatten(self.output)
        if len(leaves) == 1 and leaves[0] is self.output and self.outputs[0].size == 1:
            return self.outputs[0]
        given = ", ".join(str(out.shape) for out in self.outputs) or "nothing"
        kind = f" in a {type(self.output).__name__}" if leaves and leaves[0] is not self.output else ""
        raise ShapeError(f"grad needs a function that returns one number\n  given {given}{kind}; use jacobian or vjp")

    def pull(self, upstreams: Sequence[Any], *, recorded: bool | None = None) -> list[Tensor]:
        """Gradients of the variables, one Tensor each; recorded if anything outside may ask for more."""
        pairs = [(out, up) for out, up in zip(self.outputs, upstreams, strict=True) if out.requires_grad]
        if recorded is None:
            recorded = self.outer or (is_grad_enabled() and any(_requires_grad(up) for _, up in pairs))
        starts = [_upstream(up, out, recorded) for out, up in pairs]
        found: dict[int, Gradient] = {}
        with enable_grad():
            roots = [out for out, _ in pairs]
            for step in sweep(roots, starts, targets=self.variables, stop=self._own, create_graph=recorded):
                if id(step.tensor) in self._own:
                    found[id(step.tensor)] = step.gradient
        return [_found_or_zeros(found, variable) for variable in self.variables]

    def shown(self, structure: Any, outer: bool | None = None) -> Any:
        """Results for the caller: part of the outer graph if there is one, else constants."""
        if self.outer if outer is None else outer:
            return structure
        return rebuild(structure, [x.detach() if isinstance(x, Tensor) else x for x in flatten(structure)])


def _variable(value: Any, number: int) -> Tensor:
    """A variable to differentiate by, linked to `value` if that is part of an outer graph."""
    if _requires_grad(value):
        linked: Tensor = identity(value)
        linked.name = value.name
        return linked
    try:
        return Tensor(value, requires_grad=True, name=getattr(value, "name", None))
    except DtypeError as error:
        raise DtypeError(f"argument {number} holds {reprlib.repr(value)}: {error}") from None


def _result(value: Any) -> Tensor:
    try:
        return value if isinstance(value, Tensor) else Tensor(value)
    except DtypeError as error:
        raise DtypeError(f"the function returned {reprlib.repr(value)}: {error}") from None


def _pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise ArgumentError(
            f"has_aux=True needs a function that returns a pair (value, aux)\n  given {reprlib.repr(result)}"
        )
    return result[0], result[1]


def _requires_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _positions(f: Function, argnums: Any) -> tuple[int, ...]:
    """`argnums` as a tuple of positions; what is no function, or no position, is named where the transform is made."""
    if not callable(f):
        raise ArgumentError(f"expected a function to differentiate\n  given {reprlib.repr(f)}")
    numbers = tuple(argnums) if isinstance(argnums, Sequence) else (argnums,)
    if not all(isinstance(number, (int, np.integer)) and not isinstance(number, bool) for number in numbers):
        raise ArgumentError(f"argnums must be a position, or a tuple of them\n  given {argnums!r}")
    return numbers


def _check_range(numbers: Sequence[int], count: int) -> None:
    for number in numbers:
        if not -count <= number < count:
            raise OptionError(
                f"argnums names argument {number}\n"
                f"  {count} arguments were given by position; those given by keyword are not differentiated by"
            )
    if len({number % count for number in numbers}) < len(numbers):
        raise OptionError(f"argnums names an argument twice\n  given {tuple(numbers)} for {count} arguments")


def value_and_grad(f: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Function:
    """A function that returns f(*args) and its gradient by the arguments at `argnums`.

    Args:
        f: returns one number; with `has_aux`, a pair of it and of anything else worth knowing.
        argnums: a position, or several; each argument may be an array, a Tensor, or a list, tuple, dict or dataclass
            of them. An argument that f does not use has a gradient of zeros.
        has_aux: whether f returns such a pair; the value is then the pair as well.
    Returns:
        A function of the same arguments; it returns (value, gradient), the gradient in the argument's structure.
    Raises:
        ArgumentError: f is no function, `argnums` are no positions, or with `has_aux` f returns no pair.
        OptionError: `argnums` names an argument that was not given, or one twice.
        ShapeError: f returns more than one number.
        DtypeError: an argument to differentiate by holds whole numbers or booleans, or f returns a complex number.
    """
    numbers = _positions(f, argnums)

    def evaluate(*args: Any, **settings: Any) -> tuple[Any, Any]:
        traced = _Traced(f, args, numbers, settings, has_aux)
        out = traced.only_number()
        _check_kind("grad", [out], holomorphic=False)
        grads = rebuild_each([args[number] for number in numbers], traced.pull([np.ones(out.shape, out.dtype)]))
        value = traced.shown((out, traced.aux) if has_aux else out)
        return value, grads if isinstance(argnums, Sequence) else grads[0]

    return evaluate


def grad(f: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Function:
    """The gradient of a function as a function of the same arguments; it nests.

    Args:
        f, argnums, has_aux: as in `value_and_grad`; with `has_aux`, the result is a pair (gradient, aux).

    >>> grad(grad(lambda x: x**3))(2.0).item()
    12.0
    """
    evaluate = value_and_grad(f, argnums, has_aux=has_aux)

    def gradient(*args: Any, **settings: Any) -> Any:
        value, slope = evaluate(*args, **settings)
        return (slope, value[1]) if has_aux else slope

    return gradient


def vjp(f: Function, *args: Any) -> tuple[Any, Function]:
    """f(*args), and a function that pulls a gradient of the output back to every argument.

    Returns:
        (out, pull); pull(upstream), with upstream in the structure of out, returns uᵀJ as a tuple, one per argument.

    >>> out, pull = vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> [x.item() for x in pull(1.0)]
    [3.0, 2.0]
    """
    traced = _Traced(f, args, _positions(f, range(len(args))), {})

    def pull(upstream: Any) -> tuple[Any, ...]:
        leaves = matching(upstream, traced.output, "upstream must have the structure and the shapes of the output")
        return rebuild_each(args, traced.pull(leaves))

    return traced.shown(traced.output), pull


def jvp(f: Function, args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """f(*args), and how it changes when the arguments move along `tangents`: J t.

    Computed as the derivative of u ↦ uᵀJ along t, since uᵀJ is linear in u: two backward passes, no forward rules.

    >>> out, change = jvp(lambda x: x**2, [3.0], [1.0])
    >>> out.item(), change.item()
    (9.0, 6.0)
    """
    if not isinstance(args, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise ArgumentError(
            "jvp takes the arguments as a list or a tuple, and the tangents likewise\n"
            f"  given {type(args).__name__} and {type(tangents).__name__}; of one argument, jvp(f, [x], [t])"
        )
    if len(tangents) != len(args):
        raise ShapeError(f"jvp needs one tangent per argument\n  expected {len(args)}, given {len(tangents)}")
    traced = _Traced(f, args, _positions(f, range(len(args))), {})
    mismatch = "a tangent must have the structure and the shapes of its argument"
    directions = [leaf for t, arg in zip(tangents, args, strict=True) for leaf in matching(t, arg, mismatch)]
    outer = traced.outer or (is_grad_enabled() and any(_requires_grad(direction) for direction in directions))
    upstreams = [  # whole numbers do not change; that is said in floating zeros
        Tensor(np.zeros(out.shape, out.dtype if out.dtype.kind in "fc" else np.float64), requires_grad=True)
        for out in traced.outputs
    ]
    pulled = traced.pull(upstreams, recorded=True)
    changes = gradients(_dot(pulled, directions), upstreams, create_graph=outer, unused="zeros")
    return traced.shown(traced.output, outer), rebuild(traced.output, changes)


def _dot(left: Sequence[Any], right: Sequence[Any]) -> Tensor:
    """Sum of the products of all elements; of complex numbers, those of real with real and imaginary with imaginary."""
    with enable_grad():
        total = Tensor(0.0)
        for a, b in zip(left, right, strict=True):
            total = total + (a.conj() * b).sum().real
        return total


def jacobian(f: Function, argnums: int | Sequence[int] = 0, *, holomorphic: bool = False) -> Function:
    """All partial derivatives: x -> (*output shape, *x shape).

    Args:
        f: returns an array, or a structure of arrays.
        argnums: as in `value_and_grad`.
        holomorphic: f is complex, of complex arguments, and has a complex derivative f′(z), which is returned. Without
            it, f returns real numbers, and each row is a gradient as `.grad` holds it.
    Returns:
        A function of the same arguments. Where f returns a structure or an argument is one, every output holds the
        structure of the argument, and that the matrices; several `argnums` give a tuple.
    Raises:
        DtypeError: complex outputs without `holomorphic`, or real outputs or arguments with it.

    >>> jacobian(lambda x: x * x)([1.0, 2.0]).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    >>> jacobian(lambda z: z * z, holomorphic=True)(1 + 1j).item()
    (2+2j)
    """
    numbers = _positions(f, argnums)

    def evaluate(*args: Any, **settings: Any) -> Any:
        traced = _Traced(f, args, numbers, settings)
        _check_kind("jacobian", [*traced.outputs, *(traced.variables if holomorphic else ())], holomorphic)
        blocks = []
        for position, out in enumerate(traced.outputs):
            rows = []
            for index in np.ndindex(out.shape):
                upstreams = [np.zeros(other.shape, other.dtype) for other in traced.outputs]
                upstreams[position][index] = 1.0
                rows.append([row.conj() if holomorphic else row for row in traced.pull(upstreams)])
            matrices = [_stacked([row[k] for row in rows], out, x) for k, x in enumerate(traced.variables)]
            block = rebuild_each([args[number] for number in numbers], matrices)
            blocks.append(block if isinstance(argnums, Sequence) else block[0])
        return rebuild(traced.output, blocks)

    return evaluate


def _check_kind(name: str, tensors: Sequence[Tensor], holomorphic: bool) -> None:
    """Raise unless all are real, or all complex if `holomorphic`."""
    for tensor in tensors:
        if (tensor.dtype.kind == "c") != holomorphic:
            expected = "complex arguments and outputs" if holomorphic else "a function that returns real numbers"
            raise DtypeError(
                f"{name} needs {expected}\n  given {tensor.dtype} {tensor.shape}; take np.real and np.imag apart,\n"
                "  or pass holomorphic=True to jacobian for the complex derivative of a complex function"
            )


def _stacked(rows: Sequence[Tensor], out: Tensor, x: Tensor) -> Tensor:
    """Rows of a Jacobian, one per element of `out`, as one Tensor (*out, *x)."""
    if not rows:
        return Tensor(np.zeros((*out.shape, *x.shape), out.dtype))
    with enable_grad():
        stacked: Tensor = np.stack(rows)  # type: ignore[assignment]
        return stacked.reshape((*out.shape, *x.shape))


def hessian(f: Function, argnums: int | Sequence[int] = 0) -> Function:
    """All second derivatives of a function that returns one number: x -> (*x shape, *x shape).

    >>> hessian(lambda x: (x**3).sum())([1.0, 2.0]).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacobian(grad(f, argnums), argnums)


def hvp(f: Function, x: Any, v: Any) -> Any:
    """Hessian times vector, without the Hessian: ∂/∂x (∇f(x) · v), in the structure of x.

    >>> hvp(lambda x: (x**3).sum(), [1.0, 2.0], [1.0, 0.0]).tolist()
    [6.0, 0.0]
    """
    leaves = matching(v, x, "v must have the structure and the shapes of x")
    directions = [leaf if isinstance(leaf, Tensor) else np.asarray(leaf) for leaf in leaves]
    return grad(lambda y: _dot(flatten(grad(f)(y)), directions))(x)
