"""Formulas as MathML, which browsers draw without a script, with numbers that the engine computed."""

from __future__ import annotations

import re
from typing import Any

from tinygrad_attn.errors import MissingExtraError
from transformer.lessons.attention_head import AttentionHead, pencil, pencil_rows


def mathml(latex: str) -> str:
    """A formula in LaTeX as one `<math>` element.

    Raises:
        MissingExtraError: latex2mathml is not installed.
    """
    try:
        from latex2mathml.converter import convert
    except ImportError as error:
        raise MissingExtraError(
            "formulas are written with latex2mathml, which is not installed\n"
            "  python -m pip install 'tinygrad-attn[lesson]'"
        ) from error
    return str(convert(latex))


def latex_matrix(values: Any) -> str:
    r"""A matrix in LaTeX, each number as one would write it on paper.

    >>> latex_matrix([[0.25, 0.75]])
    '\\begin{matrix}\\frac{1}{4}&\\frac{3}{4}\\end{matrix}'

    The page's style sheet draws the brackets.
    """
    rows = r"\\".join("&".join(map(_latex_number, row)) for row in pencil_rows(values))
    return rf"\begin{{matrix}}{rows}\end{{matrix}}"


def _latex_number(text: str) -> str:
    text = text.replace("−", "-").replace("∞", r"\infty ")
    text = re.sub(r"(\d+)/(\d+)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"√(\d+)", r"\\sqrt{\1}", text)
    return re.sub(r"ln (\d+)", r"\\ln\\,\1", text)


def head_on_paper(head: AttentionHead) -> dict[str, Any]:
    """The "head" example as a sheet of formulas.

    Args:
        head: `EXAMPLES["head"]` as it ran.
    Returns:
        "given", "S", "P", "O": formulas of the forward pass; "backward": (name, question, answer) for each gradient in
        the order in which backpropagation finds them.
    """
    value = {name: latex_matrix(tensor.numpy()) for name, tensor in head.tensors.items()}
    slope = {name: latex_matrix(gradient) for name, gradient in head.gradients.items()}
    mean_gain = pencil(float((head.tensors["P"].numpy() * head.gradients["P"]).sum()))
    backward = [
        ("dO", r"dO=\frac{\partial L}{\partial O}", slope["O"]),
        ("dP", r"dP=dO\,V^{\top}", slope["P"]),
        (
            "dS",
            r"dS=P\circ\left(dP-\sum P\circ dP\right)",
            rf"{value['P']}\circ\left({slope['P']}-{_latex_number(mean_gain)}\right)={slope['S']}",
        ),
        ("dV", r"dV=P^{\top}\,dO", slope["V"]),
        ("dK", r"dK=\frac{dS^{\top}\,Q}{\sqrt{d}}", slope["K"]),
        ("dQ", r"dQ=\frac{dS\,K}{\sqrt{d}}", slope["Q"]),
    ]
    return {
        "given": mathml(rf"Q={value['Q']}\quad K={value['K']}\quad V={value['V']}"),
        "S": mathml(rf"S=\frac{{Q\,K^{{\top}}}}{{\sqrt{{d}}}}={value['S']}"),
        "P": mathml(rf"P=\mathrm{{softmax}}(S)={value['P']}"),
        "O": mathml(rf"O=P\,V={value['O']}"),
        "backward": [(name, mathml(question), mathml("=" + answer)) for name, question, answer in backward],
    }
