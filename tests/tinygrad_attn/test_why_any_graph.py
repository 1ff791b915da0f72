"""why: whatever the graph, nothing is said that is not so, and nothing changes."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.tinygrad_attn.explained import NOT_OF_ONE_OPERATION, is_flat, silent, variable  # noqa: F401
from tests.tinygrad_attn.graphs import TAME, WILD, Graph, graphs
from tinygrad_attn.diagnose import Explanation, detect_anomaly, why
from tinygrad_attn.graph import topological_order

ANY_DTYPE = (np.float64, np.float32, np.float16)
wild = graphs(WILD, dtypes=ANY_DTYPE)


@given(wild, st.data())
def test_it_never_raises_and_fits_a_terminal(graph: Graph, data: st.DataObject) -> None:
    tensor = data.draw(st.sampled_from(graph.tensors))
    root = data.draw(st.sampled_from([graph.loss, graph.loss, None, *graph.tensors]))
    found = why(tensor, root)
    for line in str(found).splitlines():
        assert len(line) <= 80 or " " not in line.strip()
    assert found.causes or found.state not in ("zero", "partly zero", "not finite") or root is None


@given(wild, st.booleans())
def test_it_changes_nothing(graph: Graph, after: bool) -> None:
    assume(graph.loss.requires_grad)
    ones = np.ones(graph.loss.shape)
    if after:
        graph.loss.backward(ones)
    leaves = [tensor for tensor in graph.tensors if tensor.node is None]
    before = [None if leaf.grad is None else leaf.grad.copy() for leaf in leaves]
    values = [leaf.numpy().copy() for leaf in leaves]
    state = ta.rng.get_state()
    for tensor in graph.tensors:
        why(tensor, graph.loss)
    assert repr(ta.rng.get_state()) == repr(state)
    for leaf, gradient, value in zip(leaves, before, values, strict=True):
        np.testing.assert_array_equal(leaf.numpy(), value)
        assert (leaf.grad is None) == (gradient is None)
        if gradient is not None:
            np.testing.assert_array_equal(leaf.grad, gradient)
    graph.loss.backward(ones)


@given(wild, st.data())
def test_the_derivative_is_what_it_is(graph: Graph, data: st.DataObject) -> None:
    tensor = data.draw(st.sampled_from(graph.tensors))
    found = why(tensor, graph.loss)
    connected = graph.loss.requires_grad and any(x is tensor for x in topological_order([graph.loss]))
    assert (found.derivative is not None) == (connected and tensor.requires_grad)
    if found.derivative is None:
        return
    gradient = ta.gradients(graph.loss, tensor, np.ones(graph.loss.shape)).numpy()
    expected = (
        "not finite" if not np.isfinite(gradient).all() else "zero" if gradient.size and not gradient.any() else ""
    )
    assert expected in ("", found.derivative)
    if expected == "":
        assert found.derivative in ("not zero", "partly zero", "rounding error")
        assert found.derivative != "partly zero" or (gradient == 0.0).any()


@given(st.one_of(graphs(TAME), graphs(WILD)), st.data())
def test_a_derivative_that_is_called_zero_is_zero(graph: Graph, data: st.DataObject) -> None:
    """Each cause is tried out: moving the element leaves the result where it is, to first order."""
    assume(graph.loss.requires_grad)
    tensor = data.draw(st.sampled_from([t for t in topological_order([graph.loss])]))
    found = why(tensor, graph.loss)
    if found.derivative not in ("zero", "partly zero"):
        return
    for cause in found.causes:
        if cause.kind not in NOT_OF_ONE_OPERATION and not cause.inside and cause.operation != "checkpoint":
            assert any(is_flat(made, cause) for made in topological_order([graph.loss]) if made.node), str(found)


@given(wild)
def test_the_first_operation_that_detect_anomaly_stops_at_is_among_the_causes(graph: Graph) -> None:
    """Two ways to the same answer: one watches the backward pass, the other follows it back."""
    assume(graph.loss.requires_grad)
    with detect_anomaly():
        try:
            graph.loss.backward(np.ones(graph.loss.shape))
            return
        except ta.errors.NotFiniteError as error:
            stopped = str(error).split(":")[0]
    leaves = [tensor for tensor in topological_order([graph.loss]) if tensor.node is None]
    found = [why(leaf, graph.loss) for leaf in leaves]
    if any(explanation.derivative == "not finite" for explanation in found):
        made_by = {cause.operation for explanation in found for cause in explanation.causes}
        finite = all(np.isfinite(t.numpy()).all() for t in topological_order([graph.loss]))
        assert stopped in made_by or not finite, (stopped, made_by)


def test_a_long_chain_is_followed_without_recursion() -> None:
    x = variable([1.0])
    y = x
    for _ in range(3000):
        y = y + 0.001
    found: Explanation = why(x, ta.relu(-y))
    assert found.cause is not None and found.cause.kind == "dead relu"
    assert found.cause.path == ("add", "add", "add", "negative")
