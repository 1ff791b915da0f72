"""`tinygrad-attn backward`: the backward pass through one attention head, one step at a time."""

from __future__ import annotations

import shutil
from argparse import Namespace

from transformer.lessons.attention_head import EXAMPLES
from transformer.lessons.pictures import attention_head_replay
from transformer.lessons.publish import check_parent


def run(arguments: Namespace) -> int:
    """Prints the steps, or writes them into a file."""
    if arguments.out is not None:
        check_parent(arguments.out)
    steps = attention_head_replay(arguments.example)
    if arguments.out is not None:
        steps.save(arguments.out)
        print(f"{EXAMPLES[arguments.example].summary}: {len(steps)} steps back\nwrote {arguments.out}")
        return 0
    print(f"{EXAMPLES[arguments.example].summary}\n")
    print(steps.text(max(40, min(80, shutil.get_terminal_size().columns))))
    return 0
