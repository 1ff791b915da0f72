"""einsum and the products that are short for one: as NumPy answers, with gradients, and errors that teach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.tinygrad_attn.ops.agreement import assert_like_numpy, values
from tinygrad_attn import Tensor
from tinygrad_attn.errors import AxisRangeError, OptionError, ShapeError

FORMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iii->i", (2, 2, 2)),
    ("iji->j", (2, 3, 2)),
    ("iij,jkk->ik", (2, 2, 3), (3, 2, 2)),
    ("ii,i->i", (3, 3), (3,)),
    ("i,i", (2,), (1,)),
    ("i,i", (1,), (2,)),
    ("ij,ij->ij", (1, 3), (2, 1)),
    ("i,j->", (2,), (3,)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("...ij,...jk->...ik", (1, 5, 2, 3), (4, 1, 3, 2)),
    ("...,...->...", (2, 3), (3,)),
    ("i...,j...->ij...", (2, 3), (4, 3)),
    ("i...->...", (2, 3)),
    ("...i->...i", (3,)),
    ("i,ij,jk,k->", (2,), (2, 3), (3, 2), (2,)),
    (",i->i", (), (3,)),
    ("ba,cb", (2, 3), (4, 2)),
    ("ij,jk->ik", (0, 3), (3, 2)),
    ("ij,jk->ik", (2, 0), (0, 2)),
]


@pytest.mark.parametrize(("subscripts", "shapes"), [(form, shapes) for form, *shapes in FORMS])
def test_every_form_answers_as_numpy_does_and_differentiates(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [values(*shape, seed=index) for index, shape in enumerate(shapes)]
    assert_like_numpy(lambda *x: np.einsum(subscripts, *x), *operands)


@given(st.data())
def test_any_notation_that_numpy_accepts_has_the_right_gradient(data: st.DataObject) -> None:
    sides = {letter: data.draw(st.integers(1, 3)) for letter in "abc"}
    terms = [data.draw(st.text("abc", max_size=3)) for _ in range(data.draw(st.integers(1, 3)))]
    named = sorted(set("".join(terms)))
    out = "".join(data.draw(st.permutations(named))[: data.draw(st.integers(0, len(named)))])
    operands = [values(*(sides[letter] for letter in term), seed=index) for index, term in enumerate(terms)]
    subscripts = f"{','.join(terms)}->{out}"
    expected = np.einsum(subscripts, *operands)
    np.testing.assert_allclose(ta.einsum(subscripts, *map(Tensor, operands)).numpy(), expected, rtol=1e-12, atol=1e-12)
    ta.gradcheck(lambda *x: ta.einsum(subscripts, *x), *operands, order=2)


def test_the_gradient_of_a_product_is_the_product_of_the_others() -> None:
    """An oracle of its own: y is linear in each operand, so ⟨dxₖ, xₖ⟩ = ⟨dy, y⟩ for every k."""
    shapes = [(2, 3), (3, 4, 4), (4, 2)]
    operands = [Tensor(values(*shape), requires_grad=True) for shape in shapes]
    y = np.einsum("ij,jkk,kl->il", *operands)
    upstream = values(*y.shape, seed=9)
    whole = np.sum(upstream * y.numpy())
    for operand, gradient in zip(operands, ta.gradients(y, operands, upstream), strict=True):
        assert np.sum(gradient.numpy() * operand.numpy()) == pytest.approx(whole, rel=1e-12)


def test_a_stretched_operand_gets_a_gradient_of_its_own_shape() -> None:
    x, y = Tensor([2.0, 2.0], requires_grad=True), Tensor([2.0], requires_grad=True)
    np.einsum("i,i", x, y).backward()
    assert x.grad is not None and y.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]
    assert y.grad.tolist() == [4.0]


def test_one_array_in_two_places_gets_both_gradients() -> None:
    x = values(3, 3)
    assert_like_numpy(lambda a: np.einsum("ij,jk,ki->", a, a, a), x)


def test_operands_followed_by_lists_of_axes_are_the_same_product() -> None:
    a, b = values(2, 3), values(3, 4)
    assert_like_numpy(lambda x, y: np.einsum(x, [0, 1], y, [1, 2]), a, b)
    assert_like_numpy(lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]), a, b)
    assert_like_numpy(lambda x, y: np.einsum(x, [Ellipsis, 1], y, [1, 2], [Ellipsis, 2]), a, b)


def test_a_large_product_differs_from_a_small_one_only_in_speed() -> None:
    a, b = values(2, 20, 30), values(2, 30, 25)
    np.testing.assert_allclose(ta.einsum("bij,bjk->bik", Tensor(a), Tensor(b)).numpy(), a @ b, rtol=1e-10)
    x = Tensor(a, requires_grad=True)
    ta.einsum("bij,bjk->bik", x, b).sum().backward()
    np.testing.assert_allclose(x.grad, np.ones((2, 20, 25)) @ b.swapaxes(1, 2), rtol=1e-10)


def test_arrays_and_numbers_beside_a_tensor_are_constants() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    np.einsum(",i,i->", 2.0, [3, 4], x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0, 8.0]


@pytest.mark.parametrize(
    ("subscripts", "shapes", "error", "words"),
    [
        ("ij,jk->ik", [(2, 3), (4, 2)], ShapeError, "axis 'j' has two lengths: 3 ≠ 4"),
        ("ii->i", [(1, 3)], ShapeError, "axis 'i' has two lengths: 1 ≠ 3"),
        ("ijk,jk->ik", [(2, 3), (3, 4)], ShapeError, "expected 3 axes, given 2"),
        ("...ijk->ik", [(2, 3)], ShapeError, "expected 3 axes, given 2"),
        ("ij,jk->ik", [(2, 3)], OptionError, "2 terms.*\n.*given 1 operands"),
        ("ij->ik", [(2, 3)], OptionError, "names 'k', which no operand has"),
        ("ij->ii", [(2, 3)], OptionError, "names 'i' twice"),
        ("i1->i", [(2, 3)], OptionError, "'1' is no letter"),
        ("i..->i", [(2, 3)], OptionError, "'.' is no letter"),
    ],
)
def test_a_notation_that_does_not_fit_is_explained(
    subscripts: str, shapes: list[tuple[int, ...]], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        np.einsum(subscripts, *(Tensor(np.ones(shape)) for shape in shapes))


def test_operands_without_a_notation_are_explained() -> None:
    with pytest.raises(OptionError, match="subscripts come first"):
        np.einsum(Tensor([1.0]), Tensor([2.0]))


@pytest.mark.parametrize("axes", [0, 1, ([1], [0]), ([-1], [-2]), (1, 0), ([], [])])
def test_tensordot_is_numpys(axes: Any) -> None:
    assert_like_numpy(lambda a, b: np.tensordot(a, b, axes), values(2, 3), values(3, 4))


def test_tensordot_over_several_axes_in_any_order_is_numpys() -> None:
    a, b = values(2, 3, 4), values(4, 5, 3)
    assert_like_numpy(lambda x, y: np.tensordot(x, y, ([1, 2], [2, 0])), a, b)
    assert_like_numpy(lambda x, y: np.tensordot(x, y, 2), values(2, 3, 4), values(3, 4, 2))
    assert_like_numpy(lambda x, y: np.linalg.tensordot(x, y, axes=1), values(2, 3), values(3, 2))


@pytest.mark.parametrize(
    ("axes", "error", "words"),
    [
        (1, ShapeError, "axis 1 of a meets axis 0 of b: 3 ≠ 2"),
        (3, AxisRangeError, "given 2 and 2 axes"),
        (-1, AxisRangeError, "given 2 and 2 axes"),
        (([5], [0]), AxisRangeError, "axis 5 is out of bounds"),
        (([0, 1], [0]), ShapeError, "as many axes of a as of b"),
    ],
)
def test_axes_that_cannot_meet_are_explained(axes: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        np.tensordot(Tensor(np.ones((2, 3))), Tensor(np.ones((2, 3))), axes)


@pytest.mark.parametrize(
    "shapes",
    [
        *(((), ()), ((), (3,)), ((2, 3), ()), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4))),
        *(((2, 2, 3), (3,)), ((3,), (2, 3, 4)), ((2, 3), (5, 3, 4)), ((2, 2, 3), (3, 4)), ((2, 1, 3), (4, 3, 2))),
    ],
)
def test_dot_is_numpys_for_any_number_of_axes(shapes: tuple[tuple[int, ...], ...]) -> None:
    assert_like_numpy(np.dot, *(values(*shape, seed=index) for index, shape in enumerate(shapes)))


@pytest.mark.parametrize("shapes", [((), (3,)), ((3,), (3,)), ((2, 3), (3,)), ((2, 3), (4, 5, 3))])
def test_inner_is_numpys_for_any_number_of_axes(shapes: tuple[tuple[int, ...], ...]) -> None:
    assert_like_numpy(np.inner, *(values(*shape, seed=index) for index, shape in enumerate(shapes)))


def test_outer_and_vdot_flatten_what_they_are_given() -> None:
    assert_like_numpy(np.outer, values(2, 2), values(3))
    assert_like_numpy(np.outer, values(), values(3))
    assert_like_numpy(np.linalg.outer, values(2), values(3))
    assert_like_numpy(np.vdot, values(2, 3), values(2, 3, seed=1))
