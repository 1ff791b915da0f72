"""`why`: what became of a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tinygrad_attn.diagnose.connection import freed_behind, is_behind, missing_link
from tinygrad_attn.diagnose.explanation import Cause, Derivative, Explanation, State, label, number
from tinygrad_attn.diagnose.flow import SMALL, Array, Flow, quiet
from tinygrad_attn.diagnose.notfinite import forward_origins, not_finite_causes
from tinygrad_attn.diagnose.zero import ZeroTrace
from tinygrad_attn.errors import DtypeError, IndexRangeError, MutatedError, ShapeError
from tinygrad_attn.graph import topological_order
from tinygrad_attn.tensor import Tensor

Elements = Array  # which elements were asked about: boolean, in the tensor's shape

ELSEWHERE = "gradients add up over passes and losses; hooks, and whoever writes into .grad, change them"
LINES = "run the forward pass inside ta.detect_anomaly(), to see the lines that computed it"


def why(
    tensor: Tensor, loss: Tensor | None = None, *, index: Any = None, upstream: ArrayLike | None = None
) -> Explanation:
    """Why the gradient of `tensor` is None, zero, NaN or infinite: the first operation at fault, and what to do.

    "None", "not computed yet" and "zero" are three answers. The derivative is computed anew: no `.grad` is touched and
    no hook is called. What is said about an operation has been tried out on it: zero is its derivative by an element
    only if random gradients of the result do not come back to that element.

    Args:
        tensor: whose gradient is in question.
        loss: what `backward()` is, or was, called on; without it, only the tensor itself is looked at.
        index: ask about these elements only, such as `index=3` for a row; all of them if None.
        upstream: ∂L/∂loss, in the shape of loss; ones if None.
    Returns:
        An `Explanation`; print it.
    Raises:
        DtypeError: `tensor` or `loss` is no Tensor.
        ShapeError: `upstream` has another shape than the loss.
        IndexRangeError: `index` does not fit.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor([-1.0, -2.0], requires_grad=True, name="x")
    >>> loss = ta.relu(x).sum()
    >>> loss.backward()
    >>> print(why(x, loss))
    x (2,): the gradient is zero
      relu: both elements are not above 0 (largest -1), where its slope is 0
          x[0]    -1
          result  0
        try: a smaller learning rate, another initialisation, or ta.leaky_relu,
             ta.gelu
    """
    if not isinstance(tensor, Tensor):
        raise DtypeError(
            f"why explains the gradient of a Tensor\n  given {type(tensor).__name__}; plain arrays have no gradient"
        )
    if loss is not None and not isinstance(loss, Tensor):
        raise DtypeError(
            f"why: the loss must be a Tensor\n  given {type(loss).__name__}: numpy(), item(), argmax, a comparison and "
            "rounding\n  give plain arrays and numbers, and no gradient comes back from them"
        )
    if not tensor.requires_grad:
        return _not_required(tensor, loss)
    if loss is None:
        return _alone(tensor, index)
    return _Question(tensor, loss, index, upstream).answer()


def _not_required(tensor: Tensor, loss: Tensor | None) -> Explanation:
    subject = label(tensor)
    if tensor.dtype.kind not in "fc":
        text = f"there is no gradient: it holds {tensor.dtype}, and whole numbers and booleans have none"
        return Explanation(subject, "not required", text)
    source = None if loss is None else next((t for t in topological_order([loss]) if _same_memory(t, tensor)), None)
    if source is not None:
        text = f"there is no gradient: it has the memory of {label(source)}, which has one, and was cut off from it"
        return Explanation(subject, "not required", text, advice="ask about the original, or use it in its place")
    text = (
        "there is no gradient, since it requires none: it was created without requires_grad=True, frozen with "
        "requires_grad_(False), or computed"
    )
    notes = ("computed means: from constants only, under no_grad(), or by detach(), numpy() or a plain function",)
    advice = "tensor.requires_grad_() before the forward pass"
    return Explanation(subject, "not required", text, notes=notes, advice=advice)


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one.size > 0 and np.may_share_memory(one._data, other._data)


def _alone(tensor: Tensor, index: Any) -> Explanation:
    """What can be said without the loss."""
    subject, advice = label(tensor), "why(tensor, loss) looks at the way between them"
    if tensor.grad is None:
        if tensor.node is not None and not tensor.keeps_grad:
            return _unkept(subject, ())
        text = ".grad is None: no backward pass has reached it, since backward() was not called or it was not used"
        return Explanation(subject, "not computed", text, advice=advice)
    kind = _kind_of(tensor.grad[_elements(tensor, index)])
    return Explanation(
        subject, _STATES[kind], f".grad is {_ADJECTIVES[kind]}", advice="" if kind == "not zero" else advice
    )


def _unkept(subject: str, notes: tuple[str, ...], **more: Any) -> Explanation:
    return Explanation(
        subject,
        "not kept",
        ".grad is None: it is a result and no leaf, and backward() keeps the gradients of leaves",
        notes=notes,
        advice="tensor.retain_grad() before backward(), ta.gradients(loss, tensor), or ta.keep_grads() for all",
        **more,
    )


_STATES: dict[Derivative, State] = {
    "zero": "zero",
    "partly zero": "partly zero",
    "not finite": "not finite",
    "rounding error": "rounding error",
    "not zero": "fine",
}
_ADJECTIVES: dict[Derivative, str] = {
    "zero": "zero",
    "partly zero": "zero in places",
    "not finite": "not finite",
    "rounding error": "zero but for rounding errors",
    "not zero": "not zero",
}


def _elements(tensor: Tensor, index: Any) -> Elements:
    chosen = np.ones(tensor.shape, dtype=bool)
    if index is not None:
        chosen[...] = False
        try:
            chosen[index] = True
        except IndexError as error:
            raise IndexRangeError(f"why: {error}\n  given index={index!r} for shape {tensor.shape}") from None
    return chosen


def _told(kind: Derivative, gradient: Array) -> str:
    if gradient.size == 0:
        return "empty: it has no elements"
    if kind == "partly zero":
        return f"zero in {int(np.sum(gradient == 0.0))} of {gradient.size} elements"
    if kind == "not finite" and not np.all(~np.isfinite(gradient)):
        return f"not finite in {int(np.sum(~np.isfinite(gradient)))} of {gradient.size} elements"
    return _ADJECTIVES[kind]


def _sizes(gradient: Array) -> str:
    low, high = number(np.min(np.abs(gradient))), number(np.max(np.abs(gradient)))
    return f"size {low}" if low == high else f"sizes from {low} to {high}"


def _kind_of(gradient: Array) -> Derivative:
    if not np.isfinite(gradient).all():
        return "not finite"
    if gradient.size == 0 or np.all(gradient != 0.0):
        return "not zero"
    return "partly zero" if np.any(gradient) else "zero"


class _Question:
    """One call of `why` with a loss."""

    def __init__(self, tensor: Tensor, loss: Tensor, index: Any, upstream: ArrayLike | None) -> None:
        self.tensor, self.loss = tensor, loss
        self.subject = label(tensor)
        self.elements = _elements(tensor, index)
        self.upstream = np.asarray(1.0 if upstream is None else upstream, dtype=loss.dtype)
        if upstream is not None and self.upstream.shape != loss.shape:
            raise ShapeError(
                f"why: upstream must have the loss's shape\n  expected {loss.shape}, given {self.upstream.shape}"
            )
        self.upstream = np.broadcast_to(self.upstream, loss.shape)
        self.notes: list[str] = []
        self.hooked = False
        if upstream is None and loss.size != 1:
            self.notes.append(f"the loss has shape {loss.shape}: a gradient of ones was sent in")

    def answer(self) -> Explanation:
        """The first of the reasons, in the order in which they exclude one another."""
        if not self.loss.requires_grad:
            return self._loss_not_recorded()
        if not is_behind(self.tensor, self.loss):
            return self._not_connected()
        try:
            flow = Flow(self.loss, self.upstream, self.tensor)
        except MutatedError as error:
            return self._stopped("changed", "values on the way were changed after the forward pass", error)
        except Exception as error:  # a rule of a user's own may raise anything
            return self._stopped("failed", f"a gradient rule raised {type(error).__name__}", error)
        gradient = flow.gradient(self.tensor)
        kind = _kind_of(gradient[self.elements])
        causes = self._causes(flow, gradient, kind)
        if kind in ("not zero", "partly zero") and (dust := self._rounding(flow, gradient)):
            kind, causes = "rounding error", dust
        self._look_around(flow, gradient, kind, causes)
        return self._verdict(kind, _told(kind, gradient[self.elements]), tuple(causes))

    def _loss_not_recorded(self) -> Explanation:
        if self.loss.dtype.kind not in "fc":
            why_not = f"it holds {self.loss.dtype}, and whole numbers and booleans have no gradient"
        else:
            why_not = (
                "nothing behind it was recorded: it was computed under no_grad(), or from values without a gradient, "
                "such as those of detach() and numpy()"
            )
        text = f"there is no gradient, since the loss has none: {why_not}"
        advice = "print requires_grad of each step: it must be True up to the loss"
        return Explanation(self.subject, "not connected", text, advice=advice)

    def _not_connected(self) -> Explanation:
        if is_behind(self.loss, self.tensor):
            text = "there is no gradient: it was computed from the loss, not the loss from it"
            return Explanation(self.subject, "not connected", text, advice="swap the two: why(tensor, loss)")
        freed = freed_behind(self.loss)
        if freed is not None:
            text = f"the graph behind the loss has been freed (at {freed.operation.name}): the way to it is gone"
            advice = "ask before backward(retain_graph=False), or run the forward pass again"
            return Explanation(self.subject, "freed", text, advice=advice)
        cause, notes = missing_link(self.tensor, self.loss)
        text = "there is no gradient: the loss does not depend on it"
        return Explanation(self.subject, "not connected", text, causes=(cause,) if cause else (), notes=notes)

    def _stopped(self, state: State, text: str, error: Exception) -> Explanation:
        return Explanation(
            self.subject, state, f"no gradient can be computed: {text}", notes=tuple(str(error).split("\n"))
        )

    def _causes(self, flow: Flow, gradient: Array, kind: Derivative) -> list[Cause]:
        with quiet():
            if kind == "not finite":
                return not_finite_causes(flow, self.tensor, self.elements & ~np.isfinite(gradient))
            if kind in ("zero", "partly zero"):
                return ZeroTrace(flow).causes(self.tensor, self.elements & (gradient == 0.0))
        return []

    def _rounding(self, flow: Flow, gradient: Array) -> list[Cause]:
        limit = SMALL * float(np.finfo(self.tensor.dtype).eps) * float(np.max(np.abs(self.upstream), initial=0.0))
        if gradient.size == 0 or np.max(np.abs(gradient)) > limit:
            return []
        with quiet():
            return ZeroTrace(flow).rounding(self.tensor)

    def _look_around(self, flow: Flow, gradient: Array, kind: Derivative, causes: list[Cause]) -> None:
        """Note what else may matter: hooks, a loss that is not finite, elements that are fine, missing lines."""
        asked = gradient[self.elements]
        if kind in ("not zero", "rounding error") and asked.size:
            self.notes.append(f"its elements have {_sizes(asked)}")
        freed = freed_behind(self.loss)
        if freed is not None:
            name = freed.operation.name
            self.notes.append(f"part of the graph has been freed (at {name}): what went through it is not counted")
        hooked = [tensor for tensor in flow.order if tensor.hooks]
        if hooked:
            self.notes.append(f"a hook may change it: one is on {label(hooked[-1])}; hooks were not called here")
            self.hooked = True
        if kind == "not zero" and asked.size and self.tensor.grad is not None:
            held = self.tensor.grad[self.elements]
            if _kind_of(held) == kind and np.max(np.abs(held - asked)) > 0.01 * np.max(np.abs(asked)):
                self.notes.append(f"those of .grad have {_sizes(held)}: {ELSEWHERE}")
        if kind != "not finite" and (origins := forward_origins(self.loss)):
            self.notes.append(
                "the loss itself is not finite: " + " ".join(line.strip() for line in origins[0].lines()[:1])
            )
        if any(cause.operation and cause.source is None for cause in causes) and kind == "not finite":
            self.notes.append(LINES)

    def _verdict(self, kind: Derivative, told: str, causes: tuple[Cause, ...]) -> Explanation:
        tensor, notes = self.tensor, tuple(self.notes)
        said = f"computed here, the gradient is {told}"
        if tensor.grad is None and tensor.node is not None and not tensor.keeps_grad:
            return _unkept(self.subject, (said, *notes), derivative=kind, causes=causes)
        if tensor.grad is None:
            text = f".grad is None, as no backward pass has reached it yet; {said}"
            return Explanation(
                self.subject, "not computed", text, kind, causes, notes, "" if causes else "loss.backward()"
            )
        held = _kind_of(tensor.grad[self.elements])
        if held != kind and not (kind == "rounding error" and held != "not finite"):
            text = f".grad is {_ADJECTIVES[held]}, though the gradient computed here is {told}: it comes from elsewhere"
            advice = "zero_grad(), then backward()" + ("; if it stays so, look at the hook" if self.hooked else "")
            return Explanation(self.subject, "stale", text, kind, causes, (ELSEWHERE, *notes), advice)
        return Explanation(self.subject, _STATES[kind], f"the gradient is {told}", kind, causes, notes)
