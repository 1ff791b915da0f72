"""Reordering, copying, joining and cutting: as NumPy answers, with gradients, and errors that name the axis."""

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
from tinygrad_attn.errors import AxisRangeError, OptionError, ShapeError

ONE: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "ravel": (np.ravel, (2, 3)),
    "ravel of a number": (np.ravel, ()),
    "ravel by columns": (lambda x: np.ravel(x, "F"), (2, 3, 4)),
    "atleast_1d": (np.atleast_1d, ()),
    "atleast_1d of more": (np.atleast_1d, (2, 3)),
    "atleast_2d": (np.atleast_2d, (3,)),
    "atleast_2d of a number": (np.atleast_2d, ()),
    "atleast_3d of a vector": (np.atleast_3d, (3,)),
    "atleast_3d of a matrix": (np.atleast_3d, (2, 3)),
    "atleast_3d of a number": (np.atleast_3d, ()),
    "expand_dims by several": (lambda x: np.expand_dims(x, (0, -1)), (2, 3)),
    "squeeze of several": (lambda x: np.squeeze(x, (0, -1)), (1, 3, 1)),
    "moveaxis of several": (lambda x: np.moveaxis(x, (0, -1), (-1, 0)), (2, 3, 4)),
    "moveaxis of several unordered": (lambda x: np.moveaxis(x, [2, 0], [0, 1]), (2, 3, 4)),
    "rollaxis": (lambda x: np.rollaxis(x, 2), (2, 3, 4)),
    "rollaxis to the end": (lambda x: np.rollaxis(x, 0, 3), (2, 3, 4)),
    "rollaxis from the end": (lambda x: np.rollaxis(x, -1, -2), (2, 3, 4)),
    "rollaxis in place": (lambda x: np.rollaxis(x, 1, 1), (2, 3, 4)),
    "permute_dims": (lambda x: np.permute_dims(x, (2, 0, 1)), (2, 3, 4)),
    "copy": (np.copy, (2, 3)),
    "flip along one axis": (lambda x: np.flip(x, -1), (2, 3)),
    "flip along two": (lambda x: np.flip(x, (0, 2)), (2, 3, 4)),
    "flip along none": (lambda x: np.flip(x, ()), (2, 3)),
    "fliplr": (np.fliplr, (2, 3)),
    "flipud": (np.flipud, (2, 3)),
    "rot90": (np.rot90, (2, 3)),
    "rot90 twice": (lambda x: np.rot90(x, 2), (2, 3)),
    "rot90 thrice": (lambda x: np.rot90(x, 3), (2, 3)),
    "rot90 four times": (lambda x: np.rot90(x, 4), (2, 3)),
    "rot90 backwards": (lambda x: np.rot90(x, -1, (2, 1)), (2, 3, 4)),
    "tile": (lambda x: np.tile(x, 3), (2,)),
    "tile along new axes": (lambda x: np.tile(x, (2, 1, 3)), (2, 2)),
    "tile along the last axes": (lambda x: np.tile(x, (2,)), (2, 3)),
    "tile never": (lambda x: np.tile(x, 0), (2,)),
    "repeat": (lambda x: np.repeat(x, 2), (2, 3)),
    "repeat along an axis": (lambda x: np.repeat(x, 3, axis=-1), (2, 3)),
    "repeat each by its own": (lambda x: np.repeat(x, [2, 0, 1], axis=1), (2, 3)),
    "repeat an array of counts": (lambda x: np.repeat(x, np.array([1, 2]), 0), (2, 3)),
    "roll": (lambda x: np.roll(x, 2), (2, 3)),
    "roll along an axis": (lambda x: np.roll(x, -1, 1), (2, 3)),
    "roll along several": (lambda x: np.roll(x, (1, -2), (0, 2)), (2, 3, 4)),
    "roll one axis twice": (lambda x: np.roll(x, (1, 1), (0, 0)), (3, 2)),
    "roll further than it is long": (lambda x: np.roll(x, 7, 0), (3,)),
    "pad": (lambda x: np.pad(x, 1), (2, 3)),
    "pad one side": (lambda x: np.pad(x, (0, 2)), (2, 3)),
    "pad each axis": (lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=2.0), (2, 3)),
    "pad by columns of widths": (lambda x: np.pad(x, ((1,), (2,))), (2, 3)),
    "pad with two constants": (lambda x: np.pad(x, 1, "constant", constant_values=(1.0, 2.0)), (3,)),
    "pad nothing": (lambda x: np.pad(x, 0), (2, 3)),
    "pad a number": (lambda x: np.pad(x, 1), ()),
    "pad by the edge": (lambda x: np.pad(x, ((2, 1), (0, 3)), "edge"), (2, 3)),
    "pad by reflection": (lambda x: np.pad(x, (2, 1), mode="reflect"), (3, 3)),
    "pad by reflection, further than it is long": (lambda x: np.pad(x, 5, mode="reflect"), (3,)),
    "pad by symmetry": (lambda x: np.pad(x, (2, 4), mode="symmetric"), (3,)),
    "pad by wrapping": (lambda x: np.pad(x, ((1, 2), (4, 0)), mode="wrap"), (3, 2)),
    "split": (lambda x: np.split(x, 2), (4, 3)),
    "split at places": (lambda x: np.split(x, [1, 3], axis=1), (2, 4)),
    "split at places beyond": (lambda x: np.split(x, [2, 9]), (4,)),
    "split at an empty piece": (lambda x: np.split(x, [2, 2, -1]), (4,)),
    "array_split": (lambda x: np.array_split(x, 3, axis=-1), (2, 5)),
    "array_split into more than there is": (lambda x: np.array_split(x, 4), (2,)),
    "hsplit": (lambda x: np.hsplit(x, 2), (3, 4)),
    "hsplit of a vector": (lambda x: np.hsplit(x, 2), (4,)),
    "vsplit": (lambda x: np.vsplit(x, [1]), (3, 4)),
    "dsplit": (lambda x: np.dsplit(x, 2), (2, 3, 4)),
    "delete": (lambda x: np.delete(x, 1), (2, 3)),
    "delete along an axis": (lambda x: np.delete(x, [0, -1], axis=1), (2, 3)),
    "delete a slice": (lambda x: np.delete(x, slice(0, 2), 0), (4,)),
    "delete by a mask": (lambda x: np.delete(x, np.array([True, False, True]), 0), (3, 2)),
    "insert a number": (lambda x: np.insert(x, 1, 5.0), (2, 2)),
    "insert along an axis": (lambda x: np.insert(x, -1, 5.0, axis=1), (2, 3)),
    "insert at several places": (lambda x: np.insert(x, [0, 2], [7.0, 8.0], axis=0), (3,)),
}
if hasattr(np, "astype"):
    ONE["astype"] = (lambda x: np.astype(x, x.dtype), (2,))
