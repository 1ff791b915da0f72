"""A Transformer whose z is squeezed to one vector, beside which the lesson puts the usual one; all else is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from transformer.masks import token_mask
from transformer.model import Transformer


class SqueezedTransformer(Transformer):
    """A Transformer that keeps of z only its mean over the tokens.

    encode(source)[t] = (1/n) Σᵢ zᵢ for every t

    The mean stands at every place, so the decoder's cross-attention has nothing to choose from: whatever its weights,
    it reads this one vector. Parameters, sizes and training are those of the Transformer.
    """

    def encode(
        self,
        src: ArrayLike,
        *,
        src_mask: Any = None,
        src_lengths: ArrayLike | None = None,
        return_weights: bool = False,
    ) -> Any:
        """The memory, (batch, source_len, d_model), with the same vector at every place."""
        mask = token_mask("src_mask", np.shape(src), src_mask, src_lengths)  # (batch, 1, 1, source_len)
        encoded = super().encode(src, src_mask=mask, return_weights=return_weights)
        z, weights = encoded if return_weights else (encoded, None)
        squeezed = self.share(z.shape, mask, z.dtype) @ z  # (batch, source_len, d_model)
        return (squeezed, weights) if return_weights else squeezed

    @staticmethod
    def share(shape: tuple[int, ...], mask: Any, dtype: Any) -> Any:
        """What every place takes of every token, (batch, source_len, source_len): 1/n of each of the n real ones."""
        batch, length = shape[:2]
        real = np.ones((batch, length)) if mask is None else np.broadcast_to(mask[:, 0, 0], (batch, length))
        shares = real / real.sum(axis=-1, keepdims=True)  # (batch, source_len)
        return np.repeat(shares[:, None], length, axis=1).astype(dtype)
