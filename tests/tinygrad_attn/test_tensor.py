"""Tensor: what it holds, what it remembers, how gradients reach it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

import tinygrad_attn as ta


def variable(values: Any, **settings: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True, **settings)


arrays = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int64, np.bool_]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)


# --- making one ------------------------------------------------------------------------------------------------------


@given(arrays)
def test_an_array_is_copied_and_keeps_shape_dtype_and_values(array: Any) -> None:
    tensor = ta.Tensor(array)
    assert_array_equal(tensor.numpy(), array)
    assert (tensor.shape, tensor.ndim, tensor.size, tensor.dtype) == (array.shape, array.ndim, array.size, array.dtype)
    assert tensor.nbytes == array.nbytes
    assert not np.shares_memory(tensor.numpy(), array)
    assert tensor.is_leaf and tensor.node is None and tensor.grad is None


def test_from_numpy_shares_memory_and_from_own_is_not_watched() -> None:
    array = np.array([1.0, 2.0])
    shared = ta.Tensor.from_numpy(array, requires_grad=True, name="shared")
    assert np.shares_memory(shared.numpy(), array)
    assert shared.requires_grad and shared.name == "shared"
    array[0] = 5.0
    assert shared[0].item() == 5.0
    assert ta.Tensor.from_own(array).version == 0
    with pytest.raises(ta.errors.DtypeError, match=r"given list; use Tensor"):
        ta.Tensor.from_numpy([1.0])  # type: ignore[arg-type]


def test_subclasses_of_arrays_become_plain() -> None:
    class Odd(np.ndarray[Any, Any]):
        """Multiplies in its own way."""

        def __mul__(self, other: Any) -> Any:
            raise NotImplementedError

    odd = np.ones(2).view(Odd)
    for tensor in (ta.Tensor(odd), ta.Tensor.from_numpy(odd)):
        assert type(tensor.numpy()) is np.ndarray
    assert np.shares_memory(ta.Tensor.from_numpy(odd).numpy(), odd)


def test_a_tensor_made_of_a_tensor_is_a_leaf_of_its_own() -> None:
    x = variable([1.0, 2.0], name="x")
    y = ta.Tensor(x * 2.0)
    assert y.is_leaf and not y.requires_grad
    assert_array_equal(y.numpy(), [2.0, 4.0])


@pytest.mark.parametrize("nested", [lambda x: [x, x], lambda x: (x, 1.0), lambda x: [[x], [x]], lambda x: [[1.0, x]]])
def test_a_list_of_tensors_is_refused_since_it_would_lose_their_gradients(nested: Any) -> None:
    with pytest.raises(ta.errors.DtypeError, match=r"ta\.stack"):
        ta.Tensor(nested(variable(1.0)))


def test_ragged_lists_are_refused() -> None:
    with pytest.raises(ValueError):
        ta.Tensor([[1.0], [1.0, 2.0]])


# --- showing itself --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor", "shown"),
    [
        (lambda: ta.Tensor([1.0, 2.0]), "Tensor([1., 2.])"),
        (lambda: ta.Tensor(3), "Tensor(3)"),
        (lambda: ta.Tensor([True]), "Tensor([ True])"),
        (lambda: ta.Tensor([1.0], requires_grad=True, name="w"), "Tensor([1.], name='w', requires_grad=True)"),
        (lambda: ta.Tensor([1.0], dtype=np.float64), "Tensor([1.], dtype=float64)"),
        (lambda: ta.exp(ta.Tensor([0.0], requires_grad=True)), "Tensor([1.], op=exp)"),
        (lambda: ta.Tensor(np.zeros((0, 2), np.float32)), "Tensor([], dtype=float32, shape=(0, 2))"),
        (lambda: ta.Tensor([[1.0, 2.0], [3.0, 4.0]]), "Tensor([[1., 2.],\n        [3., 4.]])"),
    ],
)
def test_repr_shows_what_is_not_obvious(tensor: Any, shown: str) -> None:
    assert repr(tensor()) == shown


def test_repr_of_many_values_is_short_and_says_the_shape() -> None:
    shown = repr(ta.Tensor(np.zeros((100, 100), np.float32), name="big"))
    assert "..." in shown and "shape=(100, 100)" in shown and len(shown) < 600


# --- conversions -----------------------------------------------------------------------------------------------------


def test_one_element_becomes_a_python_number() -> None:
    assert ta.Tensor([[2.5]]).item() == 2.5 and type(ta.Tensor(2.5).item()) is float
    assert float(ta.Tensor(2.5)) == 2.5 and int(ta.Tensor([3.7])) == 3
    assert [10, 20, 30][ta.Tensor(1)] == 20
    assert f"{ta.Tensor(2.5).item():.2f}" == "2.50"
    for convert in (lambda t: t.item(), float, int):
        with pytest.raises(ta.errors.ShapeError, match="exactly one element"):
            convert(ta.Tensor([1.0, 2.0]))
    with pytest.raises(TypeError):
        [10, 20][ta.Tensor(1.0)]


def test_truth_is_that_of_the_single_element_as_in_numpy() -> None:
    assert ta.Tensor(1.0) and not ta.Tensor([0.0])
    with pytest.raises(ValueError, match="ambiguous"):
        bool(ta.Tensor([1.0, 2.0]))


def test_lists_and_arrays() -> None:
    x = variable([[1.0, 2.0], [3.0, 4.0]])
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert len(x) == 2 and [row.tolist() for row in x] == x.tolist()
    assert_array_equal(np.asarray(x), x.numpy())
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    assert np.array(x).flags.writeable and not np.shares_memory(np.array(x), x.numpy())
    assert np.shares_memory(np.asarray(x), x.numpy())


def test_numpy_gives_a_read_only_view() -> None:
    x = variable([1.0, 2.0])
    view = x.numpy()
    assert np.shares_memory(view, x.data)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5.0


# --- backward --------------------------------------------------------------------------------------------------------


def test_gradients_add_up_in_memory_of_their_own() -> None:
    x = variable([1.0, 2.0])
    upstream = np.array([1.0, 10.0])
    x.backward(upstream)
    assert x.grad is not None and not np.shares_memory(x.grad, upstream)
    (x * 2.0).backward(upstream)
    assert_array_equal(x.grad, [3.0, 30.0])
    assert_array_equal(upstream, [1.0, 10.0])
    x.zero_grad()
    assert x.grad is None


def test_two_leaves_never_share_their_gradients() -> None:
    a, b = variable([1.0, 2.0]), variable([3.0, 4.0])
    (a + b).sum().backward()
    assert a.grad is not None and b.grad is not None
    a.grad += 5.0
    assert_array_equal(b.grad, [1.0, 1.0])
    assert a.grad.flags.writeable and a.grad.flags.c_contiguous


def test_the_gradient_is_writable_whatever_the_rule_returned() -> None:
    x = variable(np.ones((2, 3)))
    np.broadcast_to(x.T, (4, 3, 2)).sum().backward()
    assert x.grad is not None and x.grad.flags.writeable and x.grad.flags.c_contiguous
    assert_array_equal(x.grad, np.full((2, 3), 4.0))


def test_backward_of_several_elements_needs_what_arrives_at_each() -> None:
    x = variable([1.0, 2.0])
    with pytest.raises(ta.errors.GradientError, match=r"given shape \(2,\); reduce it first"):
        (x * x).backward()
    with pytest.raises(ta.errors.ShapeError, match=r"expected \(2,\), given \(3,\)"):
        (x * x).backward(np.ones(3))
    (x * x).backward([1, 1])
    assert_array_equal(x.grad, [2.0, 4.0])
    x.zero_grad()
    (x * x).backward(ta.Tensor([1.0, 0.0]))
    assert_array_equal(x.grad, [2.0, 0.0])


def test_one_element_of_any_shape_needs_no_upstream() -> None:
    x = variable([[2.0]])
    (x * x).backward()
    assert_array_equal(x.grad, [[4.0]])


def test_backward_from_a_constant_says_why_it_cannot() -> None:
    x = variable(1.0)
    with ta.no_grad():
        y = x * 2.0
    for tensor in (ta.Tensor(1.0), y, (x * 2.0).detach()):
        with pytest.raises(ta.errors.GradientError, match="no_grad") as caught:
            tensor.backward()
        assert isinstance(caught.value, RuntimeError)


def test_only_leaves_keep_gradients_unless_asked() -> None:
    x = variable(2.0)
    y = x * 3.0
    z = y * y
    z.backward()
    assert y.grad is None and z.grad is None and x.grad == 36.0
    x.zero_grad()
    assert y.retain_grad() is y
    z.backward()
    assert y.grad == 12.0
    x.zero_grad()
    with ta.keep_grads():
        z.backward()
    assert z.grad == 1.0 and y.grad == 24.0 and x.grad == 36.0


def test_leaves_that_require_no_gradient_get_none() -> None:
    x, c = variable(2.0), ta.Tensor(3.0)
    (x * c).backward()
    assert c.grad is None and x.grad == 3.0


def test_freeing_on_the_way_gives_the_same_gradient() -> None:
    x = variable([1.0, 2.0])
    y = (ta.softmax(x * x) * x).sum()
    expected = ta.gradients(y, x).numpy()
    y.backward(retain_graph=False)
    assert_array_equal(x.grad, expected)
    assert y.node is not None and y.node.freed and y.node.inputs == ()


def test_an_error_leaves_no_half_of_the_gradients_behind() -> None:
    a, b = variable([1.0, 2.0]), variable([3.0, 4.0])
    y = (a * 2.0).sum() + (b * b).sum()
    b.data += 1.0
    for _ in range(2):
        with pytest.raises(ta.errors.MutatedError):
            y.backward()
    assert a.grad is None and b.grad is None
    freed = b * 3.0
    freed.sum().backward(retain_graph=False)
    b.zero_grad()
    with pytest.raises(ta.errors.GraphFreedError):
        ((a * 5.0).sum() + freed.sum()).backward()
    assert a.grad is None and b.grad is None
    assert ta.gradients((a * 5.0).sum() + freed.sum(), a).tolist() == [5.0, 5.0]  # no need to walk there


# --- leaves and constants --------------------------------------------------------------------------------------------


def test_requires_grad_can_be_switched_on_leaves_only() -> None:
    x = ta.Tensor([1.0, 2.0])
    assert x.requires_grad_() is x and x.requires_grad
    assert not x.requires_grad_(False).requires_grad
    y = x.requires_grad_() * 2.0
    with pytest.raises(ta.errors.GradientError, match="use detach"):
        y.requires_grad_(False)


def test_detach_cuts_off_and_shares_memory() -> None:
    x = variable([1.0, 2.0], name="x")
    y = x * 2.0
    for tensor in (x, y):
        cut = tensor.detach()
        assert not cut.requires_grad and cut.is_leaf and cut.name == tensor.name
        assert np.shares_memory(cut.numpy(), tensor.numpy())
    (y.detach() * x).sum().backward()
    assert_array_equal(x.grad, [2.0, 4.0])


def test_clone_is_recorded_in_memory_of_its_own() -> None:
    x = variable([1.0, 2.0])
    y = x.clone()
    assert y.node is not None and not np.shares_memory(y.numpy(), x.numpy())
    (y * y).sum().backward()
    assert_array_equal(x.grad, [2.0, 4.0])


def test_to_another_precision_and_back() -> None:
    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    y = x.to(np.float64)
    assert y.dtype == np.float64 and x.astype(np.float64).dtype == np.float64
    (y * y).sum().backward()
    assert x.grad is not None and x.grad.dtype == np.float32


def test_data_can_be_given_new_values_of_the_same_shape_and_kind() -> None:
    x = variable([1.0, 2.0])
    x.data = [3, 4]
    assert_array_equal(x.numpy(), [3.0, 4.0])
    x.data += 1.0
    assert_array_equal(x.numpy(), [4.0, 5.0])
    with pytest.raises(ta.errors.ShapeError, match=r"expected \(2,\), given \(\)"):
        x.data = 1.0
    whole = ta.Tensor([1, 2])
    with pytest.raises(ta.errors.DtypeError, match="expected int64, given float64"):
        whole.data = [0.5, 1.5]


def test_every_change_counts() -> None:
    x = ta.Tensor([1.0, 2.0])
    assert x.version == 0
    x.bump_version()
    assert x.version == 1
    x.data = [3.0, 4.0]
    assert x.version == 2
    handle = x.data
    assert x.version == 2
    handle[0] = 9.0
    assert x.version == 3 and x.version == 3


def test_move_to_keeps_values_and_writes_into_the_new_place() -> None:
    x, place = ta.Tensor([1.0, 2.0]), np.zeros(2, np.float32)
    x.move_to(place)
    assert_array_equal(place, [1.0, 2.0])
    place += 1.0
    assert_array_equal(x.numpy(), [2.0, 3.0])


# --- hooks -----------------------------------------------------------------------------------------------------------


def test_a_hook_sees_the_complete_gradient_once_and_may_replace_it() -> None:
    x = variable([1.0, 2.0])
    y = x * 3.0
    seen: list[Any] = []
    remove = y.register_hook(lambda g: seen.append(np.array(g)))
    y.register_hook(lambda g: g * 10.0)
    z = (y + y * y).sum()
    z.backward()
    assert_array_equal(seen, [[7.0, 13.0]])
    assert_array_equal(x.grad, [210.0, 390.0])
    remove()
    remove()  # twice is as good as once
    z.backward()
    assert len(seen) == 1


def test_hooks_run_in_the_order_they_were_registered_and_on_leaves_too() -> None:
    x = variable(1.0)
    x.register_hook(lambda g: g + 1.0)
    x.register_hook(lambda g: g * 10.0)
    (x * 2.0).backward()
    assert x.grad == 30.0
    assert ta.gradients(x * 2.0, x).item() == 30.0


def test_a_hook_that_returns_another_shape_is_named() -> None:
    x = variable([1.0, 2.0], name="weights")
    x.register_hook(lambda g: g.sum())
    with pytest.raises(ta.errors.GradientError, match=r"hook on weights returned shape \(\)"):
        x.sum().backward()


def test_with_a_graph_of_its_own_a_hook_gets_a_tensor() -> None:
    x = variable(2.0)
    kinds: list[type] = []
    x.register_hook(lambda g: kinds.append(type(g)))
    first = ta.gradients(x**3, x, create_graph=True)
    x.hooks = ()
    assert ta.gradients(first, x).item() == 12.0
    assert kinds == [ta.Tensor]


# --- copies ----------------------------------------------------------------------------------------------------------


def test_deep_copies_are_independent_leaves() -> None:
    x = variable([1.0, 2.0], name="x")
    (x * x).sum().backward()
    twin, again = copy.deepcopy([x, x])
    assert twin is again  # what was one object stays one
    assert twin.name == "x" and twin.requires_grad
    assert_array_equal(twin.grad, x.grad)
    assert not np.shares_memory(twin.numpy(), x.numpy()) and not np.shares_memory(twin.grad, x.grad)
    twin.data[0] = 9.0
    assert x[0].item() == 1.0
    with pytest.raises(ta.errors.GradientError, match="only leaves"):
        copy.deepcopy(x * 2.0)


def test_tensors_are_not_pickled() -> None:
    with pytest.raises(TypeError, match=r"a pickle can run code\n  use tinygrad_attn\.serialize\.save"):
        pickle.dumps(variable([1.0]))


def test_no_attribute_can_be_invented() -> None:
    with pytest.raises(AttributeError):
        variable(1.0).gradient = 5.0  # type: ignore[attr-defined]


# --- updates in place, formats, rounding -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (lambda p: p.__isub__(np.array([0.5, 0.5])), [0.5, 1.5]),
        (lambda p: p.__iadd__(1.0), [2.0, 3.0]),
        (lambda p: p.__imul__(2.0), [2.0, 4.0]),
        (lambda p: p.__itruediv__(2.0), [0.5, 1.0]),
    ],
)
def test_a_leaf_is_updated_in_place_where_nothing_is_recorded(update: Any, expected: list[float]) -> None:
    p = ta.Tensor([1.0, 2.0], requires_grad=True)
    memory = p.data
    with ta.no_grad():
        assert update(p) is p
    np.testing.assert_array_equal(p.numpy(), expected)
    assert p.requires_grad and p.data is memory


def test_an_update_in_place_where_it_would_be_recorded_is_refused() -> None:
    p = ta.Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ta.errors.InPlaceError, match="no_grad"):
        p -= 1.0


def test_an_update_between_forward_and_backward_is_noticed() -> None:
    p = ta.Tensor([1.0, 2.0], requires_grad=True)
    loss = (p * p).sum()
    with ta.no_grad():
        p -= 0.5
    with pytest.raises(ta.errors.MutatedError):
        loss.backward()


def test_a_running_sum_of_losses_is_a_new_tensor_each_time() -> None:
    x = ta.Tensor(2.0, requires_grad=True)
    total: Any = 0.0
    for _ in range(3):
        total += x * x
    total.backward()
    assert x.grad == 12.0


def test_a_single_number_takes_the_formats_of_numbers() -> None:
    assert f"{ta.Tensor(1.23456):.2f}" == "1.23"
    assert f"{ta.Tensor([1.5])}" == str(ta.Tensor([1.5]))
    with pytest.raises(TypeError):
        f"{ta.Tensor([1.5, 2.5]):.2f}"


def test_rounding_and_whole_division_answer_plainly() -> None:
    t = ta.Tensor([1.2, 3.7], dtype=np.float64, requires_grad=True)
    np.testing.assert_array_equal(round(t), [1.0, 4.0])
    np.testing.assert_array_equal(round(t, 1), [1.2, 3.7])
    np.testing.assert_array_equal(t // 1.0, [1.0, 3.0])
    np.testing.assert_array_equal(7.0 // t, [5.0, 1.0])
    quotient, rest = divmod(t, 1.0)
    np.testing.assert_array_equal(quotient, [1.0, 3.0])
    assert rest.requires_grad


def test_a_hook_can_be_removed_by_calling_what_was_returned_or_its_remove() -> None:
    x = ta.Tensor(1.0, requires_grad=True)
    for take_away in (lambda handle: handle(), lambda handle: handle.remove()):
        handle = x.register_hook(lambda g: g * 10.0)
        take_away(handle)
        x.zero_grad()
        (x * 2.0).backward()
        assert x.grad == 2.0


def test_activations_are_methods_too() -> None:
    x = ta.Tensor([-1.0, 2.0], requires_grad=True)
    np.testing.assert_array_equal(x.relu().numpy(), [0.0, 2.0])
    np.testing.assert_allclose(x.softmax().numpy().sum(), 1.0, rtol=1e-6)
    np.testing.assert_allclose(x.sigmoid().numpy(), 1.0 / (1.0 + np.exp([1.0, -2.0])), rtol=1e-6)


def test_dropout_of_a_single_number_can_be_drawn_upon() -> None:
    y = ta.dropout(ta.Tensor(1.0, requires_grad=True), 0.5)
    y.backward()
    assert all(isinstance(value.numpy(), np.ndarray) for value in y.node.inputs)
