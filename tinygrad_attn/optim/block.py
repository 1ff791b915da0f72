"""Parameters side by side in one flat array, so that a step is a few long loops and not many short ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import DtypeError
from tinygrad_attn.optim.finite import all_finite, label_of, not_finite
from tinygrad_attn.tensor import Tensor

Array = NDArray[Any]


class Block:
    """Parameters of one group and one dtype: values, gradients and state, each as one flat array.

    The parameters' own memory becomes a view into `values`: whoever asks a parameter for its values sees every step,
    and what is written to a parameter is what the next step starts from. An array that shared memory with a parameter
    before does not share it any more.

    Attributes:
        group: the settings that hold for these parameters.
        parameters, positions: the tensors, and their numbers among all that the optimiser was given.
        values, gradients: flat arrays.
        working: the dtype of gradients and state, and of what is computed: at least single precision.
        state: flat arrays by name, such as "first_moment".
        steps: how many steps each parameter has taken; one without a gradient does not take part in a step.
    """

    def __init__(
        self, group: dict[str, Any], members: Sequence[tuple[int, Tensor]], state_names: Sequence[str]
    ) -> None:
        self.group = group
        self.positions = [position for position, _ in members]
        self.parameters = [parameter for _, parameter in members]
        self.dtype = self.parameters[0].dtype
        self.bounds = [0, *itertools.accumulate(parameter.size for parameter in self.parameters)]
        self.values = np.empty(self.bounds[-1], self.dtype)
        self.working = np.result_type(self.dtype, np.float32)
        self.gradients = np.zeros(self.bounds[-1], self.working)
        self.state = {name: np.zeros(self.bounds[-1], self.working) for name in state_names}
        self.steps = [0] * len(self.parameters)
        self._value_views = self.views(self.values)
        self._gradient_views = self.views(self.gradients)
        self.adopt()

    def views(self, flat: Array) -> list[Array]:
        """One view into `flat` per parameter, in its shape."""
        ends = itertools.pairwise(self.bounds)
        return [flat[a:b].reshape(p.shape) for (a, b), p in zip(ends, self.parameters, strict=True)]

    def adopt(self) -> None:
        """Let the parameters live in `values`; again for one that has been given other memory since.

        Raises:
            DtypeError: one has been converted to another dtype since.
        """
        for position, parameter, view in zip(self.positions, self.parameters, self._value_views, strict=True):
            if parameter.dtype != self.dtype:
                raise DtypeError(
                    f"{label_of(parameter, position)} was {self.dtype} when the optimiser was made, now it is "
                    f"{parameter.dtype}\n  make the optimiser after Module.to"
                )
            if parameter._data is not view:
                parameter.move_to(view)

    def gather(self) -> None:
        """Copy the gradients into `gradients`; raise if one is not finite, with nothing else changed."""
        for parameter, view in zip(self.parameters, self._gradient_views, strict=True):
            if parameter.grad is not None:
                np.copyto(view, parameter.grad, casting="same_kind")
        for start, stop, _ in self.runs():
            if not all_finite(self.gradients[start:stop]):
                for position, parameter in zip(self.positions, self.parameters, strict=True):
                    if parameter.grad is not None and not np.isfinite(parameter.grad).all():
                        raise not_finite(parameter, label_of(parameter, position))

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """Stretches (start, stop, steps so far) of neighbours that have a gradient and took equally many steps."""
        active = ((p.grad is not None, taken) for p, taken in zip(self.parameters, self.steps, strict=True))
        first = 0
        for (has_gradient, taken), run in itertools.groupby(active):
            last = first + sum(1 for _ in run)
            if has_gradient:
                yield self.bounds[first], self.bounds[last], taken
            first = last

    def count_step(self) -> None:
        """Note that every parameter with a gradient took a step and holds other values now."""
        for index, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                self.steps[index] += 1
                parameter.bump_version()
