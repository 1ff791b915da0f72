"""One run of the gradient checker: send a gradient in, pull it back, and measure each slope beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tinygrad_attn import graph, rng
from tinygrad_attn.diagnose.explanation import label
from tinygrad_attn.errors import CheckError
from tinygrad_attn.gradcheck_doubt import Element, second_look
from tinygrad_attn.gradcheck_oracles import UNDERFLOW, ComplexStep, products
from tinygrad_attn.gradcheck_report import Array, Fault, Found, InputCheck, OracleCheck
from tinygrad_attn.modes import enable_grad, is_grad_enabled, no_grad
from tinygrad_attn.numerical import EPSILON, HUGE, SAFETY, Slope, Vector, noise_of, slope
from tinygrad_attn.tensor import Tensor, plain

JVP = "jvp against vjp"
SURE = 20  # elements of an input that are wrong at a second look too: the others need none

FlatFunction = Callable[[Sequence[Tensor]], list[Any]]


class Variable(NamedTuple):
    """An array to move; `leaf` is the Tensor that owns it where it is a parameter, else None."""

    name: str
    array: Array
    excluded: Array
    leaf: Tensor | None = None


@dataclass(frozen=True)
class Check:
    """One run of the checker: derivatives up to `order` of one function; with `jvp`, pushed forward as well."""

    subject: str
    order: int
    rtol: float
    seed: int
    jvp: bool = True

    def run(self, function: FlatFunction, variables: list[Variable]) -> tuple[list[InputCheck], list[OracleCheck]]:
        """Compare order after order: each gradient, once it is known to be right, is differentiated in turn."""
        generator = np.random.default_rng(self.seed)
        checks: list[InputCheck] = []
        oracles: list[OracleCheck] = []
        of_order, known = function, variables
        for order in range(1, self.order + 1):
            made, oracle, upstreams = self._compare(of_order, known, order, generator)
            checks += made
            oracles.append(oracle)
            of_order, known = _derivative(of_order, len(known)), [*known, *upstreams]
        # Last, since an order above the first finds the same mistakes and says more about them.
        if self.jvp:
            oracles += self._jvp_against_vjp(function, variables, generator)
        return checks, oracles

    def _compare(
        self, function: FlatFunction, variables: list[Variable], order: int, generator: np.random.Generator
    ) -> tuple[list[InputCheck], OracleCheck, list[Variable]]:
        """Compare the gradient of `function`; also returns the gradients that were sent in, as variables."""
        outputs, leaves = self.record(function, variables)
        upstreams = [_uneven(plain(output), generator) for output in outputs]
        analytic = self._pull_twice(outputs, leaves, upstreams, variables, order)
        cancelled = _cancelled(outputs, upstreams)
        evaluate = self._evaluator(function, variables)
        base = self._settled(evaluate, outputs, variables, order)
        upstream = _vector(upstreams)
        arrays = [variable.array for variable in variables]
        noise = noise_of(evaluate, arrays, base, generator)
        rounding = SAFETY * max(noise * float(np.sum(np.abs(upstream))), cancelled)
        floors = [_floor(rounding, variable.array, g) for variable, g in zip(variables, analytic, strict=True)]
        checks = []
        measured: list[list[Fault]] = []
        kinks: list[Fault] = []
        for variable, gradient, floor in zip(variables, analytic, floors, strict=True):
            compared: list[Fault] = []
            sure = 0
            for index in np.ndindex(variable.array.shape):
                if not variable.excluded[index]:
                    found = slope(evaluate, variable.array, index, upstream, base, noise, cancelled)
                    fault = self._fault(variable.name, order, index, gradient, found, floor)
                    if fault.is_wrong and sure < SURE:
                        element = Element(evaluate, variable.array, index, upstream, base, noise, cancelled)
                        fault = second_look(fault, element, outputs, self.rtol)
                        sure += fault.is_wrong
                    compared.append(fault)
            wrong = [fault for fault in compared if fault.is_wrong]
            if wrong:
                raise Found(variable.name, order, wrong, compared=len(compared))
            kinks += [fault for fault in compared if fault.is_kink]
            measured.append(compared)
            checks.append(_summary(variable, order, compared, self.rtol))
        if kinks:
            raise Found(kinks[0].name, order, kinks[:1])
        complex_step = ComplexStep(outputs, leaves, generator)
        oracle = self._compare_complex(complex_step, measured, arrays, upstreams, floors, order)
        if order == 1:
            names = ["dy"] if len(outputs) == 1 else [f"dy[{i}]" for i in range(len(outputs))]
        else:  # the outputs are gradients themselves
            names = [f"at d{variable.name}" for variable in variables[: len(outputs)]]
        masks = [~np.isfinite(plain(output)) for output in outputs]
        return checks, oracle, [Variable(*parts) for parts in zip(names, upstreams, masks, strict=True)]

    def _fault(
        self, name: str, order: int, index: tuple[int, ...], gradient: Array, found: Slope, floor: Array
    ) -> Fault:
        """One element of a gradient beside the slope there, and how far apart they may be."""
        ours, size = float(gradient[index]), abs(found.value)
        size = max(size, abs(ours)) if np.isfinite(ours) else size
        return Fault(name, order, index, ours, found, self.rtol * size + found.uncertainty + float(floor[index]))

    def _compare_complex(
        self,
        oracle: ComplexStep,
        measured: list[list[Fault]],
        arrays: list[Array],
        upstreams: list[Array],
        floors: list[Array],
        order: int,
    ) -> OracleCheck:
        """Compare every element once more, with the complex step if every formula on the way allows it.

        Where it is far from the differences, with which the rule agrees, a formula does not allow it after all.
        """
        name = "complex step"
        if oracle.refused:
            return OracleCheck(name, order, 0, 0.0, f"by the formula of {oracle.refused}")
        lost = UNDERFLOW * float(sum(np.abs(upstream).sum() for upstream in upstreams))
        worst, unresolved = 0.0, 0
        for position, (compared, floor) in enumerate(zip(measured, floors, strict=True)):
            exact: list[Fault] = []
            for fault in compared:
                value, ours = oracle.slope(position, fault.index, upstreams), fault.analytic
                size, small = max(abs(ours), abs(value)), min(1.0, abs(float(arrays[position][fault.index])) or 1.0)
                hidden = float(floor[fault.index]) / small + lost
                tolerance = self.rtol * size + hidden
                if not abs(value - fault.slope.value) <= tolerance + fault.slope.uncertainty:
                    return OracleCheck(name, order, 0, 0.0, f"differences contradict it at {fault.place}")
                found = Slope(value, 0.0, 0.0, value, value, "smooth")
                exact.append(replace(fault, slope=found, tolerance=tolerance))
                worst = max(worst, abs(ours - value) / size if size > 1000.0 * hidden else 0.0)
                unresolved += size > 0.0 and tolerance > 1000.0 * self.rtol * size
            wrong = [fault for fault in exact if fault.is_wrong]
            if wrong:
                raise Found(wrong[0].name, order, wrong, compared=len(exact), oracle=name)
        return OracleCheck(name, order, sum(map(len, measured)), worst, unresolved=unresolved)

    def _jvp_against_vjp(
        self, function: FlatFunction, variables: list[Variable], generator: np.random.Generator
    ) -> list[OracleCheck]:
        """Compare ⟨u, J t⟩ with ⟨Jᵀu, t⟩, by the inputs that `function` takes; its parameters are none of them."""
        inputs = [variable for variable in variables if variable.leaf is None]
        if not inputs:
            return []
        name = JVP
        outputs, _ = self.record(function, variables)
        upstreams = [_uneven(plain(output), generator) for output in outputs]

        def floating(values: Sequence[Tensor]) -> list[Any]:
            return _floating_outputs(function(values))

        arrays, fixed = [v.array for v in inputs], [v.excluded for v in inputs]
        found = products(floating, arrays, fixed, upstreams, generator)
        if found is None:
            return [OracleCheck(name, 1, 0, 0.0, "a rule has no derivative of its own")]
        error = abs(found.by_jvp - found.by_vjp)
        if error > self.rtol * found.size + SAFETY * _cancelled(outputs, upstreams):
            reason = (
                f"jvp and vjp disagree along random directions\n"
                f"  ⟨u, J t⟩ = {found.by_jvp:.9g}, ⟨Jᵀu, t⟩ = {found.by_vjp:.9g}\n"
                "  is a rule not linear in the gradient that arrives, or does it take it for a constant?"
            )
            raise Found(inputs[0].name, 1, reason=reason, oracle=name)
        return [OracleCheck(name, 1, 1, error / found.size if found.size else 0.0)]

    def record(self, function: FlatFunction, variables: list[Variable]) -> tuple[list[Any], list[Tensor]]:
        """Run `function` with its graph recorded; returns its floating outputs and the leaves."""
        leaves = [v.leaf if v.leaf is not None else Tensor(v.array, requires_grad=True) for v in variables]
        before = [variable.array.copy() for variable in variables]
        with enable_grad():
            outputs = _floating_outputs(function(leaves))
        for leaf, variable, values in zip(leaves, variables, before, strict=True):
            if not np.array_equal(plain(leaf), values, equal_nan=True):
                raise CheckError(f"gradcheck: {self.subject} changes its input {variable.name} in place")
        if not outputs:
            raise CheckError(f"gradcheck: {self.subject} returns nothing floating to differentiate")
        for tensor in graph.topological_order([o for o in outputs if isinstance(o, Tensor)]):
            if tensor.dtype not in (np.float64, np.complex128):
                made = tensor.node.operation.name if tensor.node is not None else tensor.name or "a leaf"
                raise CheckError(
                    f"gradcheck: {self.subject} computes in {tensor.dtype} at {made}; differences need float64\n"
                    "  look for float32 constants, parameters or conversions on the way;\n"
                    "  a module computes in float64 after module.to(np.float64)"
                )
        if any(np.isnan(plain(output)).any() for output in outputs):
            raise CheckError(f"gradcheck: {self.subject} returns NaN here; detect_anomaly() names where it arises")
        return outputs, leaves

    def _pull_twice(
        self, outputs: list[Any], leaves: list[Tensor], upstreams: list[Array], variables: list[Variable], order: int
    ) -> list[Array]:
        made = graph.topological_order([output for output in outputs if isinstance(output, Tensor)])
        before = [np.array(plain(tensor)) for tensor in made]
        first, second = ([np.array(plain(g)) for g in _pull(outputs, leaves, upstreams)] for _ in range(2))
        for tensor, values in zip(made, before, strict=True):
            if not np.array_equal(plain(tensor), values, equal_nan=True):
                of_variable = [v.name for v, leaf in zip(variables, leaves, strict=True) if leaf is tensor]
                what = of_variable[0] if of_variable else label(tensor)
                reason = f"a backward pass of {self.subject} changes {what} in place"
                raise Found(variables[0].name, order, reason=reason, unsteady=True)
        for variable, one, two in zip(variables, first, second, strict=True):
            if one.shape != variable.array.shape:
                shapes = f"has shape {one.shape}\n  expected {variable.array.shape}, the shape of {variable.name}"
                raise Found(variable.name, order, reason=f"the gradient of {variable.name} {shapes}")
            if not np.array_equal(one, two, equal_nan=True):
                reason = (
                    f"two backward passes of {self.subject} give different gradients of {variable.name}\n"
                    "  does a rule draw random numbers, or change what its forward pass has saved?"
                )
                raise Found(variable.name, order, reason=reason, unsteady=True)
        return first

    def _evaluator(self, function: FlatFunction, variables: list[Variable]) -> Callable[[], Vector]:
        """The values of `function` for whatever the variables' arrays hold when it is called."""
        probes = [v.leaf if v.leaf is not None else Tensor.from_own(v.array) for v in variables]

        def evaluate() -> Vector:
            with no_grad(), np.errstate(all="ignore"):
                return _vector([plain(output) for output in _floating_outputs(function(probes))])

        return evaluate

    def _same_recorded(
        self, recorded: Vector, base: Vector, scale: float, evaluate: Callable[[], Vector], variables: list[Variable]
    ) -> bool:
        """Whether recording changes no value by more than rounding: another order of the same operations may run."""
        if np.allclose(recorded, base, rtol=1e-9, atol=1e-10 * scale):
            return True
        noise = noise_of(evaluate, [v.array for v in variables], base, np.random.default_rng(self.seed))
        return bool(np.allclose(recorded, base, rtol=1e-9, atol=1e-10 * scale + SAFETY * noise))

    def _settled(
        self, evaluate: Callable[[], Vector], outputs: list[Any], variables: list[Variable], order: int
    ) -> Vector:
        """The values of f, once it is sure that they depend on nothing but the inputs."""
        base, state = evaluate(), str(rng.get_state())
        values = [base, evaluate()]
        drew = str(rng.get_state()) != state
        values += [evaluate(), _vector([plain(output) for output in outputs])]
        scale = float(np.max(np.abs(base[np.isfinite(base)]), initial=0.0))
        if any(v.shape != base.shape for v in values) or drew:
            same = False
        else:
            same = all(np.allclose(v, base, rtol=1e-12, atol=1e-13 * scale) for v in values[:-1])
        if not same:
            raise CheckError(
                f"gradcheck: {self.subject} answers differently each time, so no slope can be measured\n"
                "  is there dropout in it? evaluate it with training=False, or draw from a\n"
                "  generator made inside f"
            )
        if not self._same_recorded(values[-1], base, scale, evaluate, variables):
            if order == 1:
                raise CheckError(f"gradcheck: {self.subject} answers differently when recorded than under no_grad()")
            at = int(np.argmax(np.abs(values[-1] - base)))
            sizes = np.cumsum([output.size for output in outputs])
            name = variables[int(np.searchsorted(sizes, at, side="right"))].name
            reason = (
                f"with create_graph=True the gradient of {name} is another one\n"
                f"  {values[-1][at]:.9g} recorded, {base[at]:.9g} in an ordinary backward pass"
            )
            raise Found(name, order, reason=reason)
        return base


