"""Complex numbers for the gradient checker, which compares real slopes: z is checked as the pair z.real and z.imag.

The gradient of a complex z holds ∂L/∂Re z + i ∂L/∂Im z, so that its two parts are what differences along the two axes
must give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_attn.gradcheck_compare import FlatFunction, Variable
from tinygrad_attn.tensor import Tensor


def in_real_parts(function: FlatFunction, variables: list[Variable]) -> tuple[FlatFunction, list[Variable]]:
    """The same function with the parts of each complex input and output in its place, as two real ones."""
    parts = [part for variable in variables for part in _parts_of(variable)]

    def of_parts(values: Sequence[Tensor]) -> list[Any]:
        given = iter(values)
        whole = [next(given) + 1j * next(given) if is_complex(v.array) else next(given) for v in variables]
        outputs = function(whole)
        return [part for out in outputs for part in ((np.real(out), np.imag(out)) if is_complex(out) else (out,))]

    return of_parts, parts


def is_complex(value: Any) -> bool:
    """Whether an array or Tensor holds complex numbers."""
    return getattr(value, "dtype", np.dtype(bool)).kind == "c"


def _parts_of(variable: Variable) -> list[Variable]:
    if not is_complex(variable.array):
        return [variable]
    pairs = (("real", variable.array.real), ("imag", variable.array.imag))
    return [Variable(f"{variable.name}.{part}", np.array(array), variable.excluded) for part, array in pairs]