if hasattr(np, "unstack"):
    ONE["unstack"] = (np.unstack, (3, 2))
    ONE["unstack along an axis"] = (lambda x: np.unstack(x, axis=-1), (2, 3))

SEVERAL: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "concatenate": (lambda *x: np.concatenate(x, axis=1), ((2, 3), (2, 0), (2, 1))),
    "concatenate from the end": (lambda *x: np.concatenate(x, axis=-2), ((1, 3), (2, 3))),
    "concatenate everything": (lambda *x: np.concatenate(x, axis=None), ((2, 3), (), (4,))),
    "concat": (lambda *x: np.concat(x), ((2,), (3,))),
    "stack of numbers": (lambda *x: np.stack(x), ((), ())),
    "stack": (lambda *x: np.stack(x, -1), ((2, 3), (2, 3))),
    "hstack": (lambda *x: np.hstack(x), ((2, 3), (2, 1))),
    "hstack of vectors and numbers": (lambda *x: np.hstack(x), ((2,), (), (3,))),
    "vstack": (lambda *x: np.vstack(x), ((2, 3), (3,))),
    "dstack": (lambda *x: np.dstack(x), ((2, 3), (2, 3, 2))),
    "dstack of vectors": (lambda *x: np.dstack(x), ((2,), (2,))),
    "column_stack": (lambda *x: np.column_stack(x), ((2,), (2, 3), (2,))),
    "append": (np.append, ((2, 3), (2,))),
    "append along an axis": (lambda a, b: np.append(a, b, axis=1), ((2, 3), (2, 1))),
    "block": (lambda a, b, c: np.block([[a, b], [c]]), ((2, 2), (2, 1), (1, 3))),
    "block of one list": (lambda a, b: np.block([a, b]), ((2,), (3,))),
    "block of one array": (lambda a: np.block(a), ((2, 2),)),
    "block of numbers and arrays": (lambda a, b: np.block([[a], [b]]), ((3,), (2, 3))),
    "block of deep arrays": (lambda a, b: np.block([a, b]), ((2, 2, 1), (2, 2, 3))),
    "insert a row": (lambda a, b: np.insert(a, 1, b, axis=0), ((2, 3), (3,))),
    "insert columns before one": (lambda a, b: np.insert(a, 1, b, axis=1), ((2, 3), (2,))),
    "insert columns at several places": (lambda a, b: np.insert(a, [0, 2], b, axis=1), ((3, 3), (3, 2))),
    "insert several rows at one place": (lambda a, b: np.insert(a, 1, b, axis=0), ((2, 3), (2, 3))),
    "insert values into a slice": (lambda a, b: np.insert(a, slice(0, 2), b), ((4,), (2,))),
    "broadcast_arrays": (lambda *x: np.broadcast_arrays(*x), ((2, 1), (3,), ())),
    "meshgrid": (lambda *x: np.meshgrid(*x), ((2,), (3,))),
    "meshgrid by rows": (lambda *x: np.meshgrid(*x, indexing="ij"), ((2,), (3,), (2,))),
    "meshgrid of three": (lambda *x: np.meshgrid(*x), ((2,), (3,), (4,))),
    "meshgrid, sparse": (lambda *x: np.meshgrid(*x, sparse=True), ((2,), (3,))),
    "meshgrid of one": (lambda *x: np.meshgrid(*x), ((2,),)),
    "atleast_2d of several": (lambda *x: np.atleast_2d(*x), ((), (2,))),
}


