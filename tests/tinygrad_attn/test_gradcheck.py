"""The gradient checker: what it accepts, what it reports, and whom it blames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import Operation, Tensor, nn
from tinygrad_attn.errors import CheckError, GradientMismatch
from tinygrad_attn.gradcheck_report import GradcheckReport
from tinygrad_attn.modes import scope
from tinygrad_attn.registry import OPERATIONS

RNG = np.random.default_rng(11)


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> Operation:
    """tanh with the rule 1 − x²."""
    monkeypatch.setitem(ta.tanh.rules, "x", lambda g, out, x: g * (1.0 - x * x))
    return ta.tanh


# --- what it accepts -------------------------------------------------------------------------------------------------


def names(report: GradcheckReport) -> list[str]:
    return [check.name for check in report.checks]


def test_every_element_of_every_floating_input_is_compared() -> None:
    report = ta.gradcheck(lambda x, w, n: (x @ w) ** n, RNG.uniform(1.0, 2.0, (2, 3)), RNG.uniform(1.0, 2.0, (3, 4)), 2)
    assert names(report) == ["x", "w"]
    assert report.elements == 6 + 12


def test_if_some_tensors_require_a_gradient_only_those_are_checked() -> None:
    x, y = Tensor(np.ones(2), requires_grad=True), Tensor(np.ones(2))
    assert names(ta.gradcheck(lambda x, y: x * y, x, y)) == ["x"]


def test_lists_tuples_and_dicts_of_arrays_are_looked_into() -> None:
    def f(layers: Any, x: Any) -> Any:
        for layer in layers:
            x = ta.tanh(x @ layer["w"] + layer["b"])
        return x

    layers = [{"w": RNG.normal(size=(2, 2)), "b": RNG.normal(size=2)} for _ in range(2)]
    report = ta.gradcheck(f, layers, RNG.normal(size=(3, 2)))
    assert names(report) == ["layers[0]['w']", "layers[0]['b']", "layers[1]['w']", "layers[1]['b']", "x"]


def test_several_outputs_are_checked_together() -> None:
    def f(x: Tensor) -> dict[str, Any]:
        return {"sum": x.sum(), "rest": (ta.exp(x), x * 2.0), "argmax": x.argmax()}

    assert ta.gradgradcheck(f, RNG.normal(size=3)).elements > 6


def test_a_wrong_output_is_not_hidden_by_a_right_one(wrong_tanh: Operation) -> None:
    with pytest.raises(GradientMismatch):
        ta.gradcheck(lambda x: (ta.exp(x), wrong_tanh(x)), RNG.normal(size=3))


def test_operations_are_taken_as_they_are_with_options_lists_and_optional_operands() -> None:
    a, b = RNG.normal(size=(2, 3)), RNG.normal(size=(1, 3))
    assert names(ta.gradcheck(ta.concatenate, [a, b], axis=0)) == ["arrays[0]", "arrays[1]"]
    assert names(ta.gradcheck(ta.sum, a, axis=1, keepdims=True)) == ["x"]
    assert names(ta.gradcheck(ta.linear, a, b, None)) == ["x", "weight"]
    assert names(ta.gradcheck(ta.embedding, a, np.array([0, 1, 0]))) == ["weight"]


def test_inputs_without_a_rule_are_constants_of_an_operation() -> None:
    keep = np.array([0.0, 2.0])
    assert names(ta.gradcheck(OPERATIONS["apply_keep_mask"], np.ones(2), keep)) == ["x"]


def test_parameters_of_a_module_are_checked_where_they_stand() -> None:
    layer = nn.Linear(3, 2)
    for parameter in layer.parameters():
        parameter.requires_grad = False
    doubled = [Tensor(p.numpy().astype(np.float64), requires_grad=True, name=n) for n, p in layer.named_parameters()]
    layer.weight, layer.bias = (nn.Parameter(p) for p in doubled)
    before = layer.weight.numpy().copy()
    report = ta.gradgradcheck(layer, RNG.normal(size=(4, 3)), parameters=list(layer.parameters()))
    assert {"x", "dy"} < set(names(report)) and len(set(names(report))) == 4
    np.testing.assert_array_equal(layer.weight.numpy(), before)
    assert layer.weight.grad is None


def test_parameters_whose_memory_is_watched_are_given_back_as_they_were() -> None:
    array = np.array([0.5, 2.0])
    weight = Tensor.from_numpy(array, requires_grad=True, name="weight")
    report = ta.gradgradcheck(lambda x: ta.exp(x * weight), [1.0, -1.0], parameters=[weight])
    assert "weight" in names(report)
    assert array.tolist() == [0.5, 2.0]


def test_python_floats_and_nested_lists_are_inputs() -> None:
    assert ta.gradcheck(lambda x, y: x * y, 2.0, [[1.0, 2.0]]).elements == 3


def test_empty_inputs_have_nothing_to_compare_and_pass() -> None:
    assert ta.gradgradcheck(ta.exp, np.ones((0, 2))).elements == 0


def test_infinite_inputs_have_no_neighbourhood_and_are_left_out() -> None:
    bias = np.array([[0.0, -np.inf], [0.0, 0.0]])
    q, k, v = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3)), RNG.normal(size=(2, 2))
    report = ta.gradgradcheck(lambda q, k, v, bias: ta.scaled_dot_product_attention(q, k, v, bias=bias), q, k, v, bias)
    assert {check.excluded for check in report.checks if check.name == "bias"} == {1}


def test_it_works_inside_no_grad() -> None:
    with ta.no_grad():
        assert ta.gradgradcheck(ta.exp, [1.0, 2.0]).elements == 6


def test_it_leaves_the_shared_generator_as_it_was() -> None:
    ta.manual_seed(4)
    expected = ta.default_rng().random()
    ta.manual_seed(4)
    ta.gradcheck(lambda x: ta.exp(x) * reseeded(), [1.0])
    assert ta.default_rng().random() == expected


def reseeded() -> float:
    ta.manual_seed(1)
    return float(ta.default_rng().random())


def test_equal_seeds_give_equal_reports() -> None:
    x = RNG.normal(size=4)
    assert ta.gradcheck(ta.exp, x, seed=3) == ta.gradcheck(ta.exp, x, seed=3)
    assert ta.gradcheck(ta.exp, x, seed=3) != ta.gradcheck(ta.exp, x, seed=4)


# --- what it refuses -------------------------------------------------------------------------------------------------


def test_a_function_of_integers_has_nothing_to_check() -> None:
    with pytest.raises(CheckError, match="no input is floating"):
        ta.gradcheck(lambda ids: ids, np.array([1, 2]))


def test_a_function_that_returns_integers_has_nothing_to_differentiate() -> None:
    with pytest.raises(CheckError, match="returns nothing floating"):
        ta.gradcheck(lambda x: x.argmax(), [1.0, 2.0])


def test_a_name_in_exclude_that_no_input_has_is_refused() -> None:
    with pytest.raises(CheckError, match=r"weigth\n  inputs: weight"):
        ta.gradcheck(ta.embedding, np.ones((2, 2)), np.array([0]), exclude={"weigth": True})


def test_a_mask_in_exclude_must_fit_its_input() -> None:
    with pytest.raises(CheckError, match=r"exclude\['x'\] has shape \(3,\), the input \(2,\)"):
        ta.gradcheck(ta.exp, [1.0, 2.0], exclude={"x": [True, False, True]})


def test_a_function_that_returns_nan_is_refused() -> None:
    with np.errstate(invalid="ignore"), pytest.raises(CheckError, match="returns NaN"):
        ta.gradcheck(ta.sqrt, [-1.0])


def test_a_function_that_changes_its_input_is_refused() -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 2.0
        x._data[0] = 7.0
        return y

    with pytest.raises(CheckError, match="changes its input x in place"):
        ta.gradcheck(f, [1.0, 2.0])


def test_a_rule_that_draws_random_numbers_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setitem(OPERATIONS["apply_keep_mask"].rules, "x", lambda g, out, x, keep: g * rng.random(x.shape))
    with pytest.raises(CheckError, match="two backward passes"):
        ta.gradcheck(OPERATIONS["apply_keep_mask"], np.ones(3), np.ones(3))


def test_a_rule_that_uses_up_what_was_saved_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ta.layer_norm.joint_rule
    assert right is not None

    def greedy(g: Any, saved: Any, *inputs: Any, **options: Any) -> Any:
        answers = right(g, saved, *inputs, **options)
        saved[0][...] *= 2.0
        return answers

    monkeypatch.setattr(ta.layer_norm, "joint_rule", greedy)
    with pytest.raises(CheckError, match="change what its forward pass has saved"):
        ta.gradcheck(ta.layer_norm, RNG.normal(size=(2, 3)), np.ones(3), np.zeros(3))


# --- second derivatives ----------------------------------------------------------------------------------------------


def test_second_derivatives_are_checked_by_the_input_and_by_what_arrives() -> None:
    report = ta.gradgradcheck(ta.sin, [0.3, 0.4])
    assert [(check.order, check.name) for check in report.checks] == [(1, "x"), (2, "x"), (2, "dy")]


def test_third_derivatives_too() -> None:
    report = ta.gradcheck(lambda x: x**4, [0.7, -1.2], order=3)
    assert names(report) == ["x", "x", "dy", "x", "dy", "at dx"]


def test_a_rule_that_cannot_be_differentiated_is_found_in_second_order_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ta.exp.rules, "x", lambda g, out, x: g * np.asarray(out))
    ta.gradcheck(ta.exp, [1.0, 2.0])
    with pytest.raises(GradientMismatch, match="derivative 2 of x"):
        ta.gradgradcheck(ta.exp, [1.0, 2.0])


def test_a_recorded_gradient_that_differs_from_the_ordinary_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(g: Any, out: Any, x: Any) -> Any:
        return g * out * (2.0 if isinstance(x, Tensor) else 1.0)

    monkeypatch.setitem(ta.exp.rules, "x", off)
    with pytest.raises(GradientMismatch, match="with create_graph=True the gradient of x is another one") as caught:
        ta.gradgradcheck(ta.exp, [1.0, 2.0])
    assert caught.value.operation == "exp"


# --- whom it blames --------------------------------------------------------------------------------------------------


def encoder_layer(x: Tensor, w: Tensor) -> Tensor:
    with scope("encoder.feed_forward"):
        hidden = ta.tanh(x @ w)
    return ta.softmax(hidden + x, axis=-1) * x


def test_in_a_composite_the_operation_at_fault_is_named(wrong_tanh: Operation) -> None:
    with pytest.raises(GradientMismatch) as caught:
        ta.gradcheck(encoder_layer, RNG.normal(size=(2, 3)), RNG.normal(size=(3, 3)))
    error = caught.value
    assert error.operation == "tanh"
    assert "at fault: the rule of tanh for x, in encoder.feed_forward" in str(error)
    assert ta.tanh.formulas["x"] in str(error)


def test_the_reference_of_a_fused_operation_is_searched_for_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ta.sqrt.rules, "x", lambda g, out, x: g / out)
    with pytest.raises(GradientMismatch, match="inside the reference of layer_norm") as caught:
        ta.gradgradcheck(ta.layer_norm, RNG.normal(size=(2, 3)), RNG.normal(size=3), RNG.normal(size=3))
    assert caught.value.operation == "sqrt"


@pytest.mark.parametrize(
    "leave",
    [lambda x: x.detach() * x, lambda x: Tensor(x.numpy()) * x, lambda x: float(x.sum()) * x],
    ids=["detach", "numpy", "float"],
)
def test_a_value_that_leaves_the_graph_is_suspected_and_no_operation_is_blamed(leave: Any) -> None:
    with pytest.raises(GradientMismatch, match="leave the graph") as caught:
        ta.gradcheck(leave, np.array([1.5]))
    assert caught.value.operation == ""


def test_a_function_that_records_nothing_is_told_so() -> None:
    with pytest.raises(GradientMismatch, match="no operation is recorded"):
        ta.gradcheck(lambda x: Tensor(2.0 * x.numpy()), [1.0, 2.0])


def test_excluded_elements_are_not_held_against_an_operation_inside(wrong_tanh: Operation) -> None:
    def f(weight: Tensor) -> Tensor:
        return wrong_tanh(ta.embedding(weight, np.array([0, 1]), padding_index=0))

    with pytest.raises(GradientMismatch) as caught:
        ta.gradcheck(f, RNG.normal(size=(2, 2)), exclude={"weight": [[True], [False]]})
    assert caught.value.operation == "tanh"


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        (lambda g, out, x: -g * np.cos(x), "its sign is turned"),
        (lambda g, out, x: 3.0 * g * np.cos(x), "off by the factor 3"),
        (lambda g, out, x: 0.0 * g, "zero throughout"),
        (lambda g, out, x: g * np.nan, "NaN or infinity"),
    ],
)
def test_the_pattern_of_an_error_is_told(monkeypatch: pytest.MonkeyPatch, rule: Any, hint: str) -> None:
    monkeypatch.setitem(ta.sin.rules, "x", rule)
    with pytest.raises(GradientMismatch, match=hint):
        ta.gradcheck(ta.sin, RNG.uniform(-1.0, 1.0, 4))


# --- what it reports -------------------------------------------------------------------------------------------------


def test_a_report_is_a_table_that_fits_a_terminal() -> None:
    report = ta.gradgradcheck(
        ta.attention, *(RNG.normal(size=(2, 2, 3)) for _ in range(3)), None, None, None, scale=0.5
    )
    text = str(report)
    assert text.startswith("attention: gradients agree with central differences (largest errors)\n  order  input")
    assert all(len(line) <= 80 for line in text.splitlines())
    assert report.max_relative_error < 1e-6
    assert report.elements == sum(check.elements for check in report.checks)


def test_a_mismatch_fits_a_terminal(wrong_tanh: Operation) -> None:
    with pytest.raises(GradientMismatch) as caught:
        ta.gradcheck(encoder_layer, RNG.normal(size=(2, 3)), RNG.normal(size=(3, 3)))
    assert all(len(line) <= 80 for line in str(caught.value).splitlines())


def test_rounding_that_hides_a_slope_is_counted_as_unresolved() -> None:
    report = ta.gradcheck(lambda x: x * 1e-12 + 1e8, [1.0])
    assert (report.elements, report.unresolved) == (1, 1)


def test_rounding_alone_is_no_slope() -> None:
    """Nothing but rounding errors of numbers near 1 is left of the function, and its slope is 0."""

    def nothing(x: Tensor) -> Tensor:
        return ta.sin(x) ** 2 + ta.cos(x) ** 2 - 1.0

    ta.gradgradcheck(nothing, RNG.uniform(-3.0, 3.0, 100))


# --- operations of the registry --------------------------------------------------------------------------------------


def test_an_operation_is_checked_on_what_its_domain_draws() -> None:
    check = ta.check_operation(ta.matmul, draws=5)
    assert check.passed and check.draws == 5 and check.elements > 0
    assert set(check.max_relative_error) == {1, 2} and max(check.max_relative_error.values()) < 1e-6
    assert str(check).startswith("matmul") and "\n" not in str(check) and len(str(check)) <= 80


def test_the_first_failure_of_an_operation_is_returned_not_raised(wrong_tanh: Operation) -> None:
    check = ta.check_operation(wrong_tanh, draws=30)
    assert not check.passed
    assert isinstance(check.failure, GradientMismatch)
    assert str(check).startswith("tanh") and "FAILED" in str(check) and "\n" not in str(check)


def test_an_operation_without_a_domain_is_refused() -> None:
    def forward(x: Any) -> Any:
        return x

    with pytest.raises(CheckError, match="does not say which inputs"):
        ta.check_operation(Operation(forward))
