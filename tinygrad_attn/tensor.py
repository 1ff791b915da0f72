"""Tensor: an array that remembers how it was made.

Operators and methods only look up the operation that stands behind the NumPy function of the same name; formulas and
gradient rules are in `ops/`, the backward sweep is in `graph.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tinygrad_attn import explain
from tinygrad_attn.errors import DtypeError, GradientError, InPlaceError, ShapeError, unmasked
from tinygrad_attn.graph import Node, is_tensor, sweep
from tinygrad_attn.methods import ArrayMethods
from tinygrad_attn.modes import MODES
from tinygrad_attn.mutation import Memory
from tinygrad_attn.outside import HookHandle, check_assigned, check_expects_gradient, where_to_start
from tinygrad_attn.registry import apply

Array = NDArray[Any]

_ADDING = threading.Lock()  # threads may run backward passes at once, through leaves that they share

_default_dtype: np.dtype[Any] = np.dtype(np.float32)


def set_default_dtype(dtype: DTypeLike) -> None:
    """Choose the floating dtype that Python numbers and lists become (float32 unless set)."""
    global _default_dtype
    chosen = np.dtype(dtype)
    if not np.issubdtype(chosen, np.floating):
        raise DtypeError(f"the default dtype must be floating\n  given {chosen}; use np.float32 or np.float64")
    _default_dtype = chosen


def get_default_dtype() -> np.dtype[Any]:
    """The floating dtype that Python numbers and lists become."""
    return _default_dtype


class Tensor(ArrayMethods):
    """An array, the operation that made it, and, for a leaf, the gradient that backward passes have added up.

    Args:
        data: array, number, nested list or Tensor; copied. Arrays keep their dtype. Python floats, alone or in lists,
            get the default precision, and so do complex numbers. Divergence from a rule "lists become the default
            dtype": integers and booleans stay as they are, like in NumPy: token ids and masks are written as lists too.
        dtype: dtype to convert to.
        requires_grad: whether backward passes should compute ∂L/∂self.
        name: shown in drawings and errors.
    Raises:
        DtypeError: objects or text, or `requires_grad` on integers or booleans.

    >>> x = Tensor([1.0, 2.0], requires_grad=True, name="x")
    >>> (x * x).sum().backward()
    >>> x.grad
    array([2., 4.], dtype=float32)
    """

    __slots__ = (
        "__weakref__",
        "_data",
        "_grad",
        "_memory",
        "hooks",
        "keeps_grad",
        "name",
        "node",
        "requires_grad",
    )

    def __init__(
        self,
        data: ArrayLike | Tensor,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
        name: str | None = None,
    ) -> None:
        if holds_tensor(data):
            raise DtypeError("a list of Tensors would lose their gradients here\n  use ta.stack or ta.concatenate")
        given = data._data if isinstance(data, Tensor) else unmasked(data)
        try:
            values = np.array(given, dtype=dtype, copy=True)
        except (ValueError, TypeError, OverflowError) as error:
            raise explain.no_array(dtype, error) from None
        from_python = not isinstance(data, (np.ndarray, np.generic, Tensor))
        if dtype is None and from_python and values.dtype in (np.float64, np.complex128):
            values = values.astype(_default_dtype if values.dtype.kind == "f" else np.result_type(_default_dtype, "c8"))
        self._start(values, None, requires_grad, name)
        self._check_dtype()

    def _start(self, data: Array, node: Node | None, requires_grad: bool, name: str | None = None) -> None:
        self._data = data
        self.node = node
        self.requires_grad = requires_grad
        self.name = name
        self._grad: Array | None = None
        self.keeps_grad = False
        self.hooks: tuple[HookHandle, ...] = ()
        self._memory: Memory | None = None  # None while nothing can change the values

    def _check_dtype(self) -> None:
        kind = self._data.dtype.kind
        if kind not in "fciub":
            raise DtypeError(f"a Tensor holds numbers or booleans\n  given dtype {self._data.dtype}")
        if self.requires_grad and kind not in "fc":
            raise DtypeError(
                f"requires_grad needs floating values: integers and booleans have no gradient\n"
                f"  given dtype {self._data.dtype}; write 1.0 for 1, or pass dtype=np.float32"
            )

    @classmethod
    def _made_by(cls, data: Array, node: Node | None) -> Tensor:
        """Wrap a result without copying it; cheap, since every operation ends here."""
        tensor = Tensor.__new__(Tensor)
        tensor._start(data, node, node is not None)
        return tensor

    @classmethod
    def from_numpy(cls, array: Array, *, requires_grad: bool = False, name: str | None = None) -> Tensor:
        """A Tensor that shares the memory of `array`.

        Changing the array between the forward and the backward pass is noticed and raises `MutatedError`.
        """
        if not isinstance(array, np.ndarray):
            raise DtypeError(f"from_numpy shares the memory of an array\n  given {type(array).__name__}; use Tensor(…)")
        tensor = Tensor._made_by(np.asarray(unmasked(array)), None)  # of np.matrix, say, the plain array
        tensor.name, tensor.requires_grad = name, requires_grad
        tensor._check_dtype()
        tensor._changeable().watch()
        return tensor

    @classmethod
    def from_own(cls, array: Array) -> Tensor:
        """A constant around an array that nobody else holds: neither copied nor watched for changes."""
        return Tensor._made_by(array, None)

    # --- what it holds ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis."""
        return self._data.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type; the gradient has the same."""
        return self._data.dtype

    @property
    def nbytes(self) -> int:
        """Bytes that the values take."""
        return self._data.nbytes

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it; only leaves keep `.grad` by themselves."""
        return self.node is None

    @property
    def data(self) -> Array:
        """The values themselves: writable for a leaf, so that `p.data -= rate * p.grad` is a step of descent.

        Writing between a forward and a backward pass that needs the old values raises `MutatedError` in the latter.
        """
        if self.node is not None:
            return self.numpy()
        if self._data.flags.writeable:
            self._changeable().watch()
        return self._data

    @data.setter
    def data(self, values: ArrayLike) -> None:
        if self.node is not None or not self._data.flags.writeable:
            raise InPlaceError(
                "only a leaf can be given new values\n  this one was computed; change what it was computed from"
            )
        new = np.asarray(values)
        if new.shape != self.shape:
            raise ShapeError(
                f"new values must have the shape of the old ones\n  expected {self.shape}, given {new.shape}"
            )
        if not np.can_cast(new.dtype, self.dtype, "same_kind"):
            raise DtypeError(f"new values must fit the dtype\n  expected {self.dtype}, given {new.dtype}")
        if new is not self._data:
            np.copyto(self._data, new, casting="same_kind")
        self.bump_version()

    @property
    def version(self) -> int:
        """How often the values have been changed in place; a recorded operation remembers it."""
        return 0 if self._memory is None else self._memory.version()

    def bump_version(self) -> None:
        """Say that the values were changed in place (optimisers do)."""
        self._changeable().changed()

    def move_to(self, array: Array) -> None:
        """Let a leaf's values live in `array`, which is overwritten with them (optimisers keep parameters together)."""
        np.copyto(array, self._data)
        self._data = array
        if self._memory is not None:
            self._memory.move_to(array)

    def _changeable(self) -> Memory:
        """The record of changes of the memory that holds the values."""
        if self._memory is None:
            self._memory = Memory(self._data)
        return self._memory

    def _share_memory(self, sources: Sequence[Any]) -> None:
        """Find the source that these values are a view of: what is changed there is changed here."""
        for source in sources:
            if isinstance(source, Tensor) and np.may_share_memory(self._data, source._data):
                if source.node is None:
                    self._memory = source._changeable()
                elif source._memory is not None:
                    self._memory = source._memory
                else:  # a recorded result that nobody may write to, so not through a view of it either
                    self._data = self.numpy()
                return

    def numpy(self) -> Array:
        """The plain values as a read-only view, without gradient."""
        view = self._data.view()
        view.flags.writeable = False
        return view

    def __repr__(self) -> str:
        values = np.array2string(self._data, separator=", ", prefix="Tensor(", threshold=60)
        notes = [] if self.name is None else [f"name={self.name!r}"]
        if self._data.dtype not in (np.float32, np.int64, np.bool_) or self.size == 0:
            notes.append(f"dtype={self.dtype}")
        if self.size == 0 or self.size > 60:
            notes.append(f"shape={self.shape}")
        if self.node is not None:
            notes.append(f"op={self.node.operation.name}")
        elif self.requires_grad:
            notes.append("requires_grad=True")
        return f"Tensor({', '.join([values, *notes])})"

    # --- gradients -------------------------------------------------------------------------------------------------

    @property
    def grad(self) -> Array | None:
        """What backward passes have added up: an array in this tensor's shape and dtype, or None before the first."""
        return self._grad

    @grad.setter
    def grad(self, gradient: Array | None) -> None:
        if gradient is not None and gradient is not self._grad:
            check_assigned(gradient, self)
            gradient = np.array(gradient)  # memory of its own, to be added to
        self._grad = gradient

    def backward(self, gradient: ArrayLike | None = None, *, retain_graph: bool = True) -> None:
        """Add ∂self/∂leaf, weighted with `gradient`, into `.grad` of every leaf behind this tensor.

        Args:
            gradient: ∂L/∂self, in the shape of self; may be left out when self holds one real number.
            retain_graph: keep the graph for drawing and for further passes, which add again (12, then 24); False frees
                it on the way and saves memory.
        Raises:
            GradientError: self does not require a gradient, or `gradient` is missing or of another shape.
            GraphFreedError: an earlier pass has freed the graph.
            MutatedError: values that a rule needs were changed after the forward pass.
        """
        keep_all = MODES.get().keep_grads
        passed = [
            (tensor, reached)
            for tensor, reached, _ in sweep([self], [self.seed_gradient(gradient)], free=not retain_graph)
            if tensor.node is None or tensor.keeps_grad or keep_all
        ]
        with _ADDING:  # only now, so that an error on the way leaves no half of the gradients behind
            for tensor, reached in passed:
                tensor.accumulate_grad(np.asarray(reached))

    def seed_gradient(self, gradient: ArrayLike | Tensor | None) -> Array:
        """Check `gradient` and give it this tensor's dtype; ones for a single element if it is None."""
        seed: Array = where_to_start(self, gradient)
        return seed

    def accumulate_grad(self, gradient: Array) -> None:
        """Add into `.grad`; the first time, into memory of its own."""
        if self._grad is None:
            self._grad = np.array(gradient, dtype=self.dtype, order="C", copy=True)
        else:
            self._grad += gradient

    def zero_grad(self) -> None:
        """Forget the gradient added up so far."""
        self.grad = None

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Switch the gradient of a leaf on or off; returns self."""
        if self.node is not None:
            raise GradientError("only a leaf can change requires_grad\n  use detach() to cut a computed tensor off")
        before, self.requires_grad = self.requires_grad, requires_grad
        try:
            self._check_dtype()
        except DtypeError:
            self.requires_grad = before
            raise
        return self

    def detach(self) -> Tensor:
        """The same values as a constant: shares memory, carries no gradient."""
        tensor = Tensor._made_by(self._data, None)
        tensor.name = self.name
        tensor._share_memory((self,))
        return tensor

    def retain_grad(self) -> Tensor:
        """Keep `.grad` of this tensor though it is no leaf; returns self.

        Raises:
            GradientError: it requires no gradient.
        """
        check_expects_gradient(self, "retain_grad")
        self.keeps_grad = True
        return self

    def register_hook(self, hook: Callable[[Any], Any]) -> HookHandle:
        """Call `hook(gradient)` with the complete gradient of this tensor; what it returns, unless None, replaces it.

        The gradient is an array that cannot be written to; while gradients are themselves recorded, it is a Tensor.

        Returns:
            A handle; calling it, its `remove`, or the end of a `with` block takes the hook away.
        Raises:
            ArgumentError: `hook` is no function.
            GradientError: this tensor requires no gradient; in the backward pass, if the hook returns another shape.
        """
        return HookHandle(self, hook)

    def _in_place(self, function: Callable[..., Any], other: Any) -> Tensor:
        """`self -= other` and the like: a new Tensor, or, for a leaf where nothing is recorded, new values for it."""
        if self.node is not None or not self.requires_grad:
            result: Tensor = apply(function, self, other)
            return result
        if MODES.get().record:
            raise InPlaceError(
                "a leaf that requires a gradient cannot be changed in place where that would be recorded\n"
                "  update parameters under no_grad(), or through .data: p.data -= rate * p.grad"
            )
        self.data = plain(apply(function, self, other))
        return self

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.ndim == 0 else super().__format__(spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self.node is not None:
            raise GradientError("only leaves can be copied\n  use tensor.detach() for the values alone")
        copied = type(self).__new__(type(self))
        copied._start(self._data.copy(), None, self.requires_grad, self.name)
        copied.grad = self.grad
        memo[id(self)] = copied
        return copied

    def __copy__(self) -> Tensor:
        return self.__deepcopy__({})

    def __reduce__(self) -> NoReturn:
        raise TypeError("Tensors are not pickled: a pickle can run code\n  use tinygrad_attn.serialize.save")


def plain(value: Any) -> Any:
    """The array behind a Tensor; anything else as it is."""
    return value._data if is_tensor(value) else value


def as_array(value: Any) -> Any:
    """A list of numbers as an array in the default dtype; anything else as it is.

    Raises:
        DtypeError: the list holds Tensors, whose gradients would be lost.
    """
    return Tensor(value)._data if isinstance(value, (list, tuple)) else value


def holds_tensor(data: Any) -> bool:
    """Whether a list, however nested, has a Tensor in it."""
    return isinstance(data, (list, tuple)) and any(isinstance(x, Tensor) or holds_tensor(x) for x in data)
