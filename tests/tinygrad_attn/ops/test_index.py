"""Reading and adding by position, taking along axes, sorting: as NumPy does it, each gradient where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import assert_like_numpy, values
from tinygrad_attn import Tensor
from tinygrad_attn.errors import AxisRangeError, InPlaceError, OptionError, ShapeError
from tinygrad_attn.ops import index as index_module

ROWS = np.array([[2, 0], [2, -1]])
MASK = np.array([True, False, True])

INDICES: dict[str, Any] = {
    "a position": 1,
    "a position from the end": -2,
    "a NumPy integer": np.int64(1),
    "a slice": slice(1, None),
    "a slice backwards": slice(None, None, -2),
    "an empty slice": slice(2, 1),
    "a new axis": None,
    "an ellipsis": Ellipsis,
    "several": (0, slice(None), None, -1),
    "around an ellipsis": (1, ..., 2),
    "an integer array": ROWS,
    "an integer list": [2, 2, 0],
    "an empty list": [],
    "an empty list among slices": (slice(None), []),
    "unsigned integers": np.array([0, 2], dtype=np.uint8),
    "an array along a later axis": (slice(None), ROWS % 2),
    "an array along the last axis": (..., np.array([3, 3, 0])),
    "arrays that meet": (np.array([0, 2]), np.array([1, 1])),
    "arrays that broadcast": (np.array([[0], [2]]), np.array([1, 1, 0])),
    "arrays apart": (np.array([0, 2]), slice(None), np.array([1, 3])),
    "an array and a position": (np.array([0, 0]), 1),
    "an array and a new axis": (np.array([0, 0]), None),
    "a mask": MASK,
    "a list of booleans": [True, False, True],
    "a mask of all axes": np.arange(24).reshape(3, 2, 4) % 3 == 0,
    "a mask of no element": np.zeros((3, 2), dtype=bool),
    "a mask along a later axis": (slice(None), np.array([False, True])),
    "a mask and an array": (MASK, np.array([1, 0])),
    "a mask and a new axis": (None, MASK),
    "True": True,
    "False": False,
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_every_kind_of_index_reads_what_numpy_reads_and_differentiates(index: Any) -> None:
    assert_like_numpy(lambda x: x[index], values(3, 2, 4))


def test_tensors_of_whole_numbers_and_booleans_are_indices_too() -> None:
    x = values(3, 2)
    assert_like_numpy(lambda a: a[Tensor(ROWS) if isinstance(a, Tensor) else ROWS], x)
    assert_like_numpy(lambda a: a[Tensor(MASK) if isinstance(a, Tensor) else MASK], x)
    assert_like_numpy(lambda a: a[Tensor(1) if isinstance(a, Tensor) else 1], x)


@given(st.data())
def test_what_is_read_n_times_receives_n_gradients(data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(-4, 3), max_size=12))
    x, upstream = Tensor(values(4, 2), requires_grad=True), values(len(positions), 2)
    expected = np.zeros((4, 2))
    for position, row in zip(positions, upstream, strict=True):
        expected[position] += row
    np.testing.assert_allclose(ta.gradients(x[positions], x, upstream).numpy(), expected, atol=1e-12)


def test_an_index_array_changed_later_does_not_change_the_gradient() -> None:
    positions, mask = np.array([0, 1]), np.array([True, False, False])
    uses: list[Callable[[Tensor], Any]] = [
        lambda x: x[positions],
        lambda x: x[(positions,)],
        lambda x: x[mask],
        lambda x: np.take(x, positions),
        lambda x: np.take_along_axis(x, positions, 0),
        lambda x: ta.index_put(x, 0.0, index=positions),
        lambda x: np.compress(mask, x),
        lambda x: np.repeat(x, mask),
    ]
    for use in uses:
        x = Tensor(values(3), requires_grad=True)
        before, y = ta.gradients(np.sum(use(x)), x).numpy(), np.sum(use(x))
        positions[:], mask[:] = 2, [False, True, True]
        np.testing.assert_array_equal(ta.gradients(y, x).numpy(), before)
        positions[:], mask[:] = [0, 1], [True, False, False]


# --- adding by position ----------------------------------------------------------------------------------------------


def added_one_by_one(given_values: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """The reference: NumPy's unbuffered addition, which is never wrong and often slow."""
    out = np.zeros(shape, given_values.dtype)
    np.add.at(out, index, given_values)
    return out


