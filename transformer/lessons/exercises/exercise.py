"""What an exercise is: a formula, whose gradient is asked for, and the mistakes that are known.

Nothing here knows the right answers: they come from the engine, and in the tests from numerical derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

import tinygrad_attn as ta

Array = NDArray[Any]
Rule = Callable[..., Any]  # (g, out, *inputs) -> gradient, as the engine's own rules


@dataclass(frozen=True, eq=False)
class Mistake:
    """A wrong rule that people write, so that it is recognised by its numbers.

    Args:
        name: what went wrong, in a few words.
        says: why it is wrong, in a sentence or two; not the answer.
        rules: the wrong rule by the name of the input whose gradient it takes itself to be.
    """

    name: str
    says: str
    rules: Mapping[str, Rule]


@dataclass(frozen=True, eq=False)
class Exercise:
    """One formula whose gradients a reader writes.

    Args:
        title: what it is about, in a few words.
        task: what a reader should know before writing.
        forward: the formula, in NumPy that takes arrays and Tensors alike.
        inputs: draws the inputs, small ones first.
        formulas: by name of the inputs whose gradient is asked for: the rule, shown once it is right.
        mistakes: the wrong rules that are known.
        section: where docs/derivations.md derives it.
    """

    title: str
    task: str
    forward: Callable[..., Any]
    inputs: SearchStrategy[tuple[Array, ...]]
    formulas: Mapping[str, str]
    mistakes: tuple[Mistake, ...]
    section: int

    @property
    def name(self) -> str:
        """The name of its formula."""
        return self.forward.__name__

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the formula's inputs."""
        code = self.forward.__code__
        return code.co_varnames[: code.co_argcount]

    def gradient_of(self, parameter: str, case: Case) -> Array:
        """The right answer: ∂L/∂parameter, by the engine."""
        tensors = [
            ta.Tensor(value, requires_grad=name == parameter) if name in self.formulas else value
            for name, value in zip(self.parameters, case.inputs, strict=True)
        ]
        wanted = tensors[self.parameters.index(parameter)]
        (found,) = ta.gradients(self.forward(*tensors), [wanted], case.upstream)
        return np.asarray(found.numpy())


@dataclass(frozen=True, eq=False)
class Case:
    """Something to try a rule on.

    Args:
        inputs: the formula's inputs.
        out: its result.
        upstream: g = ∂L/∂out.
    """

    inputs: tuple[Array, ...]
    out: Array
    upstream: Array


@dataclass(frozen=True, eq=False)
class Answer:
    """What a rule gave for a case: a gradient, or a problem in words.

    Args:
        value: the array; None if there is none.
        problem: what was wrong before any number could be compared; "" if nothing was.
        line: where in the reader's file, or "".
    """

    value: Array | None = None
    problem: str = ""
    line: str = field(default="", compare=False)

    def agrees(self, right: Array) -> bool:
        """Whether this is the right gradient, in shape, and in numbers as far as its precision goes."""
        return self.value is not None and self.value.shape == right.shape and _close(self.value, right)

    def same(self, other: Answer) -> bool:
        """Whether two rules did the same, be it to fail in the same way."""
        if self.value is None or other.value is None:
            return self.value is other.value and self.problem.split(":")[0] == other.problem.split(":")[0]
        return self.value.shape == other.value.shape and _close(self.value, other.value)


def _close(one: Array, other: Array) -> bool:
    scale = np.max(np.abs(other), initial=0.0, where=np.isfinite(other))
    rounding = 1e-9 if one.dtype.itemsize >= 8 else 1e-5 if one.dtype.itemsize == 4 else 1e-2
    return np.allclose(one, other, rtol=rounding, atol=rounding * max(float(scale), 1e-3), equal_nan=True)
