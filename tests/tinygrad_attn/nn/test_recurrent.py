"""Recurrent layers: a sequence is a loop, padding has no influence, both ways and several layers are what they say."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn import Tensor, nn
from tinygrad_attn.errors import DtypeError, IndexRangeError, OptionError, ShapeError

BATCH, LENGTH, WIDTH, SIZE = 3, 4, 3, 2
settings = st.fixed_dictionaries(
    {"num_layers": st.integers(1, 3), "bias": st.booleans(), "bidirectional": st.booleans()}
)
lengths_of_a_batch = st.lists(st.integers(0, LENGTH), min_size=BATCH, max_size=BATCH)


def gru(**how: Any) -> nn.GRU:
    return nn.GRU(WIDTH, SIZE, rng=np.random.default_rng(0), dtype=np.float64, **how)


def inputs(layer: nn.GRU, seed: int = 0) -> tuple[Any, Any]:
    """x and the states to begin with."""
    rng, states = np.random.default_rng(seed), layer.num_layers * len(layer.directions)
    return rng.normal(size=(BATCH, LENGTH, WIDTH)), rng.normal(size=(states, BATCH, SIZE))


def cell_of(layer: nn.GRU, ending: str) -> nn.GRUCell:
    """A cell with the parameters of one direction of one layer."""
    named = {name.removesuffix(f"_{ending}"): values for name, values in layer.state_dict().items()}
    cell = nn.GRUCell(named["weight_ih"].shape[1], SIZE, layer.bias, dtype=np.float64)
    cell.load_state_dict({name: named[name] for name in cell.state_dict()})
    return cell


# --- what it computes ------------------------------------------------------------------------------------------------


@given(settings)
def test_a_layer_is_its_cell_in_a_loop_and_the_next_layer_reads_what_it_returns(how: dict[str, Any]) -> None:
    layer = gru(**how)
    x, hidden = inputs(layer)
    output, last = layer(x, hidden)
    expected, states = x, []
    for number in range(layer.num_layers):
        ways = []
        for direction in layer.directions:
            cell, state, steps = cell_of(layer, f"l{number}{direction}"), hidden[len(states)], {}
            for t in range(LENGTH)[:: -1 if direction else 1]:
                steps[t] = state = cell(expected[:, t], state).numpy()
            states.append(state)
            ways.append(np.stack([steps[t] for t in range(LENGTH)], axis=1))
        expected = np.concatenate(ways, axis=-1)
    assert_allclose(output.numpy(), expected, rtol=1e-12)
    assert_allclose(last.numpy(), np.stack(states), rtol=1e-12)


def test_without_a_state_it_begins_with_zeros() -> None:
    layer = gru(num_layers=2, bidirectional=True)
    x, hidden = inputs(layer)
    for one, other in zip(layer(x), layer(x, np.zeros_like(hidden)), strict=True):
        assert_array_equal(one.numpy(), other.numpy())
    for cell in (nn.GRUCell(WIDTH, SIZE), nn.RNNCell(WIDTH, SIZE)):
        assert_array_equal(cell(x).numpy(), cell(x, np.zeros((BATCH, LENGTH, SIZE), np.float32)).numpy())


def test_a_sequence_may_be_read_in_two_parts() -> None:
    layer = gru(num_layers=2)
    x, hidden = inputs(layer)
    whole, last = layer(x, hidden)
    first, between = layer(x[:, :1], hidden)
    second, end = layer(x[:, 1:], between)
    assert_allclose(np.concatenate([first, second], axis=1).numpy(), whole.numpy(), rtol=1e-12)
    assert_allclose(end.numpy(), last.numpy(), rtol=1e-12)


@given(st.integers(0, LENGTH - 1))
def test_one_way_it_sees_no_future_and_both_ways_it_does(t: int) -> None:
    for both in (False, True):
        layer = gru(bidirectional=both)
        x, hidden = inputs(layer)
        changed = x.copy()
        changed[:, t] += 1.0
        differs = (layer(x, hidden)[0].numpy() != layer(changed, hidden)[0].numpy()).any(axis=(0, 2))
        assert differs.tolist() == [both or step >= t for step in range(LENGTH)]


def test_a_plain_cell_by_hand() -> None:
    cell = nn.RNNCell(1, 1, dtype=np.float64)
    for name, value in [("weight_ih", 0.5), ("weight_hh", -2.0), ("bias_ih", 0.25), ("bias_hh", 1.0)]:
        getattr(cell, name).data = np.full_like(getattr(cell, name).numpy(), value)
    assert_allclose(cell([3.0], [0.5]).numpy(), np.tanh([0.5 * 3.0 + 0.25 - 2.0 * 0.5 + 1.0]), rtol=1e-15)


def test_cells_read_one_input_or_any_number_of_them() -> None:
    for cell in (nn.GRUCell(WIDTH, SIZE, dtype=np.float64), nn.RNNCell(WIDTH, SIZE, dtype=np.float64)):
        x = np.random.default_rng(0).normal(size=(2, BATCH, WIDTH))
        together = cell(x).numpy()
        assert together.shape == (2, BATCH, SIZE)
        for place in itertools.product(range(2), range(BATCH)):
            assert_allclose(cell(x[place]).numpy(), together[place], rtol=1e-12)


def test_states_stay_between_those_of_their_gates() -> None:
    """h′ lies between h and n, and n in (−1, 1): begun inside, the state never leaves."""
    states = gru()(1e3 * inputs(gru())[0])[0].numpy()
    assert np.isfinite(states).all() and np.abs(states).max() <= 1.0


# --- padding ---------------------------------------------------------------------------------------------------------


@given(settings, lengths_of_a_batch)
def test_what_stands_in_the_padding_has_no_influence(how: dict[str, Any], lengths: list[int]) -> None:
    layer = gru(**how)
    x, hidden = inputs(layer)
    padded = np.arange(LENGTH)[:, None] >= np.reshape(lengths, (-1, 1, 1))
    answers = []
    for content in (0.0, np.nan):
        layer.zero_grad()
        given_x = Tensor(np.where(padded, content, x), requires_grad=True)
        given_hidden = Tensor(hidden, requires_grad=True)
        output, last = layer(given_x, given_hidden, lengths=lengths)
        (np.sum(output * output) + np.sum(np.sin(last))).backward()
        gradients = [given_x.grad, given_hidden.grad, *(p.grad for p in layer.parameters())]
        answers.append([output.numpy(), last.numpy(), *gradients])
        assert not output.numpy()[np.broadcast_to(padded, output.shape)].any()
        assert not given_x.grad[np.broadcast_to(padded, x.shape)].any()
    for one, other in zip(*answers, strict=True):
        assert_array_equal(one, other)


@given(settings, lengths_of_a_batch)
def test_a_row_in_a_padded_batch_is_what_it_is_alone(how: dict[str, Any], lengths: list[int]) -> None:
    layer = gru(**how)
    x, hidden = inputs(layer)
    output, last = layer(x, hidden, lengths=lengths)
    for row, length in enumerate(lengths):
        one = slice(row, row + 1)
        if length == 0:
            assert_array_equal(last.numpy()[:, row], hidden[:, row])
            continue
        alone, end = layer(x[one, :length], hidden[:, one])
        assert_allclose(output.numpy()[one, :length], alone.numpy(), rtol=1e-11, atol=1e-14)
        assert_allclose(last.numpy()[:, one], end.numpy(), rtol=1e-11, atol=1e-14)


def test_full_lengths_change_nothing() -> None:
    layer = gru(num_layers=2, bidirectional=True)
    x, hidden = inputs(layer)
    for full in ([LENGTH] * BATCH, np.full(BATCH, LENGTH, np.uint8), Tensor(np.full(BATCH, LENGTH))):
        for one, other in zip(layer(x, hidden), layer(x, hidden, lengths=full), strict=True):
            assert_array_equal(one.numpy(), other.numpy())


# --- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [None, [3, 1], [0, 2]])
@pytest.mark.parametrize("both_ways", [False, True])
def test_gradients_are_the_slopes_in_padded_batches(both_ways: bool, lengths: Any) -> None:
    layer = nn.GRU(1, 2, 2, bidirectional=both_ways, rng=np.random.default_rng(0), dtype=np.float64)
    x = np.random.default_rng(1).normal(size=(2, 3, 1))
    hidden = np.random.default_rng(2).normal(size=(2 * len(layer.directions), 2, 2))
    ta.gradcheck(lambda x, h: list(layer(x, h, lengths=lengths)), x, hidden, parameters=list(layer.parameters()))


def test_second_derivatives_are_the_slopes_of_the_first() -> None:
    layer = nn.GRU(1, 1, 2, bidirectional=True, rng=np.random.default_rng(0), dtype=np.float64)
    x, hidden = np.random.default_rng(1).normal(size=(2, 3, 1)), np.zeros((4, 2, 1))
    ta.gradcheck(lambda x, h: list(layer(x, h, lengths=[3, 1])), x, hidden, order=2)


def test_run_with_primitive_operations_it_gives_the_same() -> None:
    layer = gru(num_layers=2, bidirectional=True)
    x, hidden = inputs(layer)
    fused = layer(x, hidden, lengths=[4, 0, 2])
    with ta.unfused():
        for one, other in zip(fused, layer(x, hidden, lengths=[4, 0, 2]), strict=True):
            assert_allclose(other.numpy(), one.numpy(), rtol=1e-11, atol=1e-14)


def test_weight_decay_acts_on_the_matrices_and_leaves_the_biases() -> None:
    decayed, kept = (group["params"] for group in ta.optim.decay_groups(gru(), 0.1))
    assert sorted(p.name for p in decayed) == ["weight_hh_l0", "weight_ih_l0"]
    assert sorted(p.name for p in kept) == ["bias_hh_l0", "bias_ih_l0"]


# --- graph, training -------------------------------------------------------------------------------------------------


def scopes_and_size(*roots: Tensor) -> tuple[set[str], int]:
    found, stack = {}, list(roots)
    while stack:
        node = stack.pop().node
        if node is not None and id(node) not in found:
            found[id(node)] = node
            stack.extend(value for value in node.inputs if isinstance(value, Tensor))
    return {node.scope for node in found.values()}, len(found)


def test_the_graph_is_as_large_for_a_thousand_steps_as_for_two() -> None:
    model = nn.Sequential(nn.GRU(WIDTH, SIZE, 2, bidirectional=True))
    short, long = (scopes_and_size(*model(np.ones((1, steps, WIDTH), np.float32))) for steps in (2, 1000))
    assert short == long
    assert short[0] == {"0", "0.l0", "0.l0_reverse", "0.l1", "0.l1_reverse"}


def test_a_loop_of_a_cell_stays_in_one_scope() -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            self.cell = nn.GRUCell(WIDTH, SIZE)

        def forward(self, steps: Any) -> Any:
            state = None
            for x in steps:
                state = self.cell(x, state)
            return state

    scopes, size = scopes_and_size(Reader()(np.ones((50, 1, WIDTH), np.float32)))
    assert scopes == {"cell"} and size == 2 * 50


def test_dropout_acts_between_layers_in_training_only() -> None:
    shape = (1, 2, WIDTH)
    for layers, changes in ((1, False), (2, True)):
        layer = gru(num_layers=layers, dropout=0.5)
        results = {layer(np.ones(shape))[0].numpy().tobytes() for _ in range(8)}
        assert (len(results) > 1) == changes
        layer.eval()
        assert len({layer(np.ones(shape))[0].numpy().tobytes() for _ in range(8)}) == 1


def test_it_learns_what_stood_at_the_beginning() -> None:
    """The sign of the first number, twelve steps later."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 12, 1)).astype(np.float32)
    wanted = (x[:, 0] > 0).astype(np.float32)
    layer, head = nn.GRU(1, 8, rng=rng), nn.Linear(8, 1, rng=rng)
    optimiser = ta.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.03)
    for _ in range(80):
        optimiser.zero_grad()
        loss = ta.bce_with_logits(head(layer(x)[1][0]), wanted)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1
    assert ((head(layer(x)[1][0]).numpy() > 0) == wanted).mean() > 0.95