@given(
    ids=st.lists(st.integers(-5, 4), min_size=1, max_size=20),
    axis=st.integers(0, 2),
    form=st.sampled_from(["plain", "with an ellipsis", "in two axes"]),
    threshold=st.sampled_from([0, 10**9]),
)
def test_summing_sorted_runs_equals_adding_one_by_one(ids: list[int], axis: int, form: str, threshold: int) -> None:
    shape = tuple(5 if side == axis else 3 for side in range(3))
    positions = np.array(ids * 2).reshape(2, -1) if form == "in two axes" else np.array(ids)
    index: tuple[Any, ...] = (*(slice(None),) * axis, positions)
    if form == "with an ellipsis":
        index = (..., positions, *(slice(None),) * (2 - axis))
    given_values = values(*shape[:axis], *positions.shape, *shape[axis + 1 :])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "RUNS_PAY", threshold)
        found = ta.scatter_add(given_values, index=index, shape=shape)
    np.testing.assert_allclose(found, added_one_by_one(given_values, index, shape), rtol=1e-12, atol=1e-12)


REPEATED = np.array([3, 0, -1, 3])


@pytest.mark.parametrize(
    ("index", "shape", "in_runs"),
    [
        (REPEATED, (4, 2048), True),
        ((..., REPEATED), (2048, 4), True),
        ((slice(None), REPEATED, Ellipsis), (2, 4, 1024), True),
        (REPEATED, (4, 2), False),  # too few to pay
        ((slice(None, None, -1), REPEATED), (2048, 4), False),  # the other axis is turned
        ((slice(None), REPEATED >= 0), (2048, 4), False),
    ],
)
def test_large_values_are_summed_in_runs_where_whole_rows_are_added(
    index: Any, shape: tuple[int, ...], in_runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    sum_runs = index_module._sum_runs
    monkeypatch.setattr(index_module, "_sum_runs", lambda *given: used.append(1) or sum_runs(*given))
    given_values = values(*np.zeros(shape)[index].shape)
    found = ta.scatter_add(given_values, index=index, shape=shape)
    np.testing.assert_allclose(found, added_one_by_one(given_values, index, shape), rtol=1e-12, atol=1e-12)
    assert bool(used) == in_runs


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_scatter_add_is_the_reference_for_every_kind_of_index_small_or_large(index: Any) -> None:
    for shape in ((3, 2, 4), (3, 2, 4 * 512)):
        if isinstance(index, np.ndarray) and index.shape == (3, 2, 4) and shape[-1] != 4:
            continue
        given_values = values(*np.zeros(shape)[index].shape)
        found = ta.scatter_add(given_values, index=index, shape=shape)
        np.testing.assert_allclose(found, added_one_by_one(given_values, index, shape), rtol=1e-12, atol=1e-12)


def test_values_may_broadcast_to_the_places_they_are_added_to() -> None:
    for width in (2, 5000):
        row = Tensor(values(width), requires_grad=True)
        spread = ta.scatter_add(row, index=[0, 0, 2], shape=(3, width))
        np.testing.assert_allclose(spread.numpy(), np.stack([2 * row.numpy(), 0 * row.numpy(), row.numpy()]))
        np.testing.assert_allclose(ta.gradients(np.sum(spread), row).numpy(), 3.0)


def test_what_is_written_is_read_back_and_the_rest_is_untouched() -> None:
    x, v = Tensor(values(3, 4), requires_grad=True), Tensor(values(2, 4), requires_grad=True)
    y = ta.index_put(x, v, index=np.array([2, 0]))
    np.testing.assert_array_equal(y[np.array([2, 0])].numpy(), v.numpy())
    np.testing.assert_array_equal(y[1].numpy(), x[1].numpy())
    dx, dv = ta.gradients(np.sum(y * np.arange(12.0).reshape(3, 4)), [x, v])
    assert dx.tolist() == [[0.0] * 4, [4.0, 5.0, 6.0, 7.0], [0.0] * 4]
    assert dv.tolist() == [[8.0, 9.0, 10.0, 11.0], [0.0, 1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    "index",
    [1, slice(None, None, 2), [2, 0], MASK, ([0, 1], [1, 0]), (slice(None), np.array([1])), Tensor(np.array([1, 2]))],
    ids=str,
)
def test_index_put_is_assignment_into_a_copy(index: Any) -> None:
    x = values(3, 2)
    plain_index = index.numpy() if isinstance(index, Tensor) else index
    expected = x.copy()
    expected[plain_index] = 7.0
    np.testing.assert_array_equal(ta.index_put(Tensor(x), 7.0, index=index).numpy(), expected)
    ta.gradcheck(lambda a, b: ta.index_put(a, b, index=index), x, values(), order=2)


def test_a_place_that_would_be_written_twice_is_refused() -> None:
    for twice in ([0, 0], ([0, -3], [1, 1]), [0, -3]):
        with pytest.raises(IndexError, match=r"occurs twice.*\n.*scatter_add"):
            ta.index_put(Tensor(np.ones((3, 2))), 1.0, index=twice)


# --- NumPy's names for it --------------------------------------------------------------------------------------------

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "take of all": (lambda x: np.take(x, [4, 0, 0]), (2, 3)),
    "take along an axis": (lambda x: np.take(x, np.array([2, 0, 2]), axis=1), (2, 3)),
    "take an array of positions": (lambda x: np.take(x, ROWS, 0), (3, 2)),
    "take one": (lambda x: np.take(x, 1, axis=-1), (2, 3)),
    "take none": (lambda x: np.take(x, np.array([], dtype=int), axis=0), (2, 3)),
    "take around": (lambda x: np.take(x, [-4, 7], axis=0, mode="wrap"), (3, 2)),
    "take the nearest": (lambda x: np.take(x, [-4, 7], axis=0, mode="clip"), (3, 2)),
    "take_along_axis": (lambda x: np.take_along_axis(x, np.array([[2, 0, 0], [1, 1, 1]]), 1), (2, 3)),
    "take_along_axis, fewer": (lambda x: np.take_along_axis(x, np.array([[1], [0]]), axis=-1), (2, 3)),
    "take_along_axis, for all alike": (lambda x: np.take_along_axis(x, np.array([[1, 0]]), axis=1), (2, 3)),
    "take_along_axis of all": (lambda x: np.take_along_axis(x, np.array([5, 0, 0]), None), (2, 3)),
    "compress": (lambda x: np.compress([True, False, True], x, axis=1), (2, 3)),
    "compress by a short condition": (lambda x: np.compress([False, True], x), (2, 3)),
    "extract": (lambda x: np.extract([[True, False, True], [False, False, True]], x), (2, 3)),
    "sort": (np.sort, (3, 4)),
    "sort along the first axis": (lambda x: np.sort(x, axis=0), (4, 2)),
    "sort everything": (lambda x: np.sort(x, axis=None), (2, 3)),
    "sort by a kind": (lambda x: np.sort(x, -1, "mergesort"), (5,)),
    "partition": (lambda x: np.sort(np.partition(x, 2, axis=1)[:, :2], axis=1), (2, 5)),
    "partition of all": (lambda x: np.partition(x, 3, axis=None)[3], (2, 3)),
    "the largest, read": (lambda x: np.take_along_axis(x, np.argmax(x, axis=1, keepdims=True), 1), (2, 4)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_choose_are_numpys(name: str) -> None:
    function, shape = FUNCTIONS[name]
    assert_like_numpy(function, values(*shape))


def test_taking_nothing_gives_nothing() -> None:
    assert np.take(ones(3), []).shape == (0,)
    assert np.take(ones(3, 2), np.array([]), axis=1).shape == (3, 0)


def test_select_takes_the_first_choice_that_holds() -> None:
    conditions = [np.array([True, False, False]), np.array([True, True, False])]
    a, b = values(3), values(3, seed=1)
    assert_like_numpy(lambda x, y: np.select(conditions, [x, y], 2.0), a, b)
    assert_like_numpy(lambda x, y: np.select(conditions, [x, y]), a, b)


def test_select_lets_no_nan_through_from_a_choice_that_was_not_taken() -> None:
    x = Tensor([-1.0, 4.0], requires_grad=True)
    with np.errstate(invalid="ignore"):
        np.select([x < 0.0, x >= 0.0], [-x, np.sqrt(x)]).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [-1.0, 0.25]


def test_put_along_axis_returns_what_numpy_writes() -> None:
    indices = np.array([[2], [0]])
    expected = values(2, 3)
    np.put_along_axis(expected, indices, 9.0, axis=1)
    found = ta.put_along_axis(Tensor(values(2, 3)), indices, 9.0, axis=1)
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(ta.put_along_axis(Tensor(values(2, 3)), indices, 9.0).numpy(), expected)
    of_three = ta.put_along_axis(Tensor(np.zeros((2, 3, 4))), np.ones((2, 3, 1), int), 9.0)  # along the last axis
    np.testing.assert_array_equal(of_three.numpy(), np.broadcast_to([0.0, 9.0, 0.0, 0.0], (2, 3, 4)))
    ta.gradcheck(lambda x, v: ta.put_along_axis(x, indices, v, axis=1), values(2, 3), values(2, 1), order=2)
    ta.gradcheck(lambda x, v: ta.put_along_axis(x, np.array([4, 0]), v, axis=None), values(2, 3), values(2), order=2)


def test_equal_elements_are_sorted_in_their_order_and_each_gets_its_own_gradient() -> None:
    x = Tensor([2.0, 1.0, 2.0, 1.0], requires_grad=True)
    gradient = ta.gradients(np.sort(x), x, np.array([10.0, 20.0, 30.0, 40.0]))
    assert gradient.tolist() == [30.0, 10.0, 40.0, 20.0]


def test_sorting_and_reading_by_argsort_are_the_same_function() -> None:
    x, upstream = Tensor(values(3, 4), requires_grad=True), values(3, 4, seed=1)
    read = np.take_along_axis(x, np.argsort(x, axis=0), axis=0)
    one, other = ta.gradients(np.sort(x, axis=0), x, upstream), ta.gradients(read, x, upstream)
    np.testing.assert_array_equal(one.numpy(), other.numpy())


# --- bad input -------------------------------------------------------------------------------------------------------


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape), requires_grad=True, name="scores")


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a position outside": (lambda: ones(3, 2)[1, 2], IndexError, r"index 2 is out of bounds for axis 1 with size 2"),
    "which tensor": (lambda: ones(3)[5], IndexError, r"x \(scores\)  \(3,\)"),
    "an array of positions outside": (lambda: ones(3)[[0, -4]], IndexError, "index -4 is out of bounds for axis 0"),
    "too many positions": (lambda: ones(3)[0, 0], IndexError, "too many indices"),
    "a fraction": (lambda: ones(3)[1.5], IndexError, "integer"),
    "a tensor of fractions": (lambda: ones(3)[ones(2)], IndexError, "integer"),
    "a mask of another length": (lambda: ones(3)[np.array([True, False])], IndexError, "boolean"),
    "taking outside": (lambda: np.take(ones(3), [3]), IndexError, "index 3 is out of bounds for axis 0 with size 3"),
    "taking in another mode": (lambda: np.take(ones(3), [0], mode="mirror"), OptionError, "'wrap' or 'clip'"),
    "taking along no axis": (lambda: np.take(ones(3), [0], axis=1), AxisRangeError, "take: axis 1"),
    "other numbers of axes": (
        lambda: np.take_along_axis(ones(3, 2), np.array([0]), 1),
        ShapeError,
        "as many axes.*\n.*\\(3, 2\\)\n.*\\(1,\\)\n.*keepdims=True",
    ),
    "more axes than there are": (
        lambda: np.take_along_axis(ones(3), np.array([[0]]), 0),
        ShapeError,
        "as many axes",
    ),
    "along everything with a number": (lambda: np.take_along_axis(ones(3), 1, None), ShapeError, "must be a vector"),
    "taking at fractions": (lambda: np.take(ones(3), [0.5]), IndexError, "integer"),
    "along everything with a matrix": (
        lambda: np.take_along_axis(ones(3, 2), np.array([[0]]), None),
        ShapeError,
        "must be a vector",
    ),
    "a condition that is a matrix": (lambda: np.compress([[True]], ones(1, 1)), ShapeError, "use a\\[mask\\]"),
    "fewer conditions than choices": (
        lambda: np.select([np.array([True])], [ones(1), ones(1)]),
        ShapeError,
        "given 1 and 2",
    ),
    "fewer choices than conditions": (lambda: np.select([np.array([True])] * 2, [ones(1)]), ShapeError, "2 and 1"),
    "choices without conditions": (lambda: np.select([], [ones(2)]), ShapeError, "one choice per condition"),
    "sorting along no axis": (lambda: np.sort(ones(2), 1), AxisRangeError, "axis 1 is out of bounds"),
    "values that do not fit": (
        lambda: ta.index_put(ones(3, 2), np.ones(5), index=0),
        ShapeError,
        r"values  +\(5,\)",
    ),
    "adding outside": (lambda: ta.scatter_add(ones(2), index=[0, 7], shape=(3,)), IndexError, "index 7"),
    "adding outside, large": (
        lambda: ta.scatter_add(ones(2, 5000), index=[0, 7], shape=(3, 5000)),
        IndexError,
        "index 7 is out of bounds for axis 0 with size 3",
    ),
    "np.put": (lambda: np.put(ones(3), [0], 1.0), InPlaceError, "ta.index_put"),
    "np.place": (lambda: np.place(ones(3), MASK, 1.0), InPlaceError, "np.where"),
    "np.putmask": (lambda: np.putmask(ones(3), MASK, 1.0), InPlaceError, "np.where"),
    "np.copyto": (lambda: np.copyto(np.zeros(3), ones(3)), InPlaceError, "t.numpy\\(\\)"),
    "np.fill_diagonal": (lambda: np.fill_diagonal(ones(3, 3), 1.0), InPlaceError, "np.where"),
    "np.put_along_axis": (
        lambda: np.put_along_axis(ones(3), np.array([0]), 1.0, 0),
        InPlaceError,
        "returns a new Tensor",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_explained(name: str) -> None:
    use, error, words = BAD[name]
    with pytest.raises(error, match=words):
        use()


def test_an_index_of_several_arrays_is_no_anomaly() -> None:
    x = Tensor(values(3, 4), requires_grad=True)
    with ta.detect_anomaly():
        x[np.array([[0], [2]]), np.array([1, 1, 0])].sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0, 2.0, 0.0, 0.0], [0.0] * 4, [1.0, 2.0, 0.0, 0.0]]


# --- rows of a table -------------------------------------------------------------------------------------------------


def test_a_row_that_is_read_twice_receives_both_gradients_and_the_padding_row_none() -> None:
    weight = Tensor(values(4, 2), requires_grad=True)
    ids = np.array([[1, 0], [1, 3]])
    gradient = ta.gradients(np.sum(ta.embedding(weight, ids, padding_index=0)), weight).numpy()
    assert gradient.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    assert ta.gradients(np.sum(ta.embedding(weight, ids)), weight).numpy()[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("ids", "error", "words"),
    [
        ([0, 4], IndexError, r"ids must lie in \[0, 4\)\n  given 4"),
        ([0, 7], IndexError, "given 7"),
        ([-1], IndexError, "given -1"),
        ([2, -1], IndexError, "given -1"),
        ([0.5], TypeError, "must be integers\n  given dtype float64"),
        ([True], TypeError, "given dtype bool"),
    ],
)
def test_an_id_outside_the_table_is_named(ids: list[Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ta.embedding(Tensor(values(4, 2), requires_grad=True), np.array(ids))
