"""The chapter on self-attention, from the options of `tinygrad-attn lesson` to its files."""

from __future__ import annotations

from argparse import Namespace

from transformer.lessons.contents import PAGES, Chapter
from transformer.lessons.strip_lesson import build_attention_lesson, chapter
from transformer.lessons.strip_page import attention_page
from transformer.lessons.strip_picture import strip_svg
from transformer.threads import one_blas_thread


class AttentionChapter:
    """Computes the strip in every setting, shows one query, and writes the page; nothing is trained."""

    title = "Self-attention, one matrix at a time"
    kept = ""

    def __init__(self, arguments: Namespace) -> None:
        self.language = arguments.lang

    def make(self, present: list[str]) -> tuple[Chapter, dict[str, bytes]]:
        """Computes, shows, and gives the announcement and the files.

        Args:
            present: names of the chapters that the folder is going to hold.
        """
        with one_blas_thread():
            lesson = build_attention_lesson()
        print(chapter(lesson))
        page = attention_page(lesson, language=self.language, present=present)
        return Chapter("attention", picture=strip_svg(lesson.first)), {PAGES["attention"]: page.encode("utf-8")}
