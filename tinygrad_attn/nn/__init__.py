"""Modules: what a model is made of. `nn.init` holds the first values of parameters."""

from tinygrad_attn.nn import init
from tinygrad_attn.nn.activation import GELU, Flatten, Identity, LeakyReLU, ReLU, Sigmoid, SiLU, Softplus, Tanh
from tinygrad_attn.nn.containers import ModuleList, Sequential
from tinygrad_attn.nn.layers import Dropout, Embedding, LayerNorm, Linear, RMSNorm
from tinygrad_attn.nn.module import LoadReport, Module, Parameter
from tinygrad_attn.nn.recurrent import GRU, GRUCell, RNNCell

__all__ = [
    "GELU",
    "GRU",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LoadReport",
    "Module",
    "ModuleList",
    "Parameter",
    "RMSNorm",
    "RNNCell",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Tanh",
    "init",
]
