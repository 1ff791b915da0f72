"""What all optimisers share: parameter groups, the order of a step, saving and restoring."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_attn.errors import CheckpointError, DtypeError, OptionError
from tinygrad_attn.optim.block import Block
from tinygrad_attn.optim.finite import label_of
from tinygrad_attn.settings import as_mapping, is_number
from tinygrad_attn.tensor import Tensor

Array = NDArray[Any]
Group = dict[str, Any]

# Elements that are updated together: a few arrays of this length stay in a core's own cache from one pass to the next.
CHUNK = 16384


class Optimizer:
    """Base of the optimisers; a subclass says what one step does to a stretch of elements.

    A step first looks at all gradients and only then changes anything: if one is not finite, parameters and state stay
    as they were. Parameters whose gradient is None are passed over, as in PyTorch.
    Divergence from PyTorch: half precision is computed, and its state kept, in single precision. In half precision
    Adam's eps of 1e-8 is 0, and a gradient of 0 would make a parameter NaN.

    Args:
        params: the tensors to train; or groups, each a dict with "params" and the settings in which it differs.
        defaults: the settings of a group that does not name its own.
    Attributes:
        param_groups: dicts with "params" and the settings, which may be changed between steps, as in
            `group["lr"] = schedule(step)`; further parameters come with `add_param_group`.
    Raises:
        OptionError: no parameters, one that stands in two places, an unknown or an impossible setting.
        DtypeError: something other than leaf Tensors.
    """

    def __init__(self, params: Iterable[Tensor] | Iterable[Mapping[str, Any]], defaults: Group) -> None:
        self._set_up(_as_groups(params, defaults), defaults)

    def _set_up(self, groups: list[Group], defaults: Group) -> None:
        self._defaults = defaults
        self.param_groups: list[Group] = []
        self._blocks: list[Block] = []
        self._scratch: dict[np.dtype[Any], Array] = {}
        members = _checked_members(groups)
        for group in groups:
            self._check_group(group)
        for group, in_group in zip(groups, members, strict=True):
            self._add(group, in_group)

    def _add(self, group: Group, members: list[tuple[int, Tensor]]) -> None:
        self.param_groups.append(group)
        for dtype in dict.fromkeys(parameter.dtype for _, parameter in members):
            block = Block(group, [member for member in members if member[1].dtype == dtype], self.state_names(group))
            self._blocks.append(block)
            self._scratch[block.working] = np.empty(CHUNK, block.working)
        self._identities = [[id(parameter) for parameter in group["params"]] for group in self.param_groups]

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Train further parameters too, from the next step on.

        Args:
            group: a dict with "params" and the settings in which it differs.
        Raises:
            OptionError, DtypeError: as for groups given at the start; nothing was changed.
        """
        self._check_groups()
        (added,) = _as_groups([group], self._defaults)
        members = _checked_members([*self.param_groups, added])[-1]
        self._check_group(added)
        self._add(added, members)

    def _check_groups(self) -> None:
        """Raise unless the groups hold what they held at the last step, and settings that can be."""
        if [[id(parameter) for parameter in group["params"]] for group in self.param_groups] != self._identities:
            raise OptionError("the parameters in param_groups were changed\n  add more with add_param_group({...})")
        for group in self.param_groups:
            self._check_group(group)
        for block in self._blocks:
            for name in set(self.state_names(block.group)) - block.state.keys():
                raise OptionError(
                    f"{type(self).__name__}: the settings of a group now need a {name}, which was not kept so far\n"
                    "  make a new optimiser with these settings"
                )

    def _check_group(self, group: Group) -> None:
        known = {*self._defaults, "params"}
        for name in sorted(group.keys() ^ known):
            what = "unknown" if name in group else "missing"
            raise OptionError(f"{what} setting {name!r} in a group\n  known are {', '.join(self._defaults)}")
        _check_learning_rate(group["lr"])
        check_number("weight_decay", group["weight_decay"], 0.0, math.inf)
        self.check_settings(group)
        for name, value in group.items():
            if isinstance(value, np.generic):  # it would draw the arithmetic to its own dtype
                group[name] = value.item()
        group["lr"] = float(group["lr"])

    # --- what a subclass says --------------------------------------------------------------------------------------

    def state_names(self, group: Group) -> Sequence[str]:
        """Names of the arrays, each of a parameter's shape, that are kept from step to step."""
        return ()

    def check_settings(self, group: Group) -> None:
        """Raise OptionError for settings, other than "lr" and "weight_decay", that cannot be."""

    def update(self, group: Group, step: int, p: Array, g: Array, state: dict[str, Array], scratch: Array) -> None:
        """Change `p` and `state` in place by one step.

        Args:
            group: the settings.
            step: number of the step, from 1.
            p, g: values and gradients, flat and of one dtype; `g` may be overwritten.
            state: arrays of the same length by name.
            scratch: memory of the same length.
        """
        raise NotImplementedError

    # --- stepping --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Move every parameter that has a gradient by one step.

        Raises:
            NotFiniteError: a gradient holds a NaN or an infinity; parameters and state are as before.
            ShapeError, DtypeError: a gradient was set by hand in another shape or is no floating array, or a parameter
                has been converted to another dtype since.
            OptionError: a setting was changed to what cannot be, or the groups hold other parameters than before.
        """
        self._check_groups()
        for block in self._blocks:
            block.adopt()
            block.gather()
        for block in self._blocks:
            for start, stop, taken in block.runs():
                for low in range(start, stop, CHUNK):
                    here = slice(low, min(low + CHUNK, stop))
                    state = {name: values[here] for name, values in block.state.items()}
                    values, g = block.values[here], block.gradients[here]
                    p = values.astype(block.working, copy=False)
                    self.update(block.group, taken + 1, p, g, state, self._scratch[block.working][: len(p)])
                    if p is not values:
                        values[...] = p
            block.count_step()

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for block in self._blocks:
            for parameter in block.parameters:
                parameter.zero_grad()

    def set_lr(self, lr: float) -> None:
        """Give every group this learning rate; groups with rates of their own are set through `param_groups`."""
        _check_learning_rate(lr)
        for group in self.param_groups:
            group["lr"] = lr

    # --- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Array]:
        """Copies of all that the next step depends on, besides the parameters: flat, ready for `serialize.save`.

        Returns:
            Arrays by name, such as "3.first_moment" and "3.step" for the fourth parameter, "group.0.lr" for a setting.
        """
        state: dict[str, Array] = {}
        for number, group in enumerate(self.param_groups):
            state[f"group.{number}.count"] = np.array(len(group["params"]))
            state.update({f"group.{number}.{name}": _as_array(group[name]) for name in group if name != "params"})
        return {**state, **{name: np.array(values) for name, values in self._arrays().items()}}

    def _arrays(self) -> dict[str, Array]:
        """Per-parameter state by name, as views; the step counts as fresh arrays."""
        found: dict[str, Array] = {}
        for block in self._blocks:
            views = {name: block.views(flat) for name, flat in block.state.items()}
            for index, position in enumerate(block.positions):
                found[f"{position}.step"] = np.array(block.steps[index])
                found.update({f"{position}.{name}": view[index] for name, view in views.items()})
        return found

    def load_state_dict(self, state: Mapping[str, ArrayLike]) -> None:
        """Go on exactly where `state_dict` was taken, settings included: all of it, or nothing if it does not fit.

        Raises:
            CheckpointError: the state belongs to another optimiser, other groups or other shapes.
            DtypeError: `state` is no mapping.
        """
        given = {name: np.asarray(values) for name, values in as_mapping(state).items()}
        expected = self.state_dict()
        faults = [f"missing     {name}" for name in expected if name not in given]
        faults += [f"unexpected  {name}" for name in given if name not in expected]
        for name, own in expected.items():
            if name in given and (given[name].shape != own.shape or given[name].dtype != own.dtype):
                came = f"{given[name].shape} {given[name].dtype}"
                faults.append(f"other kind  {name}  expected {own.shape} {own.dtype}, given {came}")
            elif name.endswith(".count") and name in given and given[name] != own:
                faults.append(f"other size  {name}  expected {own}, given {given[name]}")
        if faults:
            more = f"\n    … and {len(faults) - 20} more" if len(faults) > 20 else ""
            raise CheckpointError(
                f"this state does not fit {type(self).__name__}; nothing was changed\n    "
                + "\n    ".join(faults[:20])
                + more
                + "\n  make the optimiser with the parameters and groups it was saved with"
            )
        for number, group in enumerate(self.param_groups):
            for name in group.keys() - {"params"}:
                setting = given[f"group.{number}.{name}"].tolist()
                group[name] = tuple(setting) if isinstance(setting, list) else setting
        for name, view in self._arrays().items():
            np.copyto(view, given[name])
        for block in self._blocks:
            block.steps = [int(given[f"{position}.step"]) for position in block.positions]

    def __deepcopy__(self, memo: dict[int, Any]) -> Optimizer:
        """A copy that trains copies of the parameters: the copied model's, if both are copied in one call."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        groups = [{**group, "params": copy.deepcopy(group["params"], memo)} for group in self.param_groups]
        copied._set_up(groups, dict(self._defaults))
        copied.load_state_dict(self.state_dict())
        return copied

    def __repr__(self) -> str:
        lines = [type(self).__name__]
        for group in self.param_groups:
            settings = ", ".join(f"{name}={value}" for name, value in group.items() if name != "params")
            lines.append(f"  {len(group['params'])} parameters: {settings}")
        return "\n".join(lines)


