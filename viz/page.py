"""Self-contained HTML pages: one file that needs no network, in several languages, light and dark.

A page is a Jinja2 template that extends `page.html`, with everything escaped unless it says otherwise; its texts stand
in catalogues, one per language, that must be equally complete. What a page shows is the business of the caller.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinygrad_attn.errors import MissingExtraError, OptionError

from .theme import FONT, colours

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["LANGUAGE_NAMES", "Words", "content_security_policy", "markup_type", "render_page", "script_json"]

TEMPLATES = Path(__file__).parent / "templates"
LANGUAGE_NAMES = {"en": "English", "ko": "한국어"}

# In a script element these could end it, start a comment, or break a line of JavaScript; lone surrogates have no UTF-8.
_UNSAFE_IN_SCRIPT = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


class Words:
    """The texts of a page, by language and key.

    A text may hold HTML, which the author of the catalogue answers for, and placeholders such as `{count}`, whose
    values are escaped.

    Args:
        catalogues: language code to key to text. The first language is shown where nothing else is asked for.
    Raises:
        OptionError: a language lacks a key that another one has, or has other placeholders in it.

    >>> words = Words({"en": {"hello": "Hello, {name}"}, "ko": {"hello": "안녕하세요, {name}"}})
    >>> words.text("ko", "hello", name="<b>")
    Markup('안녕하세요, &lt;b&gt;')
    """

    def __init__(self, catalogues: Mapping[str, Mapping[str, str]]) -> None:
        if not catalogues:
            raise OptionError("Words: expected the texts of at least one language")
        self.catalogues = {language: dict(texts) for language, texts in catalogues.items()}
        first, *others = self.catalogues
        for language in others:
            _check_complete(first, self.catalogues[first], language, self.catalogues[language])

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages, the first one first."""
        return tuple(self.catalogues)

    def text(self, language: str, key: str, **values: Any) -> Markup:
        """One text in one language, its placeholders filled in and escaped.

        Raises:
            OptionError: no such language or text, or a placeholder without a value.
        """
        markup = markup_type()
        try:
            return markup(self.catalogues[language][key]).format(**values)
        except KeyError as missing:
            raise OptionError(f"words: {language!r}, {key!r}: there is no {missing}") from None

    def __call__(self, key: str, tag: str = "span", **values: Any) -> Markup:
        """One text in every language, each in an element of its own, of which the page shows one."""
        element = markup_type()('<{tag} class="t" lang="{language}">{text}</{tag}>')
        return markup_type()("").join(
            element.format(tag=tag, language=language, text=self.text(language, key, **values))
            for language in self.languages
        )

    def with_prefix(self, prefix: str) -> dict[str, dict[str, str]]:
        """The texts whose key begins with `prefix`, by language, for a script to choose from."""
        return {
            language: {key: text for key, text in texts.items() if key.startswith(prefix)}
            for language, texts in self.catalogues.items()
        }


def render_page(
    template: str,
    *,
    folder: Path,
    words: Words,
    data: Mapping[str, Any],
    style: str = "",
    script: str = "",
    language: str = "auto",
    **values: Any,
) -> str:
    """Renders a page from a template that extends `page.html`.

    Args:
        template: file name of the template.
        folder: where the template lies.
        words: the page's texts; `page_title` and those of the frame (`page_…`) must be among them. The template calls
            `t("key")` for them.
        data: what the scripts read, as JSON.
        style: the page's own CSS, after that of the frame.
        script: the page's own JavaScript, after that of the frame; it finds `page.data` and `page.say(key)`.
        language: the language shown first; "auto" leaves it to the reader's browser.
        values: what else the template reads.
    Returns:
        The HTML text. Nothing in it loads anything; a Content-Security-Policy forbids it too.
    Raises:
        MissingExtraError: Jinja2 is not installed.
        OptionError: an unknown language, data that are no JSON, or a script that would end its own element.
    """
    jinja2 = _jinja2()
    if language not in ("auto", *words.languages):
        raise OptionError(f"language: expected auto or one of {', '.join(words.languages)}; got {language!r}")
    whole_script = _read("page.js") + script
    if re.search("</script|<!--", whole_script, flags=re.IGNORECASE):
        raise OptionError("script: it holds </script or <!--, which would end the element around it")
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(folder), jinja2.FileSystemLoader(TEMPLATES)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    markup = markup_type()
    titles = {code: words.text(code, "page_title").striptags() for code in words.languages}
    frame = {
        "t": words,
        "policy": content_security_policy([whole_script]),
        "style": markup(_colour_rules() + _language_rules(words.languages) + _read("page.css") + style),
        "script": markup(whole_script),
        "json": markup(script_json({**data, "words": words.with_prefix("js_"), "titles": titles})),
        "language": words.languages[0] if language == "auto" else language,
        "choose_language": language == "auto",
        "languages": [(code, LANGUAGE_NAMES.get(code, code)) for code in words.languages],
        "titles": titles,
    }
    return str(environment.get_template(template).render({**values, **frame}))


def script_json(data: Any) -> str:
    r"""Writes data as JSON that is safe inside a `<script>` element.

    Args:
        data: numbers, texts, lists and dictionaries.
    Raises:
        OptionError: NaN or infinity, which JSON does not have, or something that is no data.

    >>> print(script_json({"token": "</script>"}))
    {"token":"\u003c/script\u003e"}
    """
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError) as error:
        raise OptionError(f"data of a page: {error}; expected finite numbers, texts, lists and dictionaries") from error
    return _UNSAFE_IN_SCRIPT.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def content_security_policy(scripts: Sequence[str]) -> str:
    """The policy that lets a page run exactly these inline scripts and load nothing.

    Args:
        scripts: the text between `<script>` and `</script>`, to the letter.
    """
    digests = [base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii") for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _check_complete(first: str, ours: Mapping[str, str], other: str, theirs: Mapping[str, str]) -> None:
    for language, lacking in ((other, ours.keys() - theirs.keys()), (first, theirs.keys() - ours.keys())):
        if lacking:
            raise OptionError(f"words: {language!r} lacks {', '.join(sorted(lacking))}")
    for key in ours:
        if _placeholders(ours[key]) != _placeholders(theirs[key]):
            raise OptionError(f"words: the placeholders of {key!r} differ between {first!r} and {other!r}")


def _placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def _colour_rules() -> str:
    def variables(theme: str) -> str:
        return ";".join(f"--{role.replace('_', '-')}:{colour}" for role, colour in colours(theme).items())

    dark = f"{{color-scheme:dark;{variables('dark')}}}"
    return (
        f":root{{color-scheme:light;{variables('light')};--font:{FONT}}}\n"
        f'@media screen and (prefers-color-scheme:dark){{:root:not([data-theme="light"]){dark}}}\n'
        f'@media screen{{:root[data-theme="dark"]{dark}}}\n'
    )


def _language_rules(languages: Sequence[str]) -> str:
    return "".join(f':root:not([data-language="{code}"]) .t[lang="{code}"]{{display:none}}\n' for code in languages)


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _jinja2() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError(
            "pages are built with Jinja2, which is not installed\n  python -m pip install 'tinygrad-attn[lesson]'"
        ) from error
    return jinja2


def markup_type() -> type[Markup]:
    """Gives the class of text that a template takes as markup; only what is escaped already may become one."""
    _jinja2()
    from markupsafe import Markup

    return Markup
