"""What encoder and decoder layers are built from besides attention: the feed-forward network, and Add & Norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_attn import nn, ops
from tinygrad_attn.errors import OptionError

ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu": ops.relu,
    "gelu": ops.gelu,  # exact, as in BERT
    "gelu_tanh": ops.gelu_tanh,  # the approximation, as in GPT-2
    "silu": ops.silu,
}


class FeedForward(nn.Module):
    """Two linear maps with a nonlinearity between them, for each token by itself.

    FFN(x) = activation(x W₁ + b₁) W₂ + b₂

    Args:
        d_model: length of a token's vector, before and after.
        d_ff: length in between.
        activation: "relu", "gelu", "gelu_tanh" or "silu".
        dropout: probability of dropping a number in between, in training.
        rng: draws the first values; the shared generator if left out.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, equation 2.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> None:
        if activation not in ACTIVATIONS:
            raise OptionError(f"activation must be one of {', '.join(ACTIVATIONS)}\n  given {activation!r}")
        self.activation = activation
        self.expand = nn.Linear(d_model, d_ff, rng=rng)
        self.dropout = nn.Dropout(dropout)
        self.contract = nn.Linear(d_ff, d_model, rng=rng)

    def forward(self, x: Any) -> Any:
        """(batch, length, d_model) -> (batch, length, d_model)."""
        hidden = ACTIVATIONS[self.activation](self.expand(x))  # (batch, length, d_ff)
        return self.contract(self.dropout(hidden))  # (batch, length, d_model)

    def extra_repr(self) -> str:
        """The nonlinearity."""
        return f"activation={self.activation}"


class AddAndNorm(nn.LayerNorm):
    """The box "Add & Norm" around a sublayer: its output is added to its input, and a layer norm keeps the size.

    post-norm: y = norm(x + sublayer(x));  pre-norm: y = x + sublayer(norm(x))

    Args:
        d_model: length of a token's vector.
        dropout: probability of dropping a number of the sublayer's output, in training.
        norm_first: pre-norm, which trains without warm-up; False is the paper's.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, §3.1 and §5.4; pre-norm: Xiong et al. (2020), arXiv:2002.04745.
    """

    def __init__(self, d_model: int, *, dropout: float = 0.0, norm_first: bool = False) -> None:
        super().__init__(d_model)
        self.norm_first = norm_first
        self.dropout = nn.Dropout(dropout)

    def before(self, x: Any) -> Any:
        """What the sublayer reads, (batch, length, d_model)."""
        return self(x) if self.norm_first else x

    def after(self, x: Any, change: Any) -> Any:
        """What the next one gets, when the sublayer has turned x into `change`, (batch, length, d_model)."""
        added = x + self.dropout(change)
        return added if self.norm_first else self(added)
