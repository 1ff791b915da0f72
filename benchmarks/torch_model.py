"""The same Transformer as `transformer.Transformer`, written by hand for PyTorch: the peer in `train_step.py`.

Eager, plain modules and functions, the usual way to write it. Module names equal ours, so that weights are copied by
name and a difference in the loss cannot come from different numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MultiHeadAttention(nn.Module):
    """Queries from one sequence; keys and values from the same or another one."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.to_query = nn.Linear(d_model, d_model)
        self.to_key = nn.Linear(d_model, d_model)
        self.to_value = nn.Linear(d_model, d_model)
        self.to_output = nn.Linear(d_model, d_model)

    def split_heads(self, x: Tensor) -> Tensor:
        batch, length, d_model = x.shape
        return x.view(batch, length, self.num_heads, d_model // self.num_heads).transpose(1, 2)

    def forward(self, query: Tensor, source: Tensor, *, causal: bool = False) -> Tensor:
        q = self.split_heads(self.to_query(query))  # (batch, heads, query_len, d_head)
        k = self.split_heads(self.to_key(source))  # (batch, heads, key_len, d_head)
        v = self.split_heads(self.to_value(source))  # (batch, heads, key_len, d_head)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.to_output(out.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two linear maps with a relu between them, at every position alike."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(F.relu(self.expand(x)))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each added and normalised (post-norm)."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.self_attention_norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.feed_forward_norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        x = self.self_attention_norm(x + self.self_attention(x, x))
        return self.feed_forward_norm(x + self.feed_forward(x))


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention and feed-forward, each added and normalised (post-norm)."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.self_attention_norm = nn.LayerNorm(d_model)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention_norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.feed_forward_norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        x = self.self_attention_norm(x + self.self_attention(x, x, causal=True))
        x = self.cross_attention_norm(x + self.cross_attention(x, memory))
        return self.feed_forward_norm(x + self.feed_forward(x))


class Stack(nn.Module):
    """Layers one after another."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, *memory: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, *memory)
        return x


class InputEmbedding(nn.Module):
    """Token vectors, scaled, plus sinusoids (Vaswani et al., 2017, §3.4 and §3.5)."""

    def __init__(self, vocabulary: int, d_model: int, max_length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, d_model)
        position = torch.arange(max_length, dtype=torch.float64)[:, None]
        rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
        table = torch.zeros(max_length, d_model, dtype=torch.float64)
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate)
        self.register_buffer("sinusoids", table.float(), persistent=False)
        self.scale = math.sqrt(d_model)

    def forward(self, ids: Tensor) -> Tensor:
        return self.tokens(ids) * self.scale + self.sinusoids[: ids.shape[1]]


class TorchTransformer(nn.Module):
    """Encoder and decoder; the logits of every next target token."""

    def __init__(
        self, vocabulary: int, d_model: int, num_heads: int, d_ff: int, num_layers: int, max_length: int
    ) -> None:
        super().__init__()
        self.source_embedding = InputEmbedding(vocabulary, d_model, max_length)
        self.target_embedding = InputEmbedding(vocabulary, d_model, max_length)
        self.encoder = Stack([EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.decoder = Stack([DecoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.to_logits = nn.Linear(d_model, vocabulary)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory = self.encoder(self.source_embedding(src))  # (batch, source_len, d_model)
        decoded = self.decoder(self.target_embedding(tgt), memory)  # (batch, target_len, d_model)
        return self.to_logits(decoded)  # (batch, target_len, vocabulary)
