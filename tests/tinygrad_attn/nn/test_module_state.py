"""What loading and copying a module keep true."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tinygrad_attn.nn.models import IDS, Model, nodes_behind
from tinygrad_attn import nn
from tinygrad_attn.errors import CheckpointError, DtypeError, MutatedError, TinygradAttnError

# --- state ---------------------------------------------------------------------------------------------------------


def test_the_state_lists_ties_under_every_name_and_leaves_out_what_can_be_computed():
    state = Model(depth=1).state_dict()
    assert "embedding.weight" in state and "head.weight" in state and "positions" in state
    assert "scratch" not in state


def test_the_state_is_a_copy():
    model = Model()
    state = model.state_dict()
    for values in state.values():
        values[...] = -1.0
    assert not np.any(model.head.weight.numpy() == -1.0) and model.positions[1] == 1.0


def test_loading_copies_values_and_keeps_objects():
    source, target = Model(), Model()
    before = {name: id(p) for name, p in target.named_parameters(once=False)}
    buffer = target.positions
    source.positions[...] = 7.0
    report = target.load_state_dict(source.state_dict())
    assert report == nn.LoadReport([], [])
    assert before == {name: id(p) for name, p in target.named_parameters(once=False)}
    assert target.positions is buffer and buffer[0] == 7.0
    for name, values in source.state_dict().items():
        np.testing.assert_array_equal(target.state_dict()[name], values)
    np.testing.assert_array_equal(source(IDS).numpy(), target(IDS).numpy())


def test_loading_between_forward_and_backward_is_noticed():
    model = Model()
    loss = model(IDS).sum()
    model.load_state_dict(Model().state_dict())
    with pytest.raises(MutatedError):
        loss.backward()


def test_one_name_of_a_tied_parameter_is_enough():
    model, state = Model(), Model().state_dict()
    del state["head.weight"]
    assert model.load_state_dict(state).missing == []
    np.testing.assert_array_equal(model.head.weight.numpy(), state["embedding.weight"])


def test_names_of_a_tied_parameter_must_agree():
    state = Model().state_dict()
    state["head.weight"] = state["head.weight"] + 1.0
    with pytest.raises(CheckpointError, match=r"head\.weight.*embedding\.weight"):
        Model().load_state_dict(state)


def test_one_message_lists_all_that_does_not_fit_and_nothing_is_changed():
    model = Model()
    before = model.state_dict()
    state = {name: values + 1.0 for name, values in before.items()}
    del state["encoder.layers.0.norm.bias"]
    state["encoder.layers.1.norm.bias"] = np.zeros(9)
    state["encoder.layers.1.norm.weight"] = np.zeros(4, complex)
    state["surplus"] = np.zeros(1)
    with pytest.raises(CheckpointError) as caught:
        model.load_state_dict(state)
    message = str(caught.value)
    assert "missing     encoder.layers.0.norm.bias  (4,)" in message
    assert "mis-shaped  encoder.layers.1.norm.bias  expected (4,), given (9,)" in message
    assert "mis-typed   encoder.layers.1.norm.weight  expected float32, given complex128" in message
    assert "unexpected  surplus  (1,)" in message
    assert isinstance(caught.value, (TinygradAttnError, ValueError))
    for name, values in model.state_dict().items():
        np.testing.assert_array_equal(values, before[name])


def test_loose_loading_reports_names_and_still_refuses_shapes():
    model = Model()
    state = {"embedding.weight": np.full((5, 4), 2.0), "surplus": np.zeros(1)}
    report = model.load_state_dict(state, strict=False)
    assert report.unexpected == ["surplus"] and "positions" in report.missing and "head.weight" not in report.missing
    assert (model.head.weight.numpy() == 2.0).all()
    with pytest.raises(CheckpointError, match="mis-shaped"):
        model.load_state_dict({"embedding.weight": np.zeros((4, 5))}, strict=False)


def test_values_that_are_not_numbers_can_be_loaded_twice_under_tied_names():
    model = Model()
    model.embedding.weight.data = np.full((5, 4), np.nan)
    Model().load_state_dict(model.state_dict())


# --- copies --------------------------------------------------------------------------------------------------------


def test_a_deep_copy_keeps_ties_and_shares_nothing():
    model = Model()
    copied = copy.deepcopy(model)
    assert copied.head.weight is copied.embedding.weight
    assert copied.head.weight is not model.head.weight
    np.testing.assert_array_equal(copied(IDS).numpy(), model(IDS).numpy())
    copied.head.weight.data = np.zeros((5, 4))
    assert model.head.weight.numpy().any()
    assert copied.encoder.layers[0].norm.weight.name == "encoder.layers.0.norm.weight"
    assert {n.scope for n in nodes_behind(copied(IDS))} == {n.scope for n in nodes_behind(model(IDS))}


def test_models_are_not_pickled():
    with pytest.raises(TypeError, match=r"serialize\.save"):
        pickle.dumps(Model())


# --- any tree ------------------------------------------------------------------------------------------------------


@st.composite
def trees(draw, depth: int = 3):
    """A module with parameters, buffers and children, some of which stand in several places."""
    module, pool = nn.Module(), []
    for number in range(draw(st.integers(0, 3))):
        if pool and draw(st.booleans()):
            setattr(module, f"tied{number}", draw(st.sampled_from(pool)))
        else:
            pool.append(nn.Parameter(np.full(draw(st.integers(0, 3)), float(number))))
            setattr(module, f"own{number}", pool[-1])
    if draw(st.booleans()):
        module.register_buffer("table", np.arange(3))
    if depth:
        for number in range(draw(st.integers(0, 2))):
            child = draw(trees(depth - 1))
            if draw(st.booleans()):
                child.shared = draw(st.sampled_from(pool)) if pool else None
            setattr(module, f"child{number}", child)
    return module


@given(trees())
def test_state_of_any_tree_goes_round(module):
    paths = [path for path, _ in module.named_parameters(once=False)]
    assert len(set(paths)) == len(paths)
    assert len({id(p) for p in module.parameters()}) == len(list(module.parameters()))
    assert {id(p) for p in module.parameters()} == {id(p) for _, p in module.named_parameters(once=False)}
    copied = copy.deepcopy(module)
    for parameter in copied.parameters():
        parameter.data = np.full(parameter.shape, -5.0)
    copied.load_state_dict(module.state_dict())
    state = module.state_dict()
    assert list(state) == list(copied.state_dict())
    for name, values in copied.state_dict().items():
        np.testing.assert_array_equal(values, state[name])


# --- what could leave a state half loaded -----------------------------------------------------------------------------


def test_a_state_of_the_models_own_values_may_be_loaded_in_another_order():
    first, second = nn.Parameter([1.0]), nn.Parameter([2.0])
    model = nn.Module()
    model.first, model.second = first, second
    model.load_state_dict({"first": second.numpy(), "second": first.numpy()})
    assert (first.item(), second.item()) == (2.0, 1.0)


@pytest.mark.parametrize(("dtype", "values"), [(np.float16, [1e30]), (np.float32, [1e300]), (np.int8, [300])])
def test_numbers_too_large_for_the_dtype_are_refused(dtype, values):
    model = nn.Module()
    model.register_buffer("table", np.ones(1, dtype))
    with pytest.raises(CheckpointError, match=f"too large   table .*{np.dtype(dtype)}"):
        model.load_state_dict({"table": values})
    assert model.table == 1
    if np.dtype(dtype).kind == "f":
        assert model.load_state_dict({"table": [np.inf]}) and np.isinf(model.table).all()


@pytest.mark.parametrize("state", [None, [("weight", 1.0)], nn.Linear(1, 1)], ids=["None", "pairs", "module"])
def test_a_state_is_a_mapping(state):
    with pytest.raises(DtypeError, match="mapping from names to arrays"):
        nn.Linear(1, 1).load_state_dict(state)


# --- dtype, freezing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_a_model_can_be_converted(dtype):
    model = Model()
    before = model.state_dict()
    model.head.weight.grad = np.ones((5, 4), np.float32)
    assert model.to(dtype) is model
    for name, values in model.state_dict().items():
        assert values.dtype == (dtype if before[name].dtype.kind == "f" else before[name].dtype)
        np.testing.assert_allclose(values, before[name], rtol=1e-3)
    assert model.head.weight is model.embedding.weight and model.head.weight.grad.dtype == dtype
    model(IDS).sum().backward()
    assert all(p.grad.dtype == dtype for p in model.parameters() if p.grad is not None)


def test_a_model_is_converted_to_floating_numbers_only():
    with pytest.raises(DtypeError, match="floating"):
        nn.Linear(1, 1).to(np.int64)
    with pytest.raises(DtypeError):
        nn.Linear(1, 1).to(np.bool_)


def test_a_model_can_be_frozen_and_thawed():
    model = Model()
    assert model.requires_grad_(False) is model and model.num_parameters() == 0
    assert not model(IDS).requires_grad
    assert model.requires_grad_().num_parameters() == Model().num_parameters()


def test_converting_between_forward_and_backward_is_noticed():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    loss = model(np.ones((1, 2), np.float32)).sum()
    model.to(np.float64)
    with pytest.raises(MutatedError):
        loss.backward()


def test_converting_to_the_dtype_that_is_there_touches_nothing():
    model = nn.Linear(2, 1)
    values, version = model.weight.data, model.weight.version
    model.to(np.float32)
    assert model.weight.data is values and model.weight.version == version


def test_complex_buffers_and_parameters_keep_both_parts():
    class Rotary(nn.Module):
        def __init__(self):
            self.register_buffer("turns", np.exp(1j * np.arange(3)))
            self.scale = nn.Parameter(np.array([1 + 2j]))

    model = Rotary()
    turns = model.turns.copy()
    model.to(np.float32)
    assert model.turns.dtype == model.scale.dtype == np.complex64
    model.to(np.float64)
    np.testing.assert_allclose(model.turns, turns, rtol=1e-6)
    np.testing.assert_array_equal(model.scale.numpy(), [1 + 2j])
    state = model.state_dict()
    Rotary().to(np.float32).load_state_dict(state)
    with pytest.raises(DtypeError, match=r"numbers or booleans\n  given ndarray of dtype <U4"):
        model.register_buffer("text", np.array(["text"]))
