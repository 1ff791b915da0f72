"""Modules that hold other modules by number."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

from tinygrad_attn.errors import DtypeError, IndexRangeError
from tinygrad_attn.nn.module import Module


class ModuleList(Module):
    """A list of modules whose parameters are found; it is read with indices, slices and loops, never called.

    >>> from tinygrad_attn import nn
    >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), [name for name, _ in layers.named_parameters()][:2]
    (3, ['0.weight', '0.bias'])
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> None:
        """Add one module at the end."""
        number = len(self)
        while str(number) in vars(self):
            number += 1
        self._put(str(number), module)

    def _put(self, name: str, module: Any) -> None:
        if not isinstance(module, Module):
            hint = "; write Sequential(*modules)" if isinstance(self, Sequential) and isinstance(module, list) else ""
            raise DtypeError(f"{type(self).__name__} holds modules only\n  given {type(module).__name__}{hint}")
        setattr(self, name, module)
        module._set_scope(self._scope_of(name))
        for path, parameter in module.named_parameters():
            parameter.name = f"{module._scope}.{path}"

    def _set_scope(self, scope: str) -> None:
        super()._set_scope(scope)
        for name, module in self.named_children():
            module._set_scope(self._scope_of(name))

    def _scope_of(self, name: str) -> str:
        """A list is not called itself, so what it holds carries its name along: "layers.0"."""
        return f"{self._scope}.{name}" if self._scope else name

    def __len__(self) -> int:
        return sum(1 for _ in self.named_children())

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            part = Sequential() if isinstance(self, Sequential) else ModuleList()
            chosen = list(self)[index]
            vars(part).update(zip(map(str, range(len(chosen))), chosen, strict=True))  # they keep their names
            return part
        return getattr(self, self._name(index))

    def __setitem__(self, index: int, module: Module) -> None:
        self._put(self._name(index), module)

    def _name(self, index: int) -> str:
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexRangeError(f"{type(self).__name__} holds {len(self)} modules\n  given index {number}")
        return [name for name, _ in self.named_children()][number]


class Sequential(ModuleList):
    """Modules that run one after the other, each on what the one before returned.

    y = fₙ(… f₂(f₁(x)))

    >>> from tinygrad_attn import nn
    >>> nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.1))
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): Dropout(p=0.1)
    )
    """

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        """What the last module makes of it."""
        for module in self:
            x = module(x)
        return x

    def _scope_of(self, name: str) -> str:
        return name  # it is called itself, so its modules add their number only