def _summary(variable: Variable, order: int, compared: list[Fault], rtol: float) -> InputCheck:
    absolute = np.array([abs(fault.analytic - fault.slope.value) for fault in compared if not fault.is_kink])
    size = np.array([max(abs(f.analytic), abs(f.slope.value)) for f in compared if not f.is_kink])
    tolerance = np.array([fault.tolerance for fault in compared if not fault.is_kink])
    resolved = tolerance <= 1000.0 * rtol * size
    relative = absolute[resolved] / np.where(size[resolved] == 0.0, 1.0, size[resolved])
    return InputCheck(
        name=variable.name,
        shape=variable.array.shape,
        order=order,
        elements=len(compared),
        excluded=variable.array.size - len(compared),
        unresolved=int(np.sum(~resolved & (size > 0.0))),
        max_relative_error=float(np.max(relative, initial=0.0)),
        max_absolute_error=float(np.max(absolute, initial=0.0)),
    )


def _floor(rounding: float, x: Array, gradient: Array) -> Array:
    """How far each element of a gradient may be off by rounding, if a value is off by `rounding`: see `HUGE`."""
    largest = float(np.max(np.abs(gradient[np.isfinite(gradient)]), initial=0.0))
    return np.asarray(rounding / np.maximum(1.0, np.abs(x) / HUGE) + SAFETY * EPSILON * largest)


