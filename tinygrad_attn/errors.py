"""Every error this project raises on purpose.

Each derives from `TinygradAttnError` and from the builtin that a caller would catch anyway. A message says what was
expected, what came, and what to do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class TinygradAttnError(Exception):
    """Base of every error raised on purpose; catch it to catch them all."""


class ShapeError(TinygradAttnError, ValueError):
    """Shapes do not fit one another or do not fit the operation."""


class DtypeError(TinygradAttnError, TypeError):
    """A dtype that the operation cannot use, such as a gradient asked of integers."""


class ArgumentError(TinygradAttnError, TypeError):
    """An argument of the wrong kind, such as a number where a function is expected."""


class OptionError(TinygradAttnError, ValueError):
    """An argument has the right type and an impossible value, such as dropout with p = 2."""


class SingularMatrixError(TinygradAttnError, np.linalg.LinAlgError):
    """A matrix without an inverse where one is needed, or not positive definite where it must be."""


class MaskError(TinygradAttnError, ValueError, TypeError):
    """A mask that is not boolean, or whose shape fits no query and key."""


class IndexRangeError(TinygradAttnError, IndexError):
    """An index, id or class lies outside the range that exists."""


class UnsupportedFunctionError(TinygradAttnError, TypeError):
    """A NumPy function that has no gradient rule was called on a Tensor."""


class GradientError(TinygradAttnError, RuntimeError):
    """A backward pass cannot run, or a gradient rule returned something impossible."""


class GraphFreedError(GradientError):
    """A second backward pass through a graph that was freed by the first."""


class MutatedError(GradientError):
    """Values that the backward pass needs were changed after they were recorded."""


class InPlaceError(TinygradAttnError, TypeError, RuntimeError):
    """An assignment into a Tensor; the message names the functional spelling."""


class NotFiniteError(GradientError, ArithmeticError):
    """A NaN or an infinity where finite numbers are required."""


class GradientMismatch(TinygradAttnError, AssertionError):
    """A gradient rule disagrees with the numerical derivative.

    Attributes:
        operation: whose rule is at fault, as far as that could be found out; else "".
        input: name of the input whose gradient is wrong.
        index: the element of it where the error is largest.
        analytic, numeric: the two answers there.
        error: their distance.
    """

    def __init__(
        self,
        message: str,
        *,
        operation: str = "",
        input: str = "",
        index: tuple[int, ...] = (),
        analytic: float = math.nan,
        numeric: float = math.nan,
    ) -> None:
        super().__init__(message)
        self.operation = operation
        self.input = input
        self.index = index
        self.analytic = analytic
        self.numeric = numeric
        self.error = abs(analytic - numeric)


class NotDifferentiableError(GradientMismatch):
    """The function has no slope here that could be measured: a kink, a jump, an overflow; no rule is to blame."""


class CheckError(TinygradAttnError, ValueError):
    """A gradient cannot be checked: float32 inputs, or a function that answers differently each time."""


class CheckpointError(TinygradAttnError, ValueError):
    """A checkpoint is missing, damaged, or belongs to another model."""


class VocabularyError(TinygradAttnError, ValueError):
    """A text holds something that the tokenizer has no token for."""


class MissingExtraError(TinygradAttnError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class RenderError(TinygradAttnError, RuntimeError):
    """A picture could not be drawn: no renderer, or more than the format can hold."""


class AxisRangeError(TinygradAttnError, ValueError, IndexError):
    """An axis that the array does not have."""


def unmasked(data: Any) -> Any:
    """`data` as it is; a masked array of NumPy, whose mask would be forgotten, raises DtypeError."""
    if type(data).__name__ == "MaskedArray":
        raise DtypeError(
            "a Tensor has no mask: what is hidden in a masked array would count\n"
            "  use array.filled(0.0), or array.data with where=~array.mask, as in np.sum(t, where=…)"
        )
    return data
