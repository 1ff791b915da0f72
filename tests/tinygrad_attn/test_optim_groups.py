"""Optimisers: settings and groups, and the parameters they take."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.tinygrad_attn.optimisers import parameters
from tinygrad_attn import Tensor, nn, optim
from tinygrad_attn.errors import DtypeError, OptionError


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
        (optim.Adam, {"eps": 0.0}),
        (optim.Adam, {"eps": 1e-50}),
        (optim.AdamW, {"weight_decay": math.nan}),
    ],
)
def test_impossible_settings_are_refused_for_all_and_in_a_group(make, settings):
    with pytest.raises(OptionError):
        make(parameters((2,)), **settings)
    with pytest.raises(OptionError):
        make([{"params": parameters((2,)), **settings}])
    (p,) = parameters((2,))
    optimizer = make([p])
    with pytest.raises(OptionError):
        optimizer.add_param_group({"params": parameters((2,)), **settings})
    optimizer.param_groups[0].update(settings)
    p.grad, before = np.ones(2), p.numpy().copy()
    with pytest.raises(OptionError):
        optimizer.step()
    np.testing.assert_array_equal(p.numpy(), before)


@pytest.mark.parametrize("change", [lambda g: g.update(rate=1.0), lambda g: g.pop("lr")], ids=["unknown", "missing"])
def test_a_setting_that_does_not_exist_or_is_gone_stops_the_step(change):
    (p,) = parameters((2,))
    optimizer = optim.Adam([p])
    change(optimizer.param_groups[0])
    with pytest.raises(OptionError, match=r"(unknown|missing) setting '(rate|lr)'"):
        optimizer.step()


def test_a_group_added_later_is_trained_like_the_others():
    a, b = parameters((2,), (2,))
    start = b.numpy().copy()
    optimizer = optim.SGD([a], lr=0.1, momentum=0.5)
    a.grad = np.ones(2)
    optimizer.step()
    optimizer.add_param_group({"params": [b], "lr": 1.0})
    b.grad = np.ones(2)
    optimizer.step()
    np.testing.assert_allclose(b.numpy(), start - 1.0)
    assert optimizer.param_groups[1]["momentum"] == 0.5
    optimizer.step()
    np.testing.assert_allclose(b.numpy(), start - 2.5)
    assert {"0.velocity", "1.velocity", "group.1.lr"} <= optimizer.state_dict().keys()
    (c,) = parameters((2,))
    optimizer.add_param_group({"params": [c]})
    assert optimizer.param_groups[2]["params"] == [c] and optimizer.param_groups[1]["params"] == [b]


def test_a_group_added_later_must_fit_and_changes_nothing_if_it_does_not():
    (a,) = parameters((2,))
    optimizer = optim.SGD([a], lr=0.1)
    for group in ({"params": [a]}, {"params": parameters((1,)), "rate": 1.0}, {"params": [1.0]}, {"params": []}):
        with pytest.raises((OptionError, DtypeError)):
            optimizer.add_param_group(group)
    a.grad = np.ones(2)
    optimizer.step()
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda optimizer, p: optimizer.param_groups.append({**optimizer.param_groups[0], "params": [p]}),
        lambda optimizer, p: optimizer.param_groups[0]["params"].append(p),
        lambda optimizer, p: optimizer.param_groups[0].update(params=[p]),
        lambda optimizer, p: optimizer.param_groups.clear(),
    ],
    ids=["group appended", "parameter appended", "parameters replaced", "groups removed"],
)
def test_parameters_that_come_past_the_optimiser_are_not_passed_over(change):
    a, b = parameters((2,), (2,))
    optimizer = optim.SGD([a], lr=0.1)
    change(optimizer, b)
    with pytest.raises(OptionError, match="add_param_group"):
        optimizer.step()


def test_momentum_may_pause_but_not_come_from_nowhere():
    (p,) = parameters((2,))
    p.grad, start = np.ones(2), p.numpy().copy()
    optimizer = optim.SGD([p], lr=1.0)
    optimizer.param_groups[0]["momentum"] = 0.9
    with pytest.raises(OptionError, match="need a velocity"):
        optimizer.step()
    optimizer = optim.SGD([p], lr=1.0, momentum=0.9, dampening=0.5)
    optimizer.param_groups[0]["momentum"] = 0.0
    optimizer.step()
    np.testing.assert_allclose(p.numpy(), start - 1.0)  # without momentum, dampening says nothing


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
    assert [g["weight_decay"] for g in optim.decay_groups(nn.Linear(2, 2), 0.0)] == [0.0, 0.0]
    for weight_decay in (-0.1, math.nan, "0.1", None):
        with pytest.raises(OptionError, match="weight_decay"):
            optim.decay_groups(nn.Linear(2, 2), weight_decay)
