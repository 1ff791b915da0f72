"""Whoever knows NumPy's names for arguments need not learn others."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import values
from tinygrad_attn import Operation, Tensor
from tinygrad_attn.ops.plain import PLAIN_FUNCTIONS
from tinygrad_attn.registry import IMPLEMENTATIONS, REFUSED, numpy_name

# A recorded result is a new array of the dtype that follows from the inputs: these have nothing to say.
NOTHING_TO_SAY = {
    "out",
    "dtype",
    "casting",
    "order",
    "subok",
    "copy",
    "keepdims",
    "axes",
    "where",
    "signature",
    "device",
}


def keywords(function: Callable[..., Any]) -> list[str]:
    """Names that may be given as keywords, in order."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # NumPy does not tell
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


COMPOSED = [
    pytest.param(theirs, ours, id=numpy_name(theirs))
    for theirs, ours in IMPLEMENTATIONS.items()
    if not isinstance(ours, Operation) and theirs not in {*PLAIN_FUNCTIONS, *REFUSED, operator.getitem}
]


@pytest.mark.parametrize(("theirs", "ours"), COMPOSED)
def test_a_function_written_with_others_takes_numpys_arguments(
    theirs: Callable[..., Any], ours: Callable[..., Any]
) -> None:
    if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(ours).parameters.values()):
        return
    wanted = [name for name in keywords(theirs) if name not in NOTHING_TO_SAY]
    if isinstance(theirs, np.ufunc):
        wanted = [name for name in wanted if name == "axis" and ours is ta.vecdot]
    assert [name for name in keywords(ours) if name in wanted] == wanted


ANSWERING = [
    pytest.param(theirs, ours, id=numpy_name(theirs))
    for theirs, ours in IMPLEMENTATIONS.items()
    if theirs not in {*PLAIN_FUNCTIONS, *REFUSED, operator.getitem}
]


@pytest.mark.parametrize(("theirs", "ours"), ANSWERING)
def test_what_is_left_out_means_what_it_means_to_numpy(theirs: Callable[..., Any], ours: Callable[..., Any]) -> None:
    try:
        of_numpy = inspect.signature(theirs).parameters
    except ValueError:  # NumPy does not tell
        return
    for name, parameter in inspect.signature(ours).parameters.items():
        default = of_numpy[name].default if name in of_numpy else parameter.empty
        said = default is not parameter.empty and repr(default) != "<no value>" and name != "optimize"  # only speed
        if said and parameter.default is not parameter.empty:
            assert (name, parameter.default) == (name, default)


def test_arguments_may_be_given_as_numpy_orders_them() -> None:
    x = Tensor(values(3, 4), requires_grad=True)
    assert np.take(x, [0, 9], 1, None, "clip").shape == (3, 2)
    assert np.linalg.pinv(x, 1e-10).shape == (4, 3)
    assert np.linalg.cholesky(x @ x.T, upper=True).shape == (3, 3)
    assert np.pad(x, 1, "edge").shape == (5, 6)
    assert np.diagonal(a=x, offset=1).shape == (3,)
    assert np.trace(x, 1).shape == ()
    assert np.roll(a=x, shift=1, axis=0).shape == (3, 4)
    assert np.tile(A=x, reps=2).shape == (3, 8)
    assert np.sort(x, 0, "stable").shape == (3, 4)
