"""Mistakes that people make when they write gradients, as data: each is put in place of a right rule for one test.

`Mistake.function` is right as long as nothing is put in its place, and wrong then. To add one, add a line to a table
below.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import Operation, Tensor

Rule = Callable[..., Any]
Inject = Callable[[pytest.MonkeyPatch], None]

DRAWN = np.random.default_rng(20)


def reals(*shape: int) -> Any:
    return DRAWN.normal(size=shape)


def positive(*shape: int) -> Any:
    return DRAWN.uniform(0.5, 2.0, shape)


@dataclass(frozen=True)
class Mistake:
    """A known wrong rule.

    Attributes:
        name: what was done wrong.
        inject: puts the wrong rule in place.
        function, inputs, options: a computation that uses it.
        culprit: name of the operation that the checker must name, or "" where no single operation is at fault.
        order: of the derivative that it shows in.
    """

    name: str
    inject: Inject
    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    culprit: str = ""
    order: int = 1

    def check(self) -> Any:
        """Run the checker on the computation."""
        return ta.gradcheck(self.function, *self.inputs, order=self.order, **self.options)


def rule(
    name: str, operation: Operation, parameter: str, wrong: Rule, *inputs: Any, order: int = 1, **options: Any
) -> Mistake:
    """A wrong rule `(g, out, *inputs, **options)` of one input of a primitive operation."""

    def inject(monkeypatch: pytest.MonkeyPatch) -> None:
        assert parameter in operation.rules
        monkeypatch.setitem(operation.rules, parameter, wrong)

    arguments = (list(inputs),) if operation.sequence else inputs
    return Mistake(f"{operation.name}: {name}", inject, operation, arguments, options, operation.name, order)


def joint(name: str, operation: Operation, spoil: Rule, *inputs: Any, **options: Any) -> Mistake:
    """A wrong joint rule of a fused operation: `spoil(right answers, g, saved, inputs, options)`."""
    right = operation.joint_rule
    assert right is not None

    def wrong(g: Any, saved: Any, *values: Any, **given: Any) -> Any:
        return spoil(right(g, saved, *values, **given), g, saved, values, given)

    def inject(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(operation, "joint_rule", wrong)

    return Mistake(f"{operation.name}: {name}", inject, operation, inputs, options, operation.name)


# --- rules of primitive operations -----------------------------------------------------------------------------------


def one_element_wrong(g: Any, out: Any, x: Any) -> Any:
    gradient = np.array(2.0 * g * x)
    gradient[3, 7] *= 1.01
    return gradient


def overwritten(g: Any, out: Any, x: Any, *, index: Any) -> Any:
    gradient = np.zeros_like(x)
    gradient[index] = g
    return gradient


def rows_overwritten(g: Any, out: Any, weight: Any, ids: Any, *, padding_index: Any) -> Any:
    gradient = np.zeros_like(weight)
    gradient[ids] = g
    return gradient


def shifted_part(g: Any, out: Any, *arrays: Any, index: int, axis: int) -> Any:
    start = sum(array.shape[axis] for array in arrays[:index])
    return np.roll(g, -start - 1, axis)[tuple(slice(0, side) for side in arrays[index].shape)]


def windows_overwritten(g: Any, out: Any, x: Any, *, size: Any, stride: int, dilation: int) -> Any:
    gradient = np.zeros_like(x)
    for start in range(len(g)):
        gradient[start : start + size[0]] = g[start]
    return gradient


def flipped(right: Rule) -> Rule:
    """A rule whose answer lies backwards along the last axis."""
    return lambda *values, **options: right(*values, **options)[..., ::-1]


def all_ties(g: Any, out: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    return np.expand_dims(g, axis) * (x == np.expand_dims(out, axis))


def tiny(x: Any) -> Any:
    """1e-8 of a sum of squares."""
    return ta.square(x).sum() * 1e-8


X23, X33, X32 = reals(2, 3), reals(3, 3), reals(3, 2)

PRIMITIVE = [
    rule("only the diagonal of the Jacobian", ta.softmax, "x", lambda g, y, x, axis: g * y * (1.0 - y), X23, axis=-1),
    rule("the sum is missing", ta.softmax, "x", lambda g, y, x, axis: g * y, X23, axis=-1),
    rule(
        "the sum runs over the wrong axis",
        *(ta.softmax, "x", lambda g, y, x, axis: y * (g - np.sum(g * y, axis=0, keepdims=True)), X33),
        axis=-1,
    ),
    rule("the sum is a mean", ta.softmax, "x", lambda g, y, x, axis: y * (g - np.mean(g * y, -1, keepdims=True)), X23),
    rule("the softmax term is missing", ta.log_softmax, "x", lambda g, y, x, axis: g, X23, axis=-1),
    rule("lost transpose of B", ta.matmul, "a", lambda g, out, a, b: g @ b, X33, reals(3, 3)),
    rule("lost transpose of A", ta.matmul, "b", lambda g, out, a, b: a @ g, X33, reals(3, 3)),
    rule("the factors are in the wrong order", ta.matmul, "b", lambda g, out, a, b: g @ a.T, X33, reals(3, 3)),
    rule("1/n is missing", ta.mean, "x", lambda g, out, x, axis, keepdims: np.broadcast_to(g, x.shape), X23),
    rule("n counts one axis only", ta.mean, "x", lambda g, out, x, axis, keepdims: g * np.ones(x.shape) / 3, X23),
    rule("the factor 2 is missing", ta.var, "x", lambda g, out, x, **_: g * (x - x.mean()) / x.size, X23),
    rule("the sign is wrong", ta.subtract, "b", lambda g, out, a, b: g, X23, reals(2, 3)),
    rule("y is missing", ta.divide, "b", lambda g, out, a, b: -g / b, X23, positive(2, 3)),
    rule("1 − x² instead of 1 − y²", ta.tanh, "x", lambda g, out, x: g * (1.0 - x * x), X23),
    rule("the factor ½ is missing", ta.sqrt, "x", lambda g, out, x: g / out, positive(2, 3)),
    rule(
        "the exponent is not lowered", ta.power, "a", lambda g, out, a, b: g * b * a**b, positive(2, 3), positive(2, 3)
    ),
    rule(
        "a logarithm of the wrong operand",
        ta.power,
        "b",
        lambda g, y, a, b: g * y * np.log(b),
        positive(3),
        positive(3),
    ),
    rule("y(1 − y) of x instead of y", ta.sigmoid, "x", lambda g, out, x: g * x * (1.0 - x), X23),
    rule("the slope is 1 everywhere", ta.relu, "x", lambda g, out, x: g, np.array([-1.0, 2.0, -0.5])),
    rule(
        "the mask is that of the gradient", ta.relu, "x", lambda g, out, x: np.maximum(g, 0), np.array([-1.0, 2.0, 3.0])
    ),
    rule(
        "passes outside the bounds",
        ta.clip,
        "x",
        lambda g, out, x, **_: g,
        np.array([-2.0, 0.5, 2.0]),
        min=-1.0,
        max=1.0,
    ),
    rule(
        "the branches are swapped", ta.where, "x", lambda g, z, c, x, y: np.where(c, 0.0, g), X23 > 0, X23, reals(2, 3)
    ),
    rule(
        "the filled places get a gradient", ta.masked_fill, "x", lambda g, out, x, m, value: g, X23, X23 > 0, value=0.0
    ),
    rule(
        "the order of axes is not inverted",
        ta.transpose,
        "x",
        lambda g, y, x, axes: g.transpose(axes),
        reals(3, 3, 3),
        axes=(1, 2, 0),
    ),
    rule(
        "read in column order",
        ta.reshape,
        "x",
        lambda g, y, x, shape: np.reshape(g, x.shape, order="F"),
        X23,
        shape=(3, 2),
    ),
    rule("each part is shifted by one", ta.concatenate, "arrays", shifted_part, X23, reals(1, 3), axis=0),
    rule("the running sum is not reversed", ta.cumsum, "x", lambda g, out, x, axis: np.cumsum(g), reals(4)),
    rule("every input gets all of it", ta.logsumexp, "x", lambda g, out, x, **_: g * np.ones(x.shape), X23),
    rule("a place read twice is overwritten", ta.getitem, "x", overwritten, reals(4), index=np.array([1, 1, 3])),
    rule("a row read twice is overwritten", ta.embedding, "weight", rows_overwritten, reals(4, 2), np.array([2, 0, 2])),
    rule("an element of two windows is overwritten", ta.windows, "x", windows_overwritten, reals(5), size=(2,)),
    rule("the filter is flipped", ta.conv, "weight", flipped(ta.conv.rules["weight"]), reals(1, 2, 5), reals(1, 2, 3)),
    rule("the image is flipped", ta.conv, "x", flipped(ta.conv.rules["x"]), reals(1, 2, 5), reals(1, 2, 3)),
    rule("1 of 100 elements is wrong by 1 %", ta.square, "x", one_element_wrong, reals(10, 10)),
    rule("the second derivative is cut off", ta.exp, "x", lambda g, out, x: g * np.asarray(out), X23, order=2),
    rule(
        "the second derivative takes x as fixed", ta.sin, "x", lambda g, y, x: g * np.cos(np.asarray(x)), X23, order=2
    ),
]

# --- joint rules of fused operations ---------------------------------------------------------------------------------

QUERY, KEY, VALUE = reals(2, 3, 4), reals(2, 3, 4), reals(2, 3, 3)
ATTENTION = (QUERY, KEY, VALUE, np.tri(3, dtype=bool), reals(3, 3), None)
NORMED = (reals(3, 4), positive(4), reals(4))


def no_scale(answers: Any, g: Any, saved: Any, inputs: Any, options: Any) -> Any:
    return (answers[0] / options["scale"], answers[1] / options["scale"], *answers[2:])


def scale_of_model(answers: Any, g: Any, saved: Any, inputs: Any, options: Any) -> Any:
    """1/√d_model, of two heads together, instead of 1/√d_k."""
    return (answers[0] / np.sqrt(2.0), answers[1] / np.sqrt(2.0), *answers[2:])


def no_row_sum(answers: Any, g: Any, saved: Any, inputs: Any, options: Any) -> Any:
    query, key, value = inputs[:3]
    d_scores = saved[0] * (g @ np.swapaxes(value, -1, -2)) * options["scale"]
    return (d_scores @ key, np.swapaxes(d_scores, -1, -2) @ query, *answers[2:])


def key_not_transposed(answers: Any, g: Any, saved: Any, inputs: Any, options: Any) -> Any:
    d_scores = answers[3] * options["scale"]
    return (answers[0], d_scores @ inputs[0], *answers[2:])


def value_not_transposed(answers: Any, g: Any, saved: Any, inputs: Any, options: Any) -> Any:
    return (*answers[:2], saved[0] @ g, *answers[3:])


def no_mean_terms(answers: Any, g: Any, saved: Any, inputs: Any, options: Any) -> Any:
    _, inverse_std = saved
    return (g * inputs[1] * inverse_std, *answers[1:])


def variance_constant(answers: Any, g: Any, saved: Any, inputs: Any, options: Any) -> Any:
    """The mean depends on x, but the variance is taken for a constant."""
    d_normed = g * inputs[1]
    return ((d_normed - d_normed.mean(-1, keepdims=True)) * saved[1], *answers[1:])


def bias_mean(answers: Any, g: Any, saved: Any, inputs: Any, options: Any) -> Any:
    return (*answers[:2], g.reshape(-1, g.shape[-1]).mean(0))


def not_divided(answers: Any, g: Any, saved: Any, inputs: Any, options: Any) -> Any:
    return (answers[0] * inputs[1].size,)


def no_onehot(answers: Any, g: Any, saved: Any, inputs: Any, options: Any) -> Any:
    return (g * ta.softmax(inputs[0]) / inputs[1].size,)


def ignored_counted(answers: Any, g: Any, saved: Any, inputs: Any, options: Any) -> Any:
    gradient = answers[0].copy()
    gradient[inputs[1] == options["ignore_index"]] += 0.1
    return (gradient,)


FUSED = [
    joint("√d is missing backward", ta.attention, no_scale, *ATTENTION, scale=0.5),
    joint("d_model instead of d_k", ta.attention, scale_of_model, *ATTENTION, scale=0.5),
    joint("the row sum of softmax is missing", ta.attention, no_row_sum, *ATTENTION, scale=0.5),
    joint("dK lost its transpose", ta.attention, key_not_transposed, *ATTENTION, scale=0.5),
    joint("dV lost its transpose", ta.attention, value_not_transposed, *ATTENTION, scale=0.5),
    joint("the mean terms are missing", ta.layer_norm, no_mean_terms, *NORMED),
    joint("the variance is taken for a constant", ta.layer_norm, variance_constant, *NORMED),
    joint("the bias gets a mean instead of a sum", ta.layer_norm, bias_mean, *NORMED),
    joint("the bias gets a mean instead of a sum", ta.linear, bias_mean, reals(5, 2), X32, reals(3)),
    joint("not divided by the number of places", ta.cross_entropy, not_divided, X23, np.array([1, 0])),
    joint("the target is not subtracted", ta.cross_entropy, no_onehot, X23, np.array([1, 0])),
    joint("ignored places teach", ta.cross_entropy, ignored_counted, X23, np.array([1, 2]), ignore_index=2),
]

# --- the engine ------------------------------------------------------------------------------------------------------


def first_copy(gradient: Any, shape: tuple[int, ...]) -> Any:
    """A fold that forgets to sum: the first of the copies stands for all."""
    added = gradient.ndim - len(shape)
    place = [0] * added + [slice(0, 1) if side == 1 else slice(None) for side in shape]
    return gradient[tuple(place)]


def unfolded(gradient: Any, shape: tuple[int, ...]) -> Any:
    """No fold at all."""
    return gradient


def spoilt_fold(fold: Callable[..., Any]) -> Inject:
    def inject(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.modules["tinygrad_attn.operation"], "fold", fold)

    return inject


def wrong_max(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ta.max.rules, "x", all_ties)


def wrong_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ta.square.rules, "x", lambda g, out, x: 10.0 * g * x)


def used_twice(x: Tensor) -> Tensor:
    return ta.sin(x) * x


def self_attention(x: Tensor) -> Tensor:
    """x is query, key and value."""
    return ta.softmax(x @ np.swapaxes(x, -1, -2)) @ x


def tied_max(x: Tensor) -> Tensor:
    """Every element beside its equal: the maximum is x itself, and smooth."""
    return ta.max(ta.stack([x, x]), axis=0)


def overwrite(arriving: Any, tensor: Tensor, gradient: Any, untaken: Any) -> None:
    arriving._sums[id(tensor)] = gradient


def keep_first(arriving: Any, tensor: Tensor, gradient: Any, untaken: Any) -> None:
    arriving._sums.setdefault(id(tensor), gradient)


def spoilt_sum(add: Callable[..., None]) -> Inject:
    def inject(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.modules["tinygrad_attn.graph"]._Arriving, "add", add)

    return inject


ENGINE = [
    Mistake("fold: broadcast is not summed", spoilt_fold(first_copy), ta.add, (X23, reals(3)), culprit="add"),
    Mistake(
        "fold: broadcast is not folded", spoilt_fold(unfolded), ta.multiply, (X23, reals(2, 1)), culprit="multiply"
    ),
    Mistake("sweep: a gradient overwrites the first", spoilt_sum(overwrite), used_twice, (reals(3),)),
    Mistake("sweep: only the first gradient is kept", spoilt_sum(keep_first), used_twice, (reals(3),)),
    Mistake("sweep: queries, keys and values overwrite", spoilt_sum(overwrite), self_attention, (X32,)),
    Mistake("max: every tie gets all of the gradient", wrong_max, tied_max, (reals(3),)),
    Mistake("square: wrong by 5 on values near 1e-8", wrong_tiny, tiny, (reals(3),), culprit="square"),
    Mistake("square: wrong by 5 for x near 1e-8", wrong_tiny, ta.square, (1e-8 * reals(3),), culprit="square"),
]

MISTAKES = [*PRIMITIVE, *FUSED, *ENGINE]
