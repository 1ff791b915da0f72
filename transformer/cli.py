"""The command `tinygrad-attn`: what can be said to it, and what it says when something is wrong.

What each command does is in `transformer/commands/`, imported when the command is called: `--help` needs no extra.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import tinygrad_attn
from tinygrad_attn.errors import RenderError, TinygradAttnError

PROGRAM = "tinygrad-attn"
WRONG, INTERRUPTED = 2, 130

DESCRIPTION = """\
Attention and its gradients, from the first array to a trained Transformer.
Start with `tinygrad-attn lesson`."""

EXAMPLES = {
    "": """\
examples:
  tinygrad-attn lesson --open
  tinygrad-attn predict "Tuesday, December 1, 2026"
  tinygrad-attn graph self --out self.svg
  tinygrad-attn backward self --out backward.html
  tinygrad-attn gradcheck softmax attention

`tinygrad-attn COMMAND --help` says more about each command.""",
    "lesson": """\
examples:
  tinygrad-attn lesson
  tinygrad-attn lesson word --sentence "The fox turned back as it was tired"
  tinygrad-attn lesson dates --text "2026년 12월 1일 화요일" --lang ko

word       what does a word look at? Attention from "it", in lines and numbers
attention  from x to the weighted sum of values, one small matrix at a time
z          one vector per token, not one for the sentence, and why it matters
dates      encoder, decoder loop, cross-attention, and a head backwards
distance   like an RNN? What is left of a gradient that comes from afar
all        every chapter

DIR then holds index.html (the chapters; needs no network) and a page for each
chapter, such as word.html; word brings one_word.svg, too, distance
distance.svg, and dates backward.html, attention_head.svg, cross_attention.svg
and cross_attention.png. Files of these names are replaced only if a lesson
wrote them, or with --force. The model that reads dates is kept for
`tinygrad-attn predict`.""",
    "train": """\
examples:
  tinygrad-attn train
  tinygrad-attn train --task phrases --checkpoint phrases.safetensors
  tinygrad-attn train --resume

Ctrl-C keeps a checkpoint of the step it reached; --resume goes on from there
and gives the very same model as if nothing had happened. A model that is kept
already is replaced only with --overwrite.""",
    "predict": """\
examples:
  tinygrad-attn predict "1. Dezember 2026"
  tinygrad-attn predict --steps "mardi 1 décembre 2026"
  tinygrad-attn predict "나는 좋다" --checkpoint phrases.safetensors""",
    "graph": """\
examples:
  tinygrad-attn graph
  tinygrad-attn graph cross --out cross.png
  tinygrad-attn graph self --out - > self.dot

head   one query looks at two keys
self   self-attention of two tokens with a causal mask
cross  cross-attention: one decoder state looks at three encoder states

The folder of FILE must exist.""",
    "backward": """\
examples:
  tinygrad-attn backward
  tinygrad-attn backward self --out backward.html

The same examples as for `tinygrad-attn graph`. The folder of FILE must exist.""",
    "attention": """\
examples:
  tinygrad-attn attention "The animal was too tired." --model bert --word tired
  tinygrad-attn attention "I am good" --model gpt2 --layer 5 --out good.png

DIR is a folder with a published BERT or GPT-2: config.json, model.safetensors
and the vocabulary. Nothing is downloaded.""",
    "exercise": """\
examples:
  tinygrad-attn exercise
  tinygrad-attn exercise softmax

The first call writes DIR/NAME.py with the formula and an empty rule; from then
on the rule is tried on drawn inputs. What a rule prints, and a breakpoint() in
it, belong to the input that is shown. Exit code 1 means: not right yet.""",
    "gradcheck": """\
examples:
  tinygrad-attn gradcheck
  tinygrad-attn gradcheck softmax layer_norm attention

