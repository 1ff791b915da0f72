"""The ledger counts the memory that there is, and the statistics the graph that there is."""

from __future__ import annotations

import gc
import tracemalloc
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import tinygrad_attn as ta
from tests.tinygrad_attn.graphs import Graph, graphs
from tinygrad_attn import nn
from tinygrad_attn.diagnose import memory, statistics
from tinygrad_attn.diagnose.table import merged, shortened, size


def variable(*shape: int, **settings: Any) -> ta.Tensor:
    return ta.Tensor(np.random.standard_normal(shape), requires_grad=True, **settings)


def array_memory() -> int:
    """Bytes of all arrays that NumPy has allocated since tracing began."""
    only_arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces((only_arrays,)).traces)


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


class Block(nn.Module):
    """A piece of a Transformer: views, fused operations, dropout, a residual."""

    def __init__(self) -> None:
        self.norm, self.inner, self.outer = nn.LayerNorm(16), nn.Linear(16, 64), nn.Linear(64, 16)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        x = x + self.dropout(self.outer(ta.relu(self.inner(self.norm(x)))))
        heads = np.swapaxes(x.reshape(*x.shape[:-1], 4, 4), -2, -3)
        attended = ta.scaled_dot_product_attention(heads, heads, heads, causal=True)
        return np.swapaxes(attended, -2, -3).reshape(*x.shape)


