"""Broadcasting, shapes and indexing: faults seen in other engines, by their ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.inputs import drawn, variable

# --- B1, B2, B4: what was copied forward is added backward -----------------------------------------------------------

PAIRS = [
    ((1,), (5, 4)),
    ((4, 1), (1, 4)),
    ((5, 2, 1), (2, 4)),
    ((1,), (1, 2)),
    ((2, 1, 4, 6), (2, 1, 4, 1)),
    ((), (3,)),
    ((3, 1), (3, 0)),
]


@pytest.mark.parametrize("shapes", PAIRS, ids=str)
def test_B1_gradients_have_their_tensors_shape_and_sum_over_the_copies(shapes: tuple[Any, Any]) -> None:
    a, b = (variable(drawn(*shape)) for shape in shapes)
    product = a * b
    upstream = drawn(*product.shape)
    product.backward(upstream)
    for tensor, other in ((a, b), (b, a)):
        copies = np.broadcast_to(upstream * other.numpy(), product.shape)
        index = np.broadcast_to(np.arange(tensor.size).reshape(tensor.shape), product.shape)
        expected = [copies[index == place].sum() for place in range(tensor.size)]
        assert tensor.grad is not None and tensor.grad.shape == tensor.shape
        assert_allclose(tensor.grad.reshape(-1), expected, rtol=1e-13, atol=1e-15)


def test_B1_what_numpy_does_not_broadcast_is_refused() -> None:
    with pytest.raises(ta.errors.ShapeError, match="2 ≠ 5 on axis -2"):
        variable(np.ones((5, 2, 1))) + np.ones((5, 2))


def test_B2_a_sum_over_nothing_gives_zeros() -> None:
    x = variable(np.ones((4, 1)))
    (np.ones((4, 0)) + x).sum().backward()
    assert_array_equal(x.grad, np.zeros((4, 1)))


def test_B4_broadcast_to_with_new_leading_axes() -> None:
    x = variable([1.0, 2.0, 3.0])
    np.broadcast_to(x, (4, 3)).sum().backward()
    assert_array_equal(x.grad, [4.0, 4.0, 4.0])
    x.zero_grad()
    np.broadcast_to(x.reshape(3, 1), (2, 5, 3, 4)).sum().backward()
    assert_array_equal(x.grad, [40.0] * 3)


def test_B6_einsum_broadcasts_a_length_of_one_and_sums_it_back() -> None:
    x, y = variable([2.0, 2.0]), variable([2.0])
    np.einsum("i,i", x, y).backward()
    assert_array_equal(x.grad, [2.0, 2.0])
    assert_array_equal(y.grad, [4.0])


# --- B9, B10, B11, B13 -----------------------------------------------------------------------------------------------


def test_B9_matmul_with_vectors() -> None:
    matrix, row, column = drawn(3, 2), drawn(3), drawn(2)
    a, b, u = variable(matrix), variable(column), drawn(3)
    (a @ b).backward(u)
    assert_allclose(a.grad, np.outer(u, column), rtol=1e-15)
    assert_allclose(b.grad, matrix.T @ u, rtol=1e-15)
    a, b, u = variable(row), variable(matrix), drawn(2)
    (a @ b).backward(u)
    assert_allclose(a.grad, matrix @ u, rtol=1e-15)
    assert_allclose(b.grad, np.outer(row, u), rtol=1e-15)
    a, b = variable(row), variable(row * 2.0)
    (a @ b).backward(3.0)
    assert_allclose(a.grad, 3.0 * row * 2.0, rtol=1e-15)
    assert_allclose(b.grad, 3.0 * row, rtol=1e-15)


@pytest.mark.parametrize(
    ("left", "right"), [((4, 3), (5, 3, 2)), ((2, 1, 4, 3), (5, 3, 2)), ((3,), (5, 3, 2)), ((5, 4, 3), (3,))], ids=str
)
def test_B10_batched_matmul_sums_over_the_batch_that_was_broadcast(left: Any, right: Any) -> None:
    a, b = variable(drawn(*left)), variable(drawn(*right))
    out = a @ b
    u = drawn(*out.shape)
    out.backward(u)
    wide_a = a.numpy()[None] if len(left) == 1 else a.numpy()
    wide_b = b.numpy()[:, None] if len(right) == 1 else b.numpy()
    wide_u = u[..., None, :] if len(left) == 1 else u[..., None] if len(right) == 1 else u
    da = np.einsum("...ik,...jk->...ij", wide_u, wide_b)
    db = np.einsum("...ij,...ik->...jk", wide_a, wide_u)
    assert a.grad is not None and a.grad.shape == left
    assert b.grad is not None and b.grad.shape == right
    assert_allclose(
        a.grad, da.reshape(-1, *wide_a.shape).sum(0).reshape(left) if len(left) != 4 else da.sum(1)[:, None]
    )
    assert_allclose(b.grad, db.reshape(-1, *wide_b.shape).sum(0).reshape(right), rtol=1e-12)


@pytest.mark.parametrize("axes", [(-1, 0, 1), (2, 0, 1), (0, -1, -2), (-3, -2, -1), None], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 3, 3)], ids=str)
def test_B11_transpose_with_negative_axes(axes: Any, shape: Any) -> None:
    x = variable(drawn(*shape))
    out = x.transpose(*axes) if axes else x.transpose()
    w = drawn(*out.shape)
    (out * w).sum().backward()
    order = [axis % 3 for axis in axes] if axes else [2, 1, 0]
    assert_array_equal(x.grad, w.transpose(*np.argsort(order)))


@pytest.mark.parametrize("axis", [(1,), (0, 1), (-1, 0), -1, None, ()], ids=str)
def test_B13_mean_over_a_tuple_of_axes(axis: Any) -> None:
    values = np.arange(6.0).reshape(2, 3)
    x = variable(values)
    mean = x.mean(axis=axis)
    assert_array_equal(mean.numpy(), values.mean(axis=axis))
    mean.sum().backward()
    assert_allclose(x.grad, np.full((2, 3), mean.size / 6), rtol=1e-15)


# --- B14, B15, B17 ---------------------------------------------------------------------------------------------------


def test_B14_a_position_read_twice_receives_twice() -> None:
    y = variable([5.0])
    y[[0, 0]][1].backward()
    assert_array_equal(y.grad, [1.0])
    t = variable(np.ones((2, 2)))
    t[:, [0, 0, 0]].sum().backward()
    assert_array_equal(t.grad, [[3.0, 0.0], [3.0, 0.0]])


INDICES: list[Any] = [
    *(0, -1, slice(None, None, -1), slice(1, None, 2), Ellipsis, None, (Ellipsis, None), (None, 0, Ellipsis)),
    *([1, 1, -1], ([0, 0], [1, 1]), (slice(None), [0, 0]), (0, [1, 1]), (np.array([[0], [0]]), np.array([1, 2]))),
    *(
        np.array([True, False]),
        np.ones((2, 3), bool),
        (Ellipsis, np.array([True, False, True])),
        True,
        (np.int64(1), 2),
    ),
    *(np.array([], int), (slice(0, 0),), np.array(1), ([0, 1], slice(None), None)),
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_B14_every_kind_of_index_reads_and_gives_back_as_numpy_counts(index: Any) -> None:
    values = drawn(2, 3)
    x = variable(values)
    out = x[index]
    assert_array_equal(out.numpy(), values[index])
    u = drawn(*out.shape)
    out.backward(u)
    expected = np.zeros((2, 3))
    np.add.at(expected, index, u)
    assert_allclose(x.grad, expected, rtol=1e-15)


def test_B15_assigning_a_recorded_tensor_into_an_array_is_refused_and_taught() -> None:
    a, array = variable(np.ones((2, 2))), np.zeros((4, 4))
    with pytest.raises(ta.errors.InPlaceError, match=r"ta\.index_put"):
        array[:2, :2] = a
    with pytest.raises(ta.errors.InPlaceError, match=r"write a = a \+ t"):
        array[[0, 1]] += np.ones((2, 2)) @ a @ np.ones((2, 4))
    with pytest.raises(ta.errors.InPlaceError, match=r"ta\.index_put"):
        ta.Tensor(array)[:2, :2] = a
    assert not array.any()


def test_B15_a_single_number_is_refused_too() -> None:
    array = np.zeros(2)
    with pytest.raises(ValueError) as caught:  # NumPy puts its own words around the reason
        array[0] = variable(1.0)
    assert isinstance(caught.value.__cause__, ta.errors.InPlaceError)
    assert "t.item()" in str(caught.value.__cause__)


def test_B15_the_functional_spelling_that_the_error_names() -> None:
    a = variable(np.ones((2, 2)))
    filled = ta.index_put(np.zeros((4, 4)), a, index=(slice(0, 2), slice(0, 2)))
    assert filled.numpy().sum() == 4.0
    filled.sum().backward()
    assert_array_equal(a.grad, np.ones((2, 2)))


def test_B15_plain_values_may_be_stored() -> None:
    a, array = variable([1.0, 2.0]), np.zeros(2)
    array[:] = a.numpy()
    array[0] = float(a[1])
    array[1] = a[0].item()
    assert_array_equal(array, [2.0, 1.0])
    with ta.no_grad():
        array[:] = a
    array[0:1] = ta.Tensor([3.0])
    assert_array_equal(array, [3.0, 2.0])
    assert_array_equal(np.asarray(a), [1.0, 2.0])


def test_B17_a_new_axis_on_a_number_and_no_iteration_over_one() -> None:
    assert variable(3.0)[None].shape == (1,)
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        list(variable(3.0))
    with pytest.raises(TypeError, match="0-d"):
        len(variable(3.0))
    rows = list(variable([[1.0], [2.0]]))
    assert [row.item() for row in rows] == [1.0, 2.0]
    assert all(row.requires_grad for row in rows)


# --- B24: errors that teach ------------------------------------------------------------------------------------------


def test_B24_matmul_says_which_axes_clash_and_what_may_be_meant() -> None:
    with pytest.raises(ta.errors.ShapeError) as caught:
        variable(np.ones((2, 3)), name="scores") @ variable(np.ones((2, 3)), name="value")
    message = str(caught.value)
    assert "matmul" in message and "3 ≠ 2" in message
    assert "a (scores)  (2, 3)" in message and "b (value)   (2, 3)" in message
    assert "did you mean a @ np.swapaxes(b, -1, -2)" in message
    assert isinstance(caught.value, ValueError)


def test_B24_add_says_which_axis_clashes() -> None:
    with pytest.raises(ta.errors.ShapeError) as caught:
        variable(np.ones((2, 3))) + np.ones((2, 4))
    message = str(caught.value)
    assert "add" in message and "3 ≠ 4 on axis -1" in message and "(2, 3)" in message and "(2, 4)" in message


CLASHES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "matmul, other way round": (lambda: variable(np.ones((3, 2))) @ np.ones((3, 4)), ValueError, r"np.swapaxes\(a"),
    "matmul, a number": (lambda: variable(1.0) @ np.ones(2), ValueError, "use \\* to multiply"),
    "matmul, batches": (lambda: variable(np.ones((2, 3, 4))) @ np.ones((5, 4, 3)), ValueError, "2 ≠ 5"),
    "reshape": (lambda: variable(np.ones(6)).reshape(4, 2), ValueError, "6 elements .* do not fill shape \\(4, 2\\)"),
    "axis": (lambda: variable(np.ones(3)).sum(axis=2), IndexError, "axis 2 is out of bounds"),
    "axis as ValueError": (lambda: variable(np.ones(3)).sum(axis=2), ValueError, "sum: "),
    "index": (lambda: variable(np.ones(3))[5], IndexError, "getitem: index 5 is out of bounds"),
    "too many indices": (lambda: variable(np.ones(3))[0, 0], IndexError, "too many indices"),
    "where": (lambda: np.where(np.ones(2, bool), variable(np.ones(3)), 0.0), ValueError, "2 ≠ 3"),
    "concatenate": (lambda: np.concatenate([variable(np.ones((2, 2))), np.ones((3, 3))]), ValueError, "arrays\\[1\\]"),
    "stack": (lambda: np.stack([variable(np.ones(2)), np.ones(3)]), ValueError, "arrays\\[0\\]  \\(2,\\)"),
    "broadcast_to": (lambda: np.broadcast_to(variable(np.ones(2)), (3,)), ValueError, "2 ≠ 3"),
    "linear": (lambda: ta.linear(variable(np.ones((2, 3))), np.ones((4, 5))), ValueError, "expected 5, given 3"),
    "text": (lambda: variable([1.0]) * "2", TypeError, "multiply: "),
    "nothing": (lambda: variable([1.0]) * None, TypeError, "multiply: "),
}


@pytest.mark.parametrize(("call", "kind", "words"), CLASHES.values(), ids=CLASHES)
def test_B24_every_clash_is_typed_and_names_operands(
    call: Callable[[], Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(ta.errors.TinygradAttnError, match=words) as caught:
        call()
    assert isinstance(caught.value, kind)
