"""What docs/peers.md says of autograd and MyGrad in numbers: the same values, and the same gradients, as theirs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tests.parity.test_peers import PEERS
from tests.properties.test_operations import BY_POSITION
from tinygrad_attn import Operation, Tensor
from tinygrad_attn.domain import RandomChooser
from tinygrad_attn.registry import IMPLEMENTATIONS

autograd = require("autograd")
mygrad = require("mygrad")
tas = require("tinygrad_attn.scipy")
autograd_numpy = importlib.import_module("autograd.numpy")
autograd_scipy = importlib.import_module("autograd.scipy")
nnet = importlib.import_module("mygrad.nnet")
for _part in ("special", "stats", "linalg", "signal", "integrate"):
    importlib.import_module(f"autograd.scipy.{_part}")
for _part in ("activations", "losses", "layers"):
    importlib.import_module(f"mygrad.nnet.{_part}")

Arrays = Sequence[Any]
Function = Callable[..., Any]

RNG = np.random.default_rng(11)


def upstream(shape: Any) -> Any:
    return np.random.default_rng(1).uniform(0.5, 1.5, shape)


def ours(f: Function, *arrays: Any) -> tuple[Any, Arrays]:
    """Value, and gradients by all arrays."""
    tensors = [Tensor(array, requires_grad=True) for array in arrays]
    out = f(*tensors)
    return out.numpy(), [g.numpy() for g in ta.gradients(out, tensors, upstream(out.shape), unused="zeros")]


def autograds(f: Function, *arrays: Any) -> tuple[Any, Arrays]:
    pull, out = autograd.make_vjp(lambda variables: f(*variables))(tuple(arrays))
    return out, pull(upstream(np.shape(out)))


def mygrads(f: Function, *arrays: Any) -> tuple[Any, Arrays]:
    tensors = [mygrad.tensor(array) for array in arrays]
    out = f(*tensors)
    out.backward(upstream(out.shape))
    return out.data, [np.zeros(x.shape) if x.grad is None else x.grad for x in tensors]


def assert_same(mine: tuple[Any, Arrays], its: tuple[Any, Arrays], name: str = "", gradients: bool = True) -> None:
    np.testing.assert_allclose(mine[0], its[0], rtol=1e-9, atol=1e-12, err_msg=name)
    if gradients:
        for one, other in zip(mine[1], its[1], strict=True):
            assert np.shape(one) == np.shape(other)
            # Of complex numbers, its gradients are the conjugates of ours, which are PyTorch's.
            np.testing.assert_allclose(np.conj(one), other, rtol=1e-7, atol=1e-9, err_msg=name)


def find(root: Any, path: str) -> Any:
    for part in path.split("."):
        root = getattr(root, part)
    return root


# --- whatever the registry may draw ----------------------------------------------------------------------------------

# Here autograd's gradients are wrong, or of another shape: no repetition at all, and axes counted from the end.
AUTOGRAD_ERRS = {"repeat", "tile", "transpose"}
AUTOGRAD_REFUSES = {"diagonal", "pad", "trace"}  # whatever is drawn; compared below


def drawn_from_registry(names: Sequence[str]) -> list[str]:
    registered = [name for name in names if isinstance(IMPLEMENTATIONS.get(find(np, name)), Operation)]
    assert len(registered) >= 50
    return registered


def called(
    f: Function, operation: Operation, inputs: Arrays, places: Sequence[int], options: dict[str, Any]
) -> Function:
    """`f` as a function of the inputs at `places` alone."""

    def of_variables(*given: Any) -> Any:
        arguments = list(inputs)
        for place, value in zip(places, given, strict=True):
            arguments[place] = value
        arguments = [arguments] if operation.sequence else arguments
        if f is not operation and operation.name in BY_POSITION:
            return f(*arguments, *options.values())
        return f(*arguments, **options)

    return of_variables


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        *(("autograd", name) for name in drawn_from_registry(PEERS.HIPS_SAME) if name not in AUTOGRAD_REFUSES),
        *(("mygrad", name) for name in drawn_from_registry(PEERS.MYGRAD_SAME)),
    ],
)
def test_a_function_of_numpy_has_the_peers_values_and_gradients(peer: str, name: str) -> None:
    """On twelve draws from the domain of our operation; those that the peer refuses are passed over, but not all."""
    operation, compared = IMPLEMENTATIONS[find(np, name)], 0
    theirs = find(autograd_numpy if peer == "autograd" else mygrad, name)
    run = autograds if peer == "autograd" else mygrads
    assert isinstance(operation, Operation) and operation.domain is not None
    for seed in range(12):
        choose = RandomChooser(np.random.default_rng(seed))
        inputs = [np.asarray(value) for value in operation.domain(choose)]
        options = {option: draw(choose, tuple(inputs)) for option, draw in operation.option_domains.items()}
        options = {option: value for option, value in options.items() if value is not operation.options[option]}
        variables = [i for i, value in enumerate(inputs) if value.dtype.kind in "fc" and operation.differentiates(i)]

        arrays = [inputs[place] for place in variables]
        mine = ours(called(operation, operation, inputs, variables, options), *arrays)
        try:
            with np.errstate(all="ignore"):
                its = run(called(theirs, operation, inputs, variables, options), *arrays)
        except (NotImplementedError, TypeError, ValueError, AssertionError, ZeroDivisionError, IndexError):
            continue
        compared += 1
        errs = name in AUTOGRAD_ERRS or options.get("norm") in ("forward", "backward")  # it knows None and "ortho"
        assert_same(mine, its, name, gradients=not (peer == "autograd" and errs))
    assert compared


# --- functions that are written with others --------------------------------------------------------------------------

A, B, C = RNG.normal(size=(3, 3)), RNG.normal(size=(3, 3)), RNG.normal(size=(2, 3, 4))
V, W = RNG.normal(size=3), RNG.normal(size=3)
POSITIVE_DEFINITE = A @ A.T + np.eye(3)

COMPOSED: dict[str, tuple[Function, Arrays]] = {
    "array_split": (lambda n, c: sum(part.sum() * k for k, part in enumerate(n.array_split(c, 3, axis=2))), [C]),
    "atleast_2d": (lambda n, v: n.atleast_2d(v), [V]),
    "atleast_3d": (lambda n, v: n.atleast_3d(v), [A]),
    "cross": (lambda n, v, w: n.cross(v, w), [V, W]),
    "diag": (lambda n, v: n.diag(v, 1), [V]),
    "diff": (lambda n, a: n.diff(a, 2, axis=0), [A]),
    "dot": (lambda n, a, c: n.dot(a, c), [A, RNG.normal(size=(2, 3, 4))]),
    "dsplit": (lambda n, c: n.dsplit(c, 2)[1], [C]),
    "hsplit": (lambda n, a: n.hsplit(a, [1])[1], [A]),
    "vsplit": (lambda n, c: n.vsplit(c, 2)[0], [C]),
    "split": (lambda n, c: n.split(c, 2, axis=2)[1], [C]),
    "einsum": (lambda n, a, b, v: n.einsum("ij,kj,k->i", a, b, v), [A, B, V]),
    "fliplr": (lambda n, a: n.fliplr(a), [A]),
    "flipud": (lambda n, a: n.flipud(a), [A]),
    "rot90": (lambda n, a: n.rot90(a, 3), [A]),
    "gradient": (lambda n, a: n.gradient(a, axis=0), [RNG.normal(size=(6, 2))]),
    "inner": (lambda n, a, b: n.inner(a, b), [A, B]),
    "kron": (lambda n, a, b: n.kron(a, b), [A, B]),
    "outer": (lambda n, v, w: n.outer(v, w), [V, W]),
    "tensordot": (lambda n, c, a: n.tensordot(c, a, ([1], [0])), [C, A]),
    "ravel": (lambda n, a: n.ravel(a), [A]),
    "rollaxis": (lambda n, c: n.rollaxis(c, 2), [C]),
    "std": (lambda n, c: n.std(c, axis=1, ddof=1), [C]),
    "var": (lambda n, c: n.var(c, axis=(0, 2)), [C]),
    "pad": (lambda n, a: n.pad(a, ((1, 2), (0, 1)), "constant"), [A]),
    "trace": (lambda n, a: n.trace(a), [A]),
    "linalg.cholesky": (lambda n, a: n.linalg.cholesky(a), [POSITIVE_DEFINITE]),
    "linalg.eigh": (lambda n, a: n.linalg.eigh((a + a.T) / 2)[0], [POSITIVE_DEFINITE]),
    "linalg.eigh, vectors": (lambda n, a: n.linalg.eigh((a + a.T) / 2)[1] ** 2, [POSITIVE_DEFINITE]),
    "linalg.slogdet": (lambda n, a: n.linalg.slogdet(a)[1], [POSITIVE_DEFINITE]),
    "linalg.svd": (lambda n, a: n.linalg.svd(a, full_matrices=False)[1], [A]),
    "linalg.norm, 'nuc'": (
        lambda n, a: n.linalg.matrix_norm(a, ord="nuc") if n is np else n.linalg.norm(a, "nuc"),
        [A],
    ),
    "partition": (lambda n, v: n.partition(v, 1), [V]),
    "sort": (lambda n, v: n.sort(v), [V]),
    "where": (lambda n, a, b: n.where(A > 0.0, a, b), [A, B]),
    "array of parts": (lambda n, v: (n.stack if n is np else n.array)([v[0] * v[1], v[2]]), [V]),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_a_function_that_is_written_with_others_has_autograds_numbers(name: str) -> None:
    f, arrays = COMPOSED[name]
    assert_same(ours(lambda *a: f(np, *a), *arrays), autograds(lambda *a: f(autograd_numpy, *a), *arrays))


# --- SciPy -----------------------------------------------------------------------------------------------------------

X = np.array([0.3, 0.7, 0.5])
BEFORE: dict[str, tuple[Any, ...]] = {
    **{name: (2,) for name in ("beta", "betaln", "iv", "ive", "jv", "yn")},
    **{"gammainc": (1.5,), "gammaincc": (1.5,), "betainc": (0.5, 2.0), "polygamma": (1,)},
}


@pytest.mark.parametrize("name", [n for n in PEERS.HIPS_SPECIAL if n not in ("gammasgn", "multigammaln")])
def test_a_special_function_has_autograds_numbers(name: str) -> None:
    before = BEFORE.get(name, ())
    theirs = getattr(autograd_scipy.special, "jn" if name == "jv" else name)  # autograd has a rule for the former name
    mine = ours(lambda x: getattr(tas.special, name)(*before, x), X)
    assert_same(mine, autograds(lambda x: theirs(*before, x), X))


STATISTICS: dict[str, tuple[Arrays, tuple[int, ...]]] = {
    **{f"norm.{f}": ([X, 0.2, 1.5], (0, 1, 2)) for f in ("pdf", "cdf", "logpdf", "logcdf", "logsf", "sf")},
    **{f"t.{f}": ([X, 3.0, 0.2, 1.5], (0, 1, 2, 3)) for f in ("pdf", "logpdf")},
    **{f"t.{f}": ([X, 3.0, 0.2, 1.5], (0, 2)) for f in ("cdf", "logcdf")},
    **{f"gamma.{f}": ([X, 1.7], (0, 1)) for f in ("pdf", "logpdf")},
    **{f"beta.{f}": ([X, 1.7, 2.5], (0, 1, 2)) for f in ("pdf", "logpdf")},
    **{f"chi2.{f}": ([X, 3.0], (0,)) for f in ("pdf", "logpdf", "cdf")},
    "gamma.cdf": ([X, 1.7], (0,)),
    "beta.cdf": ([X, 1.7, 2.5], (0,)),
    **{f"poisson.{f}": ([np.arange(3.0), 2.2], (1,)) for f in ("pmf", "logpmf", "cdf")},
    **{f"multivariate_normal.{f}": ([V, W, POSITIVE_DEFINITE], (0, 1)) for f in ("pdf", "logpdf")},
    "multivariate_normal.entropy": ([W, POSITIVE_DEFINITE], (1,)),
    **{f"dirichlet.{f}": ([np.array([0.2, 0.3, 0.5]), X], (1,)) for f in ("pdf", "logpdf")},
}


def test_every_density_on_the_page_is_compared() -> None:
    on_the_page = {name.removeprefix("scipy.stats.") for name in PEERS.HIPS_SCIPY if name.startswith("scipy.stats.")}
    assert on_the_page == set(STATISTICS)


@pytest.mark.parametrize("name", STATISTICS)
def test_a_density_has_autograds_numbers(name: str) -> None:
    arguments, variables = STATISTICS[name]

    def called(library: Any) -> Function:
        def f(*given: Any) -> Any:
            chosen = dict(zip(variables, given, strict=True))
            return find(library, name)(*(chosen.get(i, value) for i, value in enumerate(arguments)))

        return f

    arrays = [np.asarray(arguments[place], np.float64) for place in variables]
    assert_same(ours(called(tas.stats), *arrays), autograds(called(autograd_scipy.stats), *arrays), name)


BANDS = A + np.array([[0.0], [5.0], [0.0]])
EQUATIONS: dict[str, tuple[Function, Arrays]] = {
    "sqrtm": (lambda s, a: s.linalg.sqrtm(a), [POSITIVE_DEFINITE]),
    "solve_triangular": (lambda s, a, b: s.linalg.solve_triangular(a, b, lower=True), [A, V]),
    "solve_sylvester": (lambda s, a, b, q: s.linalg.solve_sylvester(a, b, q), [POSITIVE_DEFINITE, np.eye(3), B]),
    "solve_banded": (lambda s, ab, b: s.linalg.solve_banded((1, 1), ab, b), [BANDS, V]),
    "convolve": (lambda s, a, b: s.signal.convolve(a, b), [B, A[:2, :2]]),
    "convolve, valid": (lambda s, a, b: s.signal.convolve(a, b, mode="valid"), [B, A[:2, :2]]),
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_equations_have_autograds_numbers(name: str) -> None:
    f, arrays = EQUATIONS[name]
    assert_same(ours(lambda *a: f(tas, *a), *arrays), autograds(lambda *a: f(autograd_scipy, *a), *arrays))


def test_a_differential_equation_has_autograds_numbers() -> None:
    times, rate = np.array([0.0, 0.5, 1.0]), np.array(0.7)
    grow = lambda y, t, rate: rate * y  # noqa: E731
    mine = ours(lambda y0, rate: tas.integrate.odeint(grow, y0, times, (rate,)), V, rate)
    theirs = autograd_scipy.integrate.odeint
    its = autograds(lambda y0, rate: theirs(grow, y0, times, autograd.builtins.tuple((rate,))), V, rate)
    np.testing.assert_allclose(mine[0], its[0], rtol=1e-6)
    for one, other in zip(mine[1], its[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


# --- layers and losses of MyGrad -------------------------------------------------------------------------------------

SCORES, CLASSES = RNG.normal(size=(4, 3)), np.array([0, 2, 1, 1])
IMAGE, FILTERS = RNG.normal(size=(2, 3, 6, 5)), RNG.normal(size=(4, 3, 2, 3))
PAIR = [RNG.normal(size=4), RNG.normal(size=4)]
TARGET = np.array([1, -1, 1, 1])


def probabilities(x: Any) -> Any:
    return np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)


MYGRAD: dict[str, tuple[Function, Function, Arrays]] = {
    **{
        f"activations.{name}": (getattr(ta, mine), getattr(nnet.activations, name), [SCORES])
        for name, mine in {
            **{name: name for name in ("relu", "sigmoid", "selu", "softmax")},
            **{"logsoftmax": "log_softmax", "soft_sign": "softsign", "hard_tanh": "hardtanh"},
        }.items()
    },
    "activations.tanh": (np.tanh, nnet.activations.tanh, [SCORES]),
    "activations.elu": (ta.elu, lambda x: nnet.activations.elu(x, alpha=1.0), [SCORES]),
    "activations.leaky_relu": (ta.leaky_relu, lambda x: nnet.activations.leaky_relu(x, 0.01), [SCORES]),
    "activations.glu": (lambda x: ta.glu(x, axis=0), lambda x: nnet.activations.glu(x, axis=0), [SCORES]),
    "losses.softmax_crossentropy": (
        lambda x: ta.cross_entropy(x, CLASSES),
        lambda x: nnet.losses.softmax_crossentropy(x, CLASSES),
        [SCORES],
    ),
    "losses.negative_log_likelihood": (
        lambda x: ta.nll_loss(x, CLASSES),
        lambda x: nnet.losses.negative_log_likelihood(x, CLASSES),
        [SCORES],
    ),
    "losses.softmax_focal_loss": (
        lambda x: ta.focal_loss(x, CLASSES, gamma=2.0, reduction="none"),
        lambda x: nnet.losses.softmax_focal_loss(x, CLASSES, gamma=2.0),
        [SCORES],
    ),
    "losses.focal_loss": (
        lambda p: ta.focal_loss(np.log(p / np.sum(p, -1, keepdims=True)), CLASSES, gamma=1.5, reduction="none"),
        lambda p: nnet.losses.focal_loss(p / p.sum(axis=-1, keepdims=True), CLASSES, gamma=1.5),
        [probabilities(SCORES)],
    ),
    "losses.margin_ranking_loss": (
        lambda a, b: ta.margin_ranking_loss(a, b, TARGET, margin=0.4),
        lambda a, b: nnet.losses.margin_ranking_loss(a, b, TARGET, 0.4),
        PAIR,
    ),
    "losses.multiclass_hinge": (
        lambda x: ta.multi_margin_loss(x, CLASSES) * 3,
        lambda x: nnet.losses.multiclass_hinge(x, CLASSES),
        [SCORES],
    ),
    "layers.conv_nd": (
        lambda x, w: ta.conv(x, w, stride=(1, 2), padding=1, dilation=(2, 1)),
        lambda x, w: nnet.layers.conv_nd(x, w, stride=(1, 2), padding=1, dilation=(2, 1)),
        [IMAGE[..., :4], FILTERS[..., :2]],
    ),
    "layers.max_pool": (
        lambda x: ta.max_pool(x, (2, 3), stride=(2, 1)),
        lambda x: nnet.layers.max_pool(x, (2, 3), (2, 1)),
        [IMAGE],
    ),
    "layers.batchnorm": (
        lambda x, gain, bias: ta.batch_norm(x, gain, bias, eps=1e-3),
        lambda x, gain, bias: nnet.layers.batchnorm(x, gamma=gain, beta=bias, eps=1e-3),
        [IMAGE, V, W],
    ),
}


def test_every_layer_and_loss_of_mygrad_is_compared() -> None:
    offered = {
        f"{folder}.{name}" for folder in ("activations", "losses", "layers") for name in find(nnet, folder).__all__
    }
    assert offered == set(MYGRAD)


@pytest.mark.parametrize("name", MYGRAD)
def test_a_layer_or_loss_has_mygrads_numbers(name: str) -> None:
    mine, theirs, arrays = MYGRAD[name]
    assert_same(ours(mine, *arrays), mygrads(theirs, *arrays))
