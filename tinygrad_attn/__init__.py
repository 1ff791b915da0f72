"""A small tensor autograd engine on NumPy, with all that a Transformer needs.

>>> import tinygrad_attn as ta
>>> w = ta.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, name="w")
>>> loss = ta.softmax(w @ w.T).mean()
>>> loss.backward()
>>> w.grad.shape
(2, 2)
"""

from tinygrad_attn import diagnose, errors, nn, ops, optim
from tinygrad_attn.checkpoint import checkpoint
from tinygrad_attn.creation import eye, full, ones, randn, zeros
from tinygrad_attn.diagnose import detect_anomaly, why
from tinygrad_attn.functional import grad, gradients, hessian, hvp, jacobian, jvp, value_and_grad, vjp
from tinygrad_attn.gradcheck import check_operation, gradcheck, gradgradcheck
from tinygrad_attn.graph import Node
from tinygrad_attn.masks import causal_mask, padding_mask
from tinygrad_attn.modes import enable_grad, is_grad_enabled, keep_grads, no_grad, unfused
from tinygrad_attn.operation import Operation, identity, op
from tinygrad_attn.ops import *  # noqa: F403 (every operation, under its NumPy name)
from tinygrad_attn.registry import OPERATIONS
from tinygrad_attn.rng import default_rng, manual_seed
from tinygrad_attn.tensor import Tensor, get_default_dtype, set_default_dtype

__version__ = "0.1.0"

__all__ = [
    "OPERATIONS",
    "Node",
    "Operation",
    "Tensor",
    "causal_mask",
    "check_operation",
    "checkpoint",
    "default_rng",
    "detect_anomaly",
    "diagnose",
    "enable_grad",
    "errors",
    "get_default_dtype",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "gradients",
    "hessian",
    "hvp",
    "identity",
    "is_grad_enabled",
    "jacobian",
    "jvp",
    "keep_grads",
    "manual_seed",
    "nn",
    "no_grad",
    "op",
    "optim",
    "padding_mask",
    "set_default_dtype",
    "unfused",
    "value_and_grad",
    "vjp",
    "why",
]
__all__ += ["eye", "full", "ones", "randn", "zeros"]
__all__ += ops.__all__
