"""why: gradients that are None or were not computed, and questions that have no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.tinygrad_attn.explained import silent, uneven, variable  # noqa: F401
from tinygrad_attn.diagnose import why


def weighed(x: Any) -> ta.Tensor:
    return np.sum(x * variable([3.0, 5.0, 7.0], "weight"))


def under_no_grad(x: ta.Tensor) -> ta.Tensor:
    with ta.no_grad():
        return x * 2.0


NOT_CONNECTED: dict[str, tuple[Callable[[ta.Tensor], ta.Tensor], str | None, str]] = {
    "detached": (lambda x: weighed(x.detach()), "detached", "has the memory of x (3,) and no gradient"),
    "a view of it": (lambda x: np.sum(x.detach()[:1] * variable([1.0])), "detached", "has the memory of x"),
    "plain array": (lambda x: weighed(x.numpy()), "plain values", "has the values of x (3,) and no gradient"),
    "number": (lambda x: weighed(float(x[1])), None, "numbers without a gradient there: -2.5"),
    "floor": (lambda x: weighed(np.floor(x)), "no derivative", "the values that np.floor gives for x"),
    "argsort": (lambda x: weighed(np.argsort(x).astype(float)), "no derivative", "np.argsort"),
    "comparison": (lambda x: weighed((x > 0).astype(float)), "no derivative", "a comparison with 0"),
    "no_grad": (lambda x: weighed(under_no_grad(x)), None, "may have been computed from it: a of multiply (3,)"),
    "unused": (lambda x: np.sum(np.exp(variable([1.0], "weight"))), None, "it was not used"),
    "replaced": (lambda x: weighed(variable([0.0, 1.0, 2.0], "x")), "replaced", "from another tensor named x (3,)"),
    "loss without gradient": (lambda x: np.sum(under_no_grad(x)), None, "under no_grad(), or from values without"),
    "whole numbers": (lambda x: x.astype(np.int64), None, "holds int64, and whole numbers"),
}


@pytest.mark.parametrize(("f", "kind", "words"), NOT_CONNECTED.values(), ids=NOT_CONNECTED)
def test_not_connected(f: Callable[[ta.Tensor], ta.Tensor], kind: str | None, words: str) -> None:
    x = variable([7.0, -2.5, 3.0])
    found = why(x, f(x))
    assert found.state == "not connected" and found.derivative is None
    assert "there is no gradient" in found.summary
    assert (found.cause.kind if found.cause else None) == kind, str(found)
    assert words in " ".join(str(found).split()), str(found)
    if kind is None and found.notes:
        assert (
            found.notes[0] == "the loss depends on weight (3,)" or found.notes[0] == "the loss depends on weight (1,)"
        )


def test_long_lists_are_cut() -> None:
    x, others = variable([1.0]), [variable([1.0], f"w{i}") for i in range(7)]
    notes = why(x, np.sum(sum(other * (i + 2.0) for i, other in enumerate(others)))).notes
    assert notes[0] == "the loss depends on w0 (1,), w1 (1,), w2 (1,), w3 (1,) and 3 more"
    assert "numbers without a gradient there: 0, 2, 3, 4 and 4 more" in notes


def test_a_number_that_was_taken_out_is_found() -> None:
    x = variable(7.0)
    found = why(x, weighed(x.item()))
    assert found.cause is not None and found.cause.kind == "plain values"
    assert why(variable(1.0), weighed(1.0)).cause is None  # ones are everywhere
    assert why(variable([2.0, 2.0, 2.0]), weighed(np.full(3, 2.0))).cause is None  # and so are arrays of one number
    assert why(variable([2.0, 4.0, 6.0]), weighed(np.array([2.0, 4.0, 7.0]))).cause is None
    assert why(variable([np.nan, 4.0, 6.0]), weighed(np.array([np.nan, 4.0, 6.0]))).cause is not None
    assert why(variable([0.5, 0.6, 0.7]), weighed(np.zeros(3))).cause is None  # as their floor


def test_a_swapped_pair_is_told() -> None:
    x = variable([1.0])
    y = np.exp(x)
    found = why(np.sum(y), y)
    assert found.state == "not connected" and "swap the two" in str(found)


def test_what_requires_no_gradient_has_none() -> None:
    x = variable([1.0, 2.0])
    assert why(ta.Tensor([1.0])).state == why(ta.Tensor([1.0]), np.sum(x)).state == "not required"
    assert "without requires_grad=True" in str(why(ta.Tensor([1.0])))
    assert "holds int64" in str(why(ta.Tensor([1, 2])))
    assert "has the memory of x (2,)" in str(why(x.detach(), np.sum(x)))


def test_none_zero_and_not_computed_are_three_answers() -> None:
    """Misconception 18."""
    x, unused = variable([0.0]), variable([1.0], "unused")
    y = np.square(x)
    loss = np.sum(y)
    assert why(x).state == why(x, loss).state == "not computed"
    assert why(x, loss).derivative == "zero"
    assert why(y, loss).state == why(y).state == "not kept"
    assert why(unused, loss).state == "not connected"
    loss.backward()
    assert why(x).state == why(x, loss).state == "zero"
    x.zero_grad()
    assert why(x, loss).state == "not computed"
    y.retain_grad()
    assert why(y).state == why(y, loss).state == "not computed"
    loss.backward()
    assert why(y).state == why(y, loss).state == "fine"
    assert why(loss, loss).derivative == "not zero"


def test_a_freed_graph_is_told() -> None:
    x = variable([1.0])
    loss = np.sum(np.exp(x))
    loss.backward(retain_graph=False)
    assert why(x, loss).state == "freed"
    part = np.exp(x)
    both = np.sum(part * part)
    np.sum(part).backward(retain_graph=False)
    assert why(x, both).state == "freed"
    assert why(part, both).derivative == "not zero"
    assert "part of the graph has been freed (at exp)" in " ".join(str(why(x, both + np.sum(x))).split())


def test_changed_values_are_told() -> None:
    x = variable([1.0])
    loss = np.sum(np.exp(x) * x)
    x.data = [2.0]
    found = why(x, loss)
    assert found.state == "changed" and "before the change" in str(found)


def test_a_rule_that_fails_is_told() -> None:
    @ta.op
    def broken(x: Any) -> Any:
        return x * 1.0

    @broken.gradient("x")
    def _(g: Any, out: Any, x: Any) -> Any:
        raise KeyError("weights")

    try:
        x = variable([1.0])
        found = why(x, np.sum(broken(x)))
    finally:
        del ta.OPERATIONS[f"{__name__}.broken"]
    assert found.state == "failed" and "raised KeyError" in str(found)


def own_operation(rule: Callable[[Any, Any], Any]) -> Any:
    """An operation of a user's own, named like a built-in one, whose rule may do anything."""

    @ta.op
    def softmax(x: Any) -> Any:
        return np.sqrt(x[::-1])

    @softmax.gradient("x", formula="dx = …")
    def _(g: Any, out: Any, x: Any) -> Any:
        return rule(g, out)

    del ta.OPERATIONS[f"{__name__}.softmax"]
    return softmax


