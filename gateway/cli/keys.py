"""`tidegate keys`: create and revoke API keys, in the registry's database."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from tidegate.gateway.access.keys import KeyService
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.cli.registry_database import DEFAULT_URL, DatabaseUrl, operator, registry_database
from tidegate.gateway.cli.terminal import err, out
from tidegate.gateway.clock import now
from tidegate.gateway.storage.access import StoredKey

_HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(add_completion=False, rich_markup_mode="rich", no_args_is_help=True, context_settings=_HELP)

Name = Annotated[str, typer.Argument(help="What the key is for, such as `admissions job`.")]
Grants = Annotated[
    list[str],
    typer.Option(
        "--grant",
        metavar="ROLE[:PREFIX]",
        help="viewer, reporter, producer, approver or admin, under a prefix of subjects; may be given several times.",
    ),
]
Expires = Annotated[
    datetime | None, typer.Option(help="Instant in UTC from which the key opens nothing. [default: never]")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
KeyId = Annotated[
    str, typer.Argument(metavar="KEY_ID", help="Id of the key, as `tidegate keys list` shows it.")
]


@app.callback()
def keys() -> None:
    """Make, list and revoke API keys of a registry.

    They are kept in the registry's database: a person who can open it makes the first
    one. Each change is in the log of changes.
    """


@app.command()
def create(
    name: Name,
    *,
    grant: Grants,
    expires: Expires = None,
    as_json: AsJson = False,
    database_url: DatabaseUrl = DEFAULT_URL,
) -> None:
    """Make a key and print its secret, once.

    Only a hash of the secret is kept: make a new key if you lose it.

    Examples:
      tidegate keys create "platform team" --grant admin
      tidegate keys create "admissions job" --grant reporter:hospital.admissions

    Exit codes: 0 made, 2 a role or an instant makes no sense, 3 the database does not serve.
    """
    expires_at = expires.replace(tzinfo=UTC) if expires is not None and expires.tzinfo is None else expires
    grants = read_grants(grant)
    with registry_database(database_url) as database:
        made = KeyService(database, now).create(name, grants, operator(), expires_at)
    parts = {"key_id": made.key_id, "secret": made.secret, "token": made.token}
    if as_json:
        typer.echo(json.dumps(parts))
        return
    typer.echo("".join(f"{label:<8}{value}\n" for label, value in parts.items()), nl=False)
    err.print(
        "the secret is shown this once: set TIDEGATE_REGISTRY_TOKEN to the token, or use id and secret as user and password"
    )


@app.command("list")
def list_keys(*, as_json: AsJson = False, database_url: DatabaseUrl = DEFAULT_URL) -> None:
    """List every key, revoked ones included; secrets are not kept.

    Exit codes: 0 listed, 3 the database does not serve.
    """
    with registry_database(database_url) as database:
        found = KeyService(database, now).all()
    if as_json:
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
        # A line is a line, however narrow the terminal, so that `grep` finds it.
        typer.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command()
def revoke(key_id: KeyId, *, database_url: DatabaseUrl = DEFAULT_URL) -> None:
    """Take a key out of use, for good.

    Running gateways notice within TIDEGATE_KEY_CACHE_SECONDS (5 unless set).

    Exit codes: 0 revoked, 1 it was revoked before, 2 no key has this id, 3 the database does not serve.
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
