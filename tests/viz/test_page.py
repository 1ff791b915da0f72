"""Pages are complete in every language, hold what they need, and let nothing that they show become code."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import require
from tinygrad_attn.errors import OptionError
from viz.page import Words, content_security_policy, render_page, script_json

require("jinja2")

FRAME = {"page_title": "T", "page_skip": "Skip", "page_light": "Light", "page_dark": "Dark"}
NASTY = ["</script><script>window.PWN=1</script>", "<!--", "]]>", "\u2028", "\ud800", "&lt;", "{{ 7*7 }}", "안녕", '"']

plain_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def page(folder: Path, *, body: str = "", **given: Any) -> str:
    (folder / "t.html").write_text(f'{{% extends "page.html" %}}{{% block main %}}{body}{{% endblock %}}')
    words = given.pop("words", Words({"en": FRAME, "ko": FRAME}))
    return render_page("t.html", folder=folder, words=words, data=given.pop("data", {}), **given)


@given(plain_data)
def test_data_come_back_as_they_were(data: Any) -> None:
    assert json.loads(script_json(data)) == data


@given(st.lists(st.one_of(st.text(), st.sampled_from(NASTY), st.text(alphabet="</script!->"))))
def test_no_data_can_end_the_script_that_holds_them(texts: list[str]) -> None:
    written = script_json({"tokens": texts})
    assert not set("<>&\u2028\u2029") & set(written)
    written.encode("utf-8")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_data_that_json_cannot_hold_are_refused(value: object) -> None:
    with pytest.raises(OptionError, match="data of a page"):
        script_json([value])


def test_the_policy_allows_the_scripts_that_stand_in_the_page_and_no_other(tmp_path: Path) -> None:
    html = page(tmp_path, script="document.title = 'é';")
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    policy = policy.replace("&#39;", "'").replace("&#43;", "+")
    assert policy == content_security_policy(scripts)
    assert re.findall("'sha256-([^']+)'", policy) == digests
    assert policy.startswith("default-src 'none'; ")


@pytest.mark.parametrize("script", ["'</script>'", "'</ScRiPt '", "/* <!-- */"])
def test_a_script_that_would_end_its_element_is_refused(tmp_path: Path, script: str) -> None:
    with pytest.raises(OptionError, match="would end the element"):
        page(tmp_path, script=script)


def test_a_page_refers_to_nothing_outside_itself(tmp_path: Path) -> None:
    html = page(tmp_path)
    assert set(re.findall(r"""(?:src|href|action)\s*=\s*["']?([^"'\s>]*)""", html)) == {"#main"}
    assert not re.findall(r"url\(|@import", html)


@pytest.mark.parametrize("value", NASTY[:-1])
def test_what_a_template_shows_is_escaped(tmp_path: Path, value: str) -> None:
    shown = value.encode("utf-8", "replace").decode()
    html = page(tmp_path, body="<p>{{ token }}</p>", token=shown)
    inside = html.split("<p>")[1].split("</p>")[0]
    assert not set("<>") & set(inside)


def test_every_text_stands_there_in_every_language() -> None:
    words = Words({"en": {"n": "{n} steps"}, "ko": {"n": "<b>{n}</b>단계"}})
    assert words("n", tag="p", n="<i>") == (
        '<p class="t" lang="en">&lt;i&gt; steps</p><p class="t" lang="ko"><b>&lt;i&gt;</b>단계</p>'
    )


@pytest.mark.parametrize(
    ("korean", "complaint"),
    [
        ({}, "'ko' lacks a"),
        ({"a": "{n}", "b": ""}, "'en' lacks b"),
        ({"a": "{m}"}, "placeholders of 'a' differ"),
        ({"a": ""}, "placeholders of 'a' differ"),
    ],
)
def test_an_incomplete_catalogue_is_refused(korean: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        Words({"en": {"a": "{n}"}, "ko": korean})


@pytest.mark.parametrize(("key", "values"), [("b", {}), ("a", {}), ("a", {"m": 1})])
def test_a_text_that_cannot_be_written_is_an_error(key: str, values: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="there is no"):
        Words({"en": {"a": "{n}"}}).text("en", key, **values)


def test_an_unknown_language_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="auto or one of en, ko"):
        page(tmp_path, language="fr")


def test_the_same_page_is_written_in_every_run(tmp_path: Path) -> None:
    assert page(tmp_path, data={"a": [1, 2]}) == page(tmp_path, data={"a": [1, 2]})
