"""why: the operation that is named is the one at fault, where several look like it; and the advice fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.tinygrad_attn.explained import silent, variable  # noqa: F401
from tinygrad_attn.diagnose import Explanation, why


def operations(found: Explanation) -> list[str]:
    return [cause.operation for cause in found.causes]


def flat(found: Explanation) -> str:
    return " ".join(str(found).split())


# --- several uses, each of which takes a part ------------------------------------------------------------------------


def test_a_step_that_takes_its_own_row_is_not_to_blame_for_the_others() -> None:
    x = variable(np.full((4, 3), 100.0))
    state: Any = np.zeros(3)
    for t in range(4):
        state = np.tanh(x[t] + state)
    found = why(x, np.sum(state))
    assert set(operations(found)) == {"tanh"}, str(found)
    assert sum(cause.count for cause in found.causes) == x.size


def test_saturated_gates_are_named_inside_a_recurrent_layer() -> None:
    ta.manual_seed(0)
    layer = ta.nn.GRU(2, 3)
    x = variable(np.full((1, 4, 2), 1e4), dtype=np.float32)
    found = why(x, np.sum(layer(x)[0]))
    assert found.cause is not None
    assert (found.cause.operation, found.cause.inside, found.cause.kind) == ("sigmoid", "gru_sequence", "saturated")


@pytest.mark.parametrize("parts", [lambda x: np.split(x, 2), lambda x: [x[:3], x[3:]]], ids=["split", "slices"])
def test_what_happens_to_each_part_is_told(parts: Any) -> None:
    x = variable(np.ones(6))
    first, second = parts(x)
    found = why(x, np.sum(ta.relu(first - 5.0)) + np.sum(second * 0.0))
    assert operations(found) == ["relu", "multiply"], str(found)


def test_rows_of_a_table_that_are_looked_up_elsewhere_are_not_called_unread() -> None:
    weight = variable(np.ones((4, 2)), "weight")
    one, other = ta.embedding(weight, np.array([0, 1])), ta.embedding(weight, np.array([2]))
    found = why(weight, np.sum(ta.relu(one - 5.0)) + np.sum(ta.relu(other - 6.0)))
    assert sorted(operations(found)) == ["embedding", "relu", "relu"], str(found)
    assert "no id names row 3" in flat(found), str(found)


def test_what_no_use_takes_is_told_once_and_of_how_many() -> None:
    x = variable(np.ones(6))
    found = why(x, np.sum(x[:2] * 0.0) + np.sum(ta.relu(x[1:4] - 3.0)))
    assert sorted(operations(found)) == ["getitem", "multiply", "relu"], str(found)
    assert "2 of 6 elements are not in the result" in flat(found)


# --- one cause, told once, with advice that fits ---------------------------------------------------------------------


def test_a_square_at_zero_is_told_once() -> None:
    x = variable([0.0, 0.0])
    found = why(x, np.sum(x * x))
    assert len(found.causes) == 1 and "the slope of a square" in flat(found)


def test_an_operand_that_is_a_result_was_not_initialised_with_zeros() -> None:
    ta.manual_seed(0)
    layer, x = ta.nn.Linear(3, 2), variable(np.full((2, 3), -1.0), dtype=np.float32)
    found = why(layer.weight, np.sum(layer(ta.relu(x))))
    assert "look at what made x, a result of relu" in flat(found), str(found)


def test_a_leaf_keeps_its_advice_inside_a_fused_operation() -> None:
    x, gain = variable([[1.0, 2.0, 4.0]]), variable(np.zeros(3), "gain")
    found = why(x, np.sum(ta.layer_norm(x, gain, np.zeros(3)) * np.arange(3.0)))
    assert "inside layer_norm" in flat(found) and "was gain initialised with zeros?" in flat(found), str(found)


def test_a_prediction_that_is_sure_of_its_target_is_told() -> None:
    logits = variable([200.0, -300.0], "logits", dtype=np.float32)
    found = why(logits, ta.bce_with_logits(logits, np.array([1.0, 0.0], dtype=np.float32)))
    assert "both elements of logits are so sure of the target" in flat(found)


def test_an_exponential_of_minus_infinity_is_no_underflow() -> None:
    x = variable([1.0, 2.0])
    found = why(x, np.sum(np.exp(x + np.array([0.0, -np.inf]))))
    assert found.cause is not None and found.cause.kind == "masked" and found.cause.remedy == ""


@pytest.mark.filterwarnings("ignore:Degrees of freedom")
@pytest.mark.parametrize("spread", [np.var, np.std])
def test_a_spread_of_one_element_says_what_to_do(spread: Any) -> None:
    x = variable([3.0])
    assert "ddof=0" in flat(why(x, np.sum(spread(x, ddof=1)))), spread


def test_a_range_that_is_wide_does_not_break_the_lines() -> None:
    x = variable(np.full((1, 2, 11, 12, 13), -0.123456789), dtype=np.float32)
    x.data[0, 1] = np.inf
    found = why(x, np.sum(ta.layer_norm(x, np.ones(13), np.zeros(13)) * 1.23456789e20))
    assert "not finite" in str(found) and max(map(len, str(found).splitlines())) <= 80, str(found)


def test_float64_is_no_advice_for_float64() -> None:
    for dtype, factor, advised in ((np.float32, 1e-30, True), (np.float64, 1e-200, False)):
        x = variable([1.0], dtype=dtype)
        found = why(x, np.sum(x * factor * factor))
        assert ("try: float64" in str(found)) is advised, str(found)


def test_a_slope_that_a_wider_dtype_can_hold_is_an_overflow_and_not_infinite() -> None:
    small, zero = variable([1e-30], dtype=np.float32), variable([0.0], dtype=np.float32)
    assert "overflow: the gradient of b becomes -inf" in flat(why(small, np.sum(1.0 / small)))
    assert "infinite slope" in flat(why(zero, np.sum(np.sqrt(zero))))


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_dead_operation_is_found_inside_a_checkpoint_for_what_it_is_given_and_what_it_uses() -> None:
    given, used = variable([1.0, 2.0]), variable([-1.0, -2.0], "used")
    loss = np.sum(ta.checkpoint(lambda x: ta.relu(used) * ta.relu(-x))(given))
    for tensor in (given, used):
        found = why(tensor, loss)
        assert found.cause is not None and found.cause.inside == "checkpoint", str(found)
        assert found.cause.operation == "relu", str(found)


def test_what_is_not_finite_is_found_inside_a_checkpoint_backward_and_forward() -> None:
    x = variable([0.0, 2.0])
    found = why(x, np.sum(ta.checkpoint(lambda x: np.sqrt(x) * 2.0)(x * 3.0)))
    assert found.cause is not None
    assert (found.cause.operation, found.cause.inside, found.cause.path) == ("sqrt", "checkpoint", ("multiply",))
    found = why(x, np.sum(ta.checkpoint(lambda x: np.log(x - 1.0))(x)))
    assert "log, inside checkpoint: logarithm of a negative number" in flat(found), str(found)


def test_the_line_of_a_checkpoint_is_shown_where_it_was_noted() -> None:
    x = variable([0.0, -1.0])
    with ta.detect_anomaly():
        zero = np.sum(ta.checkpoint(ta.relu)(x))
        infinite = np.sum(ta.checkpoint(np.sqrt)(x[:1]))
    for loss, words in ((zero, "ta.checkpoint(ta.relu)(x)"), (infinite, "ta.checkpoint(np.sqrt)(x[:1])")):
        assert words in flat(why(x, loss)), str(why(x, loss))


# --- no claim without evidence ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(variable(x.numpy() * 2.0, "leaf")),
        lambda x: np.sum(variable([1.0, 2.0, 3.0], "table")[x.numpy().astype(int)]),
    ],
    ids=["a leaf of its numbers", "an index"],
)
def test_it_does_not_say_unused_of_what_may_have_gone_in_as_numbers(f: Any) -> None:
    x = variable([1.3, 2.1])
    assert "not used, or its numbers went in as an index, a condition or a leaf" in flat(why(x, f(x)))


def test_a_condition_is_called_a_comparison() -> None:
    x = variable([0.3, -0.1])
    found = why(x, np.sum(np.where(x.numpy() > 0, variable([1.0, 2.0], "w"), 0.0)))
    assert "a comparison with 0" in flat(found), str(found)


def test_a_loss_that_is_no_tensor_is_told_apart_from_a_tensor_that_is_none() -> None:
    x = variable([0.5])
    with pytest.raises(ta.errors.DtypeError, match=r"why: the loss must be a Tensor\n  given float64"):
        why(x, np.floor(x).sum())


def test_detach_is_among_the_reasons_for_a_loss_without_a_graph() -> None:
    x = variable([1.0])
    assert "detach()" in str(why(x, np.sum(np.exp(x.detach()))))


def test_a_frozen_parameter_is_told() -> None:
    weight = variable([1.0], "weight").requires_grad_(False)
    assert "requires_grad_(False)" in flat(why(weight)) and "try: tensor.requires_grad_()" in str(why(weight))


# --- what .grad holds ------------------------------------------------------------------------------------------------


def test_a_gradient_that_was_added_up_twice_is_noted() -> None:
    x = variable([1.0, 2.0])
    loss = np.sum(x * x)
    loss.backward()
    assert "those of .grad" not in flat(why(x, loss))
    loss.backward()
    assert "elements have sizes from 2 to 4 those of .grad have sizes from 4 to 8: gradients add up" in flat(
        why(x, loss)
    )


def test_a_hook_is_suspected_where_there_is_one() -> None:
    x = variable([1.0])
    x.register_hook(lambda gradient: gradient * 0.0)
    loss = np.sum(x * 2.0)
    loss.backward()
    assert "if it stays so, look at the hook" in flat(why(x, loss))


def test_nothing_is_said_about_no_elements() -> None:
    x = variable([1.0, 2.0])
    assert "the gradient is empty" in flat(why(x, np.sum(x), index=slice(0, 0)))


def test_a_long_name_does_not_break_the_lines() -> None:
    x = variable(np.ones((3, 2)), "encoder.layers.0." * 6 + "weight")
    found = why(x, np.sum(x * 0.0))
    assert max(map(len, str(found).splitlines())) <= 80
    assert "layers.0.weight (3, 2)" in found.subject
