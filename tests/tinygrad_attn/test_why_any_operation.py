"""why: what is said of an operation is so, for every operation of the registry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.properties.strategies import BUILT_IN, cases
from tests.tinygrad_attn.explained import NOT_OF_ONE_OPERATION, is_flat, silent, variable  # noqa: F401
from tinygrad_attn.diagnose import why

# Their domains are special matrices, and a special value in one makes it another.
DECOMPOSITIONS = {"cholesky", "eigvalsh", "eigenvectors", "inv", "solve", "det", "logabsdet"}
DECOMPOSITIONS |= {"svdvals", "left_singular_vectors", "right_singular_vectors", "pinv", "q_factor", "r_factor"}
DECOMPOSITIONS |= {"solve_triangular", "solve_diagonals", "solve_sylvester", "sqrtm", "expm", "eigvals"}
DECOMPOSITIONS |= {"right_eigenvectors"}

SPECIAL = (0.0, 1.0, 40.0, -900.0, -np.inf)


@pytest.mark.parametrize("operation", BUILT_IN.values(), ids=BUILT_IN)
@settings(max_examples=max(5, settings().max_examples // 10))
@given(data=st.data())
def test_a_derivative_that_is_called_zero_is_zero(operation: ta.Operation, data: st.DataObject) -> None:
    """Whatever the domain allows, and with a value in it at which many a slope is zero."""
    case = data.draw(cases(operation))
    tensors = case.tensors(lambda array: variable(array, None))
    variables = [value for value in tensors if isinstance(value, ta.Tensor)]
    for tensor in variables:
        special = data.draw(st.sampled_from([None, *SPECIAL]))
        if special is not None and tensor.size and operation.name not in DECOMPOSITIONS:
            tensor.data.flat[data.draw(st.integers(0, tensor.size - 1))] = special
    out = case(*tensors)
    for tensor in variables:
        found = why(tensor, out, upstream=case.upstream(out.shape))
        assert found.causes or found.derivative == "not zero", str(found)
        for cause in found.causes:
            jumps = cause.operation == "arctan2" and ("result", "0") in cause.values  # where its rule makes a choice
            if found.derivative == "not finite" or cause.inside or cause.kind in NOT_OF_ONE_OPERATION or jumps:
                continue
            assert is_flat(out, cause), str(found)