def _uneven(output: Array, generator: np.random.Generator) -> Array:
    """A gradient to send in: random signs and sizes, none near zero; zero where the output is infinite."""
    sizes = generator.uniform(0.5, 1.5, output.shape) * generator.choice([-1.0, 1.0], output.shape)
    return np.asarray(np.where(np.isfinite(output), sizes, 0.0))


def _floating_outputs(outputs: list[Any]) -> list[Any]:
    return [output for output in outputs if getattr(output, "dtype", np.dtype(bool)).kind == "f"]


def _vector(arrays: Sequence[Array]) -> Vector:
    """All values in one row of their own memory."""
    return np.concatenate([np.ravel(array) for array in arrays]).astype(np.float64)


def _pull(
    outputs: Sequence[Any], leaves: Sequence[Tensor], upstreams: Sequence[Any], *, create_graph: bool = False
) -> list[Any]:
    """The gradients of Σ upstream∘output, zeros where an input has no influence."""
    pairs = [(o, u) for o, u in zip(outputs, upstreams, strict=True) if isinstance(o, Tensor) and o.requires_grad]
    found: dict[int, Any] = {}
    roots, starts = [o for o, _ in pairs], [u for _, u in pairs]
    for step in graph.sweep(roots, starts, targets=leaves, create_graph=create_graph):
        found[id(step.tensor)] = step.gradient
    return [found.get(id(leaf), np.zeros(leaf.shape, leaf.dtype)) for leaf in leaves]


