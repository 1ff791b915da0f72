"""How the arguments of a call become inputs and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tinygrad_attn as ta
from tests.inputs import variable
from tinygrad_attn.signature import Signature


def signature() -> Signature:
    def f(x: Any, y: Any = None, *, axis: Any, keepdims: bool = False) -> Any: ...

    return Signature(f)


def test_inputs_and_options_by_position_and_by_name() -> None:
    expected = ((1, 2), {"axis": 3, "keepdims": True})
    s = signature()
    assert s.bind((1, 2, 3, True), {}) == expected
    assert s.bind((1, 2), {"axis": 3, "keepdims": True}) == expected
    assert s.bind((1,), {"y": 2, "axis": 3, "keepdims": True}) == expected
    assert s.bind((), {"x": 1, "y": 2, "axis": 3, "keepdims": True}) == expected
    assert s.bind((1,), {"axis": 3}) == ((1, None), {"axis": 3, "keepdims": False})
    assert s.bind((1,), {"axis": 3, "out": None}) == ((1, None), {"axis": 3, "keepdims": False})
    assert str(s) == "x, y, axis=, keepdims="


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {"axis": 3}, "'x' is missing"),
        ((1,), {}, "needs the option 'axis'"),
        ((1, 2, 3, 4, 5), {}, "1 too many given"),
        ((1, 2, 3), {"axis": 3}, "got 'axis' twice"),
        ((1,), {"axis": 3, "where": True}, "takes no option 'where' on a Tensor\n  its options are: axis, keepdims"),
    ],
)
def test_arguments_that_do_not_fit_are_named(args: Any, kwargs: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        signature().bind(args, kwargs)


def test_a_sequence_comes_as_one_list() -> None:
    def join(*arrays: Any, axis: int = 0) -> Any: ...

    s = Signature(join, sequence=True)
    assert s.variadic
    assert s.bind(([1, 2, 3],), {}) == ((1, 2, 3), {"axis": 0})
    assert s.bind(([1, 2], 1), {}) == ((1, 2), {"axis": 1})
    assert s.bind((iter([1, 2]),), {"axis": 1}) == ((1, 2), {"axis": 1})


def test_defaults_are_not_changed_by_a_call() -> None:
    before = dict(ta.OPERATIONS["sum"].options)
    ta.sum(variable(np.ones((2, 3))), axis=1, keepdims=True)
    assert ta.OPERATIONS["sum"].options == before


POSITIONAL: dict[str, Callable[[Any], Any]] = {
    "sum": lambda t: np.sum(t, 0, None, None, True),
    "mean": lambda t: np.mean(t, 1, None, None, True),
    "max": lambda t: np.max(t, 0, None, True),
    "std": lambda t: np.std(t, 0, None, None, 1),
    "prod": lambda t: np.prod(t, 1),
    "cumsum": lambda t: np.cumsum(t, 1),
    "clip": lambda t: np.clip(t, 0.5, 2.5),
    "clip by name": lambda t: np.clip(t, a_min=None, a_max=2.5),
    "input by name": lambda t: np.sum(a=t, axis=0),
    "moveaxis": lambda t: np.moveaxis(t, 0, 1),
    "swapaxes": lambda t: np.swapaxes(t, 0, 1),
    "expand_dims": lambda t: np.expand_dims(t, 1),
    "concatenate": lambda t: np.concatenate([t, t], 1),
    "stack": lambda t: np.stack([t, t], axis=-1),
    "reshape": lambda t: np.reshape(t, (3, 2)),
    "transpose": lambda t: np.transpose(t, (1, 0)),
    "norm": lambda t: np.linalg.norm(t, None, 1, True),
    "where": lambda t: np.where(t.numpy() > 2 if isinstance(t, ta.Tensor) else t > 2, t, 0.0),
}


@pytest.mark.parametrize("call", POSITIONAL.values(), ids=POSITIONAL)
def test_arguments_by_position_mean_what_they_mean_in_numpy(call: Callable[[Any], Any]) -> None:
    values = np.arange(6.0).reshape(2, 3)
    answer, expected = call(variable(values)), call(values)
    assert answer.shape == expected.shape
    assert_allclose(answer.numpy(), expected, rtol=1e-15)


def test_numpy_options_that_would_change_the_result_are_refused_by_position_too() -> None:
    with pytest.raises(ta.errors.InPlaceError, match=r"np\.sum\(…, out=…\)"):
        np.sum(variable([1.0]), 0, None, np.zeros(1))
    with pytest.raises(ta.errors.OptionError, match="order must be 'C' or 'F'\n  given 'A'"):
        np.reshape(variable([1.0]), (1, 1), "A")
    with pytest.raises(ta.errors.UnsupportedFunctionError, match="takes no option 'subok'"):
        np.broadcast_to(variable([1.0]), (2,), True)
