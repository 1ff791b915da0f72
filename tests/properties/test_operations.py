"""What holds for every operation of the registry, on whatever inputs its domain allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.properties.strategies import BUILT_IN, Array, Case, cases
from tinygrad_attn import Operation, Tensor
from tinygrad_attn.graph import fold
from tinygrad_attn.registry import IMPLEMENTATIONS

FUSED = {name: operation for name, operation in BUILT_IN.items() if operation.reference is not None}
BROADCASTING = {
    name: operation for name, operation in BUILT_IN.items() if operation.elementwise and len(operation.parameters) > 1
}

# Second derivatives are checked on many inputs, and first ones before them on the same. Memory, shapes and dtypes go
# wrong on any of a few inputs or on none.
few_examples = settings(max_examples=max(8, settings().max_examples // 4))

every_operation = pytest.mark.parametrize("operation", BUILT_IN.values(), ids=BUILT_IN)
every_fused = pytest.mark.parametrize("operation", FUSED.values(), ids=FUSED)

# NumPy takes the options of these by position: their names have changed between its versions.
BY_POSITION = {"reshape", "transpose", "swapaxes", "moveaxis", "expand_dims", "squeeze", "broadcast_to", "flip", "clip"}


def pull(case: Case, tensors: tuple[Any, ...], **how: Any) -> list[Tensor]:
    """Gradients of the differentiable inputs, with the upstream gradient of the case."""
    out = case(*tensors)
    variables = [value for value in tensors if isinstance(value, Tensor)]
    gradients: list[Tensor] = ta.gradients(out, variables, case.upstream(out.shape, out.dtype), unused="zeros", **how)
    return gradients


def assert_same(ours: list[Any], others: list[Any], rtol: float = 0.0, atol: float = 0.0) -> None:
    """Equal shapes, dtypes and values, NaN included."""
    for one, other in zip(ours, others, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        if not np.array_equal(one, other):
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


# --- the rules are right ---------------------------------------------------------------------------------------------


@every_operation
@few_examples
@given(data=st.data())
def test_the_gradient_is_the_slope(operation: Operation, data: st.DataObject) -> None:
    case = data.draw(cases(operation))
    ta.gradcheck(operation, *case.arguments(), seed=case.seed, **case.options)


@every_operation
@given(data=st.data())
def test_the_second_derivative_is_the_slope_of_the_gradient(operation: Operation, data: st.DataObject) -> None:
    case = data.draw(cases(operation))
    ta.gradgradcheck(operation, *case.arguments(), seed=case.seed, **case.options)


@every_operation
@few_examples
@given(data=st.data())
def test_recording_the_backward_pass_does_not_change_it(operation: Operation, data: st.DataObject) -> None:
    case = data.draw(cases(operation))
    plainly = pull(case, case.tensors())
    recorded = pull(case, case.tensors(), create_graph=True)
    assert_same(recorded, plainly, rtol=1e-9, atol=1e-12)


# --- shapes and dtypes -----------------------------------------------------------------------------------------------


@every_operation
@few_examples
@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]))
def test_D2_a_gradient_has_the_shape_and_dtype_of_its_input(
    operation: Operation, dtype: Any, data: st.DataObject
) -> None:
    case = data.draw(cases(operation)).converted(dtype)
    tensors = case.tensors()
    out = case(*tensors)
    assert out.numpy().real.dtype == case.options.get("dtype", dtype)
    variables = [value for value in tensors if isinstance(value, Tensor)]
    out.backward(case.upstream(out.shape, out.dtype))
    recorded = pull(case, case.tensors(), create_graph=True)
    for variable, gradient in zip(variables, recorded, strict=True):
        assert isinstance(variable.grad, np.ndarray)
        assert variable.grad.shape == gradient.shape == variable.shape
        assert variable.grad.dtype == gradient.dtype == variable.dtype


@every_operation
@few_examples
@given(data=st.data())
def test_D2_one_input_of_float64_makes_the_result_float64_and_only_its_own_gradient(
    operation: Operation, data: st.DataObject
) -> None:
    narrow = data.draw(cases(operation)).converted(np.float32)
    for position, value in enumerate(narrow.inputs):
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            continue
        inputs = (*narrow.inputs[:position], value.astype(np.float64), *narrow.inputs[position + 1 :])
        case = replace(narrow, inputs=inputs)
        tensors = case.tensors()
        out, gradients = case(*tensors), pull(case, tensors)
        assert [gradient.dtype for gradient in gradients] == [variable.dtype for variable in variables(case)]
        if operation.reference is None:
            assert out.numpy().real.dtype == case.options.get("dtype", np.float64)
        else:
            with ta.unfused():
                assert_same([out, *gradients], [case(*tensors), *pull(case, tensors)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operation", BROADCASTING.values(), ids=BROADCASTING)
@given(data=st.data())
def test_a_broadcast_input_gets_the_sum_over_its_copies(operation: Operation, data: st.DataObject) -> None:
    case = data.draw(cases(operation))
    shape = np.broadcast_shapes(*(value.shape for value in case.inputs))
    copies = Case(operation, tuple(np.broadcast_to(v, shape).copy() for v in case.inputs), case.options, case.seed)
    of_copies = pull(copies, copies.tensors())
    summed = [fold(gradient.numpy(), value.shape) for gradient, value in zip(of_copies, variables(case), strict=True)]
    assert_same(pull(case, case.tensors()), summed, rtol=1e-12, atol=1e-12)


def variables(case: Case) -> list[Array]:
    """The inputs of a case that are differentiated."""
    return [value for i, value in enumerate(case.inputs) if case.is_differentiable(i)]


# --- NumPy in, NumPy out ---------------------------------------------------------------------------------------------


@every_operation
@few_examples
@given(data=st.data())
def test_on_plain_arrays_it_is_a_plain_function_of_the_same_value(operation: Operation, data: st.DataObject) -> None:
    case = data.draw(cases(operation))
    value, recorded = case(), case(*case.tensors())
    if operation.reference is not None:  # the forward pass of a fused operation returns what it saves as well
        value = value[0] if isinstance(value, tuple) else value
    assert not isinstance(value, Tensor)
    assert_same([recorded], [value])


# Where the same number is computed in another order: the symmetric part, our series and SciPy's, values with vectors.
ROUNDING = {"cholesky": 1e-13, "eigvals": 1e-12, "erf": 1e-14, "erfc": 1e-14, "sigmoid": 1e-15}

NUMPY_FUNCTIONS = [
    pytest.param(function, operation, id=function.__name__)
    for function, operation in IMPLEMENTATIONS.items()
    if isinstance(operation, Operation) and function is not np.ndarray.astype
]


@pytest.mark.parametrize(("function", "operation"), NUMPY_FUNCTIONS)
@few_examples
@given(data=st.data())
def test_the_numpy_function_on_tensors_equals_itself_on_arrays(
    function: Callable[..., Any], operation: Operation, data: st.DataObject
) -> None:
    case = data.draw(cases(operation))
    if operation.name == "cholesky":  # its docstring says why the two differ on a matrix that is not symmetric
        (a,) = case.inputs
        case = replace(case, inputs=((a + np.swapaxes(a, -1, -2)) / 2,))
    by_position = operation.name in BY_POSITION
    positional = tuple(case.options.values()) if by_position else ()
    named = {} if by_position else case.options
    on_arrays = function(*case.arguments(), *positional, **named)
    on_tensors = function(*case.arguments(case.tensors()), *positional, **named)
    assert isinstance(on_tensors, Tensor)
    rounding = ROUNDING.get(operation.name, 0.0)
    assert_same([on_tensors], [on_arrays], rtol=rounding, atol=rounding)


@given(data=st.data())
def test_square_brackets_read_what_numpy_reads(data: st.DataObject) -> None:
    case = data.draw(cases(BUILT_IN["getitem"]))
    (x,), index = case.inputs, case.options["index"]
    assert_same([Tensor(x, requires_grad=True)[index]], [x[index]])


# --- memory ----------------------------------------------------------------------------------------------------------


def strided(array: Array) -> Array:
    """Equal values that lie backwards, two places apart."""
    if array.ndim == 0:
        return array
    spread = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    view = spread[..., ::-2]
    view[...] = array
    return view


def transposed(array: Array) -> Array:
    """Equal values in column-major order."""
    return np.array(array, order="F", copy=True)


def read_only(array: Array) -> Array:
    """Equal values that nobody may change."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@every_operation
