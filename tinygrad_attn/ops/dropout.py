"""Dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_attn.domain import broadcasting
from tinygrad_attn.errors import OptionError
from tinygrad_attn.operands import with_shape
from tinygrad_attn.operation import op
from tinygrad_attn.rng import generator
from tinygrad_attn.tensor import Tensor, plain


def keep_mask(shape: tuple[int, ...], p: float, dtype: Any, rng: np.random.Generator | None = None) -> Tensor:
    """0 with probability `p`, else 1/(1 − p), so that the mean stays what it was; all zeros for p = 1.

    Raises:
        OptionError: p lies outside [0, 1].
    """
    if not 0.0 <= p <= 1.0:
        raise OptionError(f"dropout: p is the probability of dropping and must lie in [0, 1]\n  given {p}")
    if p == 1.0:
        return Tensor(np.zeros(shape, dtype))
    drawn = generator(rng).random(shape, dtype=np.float32)
    return Tensor.from_own(np.asarray((drawn >= p) * np.asarray(1.0 / (1.0 - p), dtype=dtype)))


@op(symbol="dropout", elementwise=True, complex=True, domain=broadcasting({}, {}))
def apply_keep_mask(x: Any, keep: Any) -> Any:
    """`x` times a mask of zeros and 1/(1 − p); backward, the same mask.

    y = x ∘ keep
    """
    return x * keep


@apply_keep_mask.gradient("x", formula="dx = dy ∘ keep")
def _(g: Any, out: Any, x: Any, keep: Any) -> Any:
    return g * keep


def dropout(x: Any, p: float = 0.5, *, training: bool = True, rng: np.random.Generator | None = None) -> Any:
    """Elements zeroed at random with probability `p`, the rest scaled by 1/(1 − p); the identity if not training.

    Source:
        Srivastava et al. (2014), JMLR 15; scaled at training time ("inverted"), so evaluation needs no change.
    """
    if not training or p == 0.0:
        return x
    x = with_shape(x)
    keep = keep_mask(x.shape, p, x.dtype if x.dtype.kind == "f" else np.float64, rng)  # 1/(1 − p) is no whole number
    return apply_keep_mask(x, keep if isinstance(x, Tensor) else plain(keep))