@pytest.mark.parametrize("name", ONE)
def test_what_is_reordered_copied_or_cut_is_numpys(name: str) -> None:
    function, shape = ONE[name]
    assert_like_numpy(function, values(*shape))


@pytest.mark.parametrize("name", SEVERAL)
def test_what_is_joined_is_numpys(name: str) -> None:
    function, shapes = SEVERAL[name]
    assert_like_numpy(function, *(values(*shape, seed=index) for index, shape in enumerate(shapes)))


@given(
    repeats=st.one_of(st.integers(0, 3), st.lists(st.integers(0, 3), min_size=3, max_size=3)),
    axis=st.sampled_from([1, -1, None]),
)
def test_the_gradient_of_a_repetition_counts_the_copies(repeats: Any, axis: int | None) -> None:
    repeats = repeats * 2 if axis is None and isinstance(repeats, list) else repeats
    x = Tensor(values(2, 3), requires_grad=True)
    gradient = ta.gradients(np.sum(np.repeat(x, repeats, axis)), x).numpy()
    expected = np.broadcast_to(np.reshape(repeats, (2, 3) if np.size(repeats) == 6 else -1), (2, 3))
    np.testing.assert_array_equal(gradient, expected)


@given(st.data())
def test_what_is_cut_and_joined_again_is_the_identity_forwards_and_backwards(data: st.DataObject) -> None:
    axis = data.draw(st.integers(-3, 2))
    places = data.draw(st.lists(st.integers(0, 4), max_size=3).map(sorted))
    x, upstream = Tensor(values(2, 4, 3), requires_grad=True), values(2, 4, 3, seed=1)
    again = np.concatenate(np.split(x, places, axis), axis)
    np.testing.assert_array_equal(again.numpy(), x.numpy())
    np.testing.assert_array_equal(ta.gradients(again, x, upstream).numpy(), upstream)


def test_what_is_inserted_into_whole_numbers_keeps_its_gradient() -> None:
    x = Tensor([0.5], requires_grad=True)
    assert ta.gradients(np.sum(np.insert(np.arange(3), 1, x)), x).tolist() == [1.0]


def test_unstack_undoes_stack() -> None:
    x = Tensor(values(2, 3), requires_grad=True)
    np.testing.assert_array_equal(np.stack(ta.unstack(x, axis=1), 1).numpy(), x.numpy())


def test_a_piece_sends_its_gradient_to_its_own_place() -> None:
    x = Tensor(np.zeros(6), requires_grad=True)
    first, _, third = np.split(x, 3)
    (first.sum() + 2.0 * third.sum()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0, 0.0, 0.0, 2.0, 2.0]


def test_arrays_beside_a_tensor_are_constants_wherever_they_stand() -> None:
    x, constant = Tensor([[1.0, 2.0]], requires_grad=True), np.ones((1, 2), dtype=np.float32)
    for joined in (np.concatenate([constant, x]), np.vstack([constant, x]), np.stack([constant, x]), np.append(x, 3.0)):
        assert isinstance(joined, Tensor)
        np.testing.assert_array_equal(ta.gradients(np.sum(joined), x).numpy(), np.ones((1, 2)))


def test_a_copy_is_a_tensor_of_its_own() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = np.copy(x)
    x.data[0] = 5.0
    assert y.tolist() == [1.0, 2.0]


