"""All operations; importing this package fills the registry."""

from tinygrad_attn.ops import plain as _plain
from tinygrad_attn.ops.activation import gelu_tanh, relu, sigmoid, silu, softplus
from tinygrad_attn.ops.attention import attention, attention_weights, scaled_dot_product_attention
from tinygrad_attn.ops.dropout import apply_keep_mask, dropout
from tinygrad_attn.ops.elementwise import (
    add,
    cos,
    divide,
    exp,
    expm1,
    log,
    log1p,
    multiply,
    negative,
    positive,
    power,
    reciprocal,
    sin,
    sqrt,
    square,
    subtract,
    tanh,
)
from tinygrad_attn.ops.index import embedding, getitem, index_put, scatter_add, sum_rows
from tinygrad_attn.ops.linalg import linear, matmul
from tinygrad_attn.ops.loss import cross_entropy
from tinygrad_attn.ops.norm import layer_norm
from tinygrad_attn.ops.piecewise import absolute, clip, masked_fill, maximum, minimum, where
from tinygrad_attn.ops.reduce import cumsum, logsumexp, max, mean, min, prod, std, sum, var
from tinygrad_attn.ops.shape import (
    astype,
    broadcast_to,
    concatenate,
    expand_dims,
    flip,
    moveaxis,
    ravel,
    reshape,
    split,
    squeeze,
    stack,
    swapaxes,
    transpose,
)
from tinygrad_attn.ops.softmax import log_softmax, softmax

__all__ = [name for name in dir() if not name.startswith("_")]
