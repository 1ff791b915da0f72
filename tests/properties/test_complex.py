"""What holds for every operation that says it takes complex numbers, and what the others say when they get them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.properties.strategies import BUILT_IN, Case, cases, complex_cases
from tinygrad_attn import Operation, Tensor
from tinygrad_attn.registry import IMPLEMENTATIONS

FROM_REAL = {"rfft"}  # from real numbers to complex ones
COMPLEX = {name: found for name, found in BUILT_IN.items() if found.complex and name not in FROM_REAL}
REAL = {name: found for name, found in BUILT_IN.items() if not found.complex or name in FROM_REAL}

few_examples = settings(max_examples=max(8, settings().max_examples // 4))
every_complex = pytest.mark.parametrize("operation", COMPLEX.values(), ids=COMPLEX)
every_real = pytest.mark.parametrize("operation", REAL.values(), ids=REAL)


def upstream(case: Case, out: Any) -> Any:
    """An uneven gradient to send in, complex where the result is."""
    sent = case.upstream(out.shape)
    return sent - 0.5j * sent[::-1] if sent.ndim and out.dtype.kind == "c" else sent.astype(out.dtype)


def pull(case: Case, tensors: tuple[Any, ...], **how: Any) -> list[Tensor]:
    """Gradients of the inputs that are Tensors."""
    out = case(*tensors)
    variables = [value for value in tensors if isinstance(value, Tensor)]
    found: list[Tensor] = ta.gradients(out, variables, upstream(case, out), unused="zeros", **how)
    return found


@every_complex
@few_examples
@given(data=st.data())
def test_first_and_second_derivatives_are_slopes_along_both_axes(operation: Operation, data: st.DataObject) -> None:
    case = data.draw(complex_cases(operation))
    ta.gradgradcheck(operation, *case.arguments(), seed=case.seed, **case.options)


@every_complex
@few_examples
@given(data=st.data())
def test_the_gradient_of_z_is_that_of_its_real_part_plus_i_times_that_of_its_imaginary_part(
    operation: Operation, data: st.DataObject
) -> None:
    case = data.draw(complex_cases(operation))
    whole = pull(case, case.tensors())
    places = [i for i in range(len(case.inputs)) if case.is_differentiable(i)]
    parts = {i: [Tensor(x, requires_grad=True) for x in (case.inputs[i].real, case.inputs[i].imag)] for i in places}
    joined = tuple(parts[i][0] + 1j * parts[i][1] if i in parts else x for i, x in enumerate(case.inputs))
    out = case(*joined)
    for place, gradient in zip(places, whole, strict=True):
        re, im = ta.gradients(out, parts[place], upstream(case, out), unused="zeros")
        expected = re.numpy() + 1j * im.numpy() if gradient.dtype.kind == "c" else re.numpy()
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-9, atol=1e-12)


@every_complex
@few_examples
@given(data=st.data())
def test_recording_the_backward_pass_does_not_change_it(operation: Operation, data: st.DataObject) -> None:
    case = data.draw(complex_cases(operation))
    for one, other in zip(pull(case, case.tensors(), create_graph=True), pull(case, case.tensors()), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


@every_complex
@few_examples
@given(data=st.data())
def test_D2_single_precision_stays_single(operation: Operation, data: st.DataObject) -> None:
    case = data.draw(complex_cases(operation))
    options = {name: np.dtype("c8") if name == "dtype" else option for name, option in case.options.items()}
    single = replace(case, options=options).converted(np.float32)
    tensors = single.tensors()
    out = single(*tensors)
    assert out.dtype in (np.float32, np.complex64)
    out.backward(upstream(single, out))
    for tensor in tensors:
        if isinstance(tensor, Tensor):
            assert tensor.grad is not None and tensor.grad.dtype == tensor.dtype and tensor.grad.shape == tensor.shape


@every_complex
@few_examples
@given(data=st.data())
def test_on_tensors_it_is_numpys_function(operation: Operation, data: st.DataObject) -> None:
    case = data.draw(complex_cases(operation))
    value, recorded = case(), case(*case.tensors()).numpy()
    value = value[0] if isinstance(value, tuple) else value
    np.testing.assert_array_equal(recorded, value)
    for function, ours in IMPLEMENTATIONS.items():
        if ours is operation and function is not np.ndarray.astype and not case.options and not operation.sequence:
            np.testing.assert_array_equal(recorded, function(*case.inputs))


@every_real
@given(data=st.data())
@few_examples
def test_every_other_operation_refuses_complex_numbers_by_name(operation: Operation, data: st.DataObject) -> None:
    case = data.draw(cases(operation))
    for place in range(len(case.inputs)):
        if case.is_differentiable(place):
            tensors = list(case.inputs)
            tensors[place] = Tensor(case.inputs[place] + 1j)
            with pytest.raises(ta.errors.DtypeError, match=rf"{operation.name} takes real numbers, given complex ones"):
                case(*tensors)
