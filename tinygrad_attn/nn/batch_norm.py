"""Batch normalisation, with the statistics that it runs on after training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tinygrad_attn import ops
from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.modes import MODES
from tinygrad_attn.nn import init
from tinygrad_attn.nn.layers import Input, check_eps, check_size
from tinygrad_attn.nn.module import Array, Module
from tinygrad_attn.nn.parameter import Parameter
from tinygrad_attn.ops.normalise import all_but_channels
from tinygrad_attn.tensor import Tensor, plain


class BatchNorm1d(Module):
    """Each channel with mean 0 and variance 1 over the batch, then scaled and shifted.

    y = (x − mean) / √(variance + eps) ∘ weight + bias, for every channel

    In training, mean and variance are those of the batch, and the running ones move towards them; in evaluation they
    are the running ones, so that an answer does not depend on its neighbours. A batch counts once, also where a
    checkpoint runs the layer again; divergence from PyTorch, where it then counts twice.

    Args:
        num_features: number of channels, the second axis.
        eps: added to the variance, inside the root.
        momentum: how far the running statistics move towards those of a batch; None for the plain mean of all batches.
        affine: whether to scale and shift.
        dtype: of parameters and statistics; the default dtype if left out.
    Attributes:
        weight, bias: (num_features,), ones and zeros at first; None if not `affine`.
        running_mean, running_var: (num_features,), buffers, zeros and ones at first; the variance of a batch enters
            with the divisor n − 1, as in PyTorch.
        num_batches_tracked: (), a buffer: how many batches have moved them.
    Raises:
        ShapeError: x has another number of axes or channels; or, in training, there is one value per channel.
    Source:
        Ioffe and Szegedy (2015), arXiv:1502.03167, algorithms 1 and 2.
    """

    decays = False
    ndims: tuple[int, ...] = (2, 3)

    running_mean: Array
    running_var: Array
    num_batches_tracked: Array

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        name = type(self).__name__
        check_size(name, num_features=num_features)
        check_eps(name, eps)
        if momentum is not None and not 0.0 <= momentum <= 1.0:
            raise OptionError(f"{name}: momentum must lie in [0, 1], or be None\n  given {momentum}")
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.weight = Parameter(init.ones((num_features,), dtype=dtype)) if affine else None
        self.bias = Parameter(init.zeros((num_features,), dtype=dtype)) if affine else None
        self.register_buffer("running_mean", init.zeros((num_features,), dtype=dtype))
        self.register_buffer("running_var", init.ones((num_features,), dtype=dtype))
        self.register_buffer("num_batches_tracked", np.zeros((), np.int64))

    def forward(self, x: Input) -> Any:
        """(batch, num_features, ...) -> the same shape."""
        x = x if isinstance(x, Tensor) else np.asarray(x)
        if x.ndim not in self.ndims or x.shape[1] != self.num_features:
            raise ShapeError(
                f"{type(self).__name__}: x must have {' or '.join(map(str, self.ndims))} axes, the second of them "
                f"{self.num_features} channels\n  given {x.shape}"
            )
        if not self.training:
            return ops.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, eps=self.eps)
        number = x.size // self.num_features
        if number < 2:
            raise ShapeError(
                f"{type(self).__name__}: one value per channel has no variance to train on\n"
                f"  given {x.shape}; a batch needs a second example, or call eval()"
            )
        if not MODES.get().recomputing:
            axes = all_but_channels(x.ndim)
            self._move_statistics(np.mean(plain(x), axis=axes), np.var(plain(x), axis=axes, ddof=1))
        return ops.batch_norm(x, self.weight, self.bias, eps=self.eps)

    def _move_statistics(self, mean: Array, variance: Array) -> None:
        self.num_batches_tracked += 1
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean += share * (mean - self.running_mean)
        self.running_var += share * (variance - self.running_var)

    def extra_repr(self) -> str:
        """Number of channels, eps and momentum."""
        affine = "" if self.affine else ", affine=False"
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}{affine}"


class BatchNorm2d(BatchNorm1d):
    """Batch normalisation of images, (batch, num_features, height, width); see `BatchNorm1d`."""

    ndims = (4,)


class BatchNorm3d(BatchNorm1d):
    """Batch normalisation over three spatial axes; see `BatchNorm1d`."""

    ndims = (5,)
