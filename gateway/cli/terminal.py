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

# Soft wrap: a line is a line, so that `grep` and editors find `file:line:column`.
out = Console(highlight=False, soft_wrap=True)
err = Console(highlight=False, soft_wrap=True, stderr=True)


_IN_ASCII: Final = {"·": "-", "…": "...", "→": "->", "─": "-", "│": "|", "├": "|", "└": "`", "µ": "u"}


def print_in_any_encoding() -> None:
    """Make standard output and standard error print what their encoding lacks as JSON escapes it, instead of failing.

    So a line of JSON keeps its meaning. Characters of the layout become ASCII.
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
    """Shows how far a command is, on standard error of a terminal, once it takes two seconds. A context manager."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._status = err.status("")
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def show(self, text: str) -> None:
        """Replace the text."""
        if err.is_terminal and time.monotonic() - self._began >= SILENT_SECONDS:
            self._status.update(Text(text))
            if not self._is_shown:
                self._status.start()
                self._is_shown = True


def say(line: str) -> None:
    """Print one line to standard output as it is, with no markup; what a terminal would act on is escaped."""
    out.print(_lines(line), markup=False)


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
    """Print the parts of a document of another format that no record is judged by, each with its place."""
    for each in left_out:
        err.print(Text.assemble(("not judged ", "yellow"), (each.pointer or "/", "bold"), f": {each.reason}"))


def show_foreign(foreign: Iterable[tuple[Path, str]]) -> None:
    """Note the documents that describe a contract in another format, each with its path and the name of the format."""
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
    """Escape what a terminal would act on, but keep the line ends of messages of several lines."""
    return "\n".join(map(seen, text.split("\n")))
