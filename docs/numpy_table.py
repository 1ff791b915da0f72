"""Writes docs/numpy.md, the NumPy functions that accept a Tensor: `python docs/numpy_table.py`."""

from __future__ import annotations

import operator
from pathlib import Path

import tinygrad_attn as ta
from tinygrad_attn.ops.plain import PLAIN_FUNCTIONS
from tinygrad_attn.registry import IMPLEMENTATIONS, REFUSED, numpy_name

HERE = Path(__file__).resolve().parent

HEAD = """# NumPy functions that accept a Tensor

Called with a Tensor among their arguments, these functions record what they do, and its gradient is known. The list is
made from the registry by `python docs/numpy_table.py`; a test compares the two. Any other NumPy function raises an
`UnsupportedFunctionError` that names the nearest one in this list; `np.f(tensor.numpy())` gives plain values.

Operators (`a @ b`, `2 ** t`, `t[1:]`) and methods (`t.sum(axis=0)`) are these functions in another spelling.

NumPy hands a call over to a Tensor only if the Tensor is an argument, or stands directly in the list of arrays that
functions such as `np.stack` take. Inside other lists, as in `np.sum([t, u])` or `np.array([t, u])`, NumPy reads the
plain values and no gradient is recorded: write `np.sum(np.stack([t, u]))`. So does `np.ma`: `masked * t` has no
gradient, and `t * masked` is refused.

Arguments are NumPy's: `where=`, `initial=`, `dtype=` of the reductions, and whatever else has a gradient; what has none
is refused by name. Of the elementwise functions, `reduce` and `accumulate` are known for `np.add`, `np.multiply`,
`np.maximum` and `np.minimum` (`np.logaddexp` has `reduce`), and `outer` for all of two arguments.

| function | gradient |
|---|---|
"""

WRITTEN_WITH_OTHERS = """
Written with the functions above, whose gradients are then theirs:

"""

PLAIN = """
Their derivative is zero wherever there is one, so they answer with plain values and record nothing:

"""


IN_PLACE = """
They write into an array, which a recorded graph cannot follow; they raise an `InPlaceError` that says what to use:

"""

COMPLEX = """
These take complex numbers ([complex.md](complex.md)) or make them, and so does what is written with them:

"""


def page() -> str:
    """The text of docs/numpy.md."""
    named = {numpy_name(f): g for f, g in IMPLEMENTATIONS.items() if f is not operator.getitem}
    named = {name: g for name, g in named.items() if not name.startswith("scipy.")}
    plain = {numpy_name(function) for function in PLAIN_FUNCTIONS}
    rules = {name: f for name, f in named.items() if isinstance(f, ta.Operation)}
    rows = [f"| `{name}` | {gradients_of(f)} |" for name, f in sorted(rules.items())]
    refused = {numpy_name(function) for function in REFUSED}
    composed = sorted(set(named) - set(rules) - plain - refused)
    return "".join(
        [
            *(HEAD, "\n".join(rows), "\n"),
            *(WRITTEN_WITH_OTHERS, listed(composed)),
            *(PLAIN, listed(sorted(plain))),
            *(IN_PLACE, listed(sorted(refused))),
            *(COMPLEX, listed(sorted(name for name, operation in rules.items() if operation.complex))),
        ]
    )


def gradients_of(operation: ta.Operation) -> str:
    """The rules of an operation in mathematical notation, safe inside a table."""
    formulas = dict.fromkeys(operation.formulas.values())
    return "; ".join(f"{formula}" for formula in formulas).replace("|", "\\|") or "none"


def listed(names: list[str]) -> str:
    """Names with commas between them, in lines of at most 120 characters."""
    lines = [""]
    for name in names:
        part = f"`{name}`, "
        if len(lines[-1]) + len(part) > 120:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines).rstrip(",") + ".\n"


if __name__ == "__main__":
    (HERE / "numpy.md").write_text(page(), encoding="utf-8")
