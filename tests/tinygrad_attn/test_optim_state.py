"""Optimisers: what their state holds, and that a restored one goes on as if nothing had been."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tinygrad_attn.optimisers import assert_same, everything, give_gradients, optimisers, parameters
from tinygrad_attn import nn, optim, schedules
from tinygrad_attn.errors import CheckpointError, DtypeError


@given(optimisers(), st.integers(0, 5), st.integers(1, 5))
def test_a_restored_optimiser_goes_on_bit_for_bit(optimiser, before, after):
    make, settings, _ = optimiser

    def run(params, optimizer, steps):
        for step in steps:
            give_gradients(params[step % 2 :], seed=step)  # the first parameter has no new gradient every other time
            optimizer.step()

    def fresh():
        params = parameters((3, 2), (4,), (2,), dtype=np.float32)
        return params, make([{"params": params[:1], "lr": 0.01}, {"params": params[1:]}], **settings)

    params, optimizer = fresh()
    run(params, optimizer, range(before))
    resumed, other = fresh()
    for source, target in zip(params, resumed, strict=True):
        target.data = source.numpy()
        target.grad = None if source.grad is None else source.grad.copy()
    other.param_groups[0]["lr"] = 99.0
    other.load_state_dict(optimizer.state_dict())
    for each, its in ((params, optimizer), (resumed, other)):
        run(each, its, range(before, before + after))
    assert_same(everything(other), everything(optimizer))
    assert other.param_groups[0]["lr"] == 0.01 and isinstance(other.param_groups[0]["lr"], float)


@pytest.mark.parametrize("lr", [1, np.float32(0.25), np.float64(0.25), np.array(0.25)[()]])
def test_a_learning_rate_may_be_any_number_and_changes_no_dtype(lr):
    params, others = parameters((3,), dtype=np.float32), parameters((3,), dtype=np.float32)
    optimizer, other = optim.Adam(params, lr=lr), optim.Adam(others, lr=float(lr))
    for each, its in ((params, optimizer), (others, other)):
        give_gradients(each)
        its.step()
    np.testing.assert_array_equal(params[0].numpy(), others[0].numpy())
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["lr"] == float(lr)


def test_a_state_of_another_kind_is_refused_and_nothing_is_changed():
    optimizer = optim.Adam(parameters((3,), (2,)))
    before = everything(optimizer)
    for other in (
        optim.SGD(parameters((3,), (2,))),
        optim.Adam(parameters((3,))),
        optim.Adam(parameters((3,), (4,))),
        optim.Adam(parameters((3,), (2,), dtype=np.float32)),
        optim.Adam([{"params": parameters((3,))}, {"params": parameters((2,))}]),
    ):
        with pytest.raises(CheckpointError, match="does not fit Adam; nothing was changed"):
            optimizer.load_state_dict(other.state_dict())
    assert_same(everything(optimizer), before)


def test_the_same_parameters_grouped_otherwise_are_another_state():
    def grouped(cut):
        params = parameters((2,), (2,), (2,))
        return optim.SGD([{"params": params[:cut]}, {"params": params[cut:]}])

    with pytest.raises(CheckpointError, match=r"other size  group\.0\.count  expected 1, given 2"):
        grouped(1).load_state_dict(grouped(2).state_dict())


def test_the_state_is_a_copy():
    params = parameters((3,))
    optimizer = optim.Adam(params)
    state = optimizer.state_dict()
    give_gradients(params)
    optimizer.step()
    assert not state["0.first_moment"].any() and state["0.step"] == 0


def test_a_deep_copy_of_model_and_optimiser_trains_the_copy_only():
    model = nn.Linear(3, 2)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    give_gradients(model.parameters())
    optimizer.step()
    copied_model, copied = copy.deepcopy((model, optimizer))
    before = everything(optimizer)
    assert copied.param_groups[0]["params"][0] is copied_model.weight
    copied.step()
    assert_same(everything(optimizer), before)
    optimizer.step()
    assert_same(everything(optimizer), everything(copied))


def test_a_state_is_a_mapping():
    with pytest.raises(DtypeError, match="mapping"):
        optim.SGD(parameters((2,)), lr=0.1).load_state_dict(None)


def test_a_run_with_a_schedule_and_a_group_that_joined_goes_on_bit_for_bit():
    def begun():
        a, b = parameters((3,), (2,), seed=1)
        optimizer = optim.AdamW([a], lr=1)
        optimizer.add_param_group({"params": [b], "weight_decay": 0.3})
        return a, b, optimizer

    def go_on(a, b, optimizer, steps):
        for step in steps:
            give_gradients([a, b], seed=step)
            b.grad = b.grad if step % 3 else None
            optimizer.set_lr(0.1 * schedules.warmup_cosine(step, warmup_steps=3, total_steps=20))
            optimizer.step()

    a, b, optimizer = begun()
    go_on(a, b, optimizer, range(1, 11))
    resumed = begun()
    for parameter, before in zip(resumed[:2], (a, b), strict=True):
        parameter.data = before.numpy()
    resumed[2].load_state_dict(optimizer.state_dict())
    go_on(a, b, optimizer, range(11, 21))
    go_on(*resumed, range(11, 21))
    np.testing.assert_array_equal(a.numpy(), resumed[0].numpy())
    np.testing.assert_array_equal(b.numpy(), resumed[1].numpy())
