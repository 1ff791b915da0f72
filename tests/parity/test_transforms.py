"""Every transform of random programs over nested arguments, against torch.func."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.conftest import require
from tinygrad_attn.structure import flatten, rebuild

torch = require("torch")
func = torch.func
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is:DeprecationWarning")  # its jvp uses that

Pair = tuple[Callable[..., Any], Callable[..., Any]]

ALONG_AN_AXIS: list[Pair] = [
    (lambda x: ta.softmax(x), lambda x: torch.softmax(x, -1)),
    (lambda x: np.cumsum(x, axis=0), lambda x: torch.cumsum(x, 0)),
    (lambda x: x.sum(axis=0), lambda x: x.sum(0)),
    (lambda x: x[::-1], lambda x: torch.flip(x, (0,))),
    (lambda x: x[1:], lambda x: x[1:]),
    (lambda x: x[[0, 1, 0]], lambda x: x[[0, 1, 0]]),
]
UNARY: list[Pair] = [
    *ALONG_AN_AXIS,
    (np.sin, torch.sin),
    (np.tanh, torch.tanh),
    (lambda x: np.exp(0.3 * x), lambda x: torch.exp(0.3 * x)),
    (lambda x: x * x, lambda x: x * x),
    (lambda x: x.mean(), lambda x: x.mean()),
    (lambda x: np.where(x > 0.0, x, 2.0 * x), lambda x: torch.where(x > 0.0, x, 2.0 * x)),
    (lambda x: x.detach() * x, lambda x: x.detach() * x),
    (lambda x: ta.checkpoint(lambda y: np.sin(y) * x)(x), lambda x: torch.sin(x) * x),
    (lambda x: 0.0 * x + 0.5, lambda x: 0.0 * x + 0.5),
]
BINARY: list[Pair] = [
    (lambda a, b: a + b,) * 2,
    (lambda a, b: a * b,) * 2,
    (lambda a, b: a / (b * b + 1.0),) * 2,
    (lambda a, b: (a * a + 1.0) ** (0.3 * b),) * 2,
    (np.maximum, torch.maximum),
    (lambda a, b: ta.checkpoint(lambda c: c * b)(a), lambda a, b: a * b),
]


class Program(NamedTuple):
    """Steps, each of which applies an operation to earlier values; some values, and the last, are the outputs."""

    steps: list[tuple[int, int, int]]
    outputs: list[int]

    def run(self, arguments: Any, side: int) -> list[Any]:
        """With our operations (side 0) or PyTorch's (1); what does not fit the shapes is left out."""
        values = flatten(arguments)
        for which, first, second in self.steps:
            a, b = values[first], values[second]
            value = a
            if a.ndim or which >= len(ALONG_AN_AXIS):
                with contextlib.suppress(ValueError, IndexError, RuntimeError):
                    one = which < len(UNARY)
                    value = UNARY[which][side](a) if one else BINARY[which - len(UNARY)][side](a, b)
            values.append(value)
        return [values[i] for i in self.outputs]

    def number(self, arguments: Any, side: int) -> Any:
        """One number that depends on all outputs."""
        return sum((out * out).sum() * (0.3 + i) for i, out in enumerate(self.run(arguments, side)))


def draw(seed: int) -> tuple[Program, Any, Any]:
    """A program, a nested argument and a tangent for it."""
    rng = np.random.default_rng(seed)
    shapes = [(2,), (3,), (2, 3), (3, 3)]
    a, b, c = (rng.normal(size=shapes[rng.integers(4)]) for _ in range(3))
    arguments: Any = [{"a": a, "b": [b, c]}, [a, (b, c)], {"p": {"q": a}, "r": (b,), "s": c}][rng.integers(3)]
    length = int(rng.integers(1, 9))
    steps = [
        (int(rng.integers(len(UNARY) + len(BINARY))), int(rng.integers(i)), int(rng.integers(i)))
        for i in range(3, 3 + length)
    ]
    program = Program(steps, [int(rng.integers(3 + length)), 2 + length])
    return program, arguments, rebuild(arguments, [rng.normal(size=x.shape) for x in flatten(arguments)])


def twin(structure: Any) -> Any:
    return rebuild(structure, [torch.tensor(np.asarray(x)) for x in flatten(structure)])


