"""Reductions, shapes, indexing, selection and products against PyTorch: values, first and second derivatives.

Elementwise functions, losses and matrix functions have files of their own; the last test sees to it that no operation
that PyTorch also has is left out of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.conftest import require
from tests.parity import (
    test_complex,
    test_ops_convolution,
    test_ops_elementwise,
    test_ops_linalg,
    test_ops_loss,
    test_recurrent,
)
from tinygrad_attn.domain import RandomChooser

torch = require("torch")
functional = torch.nn.functional

Function = Callable[..., Any]


def reduction(function: Function) -> Function:
    def theirs(x: Any, *, axis: Any, keepdims: bool) -> Any:
        if axis == ():
            return None  # PyTorch reads no axis as all axes
        axes = tuple(range(x.ndim)) if axis is None else axis
        return function(x, axes, keepdims) if x.ndim else function(x.reshape(1), 0, False)

    return theirs


def product(x: Any, axes: Any, keepdims: bool) -> Any:
    for axis in sorted((a % x.ndim for a in ((axes,) if isinstance(axes, int) else axes)), reverse=True):
        x = torch.prod(x, axis, keepdims)
    return x


def spread(x: Any, *, axis: Any, keepdims: bool, correction: float) -> Any:
    if axis == () or x.ndim == 0:
        return None
    deviation = torch.std(x, dim=axis, keepdim=keepdims, correction=correction)
    return None if (deviation == 0).any() or torch.isnan(deviation).any() else deviation


def norm(x: Any, *, ord: Any, axis: Any, keepdims: bool) -> Any:
    return torch.linalg.vector_norm(x, 2 if ord is None else ord, axis, keepdims)


def getitem(x: Any, *, index: Any) -> Any:
    try:
        return x[as_torch(index)]
    except (ValueError, IndexError):
        return None  # PyTorch knows no negative steps


def as_torch(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(as_torch(part) for part in index)
    return torch.tensor(index) if isinstance(index, np.ndarray) else index


def index_put(x: Any, values: Any, *, index: Any) -> Any:
    filled = x.clone()
    filled[as_torch(index)] = values
    return filled


def scatter_add(values: Any, *, index: Any, shape: Any) -> Any:
    places = torch.arange(math.prod(shape)).reshape(shape)[as_torch(index)]
    return (
        torch.zeros(math.prod(shape), dtype=values.dtype)
        .index_add(0, places.reshape(-1), values.reshape(-1))
        .reshape(shape)
    )


def attention(query: Any, key: Any, value: Any, mask: Any, bias: Any, keep: Any, *, scale: float) -> Any:
    if keep is not None:
        return None  # dropout draws by itself there
    additive = bias
    if mask is not None:
        hidden = torch.zeros(mask.shape, dtype=query.dtype).masked_fill(~mask, -math.inf)
        additive = hidden if bias is None else bias + hidden
    shape = torch.broadcast_shapes(query.shape[:-1] + key.shape[-2:-1])
    whole = None if additive is None else additive.broadcast_to(shape)
    if whole is not None and torch.isinf(whole).all(-1).any():
        return None  # nothing to attend to: zeros here, compared in tests of attention
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the only one with a second derivative
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=whole, scale=scale)


def roll(x: Any, *, shift: Any, axis: Any) -> Any:
    return torch.roll(x, shift, axis) if axis is None or isinstance(axis, int) == isinstance(shift, int) else None


def concatenate(*arrays: Any, axis: int | None) -> Any:
    return torch.cat([x.reshape(-1) for x in arrays], 0) if axis is None else torch.cat(arrays, axis)


def flip(x: Any, *, axis: Any) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else axis
    return torch.flip(x, (axes,) if isinstance(axes, int) else axes)


def repeat(x: Any, *, repeats: Any, axis: Any) -> Any:
    return torch.repeat_interleave(x, torch.as_tensor(repeats) if isinstance(repeats, np.ndarray) else repeats, axis)


def squeeze(x: Any, *, axis: Any) -> Any:
    return torch.squeeze(x) if axis is None else torch.squeeze(x, axis)


def sort(x: Any, *, axis: Any, kind: Any = None) -> Any:
    return torch.sort(x.reshape(-1)).values if axis is None else torch.sort(x, axis).values if x.ndim else x


def trace(x: Any, *, offset: int, axis1: int, axis2: int) -> Any:
    return torch.diagonal(x, offset, axis1, axis2).sum(-1)


THEIRS: dict[str, Function] = {
    "sum": reduction(torch.sum),
    "mean": reduction(torch.mean),
    "max": reduction(torch.amax),
    "min": reduction(torch.amin),
    "prod": reduction(product),
    "logsumexp": reduction(torch.logsumexp),
    "std": spread,
    "norm": norm,
    "cumsum": lambda x, *, axis: torch.cumsum(x.reshape(-1), 0) if axis is None else torch.cumsum(x, axis),
    "softmax": lambda x, *, axis: torch.softmax(x, axis),
    "log_softmax": lambda x, *, axis: torch.log_softmax(x, axis),
    "sort": sort,
    "reshape": lambda x, *, shape: x.reshape(shape),
    "transpose": lambda x, *, axes: x.permute(tuple(reversed(range(x.ndim))) if axes is None else axes),
    "swapaxes": lambda x, *, axis1, axis2: torch.swapaxes(x, axis1, axis2),
    "moveaxis": lambda x, *, source, destination: torch.moveaxis(x, source, destination),
    "expand_dims": lambda x, *, axis: torch.unsqueeze(x, axis) if isinstance(axis, int) else None,
    "squeeze": squeeze,
    "broadcast_to": lambda x, *, shape: torch.broadcast_to(x, shape),
    "concatenate": concatenate,
    "stack": lambda *arrays, axis: torch.stack(arrays, axis),
    "flip": flip,
    "roll": roll,
    "repeat": repeat,
    "tile": lambda x, *, reps: torch.tile(x, (reps,) if isinstance(reps, int) else tuple(reps)),
    "diagonal": lambda x, *, offset, axis1, axis2: torch.diagonal(x, offset, axis1, axis2),
    "trace": trace,
    "tril": lambda x, *, k: torch.tril(x, k) if x.ndim > 1 else None,
    "triu": lambda x, *, k: torch.triu(x, k) if x.ndim > 1 else None,
    "astype": lambda x, *, dtype: x.to(torch.float64),
    "identity": torch.clone,
    "positive": torch.positive,
    "getitem": getitem,
    "index_put": index_put,
    "scatter_add": scatter_add,
    "embedding": lambda weight, ids, *, padding_index: functional.embedding(ids, weight, padding_index),
    "where": torch.where,
    "masked_fill": lambda x, mask, *, value: torch.masked_fill(x, mask, value),
    "clip": lambda x, *, min, max: x.clone() if min is None and max is None else torch.clamp(x, min, max),
    "apply_keep_mask": torch.mul,
    "matmul": torch.matmul,
    "linear": functional.linear,
    "sum_of_products": lambda *operands, subscripts: torch.einsum(subscripts, *operands),
    "attention": attention,
}


@pytest.mark.parametrize("name", THEIRS)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_gradients_and_second_derivatives_are_pytorchs(name: str, seed: int) -> None:
    operation, rng = ta.OPERATIONS[name], np.random.default_rng(seed)
    assert operation.domain is not None
    choose = RandomChooser(rng)
    drawn = operation.domain(choose)
    options = {option: draw(choose, drawn) for option, draw in operation.option_domains.items()}
    ours, twins = [], []
    for index, value in enumerate(drawn):
        parameter = operation.parameters[min(index, len(operation.parameters) - 1)]
        wanted = value is not None and value.dtype == np.float64 and parameter in operation.rules
        ours.append(ta.Tensor(value, requires_grad=True) if wanted else value)
        twins.append(None if value is None else torch.tensor(value, requires_grad=wanted))
    twin = THEIRS[name](*twins, **options)
    if twin is None or not twin.requires_grad or not twin.numel():
        return  # chosen differently, or nothing that PyTorch would differentiate
    out = operation(*([ours] if operation.sequence else ours), **options)
    assert tuple(out.shape) == tuple(twin.shape)
    assert_allclose(out.numpy(), twin.detach().numpy(), rtol=1e-11, atol=1e-11)
    mine, others = (
        [x for x in ours if isinstance(x, ta.Tensor)],
        [x for x in twins if x is not None and x.requires_grad],
    )
    upstream = rng.normal(size=out.shape)  # and a square, so that linear functions are curved too
    first = ta.gradients(np.sum(out * out * upstream), mine, create_graph=True, unused="zeros")
    theirs = torch.autograd.grad((twin * twin * torch.tensor(upstream)).sum(), others, create_graph=True)
    for g, h in zip(first, theirs, strict=True):
        assert_allclose(g.numpy(), h.detach().numpy(), rtol=1e-9, atol=1e-9)
    directions = [rng.normal(size=x.shape) for x in mine]
    along = sum(np.sum(g * v) for g, v in zip(first, directions, strict=True))
    twin_along = sum((h * torch.tensor(v)).sum() for h, v in zip(theirs, directions, strict=True))
    second = ta.gradients(along, mine, unused="zeros")
    theirs = torch.autograd.grad(twin_along, others, allow_unused=True)
    for g, h in zip(second, theirs, strict=True):
        assert_allclose(g.numpy(), np.zeros(g.shape) if h is None else h.numpy(), rtol=1e-8, atol=1e-8)


# --- points where one has to choose ----------------------------------------------------------------------------------

SHARED_CHOICES: dict[str, tuple[Function, Function, Any]] = {
    "relu at 0": (ta.relu, torch.relu, [0.0, -0.0]),
    "abs at 0": (np.abs, torch.abs, [0.0]),
    "hardswish at its ends": (ta.hardswish, functional.hardswish, [3.0]),
    "max of equals": (np.max, torch.amax, [1.0, 3.0, 3.0]),
    "maximum of equals": (lambda x: np.maximum(x, 0.0), lambda x: torch.maximum(x, torch.zeros_like(x)), [0.0]),
    "norm of zeros": (np.linalg.norm, torch.linalg.vector_norm, [0.0, 0.0]),
    "std of equals": (np.std, lambda x: torch.std(x, correction=0), [1.0, 1.0]),
    "prod with a zero": (np.prod, torch.prod, [2.0, 0.0, 3.0]),
    "prod with two": (np.prod, torch.prod, [0.0, 0.0, 3.0]),
    "0 ** 0, by the base": (lambda x: x**0.0, lambda x: x**0.0, [0.0]),
    "0 ** p, by the exponent": (lambda p: 0.0**p, lambda p: torch.tensor(0.0) ** p, [0.0, 2.0]),
    "clip at its ends": (lambda x: np.clip(x, 0.0, 1.0), lambda x: torch.clamp(x, 0.0, 1.0), [0.0, 1.0]),
    "cross-entropy of huge logits": (
        lambda x: ta.cross_entropy(x, np.array(0)),
        lambda x: functional.cross_entropy(x, torch.tensor(0)),
        [-431.0, 279.0, 427.0],
    ),
    "sort with equals": (lambda x: np.sort(x) * [1.0, 1.0], lambda x: torch.sort(x).values, [1.0, 1.0]),
}


@pytest.mark.parametrize(("ours", "theirs", "at"), SHARED_CHOICES.values(), ids=SHARED_CHOICES)
def test_at_these_points_pytorch_chooses_as_we_do(ours: Function, theirs: Function, at: Any) -> None:
    x, twin = ta.Tensor(at, requires_grad=True), torch.tensor(at, requires_grad=True)
    out, other = ours(x), theirs(twin)
    out.sum().backward()
    other.sum().backward()
    assert_allclose(out.numpy(), other.detach().numpy(), rtol=1e-6)
    assert_array_equal(x.grad, twin.grad.numpy())


DIFFERENCES: dict[str, tuple[Function, Function, Any, Any, Any]] = {
    "softmax of nothing but −∞: 0 and not NaN": (
        ta.softmax,
        lambda x: torch.softmax(x, 0),
        [-math.inf, -math.inf],
        [0.0, 0.0],
        [math.nan] * 2,
    ),
    "where() hides an infinite slope": (
        lambda x: np.where(x > 0, np.log(x), 0.0),
        lambda x: torch.where(x > 0, torch.log(x), 0.0),
        [0.0, 1.0],
        [0.0, 1.0],
        [math.nan, 1.0],
    ),
}


@pytest.mark.parametrize(("ours", "theirs", "at", "here", "there"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_differences_that_we_chose(ours: Function, theirs: Function, at: Any, here: Any, there: Any) -> None:
    x, twin = ta.Tensor(at, requires_grad=True), torch.tensor(at, requires_grad=True)
    with np.errstate(all="ignore"):
        ours(x).sum().backward()
    theirs(twin).sum().backward()
    assert_array_equal(x.grad, here)
    assert_array_equal(twin.grad.numpy(), there)


def test_gradients_with_a_graph_of_their_own_agree_in_third_order() -> None:
    x, twin = (
        ta.Tensor([0.3, -0.7], dtype=np.float64, requires_grad=True),
        torch.tensor([0.3, -0.7], dtype=torch.float64),
    )
    twin.requires_grad_()
    one, other = (ta.softmax(x) * np.sin(x)).sum(), (torch.softmax(twin, 0) * torch.sin(twin)).sum()
    for _ in range(3):
        one = ta.gradients(one.sum(), x, create_graph=True)
        (other,) = torch.autograd.grad(other.sum(), twin, create_graph=True)
        assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-10)


# --- nothing is left out ---------------------------------------------------------------------------------------------

NOT_IN_PYTORCH = {
    "sum_rows": "the mirror image of embedding; index_add there, compared as scatter_add",
    "overlap_add": "the gradient of windows, whose second derivative is compared",
    "chunked_attention": "equal to attention by its own tests",
    "rotate_pairs": "written out there too; held to its definition by its own tests",
    "pad": "its modes and argument order differ; held to NumPy and differences",
}


def test_every_operation_that_pytorch_has_is_compared_with_it() -> None:
    """Those behind np.linalg are compared under NumPy's names, in the cases of test_ops_linalg."""
    assert {"solve", "inv", "det", "slogdet", "cholesky"} <= set(test_ops_linalg.CASES)
    transforms = {f"{name}, n=None, norm=None" for name in ("fft", "ifft", "rfft", "irfft")}
    assert {"eigenvalues", "sizes in eigenvectors", *transforms} <= set(test_complex.CASES)
    behind_linalg = {f"tinygrad_attn.ops.{file}" for file in ("inverse", "decompose", "eig", "fourier")}
    elsewhere = {
        *test_ops_elementwise.THEIRS,
        *test_ops_loss.THEIRS,
        *test_recurrent.THEIRS,
        *test_ops_convolution.THEIRS,
        *test_complex.CASES,
    }
    compared = {*THEIRS, *elsewhere, *NOT_IN_PYTORCH}
    others = {name for name, f in ta.OPERATIONS.items() if "." not in name and f.__module__ not in behind_linalg}
    assert others - compared == set()
