"""Memory that changes while a graph stands: faults seen in other engines, by their ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.inputs import variable


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
