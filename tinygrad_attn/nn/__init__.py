"""Modules: what a model is made of. `nn.init` holds the first values of parameters."""

from tinygrad_attn.nn import init
from tinygrad_attn.nn.containers import ModuleList, Sequential
from tinygrad_attn.nn.layers import Dropout, Embedding, LayerNorm, Linear
from tinygrad_attn.nn.module import LoadReport, Module, Parameter

__all__ = [
    "Dropout",
    "Embedding",
    "LayerNorm",
    "Linear",
    "LoadReport",
    "Module",
    "ModuleList",
    "Parameter",
    "Sequential",
    "init",
]
