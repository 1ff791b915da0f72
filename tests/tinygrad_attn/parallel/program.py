"""Run by several processes: trains on parts of unequal size, and says what every process ended with, as one JSON line.

mpiexec -n 3 python -m tests.tinygrad_attn.parallel.program
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn import nn, optim
from tinygrad_attn.errors import OptionError
from tinygrad_attn.parallel import average_gradients, everyone, share_values

SIZES = [1, 4, 2]  # rows of each process: a mean of means would weigh the first row four times


def model(seed: int, dtype: Any = np.float64) -> nn.Module:
    ta.set_default_dtype(dtype)
    rng = np.random.default_rng(seed)
    return nn.Sequential(nn.Linear(3, 4, rng=rng), nn.Tanh(), nn.Linear(4, 2, rng=rng))


def batch() -> tuple[Any, Any]:
    rng = np.random.default_rng(9)
    return rng.normal(size=(sum(SIZES), 3)), rng.normal(size=(sum(SIZES), 2))


def train(net: nn.Module, x: Any, y: Any, average: Any) -> list[list[float]]:
    optimizer = optim.Adam(net.parameters(), lr=0.05)
    for _ in range(5):
        ta.mse_loss(net(x), y).backward()
        average(net.parameters())
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.numpy().ravel().tolist() for parameter in net.parameters()]


def main() -> None:
    processes = everyone()
    rank = processes.rank
    net = model(seed=rank)  # each begins with other values
    share_values(net.parameters())
    x, y = batch()
    rows = slice(sum(SIZES[:rank]), sum(SIZES[: rank + 1]))
    values = train(net, x[rows], y[rows], lambda parameters: average_gradients(parameters, SIZES[rank]))

    seldom, never = nn.Parameter([1.0, 2.0]), nn.Parameter([1.0])
    if rank == 1:
        seldom.grad = np.array([3.0, 6.0])
    weight = average_gradients([seldom, never, seldom], SIZES[rank])
    half = nn.Parameter(np.ones(2, np.float16))
    half.grad = np.full(2, rank, np.float16)
    average_gradients([half], 1.0)

    refused = []
    for weights in ([1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, float("nan"), 1.0]):
        try:
            average_gradients([seldom], weights[rank])
        except OptionError as error:
            refused.append(str(error).splitlines()[0])
    found = {"values": values, "seldom": seldom.grad.tolist(), "never": never.grad is None, "weight": weight}
    found |= {"half": [half.grad.tolist(), str(half.grad.dtype)], "refused": refused}
    gathered = processes.gather(found)
    if rank == 0:
        print(json.dumps(gathered))


if __name__ == "__main__":
    main()
