"""Layers that hold parameters or a state: linear maps, embeddings, normalisation, dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tinygrad_attn import ops
from tinygrad_attn.errors import DtypeError, IndexRangeError, OptionError
from tinygrad_attn.nn import init
from tinygrad_attn.nn.module import Module
from tinygrad_attn.nn.parameter import Parameter
from tinygrad_attn.settings import is_integer, is_number
from tinygrad_attn.tensor import Tensor

Input = Tensor | ArrayLike


class Linear(Module):
    """Affine map of the last axis.

    y = x Wᵀ + b, (..., in_features) -> (..., out_features)

    Args:
        in_features, out_features: lengths of the last axis before and after.
        bias: whether to add b.
        rng: draws the first values; the shared generator if left out.
        dtype: of the parameters; the default dtype if left out.
    Attributes:
        weight: (out_features, in_features), as in PyTorch; U(−1/√in_features, 1/√in_features) at first.
        bias: (out_features,), drawn likewise; or None.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rng: np.random.Generator | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        check_size("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        shape = (out_features, in_features)
        self.weight = Parameter(init.kaiming_uniform(shape, slope=math.sqrt(5.0), rng=rng, dtype=dtype))
        bound = 1.0 / math.sqrt(in_features)
        self.bias = Parameter(init.uniform((out_features,), -bound, bound, rng=rng, dtype=dtype)) if bias else None

    def forward(self, x: Input) -> Any:
        """(..., in_features) -> (..., out_features)."""
        return ops.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes, and whether there is a bias."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """A table with one vector for every id.

    y = W[ids], (...) -> (..., embedding_dim)

    Args:
        num_embeddings: size of the vocabulary.
        embedding_dim: length of a vector.
        padding_index: this id's vector starts as zeros and gets no gradient.
        rng: draws the first values; the shared generator if left out.
        dtype: of the table; the default dtype if left out.
    Attributes:
        weight: (num_embeddings, embedding_dim), N(0, 1) at first, as in PyTorch.
    """

    decays = False  # a row shrinks between two uses of a rare id otherwise

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_index: int | None = None,
        *,
        rng: np.random.Generator | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        check_size("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_index is not None and not is_integer(padding_index):
            raise DtypeError(f"Embedding: padding_index is an id, an integer\n  given {padding_index!r}")
        if padding_index is not None and not 0 <= padding_index < num_embeddings:
            raise IndexRangeError(
                f"Embedding: padding_index must lie in [0, {num_embeddings})\n"
                f"  given {padding_index}; it is the id of the pad token"
            )
        self.num_embeddings, self.embedding_dim, self.padding_index = num_embeddings, embedding_dim, padding_index
        table = init.normal((num_embeddings, embedding_dim), rng=rng, dtype=dtype)
        if padding_index is not None:
            table[padding_index] = 0.0
        self.weight = Parameter(table)

    def forward(self, ids: Input) -> Any:
        """Integers (...) -> vectors (..., embedding_dim)."""
        return ops.embedding(self.weight, np.asarray(ids), padding_index=self.padding_index)

    def extra_repr(self) -> str:
        """Sizes, and the id of padding."""
        padding = "" if self.padding_index is None else f", padding_index={self.padding_index}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class LayerNorm(Module):
    """Each vector along the last axis with mean 0 and variance 1, then scaled and shifted.

    y = (x − mean) / √(variance + eps) ∘ weight + bias

    Args:
        dim: length of the last axis.
        eps: added to the variance, inside the root.
        dtype: of the parameters; the default dtype if left out.
    Attributes:
        weight, bias: (dim,), ones and zeros at first.
    """

    decays = False

    def __init__(self, dim: int, eps: float = 1e-5, *, dtype: DTypeLike | None = None) -> None:
        check_size("LayerNorm", dim=dim)
        check_eps("LayerNorm", eps)
        self.dim, self.eps = dim, eps
        self.weight = Parameter(init.ones((dim,), dtype=dtype))
        self.bias = Parameter(init.zeros((dim,), dtype=dtype))

    def forward(self, x: Input) -> Any:
        """(..., dim) -> (..., dim)."""
        return ops.layer_norm(x, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        """Length and eps."""
        return f"{self.dim}, eps={self.eps}"


class RMSNorm(Module):
    """Each vector along the last axis with mean square 1, then scaled; a layer norm that does not centre.

    y = x / √(mean x² + eps) ∘ weight

    Divergence from PyTorch, whose eps is the dtype's if left out: ours is `LayerNorm`'s.

    Args:
        dim: length of the last axis.
        eps: added to the mean square, inside the root.
        dtype: of the parameter; the default dtype if left out.
    Attributes:
        weight: (dim,), ones at first.
    Source:
        Zhang and Sennrich (2019), arXiv:1910.07467, equation 4.
    """

    decays = False

    def __init__(self, dim: int, eps: float = 1e-5, *, dtype: DTypeLike | None = None) -> None:
        check_size("RMSNorm", dim=dim)
        check_eps("RMSNorm", eps)
        self.dim, self.eps = dim, eps
        self.weight = Parameter(init.ones((dim,), dtype=dtype))

    def forward(self, x: Input) -> Any:
        """(..., dim) -> (..., dim)."""
        return ops.rms_norm(x, self.weight, eps=self.eps)

    def extra_repr(self) -> str:
        """Length and eps."""
        return f"{self.dim}, eps={self.eps}"


class Dropout(Module):
    """In training, elements zeroed at random and the rest scaled by 1/(1 − p); in evaluation, the identity.

    Args:
        p: probability of dropping an element, in [0, 1].
        rng: draws what is dropped; the shared generator if left out.
    """

    def __init__(self, p: float = 0.5, *, rng: np.random.Generator | None = None) -> None:
        check_probability("Dropout", p=p)
        self.p, self.rng = p, rng

    def forward(self, x: Input) -> Any:
        """Same shape."""
        return ops.dropout(x, self.p, training=self.training, rng=self.rng)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


def check_probability(layer: str, **probabilities: float) -> None:
    """Raise unless every one lies in [0, 1]."""
    for name, p in probabilities.items():
        if not is_number(p) or not 0.0 <= p <= 1.0:
            raise OptionError(f"{layer}: {name} is the probability of dropping and must lie in [0, 1]\n  given {p!r}")


def check_eps(layer: str, eps: float) -> None:
    """Raise unless it is a finite number that is not negative."""
    if not is_number(eps) or not 0.0 <= eps < math.inf:
        raise OptionError(f"{layer}: eps must be finite and not negative\n  given {eps!r}")


def check_size(layer: str, **sizes: int) -> None:
    """Raise unless every size is a positive integer."""
    for name, size in sizes.items():
        if not is_integer(size) or size < 1:
            raise OptionError(f"{layer}: {name} must be a positive integer\n  given {size!r}")
