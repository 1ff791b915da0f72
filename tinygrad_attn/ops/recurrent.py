"""The gated recurrent unit: one step of it, and all steps over a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_attn.domain import Chooser, flag
from tinygrad_attn.operation import op
from tinygrad_attn.ops.activation import sigmoid
from tinygrad_attn.ops.linalg import as_rows, linear_definition

Shape = tuple[int, ...]

# --- one step --------------------------------------------------------------------------------------------------------


def gru_step_definition(projected: Any, hidden: Any, weight: Any, bias: Any = None) -> Any:
    """Two gates, a candidate, and a mixture of it with the old state: what `gru_step` must equal."""
    size = hidden.shape[-1]
    recurrent = linear_definition(hidden, weight, bias)  # (..., 3 size), in thirds as `projected`
    reset = sigmoid(projected[..., :size] + recurrent[..., :size])
    update = sigmoid(projected[..., size : 2 * size] + recurrent[..., size : 2 * size])
    candidate = np.tanh(projected[..., 2 * size :] + reset * recurrent[..., 2 * size :])
    return (1.0 - update) * candidate + update * hidden


def _one_step(choose: Chooser) -> tuple[Any, ...]:
    lead, size = choose.shape(0, 2), choose.integer(1, 3)
    return choose.reals((*lead, 3 * size)), choose.reals((*lead, size)), *_recurrent_weights(choose, size)


def _recurrent_weights(choose: Chooser, size: int) -> tuple[Any, Any]:
    bias = choose.reals((3 * size,)) if choose.pick([True, False]) else None
    return choose.reals((3 * size, size)), bias


def step_clash(projected: Shape, hidden: Shape, weight: Shape, *bias: Shape, **_: Any) -> str | None:
    """Why the shapes of a step do not fit."""
    if not hidden or projected != (*hidden[:-1], 3 * hidden[-1]):
        given = f"\n  expected {(*hidden[:-1], 3 * hidden[-1])}, given {projected}" if hidden else ""
        return f"projected holds three numbers for each of the hidden state's{given}"
    return _weights_clash(hidden[-1], weight, *bias)


def _weights_clash(size: int, weight: Shape, *bias: Shape) -> str | None:
    if weight != (3 * size, size):
        return f"weight must be (3 · hidden_size, hidden_size)\n  expected {(3 * size, size)}, given {weight}"
    if bias and bias[0] != (3 * size,):
        return f"bias must be (3 · hidden_size,)\n  expected {(3 * size,)}, given {bias[0]}"
    return None


@op(reference=gru_step_definition, domain=_one_step, clash=step_clash)
def gru_step(projected: Any, hidden: Any, weight: Any, bias: Any = None) -> Any:
    """One step of a gated recurrent unit: what it remembers once it has read one more input.

    h′ = (1 − z) ∘ n + z ∘ h,  r = σ(pᵣ + qᵣ),  z = σ(p_z + q_z),  n = tanh(pₙ + r ∘ qₙ),  q = h Wᵀ + b

    Args:
        projected: p, (..., 3 · hidden_size): the input times its own weight, plus its bias; thirds for r, z and n.
        hidden: h, (..., hidden_size).
        weight: (3 · hidden_size, hidden_size), rows in the order r, z, n, as in PyTorch.
        bias: (3 · hidden_size,) or None.
    Returns:
        h′, (..., hidden_size).
    Source:
        Cho et al. (2014), arXiv:1406.1078, §2.3, in PyTorch's form: r acts on the product with the weight, not on h.
        The rule is derived in docs/derivations.md, §15.
    """
    _fit(step_clash, projected, hidden, weight, bias)
    return _step(projected, hidden, weight, bias)


@gru_step.gradients(
    "projected",
    "hidden",
    "weight",
    "bias",
    formula="dp = (ṙ, ż, ṅ), ṅ = dh′(1 − z)(1 − n²), ṙ = ṅ qₙ r(1 − r), ż = dh′(h − n) z(1 − z); "
    "dh = z dh′ + dq W, dq = (ṙ, ż, r ṅ); dW = dqᵀ h; db = Σ dq",
)
def _(g: Any, saved: Any, projected: Any, hidden: Any, weight: Any, bias: Any) -> Any:
    d_projected, d_recurrent = _step_back(g, saved, hidden)
    _, update, *_ = saved
    return d_projected, g * update + d_recurrent @ weight, *_weight_gradients(d_recurrent, hidden, bias)


def _step(projected: Any, hidden: Any, weight: Any, bias: Any) -> tuple[Any, tuple[Any, ...]]:
    """The next state, and what its rule needs: reset, update, candidate, and the candidate's part of h Wᵀ + b."""
    size = hidden.shape[-1]
    recurrent = hidden @ weight.T  # (..., 3 size)
    if bias is not None:
        recurrent = recurrent + bias
    gates = sigmoid(projected[..., : 2 * size] + recurrent[..., : 2 * size])
    reset, update, recalled = gates[..., :size], gates[..., size:], recurrent[..., 2 * size :]
    candidate = np.tanh(projected[..., 2 * size :] + reset * recalled)
    return (1.0 - update) * candidate + update * hidden, (reset, update, candidate, recalled)


