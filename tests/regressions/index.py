"""Writes README.md, which says where each known fault has its test: `python -m tests.regressions.index`."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent

SECTIONS = {
    "G": "Graph traversal, accumulation, lifetime",
    "B": "Broadcasting, shapes, indexing, memory",
    "N": "Singular points and NaN traps",
    "D": "Dtypes",
    "C": "Gradient checker",
    "A": "Attention, masks, layers",
    "K": "Decoding, cache, sampling, beam",
    "O": "Modules, optimisers, checkpoints",
    "V": "Drawings",
    "P": "Pictures, pages, teaching",
}

CHOSEN = {
    "G4": "a second backward adds exactly (12, then 24); on a freed graph it raises",
    "B1": "(5, 2, 1) + (5, 2) does not broadcast in NumPy either and is refused",
    "B15": "refused, naming the functional spelling; of a single number NumPy puts its own words around our error",
    "B19": "hashed by identity, compared by element",
    "B21": "copied on entry; memory that is shared is watched, and a change raises",
    "N1": "exactly 0 into the branch not taken, in every order, through elementwise operations and moves",
    "N4": "0",
    "N5": "0",
    "N6": "0 ** 0: 0 by the base; 0 ** b: 0 by the exponent for b ≥ 0",
    "N8": "equal ones share",
    "N9": "relu(0): 0; maximum: ½ each; relu6(6): 0; hardswish(3): 1",
    "N10": "0",
    "D3": "Python numbers are weak, NumPy scalars count as arrays (NEP 50)",
    "A1": "zeros",
    "A4": "the alignment must be said",
    "A23": "0, with zero gradients",
    "C16": "the second derivative of a norm at 0 is taken as 0; the checker says that there is none",
}

ELSEWHERE = {
    "P3": "distutils is imported nowhere",
    "P4": "instructions say `python -m pip`",
    "P9": "`viz/test_escape.py`, one escaper for every label; so P13, P14, P18, P19",
    "P20": "fonts are the system's: text in an SVG stays text, and CI installs a font with Korean; so P21, P22",
    "P35": "tensors are drawn under their own names: V6, P36",
    "P40": "graphs are collapsed and capped before they are drawn: V4, P44; so P41, P42, P45, P46",
    "P50": "words and colours of pages, which are read and not tested; so P62, P72",
    "P55": "lengths that do not fit are refused: P58",
    "P65": "left padding is hidden: K15",
    "P66": "dropout divides by 1 − p: A17",
    "P68": "G4",
    "P69": "G2",
    "P73": "`transformer/test_model.py`, the shift of the decoder's input",
    "P74": "`tinygrad_attn/test_tensor_gradients.py`, retain_grad and keep_grads",
    "P75": "the logarithm of 0 is never taken: N13 and `parity/test_ops_loss.py`",
}

HEAD = """# Faults of other engines, by id

Each row is a kind of fault that people met in other engines, Transformer codes or graph drawers. The right behaviour
is a test whose name begins with the id (`test_G1_deep_chain`). This page says in which file, and what was chosen where
one may choose. Every row of the first nine sections has a test. `python -m tests.regressions.index` writes this page.
"""


def files_by_id() -> dict[str, list[str]]:
    """Files that hold tests named after each id."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in TESTS.rglob("*.py"):
        for ids in re.findall(r"^ *def test_((?:[A-Z]\d+_)+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            for each in ids.strip("_").split("_"):
                found[each].add(file.relative_to(TESTS).as_posix())
    return {each: sorted(found[each]) for each in sorted(found, key=lambda x: (list(SECTIONS).index(x[0]), int(x[1:])))}


def page() -> str:
    """The text of README.md."""
    found = files_by_id()
    parts = [HEAD]
    for letter, title in SECTIONS.items():
        rows = [
            f"| {each} | {', '.join(f'`{file}`' for file in files)} | {CHOSEN.get(each, '')} |"
            for each, files in found.items()
            if each[0] == letter
        ]
        parts += [f"\n## {title}\n\n| id | tests | chosen |\n|---|---|---|\n", "\n".join(rows), "\n"]
    rows = [f"| {each} | {why} |" for each, why in ELSEWHERE.items() if each not in found]
    parts += ["\n## Rows of the last section without a test of that name\n\n| id | because |\n|---|---|\n"]
    return "".join([*parts, "\n".join(rows), "\n"])


if __name__ == "__main__":
    (HERE / "README.md").write_text(page(), encoding="utf-8")
