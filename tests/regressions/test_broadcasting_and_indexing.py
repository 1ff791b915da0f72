"""Broadcasting, shapes, indexing and memory: faults seen in other engines, by their ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta


def variable(values: Any, **settings: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True, **settings)


def drawn(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape)


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


# --- B18, B19, B23: whose operator answers ---------------------------------------------------------------------------

LEFT: dict[str, Callable[[ta.Tensor], Any]] = {
    "ndarray *": lambda t: np.array([1.0, 2.0]) * t,
    "ndarray +": lambda t: np.array([1.0, 2.0]) + t,
    "ndarray -": lambda t: np.array([1.0, 2.0]) - t,
    "ndarray /": lambda t: np.array([1.0, 2.0]) / t,
    "ndarray **": lambda t: np.array([1.0, 2.0]) ** t,
    "np.eye @": lambda t: np.eye(2) @ t,
    "float64 *": lambda t: np.float64(2.0) * t,
    "float64 -": lambda t: np.float64(2.0) - t,
    "float32 **": lambda t: np.float32(2.0) ** t,
    "int64 /": lambda t: np.int64(2) / t,
    "bool_ *": lambda t: np.bool_(True) * t,
    "0-d ndarray *": lambda t: np.array(2.0) * t,
    "ufunc": lambda t: np.multiply([1.0, 2.0], t),
    "number -": lambda t: 1 - t,
    "number /": lambda t: 2 / t,
    "number **": lambda t: 2**t,
    "number +": lambda t: 1 + t,
    "number *": lambda t: True * t,
}


@pytest.mark.parametrize("apply", LEFT.values(), ids=LEFT)
def test_B18_what_stands_on_the_left_does_not_take_the_result_away(apply: Callable[[ta.Tensor], Any]) -> None:
    t = variable([3.0, 4.0])
    out = apply(t)
    assert isinstance(out, ta.Tensor)
    assert out.requires_grad
    assert_array_equal(out.numpy(), apply(t.numpy()))  # type: ignore[arg-type]
    out.sum().backward()
    assert t.grad is not None and t.grad.shape == (2,)


def test_B18_in_place_on_an_array_is_refused_rather_than_losing_the_graph() -> None:
    array, t = np.ones(2), variable([3.0, 4.0])
    with pytest.raises(ta.errors.InPlaceError, match="instead of a \\+= t"):
        array += t
    with pytest.raises(ta.errors.InPlaceError):
        np.add(t, 1.0, out=array)
    assert_array_equal(array, [1.0, 1.0])
    before = s = t * 1.0
    s += 1.0  # on a result it means s = s + 1
    assert s is not before and s.node is not None
    with pytest.raises(ta.errors.InPlaceError, match="no_grad"):
        t += 1.0  # on a leaf it would be forgotten


def test_B19_tensors_are_hashed_by_identity_and_compared_by_element() -> None:
    t, u, v = (variable([1.0, 2.0]) for _ in range(3))
    assert len({t, u, v}) == 3
    assert {t: "this one"}[t] == "this one"
    assert {u: 1}.get(t) is None
    assert_array_equal(t == u, [True, True])
    assert t in [t, u]
    with pytest.raises(ValueError, match="ambiguous"):  # as for arrays: == says more than one thing
        assert t in [u, t]
    assert any(t is x for x in [u, t])


def test_B19_equal_values_do_not_make_two_variables_one() -> None:
    t, u = variable([1.0, 2.0]), variable([1.0, 2.0])
    first, second = ta.gradients((t * 2.0 + u * 3.0).sum(), [t, u])
    assert_array_equal(first.numpy(), [2.0, 2.0])
    assert_array_equal(second.numpy(), [3.0, 3.0])


def test_B23_reflected_operators_and_comparisons() -> None:
    t = variable(2.0)
    assert (1 - t).item() == -1.0
    assert (2 / t).item() == 1.0
    assert (2**t).item() == 4.0
    assert bool(t > 0) and bool(t > 0.0) and bool(t <= 2) and bool(t >= 2) and not bool(t != 2) and not bool(t < 2)
    assert type(t > 0) in (np.bool_, np.ndarray)


# --- B21: changed memory ---------------------------------------------------------------------------------------------


def test_B21_a_shared_array_that_is_changed_is_noticed() -> None:
    array = np.array([1.0, 2.0])
    x = ta.Tensor.from_numpy(array, requires_grad=True, name="x")
    y = (x * x).sum()
    array[0] = 100.0
    with pytest.raises(ta.errors.MutatedError, match=r"multiply: .*changed after the forward pass\n.*x \(2,\)"):
        y.backward()
    assert x.grad is None


def test_B21_a_copied_array_may_be_changed() -> None:
    array = np.array([1.0, 2.0])
    x = variable(array)
    y = (x * x).sum()
    array[0] = 100.0
    y.backward()
    assert_array_equal(x.grad, [2.0, 4.0])


CONSTANTS: dict[str, tuple[np.ndarray[Any, Any], Callable[[ta.Tensor, Any], ta.Tensor]]] = {
    "factor": (np.array([1.0, 2.0]), lambda x, c: x * c),
    "divisor": (np.array([1.0, 2.0]), lambda x, c: x / c),
    "matrix": (np.eye(2), lambda x, c: c @ x),
    "mask": (np.array([True, False]), lambda x, c: ta.masked_fill(x, c, value=0.0)),
    "condition": (np.array([True, False]), lambda x, c: np.where(c, x, 0.0)),
    "index": (np.array([0, 0]), lambda x, c: x[c]),
    "boolean index": (np.array([True, False]), lambda x, c: x[c]),
    "part of an index": (np.array([0, 0]), lambda x, c: x[..., c]),
    "index of index_put": (np.array([0]), lambda x, c: ta.index_put(x, 5.0, index=c)),
    "index of scatter_add": (np.array([0, 0]), lambda x, c: ta.scatter_add(x, index=c, shape=(3,))),
    "ids": (np.array([0, 1]), lambda x, c: ta.embedding(x.reshape(2, 1), c)),
    "target": (np.array(0), lambda x, c: ta.cross_entropy(x, c)),
}


@pytest.mark.parametrize(("constant", "f"), CONSTANTS.values(), ids=CONSTANTS)
def test_B21_constants_may_be_changed_after_they_were_recorded(
    constant: np.ndarray[Any, Any], f: Callable[[ta.Tensor, Any], ta.Tensor]
) -> None:
    expected, x = variable([1.0, 3.0]), variable([1.0, 3.0])
    f(expected, constant.copy()).sum().backward()
    given = constant.copy()
    y = f(x, given).sum()
    given[...] = ~given if given.dtype == bool else given + 1
    y.backward()
    assert_array_equal(x.grad, expected.grad)


def test_B21_a_list_used_as_index_may_be_changed() -> None:
    x, index = variable([1.0, 3.0]), [0, 0]
    y = x[index].sum()
    index[0] = 1
    y.backward()
    assert_array_equal(x.grad, [2.0, 0.0])


VIEWS: dict[str, Callable[[ta.Tensor], ta.Tensor]] = {
    "itself": lambda c: c,
    "slice": lambda c: c[:2],
    "reshape": lambda c: c.reshape(3, 1),
    "transpose of a reshape": lambda c: c.reshape(1, 3).T,
    "detach": lambda c: c.detach(),
    "detached slice": lambda c: c[1:].detach(),
    "broadcast": lambda c: np.broadcast_to(c, (2, 3)),  # type: ignore[arg-type, return-value]
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("requires_grad", [False, True], ids=["constant", "variable"])
@pytest.mark.parametrize("change_through", ["leaf", "view"])
def test_B21_views_share_the_changes_of_what_they_view(
    view: Callable[[ta.Tensor], ta.Tensor], requires_grad: bool, change_through: str
) -> None:
    c, w = ta.Tensor([1.0, 2.0, 3.0], requires_grad=requires_grad), variable(1.0)
    with ta.no_grad():
        seen = view(c)
    y = (w * seen).sum() + (c * c).sum() * w
    changed = (c if change_through == "leaf" else seen).data
    if not changed.flags.writeable:
        changed = c.data  # a broadcast view cannot be written to
    changed[...] = 100.0
    with pytest.raises(ta.errors.MutatedError):
        y.backward()


def test_B21_a_recorded_view_as_the_input_asked_for() -> None:
    p = variable([1.0, 2.0])
    view = p[:]
    y = (view * view).sum()
    p.data[:] = 5.0
    with pytest.raises(ta.errors.MutatedError):
        ta.gradients(y, view)


def test_B21_what_was_computed_cannot_be_written_to() -> None:
    p = variable([1.0, 2.0])
    computed = p * p
    for read_only in (computed.data, computed.detach().data, computed.numpy(), p.numpy(), np.asarray(p)):
        with pytest.raises(ValueError, match="read-only"):
            read_only[0] = 0.0
    for tensor in (computed, computed.detach()):
        with pytest.raises(ta.errors.InPlaceError, match="only a leaf"):
            tensor.data = np.zeros(2)


@pytest.mark.parametrize(
    "write",
    [
        lambda p: p.data.__isub__(0.1),
        lambda p: setattr(p, "data", p.data - 0.1),
        lambda p: p.data.__setitem__(0, 7.0),
        lambda p: p.bump_version(),
        lambda p: p.detach().data.__setitem__(0, 7.0),
    ],
    ids=["-=", "assign", "element", "said so", "through detach()"],
)
def test_B21_writes_between_forward_and_backward_raise(write: Callable[[ta.Tensor], None]) -> None:
    p = variable([1.0, 2.0])
    y = (p * p).sum()
    write(p)
    with pytest.raises(ta.errors.MutatedError, match="run backward\\(\\) before the change"):
        y.backward()


def test_B21_moving_the_values_is_no_change_but_writing_to_the_new_place_is() -> None:
    p = variable([1.0, 2.0])
    y = (p * p).sum()
    home = np.zeros(4)
    p.move_to(home[:2])
    y.backward()
    assert_array_equal(p.grad, [2.0, 4.0])
    assert p.data.base is home
    p.data[0] = 9.0
    with pytest.raises(ta.errors.MutatedError):
        y.backward()


def test_B21_steps_of_descent_in_a_loop() -> None:
    p = variable([1.0, 2.0])
    for _ in range(3):
        p.zero_grad()
        (p * p).sum().backward()
        assert p.grad is not None
        p.data -= 0.1 * p.grad
    assert_allclose(p.numpy(), np.array([1.0, 2.0]) * 0.8**3, rtol=1e-15)


def test_B21_looking_at_data_is_no_change() -> None:
    p = variable([1.0, 2.0])
    y = (p * p).sum()
    assert p.data.sum() == 3.0
    y.backward()
    assert_array_equal(p.grad, [2.0, 4.0])


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
