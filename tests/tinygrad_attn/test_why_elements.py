"""why: of which elements a reason is told, which of several comes first, and what is only rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.tinygrad_attn.explained import randoms, silent, uneven, variable  # noqa: F401
from tinygrad_attn import nn
from tinygrad_attn.diagnose import why


def test_a_cause_that_explains_more_comes_first() -> None:
    x = variable(np.array([-1.0, 1.0, 2.0, 3.0]))
    found = why(x, uneven(ta.relu(x) * 0.0))
    assert [cause.operation for cause in found.causes] == ["multiply", "relu"]
    assert [cause.count for cause in found.causes] == [3, 1]
    assert "1 of 4 elements is not above 0" in str(found)
    assert "all 3 elements concerned of a are multiplied by 0" in str(found)


def test_how_many_elements_are_concerned_is_told() -> None:
    x = variable([-1.0, 2.0, 3.0])
    loss = uneven(ta.relu(x))
    loss.backward()
    assert why(x, loss).summary == "the gradient is zero in 1 of 3 elements"
    assert why(x, loss, index=slice(0, 2)).summary == "the gradient is zero in 1 of 2 elements"
    y = variable([0.0, 1.0])
    loss = np.sum(np.sqrt(y))
    loss.backward()
    assert why(y, loss).summary == "the gradient is not finite in 1 of 2 elements"
    assert why(y, loss, index=0).summary == "the gradient is not finite"
    assert why(y).summary == ".grad is not finite" and why(y).advice.startswith("why(tensor, loss)")
    assert why(y, loss, index=1).notes == ("its elements have size 0.5",)
    assert why(y, index=1).state == "fine" and not why(y, index=1).advice


def test_of_several_reasons_in_a_batch_no_single_one_is_claimed() -> None:
    """In one sentence query 0 may look at one key only, in the other it is sure of itself; it takes both to explain."""
    query, value = variable(np.ones((1, 2, 1)), "query"), randoms(2, 2, 1)
    key = variable(np.array([[[1.0], [2.0]], [[0.0], [9e3]]]))
    mask = np.array([[[True, False]], [[True, True]]])
    loss = uneven(ta.scaled_dot_product_attention(query, key, value, mask=mask))
    found = why(query, loss, index=(0, 0))
    assert found.derivative == "zero" and found.cause is not None
    assert found.cause.kind not in ("constant", "masked")


def test_a_shared_key_is_looked_at_in_every_sentence() -> None:
    key, value = variable([[[1.0], [2.0]]], "key"), randoms(1, 2, 1)
    mask = np.array([[[True, False], [True, False]], [[True, True], [True, True]]])
    sure = variable(np.array([[[1.0], [1.0]], [[9e3], [9e3]]]))
    loss = uneven(ta.scaled_dot_product_attention(sure, key, value, mask=mask))
    assert why(key, loss).derivative == "zero"
    assert {cause.kind for cause in why(key, loss).causes} == {"saturated"}


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x @ np.array([[1.0, 2.0], [3.0, 4.0]]),
        lambda x: x.T,
        lambda x: np.sort(x, axis=0),
        lambda x: np.concatenate([x, np.ones((1, 2))]),
        lambda x: ta.softmax(x, axis=-1),
        lambda x: ta.layer_norm(x, np.ones(2), np.array([0.0, 1.0])) + np.square(x),
    ],
)
def test_only_what_the_elements_go_into_is_followed(f: Any) -> None:
    """Row 1 of x goes into two elements, though all that comes of x is lost in the same relu."""
    x = variable([[5.0, 8.0], [1.0, 3.0]])
    found = why(x, np.sum(ta.relu(f(x) - 1000.0)), index=1)
    assert found.cause is not None
    assert (found.cause.operation, found.cause.count) == ("relu", 2)


def test_only_the_elements_that_are_not_finite_are_followed() -> None:
    x = variable([0.0, 0.0])
    loss = np.sum(np.concatenate([np.sqrt(x[:1]), np.log(x[1:])]))
    assert {cause.operation for cause in why(x, loss).causes} == {"sqrt", "log"}
    assert {cause.operation for cause in why(x, loss, index=0).causes} == {"sqrt"}
    assert {cause.operation for cause in why(x, loss, index=1).causes} == {"log"}


def test_only_the_elements_that_are_too_small_are_called_so() -> None:
    x = variable([1.0, 1.0, 1.0], dtype=np.float32)
    found = why(x, np.sum(x * np.array([1e-30, 1.0, 0.0], np.float32) * np.float32(1e-30)))
    assert [(cause.kind, cause.count, cause.place) for cause in found.causes] == [
        ("times zero", 1, (2,)),
        ("underflow", 1, (0,)),
    ]


def test_only_the_elements_asked_about_are_explained() -> None:
    x = variable([-1.0, 2.0, 3.0])
    loss = uneven(ta.relu(x)[:2])
    assert why(x, loss).derivative == "partly zero"
    assert [cause.operation for cause in why(x, loss, index=[0]).causes] == ["relu"]
    assert [cause.operation for cause in why(x, loss, index=np.array([False, False, True])).causes] == ["getitem"]
    assert why(x, loss, index=1).derivative == "not zero"
    assert why(x, loss, index=1).causes == ()


def test_the_upstream_gradient_may_be_the_reason() -> None:
    x = variable([1.0, 2.0])
    found = why(x, x * 2.0, upstream=[0.0, 1.0], index=0)
    assert found.cause is not None and found.cause.kind == "zero upstream"
    assert "a gradient of ones was sent in" in str(why(x, x * 2.0))
    assert "ones" not in str(why(x, x * 2.0, upstream=[1.0, 1.0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("f", "operation"),
    [
        (lambda x: np.sum(ta.softmax(x)), "softmax"),
        (
            lambda x: np.sum(np.tanh(ta.softmax(x * 2.0) * 0.0 + ta.softmax(x))) * 0.0 + np.mean(ta.softmax(x)),
            "softmax",
        ),
        (lambda x: np.sum(ta.layer_norm(x, np.ones(7, x.dtype), np.zeros(7, x.dtype))), "layer_norm"),
    ],
)
def test_what_cancels_but_for_rounding_is_told_from_a_gradient(f: Any, operation: str, dtype: Any) -> None:
    x = ta.Tensor(np.random.standard_normal((5, 7)).astype(dtype), requires_grad=True)
    loss = f(x)
    loss.backward()
    found = why(x, loss)
    assert found.state == found.derivative == "rounding error"
    assert operation in [cause.operation for cause in found.causes]


def test_a_sum_that_cancels_but_for_rounding_is_told() -> None:
    x = randoms(4)
    found = why(x, uneven(x * 0.1 * 3.0 - x * 0.3))
    assert found.derivative == "rounding error"
    assert found.cause is not None and found.cause.text == "what x (4,) gets from its 2 uses cancels"


@pytest.mark.parametrize("seed", range(5))
def test_rounding_does_not_hide_that_a_weight_is_constant(seed: int) -> None:
    np.random.seed(seed)
    q, k, v = randoms(3, 2), randoms(3, 2, name="key"), randoms(3, 2)
    loss = np.sum(
        ta.scaled_dot_product_attention(q, k, v, mask=np.eye(3, dtype=bool)) * np.random.standard_normal((3, 2))
    )
    found = why(k, loss)
    assert found.derivative in ("zero", "partly zero", "rounding error")
    assert found.cause is not None and found.cause.kind == "constant"


def test_the_bias_of_keys_has_no_gradient() -> None:
    """What is added to all scores of a query alike, softmax does not see."""
    to_key = nn.Linear(4, 4, dtype=np.float64)
    q, x, v = randoms(5, 4), randoms(5, 4), randoms(5, 4)
    loss = uneven(ta.scaled_dot_product_attention(q, to_key(x), v))
    found = why(to_key.bias, loss)
    assert found.derivative == "rounding error"
    assert "added in many places" in str(found) and "does a softmax" in str(found)
    assert why(to_key.weight, loss).derivative == "not zero"


def test_a_small_gradient_is_no_rounding_error() -> None:
    x = randoms(5)
    assert why(x, np.sum(ta.softmax(x)) + 1e-15 * uneven(x)).derivative == "not zero"
    assert why(x, 1e-15 * uneven(np.sin(x))).derivative == "not zero"
