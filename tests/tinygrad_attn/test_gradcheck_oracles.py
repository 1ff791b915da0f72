"""The second opinions of the gradient checker: the complex step, and jvp against vjp; and how its report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.properties.mistakes import MISTAKES, Mistake
from tinygrad_attn import Operation, Tensor
from tinygrad_attn.errors import GradientMismatch
from tinygrad_attn.gradcheck_oracles import ComplexStep, products
from tinygrad_attn.gradcheck_report import GradcheckReport, InputCheck, OracleCheck

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 3))


def stepped(f: Any, *arrays: Any) -> tuple[ComplexStep, list[Tensor], Any]:
    leaves = [Tensor(np.asarray(array, dtype=np.float64), requires_grad=True) for array in arrays]
    out = f(*leaves)
    return ComplexStep([out], leaves, np.random.default_rng(0)), leaves, out


def complex_slopes(f: Any, x: Any) -> Any:
    """The gradient of the sum of f by the complex step."""
    oracle, [leaf], out = stepped(f, x)
    assert oracle.refused == ""
    return np.array([oracle.slope(0, index, [np.ones(out.shape)]) for index in np.ndindex(leaf.shape)])


def asked(report: GradcheckReport, name: str, order: int = 1) -> OracleCheck:
    [found] = [oracle for oracle in report.oracles if (oracle.name, oracle.order) == (name, order)]
    return found


# --- the complex step ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (ta.exp, np.exp),
        (ta.sin, np.cos),
        (ta.tanh, lambda x: 1.0 / np.cosh(x) ** 2),
        (lambda x: 1.0 / x, lambda x: -1.0 / x**2),
        (lambda x: x**3 * ta.exp(-x), lambda x: (3.0 * x**2 - x**3) * np.exp(-x)),
    ],
    ids=["exp", "sin", "tanh", "1/x", "x³ exp(−x)"],
)
def test_it_gives_slopes_to_the_last_digits(f: Any, slope: Any) -> None:
    x = np.array([0.3, 1.7, 1e-3])
    np.testing.assert_allclose(complex_slopes(f, x), slope(x), rtol=4e-15)


def test_it_sees_what_rounding_hides_from_differences() -> None:
    np.testing.assert_allclose(complex_slopes(lambda x: x * 1e-12 + 1e8, [1.0]), [1e-12], rtol=1e-15)


@pytest.mark.parametrize(
    "operation", [ta.absolute, ta.sigmoid, ta.erf, ta.var, ta.norm, ta.logabsdet], ids=lambda operation: operation.name
)
def test_a_formula_that_is_not_analytic_or_refuses_complex_numbers_is_named(operation: Operation) -> None:
    oracle, _, _ = stepped(lambda x: operation(ta.exp(x)).sum(), RNG.normal(size=(3, 3)))
    assert oracle.refused == operation.name


def test_a_formula_that_drops_the_imaginary_part_unseen_is_found_out() -> None:
    def real_part(x: Any) -> Any:
        return np.real(x) * (1.0 + 0.0 * x)

    operation = Operation(real_part)
    operation.gradient("x")(lambda g, out, x: g)
    oracle, _, _ = stepped(operation, [1.0, 2.0])
    assert oracle.refused == "real_part"
    assert asked(ta.gradcheck(operation, [1.0, 2.0]), "complex step").reason


def test_where_it_contradicts_differences_that_agree_with_the_rule_it_is_not_believed() -> None:
    def fooling(x: Any) -> Any:
        """Analytic along every direction but the axes, which are what slopes are asked along."""
        return x if np.count_nonzero(np.imag(x)) != 1 else np.real(x) + 0j

    operation = Operation(fooling)
    operation.gradient("x")(lambda g, out, x: g)
    oracle = asked(ta.gradcheck(operation, [1.0, 2.0]), "complex step")
    assert (oracle.elements, oracle.reason) == (0, "differences contradict it at x[0]")


@pytest.mark.parametrize("operation", [ta.matmul, ta.softmax, ta.layer_norm, ta.solve], ids=lambda o: o.name)
def test_formulas_that_are_analytic_allow_it_in_both_orders(operation: Operation) -> None:
    square = RNG.normal(size=(3, 3)) + 3.0 * np.eye(3)
    inputs = {"softmax": (X,), "layer_norm": (X, np.ones(3), np.zeros(3))}.get(operation.name, (square, square.T))
    report = ta.gradgradcheck(operation, *inputs)
    for order in (1, 2):
        oracle = asked(report, "complex step", order)
        assert oracle.elements == sum(check.elements for check in report.checks if check.order == order)
        assert oracle.max_relative_error < 1e-12


def test_infinite_scores_do_not_disturb_it() -> None:
    bias = np.array([0.0, -np.inf, 0.0])
    report = ta.gradcheck(lambda x: ta.softmax(x + bias), X)
    assert asked(report, "complex step").elements == X.size


def test_slopes_too_small_for_it_are_not_held_against_a_rule() -> None:
    assert ta.gradcheck(ta.matmul, [0.0, 0.0], [0.0, 2.3e-238]).elements == 4


def mistake(name: str) -> Mistake:
    [found] = [mistake for mistake in MISTAKES if mistake.name == name]
    return found


@pytest.mark.parametrize(
    "name",
    [
        "softmax: the sum is missing",
        "tanh: 1 − x² instead of 1 − y²",
        "matmul: the factors are in the wrong order",
        "layer_norm: the variance is taken for a constant",
    ],
)
def test_it_contradicts_a_wrong_rule_without_any_differences(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = mistake(name)
    upstream = RNG.normal(size=wrong.function(*wrong.inputs, **wrong.options).shape)

    def both() -> tuple[Any, Any]:
        oracle, leaves, out = stepped(lambda *inputs: wrong.function(*inputs, **wrong.options), *wrong.inputs)
        out.backward(upstream)
        exact = [[oracle.slope(i, at, [upstream]) for at in np.ndindex(x.shape)] for i, x in enumerate(leaves)]
        return np.concatenate(exact), np.concatenate([np.ravel(leaf.grad) for leaf in leaves])

    exact, right = both()
    np.testing.assert_allclose(right, exact, rtol=1e-12, atol=1e-14)
    wrong.inject(monkeypatch)
    unmoved, spoilt = both()
    np.testing.assert_array_equal(unmoved, exact)
    assert not np.allclose(spoilt, exact, rtol=1e-3)


def test_a_wrong_rule_that_differences_cannot_see_is_found_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ta.sin.rules, "x", lambda g, out, x: g * (np.cos(x) + 0.1))

    def hidden(x: Tensor) -> Tensor:
        return ta.sin(x) * 1e-4 + 1e8

    with pytest.raises(GradientMismatch, match="complex step") as caught:
        ta.gradcheck(hidden, [0.5])
    assert caught.value.operation == "sin"
    assert all(len(line) <= 80 for line in str(caught.value).splitlines())


# --- jvp against vjp -------------------------------------------------------------------------------------------------


def test_pushing_forward_and_pulling_back_give_the_same_product() -> None:
    w = RNG.normal(size=(3, 2))
    free = [np.zeros(X.shape, bool), np.zeros(w.shape, bool)]

    def f(values: Sequence[Tensor]) -> list[Any]:
        return [ta.tanh(values[0] @ values[1]), values[0].sum()]

    found = products(f, [X, w], free, [RNG.normal(size=(2, 2)), np.array(2.0)], RNG)
    assert found is not None and found.by_jvp != 0.0
    assert abs(found.by_jvp - found.by_vjp) <= 1e-13 * found.size


def test_it_is_a_line_of_its_own_in_first_order_only() -> None:
    report = ta.gradgradcheck(ta.softmax, X)
    assert [oracle.order for oracle in report.oracles if oracle.name == "jvp against vjp"] == [1]
    assert asked(report, "jvp against vjp").max_relative_error < 1e-13


def test_a_rule_that_takes_the_arriving_gradient_for_a_constant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gradient is right, and every slope of the function agrees with it: only jvp goes wrong."""
    monkeypatch.setitem(ta.exp.rules, "x", lambda g, out, x: np.asarray(ta.Tensor(g).numpy()) * out)
    with pytest.raises(GradientMismatch, match="jvp and vjp disagree") as caught:
        ta.gradcheck(lambda x: ta.exp(x) + x, [1.0, 2.0])
    assert caught.value.operation == "exp"


