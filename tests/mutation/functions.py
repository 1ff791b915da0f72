"""The functions of a file: in its source, and as they live once it is imported, where their code can be replaced."""

from __future__ import annotations

import ast
import functools
import gc
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tinygrad_attn import OPERATIONS
from tinygrad_attn.signature import Signature

ROOT = Path(__file__).resolve().parents[2]
Key = tuple[str, int]  # name and first line of a function

# --- in the source ---------------------------------------------------------------------------------------------------


def outermost_functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods with their names, but for those that draw inputs."""
    for home in ast.walk(tree):
        if isinstance(home, (ast.Module, ast.ClassDef)):
            for node in home.body:
                if isinstance(node, ast.FunctionDef) and all(arg.arg != "choose" for arg in node.args.args):
                    name = f"{home.name}.{node.name}" if isinstance(home, ast.ClassDef) else node.name
                    if name == "_":  # a gradient rule is known by what it is the rule of
                        name = ast.unparse(node.decorator_list[0]).partition(", formula")[0].rstrip(")") + ")"
                    yield name, node


def defaults(function: ast.FunctionDef) -> list[ast.expr]:
    """What parameters are if they are not given."""
    return [*function.args.defaults, *(default for default in function.args.kw_defaults if default is not None)]


def untouched(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Annotations, errors with their words, and what only guards against mistakes of ours, as zip(strict=True)."""
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign):
            yield node.annotation
        elif isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            yield node


def covers(node: Any, place: tuple[int, int]) -> bool:
    """Whether a place lies inside a part of the source."""
    return (node.lineno, node.col_offset) <= place < (node.end_lineno, node.end_col_offset)


# --- alive -----------------------------------------------------------------------------------------------------------


def replace_code(path: str, source: str | ast.Module) -> None:
    """Give the live functions of a file the code and the defaults that they have in `source`."""
    file, tree = str(ROOT / path), ast.parse(source) if isinstance(source, str) else source
    codes = {(code.co_name, code.co_firstlineno): code for code in inner_codes(compile(tree, file, "exec"))}
    new_defaults = dict(changed_defaults(path, tree))
    operations = {operation.forward: operation for operation in OPERATIONS.values()}
    for function in live_functions(path):
        key = function.__code__.co_name, function.__code__.co_firstlineno
        if key in codes:
            function.__code__ = codes[key]
            if key in new_defaults:
                function.__defaults__, function.__kwdefaults__ = new_defaults[key]
                if operation := operations.get(function):
                    signature = Signature(function, sequence=operation.sequence)
                    operation.bind, operation.options = signature.bind, signature.options


@functools.cache
def live_functions(path: str) -> list[types.FunctionType]:
    """All functions that have come from a file so far."""
    functions = [found for found in gc.get_objects() if type(found) is types.FunctionType]
    return [function for function in functions if function.__code__.co_filename == str(ROOT / path)]


def inner_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of all functions in a program."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from inner_codes(constant)


def changed_defaults(path: str, tree: ast.Module) -> Iterator[tuple[Key, tuple[Any, Any]]]:
    """The defaults of the functions that have others in `tree` than in the file."""
    names = vars(module_of(path))
    original = ast.parse((ROOT / path).read_text("utf-8"))
    for (_, before), (_, after) in zip(outermost_functions(original), outermost_functions(tree), strict=True):
        if ast.dump(before.args) != ast.dump(after.args):
            first = min([after.lineno, *(decorator.lineno for decorator in after.decorator_list)])
            values = [eval(ast.unparse(default), names) for default in after.args.defaults]
            by_name = {
                argument.arg: eval(ast.unparse(default), names)
                for argument, default in zip(after.args.kwonlyargs, after.args.kw_defaults, strict=True)
                if default is not None
            }
            yield (after.name, first), (tuple(values) or None, by_name or None)


def module_of(path: str) -> types.ModuleType:
    """The imported module of a file."""
    return next(found for found in list(sys.modules.values()) if getattr(found, "__file__", None) == str(ROOT / path))


def trace_functions(path: str, reached: Callable[[str], None]) -> None:
    """Let every function of a file say "path:function" when it is entered."""
    vars(module_of(path))["_reached"] = reached
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    for name, node in outermost_functions(tree):
        call = ast.parse(f"_reached({f'{path}:{name}'!r})").body[0]
        node.body.insert(0, ast.fix_missing_locations(call))
    replace_code(path, tree)
