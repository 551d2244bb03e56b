"""`tidegate keys`: create, list and revoke API keys in the registry's database."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from tidegate.gateway.access.keys import KeyService
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.cli.options import OutputFormat, subcommands
from tidegate.gateway.cli.registry_database import DEFAULT_URL, DatabaseUrl, operator, registry_database
from tidegate.gateway.cli.terminal import err, out
from tidegate.gateway.clock import now
from tidegate.gateway.storage.access import StoredKey

app = subcommands()

Name = Annotated[str, typer.Argument(help="Purpose of the key, such as `admissions job`.")]
Grants = Annotated[
    list[str],
    typer.Option(
        "--grant",
        metavar="ROLE[:PREFIX]",
        help="viewer, reporter, producer, approver or admin, optionally with a prefix of subjects; can be repeated.",
    ),
]
Expires = Annotated[datetime | None, typer.Option(help="Expiry time in UTC.", show_default="never")]
KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="Id of the key (see `tidegate keys list`).")]


@app.callback()
def keys() -> None:
    """Create, list and revoke API keys of a registry.

    Keys are stored in the registry's database; create the first key on a machine
    that can open it. The audit log records each change.
    """


@app.command()
def create(
    name: Name,
    *,
    grant: Grants,
    expires: Expires = None,
    database_url: DatabaseUrl = DEFAULT_URL,
    output_format: OutputFormat = "text",
) -> None:
    """Create a key, and print its secret once.

    Only a hash of the secret is stored: if it is lost, create another key.

    Examples:
      tidegate keys create "platform team" --grant admin
      tidegate keys create "admissions job" --grant reporter:hospital.admissions

    Exit codes: 0 created; 2 an invalid role or time; 3 the database does not
    answer.
    """
    expires_at = expires.replace(tzinfo=UTC) if expires is not None and expires.tzinfo is None else expires
    grants = read_grants(grant)
    with registry_database(database_url, must_exist=False) as database:
        made = KeyService(database, now).create(name, grants, operator(), expires_at)
        err.print(f"key {made.key_id} is stored in the database {database.description}", markup=False)
    parts = {"key_id": made.key_id, "secret": made.secret, "token": made.token}
    if output_format == "json":
        typer.echo(json.dumps(parts))
        return
    typer.echo("".join(f"{label:<8}{value}\n" for label, value in parts.items()), nl=False)
    err.print(
        "the secret is shown this once: set TIDEGATE_REGISTRY_TOKEN to the token, or use id and secret as user and password"
    )


@app.command("list")
def list_keys(*, database_url: DatabaseUrl = DEFAULT_URL, output_format: OutputFormat = "text") -> None:
    """List all keys, including revoked ones; secrets are not stored.

    Examples:
      tidegate keys list
      tidegate keys list --format json

    Exit codes: 0 listed; 2 the database has no registry; 3 it does not answer.
    """
    with registry_database(database_url) as database:
        found = KeyService(database, now).all()
    if output_format == "json":
        for key in found:
            typer.echo(json.dumps(_row(key)))
        return
    header = ("id", "name", "grants", "created", "by", "state")
    rows = [
        (key.id, key.name, ",".join(key.grants), _instant(key.created_at) or "", key.created_by, _state(key))
        for key in found
    ]
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        # Not wrapped, so that `grep` finds whole lines on a narrow terminal.
        typer.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command()
def revoke(key_id: KeyId, *, database_url: DatabaseUrl = DEFAULT_URL) -> None:
    """Revoke a key permanently.

    Running registries stop accepting the key within TIDEGATE_KEY_CACHE_SECONDS
    (default: 5).

    Examples:
      tidegate keys revoke 3f9c2a71b0de

    Exit codes: 0 revoked; 1 it was already revoked; 2 unknown key, or the
    database has no registry; 3 it does not answer.
    """
    with registry_database(database_url) as database:
        KeyService(database, now).revoke(key_id, operator())
    out.print(f"{key_id} revoked")


def _row(key: StoredKey) -> dict[str, object]:
    return {
        "key_id": key.id,
        "name": key.name,
        "grants": list(key.grants),
        "created_by": key.created_by,
        "created_at": _instant(key.created_at),
        "expires_at": _instant(key.expires_at),
        "revoked_at": _instant(key.revoked_at),
    }


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def _state(key: StoredKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {_instant(key.revoked_at)}"
    if key.expires_at is not None:
        return f"{'expired' if key.expires_at <= now() else 'expires'} {_instant(key.expires_at)}"
    return "in use"
