"""Operation: a formula on plain arrays with its gradient rules beside it, and `@op`, which makes one.

    @op(np.matmul, symbol="@")
    def matmul(a, b):
        return np.matmul(a, b)

    @matmul.gradient("a", formula="dA = dC Bᵀ")
    def _(g, out, a, b):
        return g @ np.swapaxes(b, -1, -2)

A rule gets the gradient of the output, the output, the inputs and the options. It runs on plain arrays in an ordinary
backward pass and on Tensors where its own derivative is wanted, so it may use any NumPy function that has a rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast, overload

import numpy as np

from tinygrad_attn import explain, operands
from tinygrad_attn.arguments import numpy_name
from tinygrad_attn.errors import ArgumentError, GradientError, TinygradAttnError, unmasked
from tinygrad_attn.graph import Gradient, Node, fold, sweep
from tinygrad_attn.modes import MODES, enable_grad
from tinygrad_attn.registry import IMPLEMENTATIONS, OPERATIONS, REFUSED, implements
from tinygrad_attn.signature import Signature, check_rule
from tinygrad_attn.tensor import Tensor, plain

Rule = TypeVar("Rule", bound=Callable[..., Any])


class Operation:
    """A function that Tensors can be put through; made by `@op`.

    Called without any Tensor it is a plain NumPy function: arrays in, array out.

    Attributes:
        name, symbol: what errors and drawings call it.
        parameters: names of its inputs; `variadic` if the last stands for any number of them.
        options: its keyword options with their defaults.
        elementwise: whether each output element depends on one element of each input.
        selects: whether it takes some elements and leaves others, as `where` does.
        floating: whether its formula needs floating numbers, so that whole ones are converted first.
        reads_at: from the options, the index of the elements that it reads, if it returns them as they stand and none
            of them twice; else None.
        moves: whether elements only change places, are copied or added, whatever their values.
        complex: whether formula and rules hold for complex numbers, as where they only move; see docs/complex.md.
        formulas: for each differentiable input, its gradient rule in mathematical notation.
        reference: for a fused operation, the same function written with primitive ones; else None.
        domain, option_domains: what inputs and options a test may draw (see `domain.py`).
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        *,
        symbol: str | None = None,
        reference: Callable[..., Any] | None = None,
        sequence: bool = False,
        elementwise: bool = False,
        selects: bool = False,
        moves: bool = False,
        floating: bool = False,
        reads_at: Callable[[dict[str, Any]], Any] | None = None,
        complex: bool | None = None,
        domain: Callable[[Any], tuple[Any, ...]] | None = None,
        options: dict[str, Callable[..., Any]] | None = None,
        clash: Callable[..., str | None] | None = None,
    ) -> None:
        self.forward = forward
        self.name = forward.__name__
        self.symbol = symbol or self.name
        self.reference = reference
        self.sequence = sequence
        self.elementwise = elementwise
        self.selects = selects
        self.moves = moves
        self.reads_at = reads_at
        self.complex = moves if complex is None else complex
        self.floating = floating or reference is not None
        self.domain = domain
        self.option_domains = options or {}
        self.clash = clash
        self.__name__, self.__doc__, self.__module__ = self.name, forward.__doc__, forward.__module__
        self.__wrapped__ = forward
        self.built_in = self.__module__.startswith("tinygrad_attn.")
        signature = Signature(forward, sequence=sequence)
        self.bind = signature.bind
        self.parameters, self.variadic, self.options = signature.parameters, signature.variadic, signature.options
        self.formulas: dict[str, str] = {}
        self.rules: dict[str, Callable[..., Any]] = {}
        self.joint_rule: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<operation {self.name}({', '.join([*self.parameters, *(f'{o}=' for o in self.options)])})>"

    def __reduce__(self) -> str:
        return self.name  # like a function, it is copied and pickled by reference

    # --- attaching rules -------------------------------------------------------------------------------------------

    def gradient(self, parameter: str, *, formula: str = "") -> Callable[[Rule], Rule]:
        """Attach the rule `(g, out, *inputs, **options) -> gradient` for one input.

        A variadic operation has one rule for all its inputs; it also gets `index=`, the position asked for.
        """
        self._check_parameter(parameter)

        def attach(rule: Rule) -> Rule:
            check_rule(self, rule, parameter, "out")
            self.rules[parameter] = rule
            self.formulas[parameter] = formula
            return rule

        return attach

    def gradients(self, *parameters: str, formula: str = "") -> Callable[[Rule], Rule]:
        """Attach the joint rule `(g, saved, *inputs, **options) -> tuple of gradients` of a fused operation."""
        if self.reference is None:
            raise GradientError(f"{self.name}: only a fused operation (one with reference=) may have a joint rule")
        for parameter in parameters:
            self._check_parameter(parameter)
        formulas = [part.strip() for part in formula.split(";")] if formula else []

        def attach(rule: Rule) -> Rule:
            check_rule(self, rule, ", ".join(parameters), "saved")
            self.joint_rule = rule
            for position, parameter in enumerate(parameters):
                self.rules[parameter] = rule
                self.formulas[parameter] = formulas[position] if position < len(formulas) else formula
            return rule

        return attach

    def _check_parameter(self, parameter: str) -> None:
        if parameter not in self.parameters:
            raise GradientError(
                f"{self.name} has no input {parameter!r}\n  its inputs are {', '.join(self.parameters)}"
            )

    # --- calling ---------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the forward formula; record a Node if an input requires a gradient and recording is on."""
        inputs, options = self.bind(args, kwargs)
        modes = MODES.get()
        traced, recording, written = False, False, False
        for value in inputs:
            if isinstance(value, Tensor):
                traced = True
                recording = recording or (value.requires_grad and modes.record)
            elif isinstance(value, (list, tuple)):
                written = True
        if written:
            inputs = operands.written_out(self, inputs)
        if not self.complex:
            explain.refuse_complex(self, inputs)
        if self.floating:
            inputs = operands.floating(self, inputs)
        if options is not self.options:
            options = operands.plain_options(self, options, modes.record)
        if modes.unfused and self.reference is not None:
            return self.reference(*inputs, **options)
        if recording:
            inputs = operands.constants(self, inputs)
            options = {name: operands.own_copy(value) for name, value in options.items()} if options else options
            self._check_differentiable(inputs)
        arrays = [value._data if isinstance(value, Tensor) else value for value in inputs]
        if not self.built_in:
            arrays = [operands.read_only(array) for array in arrays]
        try:
            result = self.forward(*arrays, **options)
        except TinygradAttnError:
            raise
        except (ValueError, IndexError, TypeError) as error:
            raise explain.failure(self, inputs, options, error) from error
        if self.reference is not None or result is None or isinstance(result, tuple):
            explain.check_result(self, result)
        out, saved = (result, None) if self.reference is None else result
        if not traced:
            return out
        out = np.asarray(unmasked(out))
        if out.dtype.kind != "f":
            explain.check_numbers(self, inputs, out)
            recording = recording and out.dtype.kind == "c"  # whole numbers and booleans have no gradient
        node = Node(self, inputs, options, saved, modes.scope) if recording else None
        if modes.detect_anomaly:
            explain.watch_forward(self, node, out, arrays, options)
        result = Tensor._made_by(out, node)
        is_view = out.base is not None
        for array in arrays:
            is_view = is_view or out is array
        if is_view:
            result._share_memory(inputs)
        return result

    def named_inputs(self, inputs: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """Pairs of parameter name and operand; the inputs of a variadic operation are numbered."""
        for index, value in enumerate(inputs):
            yield self.parameter_at(index), value

    def parameter_at(self, index: int) -> str:
        """Name of the operand at `index`, such as "b" or "arrays[2]"."""
        first = len(self.parameters) - 1
        if self.variadic and index >= first:
            return f"{self.parameters[-1]}[{index - first}]"
        return self.parameters[index]

    def differentiates(self, index: int) -> bool:
        """Whether there is a gradient rule for the operand at `index`."""
        return self._rule_name(index) in self.rules

    def _check_differentiable(self, inputs: tuple[Any, ...]) -> None:
        for index, value in enumerate(inputs):
            if isinstance(value, Tensor) and value.requires_grad and self._rule_name(index) not in self.rules:
                raise explain.no_rule(self, index)

    def _rule_name(self, index: int) -> str:
        return self.parameters[min(index, len(self.parameters) - 1)]

    # --- running rules ---------------------------------------------------------------------------------------------

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
        """Run the rules of the `wanted` inputs of `node`; each gradient is folded, cast and checked.

        With `create_graph` the rules get Tensors, and a fused operation is differentiated through its reference.
        Rules see and return the conjugate of what gradients of complex numbers are elsewhere (docs/complex.md).
        Elements in `untaken` were not taken by a `where` that the gradient came through: they send exactly zero, also
        where the local derivative is NaN or infinite.
        """
        if create_graph and self.reference is not None:
            raw = self._pull_through_reference(self.reference, node, gradient, wanted)
        else:
            values = node.inputs if create_graph else tuple(plain(value) for value in node.inputs)
            raw = self._pull_rules(node, gradient.conj(), out if create_graph else out._data, values, wanted)
            raw = raw if create_graph else [(index, plain(contribution)) for index, contribution in raw]
        if untaken is not None and self.elementwise:
            raw = [(index, np.where(untaken, 0.0, contribution)) for index, contribution in raw]
        settled = [(index, self._settle(contribution, node.inputs[index], index)) for index, contribution in raw]
        if MODES.get().detect_anomaly:
            explain.watch_backward(node, plain(gradient), out, settled)
        return settled

    def untaken_of(self, node: Node, out: Tensor, wanted: Sequence[int], untaken: Any) -> dict[int, Any]:
        """Which elements of each wanted input go only into elements of the result that a `where` has not taken.

        Args:
            untaken: those elements of the result, boolean; None if all are taken or it is not known.
        Returns:
            By operand index, a boolean array in the operand's shape; nothing where it is not known.
        """
        if untaken is None and not self.selects:
            return {}
        taken = np.ones(out.shape) if untaken is None else 1.0 - untaken
        if self.selects or self.moves:
            values = tuple(plain(value) for value in node.inputs)
            reached = self._pull_rules(node, taken, out._data, values, wanted)
        else:
            reached = [(index, taken) for index in wanted] if self.elementwise else []
        return {index: fold(where, node.inputs[index].shape) == 0.0 for index, where in reached}

    def _pull_rules(
        self, node: Node, gradient: Gradient, out: Any, values: tuple[Any, ...], wanted: Sequence[int]
    ) -> list[tuple[int, Any]]:
        if not self.built_in:  # the same arrays are on their way to others
            gradient, out = operands.read_only(gradient), operands.read_only(out)
            values = tuple(operands.read_only(value) for value in values)
        if self.joint_rule is not None:
            answers = self.joint_rule(gradient, node.saved, *values, **node.options)
            if not isinstance(answers, tuple) or len(answers) != len(self.rules):
                raise explain.wrong_number(self, answers)
            by_name = dict(zip(self.rules, answers, strict=True))
            return [(index, by_name[self.parameters[index]]) for index in wanted]
        rules = [(index, self.rules[self._rule_name(index)]) for index in wanted]
        if self.variadic:
            return [(index, rule(gradient, out, *values, index=index, **node.options)) for index, rule in rules]
        return [(index, rule(gradient, out, *values, **node.options)) for index, rule in rules]

    def _pull_through_reference(
        self, reference: Callable[..., Any], node: Node, gradient: Gradient, wanted: Sequence[int]
    ) -> list[tuple[int, Any]]:
        """Differentiate the reference, written with primitive operations, in place of the kernel."""
        stand_ins = list(node.inputs)
        for index in wanted:
            stand_ins[index] = identity(node.inputs[index])
        with enable_grad():
            out = reference(*stand_ins, **node.options)
        targets = [stand_ins[index] for index in wanted]
        found: dict[int, Gradient] = {}
        stop = {id(value) for value in stand_ins if isinstance(value, Tensor)}
        for step in sweep([out], [gradient], targets=targets, stop=stop, create_graph=True):
            found[id(step.tensor)] = step.gradient
        return [
            (index, found.get(id(target), np.zeros(target.shape, target.dtype)).conj())  # as a rule would say it
            for index, target in zip(wanted, targets, strict=True)
        ]

    def _settle(self, gradient: Any, source: Tensor, index: int) -> Gradient:
        """Fold a rule's answer to the shape that was broadcast, give it the input's dtype, and conjugate it."""
        values = source._data
        try:
            if gradient.shape != values.shape:
                gradient = fold(gradient, values.shape)
            if gradient.dtype != values.dtype:
                if gradient.dtype.kind == "c" and values.dtype.kind == "f" and self.complex:
                    gradient = gradient.real  # a real number moves along the real axis alone
                if gradient.dtype.kind not in ("fiubc" if self.complex else "fiub"):
                    raise TypeError
                gradient = gradient.astype(values.dtype)
            gradient = gradient.conj()
        except (AttributeError, ValueError, TypeError) as error:
            raise explain.impossible_answer(self, index, gradient, source) from error
        return cast(Gradient, gradient)


@overload
def op(function: Callable[..., Any], /) -> Operation: ...
@overload
def op(*numpy_functions: Callable[..., Any], **settings: Any) -> Callable[[Callable[..., Any]], Operation]: ...
def op(*numpy_functions: Callable[..., Any], **settings: Any) -> Any:
    """Make an `Operation` of a function on plain arrays.

    Args:
        *numpy_functions: the NumPy functions that run it when they are called with a Tensor.
        **settings: `symbol`, `reference`, `sequence` (the inputs come as one list), `elementwise`, `selects`,
            `moves`, `floating`, `reads_at`, `complex`, `domain`, `options` (what a test may draw for each option) and
            `clash` (explains why shapes do not fit).

    Usable bare as well:

    >>> import tinygrad_attn as ta
    >>> @ta.op
    ... def cube(x):
    ...     return x * x * x
    >>> @cube.gradient("x", formula="dx = 3x² dy")
    ... def _(g, out, x):
    ...     return g * 3.0 * x * x
    >>> x = ta.Tensor([1.0, 2.0], requires_grad=True)
    >>> cube(x).sum().backward()
    >>> x.grad
    array([ 3., 12.], dtype=float32)
    """
    for function in numpy_functions:
        if not callable(function):
            raise ArgumentError(
                "op: expected the function to decorate, or the NumPy functions that it stands behind\n"
                f"  given {function!r}; a symbol is given as symbol="
            )
    if len(numpy_functions) == 1 and not settings and _is_users_own(numpy_functions[0]):
        return _register(Operation(numpy_functions[0]), ())

    def make(forward: Callable[..., Any]) -> Operation:
        return _register(Operation(forward, **settings), numpy_functions)

    return make


def _is_users_own(function: Callable[..., Any]) -> bool:
    """Whether `@op` stands bare above `function`, rather than naming a NumPy function."""
    return inspect.isfunction(function) and not function.__module__.startswith("numpy")


def _register(operation: Operation, numpy_functions: tuple[Callable[..., Any], ...]) -> Operation:
    for function in numpy_functions if not operation.built_in else ():
        if function not in REFUSED and getattr(IMPLEMENTATIONS.get(function, operation), "built_in", True):
            raise ArgumentError(
                f"op: {numpy_name(function)} has an operation already, which others are written with\n"
                f"  leave it out, and call {operation.name} by its own name"
            )
    implements(*numpy_functions)(operation)
    home = operation.__module__
    own = operation.built_in and not home.startswith("tinygrad_attn.scipy.")
    OPERATIONS[operation.name if own else f"{home}.{operation.name}"] = operation
    return operation


@op(np.copy, elementwise=True, complex=True, domain=lambda choose: (choose.reals(choose.shape()),))
def identity(x: Any) -> Any:
    """The same values as a tensor of its own.

    y = x
    """
    return np.positive(x)


@identity.gradient("x", formula="dx = dy")
def _(g: Any, out: Any, x: Any) -> Any:
    return g