def same(ours: Any, theirs: Any) -> None:
    mine, others = flatten(ours), flatten(theirs)
    assert len(mine) == len(others)
    for one, other in zip(mine, others, strict=True):
        plain = other.detach().numpy(force=True)
        assert one.shape == plain.shape
        np.testing.assert_allclose(one.numpy(), plain, rtol=1e-8, atol=1e-9)


def grad(p: Program, x: Any, v: Any) -> None:
    ours, theirs = (
        ta.value_and_grad(lambda x: p.number(x, 0))(x),
        func.grad_and_value(lambda x: p.number(x, 1))(twin(x)),
    )
    same(ours, theirs[::-1])


def pulled_back(p: Program, x: Any, v: Any) -> None:
    out, pull = ta.vjp(lambda x: p.run(x, 0), x)
    other, its_pull = func.vjp(lambda x: p.run(x, 1), twin(x))
    upstream = [np.cos(np.arange(o.size)).reshape(o.shape) for o in out]
    same(out, other)
    same(pull(upstream)[0], its_pull(twin(upstream))[0])


def pushed_forward(p: Program, x: Any, v: Any) -> None:
    same(ta.jvp(lambda x: p.run(x, 0), (x,), (v,)), func.jvp(lambda x: p.run(x, 1), (twin(x),), (twin(v),)))


def jacobian(p: Program, x: Any, v: Any) -> None:
    same(ta.jacobian(lambda x: p.run(x, 0))(x), func.jacrev(lambda x: p.run(x, 1))(twin(x)))


def hessian(p: Program, x: Any, v: Any) -> None:
    same(ta.hessian(lambda x: p.number(x, 0))(x), func.jacrev(func.grad(lambda x: p.number(x, 1)))(twin(x)))


def hvp(p: Program, x: Any, v: Any) -> None:
    expected = func.jvp(func.grad(lambda x: p.number(x, 1)), (twin(x),), (twin(v),))[1]
    same(ta.hvp(lambda x: p.number(x, 0), x, v), expected)


def forward_over_pulled_back(p: Program, x: Any, v: Any) -> None:
    upstream = [np.ones(out.shape) for out in p.run(twin(x), 1)]
    ours = ta.jvp(lambda x: ta.vjp(lambda y: p.run(y, 0), x)[1](upstream)[0], (x,), (v,))
    theirs = func.jvp(lambda x: func.vjp(lambda y: p.run(y, 1), x)[1](twin(upstream))[0], (twin(x),), (twin(v),))
    same(ours, theirs)


def grad_of_forward(p: Program, x: Any, v: Any) -> None:
    ours = ta.grad(lambda x: ta.jvp(lambda y: p.number(y, 0), (x,), (v,))[1])(x)
    theirs = func.grad(lambda x: func.jvp(lambda y: p.number(y, 1), (x,), (twin(v),))[1])(twin(x))
    same(ours, theirs)


def closure(p: Program, x: Any, v: Any) -> None:
    """∂/∂x of a derivative by y at y = x, in which x is used from outside."""

    def around(x: Any, grad: Any, side: int) -> Any:
        first, *rest = flatten(x)
        inner = grad(lambda y: p.number([y * first.sum(), *rest], side))(rest[-1])
        return (inner * inner).sum() * first.sum()

    same(ta.grad(lambda x: around(x, ta.grad, 0))(x), func.grad(lambda x: around(x, func.grad, 1))(twin(x)))


def backward_twice(p: Program, x: Any, v: Any) -> None:
    ours = [ta.Tensor(a, requires_grad=True) for a in flatten(x)]
    theirs = [torch.tensor(a, requires_grad=True) for a in flatten(x)]
    loss, other = p.number(ours, 0), p.number(theirs, 1)
    assert loss.requires_grad == other.requires_grad
    for last in (False, True):
        loss.backward(retain_graph=not last)
        other.backward(retain_graph=not last)
    for one, its in zip(ours, theirs, strict=True):
        assert (one.grad is None) == (its.grad is None)
        if one.grad is not None:
            np.testing.assert_allclose(one.grad, its.grad.numpy(), rtol=1e-9, atol=1e-12)


TRANSFORMS = [
    grad, pulled_back, pushed_forward, jacobian, hessian, hvp,
    forward_over_pulled_back, grad_of_forward, closure, backward_twice,
]  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
@given(seed=st.integers(0, 10_000))
def test_a_transform_of_any_program_is_pytorchs(transform: Callable[..., None], seed: int) -> None:
    transform(*draw(seed))
