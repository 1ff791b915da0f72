"""NumPy functions that answer with plain values when asked about a Tensor: comparisons, signs, positions, shapes.

Their derivative is zero wherever it exists, so nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_attn import explain
from tinygrad_attn.errors import DtypeError, GradientError
from tinygrad_attn.modes import is_grad_enabled
from tinygrad_attn.registry import IMPLEMENTATIONS
from tinygrad_attn.tensor import Tensor, holds_tensor, plain

PLAIN_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal),
    *(np.logical_and, np.logical_or, np.logical_not, np.isfinite, np.isnan, np.isinf, np.signbit),
    *(np.floor_divide, np.floor, np.ceil, np.rint, np.round, np.around, np.trunc, np.fix, np.logical_xor),
    *(np.isneginf, np.isposinf, np.spacing, np.nextafter, np.nanargmax, np.nanargmin),
    *(np.argmax, np.argmin, np.argsort, np.argpartition, np.lexsort, np.searchsorted, np.digitize, np.isin, np.unique),
    *(np.argwhere, np.nonzero, np.flatnonzero, np.count_nonzero),
    *(np.shape, np.ndim, np.size, np.zeros_like, np.ones_like, np.empty_like),
    *(np.allclose, np.isclose, np.array_equal, np.array2string, np.array_repr, np.array_str, np.any, np.all),
    *(np.array_equiv, np.linalg.matrix_rank, np.histogram),
    *(np.isreal, np.iscomplex, np.isrealobj, np.iscomplexobj),
    *(np.result_type, np.may_share_memory, np.shares_memory, np.min_scalar_type, np.can_cast, np.common_type),
    *(np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d, np.unique_values, np.unique_counts, np.unique_inverse),
    *(np.unique_all, np.histogram_bin_edges, np.histogram2d, np.histogramdd, np.einsum_path),
    *(np.tril_indices_from, np.triu_indices_from, np.diag_indices_from),
    *(np.save, np.savez, np.savez_compressed, np.savetxt),
)

# Of complex numbers, these would have to know which is the larger.
NEED_AN_ORDER: tuple[Callable[..., Any], ...] = (
    *(np.less, np.less_equal, np.greater, np.greater_equal, np.signbit, np.floor_divide, np.floor, np.ceil),
    *(np.argmax, np.argmin, np.argsort, np.argpartition, np.searchsorted, np.digitize),
)


def _refuse_weights(function: Callable[..., Any], kwargs: dict[str, Any]) -> None:
    weights = kwargs.get("weights")
    if getattr(weights, "requires_grad", False) and is_grad_enabled():
        raise GradientError(
            f"{function.__name__}: weights= require a gradient, which would be lost\n"
            "  pass weights.detach(), or use np.bincount(positions, weights), which has one"
        )


def _plainly(value: Any) -> Any:
    return (
        [_plainly(part) for part in value] if isinstance(value, (list, tuple)) and holds_tensor(value) else plain(value)
    )


def _on_plain_values(function: Callable[..., Any]) -> Callable[..., Any]:
    needs_an_order = function in NEED_AN_ORDER

    def called_plainly(*args: Any, **kwargs: Any) -> Any:
        _refuse_weights(function, kwargs)
        values = [value._data if isinstance(value, Tensor) else _plainly(value) for value in args]
        if needs_an_order:
            for value in values:
                if isinstance(value, np.ndarray) and value.dtype.kind == "c":
                    raise DtypeError(
                        f"{function.__name__} takes real numbers, given complex ones, of which none is the larger\n"
                        "  np.real, np.imag and np.absolute make real numbers of them"
                    )
        try:
            return function(*values, **{name: _plainly(value) for name, value in kwargs.items()})
        except (ValueError, IndexError, TypeError) as error:
            raise explain.plain_failure(function.__name__, values, error) from None

    called_plainly.__name__ = function.__name__
    return called_plainly


for _function in PLAIN_FUNCTIONS:
    IMPLEMENTATIONS[_function] = _on_plain_values(_function)
