"""Optimisers: what a step does with the gradients that a backward pass has left in the parameters."""

from tinygrad_attn.optim.adam import Adam, AdamW, adam_definition
from tinygrad_attn.optim.clip import clip_grad_norm
from tinygrad_attn.optim.groups import decay_groups
from tinygrad_attn.optim.optimizer import Optimizer
from tinygrad_attn.optim.rmsprop import RMSprop, rmsprop_definition
from tinygrad_attn.optim.sgd import SGD, sgd_definition

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Optimizer",
    "RMSprop",
    "adam_definition",
    "clip_grad_norm",
    "decay_groups",
    "rmsprop_definition",
    "sgd_definition",
]
