"""What an operation is given: whole numbers, lists, Tensors in the place of constants, arrays that must not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import ops
from tinygrad_attn.errors import DtypeError, GradientError, InPlaceError

WHOLE = np.array([[1, 2, 3], [3, 1, 2]])
FUNCTIONS: dict[str, Any] = {
    "softmax": lambda x: ops.softmax(x),
    "log_softmax": lambda x: ops.log_softmax(x),
    "logsumexp": lambda x: ops.logsumexp(x, axis=-1),
    "cross_entropy": lambda x: ops.cross_entropy(x, np.array([0, 2])),
    "cross_entropy, smoothed": lambda x: ops.cross_entropy(x, np.array([0, 2]), label_smoothing=0.1),
    "attention": lambda x: ops.scaled_dot_product_attention(x, x, x),
    "attention, chunked": lambda x: ops.scaled_dot_product_attention(x, x, x, chunk=1),
    "attention, dropped": lambda x: ops.scaled_dot_product_attention(
        x, x, x, dropout=0.5, rng=np.random.default_rng(0)
    ),
    "layer_norm": lambda x: ops.layer_norm(x, np.ones(3), np.zeros(3)),
    "rms_norm": lambda x: ops.rms_norm(x, np.ones(3)),
    "linear": lambda x: ops.linear(x, np.full((2, 3), 0.5), np.array([0.5, 0.25])),
    "masked_fill": lambda x: ops.masked_fill(x, WHOLE > 1, value=0.5),
    "gelu": lambda x: ops.gelu(x),
    "silu": lambda x: ops.silu(x),
    "mse_loss": lambda x: ops.mse_loss(x, np.ones((2, 3))),
    "bce_with_logits": lambda x: ops.bce_with_logits(x, np.ones((2, 3))),
    "dropout": lambda x: ops.dropout(x, 0.5, rng=np.random.default_rng(0)),
    "mean": lambda x: ops.mean(x),
    "var": lambda x: ops.var(x, axis=-1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("wrap", [np.asarray, ta.Tensor], ids=["array", "Tensor"])
def test_whole_numbers_give_what_the_same_floating_numbers_give(name: str, wrap: Any) -> None:
    expected = FUNCTIONS[name](WHOLE.astype(np.float64))
    np.testing.assert_allclose(np.asarray(FUNCTIONS[name](wrap(WHOLE))), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "name", sorted(set(FUNCTIONS) - {"dropout", "attention", "attention, chunked", "attention, dropped"})
)
def test_a_written_list_is_an_array(name: str) -> None:
    written = WHOLE.astype(float).tolist()
    expected = FUNCTIONS[name](WHOLE.astype(np.float32))
    np.testing.assert_allclose(np.asarray(FUNCTIONS[name](written)), expected, rtol=1e-5)


def test_whole_numbers_to_a_negative_whole_power_are_refused_in_our_words() -> None:
    with pytest.raises(DtypeError, match="negative"):
        ta.Tensor([1, 2]) ** -1


@pytest.mark.parametrize(
    "call",
    [
        lambda x, p: ops.mean([x, p]),
        lambda x, p: ops.softmax([x, p]),
        lambda x, p: ops.sum([[x, p], [1.0, 2.0]]),
        lambda x, p: ops.concatenate([[p], [1.0]]),
        lambda x, p: ops.stack([[p, p], [1.0, 2.0]]),
    ],
)
def test_a_list_of_tensors_is_not_taken_for_an_array(call: Any) -> None:
    x, p = (ta.Tensor(1.0, requires_grad=True) for _ in range(2))
    with pytest.raises(DtypeError, match="stack"):
        call(x, p)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, p: ops.leaky_relu(x, negative_slope=p),
        lambda x, p: ops.masked_fill(x, x.numpy() > 0, value=p),
        lambda x, p: ops.elu(x, alpha=p),
        lambda x, p: np.clip(x, 0.0, p),
        lambda x, p: np.pad(x, 1, constant_values=p),
        lambda x, p: ops.rms_norm(x, np.ones(2), eps=p),
        lambda x, p: ops.layer_norm(x, np.ones(2), np.ones(2), eps=p),
    ],
)
def test_a_tensor_that_wants_a_gradient_is_refused_as_an_option(call: Any) -> None:
    x, p = ta.Tensor([1.0, -2.0], requires_grad=True), ta.Tensor(0.5, requires_grad=True)
    with pytest.raises(GradientError, match="constant"):
        call(x, p)


def test_a_tensor_without_gradient_serves_as_an_option() -> None:
    x = ta.Tensor([1.0, -2.0], requires_grad=True)
    np.testing.assert_array_equal(np.clip(x, 0.0, ta.Tensor(0.5)).numpy(), [0.5, 0.0])
    np.testing.assert_array_equal(ops.leaky_relu(x, negative_slope=ta.Tensor(0.5)).numpy(), [1.0, -1.0])


def test_the_temperature_of_attention_can_be_learned() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, 2)) for _ in range(3)]
    report = ta.gradcheck(lambda q, k, v, s: ops.scaled_dot_product_attention(q, k, v, scale=s), *arrays, np.array(0.7))
    assert report


def test_an_operation_of_ones_own_cannot_change_its_input_in_place() -> None:
    @ta.op
    def doubled(x: Any) -> Any:
        x *= 2.0
        return x

    with pytest.raises(InPlaceError, match=r"doubled: the forward formula writes into its input.*\n  compute a new"):
        doubled(ta.Tensor([1.0], requires_grad=False))


def test_nothing_is_a_clear_mistake_as_the_result_of_an_operation() -> None:
    @ta.op
    def forgotten(x: Any) -> Any:
        x + 1.0

    with pytest.raises(GradientError, match="returned None"):
        forgotten(ta.Tensor([1.0]))
