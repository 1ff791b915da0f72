"""Attention, the Transformer built from it, its decoder loop, training, lessons and command line.

The names are those of `transformer/api.py`.

>>> from transformer import Transformer, TransformerConfig, generate
>>> config = TransformerConfig(source_vocab=10, target_vocab=7, d_model=8, num_heads=2, d_ff=16)
>>> result = generate(Transformer(config), [[4, 5, 6]], max_new_tokens=3, start_id=1, pad_id=0)
>>> result.ids.shape
(1, 3)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer.api import *  # noqa: F403
    from transformer.api import __all__ as __all__


def __getattr__(name: str) -> Any:
    """Imports what there is when it is asked for: only then can the command line answer Ctrl-C while it starts."""
    if name == "__all__" or not name.startswith("__"):
        api = importlib.import_module("transformer.api")
        if name == "__all__" or name in api.__all__:
            return getattr(api, name)
        if name in globals():  # a module of this package, which `api` has imported by now
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *importlib.import_module("transformer.api").__all__})
