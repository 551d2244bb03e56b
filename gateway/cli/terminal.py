"""Print to standard output and standard error: in colour on a terminal only, never with NO_COLOR set."""

from __future__ import annotations

import codecs
import io
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.text import Text

from tidegate.contracts.address_secrets import masked
from tidegate.contracts.errors import ContractError, Problem, TidegateError
from tidegate.contracts.words import seen
from tidegate.gateway.checks.places import shown_path

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.contracts.document.load import (
        LoadedContract,  # its import loads the judge, which would slow down `--help`
    )
    from tidegate.contracts.exchange.imported import LeftOut

SILENT_SECONDS: Final = 2.0

# Soft wrap: lines are not broken, so that `grep` and editors find `file:line:column`.
# No markup and no emoji: names and messages contain brackets and colons. Styles are those of a `Text`.
out = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
err = Console(markup=False, emoji=False, highlight=False, soft_wrap=True, stderr=True)


_IN_ASCII: Final = {"·": "-", "…": "...", "→": "->", "─": "-", "│": "|", "├": "|", "└": "`", "µ": "u"}


def print_in_any_encoding() -> None:
    """Make standard output and error write characters that their encoding lacks as JSON escapes, instead of failing.

    So JSON output stays equivalent. Layout characters become ASCII.
    """
    codecs.register_error("tidegate", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="tidegate")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(each) or json.dumps(each)[1:-1] for each in text), error.end


class SlowStatus:
    """A status line on standard error of a terminal, for a command that takes over two seconds. A context manager."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._status = err.status("")
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def show(self, text: str) -> None:
        """Set the text, and show it once two seconds have passed."""
        if err.is_terminal and time.monotonic() - self._began >= SILENT_SECONDS:
            self._status.update(Text(text))
            if not self._is_shown:
                self._status.start()
                self._is_shown = True


def say(line: str) -> None:
    """Print text to standard output; characters that a terminal would interpret are escaped."""
    out.print(_lines(line))


def show_error(error: TidegateError) -> None:
    """Print an error to standard error; a ContractError as one line for each of its problems."""
    if isinstance(error, ContractError):
        for problem in error.problems:
            err.print(problem_line(problem))
        return
    err.print(Text.assemble(("error: ", "bold red"), _lines(masked(str(error)))))


def show_warnings(loaded: LoadedContract) -> None:
    """Print the warnings of a contract to standard error, one a line."""
    for warning in loaded.warnings:
        err.print(problem_line(replace(warning, message=f"warning: {warning.message}")))


def show_left_out(left_out: Iterable[LeftOut]) -> None:
    """Print the parts of an imported document that are not judged, each with its place and the reason."""
    for each in left_out:
        err.print(
            Text.assemble(
                ("not judged ", "yellow"), (seen(each.pointer) or "/", "bold"), f": {seen(each.reason)}"
            )
        )


def show_foreign(foreign: Iterable[tuple[Path, str]]) -> None:
    """Print the documents that are contracts of another format, each with its path and the name of the format."""
    for path, name in foreign:
        note = f": another format ({name}); `tidegate import` makes a contract of it"
        err.print(Text.assemble(("not checked ", "yellow"), (shown_path(path), "bold"), note))


def problem_line(problem: Problem) -> Text:
    """Render `file:line:column: message`, with the place in bold and names in backquotes coloured."""
    place = _lines(str(problem).removesuffix(f": {problem.message}"))
    message = Text(_lines(problem.message))
    message.highlight_regex(r"`[^`]*`", "cyan")
    return Text.assemble((place, "bold"), ": ", message)


def _lines(text: str) -> str:
    """Escape characters that a terminal would interpret, but keep line ends."""
    return "\n".join(map(seen, text.split("\n")))
