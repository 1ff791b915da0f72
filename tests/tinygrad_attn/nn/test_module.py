"""What a module finds among its attributes, and what loading, copying and calling keep true."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_attn import Tensor, nn
from tinygrad_attn.errors import CheckpointError, DtypeError, MutatedError, OptionError, TinygradAttnError


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.self_attention = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(x + self.self_attention(x))


class Encoder(nn.Module):
    def __init__(self, dim: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(dim) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Model(nn.Module):
    """Embedding, encoder, and a head that is the embedding again."""

    def __init__(self, dim: int = 4, depth: int = 2, vocabulary: int = 5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.encoder = Encoder(dim, depth)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("positions", np.arange(3.0))
        self.register_buffer("scratch", np.zeros(2), persistent=False)

    def forward(self, ids):
        return self.head(self.encoder(self.embedding(ids)))


IDS = np.array([[0, 1, 2], [3, 4, 4]])


def nodes_behind(root: Tensor):
    """Every node of a graph, results first."""
    found, stack = {}, [root]
    while stack:
        tensor = stack.pop()
        if tensor.node is not None and id(tensor.node) not in found:
            found[id(tensor.node)] = tensor.node
            stack.extend(value for value in tensor.node.inputs if isinstance(value, Tensor))
    return list(found.values())


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


# --- assignments that would go wrong in silence --------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [[nn.Linear(1, 1)], (nn.Linear(1, 1),), {"a": nn.Linear(1, 1)}, [nn.Parameter([1.0])]],
    ids=["list", "tuple", "dict", "list of parameters"],
)
def test_modules_in_a_plain_container_are_refused(value):
    with pytest.raises(DtypeError, match=r"Model\.layers.*\n.*ModuleList"):
        Model().layers = value


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
