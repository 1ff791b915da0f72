"""Attention in which one operand has no gradient, and what why says of it."""

from __future__ import annotations

from typing import Any

import numpy as np

import tinygrad_attn as ta
from tests.tinygrad_attn.explained import TWO, Make, randoms, uneven, variable


def attended(parameter: str, **settings: Any) -> Make:
    """Attention of three positions, only one row of one operand of which matters here."""

    def make() -> tuple[ta.Tensor, ta.Tensor]:
        operands = {name: randoms(3, 2, name=name) for name in ("query", "key", "value")}
        operands |= {name: settings.pop(name) for name in tuple(settings) if name in operands}
        if "bias" in settings:
            operands["bias"] = settings["bias"]
        q, k, v = (operands[name] for name in ("query", "key", "value"))
        return operands[parameter], uneven(ta.scaled_dot_product_attention(q, k, v, **settings))

    return make


ZERO_IN_ATTENTION: dict[str, tuple[Make, Any, str, str, list[str]]] = {
    # what: (tensor and loss, index asked about, operation, kind, words)
    "query sees nothing": (
        attended("query", mask=np.array([[True] * 3, [False] * 3, [True] * 3])),
        1,
        "attention",
        "masked",
        ["query 1 may look at no key"],
    ),
    "query sees one": (
        attended("query", causal=True),
        0,
        "attention",
        "constant",
        ["query 0 may look at one key only"],
    ),
    "query is sure": (
        attended("query", key=variable(1e4 * TWO[[0, 1, 0]]), query=variable(TWO[[0, 1, 1]])),
        0,
        "attention",
        "saturated",
        ["one weight of query 0 is 1"],
    ),
    "keys are zero": (
        attended("query", key=variable(np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 5.0]]))),
        (slice(None), 0),
        "attention",
        "times zero",
        ["component 0 is 0 in every key"],
    ),
    "key nobody sees": (
        attended("key", mask=np.array([True, True, False])),
        2,
        "attention",
        "masked",
        ["no query may look at key 2: its column of the mask is False throughout"],
    ),
    "key seen alone": (
        attended("key", mask=np.eye(3, dtype=bool)),
        1,
        "attention",
        "constant",
        ["whoever may look at key 1 may look at no other"],
    ),
    "queries are zero": (
        attended("key", query=variable(np.zeros((3, 2)))),
        0,
        "attention",
        "times zero",
        ["component 0 is 0 in every query that looks at key 0"],
    ),
    "values are equal": (
        attended("key", value=variable(np.zeros((3, 2)))),
        None,
        "attention",
        "constant",
        ["all values are the same"],
    ),
    "value nobody sees": (
        attended("value", mask=np.array([True, True, False])),
        2,
        "attention",
        "masked",
        ["no query may look at value 2"],
    ),
    "value without weight": (
        attended("value", bias=np.array([0.0, 0.0, -1e5])),
        2,
        "attention",
        "saturated",
        ["every weight on value 2 rounds to 0"],
    ),
    "value dropped": (
        attended("value", dropout=1.0),
        0,
        "attention",
        "dropped",
        ["has dropped every weight on value 0"],
    ),
    "bias without weight": (
        attended("bias", bias=variable(np.array([[0.0, 0.0, -1e5]]))),
        (0, 2),
        "attention",
        "saturated",
        ["the weight there rounds to 0"],
    ),
    "bias of equal values": (
        attended("bias", bias=variable(np.zeros((3, 3))), value=variable(np.zeros((3, 2)))),
        None,
        "attention",
        "constant",
        ["all values are the same"],
    ),
    "query of equal values": (
        attended("query", value=variable(np.zeros((3, 2)))),
        None,
        "attention",
        "constant",
        ["all values are the same"],
    ),
    "key is all or nothing": (
        attended("key", key=variable(1e4 * TWO[[0, 1, 0]]), query=variable(TWO[[0, 1, 1]])),
        1,
        "attention",
        "saturated",
        ["every weight on key 1 is 1 or rounds to 0"],
    ),
    "bias masked": (
        attended("bias", bias=variable(np.zeros((3, 3))), mask=np.tri(3, dtype=bool)),
        (0, 2),
        "attention",
        "masked",
        ["that query may not look at that key"],
    ),
    "bias that some may see": (
        attended("bias", bias=variable(np.array([[0.0, 0.0, -1e5]])), mask=np.tri(3, dtype=bool)),
        (0, 2),
        "attention",
        "saturated",
        ["the weight there rounds to 0"],
    ),
    "in chunks, with two masks": (
        attended("key", causal=True, chunk=2, mask=np.array([[True, True, True], [True] * 3, [True, True, False]])),
        2,
        "chunked_attention",
        "masked",
        ["no query may look at key 2"],
    ),
    "values equal in one component": (
        attended("query", value=variable(np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 4.0]])), causal=True),
        0,
        "attention",
        "constant",
        ["query 0 may look at one key only"],
    ),
    "bias alone": (
        attended("bias", bias=variable(np.zeros((3, 3))), mask=np.tri(3, dtype=bool)),
        (0, 0),
        "attention",
        "constant",
        ["one key only"],
    ),
    "in chunks": (
        attended("key", causal=True, chunk=2, value=variable(np.ones((3, 2)))),
        2,
        "chunked_attention",
        "constant",
        ["all values are the same"],
    ),
}
