"""Checkpointing: the same gradients, with less kept."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import nn, ops
from tinygrad_attn.checkpoint import checkpoint
from tinygrad_attn.errors import ArgumentError, DtypeError, GradientError, MutatedError


def variables(*shapes: tuple[int, ...]) -> list[ta.Tensor]:
    rng = np.random.default_rng(0)
    return [ta.Tensor(rng.standard_normal(shape), requires_grad=True) for shape in shapes]


def block(x: Any, w: Any) -> Any:
    return np.tanh(x @ w) * x


def test_gradients_are_those_without_it() -> None:
    x, w = variables((3, 4), (4, 4))
    plain = ta.gradients(block(block(x, w), w).sum(), [x, w])
    kept = checkpoint(block)
    saved = ta.gradients(kept(kept(x, w), w).sum(), [x, w])
    for one, other in zip(plain, saved, strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-12)


def test_it_can_be_differentiated_twice() -> None:
    x, w = variables((3, 4), (4, 4))
    direction = np.ones((3, 4))
    answers = []
    for f in (block, checkpoint(block)):
        first = ta.gradients((f(x, w) ** 2).sum(), x, create_graph=True)
        answers.append(ta.gradients((first * direction).sum(), [x, w]))
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-10)


def test_parameters_that_are_not_arguments_get_their_gradients() -> None:
    layer = nn.Linear(4, 4, rng=np.random.default_rng(1))
    x = ta.Tensor(np.ones((2, 4), np.float32), requires_grad=True)
    np.tanh(layer(x)).sum().backward()
    expected = [p.grad.copy() for p in (*layer.parameters(), x) if p.grad is not None]
    for p in (*layer.parameters(), x):
        p.zero_grad()
    checkpoint(lambda x: np.tanh(layer(x)))(x).sum().backward()
    for p, wanted in zip((*layer.parameters(), x), expected, strict=True):
        assert p.grad is not None
        np.testing.assert_allclose(p.grad, wanted, rtol=1e-6)


def test_structures_and_constants_pass_through() -> None:
    x, y = variables((2,), (2,))
    out = checkpoint(lambda parts, scale: parts["x"] * parts["rest"][0] * scale)({"x": x, "rest": [y]}, 3.0)
    np.testing.assert_allclose(ta.gradients(out.sum(), x).numpy(), 3.0 * y.numpy())


def test_dropout_drops_the_same_again() -> None:
    x = ta.Tensor(np.ones(1000), requires_grad=True)
    out = checkpoint(lambda x: ops.dropout(x, 0.5))(x)
    ta.default_rng().random(7)  # something else draws in between
    after = ta.default_rng().bit_generator.state
    out.sum().backward()
    np.testing.assert_array_equal(x.grad, out.numpy())
    assert ta.default_rng().bit_generator.state == after


def test_only_arguments_are_kept() -> None:
    x, w = variables((3, 4), (4, 4))
    out = checkpoint(block)(x, w)
    assert out.node is not None
    assert [id(value) for value in out.node.inputs] == [id(x), id(w)]


def test_nothing_is_recorded_where_nothing_is_asked_for() -> None:
    x, w = variables((3, 4), (4, 4))
    with ta.no_grad():
        assert not checkpoint(block)(x, w).requires_grad
    assert not checkpoint(block)(x.detach(), w.detach()).requires_grad


def test_a_function_that_answers_differently_is_refused() -> None:
    own = np.random.default_rng(0)
    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    out = checkpoint(lambda x: x * own.standard_normal(2))(x)
    with pytest.raises(GradientError, match="answered differently"):
        out.sum().backward()


def test_a_changed_parameter_is_noticed() -> None:
    w = ta.Tensor([1.0, 2.0], requires_grad=True)
    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    out = checkpoint(lambda x: x * w)(x)
    w.data -= 1.0
    with pytest.raises(MutatedError):
        out.sum().backward()


def test_anything_but_one_tensor_is_refused() -> None:
    with pytest.raises(DtypeError, match="one Tensor"):
        checkpoint(lambda x: (x, x))(ta.Tensor(1.0, requires_grad=True))


def test_a_hook_of_a_captured_tensor_is_called_once() -> None:
    weight, x = ta.Tensor([1.0, 2.0], requires_grad=True), ta.Tensor([3.0, 4.0], requires_grad=True)
    seen = []
    weight.register_hook(lambda gradient: seen.append(gradient) or 2.0 * gradient)
    ta.checkpoint(lambda x: (x * weight).sum())(x).backward()
    assert len(seen) == 1
    assert weight.grad is not None and weight.grad.tolist() == [6.0, 8.0]


def test_what_was_computed_outside_gets_its_whole_gradient() -> None:
    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    y = (x * 3.0).retain_grad()
    seen = []
    y.register_hook(lambda gradient: seen.append(gradient.tolist()))
    out = (checkpoint(lambda z: z * y)(x) + 2.0 * y).sum()
    np.testing.assert_array_equal(ta.gradients(out, y).numpy(), [3.0, 4.0])
    seen.clear()
    out.backward()
    assert seen == [[3.0, 4.0]]
    np.testing.assert_array_equal(y.grad, [3.0, 4.0])
    np.testing.assert_array_equal(x.grad, [12.0, 18.0])


def test_a_variable_of_a_transform_around_it_is_not_lost() -> None:
    def cubes(z: Any) -> Any:
        square = z * z
        return checkpoint(lambda one: (one * square * z).sum())(np.ones(2))

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(ta.grad(cubes)(x).numpy(), 3.0 * x**2)
    np.testing.assert_allclose(ta.hessian(cubes)(x).numpy(), np.diag(6.0 * x))
    np.testing.assert_allclose(ta.hvp(cubes, x, x).numpy(), 6.0 * x**2)


def test_keyword_arguments_are_arguments_too() -> None:
    x, y = variables((2,), (2,))
    out = checkpoint(lambda x, *, other, twice=False: x * other * (2.0 if twice else 1.0))(x, other=y, twice=True)
    assert out.node is not None
    assert [id(value) for value in out.node.inputs[:2]] == [id(x), id(y)]
    np.testing.assert_allclose(ta.gradients(out.sum(), y).numpy(), 2.0 * x.numpy())


def test_the_function_gets_the_same_kinds_of_arguments_again() -> None:
    kinds = []

    def f(x: Any, chosen: Any, word: str) -> Any:
        kinds.append((type(chosen), word))
        return x * (chosen & True)

    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    chosen = np.array([True, False])
    out = checkpoint(f)(x, chosen, "word")
    chosen[:] = True  # later changes do not reach the graph
    out.sum().backward()
    assert kinds == [(np.ndarray, "word")] * 2
    np.testing.assert_array_equal(x.grad, [1.0, 0.0])


def test_what_is_no_function_or_stops_answering_with_a_tensor_is_named() -> None:
    with pytest.raises(ArgumentError, match=r"a function\n  given 3"):
        checkpoint(3)  # type: ignore[arg-type]
    answers: list[Any] = [lambda x: x * 2.0, lambda x: "a word"]
    out = checkpoint(lambda x: answers.pop(0)(x))(ta.Tensor(1.0, requires_grad=True))
    with pytest.raises(GradientError, match="answered differently"):
        out.backward()


def test_a_copied_module_recomputes_with_its_own_weights() -> None:
    block = nn.Linear(2, 2, rng=np.random.default_rng(0))
    block.forward = checkpoint(block.forward)  # type: ignore[method-assign]
    twin = copy.deepcopy(block)
    twin.weight.data *= 3.0
    twin.bias.data *= 0.0
    x = np.ones((1, 2), np.float32)
    np.testing.assert_allclose(twin(x).numpy(), x @ twin.weight.numpy().T, rtol=1e-6)
    twin(x).sum().backward()
    assert twin.weight.grad is not None and block.weight.grad is None


def test_it_decorates_methods_and_keeps_their_name() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(2, 2)

        @checkpoint
        def forward(self, x: Any) -> Any:
            """Once more with feeling."""
            return np.tanh(self.layer(x))

    block = Block()
    out = block(np.ones((1, 2), np.float32))
    assert out.node is not None and out.node.operation.name == "checkpoint"
    out.sum().backward()
    assert block.layer.weight.grad is not None
    assert (Block.forward.__name__, Block.forward.__doc__) == ("forward", "Once more with feeling.")


@pytest.mark.parametrize("look", [lambda x, loss: loss.backward(), lambda x, loss: ta.why(x, loss)], ids=["run", "why"])
def test_a_batch_counts_once_in_the_running_statistics(look: Any) -> None:
    plain, kept = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    (x,) = variables((4, 2))
    plain(x)
    look(x, (checkpoint(kept)(x) ** 3).sum())
    for name, values in plain.state_dict().items():
        np.testing.assert_array_equal(kept.state_dict()[name], values)
