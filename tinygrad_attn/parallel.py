"""Training on several processes: each computes the gradients of its part of a batch, and all take the same step.

Every process holds the whole model. They begin with the same values (`share_values`), and before each step the
gradients become those of the whole batch (`average_gradients`); what is equal stays equal, so nothing else is sent.

Set OPENBLAS_NUM_THREADS=1 (or what your NumPy uses) before NumPy is imported: two processes whose products take two
threads each wait for one another, and are many times slower.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import MissingExtraError, OptionError
from tinygrad_attn.tensor import Tensor


def everyone() -> Any:
    """The communicator of all processes that were started together; its `rank` and `size` say who and how many.

    Raises:
        MissingExtraError: mpi4py is not installed.
    """
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MissingExtraError(
            "several processes need mpi4py and an MPI library\n  python -m pip install 'tinygrad-attn[mpi]'"
        ) from error
    return MPI.COMM_WORLD


def share_values(parameters: Iterable[Tensor], *, communicator: Any = None) -> None:
    """Give every process the values that the parameters have in the first.

    Args:
        parameters: leaves, the same ones in the same order in every process.
        communicator: all processes if left out.
    """
    processes = everyone() if communicator is None else communicator
    for parameter in parameters:
        values = np.ascontiguousarray(parameter.numpy())
        values = values if processes.rank == 0 else np.empty_like(values)
        processes.Bcast(values, root=0)
        parameter.data = values


def average_gradients(parameters: Iterable[Tensor], weight: float, *, communicator: Any = None) -> float:
    """Make every gradient that of the mean loss over all processes.

    g ← Σ over the processes of wᵢ gᵢ / Σ wᵢ

    The mean of means is another number as soon as the parts differ: with padding, a process with few real tokens would
    count as much as one with many. So each says how much its mean is the mean of.

    Args:
        parameters: leaves, the same ones in the same order in every process. A gradient that is None counts as zeros,
            and stays None where it is None everywhere.
        weight: w, over how much this process has averaged its loss, such as its number of target tokens; may be 0.
        communicator: all processes if left out.
    Returns:
        Σ wᵢ, the weight of the whole batch.
    Raises:
        OptionError: a weight is negative or not finite, or all are 0; in every process, so that none waits for another.
    """
    processes = everyone() if communicator is None else communicator
    weights: list[float] = processes.allgather(float(weight))
    total = sum(weights)
    if not all(0.0 <= w < np.inf for w in weights) or total == 0.0:
        raise OptionError(f"average_gradients: weights must be finite, not negative, and not all 0\n  given {weights}")
    distinct = list({id(parameter): parameter for parameter in parameters}.values())
    used = processes.allreduce(np.array([parameter.grad is not None for parameter in distinct], dtype=np.int64))
    wanted = [parameter for parameter, count in zip(distinct, used, strict=True) if count]
    for dtype in dict.fromkeys(parameter.dtype for parameter in wanted):
        _average([p for p in wanted if p.dtype == dtype], dtype, float(weight) / total, processes)
    return total


def _average(parameters: list[Tensor], dtype: np.dtype[Any], share: float, processes: Any) -> None:
    """One message for all parameters of a dtype; half precision is summed in single, as MPI has no such type."""
    flat: NDArray[Any] = np.concatenate(
        [np.zeros(p.size) if p.grad is None else p.grad.ravel() for p in parameters],
        dtype=np.result_type(dtype, np.float32),
    )
    flat *= share
    summed = np.empty_like(flat)
    processes.Allreduce(flat, summed)
    ends = np.cumsum([parameter.size for parameter in parameters])[:-1]
    for parameter, part in zip(parameters, np.split(summed, ends), strict=True):
        parameter.grad = part.reshape(parameter.shape).astype(dtype)
