"""Recurrent operations and layers beside PyTorch's with the same parameters: values and gradients in float64."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import require
from tests.parity.peer import assert_equals_torch

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
