"""`tinygrad-attn gradcheck`: every rule against the numerical derivative, a line for each operation."""

from __future__ import annotations

import difflib
from argparse import Namespace

import tinygrad_attn as ta
from tinygrad_attn.errors import OptionError
from tinygrad_attn.gradcheck import check_operation
from transformer.lessons.terminal import fit

FAILED = 1


def run(arguments: Namespace) -> int:
    """Checks the operations that were named, or all that say what can be drawn for them."""
    for name in arguments.operations:
        if name not in ta.OPERATIONS:
            near = difflib.get_close_matches(name, ta.OPERATIONS, n=3)
            raise OptionError(
                f"there is no operation {name!r}\n"
                + (f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(sorted(ta.OPERATIONS))}")
            )
    every = [name for name, operation in sorted(ta.OPERATIONS.items()) if operation.domain is not None]
    failed = []
    for name in arguments.operations or every:
        check = check_operation(ta.OPERATIONS[name], seed=arguments.seed)
        print(fit(str(check)), flush=True)
        if not check.passed:
            failed.append(name)
            if len(arguments.operations) == 1:
                print(f"\n{check.failure}")
    if failed:
        print(f"\n{len(failed)} of {len(arguments.operations or every)} disagree: {', '.join(failed)}")
        return FAILED
    if len(arguments.operations) != 1:
        print(f"\nall {len(arguments.operations or every)} agree with central differences, in first and second order")
    return 0