class Model(nn.Module):
    def __init__(self) -> None:
        self.blocks = nn.ModuleList([Block(), Block()])
        self.to_logits = nn.Linear(16, 7)

    def forward(self, x: Any, target: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return ta.cross_entropy(self.to_logits(x), target)


def computed(model: Model) -> Callable[[], ta.Tensor]:
    x, target = np.random.standard_normal((8, 20, 16)).astype(np.float32), np.zeros((8, 20), int)
    return lambda: model(x, target)


# --- the total -------------------------------------------------------------------------------------------------------


def reachable_arrays(root: Any) -> dict[int, Any]:
    """The arrays that own memory and can be reached from `root` through Python's own references; no `.grad`."""
    owners: dict[int, Any] = {}
    seen: set[int] = set()
    stack = [root]
    while stack:
        value = stack.pop()
        if id(value) in seen or isinstance(value, (type, types.FunctionType, types.ModuleType, ta.Operation)):
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            if value.base is None:
                owners[id(value)] = value
            else:
                stack.append(value.base)
        elif isinstance(value, ta.Tensor):
            stack += [value._data, value.node]
        elif not isinstance(value, (str, int, float)):
            stack += gc.get_referents(value)
    return owners


@given(graphs())
def test_the_total_is_the_size_of_all_arrays_that_can_be_reached(graph: Graph) -> None:
    assert memory(graph.loss).total == sum(array.nbytes for array in reachable_arrays(graph.loss).values())


@given(graphs())
def test_every_buffer_has_one_kind(graph: Graph) -> None:
    ledger = memory(graph.loss)
    assert ledger.total == ledger.parameters + ledger.constants + ledger.activations
    assert ledger.activations == sum(ledger.by_operation.values()) == sum(ledger.by_scope.values())


def test_it_is_what_the_allocator_saw_to_the_byte(traced: None) -> None:
    forward = computed(Model())
    before = array_memory()
    loss = forward()
    made = array_memory() - before
    ledger = memory(loss)
    given_before = 8 * 20 * 16 * 4 + 8 * 20 * 8  # x and target, held in copies by the graph
    assert given_before < ledger.constants
    assert made == ledger.activations + ledger.constants


def test_looking_allocates_nothing_that_stays_and_touches_no_gradient(traced: None) -> None:
    x = variable(50, 50)
    calls: list[Any] = []
    x.register_hook(calls.append)
    loss = np.sum(np.exp(x) * x)
    before = array_memory()
    memory(loss), statistics(loss)
    assert array_memory() == before
    assert x.grad is None and not calls


def test_a_view_keeps_all_of_its_buffer_and_is_counted_once() -> None:
    x = variable(10, 10)
    doubled = x * 2.0
    views = [doubled.T, doubled.reshape(100), doubled[3:4], np.broadcast_to(doubled, (7, 10, 10)), doubled[::2, 1:]]
    for view in views:
        assert memory(view).activations == 800
    assert memory(np.sum(x[0])).total == 800 + 8


def test_a_strided_view_of_an_array_is_traced_to_its_owner() -> None:
    windows = np.lib.stride_tricks.sliding_window_view(np.zeros(1000), 10)
    constant = ta.Tensor.from_numpy(windows)
    assert memory(variable(10) * constant).constants == 8000


def test_what_a_fused_operation_saves_is_told_apart() -> None:
    q = variable(1, 5, 4)
    ledger = memory(ta.scaled_dot_product_attention(q, q, q))
    assert ledger.bytes_of("saved") == 5 * 5 * 8  # the weights; the output is saved too, but is the result
    assert ledger.bytes_of("result") == 5 * 4 * 8
    chunked = memory(ta.scaled_dot_product_attention(q, q, q, chunk=2))
    assert chunked.bytes_of("saved") == 0


def test_index_arrays_are_counted() -> None:
    assert memory(variable(5)[np.array([0, 4])]).bytes_of("option") == 16


def test_parameters_stand_apart_and_modules_are_named() -> None:
    model = Model()
    ledger = memory(computed(model)())
    assert ledger.parameters == 4 * model.num_parameters()
    assert {"blocks.0.norm", "blocks.1.inner", "to_logits", ""} <= set(ledger.by_scope)
    assert {"linear", "attention", "layer_norm", "cross_entropy"} <= set(ledger.by_operation)


def test_parameters_side_by_side_in_one_array_are_counted_once() -> None:
    model = Model()
    forward = computed(model)
    ta.optim.Adam(model.parameters(), 1e-3)
    assert memory(forward()).parameters == 4 * model.num_parameters()


def test_checkpointing_shows_as_less() -> None:
    x = variable(100)
    f = lambda x: np.sum(np.exp(np.sin(np.exp(x))))  # noqa: E731
    assert memory(f(x)).activations == 3 * 800 + 8
    assert memory(ta.checkpoint(f)(x)).activations == 8


def test_a_leaf_and_a_constant_have_a_ledger_too() -> None:
    assert memory(variable(3)).parameters == memory(ta.Tensor(np.zeros(3))).constants == 24
    assert memory(ta.Tensor(np.zeros(3))).peak is None


def test_a_freed_graph_says_so() -> None:
    x = variable(100)
    loss = np.sum(np.exp(x))
    loss.backward(retain_graph=False)
    ledger = memory(loss)
    assert (ledger.total, ledger.peak, ledger.freed) == (8, None, 1)
    assert "1 of 1 operations have been freed" in str(ledger)
    assert statistics(loss).freed == 1 and "freed operations" in str(statistics(loss))


def test_a_long_chain_is_counted_without_recursion() -> None:
    y = variable(1)
    for _ in range(20_000):
        y = y + 1.0
    assert memory(y).activations == 160_000
    assert statistics(y).depth == 20_000


# --- the peak --------------------------------------------------------------------------------------------------------


def perceptron() -> Callable[[], ta.Tensor]:
    weights = [variable(100, 100) for _ in range(5)]
    x = np.random.standard_normal((150, 100))

    def forward() -> ta.Tensor:
        h: Any = x
        for weight in weights:
            h = np.tanh(h @ weight)
        return np.mean(h * h)

    return forward


def formula() -> Callable[[], ta.Tensor]:
    x = ta.Tensor(np.random.uniform(0.5, 1.0, (200, 200)), requires_grad=True)
    return lambda: np.sum(np.sin(np.exp(-x) + np.sqrt(x) * x) ** 2)


def recomputed() -> Callable[[], ta.Tensor]:
    x, weight = variable(200, 200), variable(200, 200)
    wave = ta.checkpoint(lambda x: np.exp(np.sin(np.cos(x @ weight))))
    return lambda: np.sum(wave(np.tanh(x)))


@pytest.mark.parametrize("make", [perceptron, formula, recomputed, lambda: computed(Model())])
def test_the_peak_is_near_what_the_allocator_saw(make: Callable[[], Callable[[], ta.Tensor]]) -> None:
    loss = make()()
    ledger = memory(loss)
    loss.backward()  # what is loaded or kept at the first call is not counted
    for leaf in behind(loss):
        leaf.zero_grad()
    gc.collect()
    tracemalloc.start()
    loss.backward()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ledger.sweep is not None and ledger.peak == ledger.total + ledger.sweep
    assert 0.7 * peak < ledger.sweep < 1.3 * peak


def test_a_gradient_that_is_there_already_needs_no_more_memory() -> None:
    loss = np.sum(np.stack([np.sum(variable(1000) * 2.0) for _ in range(5)]))
    before = memory(loss).sweep
    loss.backward()
    after = memory(loss).sweep
    assert before is not None and after is not None and before - after >= 3 * 8000


def behind(loss: ta.Tensor) -> list[ta.Tensor]:
    return [tensor for tensor in ta.graph.topological_order([loss]) if tensor.node is None]


# --- statistics ------------------------------------------------------------------------------------------------------


@given(graphs())
def test_statistics_count_the_graph(graph: Graph) -> None:
    """Against a walk of paths: slow, but with nothing in common."""
    counted = statistics(graph.loss)
    nodes: dict[int, Any] = {}
    leaves: dict[int, ta.Tensor] = {}

    def depth(tensor: ta.Tensor) -> int:
        if not tensor.requires_grad:
            return 0
        if tensor.node is None:
            leaves[id(tensor)] = tensor
            return 0
        nodes[id(tensor.node)] = tensor.node
        return 1 + max(depth(value) for value in tensor.node.inputs if isinstance(value, ta.Tensor))

    assert counted.depth == depth(graph.loss)
    assert (counted.nodes, counted.leaves) == (len(nodes), len(leaves))
    assert counted.parameters == sum(leaf.size for leaf in leaves.values())
    assert counted.edges == sum(isinstance(v, ta.Tensor) for node in nodes.values() for v in node.inputs)
    assert sum(counted.by_operation.values()) == sum(counted.by_scope.values()) == counted.nodes


def test_statistics_of_a_small_graph() -> None:
    a, b = variable(2, name="a"), variable(2, name="b")
    y = a * b
    counted = statistics(np.sum(y * y + a + np.ones(2)))
    assert (counted.nodes, counted.edges, counted.leaves, counted.parameters) == (5, 9, 2, 4)
    assert (counted.constants, counted.shared, counted.depth, counted.freed) == (1, 2, 5, 0)
    assert counted.by_operation == {"add": 2, "multiply": 2, "sum": 1}


def test_sixty_doublings_have_sixty_operations() -> None:
    y = variable(1)
    for _ in range(60):
        y = y + y
    assert (statistics(y).nodes, statistics(y).edges, statistics(y).depth) == (60, 120, 60)


# --- the tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("report", [memory, statistics])
def test_a_table_fits_80_columns(report: Callable[[ta.Tensor], Any]) -> None:
    with ta.modes.scope("a_module_with_a_very_long_name_" * 3 + "end"):
        other = np.sum(np.exp(variable(3, 100)))
    text = str(report(computed(Model())() + other))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "by operation" in text and "by module" in text and "blocks.0" in text and "_name_end" in text


def test_a_table_is_cut_to_the_rows_asked_for() -> None:
    lines = memory(computed(Model())()).table(rows=3).splitlines()
    operations = lines[lines.index("by operation") + 1 : lines.index("by module") - 1]
    assert len(operations) == 4 and operations[-1].startswith("… ") and operations[-1].endswith("%")


def test_the_largest_modules_are_opened_first() -> None:
    scopes = {"a.x": 5, "a.y": 4, "b.x": 1, "b.y": 1, "": 2}
    assert merged(scopes, 4) == {"a.x": 5, "a.y": 4, "": 2, "b": 2}
    assert merged(scopes, 9) == {"a.x": 5, "a.y": 4, "": 2, "b.x": 1, "b.y": 1}
    assert merged(scopes, 1) == {"a": 9, "": 2, "b": 2}
    assert merged({"a": 1, "a.b": 2}, 4) == {"a.b": 2, "a": 1}
    assert merged({}, 3) == {}


def test_sizes_have_units() -> None:
    assert [size(n) for n in (0, 1023, 1024, 1536, 5 << 20, 3 << 30, 5000 << 30)] == (
        ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.0 GiB", "5000.0 GiB"]
    )


def test_of_a_long_name_the_end_stays() -> None:
    assert shortened("x" * 100 + ".end").endswith(".end") and len(shortened("x" * 100)) == 41


def test_what_is_no_tensor_is_refused() -> None:
    for look in (memory, statistics):
        with pytest.raises(ta.errors.DtypeError, match=rf"diagnose.{look.__name__} looks at(.|\n)*given ndarray"):
            look(np.ones(3))  # type: ignore[operator]
