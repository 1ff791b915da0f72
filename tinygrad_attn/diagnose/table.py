"""Tables of the diagnosis: sizes as people read them, rows with shares and bars, module paths cut to fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

NAME, VALUE, SHARE, BAR = 42, 12, 6, 18  # columns; 80 together, with the spaces between
OUTSIDE = "(no module)"


def size(nbytes: int) -> str:
    """Bytes with a unit: "812 B", "1.5 MiB"."""
    value, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{nbytes} B" if unit == "B" else f"{value:.1f} {unit}"


def rows_of(title: str, groups: Mapping[str, int], shown: Callable[[int], str], limit: int) -> list[str]:
    """A heading and one row per group: name, value, share of the total, and a bar; none for nothing to tell apart."""
    total = sum(groups.values())
    if not total or set(groups) == {""}:
        return []
    largest = max(groups.values())
    lines = ["", f"by {title}"]
    for name, value in list(groups.items())[:limit]:
        bar = "█" * round(value / largest * BAR)
        lines.append(
            f"{shortened(name or OUTSIDE):<{NAME}}{shown(value):>{VALUE}}{value / total:>{SHARE}.0%}  {bar}".rstrip()
        )
    if len(groups) > limit:
        rest = sum(list(groups.values())[limit:])
        lines.append(f"{f'… {len(groups) - limit} more':<{NAME}}{shown(rest):>{VALUE}}{rest / total:>{SHARE}.0%}")
    return lines


def merged(scopes: Mapping[str, int], limit: int) -> dict[str, int]:
    """At most `limit` module paths where possible: the largest modules are opened, the others stay closed.

    >>> merged({"decoder.0": 5, "decoder.1": 4, "encoder.0": 1, "encoder.1": 1}, 3)
    {'decoder.0': 5, 'decoder.1': 4, 'encoder': 2}
    """
    groups: dict[str, dict[str, int]] = {}  # what stands under each path that is shown
    for scope, value in scopes.items():
        groups.setdefault(scope.split(".")[0], {})[scope] = value
    while closed := [path for path, members in groups.items() if set(members) != {path}]:
        path = max(closed, key=lambda path: sum(groups[path].values()))
        depth = path.count(".") + 2
        parts: dict[str, dict[str, int]] = {}
        for scope, value in groups[path].items():
            parts.setdefault(".".join(scope.split(".")[:depth]), {})[scope] = value
        if len(groups) - 1 + len(parts) > limit:
            break
        del groups[path]
        groups.update(parts)
    return largest_first({path: sum(members.values()) for path, members in groups.items()})


def largest_first(groups: Mapping[str, int]) -> dict[str, int]:
    """The same, sorted by value and then by name."""
    return dict(sorted(groups.items(), key=lambda item: (-item[1], item[0])))


def shortened(name: str) -> str:
    """A name that fits its column; the end of a module's path is what tells it from others."""
    room = NAME - 1
    return name if len(name) <= room else f"…{name[len(name) - room + 1 :]}"
