"""Every error that Tidegate raises on purpose.

A refusal is a value (`tidegate.contracts.verdict.Violation`), a mistake is an error, an outage is neither::

    TidegateError
    ├── ContractError      an author's mistake in a contract document, located
    ├── NotFoundError      a contract, version, stream or record that does not exist
    ├── ConflictError      a request that conflicts with stored data
    ├── SettingsError      a setting that cannot work, or something this machine lacks
    │   └── CredentialsError  credentials that are rejected (401), or that lack a permission (403)
    ├── Unavailable        a registry, broker or store that does not answer: try again
    └── StreamStopped      a stream that must not continue without a person
        └── Fenced         another instance holds the ledger now

Arguments are positional and the classes picklable, because errors cross process borders in Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

_RULE: Final = re.compile(r"/rules/([0-9]+)(?:/|$)")


class TidegateError(Exception):
    """Root of all errors raised on purpose; the message says what to do next.

    The first argument is the message; a class may have further ones, which it is pickled with.
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a contract document.

    `pointer` is the JSON Pointer (RFC 6901) into the contract document, "" for the whole of it. `line` and
    `column` count from 1 and are None until the document's source positions are known. `file` is the name of
    the file that holds the position (the contract file or the schema file that it names).
    """

    pointer: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        where = place or self.pointer or "contract"
        return f"{where}: {self.message}"


class ContractError(TidegateError):
    """A contract document that cannot be compiled; `problems` lists every mistake found, in document order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    @classmethod
    def at(cls, pointer: str, message: str) -> Self:
        """Build the error for one mistake at `pointer`."""
        return cls((Problem(pointer, message),))

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def mistakes_by_rule(error: ContractError) -> dict[int, str]:
    """Return the first mistake in each rule that has one, by the rule's index in the document."""
    found: dict[int, str] = {}
    for each in error.problems:
        if rule := _RULE.match(each.pointer):
            found.setdefault(int(rule[1]), each.message)
    return found


class NotFoundError(TidegateError):
    """A contract, version, stream or record that does not exist."""


class ConflictError(TidegateError):
    """A request that conflicts with stored data, such as a changed document under a used version."""


class SettingsError(TidegateError):
    """A setting that cannot work, or something that this machine lacks."""


class CredentialsError(SettingsError):
    """Credentials that a registry rejects (401), or that do not permit the request (403)."""


class Unavailable(TidegateError):  # noqa: N818 - an outage is a state, not an error
    """A registry, broker or store that does not answer; the caller retries and no record is judged by it."""


class StreamStopped(TidegateError):  # noqa: N818 - a state of the stream
    """A stream that must not continue without a person: a `fail` rule, a spent error budget, a ledger gap."""


class Fenced(StreamStopped):
    """Another instance claimed the ledger; this one stops and writes nothing more."""