@few_examples
@given(data=st.data(), layout=st.sampled_from([strided, transposed, read_only]))
def test_how_the_inputs_lie_in_memory_does_not_matter(
    operation: Operation, layout: Callable[[Array], Array], data: st.DataObject
) -> None:
    case = data.draw(cases(operation))
    inputs = tuple(layout(value) if isinstance(value, np.ndarray) else value for value in case.inputs)
    laid_out = Case(operation, inputs, case.options, case.seed)
    shared = laid_out.tensors(lambda array: Tensor.from_numpy(array, requires_grad=True))
    assert_same(pull(laid_out, shared), pull(case, case.tensors()), rtol=1e-12, atol=1e-12)


@every_operation
@few_examples
@given(data=st.data())
def test_neither_pass_changes_what_it_is_given(operation: Operation, data: st.DataObject) -> None:
    case = data.draw(cases(operation))
    before = [np.array(value, copy=True) for value in case.inputs]
    tensors = case.tensors(lambda array: Tensor.from_numpy(array, requires_grad=True))
    out = case(*tensors)
    value = out.numpy().copy()
    upstream = case.upstream(out.shape)
    sent = upstream.copy()
    targets = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    first = ta.gradients(out, targets, upstream, unused="zeros")
    kept = [gradient.numpy().copy() for gradient in first]
    second = ta.gradients(out, targets, upstream, unused="zeros")
    for given_value, original in zip(case.inputs, before, strict=True):
        np.testing.assert_array_equal(np.asarray(given_value), original)
    np.testing.assert_array_equal(upstream, sent)
    np.testing.assert_array_equal(out.numpy(), value)
    assert_same(first, kept)
    assert_same(second, kept)


# --- fused operations ------------------------------------------------------------------------------------------------


@every_fused
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-11), (np.float32, 1e-4)])
@given(data=st.data())
def test_a_fused_operation_equals_its_reference(
    operation: Operation, dtype: Any, tolerance: float, data: st.DataObject
) -> None:
    case = data.draw(cases(operation)).converted(dtype)
    fused, fused_gradients = case(*case.tensors()), pull(case, case.tensors())
    with ta.unfused():
        reference, reference_gradients = case(*case.tensors()), pull(case, case.tensors())
    assert_same([fused], [reference], rtol=tolerance, atol=tolerance)
    assert_same(fused_gradients, reference_gradients, rtol=tolerance, atol=tolerance)