def test_first_values_fill_the_range_that_the_size_of_the_state_gives() -> None:
    for layer in (nn.GRU(30, 100), nn.GRUCell(30, 100), nn.RNNCell(30, 100)):
        for name, values in layer.state_dict().items():
            assert 0.9 < np.abs(values).max() * np.sqrt(100) <= 1.0, name


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda g: g(np.ones((4, 3))), ShapeError, r"\(batch, length, 3\)[\s\S]*given \(4, 3\)[\s\S]*x\[None\]"),
        (lambda g: g(np.ones((3, 4, 2))), ShapeError, r"given \(3, 4, 2\)$"),
        (lambda g: g(np.ones((3, 0, 3))), ShapeError, r"GRU: x must be .* at least one step"),
        (lambda g: g(np.ones((3, 4, 3)), np.ones((3, 2))), ShapeError, r"hidden  \(3, 2\)   expected \(1, 3, 2\)"),
        (lambda g: g(np.ones((3, 4, 3)), lengths=[1, 2]), ShapeError, r"expected \(3,\), given \(2,\)"),
        (lambda g: g(np.ones((3, 4, 3)), lengths=[1, 2, 5]), IndexRangeError, r"lie in \[0, 4\]\n  given \[1, 2, 5\]"),
        (lambda g: g(np.ones((3, 4, 3)), lengths=[1, -1, 2]), IndexRangeError, r"given \[1, -1, 2\]"),
        (lambda g: g(np.ones((3, 4, 3)), lengths=[1.0, 2.0, 3.0]), DtypeError, "integers\n  given float64"),
        (lambda g: nn.GRUCell(3, 2)(np.ones((4, 2))), ShapeError, r"expected 3, given 2[\s\S]*weight_ih"),
        (lambda g: nn.RNNCell(3, 2)(np.ones((4, 3)), np.ones(2)), ShapeError, r"\(2,\)   expected \(4, 2\)"),
        (lambda g: nn.GRU(3, 0), OptionError, "hidden_size must be a positive integer"),
        (lambda g: nn.GRU(3, 2, 0), OptionError, "num_layers"),
        (lambda g: nn.GRU(3, 2, 2, dropout=1.5), OptionError, "dropout is the probability"),
        (lambda g: nn.GRUCell(0, 2), OptionError, "GRUCell: input_size"),
    ],
)
def test_a_mistake_is_told_with_what_was_expected(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(gru())


def test_what_is_printed_says_what_was_set() -> None:
    assert repr(nn.GRU(3, 2)) == "GRU(3, 2)"
    assert repr(nn.GRU(3, 2, 2, False, bidirectional=True)) == "GRU(3, 2, num_layers=2, bias=False, bidirectional=True)"
    assert repr(nn.GRUCell(3, 2, bias=False)) == "GRUCell(3, 2, bias=False)"
