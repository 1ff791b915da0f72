"""How many operations a gradient passes on its way from a loss to a number, counted on the recorded graph.

A graph of tensors cannot tell how far apart two tokens are: one tensor holds them all. So this counts for every single
number. Whether an operation passes anything on from one number to another is asked of its own gradient rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.graph import is_tensor, sweep, topological_order
from tinygrad_attn.tensor import Tensor

Steps = NDArray[np.float64]


class Paths:
    """The shortest and the longest path from a loss to every number behind it.

    Numbers are told apart by how many operations they are away. Of each operation's result, those that are n away get
    a random gradient and the others 0; whatever number of its operands then gets anything is n + 1 away along this
    path. A derivative that is exactly 0, such as that of a masked score, is no path.

    Args:
        loss: a Tensor, recorded under `unfused()` if fused operations are to be counted by what they consist of.

    >>> import numpy as np
    >>> x = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    >>> paths = Paths(x[0] * x[0] * x[1])
    >>> paths.shortest(x), paths.longest(x)
    (array([3., 2.]), array([3., 2.]))
    >>> paths.operations(x, (0,))
    ['multiply', 'multiply', 'getitem']
    """

    def __init__(self, loss: Tensor) -> None:
        self._random = np.random.default_rng(0)
        self._near: dict[int, Steps] = {id(loss): np.zeros(loss.shape)}
        self._far: dict[int, Steps] = {id(loss): np.zeros(loss.shape)}
        self._users: dict[int, list[Tensor]] = {}
        for tensor in reversed(topological_order([loss])):
            if tensor.node is None or id(tensor) not in self._near:
                continue
            for source in {id(x): x for x in tensor.node.inputs if is_tensor(x)}.values():
                self._users.setdefault(id(source), []).append(tensor)
            self._pass_on(tensor, self._near, np.fmin)
            self._pass_on(tensor, self._far, np.fmax)

    def shortest(self, tensor: Tensor) -> Steps:
        """Operations on the shortest path to each number of a tensor; NaN where there is none."""
        return self._near.get(id(tensor), np.full(tensor.shape, np.nan))

    def longest(self, tensor: Tensor) -> Steps:
        """Operations on the longest path to each number of a tensor; NaN where there is none."""
        return self._far.get(id(tensor), np.full(tensor.shape, np.nan))

    def operations(self, tensor: Tensor, place: tuple[int, ...], *, longest: bool = False) -> list[str]:
        """The names of the operations on one such path, in the order in which the gradient passes them.

        Args:
            tensor, place: the number where the path ends.
            longest: the longest path instead of the shortest.
        """
        steps = self._far if longest else self._near
        names: list[str] = []
        while steps[id(tensor)][place]:
            tensor, place = self._one_back(tensor, place, steps)
            names.append(tensor.node.operation.name)  # type: ignore[union-attr]
        return names[::-1]

    def _pass_on(self, tensor: Tensor, steps: dict[int, Steps], choose: Any) -> None:
        own = steps[id(tensor)]
        for level in np.unique(own[np.isfinite(own)]):
            for source, reached in self._reached(tensor, own == level):
                known = steps.setdefault(id(source), np.full(source.shape, np.nan))
                steps[id(source)] = np.where(reached, choose(known, level + 1), known)

    def _reached(self, tensor: Tensor, chosen: NDArray[np.bool_]) -> list[tuple[Tensor, NDArray[np.bool_]]]:
        """Which numbers of each operand get a gradient if the chosen ones of the result have one."""
        gradient = np.where(chosen, self._random.uniform(0.5, 1.5, tensor.shape), 0.0).astype(tensor.dtype)
        inputs = tensor.node.inputs  # type: ignore[union-attr]
        behind = {id(source) for source in inputs if is_tensor(source)}
        step = next(sweep([tensor], [gradient], stop=behind, hooks=False))
        return [(inputs[index], np.asarray(arrived) != 0) for index, arrived in step.contributions]

    def _one_back(self, tensor: Tensor, place: tuple[int, ...], steps: dict[int, Steps]) -> Any:
        """A number that was made of this one and is one operation nearer to the loss; halving finds it."""

        def reaches(user: Tensor, chosen: NDArray[np.bool_]) -> bool:
            return any(bool(reached[place]) for source, reached in self._reached(user, chosen) if source is tensor)

        for user in self._users[id(tensor)]:
            candidates = steps[id(user)] == steps[id(tensor)][place] - 1
            if not candidates.any() or not reaches(user, candidates):
                continue
            while candidates.sum() > 1:
                flat = np.flatnonzero(candidates)
                half = np.zeros_like(candidates)
                half.flat[flat[: len(flat) // 2]] = True
                candidates = half if reaches(user, half) else candidates & ~half
            return user, tuple(map(int, np.argwhere(candidates)[0]))
        raise AssertionError("every number that has a path has a number before it on that path")
