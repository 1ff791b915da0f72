"""The colours of every picture, by role, for light and dark surroundings.

The accents are Okabe and Ito's eight, which people with any kind of colour vision tell apart; no picture relies on them
alone, since shape, border or words always say the same. Every light colour belongs to one role only, so that a finished
SVG can be turned dark by its own style sheet (`svg.finish`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType

from tinygrad_attn.errors import OptionError

__all__ = ["FONT", "THEMES", "colours", "dark_rules"]

# The first three have the same widths, so that text laid out with one fits with another.
FONT = "Helvetica,Arial,Liberation Sans,Noto Sans,Noto Sans CJK KR,sans-serif"
THEMES = ("auto", "light", "dark")

_ROLES: dict[str, tuple[str, str]] = {
    # role: (light, dark)
    "page": ("#ffffff", "#15171c"),
    "ink": ("#1b1e24", "#eceae5"),
    "quiet": ("#5a606b", "#a9afba"),
    "edge": ("#737b88", "#8c94a2"),
    "rule": ("#d3d7de", "#3b414c"),
    "surface": ("#fcfcfd", "#1d2027"),
    "gradient": ("#a33f00", "#ffa066"),
    "gradient_fill": ("#fdf1e8", "#33231a"),
    # What a tensor is: its border and the tint of its header.
    "parameter": ("#009e73", "#2fc79b"),
    "parameter_fill": ("#daf1e9", "#123a2f"),
    "input": ("#0072b2", "#56b4e9"),
    "input_fill": ("#dcebf6", "#12324a"),
    "constant": ("#8b919b", "#767d89"),
    "constant_fill": ("#eceef1", "#2a2e36"),
    "result": ("#9aa1ac", "#6a7280"),
    "result_fill": ("#f3f4f7", "#262a32"),
    "output": ("#d55e00", "#f08a3c"),
    "output_fill": ("#fbe4d6", "#47280f"),
    # What an operation is.
    "operation": ("#e69f00", "#d99a0f"),
    "operation_fill": ("#fdf2d8", "#3a2f12"),
    "fused": ("#cc79a7", "#d18bb3"),
    "fused_fill": ("#f8e8f1", "#3d2636"),
    "module": ("#56b4e8", "#3c7ea3"),
    "module_fill": ("#f1f8fd", "#18222b"),
    "nested_fill": ("#e6f3fb", "#1c2a36"),
    "module_node_fill": ("#d9edfa", "#1f3748"),
}


def colours(theme: str = "auto") -> Mapping[str, str]:
    """Gives the hexadecimal colour of every role.

    Args:
        theme: "light", "dark" or "auto"; "auto" gives the light colours, which `dark_rules` then overrides.
    Returns:
        Role name to `#rrggbb`.
    Raises:
        OptionError: for any other theme.
    """
    if theme not in THEMES:
        raise OptionError(f"theme: expected one of {', '.join(map(repr, THEMES))}, got {theme!r}")
    index = 1 if theme == "dark" else 0
    return MappingProxyType({role: pair[index] for role, pair in _ROLES.items()})


def dark_rules(scope: str, used: Set[str], only: Set[str] = frozenset()) -> str:
    """Writes the style sheet that turns a light picture dark where its surroundings are dark.

    Args:
        scope: the id of the SVG group that holds the picture; the rules reach nothing else on the page.
        used: the colours that occur in the picture.
        only: the roles that may change; empty means all. A picture whose data are colours changes its frame alone.
    Returns:
        CSS that follows the system's preference, a page's `data-theme` attribute, and JupyterLab's theme.
    """
    roles = [
        (role, light, dark) for role, (light, dark) in _ROLES.items() if light in used and (not only or role in only)
    ]
    values = ";".join(f"--{role}:{dark}" for role, _, dark in roles)
    # A viewer that knows no variables ignores these and keeps the colours that the elements carry themselves.
    swaps = "".join(
        f'#{scope} [{attribute}="{light}"]{{{attribute}:var(--{role},{light})}}'
        for role, light, _ in roles
        for attribute in ("fill", "stroke")
    )
    return (
        f'@media screen and (prefers-color-scheme:dark){{:root:not([data-theme="light"]) #{scope}{{{values}}}}}'
        f':root[data-theme="dark"] #{scope},[data-jp-theme-light="false"] #{scope}{{{values}}}{swaps}'
    )
