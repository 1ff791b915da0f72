"""Densities and distribution functions: SciPy's values, and slopes by every argument that has one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tinygrad_attn import Tensor

theirs = require("scipy.stats")
stats = require("tinygrad_attn.scipy").stats

X, P = np.array([-1.5, 0.3, 2.0]), np.array([0.2, 0.5, 0.7])
WEIGHTS = np.array([0.2, 0.3, 0.5])
COV = np.array([[2.0, 0.5], [0.5, 1.0]])
NORMAL = (X, np.array(0.3), np.array(1.7))
STUDENT = (X, np.array(3.5), np.array(0.2), np.array(1.4))

# The arguments, and how many of the first and of all have gradients.
CASES: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
    **{f"norm.{name}": (NORMAL, (0, 1, 2)) for name in ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf")},
    **{f"t.{name}": (STUDENT, (0, 1, 2, 3)) for name in ("logpdf", "pdf")},
    **{f"t.{name}": (STUDENT, (0, 2, 3)) for name in ("cdf", "logcdf")},
    **{f"gamma.{name}": ((P, np.array(1.7)), (0, 1)) for name in ("logpdf", "pdf")},
    "gamma.cdf": ((P, np.array(1.7)), (0,)),
    **{f"beta.{name}": ((P, np.array(1.7), np.array(2.5)), (0, 1, 2)) for name in ("logpdf", "pdf")},
    "beta.cdf": ((P, np.array(1.7), np.array(2.5)), (0,)),
    **{f"chi2.{name}": ((P, np.array(3.0)), (0, 1)) for name in ("logpdf", "pdf")},
    "chi2.cdf": ((P, np.array(3.0)), (0,)),
    **{f"poisson.{name}": ((np.array([0.0, 1.0, 4.0]), np.array(2.2)), (1,)) for name in ("logpmf", "pmf", "cdf")},
    **{
        f"multivariate_normal.{name}": ((np.array([[0.5, -1.0], [0.0, 2.0]]), np.array([0.1, 0.2]), COV), (0, 1, 2))
        for name in ("logpdf", "pdf")
    },
    "multivariate_normal.entropy": ((np.array([0.1, 0.2]), COV), (1,)),
    **{
        f"dirichlet.{name}": ((np.array([0.2, 0.3, 0.5]), np.array([1.5, 0.7, 2.0])), (1,))
        for name in ("logpdf", "pdf")
    },
}

every_case = pytest.mark.parametrize("name", CASES)


def find(library: Any, name: str) -> Any:
    distribution, _, function = name.partition(".")
    return getattr(getattr(library, distribution), function)


def test_every_function_of_every_distribution_is_tried() -> None:
    offered = {
        f"{name}.{function}"
        for name in stats.__all__
        for function, member in vars(getattr(stats, name)).items()
        if isinstance(member, staticmethod)
    }
    assert offered == set(CASES)


@every_case
def test_the_values_are_scipys(name: str) -> None:
    arguments, _ = CASES[name]
    np.testing.assert_allclose(find(stats, name)(*arguments), find(theirs, name)(*arguments), rtol=1e-10, atol=1e-12)


@every_case
def test_the_gradients_are_the_slopes_in_both_orders(name: str) -> None:
    arguments, differentiable = CASES[name]

    def f(*variables: Any) -> Any:
        given = dict(zip(differentiable, variables, strict=True))
        return find(stats, name)(*(given.get(index, value) for index, value in enumerate(arguments)))

    ta.gradcheck(f, *(arguments[index] for index in differentiable), order=2)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("norm.", "t.pdf", "t.logpdf"))])
def test_python_numbers_leave_the_dtype_alone(name: str) -> None:
    arguments, differentiable = CASES[name]
    index = differentiable[0]
    others = [float(value.flat[0]) for value in arguments]
    others[index] = Tensor(arguments[index], dtype=np.float32, requires_grad=True)
    assert find(stats, name)(*others).dtype == np.float32


def test_students_distribution_function_has_its_density_as_slope_at_0_too() -> None:
    x = Tensor([0.0], dtype=np.float64, requires_grad=True)
    out = stats.t.cdf(x, 3.0)
    out.backward()
    assert out.item() == 0.5
    np.testing.assert_allclose(x.grad, theirs.t.pdf(0.0, 3.0))
