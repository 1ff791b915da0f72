"""Optimisers: the flat update equals the formula, and a step changes everything or nothing."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_attn import Tensor, nn, optim
from tinygrad_attn.errors import (
    CheckpointError,
    DtypeError,
    MutatedError,
    NotFiniteError,
    OptionError,
    ShapeError,
)
from tinygrad_attn.optim.optimizer import CHUNK

ADAM = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}


def parameters(*shapes, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [nn.Parameter(rng.normal(size=shape).astype(dtype)) for shape in shapes]


def give_gradients(params, seed=0):
    rng = np.random.default_rng(seed)
    for parameter in params:
        parameter.grad = rng.normal(size=parameter.shape).astype(parameter.dtype)


def everything(optimizer):
    """Values, state and settings, to compare before and after."""
    found = {f"value {i}": p.numpy().copy() for g in optimizer.param_groups for i, p in enumerate(g["params"])}
    return {**found, **optimizer.state_dict()}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


# --- the fast path is the formula ---------------------------------------------------------------------------------

rates = st.floats(1e-4, 1.0)
decays = st.sampled_from([0.0, 0.1])
momenta = st.floats(0.1, 0.99)


@st.composite
def optimisers(draw):
    """A class, its settings, and its definition for one parameter."""
    lr, weight_decay = draw(rates), draw(decays)
    if draw(st.booleans()):
        betas = (draw(st.floats(0.0, 0.99)), draw(st.floats(0.0, 0.999)))
        settings = {"lr": lr, "betas": betas, "eps": draw(st.floats(1e-8, 1e-2)), "weight_decay": weight_decay}
        decoupled = draw(st.booleans())

        def adam(p, g, state, step):
            m, v = state or (np.zeros_like(p), np.zeros_like(p))
            p, m, v = optim.adam_definition(p, g, m, v, step=step, decoupled=decoupled, **settings)
            return p, (m, v)

        return (optim.AdamW if decoupled else optim.Adam), settings, adam
    momentum = draw(st.one_of(st.just(0.0), momenta))
    nesterov = momentum > 0.0 and draw(st.booleans())
    dampening = 0.0 if nesterov else draw(st.sampled_from([0.0, 0.3]))
    settings = {"lr": lr, "momentum": momentum, "dampening": dampening, "nesterov": nesterov}
    settings["weight_decay"] = weight_decay

    def sgd(p, g, state, step):
        return optim.sgd_definition(p, g, np.zeros_like(p) if state is None else state, step=step, **settings)

    return optim.SGD, settings, sgd


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
    model[1].weight.grad[1, 0] = bad
    with pytest.raises(NotFiniteError, match=r"gradient of 1\.weight holds -?(nan|inf) at \(1, 0\), 1 of 4"):
        optimizer.step()
    assert_same(everything(optimizer), before)
    model[1].weight.grad = None
    optimizer.step()
    assert not np.array_equal(model[0].weight.numpy(), before["value 0"])


def test_gradients_whose_squares_overflow_are_finite_all_the_same():
    (parameter,) = parameters((4,), dtype=np.float32)
    parameter.grad = np.full(4, 1e30, np.float32)
    before = parameter.numpy().copy()
    optim.SGD([parameter], lr=1e-30).step()
    np.testing.assert_allclose(parameter.numpy(), before - 1.0, rtol=1e-6)


@pytest.mark.parametrize("gradient", [np.ones(2), np.ones((1, 3)), 1.0])
def test_a_gradient_of_another_shape_is_not_broadcast(gradient):
    (parameter,) = parameters((3,))
    parameter.grad = gradient
    with pytest.raises(ShapeError, match=r"expected \(3,\)"):
        optim.SGD([parameter]).step()


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


# --- settings and groups -------------------------------------------------------------------------------------------


def test_the_printed_optimiser_shows_its_groups():
    optimizer = optim.SGD([{"params": parameters((2,), (3,)), "lr": 0.5}, {"params": parameters((1,))}], lr=0.1)
    settings = "momentum=0.0, dampening=0.0, nesterov=False, weight_decay=0.0"
    assert repr(optimizer).splitlines() == [
        "SGD",
        f"  2 parameters: lr=0.5, {settings}",
        f"  1 parameters: lr=0.1, {settings}",
    ]


def test_groups_have_settings_of_their_own():
    a, b = parameters((2,), (2,))
    optimizer = optim.SGD([{"params": [a], "lr": 1.0}, {"params": b}], lr=0.1)
    start = a.numpy().copy(), b.numpy().copy()
    a.grad = b.grad = np.ones(2)
    optimizer.step()
    np.testing.assert_allclose(a.numpy(), start[0] - 1.0)
    np.testing.assert_allclose(b.numpy(), start[1] - 0.1)
    optimizer.set_lr(0.0)
    optimizer.step()
    np.testing.assert_allclose(a.numpy(), start[0] - 1.0)


@pytest.mark.parametrize(
    "make, settings",
    [
        (optim.SGD, {"lr": -1.0}),
        (optim.SGD, {"lr": math.inf}),
        (optim.SGD, {"lr": "fast"}),
        (optim.SGD, {"momentum": -0.1}),
        (optim.SGD, {"weight_decay": -0.1}),
        (optim.SGD, {"nesterov": True}),
        (optim.SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
        (optim.Adam, {"betas": (1.0, 0.9)}),
        (optim.Adam, {"betas": (0.9, -0.1)}),
        (optim.Adam, {"betas": 0.9}),
        (optim.Adam, {"eps": -1e-8}),
        (optim.Adam, {"eps": math.nan}),
        (optim.AdamW, {"weight_decay": math.nan}),
    ],
)
def test_impossible_settings_are_refused_for_all_and_in_a_group(make, settings):
    with pytest.raises(OptionError):
        make(parameters((2,)), **settings)
    with pytest.raises(OptionError):
        make([{"params": parameters((2,)), **settings}])


def test_every_parameter_belongs_in_exactly_one_group():
    a, b = parameters((2,), (2,))
    a.name = "layer.weight"
    for groups in ([a, b, a], [{"params": [a, b]}, {"params": [a]}]):
        with pytest.raises(OptionError, match=r"layer\.weight is given twice"):
            optim.SGD(groups)


def test_parameters_with_equal_values_are_different_parameters():
    optim.SGD([nn.Parameter([1.0]), nn.Parameter([1.0])])


@pytest.mark.parametrize(
    "params, error, words",
    [
        ([], OptionError, "at least one parameter"),
        (nn.Linear(1, 1), DtypeError, r"model\.parameters\(\)"),
        (nn.Parameter([1.0]), DtypeError, r"write \[tensor\]"),
        ([np.ones(2)], DtypeError, "given ndarray"),
        ([("weight", nn.Parameter([1.0]))], DtypeError, "given tuple"),
        ([nn.Parameter([1.0]) * 2.0], DtypeError, "was computed"),
        ([Tensor([1, 2])], DtypeError, "floating"),
        ([{"lr": 0.1}], OptionError, '"params"'),
        ([{"params": [nn.Parameter([1.0])]}, nn.Parameter([1.0])], OptionError, "tensors or groups"),
        ([{"params": [nn.Parameter([1.0])], "learning_rate": 0.1}], OptionError, "'learning_rate'.*\n.*lr, "),
    ],
)
def test_what_cannot_be_trained_is_refused_with_a_reason(params, error, words):
    with pytest.raises(error, match=words):
        optim.SGD(params)


def test_decay_spares_biases_norms_embeddings_and_what_is_tied_to_them():
    class Model(nn.Module):
        def __init__(self):
            self.embedding = nn.Embedding(5, 4)
            self.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))])
            self.head = nn.Linear(4, 5)
            self.head.weight = self.embedding.weight
            self.output = nn.Linear(4, 4, bias=False)

    model = Model()
    decayed, spared = optim.decay_groups(model, 0.1)
    assert [p.name for p in decayed["params"]] == ["layers.0.0.weight", "output.weight"]
    assert decayed["weight_decay"] == 0.1 and spared["weight_decay"] == 0.0
    together = [id(p) for p in decayed["params"] + spared["params"]]
    assert sorted(together) == sorted(id(p) for p in model.parameters())
    optim.AdamW([decayed, spared])


def test_decay_groups_are_never_empty():
    assert [g["weight_decay"] for g in optim.decay_groups(nn.LayerNorm(2), 0.1)] == [0.0]
    assert [g["weight_decay"] for g in optim.decay_groups(nn.Linear(2, 2, bias=False), 0.1)] == [0.1]
    with pytest.raises(OptionError):
        optim.decay_groups(nn.Linear(2, 2), -0.1)


# --- state ---------------------------------------------------------------------------------------------------------


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


# --- clipping ------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.floats(-1e3, 1e3), max_size=4), max_size=4), st.floats(1e-3, 1e4))
def test_clipped_gradients_keep_their_direction_and_have_at_most_the_norm(rows, max_norm):
    params = [nn.Parameter(np.zeros(len(row))) for row in rows]
    for parameter, row in zip(params, rows, strict=True):
        parameter.grad = np.array(row, dtype=np.float64)
    before = [p.grad.copy() for p in params]
    expected = math.hypot(*(value for row in rows for value in row))
    norm = optim.clip_grad_norm(iter(params), max_norm)
    assert math.isclose(norm, expected, rel_tol=1e-9, abs_tol=1e-300)
    scale = min(1.0, max_norm / expected) if expected else 1.0
    for parameter, gradient in zip(params, before, strict=True):
        np.testing.assert_allclose(parameter.grad, gradient * scale, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1.0, 1e20, 3e38])
def test_norms_are_right_where_squares_leave_float32(size):
    (parameter,) = parameters((4,), dtype=np.float32)
    parameter.grad = np.full(4, size, np.float32)
    assert math.isclose(optim.clip_grad_norm([parameter], math.inf), 2.0 * size, rel_tol=1e-6)


def test_half_precision_gradients_are_measured_in_single_precision():
    (parameter,) = parameters((4096,), dtype=np.float16)
    parameter.grad = np.full(4096, 100.0, np.float16)
    assert math.isclose(optim.clip_grad_norm([parameter], 64.0), 6400.0, rel_tol=1e-6)
    np.testing.assert_allclose(parameter.grad, 1.0, rtol=1e-3)


def test_a_parameter_given_twice_counts_once():
    (parameter,) = parameters((2,))
    parameter.grad = np.array([3.0, 4.0])
    assert optim.clip_grad_norm([parameter, parameter], math.inf) == 5.0


def test_a_gradient_of_another_shape_is_not_clipped():
    (parameter,) = parameters((2,))
    parameter.grad = np.ones(3)
    with pytest.raises(ShapeError):
        optim.clip_grad_norm([parameter], 1.0)