# --- bad input -------------------------------------------------------------------------------------------------------


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape), requires_grad=True)


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "an empty list": (lambda: ta.concatenate([]), ShapeError, "the list is empty"),
    "a list of numbers": (lambda: np.concatenate([ones(), ones()]), ShapeError, "np.stack joins numbers"),
    "another number of axes": (
        lambda: np.concatenate([ones(2, 3), ones(3)]),
        ShapeError,
        r"arrays\[0\] has 2 axes, arrays\[1\] has 1\n  np.expand_dims",
    ),
    "another length": (
        lambda: np.concatenate([ones(2, 3), ones(2, 3), ones(2, 4)]),
        ShapeError,
        r"axis 1 is 3 in arrays\[0\] and 4 in arrays\[2\]; they can be joined along axis 1",
    ),
    "two other lengths": (
        lambda: np.concatenate([ones(2, 3, 4), ones(2, 4, 5)]),
        ShapeError,
        r"axis 1 is 3 in arrays\[0\] and 4 in arrays\[1\]\n",
    ),
    "no such axis": (lambda: np.concatenate([ones(2), ones(2)], 1), AxisRangeError, "axis 1 is out of bounds"),
    "unequal shapes in a stack": (
        lambda: np.stack([ones(2), ones(3)]),
        ShapeError,
        r"arrays\[0\] has \(2,\), arrays\[1\] has \(3,\)",
    ),
    "an empty stack": (lambda: ta.stack([]), ShapeError, "the list is empty"),
    "unequal pieces": (lambda: np.split(ones(5), 2), ShapeError, "5 places do not make 2 equal pieces"),
    "no pieces": (lambda: np.split(ones(5), 0), ShapeError, "0 equal pieces"),
    "rows of a vector": (lambda: np.vsplit(ones(4), 2), ShapeError, "at least two axes"),
    "depth of a matrix": (lambda: np.dsplit(ones(4, 2), 2), ShapeError, "at least three axes"),
    "shapes that do not broadcast": (
        lambda: np.broadcast_arrays(ones(2), ones(3)),
        ShapeError,
        r"arrays\[0\]  \(2,\)\n    arrays\[1\]  \(3,\)",
    ),
    "columns of a vector": (lambda: np.fliplr(ones(2)), ShapeError, "np.flip reverses a vector"),
    "rows of a number": (lambda: np.flipud(ones()), ShapeError, "at least one axis"),
    "turned about one axis": (lambda: np.rot90(ones(2, 2), axes=(0,)), ShapeError, "two axes to turn"),
    "turned about three axes": (lambda: np.rot90(ones(2, 2, 2), axes=(0, 1, 2)), ShapeError, "two axes to turn"),
    "a vector turned": (lambda: np.rot90(ones(2)), ShapeError, "two axes to turn"),
    "negative widths": (lambda: np.pad(ones(2), -1), ShapeError, "pad_width does not fit"),
    "widths for other axes": (lambda: np.pad(ones(2), ((1, 1), (1, 1))), ShapeError, "for 1 axes"),
    "a mode without a rule": (lambda: np.pad(ones(2), 1, "mean"), OptionError, "'mean' has no gradient rule"),
    "repeats of other length": (lambda: np.repeat(ones(3), [1, 2]), ShapeError, "repeat"),
    "a shape of another size": (lambda: np.reshape(ones(2, 3), (4,)), ShapeError, "6 elements"),
    "an axis that is longer": (lambda: np.squeeze(ones(2, 3), 0), ShapeError, "squeeze"),
    "an order of columns that is none": (lambda: np.ravel(ones(2), "K"), OptionError, "order must be"),
    "an indexing that is none": (lambda: np.meshgrid(ones(2), indexing="yx"), OptionError, "'xy' or 'ij'"),
    **{
        f"no such axis in {name}": (use, AxisRangeError, f"{name}: axis 2")
        for name, use in {
            "rollaxis": lambda: np.rollaxis(ones(2, 3), 2),
            "split": lambda: np.split(ones(2, 3), 2, axis=2),
            "delete": lambda: np.delete(ones(2, 3), 0, axis=2),
            "insert": lambda: np.insert(ones(2, 3), 0, 1.0, axis=2),
            "unstack": lambda: ta.unstack(ones(2, 3), axis=2),
        }.items()
    },
    "a start beyond the axes": (lambda: np.rollaxis(ones(2, 3), 1, 4), AxisRangeError, "start must lie in"),
    "blocks in an empty list": (lambda: np.block([[], [ones(2)]]), ShapeError, "list of blocks is empty"),
    "blocks at unequal depth": (lambda: np.block([ones(2), [ones(2)]]), ShapeError, "equally deep"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_explained(name: str) -> None:
    use, error, words = BAD[name]
    with pytest.raises(error, match=words):
        use()
