"""What counts as a number, Python's or NumPy's and no boolean, or as a state where one is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinygrad_attn.errors import DtypeError


def is_integer(value: Any) -> bool:
    """Whether it is a whole number by its type, as sizes and counts are."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is a real number, whole or not; NaN is one, and lies in no range."""
    return is_integer(value) or isinstance(value, (float, np.floating))


def as_mapping(state: Any) -> Mapping[str, Any]:
    """`state`, or an error that says what it should be.

    Raises:
        DtypeError: no mapping.
    """
    if not isinstance(state, Mapping):
        raise DtypeError(
            f"a state is a mapping from names to arrays, as state_dict() returns it\n  given {type(state).__name__}"
        )
    return state
