from __future__ import annotations

import numpy as np
import pytest

from tinygrad_attn import nn
from tinygrad_attn.errors import DtypeError, IndexRangeError


def test_sequential_is_composition():
    first, second = nn.Linear(3, 4), nn.Linear(4, 2)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(nn.Sequential(first, second)(x).numpy(), second(first(x)).numpy())
    assert nn.Sequential()(x) is x


def test_a_list_is_read_by_number():
    layers = [nn.Linear(1, 1) for _ in range(12)]
    held = nn.ModuleList(layers)
    assert len(held) == 12 and list(held) == layers
    assert held[11] is layers[11] and held[-1] is layers[11] and held[np.int64(0)] is held[-12] is layers[0]
    for outside in (12, 13, -13):
        with pytest.raises(IndexRangeError, match="holds 12 modules"):
            held[outside]


def test_what_is_appended_belongs_to_the_list():
    class Owner(nn.Module):
        def __init__(self):
            self.layers = nn.ModuleList([nn.Linear(1, 1)])

    owner = Owner()
    owner.layers.append(nn.Linear(1, 1))
    assert [name for name, _ in owner.named_parameters()][2:] == ["layers.1.weight", "layers.1.bias"]
    assert owner.layers[1].bias.name == "layers.1.bias"
    assert owner.layers[1](np.ones((1, 1), np.float32)).node.scope == "layers.1"


def test_lists_in_lists_carry_the_whole_path():
    class Owner(nn.Module):
        def __init__(self):
            self.grid = nn.ModuleList([nn.ModuleList([nn.Linear(1, 1)]), nn.Sequential(nn.Linear(1, 1))])

    owner = Owner()
    x = np.ones((1, 1), np.float32)
    assert owner.grid[0][0](x).node.scope == "grid.0.0"
    assert owner.grid[1](x).node.scope == "grid.1.0"


@pytest.mark.parametrize("thing", [np.tanh, nn.Linear, None])
def test_only_modules_go_in(thing):
    with pytest.raises(DtypeError, match="modules only"):
        nn.Sequential(nn.Linear(1, 1), thing)


def test_a_slice_is_of_the_same_kind_and_keeps_names():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x = np.ones((1, 2), np.float32)
    head, tail = model[:2], model[2:]
    np.testing.assert_array_equal(tail(head(x)).numpy(), model(x).numpy())
    assert tail[0] is model[2] and tail[0].weight.name == "2.weight" and model[2](head(x)).node.scope == "2"
    held = nn.ModuleList(model)
    assert type(held[::2]) is nn.ModuleList and list(held[::2]) == [model[0], model[2]]


def test_a_module_in_a_list_can_be_replaced():
    owner = nn.Module()
    owner.layers = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1)])
    owner.layers[-1] = nn.Linear(1, 5)
    assert owner.state_dict()["layers.1.weight"].shape == (5, 1)
    assert owner.layers[1](np.ones((1, 1), np.float32)).node.scope == "layers.1"
    assert owner.layers[1].weight.name == "layers.1.weight"
    with pytest.raises(IndexRangeError):
        owner.layers[2] = nn.Linear(1, 1)


def test_a_list_with_a_gap_or_a_module_of_another_name_is_still_one_list():
    held = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    del held.__dict__["1"]
    last = held[1]
    held.append(nn.Tanh())
    assert len(held) == 3 and held[1] is last and isinstance(held[2], nn.Tanh)

    class Normed(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(2, 2))
            self.norm = nn.LayerNorm(2)

    model = Normed()
    assert list(model) == [model[0], model[1]] and model[1] is model.norm


def test_modules_given_to_sequential_as_a_list_are_told_the_star():
    with pytest.raises(DtypeError, match=r"Sequential\(\*modules\)"):
        nn.Sequential([nn.Linear(1, 1)])
