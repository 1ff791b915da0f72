"""scipy.special on Tensors: the operations are held to their promises in tests/properties, the rest to SciPy here."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.properties.strategies import BUILT_IN
from tinygrad_attn import Tensor
from tinygrad_attn.errors import GradientError, UnsupportedFunctionError

theirs = require("scipy.special")
ours = require("tinygrad_attn.scipy")
special = ours.special

ROOT = Path(__file__).parents[3]
X = np.array([[0.3, 0.7, 0.5], [0.2, 0.9, 0.4]])

# Functions of one number and, where there are more arguments, what else to give.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "beta": (0.5,),
    "betaln": (0.5,),
    "xlogy": (0.5,),
    "betainc": (),
    "gammainc": (),
    "gammaincc": (),
    "iv": (),
    "ive": (),
    "jv": (),
    "yn": (),
    "polygamma": (),
    "multigammaln": (2,),
}
BEFORE: dict[str, tuple[Any, ...]] = {
    "betainc": (0.5, 2.0),
    "gammainc": (1.5,),
    "gammaincc": (1.5,),
    "polygamma": (1,),
    **{name: (2.0,) for name in ("iv", "ive", "jv", "yn")},
}


@pytest.mark.parametrize("name", special.__all__)
def test_a_function_gives_scipys_values_under_its_name(name: str) -> None:
    x = X + 1.0 if name == "multigammaln" else X
    arguments = lambda x: (*BEFORE.get(name, ()), x, *ARGUMENTS.get(name, ()))  # noqa: E731
    expected = getattr(theirs, name)(*arguments(x))
    x = Tensor(x, requires_grad=True)
    out = getattr(special, name)(*arguments(x))
    np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-14, atol=1e-15)
    if isinstance(getattr(theirs, name), np.ufunc):
        np.testing.assert_array_equal(np.asarray(getattr(theirs, name)(*arguments(x))), np.asarray(out))
    if name != "gammasgn":
        out.sum().backward()
        assert np.isfinite(x.grad).all() and x.grad.any()


def test_every_operation_that_scipy_brings_is_among_those_that_are_tried() -> None:
    brought = {name for name in BUILT_IN if name.startswith("tinygrad_attn.scipy.")}
    assert {"tinygrad_attn.scipy.gamma.gammaln", "tinygrad_attn.scipy.linalg.sqrtm"} <= brought
    assert len(brought) >= 34


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_sum_of_exponentials_with_factors(axis: Any, keepdims: bool) -> None:
    a, b = X * 10.0, np.array([[1.0, 0.0, 2.0], [3.0, 0.5, 1.0]])
    for factors in (None, b, 2.0):
        expected = theirs.logsumexp(a, axis, factors, keepdims)
        np.testing.assert_allclose(special.logsumexp(a, axis, factors, keepdims), expected, rtol=1e-13)
    ta.gradcheck(lambda a, b: special.logsumexp(a, axis, b + 1.0, keepdims), a, b, order=2)


def test_a_factor_of_0_hides_what_would_overflow() -> None:
    a = Tensor([0.0, 1000.0, -math.inf], requires_grad=True)
    out = special.logsumexp(a, b=np.array([1.0, 1.0, 0.0], np.float32))
    out.backward()
    assert out.item() == 1000.0
    np.testing.assert_array_equal(a.grad, [0.0, 1.0, 0.0])


def test_the_multivariate_gamma_function() -> None:
    ta.gradcheck(lambda a: special.multigammaln(a, 3), np.array([1.5, 4.0]), order=2)


def test_an_argument_without_a_rule_is_refused_by_name() -> None:
    with pytest.raises(GradientError, match="no gradient rule for its input 'a'"):
        theirs.gammainc(Tensor([1.0], requires_grad=True), 2.0)


def test_xlogy_is_0_where_x_is_and_sends_no_nan() -> None:
    x, y = Tensor([0.0, 2.0], requires_grad=True), Tensor([0.0, 1.0], requires_grad=True)
    with np.errstate(divide="ignore"):
        out = theirs.xlogy(x, y)
        out.sum().backward()
    assert out.tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(y.grad, [0.0, 2.0])


INFINITE: dict[str, tuple[list[float], list[float], list[float]]] = {
    "erfinv": ([-1.0, 1.0], [-math.inf, math.inf], [math.inf, math.inf]),
    "erfcinv": ([0.0, 2.0], [math.inf, -math.inf], [-math.inf, -math.inf]),
    "ndtri": ([0.0, 1.0], [-math.inf, math.inf], [math.inf, math.inf]),
    "logit": ([0.0, 1.0], [-math.inf, math.inf], [math.inf, math.inf]),
    "entr": ([0.0], [0.0], [math.inf]),
}


@pytest.mark.parametrize("name", INFINITE)
def test_an_infinite_slope_is_told_as_such(name: str) -> None:
    at, values, slopes = INFINITE[name]
    x = Tensor(at, requires_grad=True)
    with np.errstate(divide="ignore"):
        out = getattr(special, name)(x)
        out.backward(np.ones(len(at)))
    np.testing.assert_array_equal(out.numpy(), values)
    np.testing.assert_array_equal(x.grad, slopes)


def test_a_ufunc_without_a_rule_says_where_others_are_listed() -> None:
    with pytest.raises(UnsupportedFunctionError, match=r"scipy\.special\.zetac .*\n.*docs/scipy\.md"):
        theirs.zetac(Tensor([2.0]))


def test_the_page_lists_what_there_is() -> None:
    page = (ROOT / "docs" / "scipy.md").read_text(encoding="utf-8")
    for module in ours.__all__:
        (line,) = re.findall(rf"^\| `scipy\.{module}` \| (.*) \|$", page, flags=re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", line)) == set(getattr(ours, module).__all__), module


def test_without_scipy_the_error_says_what_to_install() -> None:
    script = "import sys; sys.modules['scipy'] = None\nimport tinygrad_attn\nimport tinygrad_attn.scipy"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "MissingExtraError: tinygrad_attn.scipy needs the package scipy" in done.stderr
    assert "pip install 'tinygrad-attn[scipy]'" in done.stderr
