"""Graphs that hypothesis draws: a few leaves, and operations of every kind on what is there already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import tinygrad_attn as ta

Array = np.ndarray[Any, Any]

TAME = (0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 0.25)
WILD = (*TAME, -0.0, 60.0, -800.0, 1e-30, 1e30, np.inf, -np.inf, np.nan)


def rows(x: Any) -> Any:
    """`x`, which must have an axis: NumPy takes axis=-1 of a single number, and then means no axis."""
    if x.ndim == 0:
        raise ValueError
    return x


UNARY: dict[str, Callable[[Any], Any]] = {
    "relu": ta.relu,
    "sigmoid": ta.sigmoid,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "square": np.square,
    "abs": np.absolute,
    "clip": lambda x: np.clip(x, -0.5, 1.0),
    "masked": lambda x: ta.masked_fill(x, np.arange(x.size).reshape(x.shape) % 2 == 0, value=-np.inf),
    "gelu": ta.gelu,
    "softmax": lambda x: ta.softmax(x, axis=-1),
    "log_softmax": lambda x: ta.log_softmax(x, axis=-1),
    "layer_norm": lambda x: ta.layer_norm(x, np.ones(x.shape[-1]), np.zeros(x.shape[-1])),
    "transpose": np.transpose,
    "ravel": np.ravel,
    "flip": lambda x: np.flip(x, -1),
    "first": lambda x: x[:1],
    "twice": lambda x: x[np.array([0, 0])],
    "sort": lambda x: np.sort(x, -1),
    "sum": lambda x: np.sum(rows(x), axis=-1, keepdims=True),
    "max": lambda x: np.max(rows(x), axis=-1, keepdims=True),
    "mean": np.mean,
    "std": lambda x: np.std(x, axis=-1, keepdims=True),
    "prod": lambda x: np.prod(rows(x), axis=-1),
    "norm": lambda x: np.linalg.norm(x, axis=-1),
    "broadcast": lambda x: np.broadcast_to(x, (2, *x.shape)),
    "detach": lambda x: x.detach(),
    "dropout": lambda x: ta.dropout(x, 0.5),
    "attention": lambda x: ta.scaled_dot_product_attention(x, x, x, causal=True),
    "cross_entropy": lambda x: ta.cross_entropy(x, np.zeros(x.shape[:-1], int), ignore_index=1),
    "recomputed": ta.checkpoint(lambda x: ta.relu(x) * 2.0),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "power": np.power,
    "matmul": lambda a, b: a @ b.T,
    "where": lambda a, b: np.where(a.numpy() > 0, a, b),
    "concatenate": lambda a, b: np.concatenate([a, b]),
    "linear": lambda a, b: ta.linear(a, b),
    "einsum": lambda a, b: np.einsum("ij,kj->ik", a, b),
}


class Graph(NamedTuple):
    """A loss and every tensor that was made on the way to it, used or not."""

    loss: ta.Tensor
    tensors: list[ta.Tensor]
    words: list[str]


@st.composite
def graphs(
    draw: Any, values: tuple[float, ...] = TAME, steps: int = 6, dtypes: tuple[Any, ...] = (np.float64,)
) -> Graph:
    """A graph of at most `steps` operations; what does not fit is left out."""
    dtype = draw(st.sampled_from(dtypes))

    def array(shape: tuple[int, ...]) -> Array:
        size = int(np.prod(shape))
        drawn = draw(st.lists(st.sampled_from(values), min_size=size, max_size=size))
        return np.array(drawn, dtype).reshape(shape)

    shapes = st.sampled_from([(2, 3), (2, 3), (3,), (1, 3), (), (2, 1)])
    tensors = [
        ta.Tensor(array(draw(shapes)), requires_grad=i == 0 or draw(st.booleans()), name=f"x{i}")
        for i in range(draw(st.integers(1, 3)))
    ]
    words = [f"x{i}={t.tolist()}" for i, t in enumerate(tensors)]
    with np.errstate(all="ignore"):
        for _ in range(draw(st.integers(0, steps))):
            word = draw(st.sampled_from([*UNARY, *BINARY]))
            picked = [draw(st.integers(0, len(tensors) - 1)) for _ in range(1 if word in UNARY else 2)]
            try:
                made = (UNARY | BINARY)[word](*[tensors[i] for i in picked])
            except (ta.errors.TinygradAttnError, ValueError, IndexError):
                continue
            tensors.append(made)
            words.append(f"t{len(tensors) - 1}={word}{tuple(picked)}")
        loss = tensors[-1]
        if draw(st.integers(0, 3)):
            loss = np.sum(loss * ta.Tensor(np.arange(1.0, loss.size + 1.0).reshape(loss.shape).astype(dtype)))
            words.append("weighted sum")
    return Graph(loss, tensors, words)
