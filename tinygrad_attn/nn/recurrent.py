"""Recurrent layers: a state that is carried from one step of a sequence to the next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tinygrad_attn import ops
from tinygrad_attn.errors import DtypeError, IndexRangeError, ShapeError
from tinygrad_attn.modes import scope
from tinygrad_attn.nn import init
from tinygrad_attn.nn.layers import check_probability, check_size
from tinygrad_attn.nn.module import Module
from tinygrad_attn.nn.parameter import Parameter
from tinygrad_attn.operands import with_shape
from tinygrad_attn.tensor import plain


class _Cell(Module):
    """What the cells share: weights for the input and for the state, as many rows of each as there are gates."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        rng: np.random.Generator | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        check_size(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        weights = _weights(self.gates, input_size, hidden_size, bias, rng, dtype)
        self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh = weights

    def _start(self, x: Any, hidden: Any) -> Any:
        """The state to begin with: `hidden`, or zeros of its shape if it is None."""
        expected = (*x.shape[:-1], self.hidden_size)
        if hidden is None:
            return np.zeros(expected, self.weight_hh.dtype)
        hidden = with_shape(hidden)
        if hidden.shape != expected:
            raise ShapeError(
                f"{type(self).__name__}: one state for each input\n"
                f"    x       {x.shape}\n    hidden  {hidden.shape}   expected {expected}"
            )
        return hidden

    def extra_repr(self) -> str:
        """Sizes, and whether there are biases."""
        return f"{self.input_size}, {self.hidden_size}, bias={self.bias_ih is not None}"


class RNNCell(_Cell):
    """One step of a plain recurrent network.

    h′ = tanh(W_ih x + b_ih + W_hh h + b_hh)

    Args:
        input_size, hidden_size: lengths of the last axis of the input and of the state.
        bias: whether to add the two b.
        rng: draws the first values; the shared generator if left out.
        dtype: of the parameters; the default dtype if left out.
    Attributes:
        weight_ih, weight_hh: (hidden_size, input_size) and (hidden_size, hidden_size), as in PyTorch.
        bias_ih, bias_hh: (hidden_size,) each, or None.
    Source:
        Elman (1990), "Finding structure in time", Cognitive Science 14.
    """

    def forward(self, x: Any, hidden: Any = None) -> Any:
        """One step.

        Args:
            x: (..., input_size).
            hidden: (..., hidden_size); zeros if None.
        Returns:
            The next state, (..., hidden_size).
        """
        x = with_shape(x)
        before = self._start(x, hidden)
        return ops.tanh(ops.linear(x, self.weight_ih, self.bias_ih) + ops.linear(before, self.weight_hh, self.bias_hh))


class GRUCell(_Cell):
    """One step of a gated recurrent unit, to be called in a loop of one's own; `GRU` runs a whole sequence.

    r = σ(W_ir x + b_ir + W_hr h + b_hr)
    z = σ(W_iz x + b_iz + W_hz h + b_hz)
    n = tanh(W_in x + b_in + r ∘ (W_hn h + b_hn))
    h′ = (1 − z) ∘ n + z ∘ h

    Args:
        input_size, hidden_size: lengths of the last axis of the input and of the state.
        bias: whether to add the b.
        rng: draws the first values; the shared generator if left out.
        dtype: of the parameters; the default dtype if left out.
    Attributes:
        weight_ih, weight_hh: (3 · hidden_size, input_size) and (3 · hidden_size, hidden_size), rows in the order
            r, z, n, as in PyTorch; U(−1/√hidden_size, 1/√hidden_size) at first.
        bias_ih, bias_hh: (3 · hidden_size,) each, drawn likewise; or None.
    Source:
        Cho et al. (2014), arXiv:1406.1078, §2.3; see `ops.gru_step`.

    >>> import numpy as np
    >>> from tinygrad_attn import nn
    >>> cell, state = nn.GRUCell(3, 2), None
    >>> for x in np.ones((5, 1, 3), np.float32):
    ...     state = cell(x, state)
    >>> state.shape
    (1, 2)
    """

    gates = 3

    def forward(self, x: Any, hidden: Any = None) -> Any:
        """One step.

        Args:
            x: (..., input_size).
            hidden: (..., hidden_size); zeros if None.
        Returns:
            The next state, (..., hidden_size).
        """
        x = with_shape(x)
        before = self._start(x, hidden)
        projected = ops.linear(x, self.weight_ih, self.bias_ih)  # (..., 3 hidden_size)
        return ops.gru_step(projected, before, self.weight_hh, self.bias_hh)