def _step_back(g: Any, saved: Sequence[Any], hidden: Any) -> tuple[Any, Any]:
    """Gradients of what is inside σ and tanh: with respect to p, and with respect to q, (..., 3 size) each."""
    reset, update, candidate, recalled = saved
    d_candidate = g * (1.0 - update) * (1.0 - candidate * candidate)
    d_reset = d_candidate * recalled * reset * (1.0 - reset)
    d_update = g * (hidden - candidate) * update * (1.0 - update)
    d_projected = np.concatenate([d_reset, d_update, d_candidate], axis=-1)
    return d_projected, np.concatenate([d_reset, d_update, d_candidate * reset], axis=-1)


def _weight_gradients(d_recurrent: Any, hidden: Any, bias: Any) -> tuple[Any, Any]:
    rows = as_rows(d_recurrent)  # (rows, 3 size)
    return rows.T @ as_rows(hidden), None if bias is None else np.sum(rows, axis=0)


def _fit(clash: Any, *operands: Any, **options: Any) -> None:
    """Raise where the shapes clash; the engine says why."""
    if clash(*(x.shape for x in operands if x is not None), **options) is not None:
        raise ValueError


# --- a sequence ------------------------------------------------------------------------------------------------------


def gru_sequence_definition(
    projected: Any, hidden: Any, weight: Any, bias: Any = None, *, lengths: Any = None, reverse: bool = False
) -> Any:
    """One step after the other: what `gru_sequence` must equal."""
    states = {}
    for t in _order(projected.shape[1], reverse):
        after = gru_step(projected[:, t], hidden, weight, bias)  # (batch, size)
        hidden = after if lengths is None else np.where(_running(lengths, t), after, hidden)
        states[t] = hidden
    return np.stack([states[t] for t in range(len(states))], axis=1)


def _order(length: int, reverse: bool) -> range:
    return range(length - 1, -1, -1) if reverse else range(length)


def _running(lengths: Any, t: int) -> Any:
    """Which rows of the batch have an input at step t, (batch, 1)."""
    return np.greater(np.asarray(lengths)[:, None], t)


def _sequence(choose: Chooser) -> tuple[Any, ...]:
    batch, length, size = choose.integer(0, 2), choose.integer(1, 3), choose.integer(1, 2)
    weights = _recurrent_weights(choose, size)
    return choose.reals((batch, length, 3 * size)), choose.reals((batch, size)), *weights


def _some_lengths(choose: Chooser, inputs: tuple[Any, ...]) -> Any:
    batch, length, _ = inputs[0].shape
    return choose.pick([None, choose.integers((batch,), 0, length)])


