"""Mutants: one small change each in the code of a function, made by the operators of cosmic-ray and two of our own.

Changed are bodies and defaults of functions; left alone are annotations, docstrings, the words of errors (though not
the conditions under which they are raised) and the functions that draw inputs for tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

from tests.mutation.functions import ROOT, covers, defaults, outermost_functions, untouched

# Bits of floating numbers and identities of arrays would be killed by a TypeError, or by nothing that means anything.
ARITHMETIC = "Add|Sub|Mul|Div|FloorDiv|Mod|Pow"
ORDER = "Eq|NotEq|Lt|LtE|Gt|GtE"
CHOSEN = re.compile(
    rf"ReplaceBinaryOperator_(({ARITHMETIC})_({ARITHMETIC})|Bit(Or|And)_Bit(Or|And|Xor))"
    rf"|ReplaceComparisonOperator_(({ORDER})_({ORDER})|Is(Not)?_Is(Not)?)"
    r"|ReplaceUnaryOperator_(USub_UAdd|Delete_(USub|Invert|Not))"
    r"|AddNot|Replace(TrueWithFalse|FalseWithTrue|AndWithOr|OrWithAnd|BreakWithContinue|ContinueWithBreak)"
    r"|NumberReplacer|ZeroIterationForLoop"
)

# Formulas call functions where other programs have operators.
SIBLINGS = {
    **{"greater": "greater_equal", "greater_equal": "greater", "less": "less_equal", "less_equal": "less"},
    **{"equal": "not_equal", "not_equal": "equal", "logical_and": "logical_or", "logical_or": "logical_and"},
    **{"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "any": "all", "all": "any"},
    **{"sin": "cos", "cos": "sin", "sinh": "cosh", "cosh": "sinh", "exp": "expm1", "expm1": "exp"},
    **{"log": "log1p", "log1p": "log", "sqrt": "cbrt", "square": "abs", "abs": "positive", "sign": "ones_like"},
    **{"sum": "mean", "mean": "sum", "prod": "sum", "cumsum": "cumprod", "cumprod": "cumsum", "add": "subtract"},
    **{"subtract": "add", "multiply": "divide", "divide": "multiply", "zeros_like": "ones_like"},
    **{"ones_like": "zeros_like", "zeros": "ones", "ones": "zeros", "tril": "triu", "triu": "tril"},
    **{"sigmoid": "tanh", "tanh": "sin", "floor": "ceil", "trunc": "floor", "isfinite": "isinf"},
}


class SwapFunction(Operator):  # type: ignore[misc]
    """Calls a neighbour of a NumPy function: `np.greater` for `np.greater_equal`."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """The names of functions that have a neighbour, where they are called or handed on."""
        if node.type == "name" and node.value in SIBLINGS and node.get_previous_leaf().value == ".":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The name of the neighbour."""
        node.value = SIBLINGS[node.value]
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """None: the tests of cosmic-ray do not know this operator."""
        return ()


class DropMethod(Operator):  # type: ignore[misc]
    """Leaves out a conversion or a copy: `x` for `x.astype(dtype)`."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """The dots before the methods that are left out."""
        if node.type == "trailer" and node.get_code() in (".astype", ".copy"):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Nothing: the method and its arguments are taken out of the expression."""
        following = node.parent.children[node.parent.children.index(node) + 1]
        following.children = []
        return parso.parse("")

    examples = SwapFunction.examples


OPERATORS: dict[str, Any] = {
    name: get_operator(name) for name in operator_names() if CHOSEN.fullmatch(name.partition("/")[2])
} | {"SwapFunction": SwapFunction, "DropMethod": DropMethod}


@dataclass(frozen=True)
class Mutant:
    """The `occurrence`-th place in a file where an operator applies, and the function it lies in."""

    path: str
    function: str
    line: int
    operator: str
    occurrence: int

    def source(self) -> str:
        """The changed file."""
        original = (ROOT / self.path).read_text("utf-8")
        return mutate_code(original, OPERATORS[self.operator](), self.occurrence) or original

    def lines(self) -> tuple[str, str]:
        """The line before and after the change, without indentation and comment."""
        both = (ROOT / self.path).read_text("utf-8"), self.source()
        before, after = (source.splitlines()[self.line - 1].partition("  # ")[0].split() for source in both)
        return " ".join(before), " ".join(after)


def mutants(path: str) -> list[Mutant]:
    """All mutants of a file, in a fixed order."""
    source = (ROOT / path).read_text("utf-8")
    lines, nodes, found = source.splitlines(), list(ast_nodes(get_ast(source))), []
    functions = list(outermost_functions(ast.parse(source)))
    for name, operator in OPERATORS.items():
        positions = (position for node in nodes for position in operator().mutation_positions(node))
        for occurrence, ((line, column), _) in enumerate(positions):
            place = line, len(lines[line - 1][:column].encode())  # ast counts bytes
            for function, node in functions:
                inside = any(covers(part, place) for part in (*node.body, *defaults(node)))
                if inside and not any(covers(part, place) for part in untouched(node)):
                    found.append(Mutant(path, function, line, name, occurrence))
    return found
