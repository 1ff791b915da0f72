"""The file a reader writes in: made with the formula and empty rules, and read again."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinygrad_attn.errors import OptionError
from transformer.lessons.exercises.check import _line_in
from transformer.lessons.exercises.exercise import Exercise

TEMPLATE = '''\
"""Your turn: {title}.

{task}

Each function below gets g = ∂L/∂out, the result `out` and the inputs of
`{name}`, all NumPy arrays, and returns the gradient of one input, in
the shape of that input. Replace the dots, then run

    {command}
"""

import numpy as np


{forward}{rules}'''

RULE = '''

def d_{parameter}(g, out, {inputs}):
    """∂L/∂{parameter}."""
    return ...
'''


def starter(exercise: Exercise, command: str) -> str:
    """The text of a fresh file.

    Args:
        exercise: what is asked.
        command: how the reader has it checked.
    """
    source = re.sub(r": Any\b| -> Any\b", "", inspect.getsource(exercise.forward))
    inputs = ", ".join(exercise.parameters)
    return TEMPLATE.format(
        title=exercise.title,
        task=textwrap.fill(exercise.task, 78),
        name=exercise.name,
        command=command,
        forward=source,
        rules="".join(RULE.format(parameter=parameter, inputs=inputs) for parameter in exercise.formulas),
    )


def read_rules(exercise: Exercise, file: Path) -> Mapping[str, Any]:
    """The rules of a reader's file, by the input whose gradient they are.

    Raises:
        OptionError: the file cannot be run, or a function is missing; says where.
        OSError: the file cannot be read.
    """
    file.read_bytes()  # an OSError now is about the file, and not raised by what it does
    folder = str(file.parent.resolve())
    if folder not in sys.path:
        sys.path.append(folder)  # a file may use what its neighbours have; last, so that it hides nothing
    try:
        names = runpy.run_path(str(file))
    except SyntaxError as error:
        place = f"{file}, line {error.lineno}" if error.lineno else str(file)
        raise OptionError(f"{place}: {error.msg}") from error
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt(_line_in(str(file), stopped)) from stopped
    except (Exception, SystemExit) as error:
        where = _line_in(str(file), error)
        raise OptionError(f"{file}: {type(error).__name__}: {error}" + (f" ({where})" if where else "")) from error
    missing = [f"d_{name}" for name in exercise.formulas if not callable(names.get(f"d_{name}"))]
    if missing:
        raise OptionError(f"{file}: the function {missing[0]}(g, out, {', '.join(exercise.parameters)}) is missing")
    return {name: names[f"d_{name}"] for name in exercise.formulas}
