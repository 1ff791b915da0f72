"""What holds for every module that `nn` offers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import Tensor, nn

Make = Callable[..., nn.Module]

X = np.random.default_rng(7).uniform(0.2, 2.0, (2, 3, 4)) * np.array([1.0, -1.0, 1.0, -1.0])  # away from kinks at 0
PLANE = X.reshape(1, 2, 4, 3)
SPACE = X.reshape(1, 2, 2, 2, 3)
IDS = np.array([[0, 2, 2], [4, 1, 3]])


def sequence(**how: Any) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3, **how), nn.GELU(), nn.Sequential(nn.RMSNorm(3, dtype=how.get("dtype"))))


class Loop(nn.Module):
    """A list is never called itself: here a model loops over one whose last place is its first again."""

    def __init__(self, **how: Any) -> None:
        first, second = nn.Linear(4, 4, **how), nn.Linear(4, 4, **how)
        self.layers = nn.ModuleList([first, second, first])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = np.tanh(layer(x))
        return x


def without_rng(make: Callable[..., nn.Module], *args: Any) -> Make:
    """For modules with parameters that are not drawn."""
    return lambda rng=None, dtype=None: make(*args, dtype=dtype)


def without_parameters(make: Callable[..., nn.Module], *args: Any) -> Make:
    return lambda rng=None, dtype=None: make(*args)


def drawn(make: Callable[..., nn.Module], *args: Any, **settings: Any) -> Make:
    return lambda rng=None, dtype=None: make(*args, rng=rng, dtype=dtype, **settings)


MODULES: dict[str, tuple[Make, Any]] = {
    "Linear": (drawn(nn.Linear, 4, 3), X),
    "Embedding": (drawn(nn.Embedding, 5, 3), IDS),
    "LayerNorm": (without_rng(nn.LayerNorm, 4), X),
    "RMSNorm": (without_rng(nn.RMSNorm, 4), X),
    "Dropout": (lambda rng=None, dtype=None: nn.Dropout(0.5, rng=rng), X),
    "ReLU": (without_parameters(nn.ReLU), X),
    "LeakyReLU": (without_parameters(nn.LeakyReLU), X),
    "GELU": (without_parameters(nn.GELU), X),
    "GELU, tanh": (without_parameters(nn.GELU, "tanh"), X),
    "SiLU": (without_parameters(nn.SiLU), X),
    "Sigmoid": (without_parameters(nn.Sigmoid), X),
    "Tanh": (without_parameters(nn.Tanh), X),
    "Softplus": (without_parameters(nn.Softplus), X),
    "Identity": (without_parameters(nn.Identity), X),
    "Flatten": (without_parameters(nn.Flatten), X),
    "Conv1d": (drawn(nn.Conv1d, 3, 2, 3, padding=1), X),
    "Conv1d, in groups": (drawn(nn.Conv1d, 3, 6, 2, groups=3, dilation=2, bias=False), X),
    "Conv2d": (drawn(nn.Conv2d, 2, 3, (2, 3), stride=2), PLANE),
    "Conv3d": (drawn(nn.Conv3d, 2, 2, 2), SPACE),
    "ConvTranspose1d": (drawn(nn.ConvTranspose1d, 3, 2, 3, 2, output_padding=1), X),
    "ConvTranspose2d": (drawn(nn.ConvTranspose2d, 2, 1, 2, padding=1), PLANE),
    "ConvTranspose3d": (drawn(nn.ConvTranspose3d, 2, 1, 2), SPACE),
    "MaxPool1d": (without_parameters(nn.MaxPool1d, 2), X),
    "MaxPool2d": (without_parameters(nn.MaxPool2d, (2, 1), 1, (1, 0)), PLANE),
    "MaxPool3d": (without_parameters(nn.MaxPool3d, 2), SPACE),
    "AvgPool1d": (without_parameters(nn.AvgPool1d, 3, 1, 1, False), X),
    "AvgPool2d": (without_parameters(nn.AvgPool2d, 2), PLANE),
    "AvgPool3d": (without_parameters(nn.AvgPool3d, 2), SPACE),
    "BatchNorm1d": (without_rng(nn.BatchNorm1d, 3), X),
    "BatchNorm1d, not affine": (without_rng(nn.BatchNorm1d, 3, 1e-5, None, False), X),
    "BatchNorm2d": (without_rng(nn.BatchNorm2d, 2), PLANE),
    "BatchNorm3d": (without_rng(nn.BatchNorm3d, 2), SPACE),
    "RNNCell": (drawn(nn.RNNCell, 4, 2), X[:, 0]),
    "GRUCell": (drawn(nn.GRUCell, 4, 2), X[:, 0]),
    "GRU": (drawn(nn.GRU, 4, 2), X),
    "GRU, deep and both ways": (drawn(nn.GRU, 4, 2, 2, bidirectional=True, dropout=0.5), X),
    "Sequential": (sequence, X),
    "ModuleList": (Loop, X),
}

each = pytest.mark.parametrize(("make", "x"), MODULES.values(), ids=MODULES)


def result(module: nn.Module, x: Any) -> Any:
    """What the module returns; of a cell its second state (the first starts from 0), of a GRU all it returns."""
    out = module(x, module(x)) if isinstance(module, (nn.RNNCell, nn.GRUCell)) else module(x)
    return np.concatenate([part.reshape(-1) for part in out]) if isinstance(out, tuple) else out


def variable(x: Any) -> Any:
    return Tensor(x, requires_grad=True) if x.dtype.kind == "f" else x


def is_random(make: Make) -> bool:
    """Whether its first values are drawn."""
    return any(np.unique(p.numpy()).size > 1 for p in make().parameters())


def test_no_module_is_left_out() -> None:
    exported = {name for name in nn.__all__ if isinstance(getattr(nn, name), type)} - {"LoadReport", "Parameter"}
    assert exported - {name.partition(",")[0] for name in MODULES} == {"Module"}


@each
def test_its_gradients_are_the_slopes(make: Make, x: Any) -> None:
    module = make(rng=np.random.default_rng(0), dtype=np.float64).eval()
    report = ta.gradcheck(lambda x: result(module, x), x, parameters=list(module.parameters()))
    assert len(report.checks) == len(list(module.parameters())) + (x.dtype.kind == "f")


@each
def test_G15_every_parameter_gets_a_finite_gradient_that_is_not_zero(make: Make, x: Any) -> None:
    module = make(rng=np.random.default_rng(0), dtype=np.float64).eval()
    out = result(module, variable(x))
    out.backward(np.random.default_rng(1).normal(size=out.shape))
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None and np.isfinite(parameter.grad).all() and parameter.grad.any(), name


@each
def test_a_deep_copy_computes_the_same_and_shares_nothing(make: Make, x: Any) -> None:
    module = make().eval()
    copied = copy.deepcopy(module)
    np.testing.assert_array_equal(np.asarray(result(copied, x)), np.asarray(result(module, x)))
    before = module.state_dict()
    assert {id(p) for p in module.parameters()}.isdisjoint(id(p) for p in copied.parameters())
    for one, other in zip(module.modules(), copied.modules(), strict=True):
        assert type(one) is type(other) and one is not other
    for parameter in copied.parameters():
        parameter.data = parameter.numpy() + 1.0
    for name, values in module.state_dict().items():
        np.testing.assert_array_equal(values, before[name])


@each
def test_a_deep_copy_keeps_ties(make: Make, x: Any) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.first = self.second = make()
            self.parameter = next(self.first.parameters(), None)

    copied = copy.deepcopy(Twice())
    assert copied.first is copied.second
    assert copied.parameter is next(copied.first.parameters(), None)
    assert repr(copied.first) == repr(Twice().first)


@each
def test_its_state_makes_another_one_compute_the_same(make: Make, x: Any) -> None:
    one, other = make(rng=np.random.default_rng(0)).eval(), make(rng=np.random.default_rng(1)).eval()
    assert other.load_state_dict(one.state_dict()) == nn.LoadReport([], [])
    np.testing.assert_array_equal(np.asarray(result(one, x)), np.asarray(result(other, x)))


@each
def test_training_and_evaluation_reach_all_of_it(make: Make, x: Any) -> None:
    module = make()
    assert all(part.training for part in module.modules())
    assert module.eval() is module and not any(part.training for part in module.modules())
    first = np.asarray(result(module, x))
    np.testing.assert_array_equal(np.asarray(result(module, x)), first)
    assert module.train() is module and all(part.training for part in module.modules())


@each
def test_it_has_the_dtype_it_was_asked_for_and_the_result_too(make: Make, x: Any) -> None:
    for dtype in (np.float32, np.float64):
        module = make(rng=np.random.default_rng(0), dtype=dtype)
        assert {p.dtype for p in module.parameters()} <= {np.dtype(dtype)}
        given = variable(x.astype(dtype) if x.dtype.kind == "f" else x)
        out = result(module, given)
        assert out.dtype == dtype
        out.sum().backward()
        assert {p.grad.dtype for p in module.parameters() if p.grad is not None} <= {np.dtype(dtype)}
    assert {p.dtype for p in make().parameters()} <= {ta.get_default_dtype()}


@each
def test_the_seed_decides(make: Make, x: Any) -> None:
    def state(seed: int, shared: bool) -> list[Any]:
        if shared:
            ta.manual_seed(seed)
        return list(make(rng=None if shared else np.random.default_rng(seed)).state_dict().values())

    for shared in (False, True):
        for one, other in zip(state(3, shared), state(3, shared), strict=True):
            np.testing.assert_array_equal(one, other)
        if is_random(make):
            assert any(not np.array_equal(a, b) for a, b in zip(state(3, shared), state(4, shared), strict=True))


@each
def test_it_is_printed_under_its_name(make: Make, x: Any) -> None:
    module = make()
    printed = repr(module)
    assert printed.startswith(f"{type(module).__name__}(") and printed.endswith(")")
    assert (not any(module.children())) == ("\n" not in printed)


@each
def test_what_it_records_stands_in_its_scope(make: Make, x: Any) -> None:
    class Owner(nn.Module):
        def __init__(self) -> None:
            self.inside = make().eval()

        def forward(self, x: Any) -> Any:
            return self.inside(x)

    owner = Owner()
    out = owner(variable(x))
    for part in out if isinstance(out, tuple) else (out,):
        if part.node is not None:
            assert part.node.scope.split(".")[0] == "inside"
    assert all(p.name.startswith("inside.") for p in owner.parameters())
