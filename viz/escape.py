r"""The one escaper that every label passes through.

Names, tokens and file paths come from users: `<Start of Sentence>`, `\N`, `</script>`, Korean, a lone surrogate, 20,000
characters. Whatever they hold, the picture shows them as written or visibly shortened, and stays a well-formed picture.
Graphviz gives three meanings to a label (escape sequences, entities, markup), hence two forms: `html_text` for text
inside an HTML-like table and `quoted` for everything that stands between double quotes.
"""

from __future__ import annotations

import html
import re
import unicodedata

__all__ = ["display_width", "html_text", "quoted", "shorten", "visible", "xml_text"]

# dot 2.43 refuses one uninterrupted run of 16,384 characters; an escaped character takes at most six.
LONGEST_TEXT = 2_000
# Combining marks take no column; a text that piles more than this on each column is shortened too.
MARKS_PER_COLUMN = 4
ELLIPSIS = "…"

# C0 controls and DEL; C1 controls; line and paragraph separators; characters that reorder or hide their neighbours;
# surrogates; noncharacters. The zero-width joiners stay: emoji and several scripts are written with them.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane * 0x10000 + 0xFFFE)}{chr(plane * 0x10000 + 0xFFFF)}" for plane in range(17))
    + "]"
)
_GLYPHS = {"\n": "↵", "\t": "⇥", "\x7f": "␡", "\u2028": "↵", "\u2029": "¶"}


def _glyph(match: re.Match[str]) -> str:
    character = match.group()
    code = ord(character)
    if character in _GLYPHS:
        return _GLYPHS[character]
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures ␀ … ␟
    if 0xD800 <= code <= 0xDFFF or 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE:
        return "\ufffd"  # no XML document may hold these
    return f"⟨{code:X}⟩"


def visible(text: str) -> str:
    """Replaces every character that has no picture, or that would change its neighbours' picture, by a glyph.

    Args:
        text: any string, lone surrogates included.
    Returns:
        A string without control characters that is valid in XML and encodes as UTF-8.

    >>> visible("a\\tb\\nc\\x00")
    'a⇥b↵c␀'
    """
    return _UNSEEN.sub(_glyph, text)


def display_width(text: str) -> int:
    """Columns that a text takes: two for a wide character (Hangul, Han, emoji), none for a combining mark.

    >>> display_width("토큰"), display_width("token")
    (4, 5)
    """
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, limit: int, *, where: str = "end") -> str:
    """Shortens a text to at most `limit` columns and marks the place with an ellipsis.

    Args:
        text: any string.
        limit: columns to keep, at least 1, the ellipsis included.
        where: "end" keeps the beginning; "middle" keeps both ends, which suits dotted names.
    Returns:
        `text` itself when it fits.

    >>> shorten("encoder.layers.0.weight", 15, where="middle")
    'encoder….weight'
    """
    if len(text) <= MARKS_PER_COLUMN * limit and display_width(text) <= limit:
        return text
    room = max(limit - 1, 0)
    tail_room = room // 2 if where == "middle" else 0
    head = _take(text, room - tail_room)
    tail = _take(text[::-1], tail_room)[::-1]
    return head.rstrip("\u200d") + ELLIPSIS + _without_leading_marks(tail)


def _take(text: str, room: int) -> str:
    longest = MARKS_PER_COLUMN * room
    for position, character in enumerate(text):
        room -= _columns(character)
        if room < 0 or position >= longest:
            return text[:position]
    return text


def _without_leading_marks(text: str) -> str:
    position = 0
    while position < len(text) and _columns(text[position]) == 0:
        position += 1
    return text[position:]


def _prepared(text: str, limit: int, where: str) -> str:
    # A long tail costs nothing: what cannot be shown is cut before it is looked at, with both ends kept for "middle".
    limit = min(limit, LONGEST_TEXT)
    half = MARKS_PER_COLUMN * limit
    if len(text) > 2 * half:
        text = text[:half] + text[-half:]
    return shorten(visible(text), limit, where=where)


def html_text(text: str, limit: int = 80, *, where: str = "end") -> str:
    r"""Escapes a text for the inside of an HTML-like Graphviz label.

    Args:
        text: any string.
        limit: columns to show; longer texts are shortened with an ellipsis.
        where: where to shorten, "end" or "middle".
    Returns:
        Text without markup, entities or escape sequences that Graphviz would interpret.

    >>> html_text("<Start of Sentence>")
    '&lt;Start of Sentence&gt;'
    """
    return html.escape(_prepared(text, limit, where), quote=True).replace("\\", "\\\\")


def quoted(text: str, limit: int = 80, *, where: str = "end") -> str:
    r"""Writes a text as a double-quoted DOT string, its quotes included.

    Args:
        text: any string.
        limit: columns to show; longer texts are shortened with an ellipsis.
        where: where to shorten, "end" or "middle".
    Returns:
        A DOT string in which no entity and no escape sequence is left to interpret.

    >>> print(quoted('say "\\N" & go'))
    "say \"\\N\" &amp; go"
    """
    body = _prepared(text, limit, where).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{body}"'


def xml_text(text: str, limit: int = LONGEST_TEXT) -> str:
    """Escapes a text for an XML or HTML document, in content and in attributes.

    Args:
        text: any string.
        limit: columns to show; longer texts are shortened with an ellipsis.
    Returns:
        Text that is valid in XML 1.0 and in HTML.

    >>> xml_text("</script>\\x00")
    '&lt;/script&gt;␀'
    """
    return html.escape(_prepared(text, limit, "end"), quote=True)
