"""The gradient checker: every element of every gradient against the slope of the function itself.

    gradcheck(f, x, y)              first derivatives
    gradgradcheck(f, x, y)          and second ones
    check_operation(ta.softmax)     an operation, on inputs drawn from its domain

It stands apart from the rules: the slopes come from values of f alone (`numerical.py`). Two more oracles are asked
where they have an answer, the complex step and jvp against vjp (`gradcheck_oracles.py`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from tinygrad_attn import rng
from tinygrad_attn.diagnose.explanation import at, first_place, label
from tinygrad_attn.domain import RandomChooser
from tinygrad_attn.errors import CheckError, GradientMismatch, NotDifferentiableError, OptionError, TinygradAttnError
from tinygrad_attn.gradcheck_compare import Check, FlatFunction, Variable
from tinygrad_attn.gradcheck_complex import in_real_parts, is_complex
from tinygrad_attn.gradcheck_culprit import culprit
from tinygrad_attn.gradcheck_report import (
    Array,
    Found,
    GradcheckReport,
    OperationCheck,
    fitted,
    kink_text,
    mismatch_text,
)
from tinygrad_attn.operation import Operation
from tinygrad_attn.structure import flatten, rebuild
from tinygrad_attn.tensor import Tensor, plain


def gradcheck(
    f: Callable[..., Any],
    *inputs: Any,
    order: int = 1,
    rtol: float = 1e-6,
    seed: int = 0,
    exclude: Mapping[str, ArrayLike] | None = None,
    parameters: Sequence[Tensor] = (),
    **options: Any,
) -> GradcheckReport:
    """Compare every element of the gradient of `f` with central differences, in float64.

    The gradient that arrives at the output is random and uneven, never ones: ones hide whole classes of mistakes (the
    gradient of softmax is then zero whatever its rule says). An element may be wrong by `rtol` of itself and by what
    rounding can do to the differences, no more: a rule that is off by a factor is found on values near 1e-8 as well.

    Where every formula on the way takes complex numbers, each element is compared with the complex step too, which
    sees what rounding hides from differences; and J t of `jvp` must be consistent with Jᵀu of `vjp`. The report says
    what could be asked.

    Args:
        f: a function of Tensors, or an `Operation`; returns a Tensor, or a list, tuple or dict of them.
        *inputs: arrays, Tensors, floats, or lists, tuples or dicts of them. Floating ones are checked; if some are
            Tensors with requires_grad=True, only those. Of an operation, those that have a rule. A complex z is
            checked as z.real and z.imag.
        order: 2 checks second derivatives too, by the gradient and by the gradient that arrives.
        rtol: relative error that is tolerated.
        seed: of the gradient that arrives.
        exclude: elements that get no gradient by intention, such as the padding row of an embedding: input name to
            boolean array, True = do not compare.
        parameters: leaf Tensors that `f` uses without taking them as inputs, such as those of a module.
        **options: passed on to `f`.
    Returns:
        A report with the largest errors; print it.
    Raises:
        GradientMismatch: a gradient is wrong; says where, by how much, and which operation's rule is at fault.
        NotDifferentiableError: there is nothing to compare with here: left and right slopes differ, or the function
            jumps, leaves its domain, overflows, moves in steps, or has waves finer than the digits of its input.
        CheckError: the check cannot be made: float32, NaN, a function that answers differently each time, or a rule
            that changes what it is given.
        OptionError: `order` below 1, or a negative `rtol`.

    >>> import tinygrad_attn as ta
    >>> print(gradcheck(ta.multiply, [1.0, 2.0], [3.0, -1.0]))  # doctest: +ELLIPSIS
    multiply: gradients agree with central differences (largest errors)
      order  input  shape  compared  relative  absolute
      1      a      (2,)   2         ...
      1      b      (2,)   2         ...
      complex step, order 1: agrees, 4 compared, ...
      jvp against vjp, order 1: agrees, 1 compared, ...
    """
    if order < 1 or not rtol >= 0.0:
        raise OptionError(f"gradcheck: order must be 1 or more, and rtol 0 or more\n  given {order=}, {rtol=}")
    subject = f.name if isinstance(f, Operation) else getattr(f, "__name__", type(f).__name__)
    subject = "f" if subject == "<lambda>" else subject
    function, variables = _prepare(f, inputs, options, exclude or {}, parameters)
    check = Check(subject, order, rtol, seed)
    kept = rng.get_state()
    try:
        with np.errstate(all="ignore"):
            try:
                checks, oracles = check.run(function, variables)
                return GradcheckReport(subject, tuple(checks), tuple(oracles))
            except Found as found:
                _report(check, function, variables, found)
    finally:
        rng.set_state(kept)


def gradgradcheck(f: Callable[..., Any], *inputs: Any, **settings: Any) -> GradcheckReport:
    """Compare first and second derivatives with central differences: `gradcheck` with order=2.

    >>> gradgradcheck(lambda x: x**3, 2.0).elements  # dx; then d²x, and the same by the gradient that arrives
    3
    """
    return gradcheck(f, *inputs, order=2, **settings)


def check_operation(operation: Operation, *, draws: int = 20, order: int = 2, seed: int = 0) -> OperationCheck:
    """Check an operation on random inputs and options from its domain; the first failure is returned, not raised.

    Raises:
        CheckError: the operation has no domain.

    >>> import tinygrad_attn as ta
    >>> check_operation(ta.softmax, draws=3).passed
    True
    """
    if operation.domain is None:
        raise CheckError(
            f"{operation.name} does not say which inputs may be drawn\n"
            "  pass domain= to @op, or call gradcheck with inputs of your own"
        )
    generator = np.random.default_rng(seed)
    choose = RandomChooser(generator)
    worst = dict.fromkeys(range(1, order + 1), 0.0)
    elements = 0
    for draw in range(draws):
        inputs = operation.domain(choose)
        options = {name: option(choose, inputs) for name, option in operation.option_domains.items()}
        arguments = (list(inputs),) if operation.sequence else inputs
        try:
            report = gradcheck(operation, *arguments, order=order, seed=int(generator.integers(2**31)), **options)
        except TinygradAttnError as error:
            return OperationCheck(operation.name, draw + 1, elements, worst, error)
        elements += report.elements
        for check in report.checks:
            worst[check.order] = max(worst[check.order], check.max_relative_error)
    return OperationCheck(operation.name, draws, elements, worst)


def _report(check: Check, function: FlatFunction, variables: list[Variable], found: Found) -> NoReturn:
    """Raise the error for what was found, and name the operation whose rule is at fault."""
    worst = max(found.faults, key=lambda fault: fault.severity, default=None)
    error: type[GradientMismatch] = GradientMismatch
    if worst is not None and found.is_kink:
        operation, text, error = check.subject, kink_text(check.subject, worst), NotDifferentiableError
    else:
        operation, blame, kinks = culprit(check, function, variables, found)
        if found.unsteady:
            raise CheckError(fitted(f"gradcheck: {found.reason}" + (f"\n  {blame}" if operation else ""))) from None
        text = mismatch_text(check.subject, found, blame)
        if worst is not None and kinks and not any(np.isfinite(fault.analytic) for fault in found.faults):
            text, error = kink_text(check.subject, worst, kinks), NotDifferentiableError
    raise error(
        text,
        operation=operation,
        input=found.variable,
        index=() if worst is None else worst.index,
        analytic=math.nan if worst is None else worst.analytic,
        numeric=math.nan if worst is None else worst.slope.value,
    ) from None


# --- what is varied ------------------------------------------------------------------------------------------------


def _prepare(
    f: Callable[..., Any],
    inputs: tuple[Any, ...],
    options: dict[str, Any],
    exclude: Mapping[str, ArrayLike],
    parameters: Sequence[Tensor],
) -> tuple[FlatFunction, list[Variable]]:
    """Write `f` as a function from a list of variables to a list of outputs."""
    if isinstance(f, Operation):
        inputs, options = f.bind(inputs, dict(options))
        leaves: list[Any] = list(inputs)
        names = [name for name, _ in f.named_inputs(leaves)]
        differentiable = [f.parameters[min(i, len(f.parameters) - 1)] in f.rules for i in range(len(leaves))]
    else:
        leaves, names = [], []
        for name, value in zip(_parameter_names(f, len(inputs)), inputs, strict=True):
            leaves += flatten(value)
            names += _part_names(name, value)
        differentiable = [True] * len(leaves)
    marked = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves)
    variables: list[Variable] = []
    positions: list[int] = []
    for position, (name, leaf) in enumerate(zip(names, leaves, strict=True)):
        if differentiable[position] and (not marked or (isinstance(leaf, Tensor) and leaf.requires_grad)):
            array = _floating(leaf, name)
            if array is not None:
                positions.append(position)
                variables.append(Variable(name, array, _mask(exclude.get(name, False), array, name)))
    for number, parameter in enumerate(parameters):
        name = parameter.name or f"parameters[{number}]"
        if parameter.node is not None or not parameter.requires_grad:
            raise CheckError(f"gradcheck: {name} must be a leaf that requires a gradient\n  given {label(parameter)}")
        if parameter.dtype != np.float64:
            raise CheckError(
                f"gradcheck: {name} is {parameter.dtype}; differences of such numbers are mostly rounding error\n"
                "  call module.to(np.float64) first"
            )
        array = plain(parameter)
        if is_complex(array):
            raise CheckError(f"gradcheck: the parameter {name} is complex\n  make it an input of the function")
        variables.append(Variable(name, array, _mask(exclude.get(name, False), array, name), parameter))
    unknown = set(exclude) - {variable.name for variable in variables}
    if unknown or not variables:
        known = ", ".join(variable.name for variable in variables) or "none: no input is floating (write 1.0, not 1)"
        raise CheckError(f"gradcheck: nothing to compare for {', '.join(sorted(unknown)) or 'f'}\n  inputs: {known}")

    def function(values: Sequence[Tensor]) -> list[Any]:
        filled = list(leaves)
        for position, value in zip(positions, values, strict=False):
            filled[position] = value
        if isinstance(f, Operation):
            return [f(filled, **options) if f.sequence else f(*filled, **options)]
        rest = iter(filled)
        arguments = [rebuild(value, [next(rest) for _ in flatten(value)]) for value in inputs]
        return flatten(f(*arguments, **options))

    return in_real_parts(function, variables)


def _parameter_names(f: Callable[..., Any], count: int) -> list[str]:
    """Names of the first `count` positional parameters of `f`."""
    try:
        parameters = list(inspect.signature(getattr(f, "forward", f)).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "inputs")
    return names + [f"{rest}[{i}]" for i in range(count - len(names))]


def _part_names(name: str, value: Any) -> list[str]:
    """A name for each leaf of an input, as one would write it: "x", "layers[0]['weight']"."""
    if value is None:
        return []
    if isinstance(value, dict):
        return [part for key, inner in value.items() for part in _part_names(f"{name}[{key!r}]", inner)]
    if isinstance(value, (list, tuple)) and not (len(found := flatten(value)) == 1 and found[0] is value):
        return [part for i, inner in enumerate(value) for part in _part_names(f"{name}[{i}]", inner)]
    return [name]


def _floating(value: Any, name: str) -> Array | None:
    """A copy of a floating input; None for anything else."""
    if isinstance(value, (Tensor, np.ndarray, np.inexact, float, complex, list, tuple)):
        array = np.array(plain(value), order="K", copy=True)
        if array.dtype in (np.float64, np.complex128):
            return array
        if array.dtype.kind in "fc":
            raise CheckError(
                f"gradcheck: {name} is {array.dtype}; differences of such numbers are mostly rounding error\n"
                f"  pass {name}.astype(np.{'float64' if array.dtype.kind == 'f' else 'complex128'})"
            )
    return None


def _mask(given: ArrayLike, array: Array, name: str) -> Array:
    """Elements that are not compared: the named ones, and infinite ones, which have no neighbourhood."""
    mask = np.asarray(given)
    try:
        excluded = np.broadcast_to(mask.astype(bool), array.shape) | np.isinf(array)
    except ValueError:
        raise CheckError(f"gradcheck: exclude[{name!r}] has shape {mask.shape}, the input {array.shape}") from None
    if np.isnan(array[~excluded]).any():
        raise CheckError(f"gradcheck: {name} holds NaN{at(first_place(np.isnan(array) & ~excluded))}")
    return excluded
