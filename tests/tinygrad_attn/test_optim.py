"""Optimisers: the flat update equals the formula, and a step changes everything or nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tinygrad_attn.optimisers import ADAM, assert_same, everything, give_gradients, optimisers, parameters
from tinygrad_attn import Tensor, nn, optim
from tinygrad_attn.errors import DtypeError, MutatedError, NotFiniteError, OptionError
from tinygrad_attn.optim.finite import all_finite
from tinygrad_attn.optim.optimizer import CHUNK

# --- the fast path is the formula ---------------------------------------------------------------------------------


@given(
    optimisers(), st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=6), st.integers(0, 9)
)
def test_flat_steps_equal_the_formula_parameter_by_parameter(optimiser, taking_part, seed):
    """Also where some parameters have no gradient at some steps, so that neighbours have taken different numbers."""
    make, settings, definition = optimiser
    shapes = [(2, 3), (), (0, 2), (5,)]
    params = parameters(*shapes, seed=seed)
    optimizer = make(params, **settings)
    expected, states, steps = [p.numpy().copy() for p in params], [None] * 4, [0] * 4
    rng = np.random.default_rng(seed)
    for with_gradient in taking_part:
        for i, parameter in enumerate(params):
            parameter.grad = rng.normal(size=shapes[i]) if with_gradient[i] else None
            if with_gradient[i]:
                steps[i] += 1
                expected[i], states[i] = definition(expected[i], parameter.grad.copy(), states[i], steps[i])
        optimizer.step()
    for parameter, values in zip(params, expected, strict=True):
        np.testing.assert_allclose(parameter.numpy(), values, rtol=1e-10, atol=1e-10)


def test_stretches_longer_than_a_chunk_are_updated_to_the_last_element():
    params = parameters((CHUNK - 1,), (3,), (2 * CHUNK + 5,))
    before = [p.numpy().copy() for p in params]
    give_gradients(params)
    optim.Adam(params, lr=0.1).step()
    for parameter, values in zip(params, before, strict=True):
        zeros = np.zeros_like(values)
        expected, *_ = optim.adam_definition(values, parameter.grad, zeros, zeros, step=1, lr=0.1, **ADAM)
        np.testing.assert_allclose(parameter.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_parameters_of_several_dtypes_keep_theirs():
    params = [*parameters((3,), dtype=np.float32), *parameters((3,)), *parameters((2,), dtype=np.float16)]
    give_gradients(params)
    optimizer = optim.Adam(params, lr=0.1)
    optimizer.step()
    assert [p.dtype for p in params] == [np.float32, np.float64, np.float16]
    assert all((p.numpy() != q.numpy()).any() for p, q in zip(params, parameters((3,), (3,), (2,)), strict=True))


def test_a_gradient_of_zero_is_a_step_and_none_is_not():
    moved, still = parameters((2,), (2,))
    optimizer = optim.SGD([moved, still], lr=1.0, momentum=0.5)
    give_gradients([moved, still])
    optimizer.step()
    before = moved.numpy().copy(), still.numpy().copy()
    moved.grad, still.grad = np.zeros(2), None
    optimizer.step()
    assert (moved.numpy() != before[0]).all() and (still.numpy() == before[1]).all()


# --- parameters stay what they are ---------------------------------------------------------------------------------


def test_values_written_between_steps_are_where_the_next_step_starts():
    (parameter,) = parameters((3,))
    optimizer = optim.SGD([parameter], lr=1.0)
    parameter.data = np.zeros(3)
    parameter.data[1] = 5.0
    parameter.grad = np.ones(3)
    optimizer.step()
    assert parameter.tolist() == [-1.0, 4.0, -1.0]
    assert parameter.data.tolist() == [-1.0, 4.0, -1.0]


def test_making_an_optimiser_changes_no_value_and_loses_no_graph():
    model = nn.Linear(3, 2)
    before = model.state_dict()
    loss = (model(np.ones((1, 3), np.float32)) ** 2.0).sum()
    optim.Adam(model.parameters())
    loss.backward()
    assert_same(model.state_dict(), before)
    assert model.weight.grad.any()


def test_a_step_between_forward_and_backward_is_noticed():
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    give_gradients(model.parameters())
    loss = (model(np.ones((1, 3), np.float32)) ** 2.0).sum()
    optimizer.step()
    with pytest.raises(MutatedError):
        loss.backward()


def test_writing_between_forward_and_backward_is_noticed_after_the_values_have_moved():
    model = nn.Linear(3, 2)
    optim.SGD(model.parameters(), lr=0.1)
    handle = model.weight.data
    x = Tensor(np.ones((1, 3), np.float32), requires_grad=True)
    loss = (model(x) ** 2.0).sum()
    handle[...] = 3.0
    with pytest.raises(MutatedError):
        loss.backward()


def test_two_optimisers_may_share_parameters():
    (parameter,) = parameters((2,))
    first, second = optim.SGD([parameter], lr=1.0), optim.SGD([parameter], lr=10.0)
    parameter.data = np.zeros(2)
    for optimizer in (first, second, first):
        parameter.grad = np.ones(2)
        optimizer.step()
    assert parameter.tolist() == [-12.0, -12.0]


def test_frozen_parameters_stay():
    model = nn.Linear(2, 2)
    model.weight.requires_grad_(False)
    before = model.weight.numpy().copy()
    optimizer = optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    model(np.ones((1, 2), np.float32)).sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(model.weight.numpy(), before)


def test_zero_grad_forgets():
    params = parameters((2,), (3,))
    give_gradients(params)
    optim.SGD(params).zero_grad()
    assert [p.grad for p in params] == [None, None]


def test_plain_leaves_can_be_trained_too():
    x = Tensor([3.0], requires_grad=True)
    optimizer = optim.Adam([x], lr=0.5)
    for _ in range(200):
        optimizer.zero_grad()
        ((x - 1.0) ** 2.0).sum().backward()
        optimizer.step()
    assert abs(x.item() - 1.0) < 1e-3


# --- all or nothing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_gradient_that_is_not_finite_stops_the_step_before_it_starts(make, bad):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    optimizer = make(model.parameters(), lr=0.1)
    give_gradients(model.parameters())
    optimizer.step()
    before = everything(optimizer)
    model[1].weight.grad[1, :] = bad
    with pytest.raises(NotFiniteError, match=r"gradient of 1\.weight holds -?(nan|inf) at \(1, 0\), 2 of 4"):
        optimizer.step()
    assert_same(everything(optimizer), before)
    model[1].weight.grad = None
    optimizer.step()
    assert not np.array_equal(model[0].weight.numpy(), before["value 0"])


@pytest.mark.parametrize(("values", "finite"), [([1e200, 1.0], True), ([1.0, np.nan], False), ([np.inf, 0.0], False)])
def test_a_sum_of_squares_that_overflows_is_not_taken_for_an_infinite_element(values, finite):
    assert all_finite(np.array(values)) is finite


def test_gradients_whose_squares_overflow_are_finite_all_the_same():
    (parameter,) = parameters((4,), dtype=np.float32)
    parameter.grad = np.full(4, 1e30, np.float32)
    before = parameter.numpy().copy()
    optim.SGD([parameter], lr=1e-30).step()
    np.testing.assert_allclose(parameter.numpy(), before - 1.0, rtol=1e-6)


def test_a_learning_rate_that_is_not_a_number_stops_the_step():
    params = parameters((2,))
    optimizer = optim.Adam(params)
    give_gradients(params)
    before = everything(optimizer)
    optimizer.param_groups[0]["lr"] = math.nan
    with pytest.raises(OptionError, match="lr must be a number"):
        optimizer.step()
    optimizer.set_lr(1e-3)
    assert_same(everything(optimizer), before)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW])
def test_half_precision_is_computed_in_single_precision(make):
    values = np.array([1.0, -2.0, 3.0, 0.5])
    half, single = nn.Parameter(values.astype(np.float16)), nn.Parameter(values.astype(np.float32))
    optimizers = make([half], lr=0.01), make([single], lr=0.01)
    for gradient in ([0.0, 1e-4, 1.0, 3e4], [0.0, -1e-7, 300.0, 3e4]):
        for parameter, optimizer in zip((half, single), optimizers, strict=True):
            parameter.grad = np.array(gradient, np.float16).astype(parameter.dtype)
            optimizer.step()
        np.testing.assert_array_equal(half.numpy(), single.numpy().astype(np.float16))
        single.data = half.numpy()  # both go on from the rounded values
    assert np.isfinite(half.numpy()).all() and half.dtype == np.float16


def test_a_parameter_converted_after_the_optimiser_was_made_is_noticed():
    model = nn.Linear(2, 1, dtype=np.float32)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    model.to(np.float64)(np.ones((1, 2))).sum().backward()
    with pytest.raises(DtypeError, match=r"weight was float32 .* float64\n.*after Module\.to"):
        optimizer.step()
    assert model.weight.dtype == np.float64
    optim.SGD(model.parameters(), lr=0.1).step()
