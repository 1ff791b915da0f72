"""Module: a model as a tree of attributes.

Nothing is registered anywhere: a module's parameters and children are the attributes that hold a `Parameter` or a
`Module`, in the order in which they were first assigned; a module's own parameters come before its children's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tinygrad_attn import modes
from tinygrad_attn.errors import CheckpointError, DtypeError, OptionError
from tinygrad_attn.nn.parameter import Parameter
from tinygrad_attn.nn.state import buffer_values, in_precision, misfits, read_state
from tinygrad_attn.tensor import Tensor

Array = NDArray[Any]
M = TypeVar("M", bound="Module")


class LoadReport(NamedTuple):
    """What `load_state_dict(strict=False)` could not match: names only the model has, names only the state has."""

    missing: list[str]
    unexpected: list[str]


def _not_implemented(self: Module, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        f"{type(self).__name__} has no forward()\n  define forward(self, ...); calling the module runs it"
    )


class Module:
    """Base of every layer and model: assign parameters and other modules to attributes and define `forward`.

    Calling the module runs `forward`; what is recorded meanwhile carries the module's path in `Node.scope`.
    Divergence from PyTorch: `super().__init__()` may be left out, since a module keeps no registers to set up; and a
    plain list of modules, which training would silently pass over, is refused.

    >>> import tinygrad_attn as ta
    >>> class Scale(ta.nn.Module):
    ...     def __init__(self):
    ...         self.factor = ta.nn.Parameter([2.0])
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> model = Scale()
    >>> model(ta.Tensor([3.0])).tolist()
    [6.0]
    >>> [name for name, _ in model.named_parameters()]
    ['factor']
    """

    training: bool = True
    decays: bool = True  # whether weight decay acts on the matrices it holds itself; see `optim.decay_groups`
    _scope: str = ""  # what calling it adds to the scope: the attribute under which its owner holds it
    _buffers: Mapping[str, bool] = {}  # names of arrays that belong to the state; whether they are saved

    forward: Callable[..., Any] = _not_implemented

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a parameter that stands on the class: all its modules would share it, and none would train it."""
        super().__init_subclass__(**options)
        for name, value in vars(cls).items():
            if kind := _hidden_kind([value]):
                raise DtypeError(
                    f"{cls.__name__}.{name}: a {kind} on the class itself would not be trained or saved\n"
                    f"  assign it in __init__, to self.{name}"
                )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` inside this module's scope."""
        if not self._scope:
            return self.forward(*args, **kwargs)
        with modes.scope(self._scope):
            return self.forward(*args, **kwargs)

    # --- attributes ------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        self._check_assignment(name, value)
        if name in self._buffers and (value is None or isinstance(value, (Parameter, Module))):
            object.__setattr__(self, "_buffers", {k: saved for k, saved in self._buffers.items() if k != name})
        elif name in self._buffers:
            value = buffer_values(f"{type(self).__name__}.{name}", value)
        object.__setattr__(self, name, value)
        if isinstance(value, Parameter):
            value.name = value.name or name
        elif isinstance(value, Module):
            value._set_scope(name)
            for path, parameter in value.named_parameters():
                if not self._holds(parameter):
                    parameter.name = f"{name}.{path}"

    def _holds(self, parameter: Parameter) -> bool:
        """Whether the parameter's name is already its path from here."""
        found: Any = self
        for part in (parameter.name or "").split("."):
            found = vars(found).get(part) if isinstance(found, Module) else None
        return found is parameter

    def __delattr__(self, name: str) -> None:
        object.__setattr__(self, "_buffers", {k: saved for k, saved in self._buffers.items() if k != name})
        object.__delattr__(self, name)

    def _check_assignment(self, name: str, value: Any) -> None:
        owner = f"{type(self).__name__}.{name}"
        if isinstance(value, (Parameter, Module)):
            taken = hasattr(Module, name) and name != "forward"
            if taken or not name or "." in name:
                why = "is what every module has of that name" if taken else "would not be a path of its own"
                raise OptionError(f"{owner} {why}\n  give the {type(value).__name__} another name")
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            if isinstance(vars(self).get(name), Parameter):
                raise DtypeError(
                    f"{owner} is a Parameter and stays one\n"
                    f"  given a plain Tensor; write {name}.data = values to change it, or assign nn.Parameter(values)"
                )
            if value.requires_grad and value.is_leaf:
                raise DtypeError(
                    f"{owner}: a Tensor that requires a gradient would not be trained as an attribute\n"
                    "  wrap it in nn.Parameter(...), or assign tensor.detach() if it is a constant"
                )
        elif isinstance(value, Module) and any(module is self for module in value.modules()):
            raise OptionError(f"{owner}: a module cannot contain itself\n  pass the outer module to forward() instead")
        else:
            self._check_container(name, value)

    def _check_container(self, name: str, value: Any, most: float = math.inf) -> None:
        if isinstance(value, _CONTAINERS) and (kind := _hidden_kind(value, most)):
            raise DtypeError(
                f"{type(self).__name__}.{name}: parameters inside a plain {type(value).__name__} would not be trained "
                f"or saved\n  it holds a {kind}; use nn.ModuleList([...]), or one attribute for each"
            )

    def _set_scope(self, scope: str) -> None:
        object.__setattr__(self, "_scope", scope)

    def register_buffer(self, name: str, values: ArrayLike, *, persistent: bool = True) -> None:
        """Hold a plain array that is part of the model and not trained, such as a table of positions.

        Args:
            name: the attribute under which it can be read.
            values: array; copied.
            persistent: whether `state_dict` contains it; False for what the constructor can compute again.

        Whatever is assigned to the attribute later is copied into an array too; None ends its being a buffer.
        """
        if not name.isidentifier() or hasattr(type(self), name) or (name in vars(self) and name not in self._buffers):
            raise OptionError(
                f"{type(self).__name__} cannot hold a buffer {name!r}\n  the name is taken or is no identifier"
            )
        array = buffer_values(f"{type(self).__name__}.{name}", values)
        object.__setattr__(self, "_buffers", {**self._buffers, name: persistent})
        object.__setattr__(self, name, array)

    # --- walking the tree ------------------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules held as attributes, with the attribute's name."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value

    def children(self) -> Iterator[Module]:
        """The modules held as attributes."""
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "", *, once: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and all below it, each with its path; the module itself has the path `prefix`.

        Args:
            prefix: put in front of every path.
            once: yield a module that stands in several places only at the first.
        """
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if once and id(module) in seen:
                continue
            seen.add(id(module))
            for name, value in vars(module).items():
                # Something may have been appended since it was assigned; a list longer than this holds data.
                module._check_container(name, value, most=1000)
            yield path, module
            below = [(f"{path}.{name}" if path else name, child) for name, child in module.named_children()]
            stack.extend(reversed(below))

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(self, prefix: str = "", *, once: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its path, such as ("layers.0.norm.weight", …).

        Args:
            prefix: put in front of every path.
            once: yield a tied parameter, which stands in several places, only at the first.
        """
        seen: set[int] = set()
        for path, module in self.named_modules(prefix, once=once):
            for name, value in vars(module).items():
                if isinstance(value, Parameter) and not (once and id(value) in seen):
                    seen.add(id(value))
                    yield f"{path}.{name}" if path else name, value

    def parameters(self) -> Iterator[Parameter]:
        """Every parameter, each once, however many modules share it."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self, *, once: bool = True) -> Iterator[tuple[str, Array]]:
        """Every buffer with its path, the ones that are not saved included."""
        for path, module in self.named_modules(once=once):
            for name in module._buffers:
                yield f"{path}.{name}" if path else name, getattr(module, name)

    def num_parameters(self) -> int:
        """How many numbers training may change; tied ones count once, frozen ones not at all."""
        return sum(parameter.size for parameter in self.parameters() if parameter.requires_grad)

    # --- switches --------------------------------------------------------------------------------------------------

    def train(self: M, training: bool = True) -> M:
        """Switch this module and all below it to training (dropout on) or evaluation; returns self."""
        for module in self.modules():
            module.training = training
        return self

    def eval(self: M) -> M:
        """Switch this module and all below it to evaluation: dropout passes everything through; returns self."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Freeze all parameters with False, or thaw them; returns self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def to(self: M, dtype: DTypeLike) -> M:
        """Convert parameters, their gradients and floating buffers in place; ties stay. Returns self.

        Complex ones stay complex: float32 makes them complex64.
        An optimiser keeps the dtype it was made with, so make it afterwards.

        Raises:
            DtypeError: not a floating dtype.
        """
        wanted = np.dtype(dtype)
        if wanted.kind != "f":
            raise DtypeError(f"parameters need a floating dtype\n  given {wanted}")
        for parameter in self.parameters():
            parameter.convert(in_precision(parameter.dtype, wanted))
        for module in self.modules():
            for name in module._buffers:
                buffer = getattr(module, name)
                if buffer.dtype.kind in "fc":
                    setattr(module, name, buffer.astype(in_precision(buffer.dtype, wanted)))
        return self

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.zero_grad()

    # --- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Array]:
        """Copies of all parameters and persistent buffers by path; a tied parameter stands under each of its paths."""
        return {path: array.copy() for path, array in self._state_arrays()}

    def _state_arrays(self) -> Iterator[tuple[str, Array]]:
        for path, module in self.named_modules(once=False):
            for name, value in vars(module).items():
                full = f"{path}.{name}" if path else name
                if isinstance(value, Parameter):
                    yield full, value._data
                elif module._buffers.get(name, False):
                    yield full, value

    def load_state_dict(self, state: Mapping[str, ArrayLike], strict: bool = True) -> LoadReport:
        """Copy `state` into the parameters and buffers that stand here already: all of it, or none if it does not fit.

        Objects keep their identity, so ties and optimisers stay true. Of the paths of a tied parameter one is enough;
        several must agree.

        Args:
            state: arrays by path, as `state_dict` returns them.
            strict: whether every path of the model must be in `state`, and every path of `state` in the model.
        Raises:
            CheckpointError: paths are missing or unexpected, shapes or kinds of dtype differ, numbers are too large for
                the dtype, or tied values disagree; one message lists them all, and nothing has been changed.
            DtypeError: `state` is no mapping.
        """
        own = dict(self._state_arrays())
        given = read_state(state)
        found = {id(own[path]) for path in given if path in own}
        missing = [path for path in own if path not in given and id(own[path]) not in found]
        unexpected = [path for path in given if path not in own]
        faults = misfits(own, given)
        if strict:
            faults = [f"missing     {path}  {own[path].shape}" for path in missing] + faults
            faults += [f"unexpected  {path}  {given[path].shape}" for path in unexpected]
        if faults:
            shown = [*faults[:40], *([f"… and {len(faults) - 40} more"] if len(faults) > 40 else [])]
            raise CheckpointError(
                f"this state does not fit {type(self).__name__}; nothing was changed\n    "
                + "\n    ".join(shown)
                + "\n  build the model with the settings it was saved with"
            )
        for path, array in own.items():
            if path in given:
                np.copyto(array, given[path], casting="same_kind")
        for parameter in self.parameters():
            parameter.bump_version()
        return LoadReport(missing, unexpected)

    # --- looks -----------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands in the parentheses of the module's line in `repr`; for subclasses."""
        return ""

    def __repr__(self) -> str:
        lines = [self.extra_repr()] if self.extra_repr() else []
        below = [f"({name}): {child!r}" for name, child in self.named_children()]
        if not below:
            return f"{type(self).__name__}({', '.join(lines)})"
        inner = "\n".join(lines + below).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {inner}\n)"


_CONTAINERS = (list, tuple, set, frozenset, dict)


def _hidden_kind(container: Any, most: float = math.inf) -> str | None:
    """The kind of a module or parameter among the first items of plain containers, where nothing finds it."""
    stack, seen = [container], {id(container)}
    while stack:
        held = stack.pop()
        for item in held.values() if isinstance(held, dict) else held:
            most -= 1
            if most < 0:
                return None
            if isinstance(item, (Module, Parameter)):
                return type(item).__name__
            if isinstance(item, _CONTAINERS) and id(item) not in seen:
                seen.add(id(item))
                stack.append(item)
    return None
