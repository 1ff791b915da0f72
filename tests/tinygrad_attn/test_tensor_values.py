"""Tensor: what it is made of, how it shows itself, what it becomes."""

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
from tests.inputs import variable
from tinygrad_attn.errors import DtypeError, ShapeError

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


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ta.Tensor([[1.0], [1.0, 2.0]]), ShapeError, "nested lists must have one length on each level"),
        (lambda: ta.Tensor([1.0], dtype="cuda"), DtypeError, "dtype must be one of NumPy's.*\n  given 'cuda'"),
        (
            lambda: ta.Tensor([np.nan], dtype=int),
            DtypeError,
            "no array of .*int.* can be made .*\n  cannot convert",
        ),
        (lambda: ta.Tensor(["a"], dtype=float), DtypeError, "no array of .*float.* can be made of the data"),
        (lambda: ta.Tensor([1.0]).to("cuda"), DtypeError, r"astype: .*'cuda'.*\n    x  \(1,\)"),
    ],
)
def test_what_is_no_array_is_refused_in_words(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


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


# --- formats, rounding, activations -----------------------------------------------------------------------------------


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


def test_activations_are_methods_too() -> None:
    x = ta.Tensor([-1.0, 2.0], requires_grad=True)
    np.testing.assert_array_equal(x.relu().numpy(), [0.0, 2.0])
    np.testing.assert_allclose(x.softmax().numpy().sum(), 1.0, rtol=1e-6)
    np.testing.assert_allclose(x.sigmoid().numpy(), 1.0 / (1.0 + np.exp([1.0, -2.0])), rtol=1e-6)


def test_dropout_of_a_single_number_can_be_drawn_upon() -> None:
    y = ta.dropout(ta.Tensor(1.0, requires_grad=True), 0.5)
    y.backward()
    assert all(isinstance(value.numpy(), np.ndarray) for value in y.node.inputs)
