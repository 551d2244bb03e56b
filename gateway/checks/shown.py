"""Names and sentences as reports show them: nothing in them acts on a terminal, a log or the runner that reads it."""

from __future__ import annotations

from pathlib import Path


def shown_path(path: Path | str) -> str:
    """Return a path as reports show it. None begins like a command of GitHub's runner, which reads the log."""
    text = printable(str(path))
    return f"./{text}" if text.lstrip().startswith(":") else text


def printable(text: str) -> str:
    r"""Write out what a terminal or a log would act on: control characters, line ends, bidirectional marks, as \uXXXX."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
