"""Nested arguments and results: lists, tuples, dicts and dataclasses, taken apart into leaves and put together."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tinygrad_attn.errors import DtypeError, ShapeError
from tinygrad_attn.tensor import Tensor


def flatten(structure: Any) -> list[Any]:
    """The leaves of nested lists, tuples, dicts and dataclasses, in order; None holds none.

    A list of numbers, such as [[1.0, 2.0]], is an array written out, and one leaf.
    """
    parts = _parts(structure)
    return [structure] if parts is None else [leaf for part in parts.values() for leaf in flatten(part)]


def rebuild(structure: Any, leaves: Iterable[Any]) -> Any:
    """`leaves` in the shape of `structure`."""
    return _rebuild(structure, iter(leaves))


def rebuild_each(structures: Iterable[Any], leaves: Iterable[Any]) -> tuple[Any, ...]:
    """`leaves` in the shape of one structure after the other."""
    remaining = iter(leaves)
    return tuple(_rebuild(structure, remaining) for structure in structures)


def matching(given: Any, like: Any, what: str) -> list[Any]:
    """The leaves of `given`, which must have the structure of `like` and its shapes.

    Raises:
        ShapeError: it has others; the message begins with `what`.
        DtypeError: a leaf holds something else than numbers.
    """
    parts = _parts(like)
    if parts is None:
        _check_leaf(given, like, what)
        return [given]
    others = {} if like is None else _parts(given)
    if isinstance(like, (list, tuple)) and isinstance(given, (list, tuple)):
        others = dict(enumerate(given))  # also where the numbers in it are leaves of their own
    if others is None or others.keys() != parts.keys():
        raise ShapeError(f"{what}\n  expected {_described(like, parts)}, given {given!r}")
    return [leaf for key, part in parts.items() for leaf in matching(others[key], part, what)]


def _check_leaf(given: Any, like: Any, what: str) -> None:
    likes, values = plain_or_none(like), plain_or_none(given)
    shape, is_complex = np.shape(likes), np.iscomplexobj(likes)
    if values is None or values.dtype.kind not in ("fciub" if is_complex else "fiub"):
        numbers = "real numbers" if np.iscomplexobj(values) else "numbers"
        raise DtypeError(f"{what}\n  expected {numbers} of shape {shape}, given {given!r}")
    if values.shape != shape:
        raise ShapeError(f"{what}\n  expected {shape}, given {values.shape}")


def plain_or_none(leaf: Any) -> Any:
    """The values of a leaf as an array; None if they are none, such as nested lists of unequal lengths."""
    try:
        return leaf.numpy() if isinstance(leaf, Tensor) else np.asarray(leaf)
    except (ValueError, TypeError):
        return None


def _parts(structure: Any) -> dict[Any, Any] | None:
    """What a structure consists of, by name or position; None if it is a leaf."""
    if structure is None:
        return {}
    if isinstance(structure, dict):
        return structure
    if isinstance(structure, (list, tuple)) and not _is_numbers(structure):
        return dict(enumerate(structure))
    if dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        return {field.name: getattr(structure, field.name) for field in dataclasses.fields(structure)}
    return None


def _is_numbers(structure: Any) -> bool:
    """Whether a list is an array written out rather than a list of arrays."""
    if isinstance(structure, (list, tuple)):
        return len(structure) > 0 and all(_is_numbers(value) for value in structure)
    return isinstance(structure, (int, float, complex, np.generic))


def _rebuild(structure: Any, remaining: Iterator[Any]) -> Any:
    # Not a function inside `rebuild`: one that calls itself is a cycle, and would keep the leaves and their graph.
    parts = _parts(structure)
    if parts is None:
        return next(remaining)
    built = {key: _rebuild(part, remaining) for key, part in parts.items()}
    if isinstance(structure, (list, tuple)):
        values = built.values()
        return type(structure)(*values) if hasattr(structure, "_fields") else type(structure)(values)
    new = copy.copy(structure)
    if isinstance(structure, dict):
        new.update(built)
    elif structure is not None:
        for name, value in built.items():
            object.__setattr__(new, name, value)  # a frozen dataclass is set up in the same way
    return new


def _described(structure: Any, parts: dict[Any, Any]) -> str:
    if isinstance(structure, (list, tuple)):
        return f"{len(parts)} parts"
    return f"a {type(structure).__name__} with {', '.join(map(repr, parts))}"
