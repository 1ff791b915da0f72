"""docs/peers.md: nothing that a peer differentiates is left off it, and every name on our side exists."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.conftest import require
from tinygrad_attn.registry import IMPLEMENTATIONS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def table() -> ModuleType:
    """docs/peers_table.py as a module."""
    specification = importlib.util.spec_from_file_location("peers_table", DOCS / "peers_table.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


PEERS = table()


def named_in(rows: dict[str, str]) -> set[str]:
    """The names of a peer's functions in a column, such as `scipy.special.jn`."""
    found = set()
    for cell in rows:
        last = ""  # "nnet.activations.elu, relu" stands for nnet.activations.relu too
        for name in re.findall(r"[A-Za-z_][\w.]*", re.sub(r"\(.*?\)", "", cell)):
            full = name if "." in name else last + name
            last = full.rpartition(".")[0] + "." if "." in full else ""
            found.add(full)
    return found


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_is_what_the_table_writes() -> None:
    """If this fails, run `python docs/peers_table.py`."""
    assert (DOCS / "peers.md").read_text(encoding="utf-8") == PEERS.page()


TABLES = {name: rows for name, rows in vars(PEERS).items() if isinstance(rows, dict) and name.isupper()}
HERE = sorted(
    {
        name
        for rows in TABLES.values()
        for cell in rows.values()
        for name in re.findall(r"\b(?:np|ta|tas)\.[\w.]*\w", cell)
    }
    | {f"np.{name}" for name in {*PEERS.HIPS_SAME, *PEERS.MYGRAD_SAME}}
)


@pytest.mark.parametrize("name", HERE)
def test_a_name_on_our_side_exists_and_takes_tensors(name: str) -> None:
    root, *path = name.split(".")
    found: Any = {"np": lambda: np, "ta": lambda: ta, "tas": lambda: require("tinygrad_attn.scipy")}[root]()
    for part in path:
        found = getattr(found, part)
    if root == "np" and name not in {"np.eye", "np.astype"} and name.removeprefix("np.") not in PEERS.NOT_YET:
        assert found in IMPLEMENTATIONS, f"{name} takes no Tensor"


# --- nothing is left out ---------------------------------------------------------------------------------------------

# What autograd makes of lists, indices and adjoints behind the functions that people call.
HIPS_INTERNAL = PEERS.words("""
    sparse_add add mut_add inner_prod covector scalar_mul container_take container_untake sequence_extend_right
    sequence_extend_left make_sequence _make_dict dot_adjoint_0 dot_adjoint_1 tensordot_adjoint_0
    tensordot_adjoint_1 _array_from_scalar_or_array __getitem__ untake mean var std
""")
HIPS_ALIASES = {
    "numpy._original_where": "numpy.where",
    "numpy.concatenate_args": "numpy.concatenate",
    "numpy.array_from_args": "numpy.array",
    "numpy.linalg._primitive_norm": "numpy.linalg.norm",
    "numpy.fft.truncate_pad": "numpy.fft.fft",
}


def autograd_names() -> dict[Any, set[str]]:
    """Every function of autograd's that has a rule, and the names that it goes by."""
    autograd = require("autograd")
    require("scipy")
    core = importlib.import_module("autograd.core")
    folders = ["numpy", "numpy.linalg", "numpy.fft", "scipy.special", "scipy.linalg", "scipy.signal", "scipy.integrate"]
    stats = importlib.import_module("autograd.scipy.stats")
    folders += [f"scipy.stats.{module.name}" for module in pkgutil.iter_modules(stats.__path__)]
    assert autograd
    names: dict[Any, set[str]] = {function: set() for function in core.primitive_vjps}
    for folder in folders:
        for name, member in vars(importlib.import_module(f"autograd.{folder}")).items():
            if callable(member) and not isinstance(member, type) and member in names:
                names[member].add(f"{folder}.{name}")
    return names


def test_every_function_that_autograd_has_a_rule_for_is_on_the_page() -> None:
    listed = {f"numpy.{name}" for name in PEERS.HIPS_SAME} | named_in(PEERS.HIPS_OTHER) | named_in(PEERS.HIPS_SCIPY)
    missing = []
    for function, names in autograd_names().items():
        known = {HIPS_ALIASES.get(name, name) for name in names}
        if not names and function.__name__ not in HIPS_INTERNAL:
            missing.append(function.__name__)
        elif names and not known & listed:
            missing.append(sorted(names)[0])
    assert missing == []


def test_what_autograd_takes_for_flat_takes_a_tensor_here_too() -> None:
    require("autograd.numpy")
    core, tracer = importlib.import_module("autograd.core"), importlib.import_module("autograd.tracer")
    flat = {function.__name__ for function in tracer.notrace_primitives[core.VJPNode]}
    assert {"floor", "argsort", "isnan"} <= flat
    refused = {name for name in flat if getattr(np, name) not in IMPLEMENTATIONS} - set(PEERS.NOT_YET)
    assert refused == {"isscalar"}  # NumPy hands it over to nobody


def test_every_transform_of_autograd_is_on_the_page() -> None:
    operators = importlib.import_module("autograd.differential_operators") if require("autograd") else None
    offered = {
        name
        for name, member in vars(operators).items()
        if callable(member) and not name.startswith("_") and getattr(member, "__module__", "") == operators.__name__
    } | {"grad", "jacobian", "hessian", "elementwise_grad", "value_and_grad", "checkpoint", "make_hvp", "make_jvp"}
    assert offered - named_in(PEERS.HIPS_OPERATORS) - set(PEERS.NOT_YET) - {"unary_to_nary"} == set()


# No functions, or functions without a slope: names of types, constants, comparisons, and what switches MyGrad itself.
MYGRAD_PLAIN = PEERS.words("""
    Tensor allclose any arange argmax argmin asarray astensor bincount can_cast ceil copyto divmod empty
    empty_like equal execute_op eye floor floor_divide full full_like geomspace greater greater_equal identity
    isclose isfinite isinf isnan isnat less less_equal linspace load logical_and logical_not logical_or
    logical_xor logspace may_share_memory min_scalar_type no_autodiff not_equal ones ones_like result_type rint
    save shape shares_memory sign signbit tensor trunc turn_memory_guarding_off turn_memory_guarding_on ufunc
    zeros zeros_like fmod mod remainder mem_guard_off mem_guard_on mem_guard_active
""")


def test_every_function_of_mygrad_is_on_the_page() -> None:
    mygrad = require("mygrad")
    offered = {
        name
        for name in dir(mygrad)
        if callable(getattr(mygrad, name)) and not name.startswith("_") and not isinstance(getattr(mygrad, name), type)
    }
    for folder in ("activations", "losses", "layers"):
        module = importlib.import_module(f"mygrad.nnet.{folder}")
        offered |= {f"nnet.{folder}.{name}" for name in module.__all__}
    offered |= {f"linalg.{name}" for name in importlib.import_module("mygrad.linalg.funcs").__all__}
    listed = set(PEERS.MYGRAD_SAME) | named_in(PEERS.MYGRAD_OTHER)
    assert offered - listed - set(MYGRAD_PLAIN) - {"linalg.einsum"} == set()
