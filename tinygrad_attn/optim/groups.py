"""Which parameters weight decay should act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_attn.errors import OptionError
from tinygrad_attn.settings import is_number

if TYPE_CHECKING:
    from tinygrad_attn.nn import Module


def decay_groups(model: Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups for an optimiser: the matrices of a model with weight decay, everything else without.

    Biases, gains of normalisation and embeddings are not decayed: pulling them to zero does not make the function
    smoother, and an embedding of a rare word would only shrink between the times it is seen. A matrix tied to an
    embedding is an embedding. A module whose own matrices are to be left out sets `decays = False` on its class.

    Args:
        model: its parameters land in exactly one group each.
        weight_decay: of the first group.
    Returns:
        Groups with "params" and "weight_decay"; a group that would be empty is left out.

    >>> from tinygrad_attn import nn, optim
    >>> model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    >>> optimizer = optim.AdamW(optim.decay_groups(model, 0.1))
    >>> print(optimizer)
    AdamW
      1 parameters: lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.1
      4 parameters: lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.0
    """
    if not is_number(weight_decay) or not weight_decay >= 0.0:
        raise OptionError(f"weight_decay must be a number that is not negative\n  given {weight_decay!r}")
    parameters = list(model.parameters())
    spared = {id(parameter) for parameter in parameters if parameter.ndim < 2}
    for module in model.modules():
        if not module.decays:
            spared |= {id(parameter) for parameter in vars(module).values()}
    decayed = [parameter for parameter in parameters if id(parameter) not in spared]
    others = [parameter for parameter in parameters if id(parameter) in spared]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
