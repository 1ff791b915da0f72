"""Recurrent operations and layers beside PyTorch's with the same parameters: values and gradients in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.conftest import require
from tests.parity.peer import assert_equals_torch
from tinygrad_attn import Tensor, nn

torch = require("torch")

# --- operations ------------------------------------------------------------------------------------------------------


def gru_step(projected: Any, hidden: Any, weight: Any, bias: Any) -> Any:
    """PyTorch's cell, with the unit matrix as the weight of the input."""
    rows, size = projected.reshape(-1, projected.shape[-1]), hidden.shape[-1]
    unit, none = torch.eye(3 * size, dtype=torch.float64), torch.zeros(3 * size, dtype=torch.float64)
    after = torch.gru_cell(rows, hidden.reshape(-1, size), unit, weight, none, none if bias is None else bias)
    return after.reshape(hidden.shape)


def gru_sequence(projected: Any, hidden: Any, weight: Any, bias: Any, *, lengths: Any, reverse: bool) -> Any:
    steps, states = range(projected.shape[1]), {}
    for t in reversed(steps) if reverse else steps:
        after = gru_step(projected[:, t], hidden, weight, bias)
        hidden = after if lengths is None else torch.where(torch.tensor(lengths > t)[:, None], after, hidden)
        states[t] = hidden
    return torch.stack([states[t] for t in steps], dim=1)


THEIRS = {"gru_step": gru_step, "gru_sequence": gru_sequence}


@pytest.mark.parametrize("name", THEIRS)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_gradients_and_second_derivatives_are_pytorchs(name: str, seed: int) -> None:
    assert_equals_torch(name, THEIRS[name], seed)


# --- layers ----------------------------------------------------------------------------------------------------------

BATCH, LENGTH, WIDTH, SIZE = 3, 4, 3, 2
settings = st.fixed_dictionaries(
    {"num_layers": st.integers(1, 3), "bias": st.booleans(), "bidirectional": st.booleans()}
)


def reals(*shape: int) -> Any:
    return np.random.default_rng((0, *shape)).normal(size=shape)


def twins(ours: nn.Module, theirs: Any) -> None:
    """Give ours the parameters of theirs, under the same names."""
    ours.load_state_dict({name: values.numpy() for name, values in theirs.state_dict().items()})


def both(values: Any) -> tuple[Tensor, Any]:
    return Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)


def assert_agree(ours: Any, theirs: Any, outputs: Any, others: Any, variables: list[tuple[Tensor, Any]]) -> None:
    """Equal outputs, and equal gradients of parameters and variables under the same random gradients of the outputs."""
    loss, other = 0.0, 0.0
    for one, its in zip(outputs, others, strict=True):
        assert_allclose(one.numpy(), its.detach().numpy(), rtol=1e-11, atol=1e-13)
        upstream = np.random.default_rng(1).normal(size=one.shape)
        loss, other = loss + np.sum(one * upstream), other + (its * torch.tensor(upstream)).sum()
    loss.backward()
    other.backward()
    parameters = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        assert_allclose(parameter.grad, parameters[name].grad.numpy(), rtol=1e-9, atol=1e-12, err_msg=name)
    for one, its in variables:
        assert_allclose(one.grad, its.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(), (BATCH,)])
@pytest.mark.parametrize("name", ["RNNCell", "GRUCell"])
def test_cells_agree(name: str, shape: tuple[int, ...], bias: bool) -> None:
    ours = getattr(nn, name)(WIDTH, SIZE, bias, dtype=np.float64)
    theirs = getattr(torch.nn, name)(WIDTH, SIZE, bias, dtype=torch.float64)
    twins(ours, theirs)
    x, hidden = both(reals(*shape, WIDTH)), both(reals(*shape, SIZE))
    outputs, others = [ours(x[0], hidden[0])], [theirs(x[1], hidden[1])]
    outputs.append(ours(x[0], outputs[0]))
    others.append(theirs(x[1], others[0]))
    assert_agree(ours, theirs, outputs, others, [x, hidden])
    assert_allclose(ours(x[0]).numpy(), theirs(x[1]).detach().numpy(), rtol=1e-12)


def layers(how: dict[str, Any]) -> tuple[nn.GRU, Any]:
    ours = nn.GRU(WIDTH, SIZE, **how, dtype=np.float64)
    theirs = torch.nn.GRU(WIDTH, SIZE, **how, batch_first=True, dtype=torch.float64)
    twins(ours, theirs)
    return ours, theirs


@given(settings)
def test_a_gru_agrees(how: dict[str, Any]) -> None:
    ours, theirs = layers(how)
    states = ours.num_layers * len(ours.directions)
    x, hidden = both(reals(BATCH, LENGTH, WIDTH)), both(reals(states, BATCH, SIZE))
    assert_agree(ours, theirs, ours(x[0], hidden[0]), theirs(x[1], hidden[1]), [x, hidden])


@given(settings, st.lists(st.integers(1, LENGTH), min_size=BATCH, max_size=BATCH))
def test_lengths_are_pytorchs_packed_sequences(how: dict[str, Any], lengths: list[int]) -> None:
    ours, theirs = layers(how)
    x = both(reals(BATCH, LENGTH, WIDTH))
    rnn = torch.nn.utils.rnn
    packed, last = theirs(rnn.pack_padded_sequence(x[1], lengths, batch_first=True, enforce_sorted=False))
    output, _ = rnn.pad_packed_sequence(packed, batch_first=True, total_length=LENGTH)
    assert_agree(ours, theirs, ours(x[0], lengths=lengths), (output, last), [x])


@given(settings)
def test_names_shapes_and_order_of_the_state_are_pytorchs(how: dict[str, Any]) -> None:
    ours, theirs = layers(how)
    state = [(name, tuple(values.shape)) for name, values in theirs.state_dict().items()]
    assert [(name, values.shape) for name, values in ours.state_dict().items()] == state


def test_a_new_gru_is_drawn_from_the_same_law() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.GRU(60, 50, rng=np.random.default_rng(0)), torch.nn.GRU(60, 50)
    for name, values in theirs.state_dict().items():
        mine, its = ours.state_dict()[name], values.numpy()
        assert_allclose(np.abs(mine).max(), np.abs(its).max(), rtol=0.03)
        assert_allclose(mine.std(), its.std(), rtol=0.1)
