"""From ids to vectors: what the first layer reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_attn import nn
from tinygrad_attn.errors import DtypeError, IndexRangeError, OptionError, ShapeError
from tinygrad_attn.nn import init
from transformer.masks import Mask, first_real_position
from transformer.positional import LearnedPositions, Positions, RotaryPositions, SinusoidalPositions

POSITIONS: dict[str, Callable[..., Positions]] = {
    "sinusoidal": lambda d_model, max_length, rng: SinusoidalPositions(d_model, max_length),
    "learned": lambda d_model, max_length, rng: LearnedPositions(d_model, max_length, rng=rng),
    "rotary": lambda d_model, max_length, rng: RotaryPositions(d_model, max_length),  # attention turns by them
}


class InputEmbedding(nn.Module):
    """A vector for each token and one for its position, added.

    x = W[ids] · √d_model + position

    Args:
        vocabulary: how many tokens there are.
        d_model: length of a token's vector.
        max_length: longest sequence.
        positions: "sinusoidal", "learned" or "rotary"; for the last one nothing is added here.
        scaled: multiply by √d_model, as the paper does; GPT-2 does not.
        dropout: probability of dropping a number of the sum, in training.
        rng: draws the first values; the shared generator if left out.
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, §3.4 and §3.5. The table starts as N(0, 1/d_model), so that tokens
        and positions are of one size, and so that the table can be tied to the map that makes logits.
    """

    def __init__(
        self,
        vocabulary: int,
        d_model: int,
        max_length: int,
        *,
        positions: str = "sinusoidal",
        scaled: bool = True,
        dropout: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> None:
        if positions not in POSITIONS:
            raise OptionError(f"positions must be one of {', '.join(POSITIONS)}\n  given {positions!r}")
        self.tokens = nn.Embedding(vocabulary, d_model, rng=rng)
        self.tokens.weight.data = init.normal((vocabulary, d_model), std=1.0 / math.sqrt(d_model), rng=rng)
        self.positions = POSITIONS[positions](d_model, max_length, rng)
        self.dropout = nn.Dropout(dropout)
        self.scale = math.sqrt(d_model) if scaled else 1.0

    def forward(self, ids: NDArray[np.int64], *, offset: int = 0, real: Mask | None = None) -> Any:
        """The vectors of a batch of tokens.

        Args:
            ids: (batch, length).
            offset: how many tokens of each row were read before these.
            real: (batch, 1, 1, offset + length), which tokens are real. Positions count from the first real one, so
                that padding on the left changes nothing.
        Returns:
            (batch, length, d_model).
        """
        x = self.tokens(ids) * self.scale  # (batch, length, d_model)
        positions = None
        if real is not None and not real[..., 0].all():
            places = np.arange(offset, offset + ids.shape[1])  # (length,)
            positions = np.maximum(places - first_real_position(real)[:, None], 0)  # (batch, length)
        return self.dropout(self.positions(x, offset=offset, positions=positions))


def check_ids(name: str, ids: ArrayLike, vocabulary: int) -> NDArray[np.int64]:
    """Token ids as an array, (batch, length), or an error that says what is wrong with them.

    Raises:
        DtypeError: not integers.
        ShapeError: not a batch of sequences, or the sequences are empty.
        IndexRangeError: an id outside the vocabulary.
    """
    try:
        array = np.asarray(ids)
    except ValueError as error:
        raise ShapeError(f"{name}: rows differ in length\n  pad them to one length, as encode_batch does") from error
    if array.ndim != 2:
        hint = "; write ids[None] for a single sequence" if array.ndim == 1 else ""
        raise ShapeError(f"{name}: expected a batch of sequences of ids, (batch, length), given {array.shape}{hint}")
    if array.shape[1] == 0:
        raise ShapeError(f"{name}: empty sequence: given {array.shape}\n  a model needs at least one token to look at")
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{name}: ids must be integers\n  given dtype {array.dtype}")
    if array.size and (array.min() < 0 or array.max() >= vocabulary):
        row, column = np.argwhere((array < 0) | (array >= vocabulary))[0]
        raise IndexRangeError(
            f"{name}: ids must lie in [0, {vocabulary}), the size of the vocabulary\n"
            f"  given {array[row, column]} at position {column} of row {row}\n"
            "  was the text encoded with this vocabulary?"
        )
    return array
