"""Which NumPy functions accept a Tensor, what the rest say, and the page that lists them."""

from __future__ import annotations

import importlib.util
import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.registry import IMPLEMENTATIONS, apply, implements, numpy_name, supported_names

DOCS = Path(__file__).resolve().parents[2] / "docs"
BUILT_IN = {name: operation for name, operation in ta.OPERATIONS.items() if "." not in name}


def variable(values: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True)


def test_names_are_those_that_users_write() -> None:
    assert numpy_name(np.exp) == "np.exp"
    assert numpy_name(np.linalg.norm) == "np.linalg.norm"
    assert numpy_name(np.fft.fft) == "np.fft.fft"
    assert numpy_name(np.ndarray.astype) == "ndarray.astype"
    assert {"np.matmul", "np.where", "np.linalg.norm", "np.concatenate"} <= set(supported_names())
    assert all(name.startswith(("np.", "ndarray.")) for name in supported_names())


@pytest.mark.parametrize(
    ("call", "name", "nearest"),
    [
        (lambda t: np.linalg.cond(t), "np.linalg.cond", "np.linalg."),
        (lambda t: np.nanmedian(t), "np.nanmedian", "np.nanmean"),
        (lambda t: np.trim_zeros(t), "np.trim_zeros", "np."),
        (lambda t: np.busday_offset(t, 1), "np.busday_offset", "docs/numpy.md"),
        (lambda t: np.gcd(t, t), "np.gcd", "np."),
        (lambda t: np.nanquantile(t, 0.5), "np.nanquantile", "np.quantile"),
    ],
)
def test_a_function_without_a_rule_names_itself_and_the_nearest(call: Any, name: str, nearest: str) -> None:
    with pytest.raises(ta.errors.UnsupportedFunctionError) as caught:
        call(variable([1.0, 2.0]))
    message = str(caught.value)
    assert message.startswith(f"{name} has no gradient rule for a Tensor\n  ")
    assert nearest in message and f"{name}(tensor.numpy())" in message
    assert isinstance(caught.value, TypeError)


def test_a_ufunc_method_without_a_rule_names_those_that_have_one() -> None:
    with pytest.raises(ta.errors.UnsupportedFunctionError, match=r"np\.add\.reduceat has no .*\n  known are reduce, "):
        np.add.reduceat(variable([1.0]), [0])


def test_options_that_numpy_has_and_we_do_not_are_named() -> None:
    with pytest.raises(
        ta.errors.UnsupportedFunctionError, match=r"clip\(\) takes no option 'where' on a Tensor\n.* min"
    ):
        np.clip(variable([1.0, 2.0]), 0.0, 1.0, where=np.array([True, False]))
    with pytest.raises(ta.errors.UnsupportedFunctionError, match=r"takes no option 'where'"):
        np.exp(variable([1.0]), where=np.array([False]))
    assert np.sum(variable([1.0, 2.0]), axis=None, out=None).item() == 3.0


def test_what_numpy_does_anyway_may_be_said() -> None:
    t = variable([[1.0, 2.0], [3.0, 4.0]])
    assert np.reshape(t, (4,), order="C").shape == (4,)
    assert np.stack((t, t), axis=0, dtype=None, casting="same_kind").shape == (2, 2, 2)
    assert np.exp(t, where=True, casting="same_kind").shape == (2, 2)


def test_functions_that_write_into_an_array_are_not_offered_as_the_nearest() -> None:
    assert not {"np.put", "np.copyto", "np.putmask"} & set(supported_names())


def test_implements_connects_a_numpy_function() -> None:
    assert np.nanmedian not in IMPLEMENTATIONS

    @implements(np.nanmedian)
    def nanmedian(x: Any) -> Any:
        return np.median(x)

    try:
        assert np.nanmedian(variable([1.0, 3.0])).item() == 2.0
        assert apply(np.nanmedian, variable([1.0, 3.0])).requires_grad
    finally:
        del IMPLEMENTATIONS[np.nanmedian]


@pytest.mark.parametrize("operation", BUILT_IN.values(), ids=BUILT_IN)
def test_every_operation_is_described_and_can_be_tested(operation: ta.Operation) -> None:
    assert operation.__doc__ and operation.__doc__.strip()
    assert operation.rules, "it has no gradient rule"
    assert all(operation.formulas[parameter] for parameter in operation.rules), "a rule has no formula"
    assert operation.domain is not None
    assert set(operation.option_domains) == set(operation.options), "an option has no domain"


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_operation_can_be_reached_by_its_name(name: str) -> None:
    if name == "identity":
        assert ta.identity is BUILT_IN[name]
        return
    public = getattr(ta.ops, name)
    assert public is BUILT_IN[name] or callable(public)
    assert name in ta.ops.__all__


def test_the_names_that_the_package_exports_exist_once_and_are_public() -> None:
    for module in (ta, ta.ops):
        assert len(set(module.__all__)) == len(module.__all__)
        assert all(hasattr(module, name) and not name.startswith("_") for name in module.__all__)
    assert set(ta.ops.__all__) <= set(ta.__all__)


PLAIN_CALLS: dict[str, Any] = {
    "sign": lambda t: np.sign(t),
    "floor": lambda t: np.floor(t),
    "argmax": lambda t: np.argmax(t),
    "isnan": lambda t: np.isnan(t),
    "allclose": lambda t: np.allclose(t, t),
    "zeros_like": lambda t: np.zeros_like(t),
    "shape": lambda t: np.shape(t),
    "any": lambda t: np.any(t),
    "less": lambda t: np.less(t, 1.5),
    "result_type": lambda t: np.result_type(t),
    "nonzero": lambda t: np.nonzero(t),
    "matrix_rank": lambda t: np.linalg.matrix_rank(t),
    "searchsorted": lambda t: np.searchsorted(t, [1.5]),
    "unique": lambda t: np.unique(t),
    "argsort by keyword": lambda t: np.argsort(a=t),
}


@pytest.mark.parametrize("call", PLAIN_CALLS.values(), ids=PLAIN_CALLS)
def test_functions_without_a_derivative_answer_with_plain_values(call: Any) -> None:
    t = variable([1.0, 2.0])
    answer, expected = call(t), call(t.numpy())
    assert not isinstance(answer, ta.Tensor)
    assert type(answer) is type(expected)
    np.testing.assert_array_equal(answer, expected)


def test_docs_numpy_md_is_current() -> None:
    """If this fails, an operation was added or renamed: run `python docs/numpy_table.py`."""
    if not hasattr(np, "matvec"):
        pytest.skip("this NumPy lacks functions that the page lists; it is made with NumPy 2.2 or newer")
    specification = importlib.util.spec_from_file_location("numpy_table", DOCS / "numpy_table.py")
    assert specification is not None and specification.loader is not None
    table = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(table)
    assert (DOCS / "numpy.md").read_text(encoding="utf-8") == table.page()


def test_indexing_is_registered_under_the_operator() -> None:
    assert operator.getitem in IMPLEMENTATIONS
    assert "getitem" in ta.OPERATIONS
