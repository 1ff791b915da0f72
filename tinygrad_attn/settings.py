"""What counts as a number where one is set: Python's and NumPy's, and no boolean."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_integer(value: Any) -> bool:
    """Whether it is a whole number by its type, as sizes and counts are."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is a real number, whole or not; NaN is one, and lies in no range."""
    return is_integer(value) or isinstance(value, (float, np.floating))