def sequence_clash(
    projected: Shape, hidden: Shape, weight: Shape, *bias: Shape, lengths: Any = None, reverse: bool = False
) -> str | None:
    """Why the shapes of a sequence do not fit."""
    if len(projected) != 3 or projected[1] == 0:
        return f"projected must be (batch, length, 3 · hidden_size) with at least one step\n  given {projected}"
    if projected[2] % 3 or hidden != (projected[0], projected[2] // 3):
        return f"hidden must be (batch, hidden_size)\n  expected {(projected[0], projected[2] // 3)}, given {hidden}"
    if lengths is not None and np.shape(lengths) != projected[:1]:
        return f"lengths must be (batch,)\n  expected {projected[:1]}, given {np.shape(lengths)}"
    return _weights_clash(hidden[-1], weight, *bias)


@op(
    reference=gru_sequence_definition,
    domain=_sequence,
    options={"lengths": _some_lengths, "reverse": flag},
    clash=sequence_clash,
)
def gru_sequence(
    projected: Any, hidden: Any, weight: Any, bias: Any = None, *, lengths: Any = None, reverse: bool = False
) -> Any:
    """All states of a gated recurrent unit that reads a sequence, each from the one before.

    hₜ = gru_step(pₜ, hₜ₋₁), t = 1 … length

    Args:
        projected: (batch, length, 3 · hidden_size), all inputs times their weight, plus bias: it waits for no state.
        hidden: h₀, (batch, hidden_size).
        weight, bias: as in `gru_step`.
        lengths: (batch,), integers: how many steps of each row are real. In the others the state stays as it is, and
            what stands there has no influence.
        reverse: read from the last step to the first.
    Returns:
        (batch, length, hidden_size): the state after each step, where the input of that step stands.
    """
    _fit(sequence_clash, projected, hidden, weight, bias, lengths=lengths)
    if lengths is not None:
        real = np.less(np.arange(projected.shape[1]), np.asarray(lengths)[:, None])  # (batch, length)
        projected = np.where(real[..., None], projected, 0.0)
    floating = [x for x in (projected, hidden, weight, bias) if x is not None]
    states = np.empty((*projected.shape[:2], hidden.shape[-1]), np.result_type(*floating))
    steps = []
    for t in _order(projected.shape[1], reverse):
        after, inside = _step(projected[:, t], hidden, weight, bias)
        steps.append((hidden, *inside))
        hidden = after if lengths is None else np.where(_running(lengths, t), after, hidden)
        states[:, t] = hidden
    return states, steps


@gru_sequence.gradients(
    "projected",
    "hidden",
    "weight",
    "bias",
    formula="dpₜ = (ṙₜ, żₜ, ṅₜ), from the last step to the first; "
    "dh₀ = z₁ dh₁ + dq₁ W, dhₜ = dyₜ + zₜ₊₁ dhₜ₊₁ + dqₜ₊₁ W; dW = Σₜ dqₜᵀ hₜ₋₁; db = Σₜ dqₜ",
)
def _(g: Any, saved: Any, projected: Any, hidden: Any, weight: Any, bias: Any, *, lengths: Any, reverse: bool) -> Any:
    d_projected, d_recurrent = np.empty(projected.shape, g.dtype), np.empty(projected.shape, g.dtype)
    before = np.empty_like(g)
    carried = np.zeros_like(g[:, 0])  # from the steps that come after, (batch, size)
    for t, (state, *inside) in zip(reversed(_order(g.shape[1], reverse)), reversed(saved), strict=True):
        arrived = passed = g[:, t] + carried
        if lengths is not None:
            arrived = np.where(_running(lengths, t), arrived, 0.0)
        d_projected[:, t], d_recurrent[:, t] = _step_back(arrived, inside, state)
        before[:, t] = state
        carried = arrived * inside[1] + d_recurrent[:, t] @ weight
        if lengths is not None:
            carried = np.where(_running(lengths, t), carried, passed)
    return d_projected, carried, *_weight_gradients(d_recurrent, before, bias)