def _as_array(setting: Any) -> Array:
    """A switch as a boolean, numbers in double precision, so that they come back exactly."""
    return np.array(setting, dtype=bool if isinstance(setting, bool) else np.float64)


def _as_groups(params: Any, defaults: Group) -> list[Group]:
    """Groups with every setting filled in."""
    if isinstance(params, Tensor) or hasattr(params, "named_parameters"):
        raise DtypeError(
            "an optimiser takes several parameters\n"
            f"  given one {type(params).__name__}; write [tensor], or model.parameters()"
        )
    entries = list(params)
    if not any(isinstance(entry, Mapping) for entry in entries):
        entries = [{"params": entries}]
    groups = []
    for entry in entries:
        if not isinstance(entry, Mapping) or "params" not in entry:
            raise OptionError('every group must be a dict with "params"\n  a list holds tensors or groups, not both')
        members = [entry["params"]] if isinstance(entry["params"], Tensor) else list(entry["params"])
        groups.append({**defaults, **entry, "params": members})
    if not any(group["params"] for group in groups):
        raise OptionError(
            "an optimiser needs at least one parameter\n"
            "  given none: is the model empty, or was its generator of parameters used up before?"
        )
    return groups


def _checked_members(groups: list[Group]) -> list[list[tuple[int, Tensor]]]:
    """The parameters of each group with their positions, after looking that each is a leaf and occurs once."""
    seen: set[int] = set()
    members: list[list[tuple[int, Tensor]]] = []
    for group in groups:
        members.append([])
        for parameter in group["params"]:
            if not isinstance(parameter, Tensor):
                raise DtypeError(f"an optimiser changes Tensors\n  given {type(parameter).__name__}")
            label = label_of(parameter, len(seen))
            if not parameter.is_leaf:
                raise DtypeError(f"{label} was computed and cannot be trained\n  pass what it was computed from")
            if parameter.dtype.kind != "f":
                hint = "; train its real and imaginary part" if parameter.dtype.kind == "c" else ""
                raise DtypeError(
                    f"{label} cannot be trained\n  expected a floating dtype, given {parameter.dtype}{hint}"
                )
            if id(parameter) in seen:
                raise OptionError(f"{label} is given twice\n  every parameter belongs in exactly one group, once")
            members[-1].append((len(seen), parameter))
            seen.add(id(parameter))
    return members


def _check_learning_rate(lr: Any) -> None:
    check_number("lr", lr, 0.0, math.inf)


def check_number(name: str, value: Any, low: float, high: float) -> None:
    """Raise unless `value` is a number in [low, high)."""
    if not is_number(value) or not low <= value < high:
        raise OptionError(f"{name} must be a number in [{low:g}, {high:g})\n  given {value!r}")
