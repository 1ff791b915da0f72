"""Questions that PyTorch, NumPy and we answer differently; `test_differences.py` holds the answers, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tinygrad_attn as ta
from tests.conftest import require
from tinygrad_attn import Tensor, optim
from transformer import MultiHeadAttention


class Late:
    """PyTorch, asked for when a row needs it, so that the other rows run without it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "pytest")):  # what a collector of tests asks of everything it meets
            raise AttributeError(name)
        return getattr(require("torch"), name)


torch: Any = Late()


class Raises(NamedTuple):
    """An expectation: this error, its message matching."""

    error: type[BaseException]
    match: str | None = None


class Side(NamedTuple):
    """A question to one library, and its answer: numbers, names of types, or what it raises."""

    ask: Callable[[], Any]
    answer: Any


class Row(NamedTuple):
    """One difference; a side that has no such function is None."""

    here: Side
    torch: Side | None = None
    numpy: Side | None = None


# --- questions -------------------------------------------------------------------------------------------------------


def leaf(values: Any, dtype: Any = np.float64) -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True)


def twin(values: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def slopes(function: Callable[..., Any], *at: Any) -> list[Any]:
    """[value, gradient by each input], with ones sent in."""
    inputs = [leaf(x) for x in at]
    out = function(*inputs)
    out.backward(np.ones(out.shape))
    return [out.tolist(), *(x.grad.tolist() for x in inputs)]


def twin_slopes(function: Callable[..., Any], *at: Any) -> list[Any]:
    inputs = [twin(x) for x in at]
    out = function(*inputs)
    out.sum().backward()
    return [out.tolist(), *(x.grad.tolist() for x in inputs)]


def dtype(x: Any) -> str:
    return str(x.dtype).removeprefix("torch.")


def library(x: Any) -> Any:
    """Whose functions take `x`; NumPy's take our Tensors."""
    return torch if type(x).__module__.startswith("torch") else np


def same(found: Any, answer: Any) -> bool:
    """Equal up to rounding, NaN being equal to NaN; words and None exactly."""
    if isinstance(found, (list, tuple)) and isinstance(answer, (list, tuple)):
        return len(found) == len(answer) and all(same(*pair) for pair in zip(found, answer, strict=True))
    if isinstance(found, (int, float)) and isinstance(answer, (int, float)):
        return bool(np.isclose(found, answer, rtol=1e-6, atol=1e-12, equal_nan=True))
    return bool(found == answer)


def refused(ask: Callable[[], Any]) -> str:
    """Name of the error that a question raises."""
    try:
        ask()
    except Exception as error:
        return type(error).__name__
    return ""


def point(ours: Any, theirs: Any, at: list[Any], here: Any, there: Any) -> Row:
    """A point where value or gradients were chosen."""
    return Row(Side(lambda: slopes(ours, *at), here), Side(lambda: twin_slopes(theirs, *at), there))


def three(question: Callable[[Any], Any], make: Any, here: Any, there: Any, numpy: Any) -> Row:
    """The same question to a Tensor of ours, of theirs, and to an array."""
    return Row(
        Side(lambda: question(Tensor(make())), here),
        Side(lambda: question(torch.tensor(make())), there),
        Side(lambda: question(make()), numpy),
    )


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def twice_backward(x: Any) -> list[float]:
    y = (x * x).sum()
    y.backward()
    y.backward()
    return list(x.grad.tolist())


def changed_between(x: Any, memory: Any) -> list[float]:
    """The gradient of Σ x², 2x, with the memory of x changed after the forward pass."""
    y = (x * x).sum()
    memory[0] = 9.0
    y.backward()
    return list(x.grad.tolist())


def watched(share: Callable[[Any], Any]) -> list[float]:
    memory = np.ones(2)
    return changed_between(share(memory), memory)


def after_backward(x: Any) -> Any:
    (x * x).sum().backward()
    return x


def recorded_beside_generator(no_grad: Any, x: Any) -> list[bool]:
    """Whether the caller records while a generator waits at its `yield`: inside a `with`, and decorated."""

    def inside() -> Any:
        with no_grad():
            yield

    answers = []
    for generator in (inside(), no_grad()(lambda: (yield))()):
        next(generator)
        answers.append((x * 2.0).requires_grad)
        generator.close()
    return answers


def one_more_under(no_grad: Any, x: Any) -> list[float]:
    with no_grad():
        x += 1.0
    return list(x.tolist())


def alias_follows(x: Any) -> bool:
    alias = x
    x += 1.0
    return x is alias


def assign(x: Any) -> list[float]:
    x[0] = 5.0
    return list(x.tolist())


def put(function: Any, a: Any) -> Any:
    out = function(a, np.array([0]), np.array([9.0]), axis=0)
    return [None if out is None else out.tolist(), a.tolist()]


def second_slope_of_norm() -> list[float]:
    x = leaf([0.0, 0.0])
    first = ta.gradients(np.linalg.norm(x), x, create_graph=True)
    return list(ta.gradients(first.sum(), x).tolist())


def twin_second_slope_of_norm() -> list[float]:
    x = twin([0.0, 0.0])
    (first,) = torch.autograd.grad(torch.linalg.vector_norm(x), x, create_graph=True)
    return list(torch.autograd.grad(first.sum(), x)[0].tolist())


def clipped(gradient: list[float]) -> list[float]:
    x = leaf([0.0, 0.0])
    x.grad = np.array(gradient)
    optim.clip_grad_norm([x], 1.0)
    return [float(x.grad[0]), 1.0 - float(np.linalg.norm(x.grad))]


def twin_clipped(gradient: list[float]) -> list[float]:
    x = twin([0.0, 0.0])
    x.grad = torch.tensor(gradient, dtype=torch.float64)
    torch.nn.utils.clip_grad_norm_([x], 1.0)
    return [x.grad[0].item(), 1.0 - x.grad.norm().item()]


def step(x: Any, gradient: Any, optimizer: Any) -> list[float]:
    x.grad = gradient
    optimizer([x], lr=1.0).step()
    return list(x.tolist())


def appended(x: Any, later: Any, optimizer: Any) -> list[float]:
    made = optimizer([x], lr=1.0)
    made.param_groups[0]["params"].append(later)
    (2.0 * later).sum().backward()
    made.step()
    return list(later.tolist())


def own_module(library: Any, parameter: Callable[[], Any]) -> int:
    def init(self: Any) -> None:
        self.weight = parameter()

    return len(list(type("Own", (library.Module,), {"__init__": init})().parameters()))


def module_with(library: Any) -> int:
    owner = library.Module()
    owner.parts = [library.Linear(2, 2)]
    return len(list(owner.parameters()))


def widest(weight: Any) -> float:
    """The largest of some thousand weights, to two digits: where their uniform law ends."""
    return round(float(np.abs(weight.detach().numpy()).max()), 2)


def sees_later(decoder: Any, wrap: Any) -> bool:
    """Whether the first output changes with the last target."""
    target = np.random.default_rng(0).standard_normal((1, 3, 4)).astype(np.float32)
    other = target.copy()
    other[0, 2] = target[0, 2, ::-1]
    before, after = (decoder(wrap(x), wrap(ones(1, 2, 4)))[0, 0].tolist() for x in (target, other))
    return not np.allclose(before, after, atol=1e-6)


def attention(query: Any = None, key: Any = None, value: Any = None, **options: Any) -> list[Any]:
    query, key = ones(2, 2) if query is None else query, ones(2, 2) if key is None else key
    return list(ta.scaled_dot_product_attention(query, key, key if value is None else value, **options).tolist())


def twin_attention(key: Any = None, value: Any = None, **options: Any) -> list[Any]:
    key = torch.ones(2, 2) if key is None else key
    value = key if value is None else value
    options = {name: torch.tensor(x) if isinstance(x, np.ndarray) else x for name, x in options.items()}
    function = torch.nn.functional.scaled_dot_product_attention
    return list(function(torch.ones(1, 2, 2), key[None], value[None], **options)[0].tolist())


def heads(mask: Any, **options: Any) -> Any:
    """Output and weights of two heads over a batch of one."""
    return MultiHeadAttention(4, 2)(Tensor(ones(1, 2, 4)), mask=mask, return_weights=True, **options)


def twin_heads(hidden: Any) -> Any:
    module = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    return module(*[torch.ones(1, 2, 4)] * 3, key_padding_mask=None if hidden is None else torch.tensor([hidden]))


def functional(name: str) -> Any:
    return lambda *args, **options: getattr(torch.nn.functional, name)(*args, **options)


def names(module: Any) -> list[str]:
    return [name for name, _ in module.named_parameters()]
