"""Modules: what a model is made of. `nn.init` holds the first values of parameters."""

from tinygrad_attn.nn import init
from tinygrad_attn.nn.activation import GELU, Flatten, Identity, LeakyReLU, ReLU, Sigmoid, SiLU, Softplus, Tanh
from tinygrad_attn.nn.batch_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from tinygrad_attn.nn.containers import ModuleList, Sequential
from tinygrad_attn.nn.convolution import (
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from tinygrad_attn.nn.layers import Dropout, Embedding, LayerNorm, Linear, RMSNorm
from tinygrad_attn.nn.module import LoadReport, Module
from tinygrad_attn.nn.parameter import Parameter
from tinygrad_attn.nn.recurrent import GRU, GRUCell, RNNCell

__all__ = [
    "GELU",
    "GRU",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LoadReport",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
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
