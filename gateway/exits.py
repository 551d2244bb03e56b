"""Exit codes of the process, and the table that maps error classes to them."""

from __future__ import annotations

from enum import IntEnum

from tidegate.contracts.errors import (
    ConflictError,
    ContractError,
    CredentialsError,
    Fenced,
    NotFoundError,
    SettingsError,
    StreamStopped,
    TidegateError,
    Unavailable,
)


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    UNAVAILABLE = 3
    STOPPED = 4
    FENCED = 5
    UNPROVEN = 6
    REFUSED = 7
    BUG = 70  # EX_SOFTWARE of sysexits.h; a traceback must not look like a finding
    INTERRUPTED = 130  # as a shell reports SIGINT
    PIPE_CLOSED = 141  # as a shell reports SIGPIPE


MEANINGS = {
    ExitCode.OK: "success",
    ExitCode.FINDINGS: "findings: contract problems, refused records, wrong counts",
    ExitCode.USAGE: "wrong usage or settings, or something missing on this machine",
    ExitCode.UNAVAILABLE: "a registry, broker or store does not answer: try again",
    ExitCode.STOPPED: "a stream stopped and needs a person",
    ExitCode.FENCED: "another instance has taken over the stream",
    ExitCode.UNPROVEN: "reconcile: no fault was found, but a proof is not possible",
    ExitCode.REFUSED: "the registry rejects the credentials, or they lack a permission",
    ExitCode.BUG: "a bug in Tidegate",
    ExitCode.INTERRUPTED: "interrupted",
}

_CODES: tuple[tuple[type[TidegateError], ExitCode], ...] = (
    # The first matching class wins, so subclasses come before their base classes.
    (ContractError, ExitCode.FINDINGS),
    (ConflictError, ExitCode.FINDINGS),
    (NotFoundError, ExitCode.USAGE),
    (CredentialsError, ExitCode.REFUSED),
    (SettingsError, ExitCode.USAGE),
    (Unavailable, ExitCode.UNAVAILABLE),
    (Fenced, ExitCode.FENCED),
    (StreamStopped, ExitCode.STOPPED),
)


def exit_code(error: TidegateError) -> ExitCode:
    """Return the exit code of a process that ends with `error`; FINDINGS for a class that is not in the table."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FINDINGS)