class GRU(Module):
    """A gated recurrent unit that reads whole sequences, in one or several layers, one way or both.

    hₜ = GRUCell(xₜ, hₜ₋₁); a further layer reads the states of the one before.

    What each input contributes is computed for all steps at once; only what depends on the state waits for it.
    Divergence from PyTorch: a batch is always (batch, length, features), what `batch_first=True` asks for there, and
    padding is told by `lengths` instead of a packed sequence. Names and shapes of the parameters are the same.

    Args:
        input_size, hidden_size: lengths of the last axis of the input and of a state.
        num_layers: how many layers; the second reads what the first returns.
        bias: whether to add the b.
        dropout: probability of dropping a number between two layers, in training; with one layer there is no between.
        bidirectional: also read from the end to the beginning, with weights of its own.
        rng: draws the first values, and what is dropped; the shared generator if left out.
        dtype: of the parameters; the default dtype if left out.
    Attributes:
        weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0: as in `GRUCell`; l1, … for further layers, whose input has
            hidden_size numbers for each direction; the other direction's end in "_reverse".

    >>> import numpy as np
    >>> from tinygrad_attn import nn
    >>> output, last = nn.GRU(3, 2)(np.ones((4, 5, 3), np.float32), lengths=[5, 2, 0, 1])
    >>> output.shape, last.shape
    ((4, 5, 2), (1, 4, 2))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        *,
        dropout: float = 0.0,
        bidirectional: bool = False,
        rng: np.random.Generator | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        check_size("GRU", input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        check_probability("GRU", dropout=dropout)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.bidirectional, self.dropout, self.rng = bias, bidirectional, dropout, rng
        width = input_size
        for layer in range(num_layers):
            for direction in self.directions:
                parameters = _weights(3, width, hidden_size, bias, rng, dtype)
                for name, parameter in zip(_NAMES, parameters, strict=True):
                    setattr(self, f"{name}_l{layer}{direction}", parameter)
            width = hidden_size * len(self.directions)

    @property
    def directions(self) -> tuple[str, ...]:
        """What the names of a direction's parameters end in."""
        return ("", "_reverse") if self.bidirectional else ("",)

    def forward(self, x: Any, hidden: Any = None, *, lengths: Any = None) -> tuple[Any, Any]:
        """Read sequences.

        Args:
            x: (batch, length, input_size).
            hidden: the states to begin with, (num_layers · directions, batch, hidden_size); zeros if None.
            lengths: (batch,), integers: how many steps of each sequence are real, the rest being padding on the right.
                What stands there, NaN included, has no influence; reading backwards starts at the last real step.
        Returns:
            The last layer's states at each step, (batch, length, directions · hidden_size), zeros in the padding, and
            the last states of all, (num_layers · directions, batch, hidden_size), layer by layer.
        Raises:
            ShapeError: x is not three-dimensional, has another width or no step, or hidden or lengths do not fit.
            IndexRangeError: a length is negative or greater than the sequence.
        """
        x = with_shape(x)
        self._check_input(x)
        hidden = self._start(x, hidden)
        real = None
        if lengths is not None:
            lengths = _checked_lengths(lengths, *x.shape[:2])
            real = np.less(np.arange(x.shape[1]), lengths[:, None])[..., None]  # (batch, length, 1)
            x = ops.where(real, x, 0.0)
        last: list[Any] = []
        for layer in range(self.num_layers):
            if layer:
                x = ops.dropout(x, self.dropout, training=self.training, rng=self.rng)
            outputs = []
            for direction in self.directions:
                weight_ih, weight_hh, bias_ih, bias_hh = self._parameters_of(f"l{layer}{direction}")
                with scope(f"l{layer}{direction}"):
                    projected = ops.linear(x, weight_ih, bias_ih)  # (batch, length, 3 hidden_size)
                    states = ops.gru_sequence(
                        projected, hidden[len(last)], weight_hh, bias_hh, lengths=lengths, reverse=bool(direction)
                    )  # (batch, length, hidden_size)
                last.append(states[:, 0] if direction else states[:, -1])  # in the padding a state stays as it is
                outputs.append(states if real is None else ops.where(real, states, 0.0))
            x = outputs[0] if len(outputs) == 1 else np.concatenate(outputs, axis=-1)
        return x, np.stack(last)

    def _parameters_of(self, ending: str) -> Iterator[Any]:
        return (getattr(self, f"{name}_{ending}") for name in _NAMES)

    def _start(self, x: Any, hidden: Any) -> Any:
        expected = (self.num_layers * len(self.directions), x.shape[0], self.hidden_size)
        if hidden is None:
            return np.zeros(expected, self.weight_hh_l0.dtype)  # type: ignore[attr-defined]
        hidden = with_shape(hidden)
        if hidden.shape != expected:
            raise ShapeError(
                "GRU: hidden must be (num_layers · directions, batch, hidden_size)\n"
                f"    x       {x.shape}\n    hidden  {hidden.shape}   expected {expected}"
            )
        return hidden

    def _check_input(self, x: Any) -> None:
        if x.ndim != 3 or x.shape[-1] != self.input_size or not x.shape[1]:
            hint = "\n  of a single sequence, write x[None]" if x.ndim == 2 else ""
            raise ShapeError(
                f"GRU: x must be (batch, length, {self.input_size}) with at least one step\n  given {x.shape}{hint}"
            )

    def extra_repr(self) -> str:
        """Sizes, and the settings that are not the usual ones."""
        usual = {"num_layers": 1, "bias": True, "dropout": 0.0, "bidirectional": False}
        settings = [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *settings])


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _weights(
    gates: int,
    input_size: int,
    hidden_size: int,
    bias: bool,
    rng: np.random.Generator | None,
    dtype: DTypeLike | None,
) -> tuple[Parameter, Parameter, Parameter | None, Parameter | None]:
    """What one direction of one layer holds, in the order of `_NAMES`."""
    rows, bound = gates * hidden_size, 1.0 / math.sqrt(hidden_size)

    def draw(*shape: int) -> Parameter:
        return Parameter(init.uniform(shape, -bound, bound, rng=rng, dtype=dtype))

    weights = draw(rows, input_size), draw(rows, hidden_size)
    return (*weights, draw(rows), draw(rows)) if bias else (*weights, None, None)


def _checked_lengths(lengths: Any, batch: int, length: int) -> Any:
    """`lengths` as an array, (batch,)."""
    counted = np.array(plain(lengths))
    if counted.dtype.kind not in "iu" and counted.size:
        raise DtypeError(f"GRU: lengths must be integers\n  given {counted.dtype}")
    if counted.shape != (batch,):
        raise ShapeError(f"GRU: lengths must be (batch,)\n  expected ({batch},), given {counted.shape}")
    if batch and not 0 <= counted.min() <= counted.max() <= length:
        raise IndexRangeError(f"GRU: lengths must lie in [0, {length}]\n  given {counted.tolist()}")
    return counted.astype(np.intp)
