"""Why the derivative of a softmax or of a loss is zero at some elements, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tinygrad_attn import ops
from tinygrad_attn.diagnose.dead_element import SMALLER, Dead, Words
from tinygrad_attn.diagnose.explanation import number


def softmax(dead: Dead) -> Words | None:
    """Why a score changes no weight: masked, one of one, or too far from the others."""
    axis = normalize_axis_tuple(dead.options["axis"], max(dead.x.ndim, 1))[0]  # NumPy takes axis=-1 of one number
    place = list(dead.place)
    if dead.x.ndim == 0 or dead.x.shape[axis] == 1:
        return Words(
            "constant",
            f"axis {axis} holds one element, and its weight is 1 whatever it is",
            "is it the right axis? of scores (..., query_len, key_len), axis=-1 are the keys",
        )
    row: tuple[Any, ...] = (*dead.place[:axis], slice(None), *dead.place[axis + 1 :])
    scores, weight = np.sort(dead.x[row]), dead.out[dead.place]
    if scores[-1] == -np.inf:
        return Words("masked", f"all scores of the row at {place} are −∞: it has nothing to look at")
    if dead.operation.name == "log_softmax":
        return None
    if dead.value == -np.inf:
        return Words("masked", f"the score at {place} is −∞")
    if weight == 0.0:
        below = number(scores[-1] - dead.value)
        return Words("saturated", f"the weight at {place} rounds to 0: its score is {below} below the largest", SMALLER)
    if weight == 1.0 and scores[-2] == -np.inf:
        return Words("constant", f"all scores of the row at {place} but one are −∞: its weight is 1 whatever it is")
    if weight == 1.0:
        below = number(scores[-1] - scores[-2])
        return Words("saturated", f"the weight at {place} is 1: every other score is {below} or more below it", SMALLER)
    return None


def cross_entropy(dead: Dead) -> Words | None:
    """Why a logit changes no loss: its place is ignored, or its probability is right to the last digit."""
    target, ignored, weight = np.asarray(dead.operands[1]), dead.options["ignore_index"], dead.options["weight"]
    if target.dtype.kind not in "iu":
        plainly = weight is None and dead.options["label_smoothing"] == 0.0
        if plainly and np.array_equal(ops.softmax(dead.x)[dead.elements], target[dead.elements]):
            return Words("reached", f"{dead.some()} answered with the probability that is wanted of it")
        return None
    *place, chosen = dead.place
    named = target[tuple(place)]
    if ignored is not None and named == ignored:
        text = "every target is" if np.all(target == ignored) else f"the target at {place} is"
        return Words("ignored", f"{text} the ignore_index, {ignored}")
    if weight is not None and np.asarray(weight)[named] == 0.0:
        return Words("times zero", f"class {named} has weight 0")
    if dead.options["label_smoothing"] != 0.0:
        return None
    if dead.x.shape[-1] == 1:
        return Words("constant", "there is one class only, and its probability is 1 whatever the logit is")
    if chosen == named:
        return Words(
            "saturated", f"class {chosen} is wanted at {place} and has probability 1: nothing is left to learn"
        )
    below = number(np.max(dead.x[tuple(place)]) - dead.value)
    return Words("saturated", f"class {chosen} has probability 0 at {place}: its logit is {below} below the largest")


def already_equal(dead: Dead) -> Words | None:
    """Why an element of a prediction or a target changes no squared distance: the two are equal there."""
    if np.any((dead.operands[0] - dead.operands[1])[dead.elements]):
        return None
    return Words("reached", f"{dead.some()} equal to the other side: there is nothing to improve")
