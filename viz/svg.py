"""Finishing touches on an SVG that Graphviz or Matplotlib wrote.

A title and a description for those who listen, a size that no notebook crops, ids that clash with no other picture on
the page, readable hints instead of Graphviz's internal names, and a style sheet that follows a dark page.
"""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Set

from .escape import visible
from .theme import FONT, dark_rules

__all__ = ["finish", "prefix_for", "size_in_pixels"]

_NAMESPACE = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_XML = "http://www.w3.org/XML/1998/namespace"
_PIXELS = {"pt": 4 / 3, "px": 1.0, "in": 96.0, "": 1.0}
_NAMED = {"white": "#ffffff", "black": "#000000", "transparent": "none"}


def prefix_for(letter: str, content: str) -> str:
    """Makes an id that belongs to this content alone, and is the same in every run."""
    return letter + hashlib.sha256(content.encode("utf-8")).hexdigest()[:10]


def size_in_pixels(svg: bytes) -> tuple[float, float]:
    """Reads width and height of an SVG, in CSS pixels (96 per inch)."""
    start = svg[:4000].decode("utf-8", "replace")
    return _length(start, "width"), _length(start, "height")


def _length(start: str, name: str) -> float:
    found = re.search(rf'<svg\b[^>]*?\b{name}="([0-9.]+)([a-z]*)"', start)
    return float(found.group(1)) * _PIXELS[found.group(2)] if found else 0.0


def finish(
    svg: bytes,
    *,
    prefix: str,
    title: str,
    description: str,
    hints: Mapping[str, str] | None = None,
    adaptive: bool = False,
    only: Set[str] = frozenset(),
) -> str:
    """Makes a renderer's SVG fit to stand alone or inside a page.

    Args:
        svg: the document as the renderer wrote it.
        prefix: begins every id, so that two pictures on one page have none in common.
        title, description: what the picture is, and what it shows, in words.
        hints: element id to the text that a pointer resting on it shows; other hints are removed.
        adaptive: add the style sheet that turns the picture dark with its surroundings.
        only: the colour roles that may change then; empty means all.
    Returns:
        One `<svg>` element without XML declaration, valid as a file and inside HTML.
    """
    root = ElementTree.fromstring(svg)
    width, height = size_in_pixels(svg)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        _plain_attributes(element, prefix)
    _set_hints(root, prefix, hints or {})
    _remove(root, "metadata")
    _remove(root, "style")  # Matplotlib's speaks of every element of the page, not of its own alone.
    drawing = ElementTree.Element("g", {"id": f"{prefix}-drawing", "stroke-linejoin": "round"})
    drawing.extend(list(root))
    for child in list(root):
        root.remove(child)
    root.append(_element("title", title, id=f"{prefix}-title"))
    root.append(_element("desc", description, id=f"{prefix}-desc"))
    if adaptive:
        used = {value for element in drawing.iter() for value in element.attrib.values() if value.startswith("#")}
        root.append(_element("style", dark_rules(f"{prefix}-drawing", used, only)))
    root.append(drawing)
    root.attrib = {
        "xmlns": _NAMESPACE,
        "xmlns:xlink": _XLINK,
        "id": prefix,
        "role": "img",
        "aria-labelledby": f"{prefix}-title {prefix}-desc",
        "width": f"{width:.0f}",
        "height": f"{height:.0f}",
        "viewBox": root.attrib.get("viewBox", f"0 0 {width:.0f} {height:.0f}"),
        "font-family": FONT,
        "style": "max-width:100%;height:auto",
    }
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _element(tag: str, text: str, **attributes: str) -> ElementTree.Element:
    element = ElementTree.Element(tag, attributes)
    element.text = visible(text)
    return element


def _remove(root: ElementTree.Element, tag: str) -> None:
    for parent in list(root.iter()):
        for child in parent.findall(tag):
            parent.remove(child)


def _plain_attributes(element: ElementTree.Element, prefix: str) -> None:
    plain = {}
    for name, value in element.attrib.items():
        space, _, local = name.rpartition("}")
        if space == "{" + _XLINK:
            local = f"xlink:{local}"
        elif space == "{" + _XML:
            local = f"xml:{local}"
        if local == "id":
            plain["id"] = f"{prefix}-{value}"
        elif local == "font-family":
            continue  # said once, for the whole picture
        elif local == "style":
            plain.update(_declarations(value, prefix))
            continue
        elif local in ("xlink:href", "href") and value.startswith("#"):
            plain[local] = f"#{prefix}-{value[1:]}"
        else:
            plain[local] = re.sub(r"url\(#", f"url(#{prefix}-", _NAMED.get(value, value))
    element.attrib = plain


def _declarations(style: str, prefix: str) -> dict[str, str]:
    """Turns a style attribute into presentation attributes, which a style sheet can select and override."""
    plain, rest = {}, []
    for declaration in style.split(";"):
        name, colon, value = declaration.strip().partition(":")
        if not colon or name == "font-family":
            continue
        value = value.strip()
        if re.fullmatch(r"(fill|stroke)[a-z-]*|font-(size|weight|style)|text-anchor|opacity", name):
            plain[name] = re.sub(r"url\(#", f"url(#{prefix}-", _NAMED.get(value, value))
        else:
            rest.append(f"{name}:{value}")
    return {**plain, "style": ";".join(rest)} if rest else plain


def _set_hints(root: ElementTree.Element, prefix: str, hints: Mapping[str, str]) -> None:
    for element in root.iter("g"):
        for old in element.findall("title"):
            element.remove(old)
        hint = hints.get(element.attrib.get("id", "").removeprefix(f"{prefix}-"))
        if hint:
            element.insert(0, _element("title", hint))
