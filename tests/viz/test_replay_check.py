"""Beside every gradient stands the one by differences, or the reason why there is none."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from hypothesis import given

import tinygrad_attn as ta
from tests.viz.test_replay import graphs, leaf, step_of
from viz.replay import Numerical, Replay, replay


def numerical(recorded: Replay, name: str) -> Numerical:
    found = step_of(recorded, name).numerical
    assert found is not None
    return found


@given(graphs())
def test_rules_and_differences_agree_at_every_tensor(graph: tuple[ta.Tensor, list[ta.Tensor]]) -> None:
    recorded = replay(graph[0], numerical=True)
    for step in recorded.steps:
        assert step.numerical is not None and step.numerical.agrees
        assert step.numerical.value.shape == step.shape
        np.testing.assert_allclose(step.numerical.value, step.upstream, rtol=1e-5, atol=1e-6)


def test_a_wrong_rule_is_noticed_where_it_acts() -> None:
    @ta.op
    def doubled(x: Any) -> Any:
        return 2.0 * x

    @doubled.gradient("x", formula="dx = dy")
    def _(g: Any, out: Any, x: Any) -> Any:
        return g

    x = leaf([1.0, 2.0], "x")
    y = doubled(x)
    y.name = "y"
    recorded = replay((y * y).sum())
    assert numerical(recorded, "y").agrees
    assert not numerical(recorded, "x").agrees
    np.testing.assert_allclose(numerical(recorded, "x").value, [8.0, 16.0])
    assert "✗" in recorded.text() and "x: not what the rules say" in recorded.text()


def test_single_precision_is_checked_in_double() -> None:
    x = ta.Tensor(np.linspace(-1.0, 1.0, 6, dtype=np.float32), requires_grad=True, name="x")
    found = numerical(replay((ta.exp(x) * x).sum()), "x")
    assert found.value.dtype == np.float64 and found.agrees
    exact = np.exp(x.numpy().astype(np.float64)) * (1.0 + x.numpy().astype(np.float64))
    np.testing.assert_allclose(found.value, exact, rtol=1e-9)


def test_a_kink_is_no_disagreement() -> None:
    found = numerical(replay(ta.relu(leaf([-1.0, 0.0, 1.0], "x")).sum()), "x")
    assert found.smooth.tolist() == [True, False, True] and found.agrees


def test_infinity_cannot_be_moved_and_warns_nobody() -> None:
    x = leaf([0.0, 1.0], "x")
    masked = ta.masked_fill(x, np.array([False, True]), value=-np.inf)
    masked.name = "masked"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = numerical(replay(ta.softmax(masked)[0] * 1.0), "masked")
    assert found.smooth.tolist() == [True, False] and np.isnan(found.value[1]) and found.agrees


def test_a_cast_does_not_hide_small_steps() -> None:
    x = leaf([1.0, 2.0], "x")
    assert numerical(replay((ta.astype(x, dtype=np.float32) * 3.0).sum()), "x").agrees


def test_dropout_is_run_again_with_the_same_mask() -> None:
    ta.manual_seed(3)
    x = leaf(np.ones((4, 4)), "x")
    assert numerical(replay(ta.dropout(x, 0.5).sum()), "x").agrees


def test_an_operation_that_gives_something_else_each_time_has_no_differences() -> None:
    rng = np.random.default_rng(0)

    @ta.op
    def noisy(x: Any) -> Any:
        return x + rng.normal(size=x.shape)

    @noisy.gradient("x", formula="dx = dy")
    def _(g: Any, out: Any, x: Any) -> Any:
        return g

    recorded = replay(noisy(leaf([1.0, 2.0], "x")).sum())
    assert (recorded.unchecked, recorded.unchecked_at) == ("differs", "noisy")
    assert all(step.numerical is None for step in recorded.steps)
    assert "noisy gives other values" in recorded.text(200)


def test_an_operation_that_refuses_to_run_again_has_no_differences() -> None:
    @ta.op
    def single_only(x: Any) -> Any:
        if x.dtype != np.float32:
            raise LookupError("float32, please")
        return x * np.float32(2.0)

    @single_only.gradient("x", formula="dx = 2 dy")
    def _(g: Any, out: Any, x: Any) -> Any:
        return g * 2.0

    recorded = replay(single_only(ta.Tensor([1.0], requires_grad=True)).sum())
    assert (recorded.unchecked, recorded.unchecked_at) == ("differs", "single_only")


def test_differences_that_take_long_are_made_only_on_demand() -> None:
    x = leaf(np.linspace(0.0, 1.0, 4_000), "x")
    loss = ((x * x) * x).sum()
    assert replay(loss).unchecked == "large"
    assert replay(loss, numerical=False).unchecked == "off"
    recorded = replay((x[:50] * x[:50]).sum(), numerical=True)
    assert recorded.unchecked == "" and numerical(recorded, "x").agrees


def test_a_checkpoint_is_run_again_for_the_differences() -> None:
    x = leaf([1.0, 2.0], "x")
    for loss in (
        ta.checkpoint(lambda q: (q * q).sum())(x),
        (ta.checkpoint(lambda q, k: q * k * q)(x, k=2.0) * x).sum(),
    ):
        recorded = replay(loss)
        assert recorded.unchecked == "" and numerical(recorded, "x").agrees
    weight = leaf([3.0, 4.0], "weight")
    recorded = replay(ta.checkpoint(lambda q: (q * weight).sum())(x))
    assert (recorded.unchecked, recorded.unchecked_at) == ("differs", "checkpoint")
