"""Positions: attention by itself does not see the order of tokens, so each position adds a vector of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_attn import nn, ops
from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.nn import init
from tinygrad_attn.tensor import Tensor


def sinusoidal_table(max_length: int, d_model: int) -> NDArray[np.float64]:
    """Waves of different length, sine and cosine in turn; every position is another mixture.

    table[t, 2i] = sin(t / 10000^(2i/d)),  table[t, 2i+1] = cos(t / 10000^(2i/d))

    An odd d_model ends with a sine.

    Returns:
        (max_length, d_model).
    Source:
        Vaswani et al. (2017), arXiv:1706.03762, §3.5.

    >>> sinusoidal_table(2, 5)[1].round(8).tolist()
    [0.84147098, 0.54030231, 0.02511622, 0.99968454, 0.00063096]
    """
    column = np.arange(d_model)
    angle = np.arange(max_length)[:, None] / 10000.0 ** (column // 2 * 2 / d_model)  # (max_length, d_model)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


class Positions(nn.Module):
    """What the two kinds have in common: a vector per position, and a limit.

    Args:
        d_model: length of a token's vector.
        max_length: how many positions there are.
    """

    def __init__(self, d_model: int, max_length: int) -> None:
        for name, size in (("d_model", d_model), ("max_length", max_length)):
            if size < 1:
                raise OptionError(f"{type(self).__name__}: {name} must be a positive integer\n  given {size}")
        self.d_model, self.max_length = d_model, max_length

    def forward(self, x: Any, *, offset: int = 0, positions: ArrayLike | None = None) -> Any:
        """The tokens' vectors with their positions' vectors added.

        Args:
            x: (batch, length, d_model).
            offset: position of the first token, if others were read before it.
            positions: (batch, length), the position of every token, where rows differ (padding on the left).
        Returns:
            (batch, length, d_model).
        Raises:
            ShapeError: a position lies beyond `max_length`.
        """
        places = np.arange(offset, offset + x.shape[-2]) if positions is None else np.asarray(positions)
        self.check(places)
        return x + self.at(places, x.dtype)

    def check(self, places: NDArray[Any]) -> None:
        """Raise if a position lies beyond the limit."""
        if places.size and not 0 <= places.min() <= places.max() < self.max_length:
            raise ShapeError(
                f"sequence too long: position {int(places.max())} of at most {self.max_length - 1}\n"
                f"  shorten the text to {self.max_length} tokens, or build the model with a larger max_length"
            )

    def at(self, places: NDArray[Any], dtype: Any) -> Any:
        """The vectors of some positions, (...) -> (..., d_model)."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Sizes."""
        return f"d_model={self.d_model}, max_length={self.max_length}"


class SinusoidalPositions(Positions):
    """Positions as waves; nothing to learn.

    Source:
        Vaswani et al. (2017), arXiv:1706.03762, §3.5.
    """

    def __init__(self, d_model: int, max_length: int = 5000) -> None:
        super().__init__(d_model, max_length)
        self.register_buffer("table", sinusoidal_table(max_length, d_model), persistent=False)

    table: NDArray[np.float64]  # (max_length, d_model)

    def at(self, places: NDArray[Any], dtype: Any) -> Any:
        """Rows of the table."""
        return Tensor.from_own(self.table[places].astype(dtype))


class LearnedPositions(Positions):
    """Positions as parameters, N(0, 0.02²) at first.

    Source:
        Gehring et al. (2017), arXiv:1705.03122, §3.1; the first values as in Radford et al. (2018), GPT.
    """

    def __init__(self, d_model: int, max_length: int, *, rng: np.random.Generator | None = None) -> None:
        super().__init__(d_model, max_length)
        self.weight = nn.Parameter(init.normal((max_length, d_model), std=0.02, rng=rng))

    def at(self, places: NDArray[Any], dtype: Any) -> Any:
        """Rows of the parameter."""
        return ops.embedding(self.weight, places)


class RotaryPositions(Positions):
    """Positions that nothing is added for: attention turns queries and keys by their place (`rotary_angles`).

    A query turned by its place and a key turned by its own meet at the difference of the two: attention sees how far
    apart they are, not where they stand.

    Source:
        Su et al. (2021), arXiv:2104.09864, §3.2.
    """

    def forward(self, x: Any, *, offset: int = 0, positions: ArrayLike | None = None) -> Any:
        """x as it is, if its places lie within the limit."""
        self.check(np.arange(offset, offset + x.shape[-2]) if positions is None else np.asarray(positions))
        return x


def rotary_angles(places: ArrayLike, d_head: int) -> NDArray[np.float64]:
    """By how much each pair of numbers of a query or key is turned at a place.

    θ[t, i] = t / 10000^(2i/d)

    Args:
        places: (...), positions.
        d_head: length of a query; even.
    Returns:
        (..., d_head / 2), in radians, less than 2π so that single precision keeps them.
    Source:
        Su et al. (2021), arXiv:2104.09864, equation 15.

    >>> rotary_angles([0, 1, 2], 4).tolist()
    [[0.0, 0.0], [1.0, 0.01], [2.0, 0.02]]
    """
    frequencies = 10000.0 ** (-2.0 * np.arange(d_head // 2) / d_head)  # (d_head / 2,)
    return np.asarray(np.asarray(places)[..., None] * frequencies % (2.0 * np.pi))
