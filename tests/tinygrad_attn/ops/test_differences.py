"""Differences, slopes, integrals, sliding products and interpolation are NumPy's, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tinygrad_attn.ops.agreement import assert_like_numpy, values
from tinygrad_attn import Tensor
from tinygrad_attn.errors import AxisRangeError, OptionError, ShapeError

PLACES = np.array([0.0, 1.0, 2.5, 4.0, 6.0])
ASKED = np.array([-1.0, 0.3, 2.0, 3.9, 7.0])

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "diff": (np.diff, ((5,),)),
    "diff of diffs": (lambda x: np.diff(x, 2, axis=0), ((4, 2),)),
    "no diff": (lambda x: np.diff(x, 0), ((4,),)),
    "diff of one": (np.diff, ((2, 1),)),
    "diff with borders": (lambda x, y: np.diff(x, axis=1, prepend=0.0, append=y), ((2, 3), (2, 2))),
    "slopes": (np.gradient, ((5,),)),
    "slopes of a matrix": (np.gradient, ((3, 4),)),
    "slopes at a distance": (lambda x: np.gradient(x, 0.5, 2.0), ((3, 4),)),
    "slopes at one distance": (lambda x: np.gradient(x, 0.5), ((3, 4, 2),)),
    "slopes along one axis": (lambda x: np.gradient(x, 0.5, axis=-1), ((3, 4),)),
    "slopes along two of three": (lambda x: np.gradient(x, axis=(0, 2)), ((3, 2, 4),)),
    "slopes with better ends": (lambda x: np.gradient(x, edge_order=2), ((5,),)),
    "slopes of two": (np.gradient, ((2,),)),
    "trapezoid": (np.trapezoid, ((4,),)),
    "trapezoid of distances": (lambda y: np.trapezoid(y, dx=0.5, axis=0), ((4, 2),)),
    "trapezoid of places": (lambda y, x: np.trapezoid(y, x, axis=0), ((4, 2), (4,))),
    "trapezoid of places in the middle": (lambda y, x: np.trapezoid(y, x, axis=1), ((2, 4, 3), (4,))),
    "trapezoid of places for each": (np.trapezoid, ((2, 4), (2, 4))),
    "cross": (np.cross, ((3,), (3,))),
    "cross of stacks": (np.cross, ((2, 3), (4, 1, 3))),
    "cross along the first axis": (lambda a, b: np.cross(a, b, axis=0), ((3, 2), (3, 2))),
    "cross along other axes": (lambda a, b: np.cross(a, b, axisa=0, axisc=0), ((3, 2), (2, 3))),
    "cross of the linalg module": (lambda a, b: np.linalg.cross(a, b, axis=0), ((3, 2), (3, 2))),
    "linspace": (lambda a, b: np.linspace(a, b, 5), ((), ())),
    "linspace of vectors": (lambda a, b: np.linspace(a, b, 4, axis=-1), ((2, 1), (3,))),
    "linspace without the end": (lambda a, b: np.linspace(a, b, 4, endpoint=False), ((), (2,))),
    "linspace with its step": (lambda a, b: np.linspace(a, b, 3, retstep=True), ((2,), (2,))),
    "linspace of one": (lambda a, b: np.linspace(a, b, 1), ((), ())),
    "polyval": (np.polyval, ((4,), (2, 3))),
    "polyval of a number": (np.polyval, ((3,), ())),
    "polyval of nothing": (lambda p, x: np.polyval(p, x) + 0.0 * np.sum(p) + 0.0 * x, ((0,), (2,))),
}
for _mode in ("full", "same", "valid"):
    for _a, _v in ((5, 3), (5, 2), (2, 5), (3, 3), (4, 1), (1, 4), (4, 4)):
        FUNCTIONS[f"convolve {_a} {_v} {_mode}"] = (lambda a, v, m=_mode: np.convolve(a, v, m), ((_a,), (_v,)))
        FUNCTIONS[f"correlate {_a} {_v} {_mode}"] = (lambda a, v, m=_mode: np.correlate(a, v, m), ((_a,), (_v,)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_runs_along_an_axis_is_numpys(name: str) -> None:
    function, shapes = FUNCTIONS[name]
    assert_like_numpy(function, *(values(*shape, seed=index) for index, shape in enumerate(shapes)))


def test_interpolation_is_numpys_within_and_beyond_the_points() -> None:
    heights = values(5)

    def interp(x: Any, xp: Any, fp: Any, **beyond: Any) -> Any:
        return np.interp(x, xp, fp, **beyond).astype(fp.dtype)  # NumPy answers in float64 whatever it is given

    assert_like_numpy(interp, ASKED, PLACES, heights)
    assert_like_numpy(lambda x, f: interp(x, PLACES.astype(f.dtype), f, left=-3.0, right=5.0), ASKED, heights)
    assert_like_numpy(lambda x, f: interp(x, np.ones(1, f.dtype), f), ASKED, values(1))


def test_at_a_point_the_interpolation_is_the_point_and_slopes_as_to_its_right() -> None:
    x = Tensor(PLACES[:-1], requires_grad=True)
    y = np.interp(x, PLACES, PLACES**2)
    np.testing.assert_allclose(y.numpy(), PLACES[:-1] ** 2)
    y.sum().backward()
    np.testing.assert_allclose(x.grad, np.diff(PLACES**2) / np.diff(PLACES))


def test_polynomials_multiplied_are_coefficients_convolved() -> None:
    p, q, x = Tensor(values(3)), Tensor(values(4)), Tensor(values(2), requires_grad=True)
    product = np.polyval(np.convolve(p, q), x)
    np.testing.assert_allclose(product.numpy(), (np.polyval(p, x) * np.polyval(q, x)).numpy())


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape), requires_grad=True)


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a negative diff": (lambda: np.diff(ones(3), -1), OptionError, "must not be negative"),
    "a diff of a number": (lambda: np.diff(ones()), AxisRangeError, "diff: axis -1"),
    "slopes along no axis": (lambda: np.gradient(ones(3), axis=1), AxisRangeError, "gradient: axis 1"),
    "slopes of one": (lambda: np.gradient(ones(1)), ShapeError, "at least 2 places along axis 0"),
    "too many distances": (lambda: np.gradient(ones(3, 3), 1.0, 1.0, 1.0), OptionError, "given 3 for 2 axes"),
    "cross of two": (lambda: np.cross(ones(2), ones(2)), ShapeError, "three elements\n  given 2 and 2"),
    "cross of four": (lambda: np.cross(ones(4), ones(3)), ShapeError, "three elements\n  given 4 and 3"),
    "a mode that is none": (lambda: np.convolve(ones(2), ones(2), "half"), OptionError, "'full', 'same' or 'valid'"),
    "matrices slid": (lambda: np.convolve(ones(2, 2), ones(2)), ShapeError, "a  \\(2, 2\\)"),
    "nothing slid": (lambda: np.correlate(ones(0), ones(2)), ShapeError, "not empty"),
    "a period": (lambda: np.interp(ones(2), PLACES, PLACES, period=4.0), OptionError, "modulo"),
    "points without heights": (lambda: np.interp(ones(2), PLACES, np.ones(3)), ShapeError, "fp  \\(3,\\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_explained(name: str) -> None:
    use, error, words = BAD[name]
    with pytest.raises(error, match=words):
        use()


@pytest.mark.parametrize(
    ("of_lists", "of_arrays"),
    [
        (lambda t: np.interp(t, [0.0, 1.0], [0.0, 2.0]), lambda t: np.interp(t, np.arange(2.0), 2 * np.arange(2.0))),
        (lambda t: np.polyval([1.0, 2.0], t), lambda t: np.polyval(np.array([1.0, 2.0]), t)),
        (lambda t: np.trapezoid(t, [0.0, 3.0]), lambda t: np.trapezoid(t, np.array([0.0, 3.0]))),
        (lambda t: np.convolve(t, [1.0, 2.0]), lambda t: np.convolve(t, np.array([1.0, 2.0]))),
        (lambda t: np.kron([1.0, 2.0], t), lambda t: np.kron(np.array([1.0, 2.0]), t)),
    ],
)
def test_numbers_may_be_written_as_lists(of_lists: Any, of_arrays: Any) -> None:
    t = Tensor(np.array([0.25, 0.5]), requires_grad=True)
    np.testing.assert_allclose(of_lists(t).numpy(), of_arrays(t).numpy(), rtol=1e-6)
    assert of_lists(t).requires_grad
