"""No sentence of the documentation is longer than 25 words, and each has a line of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

LONGEST = 25
PAGES = sorted(map(str, (Path("README.md"), Path("CHANGELOG.md"), *Path("docs").rglob("*.md"))))
_NO_PROSE = re.compile(
    r"<!-- generated: .*?<!-- end -->|^ *```.*?^ *```|<!--.*?-->", re.DOTALL | re.MULTILINE
)
_HEADING_TABLE_OR_HTML = re.compile(r"#+ |\||<|!\[|!!! ")
_ITEM = re.compile(r"(?:[-*+]|\d+\.) +")
_INLINE = (
    (re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL), "Code"),
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"<https?://[^>]*>"), "Address"),
)
_LABEL = re.compile(r"\*\*[^*]+[.:]\*\* |\*[^*]+\*$")
"""A label before a sentence, such as **Context.**, or a line in italics such as a status."""
_END_OF_SENTENCE = re.compile(r"""(?<=[.!?])[*_"')]*(?:\n|\s+(?=[*_"'(]*[A-Z0-9]))""")


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line of each paragraph and list item with its text; code, tables and headings are omitted."""
    prose = _NO_PROSE.sub(lambda found: "\n" * found[0].count("\n"), text)
    first, block = 0, list[str]()
    for number, line in enumerate([*prose.split("\n"), ""], start=1):
        stripped = line.strip()
        item = _ITEM.match(stripped)
        apart = not stripped or _HEADING_TABLE_OR_HTML.match(stripped)
        if (apart or item) and block:
            yield first, "\n".join(block)
            block = []
        if not apart:
            first = first if block else number
            block.append(stripped[item.end() :] if item else stripped)


def long_sentences(text: str) -> list[tuple[int, int, str]]:
    """Return line, number of words and text of each sentence that is too long."""
    found = []
    for first, paragraph in paragraphs(text):
        plain = paragraph
        for pattern, instead in _INLINE:
            plain = pattern.sub(instead, plain)
        start = 0
        for end in [*(each.end() for each in _END_OF_SENTENCE.finditer(plain)), len(plain)]:
            sentence = plain[start:end]
            words = sum(bool(re.search(r"\w", word)) for word in sentence.split())
            if words > LONGEST:
                found.append((first + plain.count("\n", 0, start), words, " ".join(sentence.split())))
            start = end
    return found


@pytest.mark.parametrize("page", PAGES)
def test_no_sentence_is_too_long(page: str) -> None:
    told = [
        f"{page}:{line}: {n} words: {text}" for line, n, text in long_sentences(Path(page).read_text("utf-8"))
    ]
    assert not told, "\n".join(told)


def test_a_long_sentence_is_found_with_its_line() -> None:
    most = " ".join(["word"] * (LONGEST - 2))
    page = (
        f"# Heading {most} {most}\n\nOne `inline code of words` {most}.\nA [link](a.md#b) {most}. The next.\n\n"
        f"| {most} {most} |\n\n```console\n{most} {most}\n```\n\n* {most}\n* {most}\n\n"
        f"Short. Now comes\n`code` {most} more words. The end.\n"
    )
    assert long_sentences(page) == [(15, LONGEST + 3, f"Now comes Code {most} more words.")]


def crowded_lines(text: str) -> list[tuple[int, str]]:
    """Return number and text of each line of prose, also in list items, in which a sentence ends before another begins."""
    found = []
    for first, paragraph in paragraphs(text):
        for number, line in enumerate(paragraph.split("\n"), start=first):
            plain = _LABEL.sub("", line)
            for pattern, instead in _INLINE:
                plain = pattern.sub(instead, plain)
            if _END_OF_SENTENCE.search(plain):
                found.append((number, line))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_each_line_has_one_sentence(page: str) -> None:
    told = [f"{page}:{number}: {line}" for number, line in crowded_lines(Path(page).read_text("utf-8"))]
    assert not told, "\n".join(told)


def test_a_line_of_two_sentences_is_found() -> None:
    page = "# A. Heading\n\nOne. Two.\n`a. B` is one.\n\n| A. B |\n\n```\nA. B\n```\n\n* **Why.** A. B\n  One (`x`).\n"
    assert crowded_lines(page) == [(3, "One. Two."), (12, "**Why.** A. B")]
