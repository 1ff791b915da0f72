"""Why the derivative of an operation is zero at some elements, in words; `zero.py` has made sure that it is.

One function per operation or family of them. Each says only what it has looked up in the values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tinygrad_attn.diagnose.dead_attention import explain_attention
from tinygrad_attn.diagnose.dead_element import Dead, Words
from tinygrad_attn.diagnose.dead_softmax import already_equal, cross_entropy, softmax
from tinygrad_attn.diagnose.explanation import Cause, number
from tinygrad_attn.diagnose.flow import Array, Use, is_built_in
from tinygrad_attn.diagnose.inside import opens


def explain_dead(use: Use, elements: Array, asked: int, *, general: bool = False) -> Cause | None:
    """The cause at elements whose derivative is zero; None where a look inside the operation would tell more.

    Args:
        use: the operation and the operand.
        elements: boolean, in the operand's shape.
        asked: how many elements were in question.
        general: say something in any case.
    """
    dead = Dead(use, elements, asked)
    explain = WORDS.get(dead.operation.name) if is_built_in(dead.operation) else None
    if use.out.size == 0:
        words: Words | None = Words("empty", "its result holds no elements")
    else:
        words = explain(dead) if explain is not None else None
    if words is None and (general or not opens(dead.operation)):
        words = _left_out(dead) if dead.operation.moves else _flat(dead)
    if words is None:
        return None
    return Cause(
        words.kind,
        words.text,
        dead.operation.name,
        dead.parameter,
        dead.place,
        dead.shown(),
        dead.count,
        remedy=words.remedy,
    )


# --- families --------------------------------------------------------------------------------------------------------


def _flat(dead: Dead) -> Words:
    rule = dead.operation.formulas.get(dead.parameter.split("[")[0], "")
    return Words("zero slope", f"its rule gives 0 for {dead.parameter} here" + (f" ({rule})" if rule else ""))


def _left_out(dead: Dead) -> Words:
    hint = "is it the right index, and the right axis?" if dead.operation.name == "getitem" else ""
    return Words("not read", f"{dead.some()} not in the result", hint)


def _relu(dead: Dead) -> Words:
    largest = number(np.max(dead.values))
    return Words(
        "dead relu",
        f"{dead.some()} not above 0 (largest {largest}), where its slope is 0",
        "a smaller learning rate, another initialisation, or ta.leaky_relu, ta.gelu",
    )


def _saturated(dead: Dead) -> Words | None:
    if np.min(np.abs(dead.values)) < 2.0:  # not far out; silu and gelu have a lowest point
        return None
    low, high = number(np.min(dead.values)), number(np.max(dead.values))
    between = low if low == high else f"{low} … {high}"
    return Words(
        "saturated",
        f"{dead.some()} so far from 0 ({between}) that its slope rounds to 0",
        "smaller inputs: normalise before it, or start with smaller weights",
    )


def _exp(dead: Dead) -> Words:
    base = "2" if dead.operation.name == "exp2" else "e"
    if np.max(dead.values) == -np.inf:
        return Words("masked", f"{base} to the power of −∞ is 0")
    return Words(
        "underflow",
        f"{base} to the power of {number(np.max(dead.values))} or less rounds to 0 in {dead.out.dtype}",
        "work with the logarithm itself: log_softmax, logsumexp, logaddexp",
    )


def _other_is_zero(dead: Dead) -> Words | None:
    other = dead.operand(1 - dead.use.operand)
    if other is None or other != 0.0:
        return None
    if dead.use.node.inputs[0] is dead.use.node.inputs[1]:
        return Words("zero slope", f"{dead.some()} 0, and so is the slope of a square there")
    return Words("times zero", f"{dead.some()} multiplied by 0", dead.look_at(1 - dead.use.operand))


def _factor_is_zero(dead: Dead) -> Words:
    others = [
        (dead.called(position), value, position)
        for position, value in enumerate(dead.operands)
        if position != dead.use.operand and dead.operation.parameter_at(position) != "bias"
    ]
    if dead.operation.name == "sum_of_products" and not _is_read(dead):
        return _left_out(dead)
    name, value, position = others[0]
    if len(others) == 1 and not np.any(value):
        return Words("times zero", f"{name} is 0 throughout", dead.look_at(position))
    what = f"what {name} has for them" if len(others) == 1 else f"the product of {', '.join(n for n, _, _ in others)}"
    return Words("times zero", f"{dead.some()} multiplied by 0: {what} is 0 there")


def _is_read(dead: Dead) -> bool:
    """Whether a sum of products contains the element at all: "ii" takes the diagonal and nothing beside it."""
    marks = [np.ones_like(value) for value in dead.operands]
    marks[dead.use.operand] = np.zeros_like(dead.x)
    marks[dead.use.operand][dead.place] = 1.0
    return bool(np.any(dead.operation.forward(*marks, **dead.options)))


def _divide(dead: Dead) -> Words | None:
    if dead.use.operand == 1 and dead.operand(0) == 0.0:
        return Words("times zero", "the numerator is 0, whatever the denominator is")
    return None


def _power(dead: Dead) -> Words | None:
    if dead.use.operand == 0 and dead.operand(1) == 0.0:
        return Words("constant", "the exponent is 0: the result is 1, whatever the base is")
    return None


def _not_chosen(dead: Dead) -> Words | None:
    if np.isnan(dead.out).any():
        return None
    names = {"max": "largest", "maximum": "larger one", "min": "smallest", "minimum": "smaller one"}
    return Words(
        "not chosen",
        f"{dead.some()} not the {names[dead.operation.name]}, and only that gets a gradient",
        "logsumexp or softmax in its place give everyone a share" if dead.operation.name == "max" else "",
    )


def _clip(dead: Dead) -> Words | None:
    if np.isnan(dead.values).any():
        return None
    if dead.operation.name == "relu6":
        bounds = "(0, 6)"
    else:
        low, high = dead.options["min"], dead.options["max"]
        bounds = f"[{'−∞' if low is None else number(low)}, {'∞' if high is None else number(high)}]"
    return Words("clipped", f"{dead.some()} outside {bounds}, where the result does not change")


def _where(dead: Dead) -> Words:
    condition = "does not hold" if dead.parameter == "x" else "holds"
    return Words("branch not taken", f"{dead.some()} not taken: the condition {condition}")


def _masked_fill(dead: Dead) -> Words:
    mask, value = np.asarray(dead.operands[1]), number(dead.options["value"])
    entry = [i if n > 1 else 0 for i, n in zip(dead.at[len(dead.at) - mask.ndim :], mask.shape, strict=True)]
    return Words("masked", f"{dead.some()} masked: mask{entry} is True, and {value} stands in the result")


def _dropped(dead: Dead) -> Words:
    if not np.any(dead.operands[1]):
        return Words("dropped", "dropout has dropped every element in this pass", "a smaller p")
    return Words("dropped", f"{dead.some()} dropped in this pass; another pass drops others")


def _embedding(dead: Dead) -> Words:
    rows = np.flatnonzero(dead.elements.reshape(len(dead.x), -1).any(axis=1))
    padding, ids = dead.options["padding_index"], dead.operands[1]
    unread = [int(row) for row in rows if not np.any(ids == row)]
    learns_nothing = f"row {padding} is the padding_index, which learns nothing"
    if not unread:
        return Words("padding", learns_nothing)
    named = ", ".join(str(row) for row in unread[:5]) + (", …" if len(unread) > 5 else "")
    text = f"no id names row {named}" if len(unread) == 1 else f"no id names the rows {named}"
    return Words("not read", text if len(unread) == len(rows) else f"{text}; {learns_nothing}")


def _index_put(dead: Dead) -> Words | None:
    return Words("overwritten", f"{dead.some()} overwritten with values") if dead.parameter == "x" else None


def _triangle(dead: Dead) -> Words:
    return Words("not read", f"{dead.some()} outside the part of the matrix that is taken")


def _prod(dead: Dead) -> Words:
    return Words(
        "times zero", "another factor is 0" if np.any(dead.x == 0.0) else "the other factors' product rounds to 0"
    )


def _spread(dead: Dead) -> Words | None:
    axis = dead.options["axis"]
    axes = tuple(range(dead.x.ndim)) if axis is None else normalize_axis_tuple(axis, dead.x.ndim)
    if all(dead.x.shape[i] == 1 for i in axes):
        return Words("constant", "it is taken over one element, and 0 whatever that is", "is it the right axis?")
    if np.any((dead.x - np.mean(dead.x, axis=axes, keepdims=True))[dead.elements]):
        return None
    return Words("zero slope", f"{dead.some()} equal to the mean, where the derivative is 0")


def _norm(dead: Dead) -> Words | None:
    return None if np.any(dead.values) else Words("zero slope", f"{dead.some()} 0, and so is its derivative there")


def _layer_norm(dead: Dead) -> Words | None:
    if dead.parameter == "x" and dead.x.shape[-1] == 1:
        return Words("constant", "vectors of length 1 are normalised to 0, whatever they were", "is it the right axis?")
    return None


def _sure(dead: Dead) -> Words | None:
    if dead.parameter != "logits":
        return None
    return Words("nothing to learn", f"{dead.some()} so sure of the target that σ(x) − t rounds to 0")


def _attention(dead: Dead) -> Words | None:
    return explain_attention(dead.parameter, dead.place, dead.operands, dead.options)


_SATURATING = (
    "sigmoid",
    "tanh",
    "softsign",
    "erf",
    "erfc",
    "softplus",
    "log_sigmoid",
    "silu",
    "gelu",
    "gelu_tanh",
    "elu",
    "expm1",
)

WORDS: dict[str, Callable[[Dead], Words | None]] = {
    **dict.fromkeys(_SATURATING, _saturated),
    **dict.fromkeys(("exp", "exp2"), _exp),
    **dict.fromkeys(("max", "min", "maximum", "minimum"), _not_chosen),
    **dict.fromkeys(("matmul", "linear", "sum_of_products"), _factor_is_zero),
    **dict.fromkeys(("softmax", "log_softmax"), softmax),
    **dict.fromkeys(("tril", "triu", "diagonal", "trace"), _triangle),
    **dict.fromkeys(("prod", "cumprod"), _prod),
    **dict.fromkeys(("var", "std"), _spread),
    **dict.fromkeys(("attention", "chunked_attention"), _attention),
    "relu": _relu,
    "relu6": _clip,
    "multiply": _other_is_zero,
    "divide": _divide,
    "power": _power,
    "clip": _clip,
    "where": _where,
    "masked_fill": _masked_fill,
    "apply_keep_mask": _dropped,
    "embedding": _embedding,
    "index_put": _index_put,
    "cross_entropy": cross_entropy,
    "mse_loss": already_equal,
    "bce_with_logits": _sure,
    "layer_norm": _layer_norm,
    "norm": _norm,
}
