"""Activations and losses that are written with other operations, against PyTorch, in first and second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.parity.peer import Function
from tests.parity.test_ops_convolution import assert_agree
from tinygrad_attn.errors import OptionError, ShapeError

torch = require("torch")
functional = torch.nn.functional

RNG = np.random.default_rng(3)
X = RNG.normal(0.0, 2.0, (3, 4))
Y = RNG.normal(0.0, 2.0, (3, 4))
CLASSES = RNG.integers(0, 4, 3)
SIGNS = np.where(RNG.normal(size=(3, 4)) > 0, 1.0, -1.0)

ACTIVATIONS: dict[str, tuple[Function, Function]] = {
    "selu": (ta.selu, functional.selu),
    "celu": (ta.celu, functional.celu),
    "celu, steeper": (lambda x: ta.celu(x, alpha=0.5), lambda x: functional.celu(x, 0.5)),
    "hardtanh": (ta.hardtanh, functional.hardtanh),
    "hardtanh between others": (
        lambda x: ta.hardtanh(x, min=-0.2, max=2.0),
        lambda x: functional.hardtanh(x, -0.2, 2.0),
    ),
    "mish": (ta.mish, functional.mish),
    "quick_gelu": (ta.quick_gelu, lambda x: x * torch.sigmoid(1.702 * x)),
    "glu": (ta.glu, functional.glu),
    "glu along the first axis": (lambda x: ta.glu(x.T, axis=0), lambda x: functional.glu(x.T, 0)),
}


@pytest.mark.parametrize(("ours", "theirs"), ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_an_activation_is_pytorchs(ours: Function, theirs: Function) -> None:
    assert_agree(ours, theirs, X)


def focal(x: Any, t: Any, gamma: float, reduction: str, weight: Any = None) -> Any:
    log_p = torch.log_softmax(x, -1).gather(-1, t[:, None])[:, 0]
    counted = torch.ones(len(t)) if weight is None else torch.tensor(weight)[t]
    losses = -((1 - log_p.exp()) ** gamma) * log_p * counted
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.sum() / counted.sum()


def hinge(x: Any, *, reduction: str, **how: Any) -> Any:
    """PyTorch's own has no second derivative."""
    margin, p = how.get("margin", 1.0), how.get("p", 1)
    others = torch.arange(4) != T[:, None]
    losses = (((margin - x.gather(1, T[:, None]) + x).clamp(min=0) ** p) * others).sum(1) / 4
    loss = losses if reduction == "none" else getattr(losses, reduction)()
    torch.testing.assert_close(loss, functional.multi_margin_loss(x, T, reduction=reduction, **how))
    return loss


