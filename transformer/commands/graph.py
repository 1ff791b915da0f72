"""`tinygrad-attn graph`: the computation graph of one attention head, drawn, with its numbers in the terminal."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from tinygrad_attn.errors import OptionError
from transformer.lessons.attention_head import EXAMPLES, AttentionHead, pencil_rows
from transformer.lessons.pictures import attention_head_picture
from transformer.lessons.publish import check_parent
from transformer.lessons.terminal import table

SUFFIXES = (".svg", ".png", ".pdf", ".html", ".dot", ".gv")


def run(arguments: Namespace) -> int:
    """Draws an example into a file, or prints its DOT text."""
    name = arguments.example
    target = Path(f"{name}.svg") if arguments.out is None else Path(arguments.out)
    if arguments.out != "-" and target.suffix.lower() not in SUFFIXES:
        raise OptionError(f"--out: expected a file name ending in {', '.join(SUFFIXES)}; got {target.name!r}")
    if arguments.out != "-":
        check_parent(target)
    head = EXAMPLES[name].run()
    figure = attention_head_picture(name, head)
    if arguments.out == "-":
        print(figure.dot, end="")
        return 0
    figure.save(target)
    print(f"{EXAMPLES[name].summary}\nL = {_element(head)}\n")
    print(table(["", "value", "gradient of L"], _rows(head)))
    print(f"\nlargest difference from the numerical derivatives: {head.largest_error:.0e}")
    print(f"wrote {target}")
    return 0


def _element(head: AttentionHead) -> str:
    (row, column) = next(zip(*head.gradients["O"].nonzero(), strict=True))
    return f"O[{row}, {column}]"


def _rows(head: AttentionHead) -> list[list[str]]:
    return [
        [name, _matrix(tensor.numpy()), _matrix(head.gradients[name])]
        for name, tensor in head.tensors.items()
        if name not in ("Kᵀ", "QKᵀ")
    ]


def _matrix(values: object) -> str:
    return "  ".join(f"[{', '.join(row)}]" for row in pencil_rows(values))
