"""What kind of mistake makes a NaN or an infinity at an operation, and what helps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Verdict(NamedTuple):
    """What happened, in a few words, and what to do about it."""

    kind: str
    remedy: str = ""


Numbers = Mapping[str, Any]  # operands by name: the element concerned, or None where shapes do not tell which

_LOGARITHMS = ("log", "log2", "log10", "log1p")
_EXPONENTIALS = ("exp", "exp2", "expm1", "sinh", "cosh")
_RANGED = ("arcsin", "arccos", "arctanh", "arccosh")
_SUMS_OF_PRODUCTS = ("matmul", "linear", "sum_of_products", "attention", "chunked_attention")

_LOG = "keep it above 0, as in np.log(x + 1e-12); of probabilities take ta.log_softmax or ta.log_sigmoid of the scores"
_ROOT = "keep it above 0, as in np.sqrt(x + 1e-12)"
_DENOMINATOR = "add a small number to the denominator, or replace its zeros with np.where before dividing"
_EXP = "subtract the maximum first, as ta.softmax, ta.logsumexp and ta.log_softmax do"
_RANGE = "keep it inside the range, as in np.clip(x, -1 + 1e-7, 1 - 1e-7)"
_SMALLER = "smaller numbers, or float64"
_MASKED = "is it the maximum of a row that is −∞ throughout, fully masked? ta.softmax gives such a row zeros"
_SPREAD = "one element has no spread about its mean: ddof=0, or more elements"
_EPS = "a row without spread has variance 0: give eps a small number"
_MEET = "keep infinities away from it: np.where chooses without multiplying"


def judge_forward(
    operation: str, numbers: Numbers, inputs: list[Any], value: Any, options: Mapping[str, Any]
) -> Verdict:
    """What made a value that is not finite, in the forward pass.

    Args:
        operation: its name.
        numbers: the operands at the place concerned.
        inputs: all operands, as plain values.
        value: the NaN or infinity.
        options: of the operation.
    """
    found = [number for number in numbers.values() if number is not None]
    first, second = (*found, None, None)[:2]
    if operation in _LOGARITHMS and first is not None:
        argument = first + 1.0 if operation == "log1p" else first
        return Verdict("logarithm of 0" if argument == 0 else "logarithm of a negative number", _LOG)
    if operation == "sqrt":
        return Verdict("root of a negative number", _ROOT)
    if operation in ("divide", "reciprocal", "remainder", "fmod"):
        if (first if operation == "reciprocal" else second) == 0:
            return Verdict("division by 0", _DENOMINATOR)
        if any(map(_infinite, found)):
            return Verdict("∞ / ∞", _MEET)
    if operation == "power" and first is not None and second is not None:
        if first == 0 and second < 0:
            return Verdict("division by 0", _DENOMINATOR)
        if first < 0 and np.isnan(value):
            return Verdict("root of a negative number", _ROOT)
    if operation in _EXPONENTIALS:
        return Verdict("overflow", _EXP)
    if operation in _RANGED:
        return Verdict("outside its range", _RANGE)
    if operation in ("add", "subtract") and np.isnan(value) and any(map(_infinite, found)):
        masked = operation == "subtract" and all(number == -math.inf for number in found)
        return Verdict("∞ − ∞", _MASKED if masked else _MEET)
    if operation in ("var", "std"):
        return Verdict("division by 0", _SPREAD)
    if operation == "multiply" and np.isnan(value):
        return Verdict("0 · ∞", _MEET)
    if operation in ("layer_norm", "rms_norm") and options.get("eps") == 0.0:
        return Verdict("division by 0", _EPS)
    if not all(_finite(x) for x in inputs):
        return Verdict("0 · ∞ or ∞ − ∞" if operation in _SUMS_OF_PRODUCTS else "met an infinity", _MEET)
    return Verdict("undefined") if np.isnan(value) else Verdict("overflow", _SMALLER)


def judge_backward(
    operation: str, slope: Any, finite: bool, options: Mapping[str, Any], *, in_range: bool = False
) -> Verdict:
    """What made a gradient that is not finite from one that is.

    Args:
        operation: its name.
        slope: what its rule makes of a gradient of ones, at the place concerned.
        finite: whether the operands and the result are finite.
        options: of the operation.
        in_range: whether a wider dtype can hold the slope.
    """
    if np.isfinite(slope):
        return Verdict("overflow", f"{_SMALLER}: scale the loss down, or clip what grows")
    if not finite:
        return Verdict("met a NaN or an infinity")
    kind = ("overflow" if in_range else "infinite slope") if np.isinf(slope) else "undefined slope"
    remedy = {"sqrt": _ROOT, "cbrt": _ROOT, "power": _ROOT, "divide": _DENOMINATOR, "reciprocal": _DENOMINATOR}
    if operation in _LOGARITHMS:
        return Verdict(kind, _LOG)
    if operation in _RANGED:
        return Verdict(kind, _RANGE)
    if operation in ("var", "std") and np.isnan(slope):
        return Verdict("division by 0", _SPREAD)
    if operation in ("layer_norm", "rms_norm") and options.get("eps") == 0.0:
        return Verdict(kind, _EPS)
    return Verdict(kind, remedy.get(operation, ""))


def _infinite(number: Any) -> bool:
    return math.isinf(number)


def _finite(value: Any) -> bool:
    values = np.asarray(value)
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())
