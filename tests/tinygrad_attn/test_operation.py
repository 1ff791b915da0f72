"""Operations: how they are made, called, recorded and differentiated, and what a wrong rule meets."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.errors import ArgumentError
from tinygrad_attn.registry import IMPLEMENTATIONS


def variable(values: Any, **settings: Any) -> ta.Tensor:
    return ta.Tensor(values, dtype=np.float64, requires_grad=True, **settings)


@pytest.fixture(autouse=True)
def registry_as_before() -> Iterator[None]:
    tables: list[dict[Any, Any]] = [ta.OPERATIONS, IMPLEMENTATIONS]
    before = [dict(table) for table in tables]
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)


def cube(rule: Callable[..., Any] | None = None) -> ta.Operation:
    @ta.op
    def cube(x: Any) -> Any:
        """Third power."""
        return x * x * x

    cube.gradient("x", formula="dx = 3x² dy")(rule or (lambda g, out, x: g * 3.0 * x * x))
    return cube


# --- one's own operation ---------------------------------------------------------------------------------------------


def test_a_bare_op_is_a_function_with_a_gradient_of_every_order() -> None:
    f = cube()
    assert isinstance(f, ta.Operation)
    assert f(2.0) == 8.0 and isinstance(f(np.array([2.0])), np.ndarray)
    assert [d(2.0).item() for d in (ta.grad(f), ta.grad(ta.grad(f)), ta.grad(ta.grad(ta.grad(f))))] == [12.0, 12.0, 6.0]
    assert f.__name__ == "cube" and f.__doc__ == "Third power." and f.formulas == {"x": "dx = 3x² dy"}
    assert repr(f) == "<operation cube(x)>"


def test_users_operations_are_registered_under_the_name_of_their_module() -> None:
    f = cube()
    assert ta.OPERATIONS[f"{__name__}.cube"] is f
    assert "cube" not in ta.OPERATIONS


def test_an_operation_may_stand_behind_a_numpy_function() -> None:
    half = np.frompyfunc(lambda x: x / 2.0, 1, 1)  # a ufunc like NumPy's own

    for _ in range(2):  # once more, as when the cell of a notebook is run again

        @ta.op(half, symbol="½")
        def halved(x: Any) -> Any:
            return x / 2.0

        halved.gradient("x")(lambda g, out, x: g / 2.0)
    assert ta.grad(lambda x: half(x) ** 2)(3.0).item() == 1.5
    assert halved.symbol == "½"


def test_only_the_rules_that_are_needed_run() -> None:
    ran = []

    @ta.op
    def scaled(a: Any, b: Any) -> Any:
        return a * b

    scaled.gradient("a")(lambda g, out, a, b: (ran.append("a"), g * b)[1])
    scaled.gradient("b")(lambda g, out, a, b: (ran.append("b"), g * a)[1])
    scaled(variable(2.0), 3.0).backward()
    assert ran == ["a"]
    scaled(2.0, variable(3.0)).backward()
    assert ran == ["a", "b"]


def test_rules_get_plain_arrays_unless_their_own_derivative_is_wanted() -> None:
    kinds: list[tuple[type, ...]] = []

    def rule(g: Any, out: Any, x: Any) -> Any:
        kinds.append((type(g), type(out), type(x)))
        return g * 3.0 * x * x

    x = variable([2.0])
    y = cube(rule)(x)
    y.backward([1.0])
    ta.gradients(y, x, [1.0], create_graph=True)
    assert kinds == [(np.ndarray,) * 3, (ta.Tensor,) * 3]


def test_without_a_rule_the_input_cannot_require_a_gradient() -> None:
    @ta.op
    def rounded(x: Any, places: Any) -> Any:
        return np.round(x, 1)

    assert rounded(ta.Tensor([1.23]), 1).tolist() == pytest.approx([1.2])
    with pytest.raises(ta.errors.GradientError, match=r"rounded has no .* input 'x'.*\n.*x\.detach\(\)"):
        rounded(variable([1.23]), 1)


def test_variadic_operations_have_one_rule_with_an_index() -> None:
    @ta.op
    def total(*terms: Any) -> Any:
        return sum(terms)

    @total.gradient("terms")
    def _(g: Any, out: Any, *terms: Any, index: int) -> Any:
        return g * (index + 1.0)

    terms = [variable(1.0) for _ in range(3)]
    total(*terms).backward()
    assert [float(term.grad) for term in terms] == [1.0, 2.0, 3.0]  # type: ignore[arg-type]
    assert total.parameter_at(2) == "terms[2]"
    assert [name for name, _ in total.named_inputs(terms)] == ["terms[0]", "terms[1]", "terms[2]"]


def test_results_that_are_views_or_the_input_itself_are_fine() -> None:
    @ta.op
    def same(x: Any) -> Any:
        return x

    same.gradient("x")(lambda g, out, x: g)
    x = variable([1.0, 2.0])
    (same(x) * same(x)).sum().backward()
    assert_array_equal(x.grad, [2.0, 4.0])


def test_a_straight_through_estimator_is_three_lines() -> None:
    @ta.op
    def quantised(x: Any) -> Any:
        return np.round(x)

    quantised.gradient("x")(lambda g, out, x: g)
    x = variable([0.4, 1.6])
    (quantised(x) * [1.0, 10.0]).sum().backward()
    assert_array_equal(x.grad, [1.0, 10.0])


# --- fused operations ------------------------------------------------------------------------------------------------


def squares(forward: Callable[..., Any], rule: Callable[..., Any]) -> ta.Operation:
    """a² + b² with a kernel of its own."""

    def squares(a: Any, b: Any) -> Any:
        return forward(a, b)

    operation: ta.Operation = ta.op(reference=lambda a, b: a * a + b * b)(squares)
    operation.gradients("a", "b", formula="da = 2a dy; db = 2b dy")(rule)
    return operation


def test_a_fused_operation_saves_what_its_joint_rule_needs() -> None:
    f = squares(lambda a, b: (a * a + b * b, (2.0 * a, 2.0 * b)), lambda g, saved, a, b: (g * saved[0], g * saved[1]))
    a, b = variable([1.0, 2.0]), variable([3.0, 4.0])
    f(a, b).sum().backward()
    assert_array_equal(a.grad, [2.0, 4.0])
    assert_array_equal(b.grad, [6.0, 8.0])
    assert f.formulas == {"a": "da = 2a dy", "b": "db = 2b dy"}
    assert_array_equal(f(np.ones(2), np.ones(2)), [2.0, 2.0])
    assert_array_equal(ta.hessian(lambda x: f(x, x).sum())([1.0, 2.0]).numpy(), 4.0 * np.eye(2))


def test_a_fused_forward_without_a_pair_is_named() -> None:
    f = squares(lambda a, b: np.stack([a, b]), lambda g, saved, a, b: (g, g))
    with pytest.raises(ta.errors.GradientError, match=r"squares: .*pair \(out, saved\)\n  given ndarray"):
        f(variable([1.0]), variable([1.0]))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda g: (g,), "must return a tuple of 2\n  it returned 1"),
        (lambda g: g, "must return a tuple of 2\n  it returned ndarray"),
        (lambda g: (g, None), "rule for 'b' returned NoneType"),
        (lambda g: (g.sum(), g), r"rule for 'a' returned float64 \(\)"),
    ],
)
def test_a_joint_rule_of_the_wrong_form_is_named(answer: Any, words: str) -> None:
    f = squares(lambda a, b: (a * a + b * b, None), lambda g, saved, a, b: answer(g))
    with pytest.raises(ta.errors.GradientError, match=f"squares: .*{words}"):
        f(variable([1.0, 2.0]), variable([1.0, 2.0])).sum().backward()


def test_primitives_may_not_have_a_joint_rule() -> None:
    with pytest.raises(ta.errors.GradientError, match="only a fused operation"):
        cube().gradients("x")


# --- what rules return -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda g, x: g.T, r"returned float64 \(3, 2\)\n  expected real numbers of shape \(2, 3\)"),
        (lambda g, x: g.sum(), r"returned float64 \(\)"),
        (lambda g, x: g[0], r"returned float64 \(3,\)"),
        (lambda g, x: g.reshape(-1), r"returned float64 \(6,\)"),
        (lambda g, x: g * 1j, r"returned complex128 \(2, 3\)"),
        (lambda g, x: g.astype(object), r"returned object \(2, 3\)"),
        (lambda g, x: None, "returned NoneType"),
        (lambda g, x: 3.0, "returned float"),
        (lambda g, x: [g], "returned list"),
    ],
)
def test_a_rule_that_returns_something_else_is_rejected_by_name(answer: Any, words: str) -> None:
    f = cube(lambda g, out, x: answer(g, x))
    x = variable(np.ones((2, 3)))
    with pytest.raises(ta.errors.GradientError, match=f"cube: the rule for 'x' {words}"):
        f(x).sum().backward()
    assert x.grad is None


def test_a_rule_may_return_the_shape_that_was_broadcast_and_another_precision() -> None:
    @ta.op
    def plus(a: Any, b: Any) -> Any:
        return a + b

    plus.gradient("a")(lambda g, out, a, b: g.astype(np.float64))
    plus.gradient("b")(lambda g, out, a, b: g.astype(np.float64))
    a = ta.Tensor(np.ones((2, 1), np.float32), requires_grad=True)
    b = ta.Tensor(np.ones(3, np.float32), requires_grad=True)
    plus(a, b).sum().backward()
    assert_array_equal(a.grad, [[3.0], [3.0]])
    assert_array_equal(b.grad, [2.0, 2.0, 2.0])
    assert a.grad is not None and a.grad.dtype == np.float32


@pytest.mark.parametrize("pieces", [lambda x: (x[0], x[1], x), lambda x: (x[0], x[0], x[0]), lambda x: (x, x, x)])
def test_a_rule_may_answer_with_a_tensor_in_a_plain_pass_too(pieces: Callable[[Any], Any]) -> None:
    """As one written with vjp does: its gradient adds up with others, in place and where a piece was read."""

    @ta.op
    def tripled(x: Any) -> Any:
        return x * 3.0

    @tripled.gradient("x")
    def _(g: Any, out: Any, x: Any) -> Any:
        return ta.Tensor(g) * 3.0

    x = ta.Tensor(np.ones((2, 2)), requires_grad=True)
    expected = ta.Tensor(np.ones((2, 2)), requires_grad=True)
    sum(tripled(piece).sum() for piece in pieces(x)).backward()
    sum((piece * 3.0).sum() for piece in pieces(expected)).backward()
    assert type(x.grad) is np.ndarray
    assert_array_equal(x.grad, expected.grad)


def test_what_a_rule_raises_arrives_as_it_is() -> None:
    def rule(g: Any, out: Any, x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        cube(rule)(variable(1.0)).backward()


def test_a_rule_may_answer_with_tensors_where_arrays_are_enough() -> None:
    x, kinds = variable([1.0, 2.0]), []
    f = cube(lambda g, out, x: ta.Tensor(g) * 3.0 * x * x)
    piece = (x * 1.0)[:1]
    piece.register_hook(lambda g: kinds.append(type(g)))
    (f(x[1:]) + f(piece) + f(x)[0]).sum().backward()
    assert kinds == [np.ndarray]
    assert_array_equal(x.grad, [6.0, 12.0])


def test_a_rule_cannot_change_what_others_still_need() -> None:
    def of_gradient(g: Any, out: Any, x: Any) -> Any:
        g *= 2.0
        return g * x

    def of_result(g: Any, out: Any, x: Any) -> Any:
        out += 1.0
        return g * out

    def of_input(g: Any, out: Any, x: Any) -> Any:
        x *= 3.0
        return g * x

    for rule in (of_gradient, of_result, of_input):
        x, seed = variable([1.0, 2.0]), np.ones(2)
        with pytest.raises(ValueError, match="read-only"):
            (x * 1.0 + cube(rule)(x)).backward(seed)
        assert x.tolist() == [1.0, 2.0] and seed.tolist() == [1.0, 1.0] and x.grad is None


def test_a_rule_that_cannot_be_called_is_refused_where_it_is_attached() -> None:
    @ta.op
    def scaled(x: Any, y: Any, *, factor: float = 1.0) -> Any:
        return x * y * factor

    with pytest.raises(ArgumentError, match="rule for x must be a function\n  given 3"):
        scaled.gradient("x")(3)  # type: ignore[type-var]
    with pytest.raises(ArgumentError, match=r"expected \(g, out, x, y, factor=\), given \(g, out, x, y\): .*'factor'"):
        scaled.gradient("x")(lambda g, out, x, y: g * y)
    with pytest.raises(ArgumentError, match="rule for y must take what it will be given"):
        scaled.gradient("y")(lambda g, *, factor: g)
    assert not scaled.rules
    scaled.gradient("x")(lambda g, out, *inputs, **options: g * inputs[1] * options["factor"])
    x = variable([1.0, 2.0])
    scaled(x, np.ones(2), factor=3.0).sum().backward()
    assert_array_equal(x.grad, [3.0, 3.0])


@pytest.mark.parametrize(("answer", "came"), [(None, "None"), ((1.0, 2.0), "a tuple of 2")])
def test_a_formula_that_returns_no_single_result_is_named(answer: Any, came: str) -> None:
    @ta.op
    def several(x: Any) -> Any:
        return answer

    with pytest.raises(ta.errors.GradientError, match=f"several: the forward formula returned {came}"):
        several(ta.Tensor([1.0, 2.0]))


def test_a_numpy_function_that_others_are_written_with_is_not_taken_over() -> None:
    def exp(x: Any) -> Any:
        return x

    for taken in (np.exp, np.split):
        with pytest.raises(ArgumentError, match=r"has an operation already.*\n  leave it out, and call exp by its own"):
            ta.op(taken)(exp)
    assert np.exp(ta.Tensor(1.0)).item() == pytest.approx(np.e)


@pytest.mark.parametrize("argument", [3, "cube", None])
def test_op_decorates_functions_only(argument: Any) -> None:
    with pytest.raises(ArgumentError, match="op: expected the function to decorate"):
        ta.op(argument)


def test_operations_are_copied_and_pickled_by_reference_like_functions() -> None:
    class Layer(ta.nn.Module):
        def __init__(self) -> None:
            self.activation = ta.gelu

    assert copy.deepcopy(Layer()).activation is ta.gelu
    assert copy.copy(ta.gelu) is ta.gelu
    assert pickle.loads(pickle.dumps(ta.softmax)) is ta.softmax


def test_rules_are_attached_to_inputs_that_exist() -> None:
    with pytest.raises(ta.errors.GradientError, match="cube has no input 'y'\n  its inputs are x"):
        cube().gradient("y")