def _cancelled(outputs: Sequence[Any], upstreams: Sequence[Any]) -> float:
    """Rounding error of L = Σ upstream∘output: every value v on the way is off by ε v, which moves L by ε v ∂L/∂v."""
    total = 0.0
    pairs = [(o, u) for o, u in zip(outputs, upstreams, strict=True) if isinstance(o, Tensor) and o.requires_grad]
    with np.errstate(all="ignore"):
        for step in graph.sweep([o for o, _ in pairs], [u for _, u in pairs]):
            moved = np.square(np.abs(step.gradient * plain(step.tensor)))
            total += float(np.sum(moved[np.isfinite(moved)]))
    return EPSILON * float(np.sqrt(total))


def _derivative(function: FlatFunction, count: int) -> FlatFunction:
    """The gradient as a function of the variables and of the gradients that arrive; recorded if that is wanted."""

    def gradient(values: Sequence[Tensor]) -> list[Any]:
        inputs, upstreams = values[:count], values[count:]
        record = is_grad_enabled()
        with enable_grad():
            leaves = [value if value.requires_grad else _leaf(value) for value in inputs]
            outputs = _floating_outputs(function(leaves))
            sent = upstreams if record else [plain(upstream) for upstream in upstreams]
            return _pull(outputs, leaves, sent, create_graph=record)

    return gradient


def _leaf(value: Tensor) -> Tensor:
    leaf = Tensor.from_own(plain(value))
    leaf.requires_grad = True
    return leaf
