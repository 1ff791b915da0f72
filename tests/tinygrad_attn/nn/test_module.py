"""What a module finds among its attributes, what it refuses, and what calling it does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tinygrad_attn.nn.models import IDS, Encoder, Model, nodes_behind
from tinygrad_attn import Tensor, nn
from tinygrad_attn.errors import DtypeError, OptionError

# --- what belongs to a module -------------------------------------------------------------------------------------


def test_attributes_are_found_in_the_order_of_assignment():
    names = [name for name, _ in Model(depth=1).named_parameters()]
    block = "encoder.layers.0."
    assert names == [
        "embedding.weight",
        block + "self_attention.weight",
        block + "self_attention.bias",
        block + "norm.weight",
        block + "norm.bias",
    ]


def test_a_parameter_in_two_places_is_one_parameter():
    model = Model()
    assert sum(p is model.head.weight for p in model.parameters()) == 1
    both = [name for name, p in model.named_parameters(once=False) if p is model.head.weight]
    assert both == ["embedding.weight", "head.weight"]
    assert model.num_parameters() == 5 * 4 + 2 * (4 * 4 + 4 + 4 + 4)


def test_a_module_in_two_places_is_one_module():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer)
    assert len(list(model.parameters())) == 2
    assert [path for path, _ in model.named_modules()] == ["", "0"]
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_two_parameters_with_equal_values_are_two():
    class Pair(nn.Module):
        def __init__(self):
            self.a, self.b = nn.Parameter([1.0]), nn.Parameter([1.0])

    assert len(list(Pair().parameters())) == 2


def test_a_forgotten_super_init_breaks_nothing():
    class Forgetful(nn.Module):
        def __init__(self):
            self.inner = nn.Linear(2, 3)
            self.register_buffer("table", [1, 2])

        def forward(self, x):
            return self.inner(x)

    module = Forgetful()
    assert module(np.ones((1, 2), np.float32)).shape == (1, 3)
    assert list(module.eval().state_dict()) == ["table", "inner.weight", "inner.bias"]
    assert not nn.Module().state_dict()


def test_deleting_and_replacing_an_attribute_is_all_it_takes():
    model = Model()
    del model.head
    model.embedding = None
    model.positions = None
    assert all(name.startswith("encoder.") for name in model.state_dict())


def test_a_buffer_given_another_array_stays_a_buffer():
    model = Model()
    model.positions = np.ones(7)
    assert model.state_dict()["positions"].shape == (7,)


@pytest.mark.parametrize("value", [7, 2.5, [1, 2], np.int64(3), Tensor([1.0]), np.broadcast_to(1.0, (2, 3))], ids=repr)
def test_whatever_a_buffer_is_given_becomes_an_array_of_its_own(value):
    module = nn.Module()
    module.register_buffer("seen", 0)
    module.seen = value
    assert isinstance(module.seen, np.ndarray) and module.seen.flags.owndata and module.seen.flags.writeable
    np.testing.assert_array_equal(module.state_dict()["seen"], np.asarray(value))


def test_a_counter_stays_in_the_state_when_it_is_counted_up():
    module = nn.Module()
    module.register_buffer("steps", 0)
    module.steps = module.steps + 1  # NumPy makes a scalar of it
    assert module.state_dict() == {"steps": 1}


@pytest.mark.parametrize("value", [None, "text", [object()], Tensor([1.0], requires_grad=True) * 2.0], ids=str)
def test_a_buffer_holds_numbers_without_a_gradient(value):
    module = nn.Module()
    with pytest.raises(DtypeError, match="buffer"):
        module.register_buffer("seen", value)
    module.register_buffer("seen", 0)
    if value is not None:
        with pytest.raises(DtypeError, match="buffer"):
            module.seen = value
    assert module.state_dict() == {"seen": 0}


def test_buffers_are_listed_whether_saved_or_not():
    outer = nn.Sequential(Model(), Model())
    assert [name for name, _ in outer.named_buffers()] == ["0.positions", "0.scratch", "1.positions", "1.scratch"]
    assert dict(outer.named_buffers())["1.scratch"] is outer[1].scratch


def test_frozen_parameters_are_not_counted():
    layer = nn.Linear(3, 2)
    layer.weight.requires_grad_(False)
    assert layer.num_parameters() == 2


def test_parameters_are_named_by_their_path():
    model = Model()
    assert model.encoder.layers[1].norm.bias.name == "encoder.layers.1.norm.bias"
    assert model.head.weight.name == "embedding.weight"
    outer = nn.Sequential(model)
    assert model.encoder.layers[1].norm.bias.name == "0.encoder.layers.1.norm.bias"
    assert outer[0] is model


def test_a_parameter_in_two_places_has_the_first_name():
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    other.bias = layer.bias
    model = nn.Module()
    model.first, model.second, model.tied = layer, layer, other
    assert [p.name for p in model.parameters()] == [name for name, _ in model.named_parameters()]
    assert model.tied.bias.name == "first.bias"


# --- assignments that would go wrong in silence --------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        [nn.Linear(1, 1)],
        (nn.Linear(1, 1),),
        {nn.Linear(1, 1)},
        {"a": nn.Linear(1, 1)},
        {"a": [(1, [nn.Linear(1, 1)])]},
        [nn.Parameter([1.0])],
    ],
    ids=["list", "tuple", "set", "dict", "nested", "list of parameters"],
)
def test_modules_in_a_plain_container_are_refused(value):
    with pytest.raises(DtypeError, match=r"Model\.layers.*\n.*ModuleList"):
        Model().layers = value


@pytest.mark.parametrize("use", [nn.Module.state_dict, nn.Module.train, lambda model: list(model.parameters())])
def test_modules_put_into_a_plain_list_later_are_refused_before_they_are_passed_over(use):
    model = nn.Sequential(nn.Linear(1, 1))
    model[0].layers = []
    use(model)
    model[0].layers.append(nn.Linear(1, 1))
    with pytest.raises(DtypeError, match=r"Linear\.layers.*\n.*ModuleList"):
        use(model)


def test_inputs_and_results_may_be_collected_in_a_list():
    model = nn.Linear(1, 1)
    model.seen = []
    x = Tensor([1.0], requires_grad=True)
    model.seen += [x, model(x)]
    assert len(list(model.parameters())) == 2 and list(model.state_dict()) == ["weight", "bias"]


def test_a_list_that_holds_itself_may_be_an_attribute():
    model = nn.Linear(1, 1)
    model.notes = [1]
    model.notes.append(model.notes)
    assert len(list(model.parameters())) == 2


@pytest.mark.parametrize("value", [nn.Linear(1, 1), nn.Parameter([1.0])], ids=["module", "parameter"])
def test_what_stands_on_the_class_is_refused(value):
    with pytest.raises(DtypeError, match=r"Shared\.layer: .* on the class itself"):
        type("Shared", (nn.Module,), {"layer": value})
    with pytest.raises(DtypeError, match=r"Shared\.layers"):
        type("Shared", (nn.Module,), {"layers": [value]})


@pytest.mark.parametrize("value", [nn.Linear(1, 1), nn.Parameter([1.0])], ids=["module", "parameter"])
@pytest.mark.parametrize("name", ["a.b", "", "parameters", "training", "to", "_buffers"])
def test_a_name_that_is_taken_or_no_path_is_refused(value, name):
    with pytest.raises(OptionError, match="another name"):
        setattr(nn.Linear(1, 1), name, value)


def test_a_module_may_be_the_forward_of_another():
    model = nn.Module()
    model.forward = nn.Linear(2, 3)
    assert model(np.ones((1, 2), np.float32)).shape == (1, 3)
    assert list(model.state_dict()) == ["forward.weight", "forward.bias"]


def test_a_leaf_that_wants_a_gradient_must_be_a_parameter():
    with pytest.raises(DtypeError, match=r"nn\.Parameter"):
        Model().scale = Tensor([1.0], requires_grad=True)


def test_a_parameter_cannot_become_a_plain_tensor():
    layer = nn.Linear(2, 2)
    with pytest.raises(DtypeError, match=r"weight\.data = values"):
        layer.weight = layer.weight * 0.9
    assert isinstance(layer.weight, nn.Parameter)


def test_a_constant_or_a_result_may_be_kept():
    model = Model()
    model.constant = Tensor([1.0])
    model.last = model(IDS)
    assert "last" not in model.state_dict() and "constant" not in model.state_dict()


def test_a_module_cannot_contain_itself():
    model = Model()
    with pytest.raises(OptionError, match="cannot contain itself"):
        model.encoder.owner = model


@pytest.mark.parametrize("name", ["forward", "embedding", "training", "a.b", ""])
def test_a_buffer_needs_a_free_name(name):
    with pytest.raises(OptionError, match="buffer"):
        Model().register_buffer(name, [1.0])


def test_integers_cannot_be_a_parameter():
    with pytest.raises(DtypeError):
        nn.Parameter([1, 2])


def test_results_of_parameters_are_plain_tensors():
    parameter = nn.Parameter([1.0, 2.0])
    assert type(parameter * 2.0) is Tensor
    assert repr(parameter) == "Parameter([1., 2.], requires_grad=True)"


def test_a_module_without_forward_says_so():
    with pytest.raises(NotImplementedError, match=r"Module has no forward\(\)"):
        nn.Module()(1)


# --- calling -------------------------------------------------------------------------------------------------------


def test_every_node_carries_the_path_of_its_module():
    scopes = {(node.operation.name, node.scope) for node in nodes_behind(Model()(IDS))}
    assert scopes == {
        ("embedding", "embedding"),
        ("linear", "encoder.layers.0.self_attention"),
        ("add", "encoder.layers.0"),
        ("layer_norm", "encoder.layers.0.norm"),
        ("linear", "encoder.layers.1.self_attention"),
        ("add", "encoder.layers.1"),
        ("layer_norm", "encoder.layers.1.norm"),
        ("linear", "head"),
    }


def test_a_module_called_on_its_own_adds_its_own_name_only():
    assert Model().encoder.layers[0].norm(np.ones((1, 4), np.float32)).node.scope == "norm"


def test_the_scope_ends_with_an_exception():
    class Failing(nn.Module):
        def forward(self, x):
            raise RuntimeError("inside")

    class Outer(nn.Module):
        def __init__(self):
            self.failing = Failing()

        def forward(self, x):
            try:
                self.failing(x)
            except RuntimeError:
                return x * 2.0

    assert Outer()(Tensor([1.0], requires_grad=True)).node.scope == ""


def test_train_and_eval_reach_every_module():
    model = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
    assert model.eval() is model and not any(module.training for module in model.modules())
    assert model.train() is model and all(module.training for module in model.modules())


def test_zero_grad_forgets_every_gradient():
    model = Model()
    model(IDS).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


# --- looks ---------------------------------------------------------------------------------------------------------


def test_the_printed_model_is_its_tree():
    assert repr(Encoder(4, 1)) == "\n".join(
        [
            "Encoder(",
            "  (layers): ModuleList(",
            "    (0): Block(",
            "      (self_attention): Linear(in_features=4, out_features=4, bias=True)",
            "      (norm): LayerNorm(4, eps=1e-05)",
            "    )",
            "  )",
            ")",
        ]
    )
