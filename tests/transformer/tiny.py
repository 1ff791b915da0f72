"""Models small enough to check by brute force, and derivatives that no gradient rule had a hand in."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tinygrad_attn as ta
from transformer import CausalConfig, CausalLM, Transformer, TransformerConfig
from transformer.steps import StepOutput

PAD, START, END = 0, 1, 2


@contextlib.contextmanager
def float64() -> Iterator[None]:
    """Build models in float64 inside."""
    before = ta.get_default_dtype()
    ta.set_default_dtype(np.float64)
    try:
        yield
    finally:
        ta.set_default_dtype(before)


def transformer(seed: int = 0, **changes: Any) -> Transformer:
    """An encoder–decoder in float64 with uneven parameters, without dropout unless asked for, in evaluation."""
    sizes: dict[str, Any] = {
        "source_vocab": 9,
        "target_vocab": 7,
        "d_model": 8,
        "num_heads": 2,
        "d_ff": 12,
        "dropout": 0.0,
        "max_length": 16,
    }
    with float64():
        model = Transformer(TransformerConfig(**{**sizes, **changes}), rng=np.random.default_rng(seed))
    return uneven(model, seed).eval()


def causal(seed: int = 0, **changes: Any) -> CausalLM:
    """A decoder-only model, likewise."""
    sizes: dict[str, Any] = {"vocab": 7, "d_model": 8, "num_heads": 2, "d_ff": 12, "dropout": 0.0, "max_length": 16}
    with float64():
        model = CausalLM(CausalConfig(**{**sizes, **changes}), rng=np.random.default_rng(seed))
    return uneven(model, seed).eval()


def uneven(model: Any, seed: int = 0, scale: float = 0.3) -> Any:
    """Parameters away from their tidy first values: zero biases and unit gains would hide mistakes."""
    rng = np.random.default_rng(seed + 1)
    for parameter in model.parameters():
        parameter.data = parameter.numpy() + scale * rng.normal(size=parameter.shape)
    return model


def numeric_gradient(f: Callable[[], float], parameter: ta.Tensor, step: float = 1e-6) -> np.ndarray:
    """∂f/∂parameter by central differences, element by element; f reads the parameter anew each time."""
    start = parameter.numpy().copy()
    slopes = np.zeros_like(start)
    for index in np.ndindex(*start.shape):
        values = []
        for sign in (1.0, -1.0):
            moved = start.copy()
            moved[index] += sign * step
            parameter.data = moved
            values.append(f())
        slopes[index] = (values[0] - values[1]) / (2 * step)
    parameter.data = start
    return slopes


class Scripted:
    """A "model" whose next-token probabilities are a function of the tokens so far: for tests of the loop itself.

    Args:
        probabilities: tokens of one row, as a tuple without the prompt -> probabilities over the vocabulary.
    """

    def __init__(self, probabilities: Callable[[tuple[int, ...]], Any]) -> None:
        self.probabilities = probabilities
        self.calls = 0

    def begin_decoding(self, src: Any, **_: Any) -> Any:
        self.prompt = np.full((len(np.asarray(src)), 1), START)
        return self

    def next(self, tokens: Any, *, return_weights: bool = False) -> StepOutput:
        self.calls += 1
        with np.errstate(divide="ignore"):
            return StepOutput(np.log([self.probabilities(tuple(map(int, row[1:]))) for row in tokens]))

    def select(self, rows: Any) -> None:
        pass


def every_sequence(vocabulary: int, length: int) -> Iterator[tuple[int, ...]]:
    """All that can be written in at most `length` tokens: sequences that end with END, or are as long as allowed."""
    for size in range(1, length + 1):
        for sequence in itertools.product(range(vocabulary), repeat=size):
            if END not in sequence[:-1] and (sequence[-1] == END or size == length):
                yield sequence
