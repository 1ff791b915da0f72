"""Tensor: how gradients reach it, and the hooks that see them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tests.inputs import variable

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
    with pytest.raises(ta.errors.GradientError, match=r"hook on weights returns .*\n  expected \(2,\), given \(\)"):
        x.sum().backward()


def test_with_a_graph_of_its_own_a_hook_gets_a_tensor() -> None:
    x = variable(2.0)
    kinds: list[type] = []
    x.register_hook(lambda g: kinds.append(type(g)))
    first = ta.gradients(x**3, x, create_graph=True)
    x.hooks = ()
    assert ta.gradients(first, x).item() == 12.0
    assert kinds == [ta.Tensor]


def test_a_hook_can_be_removed_by_calling_what_was_returned_or_its_remove() -> None:
    x = ta.Tensor(1.0, requires_grad=True)
    for take_away in (lambda handle: handle(), lambda handle: handle.remove()):
        handle = x.register_hook(lambda g: g * 10.0)
        take_away(handle)
        x.zero_grad()
        (x * 2.0).backward()
        assert x.grad == 2.0
