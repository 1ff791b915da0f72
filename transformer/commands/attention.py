"""`tinygrad-attn attention`: where the heads of a published model look, while it reads a sentence."""

from __future__ import annotations

import importlib.util
from argparse import Namespace
from pathlib import Path

from tinygrad_attn.errors import MissingExtraError, OptionError
from transformer.lessons.looking import heads_picture, read, where_it_looks
from transformer.lessons.publish import check_parent
from transformer.pretrained import load_pretrained
from transformer.threads import one_blas_thread

SUFFIXES = (".svg", ".png", ".pdf")


def run(arguments: Namespace) -> int:
    """Reads the text once, says where a word looks, and draws one layer."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("attention maps need matplotlib: python -m pip install 'tinygrad-attn[plot]'")
    out: Path = arguments.out
    if out.suffix.lower() not in SUFFIXES:
        raise OptionError(f"--out: expected a file name ending in {', '.join(SUFFIXES)}; got {out.name!r}")
    check_parent(out)
    with one_blas_thread():
        reading = read(load_pretrained(arguments.model), arguments.text)
    layers, heads = reading.weights.shape[:2]
    layer = layers if arguments.layer is None else _checked("--layer", arguments.layer, layers)
    head = None if arguments.head is None else _checked("--head", arguments.head, heads)
    if arguments.word is not None:
        print(f"{where_it_looks(reading, arguments.word)}\n")
    heads_picture(reading, layer, head).save(out)
    print(f"wrote {out}: layer {layer} of {layers}, {'all its heads' if head is None else f'head {head} of {heads}'}")
    return 0


def _checked(option: str, given: int, count: int) -> int:
    if given > count:
        raise OptionError(f"{option} {given}: this model has {count}")
    return given
