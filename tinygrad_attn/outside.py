"""Gradients that users hand in, checked: where `backward` starts, what a hook returns, what is assigned to `.grad`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_attn.errors import ArgumentError, DtypeError, GradientError, NotFiniteError, ShapeError
from tinygrad_attn.methods import ArrayMethods
from tinygrad_attn.modes import MODES

if TYPE_CHECKING:
    from tinygrad_attn.graph import Gradient
    from tinygrad_attn.tensor import Tensor


def where_to_start(tensor: Tensor, gradient: Any) -> Any:
    """The gradient that a backward pass from `tensor` starts with; ones for a single element if it is None.

    Raises:
        GradientError: the tensor requires no gradient, or it is not one real number and `gradient` is None.
    """
    if not tensor.requires_grad:
        raise GradientError(
            "backward() from a tensor that requires no gradient\n"
            "  nothing behind it was created with requires_grad=True, or it was computed under no_grad()"
        )
    if gradient is not None:
        return as_gradient(gradient, tensor, "gradient")
    if tensor.size != 1:
        raise GradientError(
            "backward() from more than one element needs the gradient that arrives at each\n"
            f"  given shape {tensor.shape}; reduce it first, as in loss.sum().backward(), or pass that gradient"
        )
    if tensor.dtype.kind == "c":
        raise GradientError(
            "backward() from a complex number needs the gradient that arrives there\n"
            f"  given {tensor.dtype}; only a real loss can be made smaller: np.absolute(loss), or pass that gradient"
        )
    return np.ones(tensor.shape, tensor.dtype)


def as_gradient(value: Any, tensor: Tensor, what: str) -> Any:
    """`value` as an array of its own in the shape and dtype of `tensor`.

    Raises:
        DtypeError: it holds something else than numbers, or complex ones for a real tensor; the message begins with
            `what`.
        ShapeError: it has another shape.
    """
    try:
        array = np.asarray(value._data if isinstance(value, ArrayMethods) else value)
    except (ValueError, TypeError):  # a nested list of unequal lengths
        array = np.array(None)
    kinds, numbers = ("fciub", "numbers") if tensor.dtype.kind == "c" else ("fiub", "real numbers")
    if array.dtype.kind not in kinds:
        raise DtypeError(f"{what} must hold {numbers}\n  expected {tensor.dtype} {tensor.shape}, given {value!r}")
    if array.shape != tensor.shape:
        raise ShapeError(f"{what} must have the tensor's shape\n  expected {tensor.shape}, given {array.shape}")
    return np.array(array, dtype=tensor.dtype)


def check_assigned(gradient: Any, tensor: Tensor) -> None:
    """Raise unless `gradient` is an array of the shape and dtype of `tensor`: what `.grad` may be set to."""
    if not isinstance(gradient, (np.ndarray, np.generic)):  # the latter is what 2 * grad is without axes
        raise DtypeError(f"grad must be an array or None\n  given {type(gradient).__name__}; of a Tensor, t.numpy()")
    if gradient.dtype != tensor.dtype:
        raise DtypeError(
            f"grad must have the tensor's dtype\n  expected {tensor.dtype}, given {gradient.dtype}; "
            f"pass gradient.astype({str(tensor.dtype)!r})"
        )
    if gradient.shape != tensor.shape:
        raise ShapeError(f"grad must have the tensor's shape\n  expected {tensor.shape}, given {gradient.shape}")


def check_expects_gradient(tensor: Tensor, asking: str) -> None:
    """Raise if no gradient will ever reach `tensor`, so that `asking` for it is a mistake."""
    if not tensor.requires_grad:
        raise GradientError(
            f"{asking}: no gradient will reach a tensor that requires none\n"
            "  create it with requires_grad=True or call requires_grad_() first; was it computed under no_grad()?"
        )


def run_hooks(tensor: Tensor, gradient: Gradient, *, recorded: bool) -> Gradient:
    """The gradient after all hooks of `tensor`, each of which may replace it."""
    for handle in tensor.hooks:
        if not recorded:  # read-only: the same array may be on its way to other tensors
            gradient = np.asarray(gradient).view()
            gradient.flags.writeable = False
        replacement = handle.hook(gradient)
        if replacement is not None:
            replaced = _replaced(replacement, tensor, recorded)
            if MODES.get().detect_anomaly:
                watch(f"a hook on {called(tensor)} made", replaced, gradient)
            gradient = replaced
    return gradient


def called(tensor: Tensor) -> str:
    """What to call a tensor in an error."""
    made_by = "a leaf" if tensor.node is None else f"a result of {tensor.node.operation.name}"
    return tensor.name or f"{made_by} {tensor.shape}"


def watch(what: str, gradient: Gradient, *parts: Gradient) -> None:
    """Raise if a NaN or an infinity has been made of finite gradients; rules are watched where they run."""
    made, *given = (np.asarray(g._data if isinstance(g, ArrayMethods) else g) for g in (gradient, *parts))
    finite = np.isfinite(made)
    if finite.all() or not all(np.isfinite(values).all() for values in given):
        return
    place = tuple(int(i) for i in np.unravel_index(int(np.argmin(finite)), finite.shape))
    numbers = ", ".join(str(values[place]) for values in given)
    raise NotFiniteError(f"{what} {made[place]} at {place}, of finite numbers: {numbers}")


def _replaced(replacement: Any, tensor: Tensor, recorded: bool) -> Gradient:
    what = f"what a hook on {tensor.name or 'a tensor'} returns"
    try:
        plain = as_gradient(replacement, tensor, what)
    except (DtypeError, ShapeError) as error:
        raise GradientError(f"{error}\n  or return None, to leave the gradient as it is") from None
    if not recorded:
        return plain
    if isinstance(replacement, ArrayMethods):
        return replacement.astype(tensor.dtype)
    return tensor.from_own(plain)


class HookHandle:
    """What `register_hook` returns; calling it, its `remove`, or the end of a `with` block takes the hook away."""

    def __init__(self, tensor: Tensor, hook: Callable[[Any], Any]) -> None:
        if not callable(hook):
            raise ArgumentError(f"register_hook: expected a function of the gradient\n  given {hook!r}")
        check_expects_gradient(tensor, "register_hook")
        self.hook = hook
        self._tensor = weakref.ref(tensor)
        tensor.hooks = (*tensor.hooks, self)

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        tensor = self._tensor()
        if tensor is not None:
            tensor.hooks = tuple(handle for handle in tensor.hooks if handle is not self)

    __call__ = remove

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
