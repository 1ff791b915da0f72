"""Faults that people met in modules, optimisers and checkpoints of other engines."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tinygrad_attn import Tensor, nn, optim, rng, serialize
from tinygrad_attn.errors import NotFiniteError, OptionError


def test_O1_adam_counts_its_steps_and_corrects_both_moments():
    p = nn.Parameter([1.0], dtype=np.float64)
    optimizer = optim.Adam([p], lr=0.1, eps=1e-8)
    path = []
    for gradient in (0.5, 0.5, -1.0):
        p.grad = np.array([gradient])
        optimizer.step()
        path.append(p.item())
    np.testing.assert_allclose(path, [0.9, 0.8, 0.80756494], atol=1e-8)


def test_O3_weight_decay_spares_norms_biases_and_embeddings_and_misses_no_parameter():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    groups = optim.decay_groups(model, 0.5)
    optimizer = optim.AdamW(groups, lr=0.1)
    before = model.state_dict()
    for parameter in model.parameters():
        parameter.grad = np.zeros(parameter.shape, parameter.dtype)
    optimizer.step()
    after = model.state_dict()
    shrunk = {name for name in before if not np.array_equal(before[name], after[name])}
    assert shrunk == {"1.weight"}
    np.testing.assert_allclose(after["1.weight"], before["1.weight"] * 0.95, rtol=1e-6)
    counts = [sum(p is q for group in groups for q in group["params"]) for p in model.parameters()]
    assert counts == [1] * 5


class Tied(nn.Module):
    """An embedding that is also the output matrix."""

    def __init__(self):
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids))


def test_O4_a_tied_parameter_is_updated_once_and_gets_the_gradient_of_both_uses():
    model = Tied()
    assert len(list(model.parameters())) == 1
    ids = np.array([0, 2, 2])
    (model(ids) ** 2.0).sum().backward()

    used_to_read, used_to_answer = (Tensor(model.head.weight.numpy(), requires_grad=True) for _ in range(2))
    (ta.linear(ta.embedding(used_to_read, ids), used_to_answer) ** 2.0).sum().backward()
    np.testing.assert_allclose(model.head.weight.grad, used_to_read.grad + used_to_answer.grad, rtol=1e-5)

    before = model.head.weight.numpy().copy()
    optim.SGD(model.parameters(), lr=1.0).step()
    np.testing.assert_allclose(model.head.weight.numpy(), before - model.head.weight.grad, rtol=1e-6)


def test_O4_ties_survive_copying_saving_and_loading(tmp_path):
    require("safetensors")
    model = Tied()
    optim.Adam(model.parameters())
    other = copy.deepcopy(model)
    assert other.head.weight is other.embedding.weight is not model.embedding.weight
    other.head.weight.data = np.zeros((5, 4))
    serialize.save(tmp_path / "tied", model.state_dict())
    other.load_state_dict(serialize.load(tmp_path / "tied")[0])
    assert other.head.weight is other.embedding.weight
    np.testing.assert_array_equal(other.embedding.weight.numpy(), model.embedding.weight.numpy())


@pytest.fixture
def gradients():
    first, second, without = nn.Parameter(np.zeros(2)), nn.Parameter(np.zeros(2)), nn.Parameter(np.zeros(2))
    first.name, second.name, without.name = "encoder.weight", "decoder.weight", "unused"
    first.grad, second.grad = np.array([3.0, 0.0]), np.array([0.0, 4.0])
    return first, second, without


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_O6_clipping_names_a_gradient_that_is_not_finite_and_touches_none(gradients, bad):
    first, second, _ = gradients
    second.grad[0] = bad
    with pytest.raises(NotFiniteError, match=r"decoder\.weight holds -?(nan|inf) at \(0,\)"):
        optim.clip_grad_norm(gradients, 1.0)
    assert first.grad.tolist() == [3.0, 0.0]
    np.testing.assert_array_equal(second.grad, [bad, 4.0])


def test_O6_clipping_passes_over_none_and_measures_the_rest(gradients):
    first, second, without = gradients
    assert optim.clip_grad_norm(gradients, 1.0) == 5.0
    np.testing.assert_allclose([*first.grad, *second.grad], [0.6, 0.0, 0.0, 0.8])
    assert without.grad is None


def test_O6_a_norm_of_zero_and_a_short_gradient_stay_as_they_are(gradients):
    first, second, _ = gradients
    assert optim.clip_grad_norm(gradients, 6.0) == 5.0 and first.grad.tolist() == [3.0, 0.0]
    first.grad[...] = second.grad[...] = 0.0
    assert optim.clip_grad_norm(gradients, 1.0) == 0.0
    assert not first.grad.any() and not second.grad.any()
    assert optim.clip_grad_norm([], 1.0) == 0.0


@pytest.mark.parametrize("max_norm", [-1.0, math.nan])
def test_O6_a_negative_bound_is_rejected(gradients, max_norm):
    with pytest.raises(OptionError, match="max_norm"):
        optim.clip_grad_norm(gradients, max_norm)
    assert gradients[0].grad.tolist() == [3.0, 0.0]


def test_O7_a_gradient_of_exactly_zero_is_a_step():
    """The last, incomplete round of gradient accumulation may have a loss of 0: momentum moves on all the same."""
    p = nn.Parameter([1.0])
    optimizer = optim.Adam([p], lr=0.1)
    (p * 1.0).sum().backward()
    optimizer.step()
    moved = p.item()
    optimizer.zero_grad()
    (p * 0.0).sum().backward()
    optimizer.step()
    assert p.item() < moved and optimizer.state_dict()["0.step"] == 2


# --- O9: stop and go on -------------------------------------------------------------------------------------------


def small_model():
    ta.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.LayerNorm(8), nn.Linear(8, 1))
    groups = optim.decay_groups(model, 0.1)
    return model, optim.AdamW(groups, lr=0.01)


def train(model, optimizer, steps):
    data = np.random.default_rng(7).normal(size=(20, 4, 3)).astype(np.float32)
    for step in steps:
        optimizer.zero_grad()
        loss = (model(data[step]) ** 2.0).mean()
        loss.backward(retain_graph=False)
        optim.clip_grad_norm(model.parameters(), 0.1)
        optimizer.step()


def write(path, model, optimizer):
    state = {f"model.{name}": values for name, values in model.state_dict().items()}
    state.update({f"optimizer.{name}": values for name, values in optimizer.state_dict().items()})
    serialize.save(path, state, {"rng": json.dumps(rng.get_state())})


def read(path, model, optimizer):
    tensors, metadata = serialize.load(path)
    parts = {"model": {}, "optimizer": {}}
    for name, values in tensors.items():
        part, rest = name.split(".", 1)
        parts[part][rest] = values
    model.load_state_dict(parts["model"])
    optimizer.load_state_dict(parts["optimizer"])
    rng.set_state(json.loads(metadata["rng"]))


def test_O9_ten_steps_saved_loaded_and_ten_more_are_twenty_bit_for_bit(tmp_path):
    require("safetensors")
    model, optimizer = small_model()
    train(model, optimizer, range(20))
    state_of_rng = rng.get_state()

    first, its = small_model()
    train(first, its, range(10))
    write(tmp_path / "checkpoint", first, its)
    resumed, optimizer_resumed = small_model()
    train(resumed, optimizer_resumed, range(3))  # whatever happened before loading has no influence
    read(tmp_path / "checkpoint", resumed, optimizer_resumed)
    train(resumed, optimizer_resumed, range(10, 20))

    for one, other in ((model, resumed), (optimizer, optimizer_resumed)):
        for name, values in one.state_dict().items():
            assert values.tobytes() == other.state_dict()[name].tobytes(), name
    assert rng.get_state() == state_of_rng


@pytest.mark.parametrize("act", ["step", "clip"])
def test_O9_a_gradient_that_is_not_finite_stops_before_the_step_and_the_state_is_still_good(act):
    model, optimizer = small_model()
    train(model, optimizer, range(3))
    model_before, optimizer_before = model.state_dict(), optimizer.state_dict()
    model[3].bias.grad[0] = math.nan
    with pytest.raises(NotFiniteError, match=r"3\.bias"):
        optimizer.step() if act == "step" else optim.clip_grad_norm(model.parameters(), 1.0)
    for one, before in ((model, model_before), (optimizer, optimizer_before)):
        for name, values in one.state_dict().items():
            np.testing.assert_array_equal(values, before[name])
