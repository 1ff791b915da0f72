"""A small model with a tied weight and buffers, and the nodes behind a result."""

from __future__ import annotations

import numpy as np

from tinygrad_attn import Tensor, nn


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.self_attention = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(x + self.self_attention(x))


class Encoder(nn.Module):
    def __init__(self, dim: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(dim) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Model(nn.Module):
    """Embedding, encoder, and a head that is the embedding again."""

    def __init__(self, dim: int = 4, depth: int = 2, vocabulary: int = 5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.encoder = Encoder(dim, depth)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("positions", np.arange(3.0))
        self.register_buffer("scratch", np.zeros(2), persistent=False)

    def forward(self, ids):
        return self.head(self.encoder(self.embedding(ids)))


IDS = np.array([[0, 1, 2], [3, 4, 4]])


def nodes_behind(root: Tensor):
    """Every node of a graph, results first."""
    found, stack = {}, [root]
    while stack:
        tensor = stack.pop()
        if tensor.node is not None and id(tensor.node) not in found:
            found[id(tensor.node)] = tensor.node
            stack.extend(value for value in tensor.node.inputs if isinstance(value, Tensor))
    return list(found.values())