Exit code 1 means that a rule disagrees with the numerical derivative.""",
}


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help of at most 80 columns, with the examples as they were written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=min(80, shutil.get_terminal_size().columns))


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as every other error of the program is said."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Help, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise SystemExit(_complain(f"{message} (see {self.prog} --help)"))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: the arguments without the program's name; those of this process if None.
    Returns:
        The exit code: 0; 1 if a gradient check failed; 2 for anything that was wrong with what was asked; 130 after
        Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without UTF-8 shows "?" where it lacks a character
            stream.reconfigure(errors="replace")
    arguments = parser().parse_args(argv)
    try:
        command = importlib.import_module(f"transformer.commands.{arguments.command}")
        code = int(command.run(arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as stopped:
        return _complain(f"interrupted; {stopped}" if str(stopped) else "interrupted", INTERRUPTED)
    except BrokenPipeError:  # `… | head` has seen enough
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + getattr(signal, "SIGPIPE", 13)
    except RenderError as error:
        return _complain(_with_one_remedy(str(error)))
    except TinygradAttnError as error:
        return _complain(str(error))
    except MemoryError as error:
        return _complain(
            f"there is not enough memory for this: {error}" if str(error) else "there is not enough memory"
        )
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        return _complain(f"{place}{error.strerror or error}")


def parser() -> argparse.ArgumentParser:
    """The grammar of the command line."""
    top = _Parser(prog=PROGRAM, description=DESCRIPTION, epilog=EXAMPLES[""])
    top.add_argument("--version", action="version", version=f"{PROGRAM} {tinygrad_attn.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")

    lesson = _command(commands, "lesson", "train small models, watch what they look at, and write the lesson's pages")
    lesson.add_argument(
        "chapter",
        nargs="?",
        metavar="CHAPTER",
        choices=("word", "attention", "z", "dates", "distance", "all"),
        default="all",
        help="word, attention, z, dates, distance (%(default)s)",
    )
    lesson.add_argument("--out", metavar="DIR", type=_folder, default="lesson", help="folder to write (%(default)s)")
    lesson.add_argument("--force", action="store_true", help="write also over files that are not from a lesson")
    lesson.add_argument("--sentence", metavar="TEXT", help="what the chapter word reads, in English, with an “it”")
    lesson.add_argument("--text", metavar="DATE", help="what the chapter dates reads, in one of five languages (drawn)")
    lesson.add_argument("--lang", choices=("auto", "en", "ko"), default="auto", help="language the page opens in")
    lesson.add_argument("--open", action="store_true", help="open it in the browser")
    _training_options(lesson)

    train = _command(commands, "train", "train a small Transformer and keep it")
    train.add_argument("--task", choices=("dates", "copy", "phrases"), help="what to learn (dates)")
    standing = train.add_mutually_exclusive_group()
    standing.add_argument("--resume", action="store_true", help="go on with the training that the checkpoint holds")
    standing.add_argument("--overwrite", action="store_true", help="begin anew, in place of a model that was kept")
    _training_options(train, " (with --resume: the checkpoint's)")
    _checkpoint_option(train)

    predict = _command(commands, "predict", "let a trained model answer")
    predict.add_argument("text", metavar="TEXT", help="what the model reads, such as a date")
    predict.add_argument("--steps", action="store_true", help="show the decoder loop step by step")
    _checkpoint_option(predict)

    graph = _command(commands, "graph", "draw the computation graph of one attention head, with gradients")
    graph.add_argument("example", nargs="?", choices=("head", "self", "cross"), default="head", help="(%(default)s)")
    graph.add_argument(
        "--out", metavar="FILE", help="ends in .svg, .png, .pdf, .html or .dot; - for DOT text (EXAMPLE.svg)"
    )

    backward = _command(commands, "backward", "go back through an attention head, one step at a time")
    backward.add_argument("example", nargs="?", choices=("head", "self", "cross"), default="head", help="(%(default)s)")
    backward.add_argument(
        "--out", metavar="FILE", type=Path, help="a page (.html) or text (.txt); prints it if left out"
    )

    attention = _command(commands, "attention", "show where the heads of a published model look")
    attention.add_argument("text", metavar="TEXT", help="what the model reads")
    attention.add_argument("--model", metavar="DIR", type=_folder, required=True, help="folder of a BERT or a GPT-2")
    attention.add_argument("--word", metavar="WORD", help="also say where this word looks, layer by layer")
    attention.add_argument("--layer", metavar="N", type=_count, help="which one to draw, from 1 (the last)")
    attention.add_argument("--head", metavar="N", type=_count, help="which one to draw, from 1 (all of them)")
    attention.add_argument("--out", metavar="FILE", type=Path, default=Path("attention.svg"), help="(%(default)s)")

    exercise = _command(commands, "exercise", "write a gradient yourself and see the smallest input where it fails")
    exercise.add_argument("name", nargs="?", metavar="NAME", help="which one (lists them all)")
    exercise.add_argument("--dir", metavar="DIR", type=_folder, default="exercises", help="your files (%(default)s)")

    gradcheck = _command(commands, "gradcheck", "compare gradient rules with numerical derivatives")
    gradcheck.add_argument("operations", nargs="*", metavar="OP", help="names of operations (all)")
    gradcheck.add_argument("--seed", metavar="N", type=_seed, default=0, help="what the inputs are drawn from")
    return top


def _command(commands: Any, name: str, summary: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=EXAMPLES[name]
    )
    return made


def _training_options(command: argparse.ArgumentParser, default: str = "") -> None:
    command.add_argument("--steps", metavar="N", type=_count, help=f"training steps{default}")
    command.add_argument("--seed", metavar="N", type=_seed, help="what everything random comes from (0)")


def _checkpoint_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--checkpoint", metavar="FILE", type=Path, help="the model's file (that of the last training)")


def _count(text: str) -> int:
    return _whole(text, 1)


def _seed(text: str) -> int:
    return _whole(text, 0)


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("expected the name of a folder, got ''")
    return Path(text)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of {least} or more, got {text!r}")
    return number


def _complain(message: str, code: int = WRONG) -> int:
    line = "; ".join(part.strip() for part in message.splitlines() if part.strip())
    print(f"{PROGRAM}: {line}", file=sys.stderr, flush=True)
    return code


def _with_one_remedy(message: str) -> str:
    """A missing Graphviz can be had in seven ways; one line has room for the one that works everywhere."""
    first, *rest = message.splitlines()
    command = next((line for line in rest if "pip install" in line), "")
    kept = next((line for line in rest if ".dot" in line), "")
    return "\n".join((first, kept, command))
