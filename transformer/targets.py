"""What a decoder is trained on: the target shifted right goes in, the target itself should come out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_attn import ops


def shift_right(target: ArrayLike, start_id: int) -> NDArray[np.int64]:
    """What the decoder reads while it learns to say `target`: the start token, then the target without its last token.

    At every place it is shown what came before and asked for what comes now. This is teacher forcing: it reads the
    right tokens, not its own. In generation it reads its own.

    Args:
        target: (batch, length), ids that end with the end id (and padding).
    Returns:
        (batch, length).

    >>> shift_right([[7, 8, 2, 0]], start_id=1)
    array([[1, 7, 8, 2]])
    """
    ids = np.asarray(target)
    return np.concatenate([np.full((len(ids), 1), start_id, dtype=ids.dtype), ids[:, :-1]], axis=1)


def sequence_loss(logits: Any, target: ArrayLike, pad_id: int | None = None, *, label_smoothing: float = 0.0) -> Any:
    """Mean surprise per real token, in nats: cross-entropy in which padding does not count.

    The sum is divided by the number of tokens, not sentence by sentence, so that every token weighs the same.

    Args:
        logits: (batch, length, vocabulary).
        target: (batch, length), ids.
        pad_id: places with this target do not count; None if all count.
        label_smoothing: share of the target that is spread evenly over all tokens.
    Returns:
        A single number; 0 if nothing counts.
    """
    return ops.cross_entropy(logits, np.asarray(target), ignore_index=pad_id, label_smoothing=label_smoothing)
