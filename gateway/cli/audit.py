"""`tidegate audit`: export and verify the audit log."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.audit import AuditLog
from tidegate.gateway.cli.options import Output, opened_output, subcommands
from tidegate.gateway.cli.registry_database import DEFAULT_URL, DatabaseUrl, registry_database
from tidegate.gateway.cli.terminal import err, out
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.storage.audit_chain import (
    AuditEntry,
    ChainReport,
    canonical_json,
    check,
    document,
    is_hash,
    read_line,
)

app = subcommands()

Export = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]", exists=True, dir_okay=False, help="Exported log.", show_default="check the database"
    ),
]
Head = Annotated[
    str | None,
    typer.Option(metavar="HASH", help="Head of an earlier check, to detect missing entries at the end."),
]


@app.callback()
def audit() -> None:
    """Export the audit log, or verify its hash chain.

    Each entry contains the hash of the entry before it, so a change, a missing
    entry or an inserted entry is detected. The database records the head of the
    chain, so missing entries at the end are detected too. Its owner can forge
    both: store the head that `verify` prints elsewhere, and pass it to a later
    `verify --head`.
    """


@app.command()
def export(output: Output = None, *, database_url: DatabaseUrl = DEFAULT_URL) -> None:
    """Write all entries of the audit log as JSON lines, oldest first.

    The `hash` of an entry is the SHA-256 of the line without `hash`, as
    canonical JSON (RFC 8785).

    Examples:
      tidegate audit export > audit.jsonl
      tidegate audit export | head -1 | jq -cSj 'del(.hash)' | sha256sum

    Exit codes: 0 written; 2 the file cannot be written, or the database has no
    registry; 3 it does not answer.
    """

    def write(entries: Iterable[AuditEntry]) -> None:
        with opened_output(output) as target:
            for entry in entries:
                target.write(canonical_json(document(entry)) + b"\n")

    with registry_database(database_url) as database:
        AuditLog(database).read(write)


@app.command()
def verify(file: Export = None, *, head: Head = None, database_url: DatabaseUrl = DEFAULT_URL) -> None:
    """Verify the hash chain from the first entry on, and print its head.

    Reports the first entry at which the chain is broken. With --head, also
    reports whether the log still contains all entries up to that head.

    Examples:
      tidegate audit verify
      tidegate audit verify audit.jsonl --head 5b0f3c5a...

    Exit codes: 0 intact; 1 broken, or entries are missing; 2 the file or the
    head is invalid, or the database has no registry; 3 it does not answer.
    """
    if head is not None and not is_hash(head):
        raise SettingsError("--head takes the 64 hexadecimal digits that an earlier check printed")
    if file is not None:
        with file.open("rb") as lines:
            report = check(map(read_line, lines), head)
        _show(report, head)
    else:
        with registry_database(database_url) as database:
            report = AuditLog(database).check(head)
        _show(report, head)
        err.print(f"read from the database {database.description}", markup=False)
    if not report.is_intact:
        raise typer.Exit(ExitCode.FINDINGS)


def _show(report: ChainReport, known_head: str | None) -> None:
    if report.broken_at is not None:
        err.print(f"the chain breaks at entry {report.broken_at}: {report.reason}")
        err.print(f"entries 1 to {report.broken_at - 1} are intact, head {report.head}")
    elif not report.has_known_head:
        err.print(
            f"the chain of {report.entries} entries is whole, but none of them has the hash {known_head}: the end was "
            "cut off, or the log was written again from its start"
        )
    else:
        out.print(f"{report.entries} entries, intact, head {report.head}")