T = torch.tensor(CLASSES)
LOSSES: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "l1": (ta.l1_loss, functional.l1_loss, (X, Y)),
    "huber": (ta.huber_loss, functional.huber_loss, (X, Y)),
    "huber, δ": (lambda x, y, **r: ta.huber_loss(x, y, delta=0.4, **r),
                 lambda x, y, **r: functional.huber_loss(x, y, delta=0.4, **r), (X, Y)),
    "smooth l1": (ta.smooth_l1_loss, functional.smooth_l1_loss, (X, Y)),
    "smooth l1, β": (lambda x, y, **r: ta.smooth_l1_loss(x, y, beta=2.0, **r),
                     lambda x, y, **r: functional.smooth_l1_loss(x, y, beta=2.0, **r), (X, Y)),
    "smooth l1, β = 0": (lambda x, y, **r: ta.smooth_l1_loss(x, y, beta=0.0, **r),
                         lambda x, y, **r: functional.smooth_l1_loss(x, y, beta=0.0, **r), (X, Y)),
    "bce": (ta.bce_loss, functional.binary_cross_entropy, (RNG.uniform(0.1, 0.9, 5), RNG.uniform(0.1, 0.9, 5))),
    "margin ranking": (
        lambda x, y, **r: ta.margin_ranking_loss(x, y, SIGNS, margin=0.5, **r),
        lambda x, y, **r: functional.margin_ranking_loss(x, y, torch.tensor(SIGNS), margin=0.5, **r),
        (X, Y),
    ),
    "multi-margin": (
        lambda x, **r: ta.multi_margin_loss(x, CLASSES, **r),
        hinge,
        (X,),
    ),
    "multi-margin, squared": (
        lambda x, **r: ta.multi_margin_loss(x, CLASSES, p=2, margin=0.7, **r),
        lambda x, **r: hinge(x, p=2, margin=0.7, **r),
        (X,),
    ),
    "focal": (
        lambda x, **r: ta.focal_loss(x, CLASSES, **r),
        lambda x, *, reduction: focal(x, T, 2.0, reduction),
        (X,),
    ),
    "focal, γ and weight": (
        lambda x, **r: ta.focal_loss(x, CLASSES, gamma=0.5, weight=[1.0, 2.0, 0.5, 3.0], **r),
        lambda x, *, reduction: focal(x, T, 0.5, reduction, [1.0, 2.0, 0.5, 3.0]),
        (X,),
    ),
    "focal, γ = 0": (
        lambda x, **r: ta.focal_loss(x, CLASSES, gamma=0.0, **r),
        lambda x, **r: functional.cross_entropy(x, T, **r),
        (X,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("ours", "theirs", "arrays"), LOSSES.values(), ids=LOSSES)
def test_a_loss_is_pytorchs(ours: Function, theirs: Function, arrays: Any, reduction: str) -> None:
    assert_agree(lambda *a: ours(*a, reduction=reduction), lambda *a: theirs(*a, reduction=reduction), *arrays)


def test_bce_is_exact_where_the_answer_is_certain_and_right() -> None:
    p = ta.Tensor([0.0, 1.0], requires_grad=True)
    loss = ta.bce_loss(p, np.array([0.0, 1.0]), reduction="sum")
    loss.backward()
    assert loss.item() == 0.0
    np.testing.assert_array_equal(p.grad, [1.0, -1.0])


def test_focal_loss_of_a_certain_right_answer_is_0_with_no_gradient() -> None:
    x = ta.Tensor([[800.0, 0.0]], requires_grad=True)
    loss = ta.focal_loss(x, np.array([0]))
    loss.backward()
    assert loss.item() == 0.0
    np.testing.assert_array_equal(x.grad, [[0.0, 0.0]])


ON_LISTS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    **{f.__name__: (f, ([0.5, -1.0],)) for f in (ta.selu, ta.celu, ta.hardtanh, ta.mish, ta.quick_gelu, ta.glu)},
    **{f.__name__: (f, ([0.5, 0.2], [1.0, 0.0])) for f in (ta.l1_loss, ta.huber_loss, ta.smooth_l1_loss, ta.bce_loss)},
    "margin_ranking_loss": (ta.margin_ranking_loss, ([0.5, 0.2], [1.0, 0.0], [1.0, -1.0])),
    "multi_margin_loss": (ta.multi_margin_loss, ([[0.5, 0.2]], [1])),
    "focal_loss": (ta.focal_loss, ([[0.5, 0.2]], [1])),
    "max_pool": (lambda x: ta.max_pool(x, 2), ([[0.5, 0.2], [1.0, 0.0]],)),
    "avg_pool": (lambda x: ta.avg_pool(x, 2), ([[0.5, 0.2], [1.0, 0.0]],)),
    "batch_norm": (ta.batch_norm, ([[0.5, 0.2], [1.0, 0.0]],)),
}


@pytest.mark.parametrize(("f", "lists"), ON_LISTS.values(), ids=ON_LISTS)
def test_lists_of_numbers_are_arrays_of_the_default_dtype(f: Function, lists: Any) -> None:
    out = np.asarray(f(*lists))
    arrays = [np.array(x, np.float32 if np.array(x).dtype.kind == "f" else None) for x in lists]
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, f(*arrays))


REFUSED: dict[str, tuple[Any, type[Exception]]] = {
    "two shapes": (lambda: ta.l1_loss(np.ones(3), np.ones((3, 1))), ShapeError),
    "δ = 0": (lambda: ta.huber_loss(X, Y, delta=0.0), OptionError),
    "β < 0": (lambda: ta.smooth_l1_loss(X, Y, beta=-1.0), OptionError),
    "γ < 0": (lambda: ta.focal_loss(X, CLASSES, gamma=-1.0), OptionError),
    "p = 3": (lambda: ta.multi_margin_loss(X, CLASSES, p=3), OptionError),
    "an unknown reduction": (lambda: ta.bce_loss(X, Y, reduction="max"), OptionError),
    "a target for every score": (lambda: ta.multi_margin_loss(X, np.zeros((3, 4), int)), ShapeError),
    "two shapes of scores": (lambda: ta.margin_ranking_loss(np.ones(3), np.ones(2), 1.0), ShapeError),
    "an odd length to halve": (lambda: ta.glu(np.ones(3)), ValueError),
}


@pytest.mark.parametrize(("call", "error"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_said(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
