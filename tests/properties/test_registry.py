"""What the registry promises: no operation without domain, rule, formula and docstring, and nothing left untracked."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.properties.strategies import BUILT_IN, Case, DrawChooser, cases
from tinygrad_attn import OPERATIONS, Operation, Tensor
from tinygrad_attn.conversions import Conversions
from tinygrad_attn.domain import RandomChooser
from tinygrad_attn.methods import ArrayMethods

every_operation = pytest.mark.parametrize("operation", BUILT_IN.values(), ids=BUILT_IN)


@every_operation
def test_it_says_which_inputs_and_options_may_be_drawn(operation: Operation) -> None:
    assert operation.domain is not None
    assert set(operation.option_domains) == set(operation.options)


@every_operation
def test_it_has_a_docstring_with_its_formula(operation: Operation) -> None:
    doc = inspect.getdoc(operation) or ""
    summary, _, rest = doc.partition("\n")
    assert summary
    assert re.search(r"^\s*[^\s=].*\s=\s\S", rest, flags=re.MULTILINE), "no line such as `y = f(x)`"


@every_operation
def test_every_rule_has_a_formula(operation: Operation) -> None:
    assert operation.rules
    assert operation.formulas.keys() == operation.rules.keys()
    for parameter, formula in operation.formulas.items():
        assert formula.startswith("d"), f"{parameter}: {formula!r}"
        assert "=" in formula


@every_operation
def test_it_differentiates_its_first_floating_input(operation: Operation) -> None:
    """An operation of whose inputs none is differentiable would be no operation."""
    drawn = Case(operation, operation.domain(RandomChooser(np.random.default_rng(0))), {}, 0)
    assert any(drawn.is_differentiable(position) for position in range(len(drawn.inputs)))


# A padding row has no slope to compare with (its gradient is 0 on purpose); of pad's modes one has a rule.
AT_DEFAULT = {("embedding", "padding_index"), ("pad", "mode")}


@every_operation
def test_its_options_vary_over_draws(operation: Operation) -> None:
    """An option that is always drawn at its default is not tested."""
    choose = RandomChooser(np.random.default_rng(0))
    seen: dict[str, set[str]] = {name: set() for name in operation.option_domains}
    for _ in range(60):
        inputs = operation.domain(choose)
        for name, option in operation.option_domains.items():
            seen[name].add(repr(option(choose, inputs)))
    for name, values in seen.items():
        if (operation.name, name) in AT_DEFAULT:
            continue
        assert values - {repr(operation.options[name])}, f"{name} is never anything but its default"


# --- what hypothesis draws -------------------------------------------------------------------------------------------


@st.composite
def reals_of_any_shape(draw: Any) -> Any:
    choose = DrawChooser(draw)
    return choose.reals(choose.shape())


few = settings(max_examples=2000, database=None, phases=tuple(Phase))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0), (1, 1, 1)])
def test_C12_empty_single_and_0d_arrays_are_drawn(shape: tuple[int, ...]) -> None:
    assert find(reals_of_any_shape(), lambda array: array.shape == shape, settings=few).shape == shape


def test_C12_zeros_of_both_signs_and_ties_are_drawn() -> None:
    find(reals_of_any_shape(), lambda array: array.size and (np.signbit(array) & (array == 0)).any(), settings=few)
    find(reals_of_any_shape(), lambda array: len(np.unique(array)) < array.size - 1, settings=few)


def test_a_failure_shrinks_to_a_small_example() -> None:
    smallest = find(cases(BUILT_IN["add"]), lambda case: case.inputs[0].size > 1, settings=few)
    assert max(value.size for value in smallest.inputs) == 2
    assert not any(value.any() for value in smallest.inputs)


@given(data=st.data())
def test_the_two_choosers_keep_the_same_promises(data: st.DataObject) -> None:
    for choose in (DrawChooser(data.draw), RandomChooser(np.random.default_rng(data.draw(st.integers(0, 99))))):
        shape = choose.shape(1, 2, 0, 3)
        assert 1 <= len(shape) <= 2 and all(0 <= side <= 3 for side in shape)
        reals = choose.reals(shape, -1.0, 1.0, avoid=(0.0,))
        assert reals.shape == shape and reals.dtype == np.float64
        assert (np.abs(reals) >= 0.05 - 1e-12).all() and (np.abs(reals) <= 1.0).all()
        distinct = choose.distinct((2, 3))
        assert np.diff(np.sort(distinct, axis=None)).min() >= 0.1 - 1e-9
        assert choose.booleans(shape).dtype == bool
        whole = choose.integers(shape, -2, 5)
        assert whole.shape == shape and ((whole >= -2) & (whole <= 5)).all()
        assert choose.pick("abc") in "abc"


# --- nothing is silently untracked -----------------------------------------------------------------------------------

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "__add__": (2.0,),
    "__radd__": (2.0,),
    "__sub__": (2.0,),
    "__rsub__": (2.0,),
    "__mul__": (2.0,),
    "__rmul__": (2.0,),
    "__truediv__": (2.0,),
    "__rtruediv__": (2.0,),
    "__pow__": (2.0,),
    "__rpow__": (2.0,),
    "__matmul__": (np.ones((2, 2)),),
    "__rmatmul__": (np.ones((2, 2)),),
    "__mod__": (2.0,),
    "__rmod__": (2.0,),
    "__getitem__": (0,),
    "astype": (np.float64,),
    "clip": (0.0, 1.0),
    "compress": ([True, False], 0),
    "diagonal": (),
    "dot": (np.ones((2, 2)),),
    "repeat": (2,),
    "reshape": ((4,),),
    "swapaxes": (0, 1),
    "take": ([0, 1],),
    "to": (np.float64,),
}
# What answers in plain values: it has no slope, or a slope of zero wherever it has one.
PLAIN = {
    *("argmax", "argmin", "argsort", "nonzero", "all", "any", "round", "__round__", "searchsorted", "item", "tolist"),
    *("__floordiv__", "__rfloordiv__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"),
    *("__bool__", "__float__", "__complex__", "__int__", "__index__", "__len__", "__array__"),
}
# What answers with several Tensors, what hands on to other methods, what changes a leaf in place, and what refuses.
OTHER = {
    *("__iadd__", "__isub__", "__imul__", "__itruediv__"),
    *("__divmod__", "__rdivmod__", "__iter__", "__array_ufunc__", "__array_function__", "__setitem__"),
    "_refuse_to_be_stored",
}

METHODS = sorted(
    name
    for name, member in [*vars(ArrayMethods).items(), *vars(Conversions).items()]
    if (callable(member) or isinstance(member, property)) and name not in PLAIN | OTHER
)


@pytest.mark.parametrize("name", METHODS)
def test_G14_every_floating_method_of_a_tensor_is_tracked(name: str) -> None:
    x = Tensor([[0.5, 1.5], [2.5, 0.25]], dtype=np.float64, requires_grad=True)
    member = getattr(x, name)
    out = member(*ARGUMENTS.get(name, ())) if callable(member) and not isinstance(member, Tensor) else member
    assert isinstance(out, Tensor)
    assert out.dtype == np.float64
    assert out.requires_grad
    out.backward(np.ones(out.shape))
    assert x.grad is not None and x.grad.shape == x.shape


@every_operation
def test_G14_every_operation_is_tracked_by_each_input_that_has_a_rule(operation: Operation) -> None:
    choose = RandomChooser(np.random.default_rng(1))
    inputs = operation.domain(choose)
    options = {name: option(choose, inputs) for name, option in operation.option_domains.items()}
    case = Case(operation, inputs, options, 0)
    for position in range(len(inputs)):
        if case.is_differentiable(position):
            tracked = list(inputs)
            tracked[position] = Tensor(inputs[position], requires_grad=True)
            assert case(*tracked).requires_grad


def test_an_operation_of_one_s_own_is_registered_and_checked_like_a_built_in_one() -> None:
    @ta.op(domain=lambda choose: (choose.reals(choose.shape()),))
    def cube(x: Any) -> Any:
        """Third power.

        y = x³
        """
        return x * x * x

    @cube.gradient("x", formula="dx = 3x² dy")
    def _(g: Any, out: Any, x: Any) -> Any:
        return g * 3.0 * x * x

    try:
        assert cube in OPERATIONS.values()
        assert ta.check_operation(cube).passed
    finally:
        OPERATIONS.pop(f"{cube.__module__}.cube")
