"""Hold one of our operations to PyTorch's: value, gradients and second derivatives, on inputs from its own domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tinygrad_attn as ta
from tests.conftest import require
from tinygrad_attn import OPERATIONS, Tensor
from tinygrad_attn.domain import RandomChooser

torch = require("torch")

Function = Callable[..., Any]


def assert_equals_torch(name: str, theirs: Function, seed: int) -> None:
    """Claim that the operation `name` and `theirs(*inputs, **options)` agree on what `seed` draws."""
    operation, rng = OPERATIONS[name], np.random.default_rng(seed)
    assert operation.domain is not None
    chooser = RandomChooser(rng)
    inputs = operation.domain(chooser)
    options = {option: draw(chooser, inputs) for option, draw in operation.option_domains.items()}
    ours = [as_tensor(x, parameter in operation.rules) for x, parameter in zip_names(operation, inputs)]
    twins = [t if t is None else torch.tensor(t.numpy(), requires_grad=t.requires_grad) for t in ours]
    out, twin = operation(*ours, **options), theirs(*twins, **options)
    if twin is None:  # the two differ here on purpose; a test of its own says how
        return
    close(out, twin, 1e-11)
    # The square makes even linear functions curved, so that the second derivative says something.
    upstream = rng.standard_normal(out.shape)
    mine, others = ([x for x in each if x is not None and x.requires_grad] for each in (ours, twins))
    found = ta.gradients(np.sum(out * out * upstream), mine, create_graph=True)
    expected = torch.autograd.grad((twin * twin * torch.tensor(upstream)).sum(), others, create_graph=True)
    directions = [rng.standard_normal(x.shape) for x in mine]
    for one, other in zip(found, expected, strict=True):
        close(one, other, 1e-9)
    along = sum(np.sum(g * v) for g, v in zip(found, directions, strict=True))
    twin_along = sum((g * torch.tensor(v)).sum() for g, v in zip(expected, directions, strict=True))
    for one, other in zip(ta.gradients(along, mine), torch.autograd.grad(twin_along, others), strict=True):
        close(one, other, 1e-8)


def zip_names(operation: Any, inputs: tuple[Any, ...]) -> Any:
    """Pairs of an input and the name of its parameter."""
    return zip(inputs, operation.parameters, strict=True)


def as_tensor(value: Any, has_rule: bool) -> Any:
    """A Tensor, which requires a gradient if it can have one; an operand that was left out stays None."""
    if value is None:
        return None
    array = np.asarray(value)
    return Tensor(array, requires_grad=array.dtype == np.float64 and has_rule)


def close(ours: Any, theirs: Any, tolerance: float) -> None:
    """Equal shapes and values."""
    expected = theirs.detach().numpy()
    assert ours.shape == expected.shape
    np.testing.assert_allclose(ours.numpy(), expected, rtol=tolerance, atol=tolerance)