def test_an_operation_of_ones_own_is_told_by_what_it_does() -> None:
    x = variable([0.0, 4.0, 9.0])
    found = why(x, np.sum(own_operation(lambda g, out: g[::-1] * 0.0)(x)))
    assert found.cause is not None and found.cause.kind == "zero slope"
    assert "softmax: its rule gives 0 for x here (dx = …)" in str(found)
    undefined = why(x, np.sum(np.sin(own_operation(lambda g, out: g)(x - 5.0))))
    assert undefined.cause is not None and undefined.cause.kind == "undefined"


def test_a_rule_that_cannot_be_differentiated_is_no_obstacle() -> None:
    x = variable([1.0, 4.0, 9.0])
    mirror = own_operation(lambda g, out: (np.asarray(g, dtype=np.float64) / (2.0 * out))[::-1].copy())
    found = why(x, uneven(ta.relu(mirror(x) - 2.5)), index=1)
    assert found.cause is not None and (found.cause.operation, found.cause.path) == ("relu", ("softmax", "subtract"))


def test_a_gradient_from_elsewhere_is_told() -> None:
    x = variable([1.0])
    loss = np.sum(x * 2.0)
    loss.backward()
    found = why(x, np.sum(x * 0.0))
    assert found.state == "stale" and "comes from elsewhere" in " ".join(str(found).split())
    loss.backward()  # 4 after two passes is of the same kind as 2
    assert why(x, loss).state == "fine"


def test_hooks_are_noted_and_not_called() -> None:
    x = variable([1.0])
    calls: list[Any] = []
    x.register_hook(calls.append)
    loss = np.sum(np.exp(x))
    found = why(x, loss)
    assert "one is on x (1,); hooks were not called" in " ".join(str(found).split())
    assert not calls and x.grad is None


def test_an_empty_tensor_is_fine() -> None:
    x = variable(np.zeros((0, 2)))
    loss = np.sum(x * 2.0)
    loss.backward()
    assert why(x, loss).state == why(x).state == "fine"
    y = variable([1.0])
    assert why(y, np.sum(y[:0])).derivative == "zero"


@pytest.mark.parametrize("index", [5, (0, 0), np.array([7])])
def test_an_index_that_does_not_fit_is_refused(index: Any) -> None:
    x = variable([1.0, 2.0])
    with pytest.raises(ta.errors.IndexRangeError, match=r"why: .*\n  given index=.* for shape \(2,\)"):
        why(x, np.sum(x), index=index)


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(ta.errors.DtypeError, match="given ndarray"):
        why(np.ones(2))  # type: ignore[arg-type]
    with pytest.raises(ta.errors.DtypeError, match="given float"):
        why(variable([1.0]), 1.0)  # type: ignore[arg-type]
    with pytest.raises(ta.errors.ShapeError, match="upstream must have the loss's shape"):
        x = variable([1.0])
        why(x, x * 2.0, upstream=[1.0, 2.0])
