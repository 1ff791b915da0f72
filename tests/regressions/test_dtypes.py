"""Dtypes of results and gradients: faults seen in other engines, by their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.domain import RandomChooser

BUILT_IN = {name: operation for name, operation in ta.OPERATIONS.items() if "." not in name}

FLOATS = [np.float16, np.float32, np.float64]
NO_HALF_PRECISION = {name for name, f in BUILT_IN.items() if f.__module__.endswith(("inverse", "decompose", "eig"))}
NO_HALF_PRECISION |= {name for name, f in BUILT_IN.items() if f.__module__.endswith(("fourier", "complex"))}
OF_THEIR_OWN_DTYPE = {"astype", "float_power"}


@pytest.fixture
def default_float64() -> Iterator[None]:
    before = ta.get_default_dtype()
    ta.set_default_dtype(np.float64)
    yield
    ta.set_default_dtype(before)


SINGLE: dict[str, Callable[[ta.Tensor], Any]] = {
    "mean": lambda x: x.mean(),
    "max": lambda x: x.max(),
    "var": lambda x: x.var(),
    "std": lambda x: x.std(),
    "times float64": lambda x: x * np.float64(2.0),
    "mean of ints too": lambda x: (x * np.arange(3)).mean(),
    "through float64": lambda x: x.astype(np.float64) ** 2,
    "sum of a comparison": lambda x: (x * (x > 1.0)).sum(),
    "float64 upstream": lambda x: x @ np.ones((3, 2)),
}


@pytest.mark.parametrize("f", SINGLE.values(), ids=SINGLE)
def test_D1_a_float32_tensor_has_a_float32_gradient(f: Callable[[ta.Tensor], Any]) -> None:
    x = ta.Tensor(np.array([1.0, 2.0, 4.0], dtype=np.float32), requires_grad=True)
    f(x).sum().backward()
    assert x.grad is not None and x.grad.dtype == np.float32


@pytest.mark.parametrize("f", ["mean", "max", "var", "std", "sum", "prod", "cumsum"])
def test_D1_reductions_keep_float32(f: str) -> None:
    assert getattr(ta.Tensor([1.0, 2.0], dtype=np.float32), f)().dtype == np.float32


@pytest.mark.parametrize(
    ("name", "dtype"), [(n, d) for n in BUILT_IN for d in FLOATS if d != np.float16 or n not in NO_HALF_PRECISION]
)
def test_D2_results_and_gradients_have_the_dtype_of_the_inputs(name: str, dtype: Any) -> None:
    operation = BUILT_IN[name]
    assert operation.domain is not None
    choose = RandomChooser(np.random.default_rng(1))
    for _ in range(5):
        drawn = operation.domain(choose)
        options = {option: draw(choose, drawn) for option, draw in operation.option_domains.items()}
        inputs = [lowered(value, dtype) for value in drawn]
        for index, value in enumerate(inputs):
            parameter = operation.parameters[min(index, len(operation.parameters) - 1)]
            if isinstance(value, np.ndarray) and value.real.dtype == dtype and parameter in operation.rules:
                inputs[index] = ta.Tensor(value, requires_grad=True)
        tensors = [value for value in inputs if isinstance(value, ta.Tensor)]
        out = operation(*([inputs] if operation.sequence else inputs), **options)
        if operation.name not in OF_THEIR_OWN_DTYPE:
            assert out.numpy().real.dtype == dtype
        if tensors:
            out.backward(np.ones(out.shape, dtype))
        for tensor in tensors:
            assert tensor.grad is not None and tensor.grad.dtype == tensor.dtype


def lowered(value: Any, dtype: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind == "c":
        return value.astype(np.result_type(dtype, np.complex64))
    return value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def test_D3_python_scalars_are_weak_and_numpy_scalars_count_as_arrays() -> None:
    """As in NumPy 2 (NEP 50): the gradient is float32 either way."""
    x = ta.Tensor([1.0, 2.0], dtype=np.float32, requires_grad=True)
    assert (x * 2.0).dtype == (x * 2).dtype == (2.0 / x).dtype == (x**2).dtype == (x + True).dtype == np.float32
    assert np.maximum(x, 0.0).dtype == np.where(x > 1.0, x, 0.0).dtype == np.clip(x, 0.0, 1.0).dtype == np.float32
    assert (x * np.float64(2.0)).dtype == (x / np.sqrt(16)).dtype == (x * np.array(2.0)).dtype == np.float64
    assert (x * np.float32(2.0)).dtype == np.float32
    (x * np.float64(2.0)).sum().backward()
    assert x.grad is not None and x.grad.dtype == np.float32


def test_D3_attention_scales_without_widening() -> None:
    q = ta.Tensor(np.ones((1, 2, 4), np.float32), requires_grad=True)
    for weights in (False, True):
        out = ta.scaled_dot_product_attention(q, q, q, return_weights=weights)
        assert all(part.dtype == np.float32 for part in (out if weights else [out]))
    out = ta.scaled_dot_product_attention(q, q, q, scale=np.float64(0.5))
    assert out.dtype == np.float32


def test_D3_lists_and_numbers_become_the_default_dtype_and_arrays_keep_theirs() -> None:
    assert ta.Tensor([1.0, 2.0]).dtype == ta.Tensor(1.0).dtype == ta.Tensor([[0.5], [1]]).dtype == np.float32
    assert ta.Tensor(np.array([1.0])).dtype == ta.Tensor(np.float64(1.0)).dtype == np.float64
    assert ta.Tensor(ta.Tensor([1.0], dtype=np.float64)).dtype == np.float64
    assert ta.Tensor([1, 2]).dtype == np.int64
    assert ta.Tensor([True]).dtype == np.bool_


@pytest.mark.usefixtures("default_float64")
def test_D3_the_default_dtype_can_be_chosen() -> None:
    assert ta.Tensor([1.0]).dtype == np.float64
    assert ta.grad(lambda x: x * x)(3.0).dtype == np.float64


def test_D3_the_default_dtype_must_be_floating() -> None:
    with pytest.raises(ta.errors.DtypeError, match="must be floating"):
        ta.set_default_dtype(np.int64)
    assert ta.get_default_dtype() == np.float32


@pytest.mark.parametrize(
    "make",
    [
        lambda: ta.Tensor([1, 2], requires_grad=True),
        lambda: ta.Tensor(np.arange(3), requires_grad=True),
        lambda: ta.Tensor([1.0], dtype=np.int32, requires_grad=True),
        lambda: ta.Tensor.from_numpy(np.arange(3), requires_grad=True),
        lambda: ta.Tensor([1, 2]).requires_grad_(),
        lambda: ta.Tensor([True, False], requires_grad=True),
        lambda: ta.Tensor([True, False]).requires_grad_(),
        lambda: ta.grad(lambda x: x * 2.0)(3),
    ],
)
def test_D6_D8_whole_numbers_and_booleans_cannot_require_a_gradient(make: Callable[[], Any]) -> None:
    with pytest.raises(ta.errors.DtypeError, match="integers and booleans have no gradient") as caught:
        make()
    assert isinstance(caught.value, TypeError)


def test_D6_a_refused_tensor_stays_as_it_was() -> None:
    x = ta.Tensor([1, 2])
    with pytest.raises(ta.errors.DtypeError):
        x.requires_grad_()
    assert not x.requires_grad
    assert (x * 2.0).node is None


def test_D8_results_that_are_whole_numbers_carry_no_gradient() -> None:
    x = ta.Tensor([1.5, 2.5], requires_grad=True)
    whole = x.astype(np.int64)
    assert not whole.requires_grad and whole.node is None
    assert_array_equal(whole.numpy(), [1, 2])
    assert not isinstance(x > 1.0, ta.Tensor)


@pytest.mark.parametrize("data", [["a"], [None], [object()]], ids=repr)
def test_D8_only_numbers_and_booleans_make_a_tensor(data: Any) -> None:
    with pytest.raises(ta.errors.DtypeError, match="numbers or booleans"):
        ta.Tensor(data)


def test_D8_a_complex_result_of_what_takes_real_numbers_is_refused() -> None:
    with pytest.raises(ta.errors.DtypeError, match="maximum takes real numbers"):
        np.maximum(ta.Tensor([1.0], requires_grad=True), 1j)
    with pytest.raises(ta.errors.DtypeError, match=r"(?s)maximum .*complex"):
        np.maximum(ta.Tensor([1.0]), 1j)