def test_a_rule_that_tensors_do_not_go_through_is_no_mistake_in_first_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain_only(g: Any, out: Any, x: Any) -> Any:
        if isinstance(g, Tensor):
            raise TypeError("arrays only")
        return g * np.cos(x)

    monkeypatch.setitem(ta.sin.rules, "x", plain_only)
    assert "not to be had" in str(asked(ta.gradcheck(ta.sin, X), "jvp against vjp"))


# --- the report ------------------------------------------------------------------------------------------------------


class Cells(HTMLParser):
    """The text of each cell, and every tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_html_table_says_what_the_plain_one_says() -> None:
    report = ta.gradgradcheck(lambda x: x * 1e-12 + 1e8, [1.0])
    cells = Cells(report.html())
    plain_lines = str(report).splitlines()
    assert plain_lines[0] in cells.texts
    for check in report.checks:
        assert {check.name, str(check.shape), f"{check.max_absolute_error:.1e}"} <= set(cells.texts)
    for oracle in report.oracles:
        assert str(oracle) in cells.texts and f"  {oracle}" in plain_lines
    assert "1 unresolved" in cells.texts
    assert plain_lines[-1].startswith("  unresolved: ") and plain_lines[-1].strip() in cells.texts
    assert cells.tags.count("tr") == 1 + len(report.checks) + len(report.oracles) + 1


def test_names_are_text_in_html_whatever_they_hold() -> None:
    check = InputCheck("<b>&", (1,), 1, 1, 0, 0, 0.0, 0.0)
    report = GradcheckReport("<script>", (check,), (OracleCheck("complex step", 1, 0, 0.0, "by <i>"),))
    cells = Cells(report.html())
    assert {"<b>&", "<script>: gradients agree with central differences (largest errors)"} <= set(cells.texts)
    assert not {"script", "b", "i"} & set(cells.tags)


def test_a_notebook_shows_the_table() -> None:
    report = ta.gradcheck(ta.exp, X)
    assert report._repr_html_() == report.html()


def test_every_line_about_an_oracle_fits_a_terminal() -> None:
    reports = [ta.gradgradcheck(ta.exp, X), ta.gradgradcheck(ta.absolute, X)]
    assert all(len(line) <= 80 for report in reports for line in str(report).splitlines())
