"""`tidegate consumers`: who reads a contract's records, who a change breaks, and who agreed to it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.lint.lint import lint
from tidegate.gateway.cli.publish import RegistryUrl
from tidegate.gateway.client.consumers import ConsumerClient
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.http.models.changes import ChangeInfo, ConsumerInfo

_HELP = {"help_option_names": ["-h", "--help"]}
_FINGERPRINT = re.compile("[0-9a-f]{64}")
_URL = "http://127.0.0.1:8081"

app = typer.Typer(add_completion=False, rich_markup_mode="rich", no_args_is_help=True, context_settings=_HELP)

ContractId = Annotated[str, typer.Argument(metavar="CONTRACT", help="Id of the contract.")]
ConsumerId = Annotated[str, typer.Argument(metavar="CONSUMER", help="Id of the consumer.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def consumers() -> None:
    """Show and change who reads a contract's records; see whom a change breaks; agree to it.

    A change that breaks what a consumer reads is published when every consumer that it
    breaks agreed, or as a new major version.
    """


@app.command("list")
def list_consumers(contract: ContractId, *, as_json: AsJson = False, registry: RegistryUrl = _URL) -> None:
    """List who reads a contract's records, and who still reads its deprecated versions.

    Exit codes: 0 listed, 2 no such contract, 3 no registry answers.
    """
    with ConsumerClient(registry) as client:
        found = client.consumers(contract)
        versions = client.contract(contract).versions
    if as_json:
        for one in found:
            typer.echo(one.model_dump_json())
        return
    for one in found:
        typer.echo(_line(one))
    for version in versions:
        if version.read_by is not None:
            readers = ", ".join(version.read_by) or "no registered consumer"
            typer.echo(f"{version.version} is {version.status} and still read by {readers}")


@app.command()
def register(
    contract: ContractId,
    consumer: ConsumerId,
    *,
    reads: Annotated[
        list[str] | None,
        typer.Option("--reads", metavar="POINTER", help="A field that it reads; may be given several times."),
    ] = None,
    team: Annotated[str | None, typer.Option(help="Who answers for the consumer.")] = None,
    assumes: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A JSON Schema of what it takes for granted."),
    ] = None,
    registry: RegistryUrl = _URL,
) -> None:
    """Register a consumer, or change what it reads; then what it agreed to is withdrawn.

    Without --reads it may read every field.

    Examples:
      tidegate consumers register hospital.admissions los-report --reads /admission_date --reads /age

    Exit codes: 0 registered, 1 it reads or assumes what cannot be, 2 no such contract, or no right, 3 no registry answers.
    """
    wanted: dict[str, Any] = {"reads": list(reads or ()), "team": team}
    if assumes is not None:
        wanted["assumes"] = _schema(assumes)
    with ConsumerClient(registry) as client:
        kept, is_new = client.register(contract, consumer, wanted)
    typer.echo(f"{kept.id} {'registered' if is_new else 'kept'}: {_line(kept)}")


@app.command()
def remove(contract: ContractId, consumer: ConsumerId, *, registry: RegistryUrl = _URL) -> None:
    """Forget a consumer that was registered; what it agreed to goes with it.

    Exit codes: 0 removed, 1 it stands in the contract's document, 2 no such consumer, or no right, 3 no registry answers.
    """
    with ConsumerClient(registry) as client:
        gone = client.remove(contract, consumer)
    typer.echo(f"{gone.id} removed")


@app.command()
def acknowledge(
    contract: ContractId,
    consumer: Annotated[
        str | None,
        typer.Argument(metavar="[CONSUMER]", help="The consumer that agrees; none with --breaking."),
    ] = None,
    *,
    to: Annotated[
        str,
        typer.Option(metavar="CHANGE", help="Fingerprint of the candidate, or the version of a draft."),
    ],
    breaking: Annotated[
        bool, typer.Option("--breaking", help="Agree to a break that affects no registered consumer.")
    ] = False,
    by: Annotated[str | None, typer.Option(help="The person who agreed.")] = None,
    registry: RegistryUrl = _URL,
) -> None:
    """Agree to a breaking change: to this document, and to no other one.

    Examples:
      tidegate consumers acknowledge hospital.admissions los-report --to 9b0c1d... --by "Ada Lovelace"

    Exit codes: 0 noted, 1 the version needs no agreement, 2 no such consumer, version or right, 3 no registry answers.
    """
    if (consumer is None) is not breaking:
        raise typer.BadParameter("name the consumer that agrees, or give --breaking")
    named = {"candidate": to} if _FINGERPRINT.fullmatch(to) else {"version": to}
    wanted = {"consumer": consumer, **named, "breaking": breaking, "by": by}
    with ConsumerClient(registry) as client:
        made, is_new = client.acknowledge(contract, wanted)
    who = made.consumer or "an approver"
    typer.echo(f"{who} {'agrees' if is_new else 'agreed before'} to {made.candidate}")


@app.command()
def blocks(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="Contract document, YAML or JSON.")
    ],
    *,
    as_json: AsJson = False,
    registry: RegistryUrl = _URL,
) -> None:
    """Show what publishing a document would break, for whom, and whose agreement is missing. Nothing is kept.

    Exit codes: 0 it may be published, 1 somebody has to agree first, or a document is wrong, 2 no right, 3 no registry
    answers.
    """
    with ConsumerClient(registry) as client:
        change = client.what_breaks(lint(file))
    if as_json:
        typer.echo(change.model_dump_json())
    else:
        _show(change)
    if not change.is_publishable:
        raise typer.Exit(ExitCode.FINDINGS)


def _show(change: ChangeInfo) -> None:
    for comparison in change.comparisons:
        for finding in comparison.findings:
            if finding.severity == "breaking":
                whom = f" [breaks {', '.join(finding.consumers)}]" if finding.consumers else ""
                typer.echo(f"{finding.code} {finding.field or '-'}: {finding.sentence}{whom}")
    if not change.is_breaking:
        typer.echo(f"{change.contract} {change.version} breaks nothing ({change.level.value})")
        return
    typer.echo(f"affected: {', '.join(change.affected) or 'no registered consumer'}")
    typer.echo(f"not affected: {', '.join(change.unaffected) or 'none'}")
    if change.is_new_major:
        typer.echo(f"{change.version} is a new major version, which needs no agreement")
    elif change.is_publishable:
        typer.echo("everybody who is affected agreed")
    else:
        missing = ", ".join(change.unacknowledged) or "an approver, with --breaking"
        typer.echo(f"to agree: {missing}\ncandidate: {change.candidate}")


def _line(consumer: ConsumerInfo) -> str:
    reads = " ".join(consumer.reads) or "every field"
    assumed = " and assumes something" if consumer.assumes is not None else ""
    where = f"registered by {consumer.registered_by}" if consumer.registered_by else "in the document"
    team = f" ({consumer.team})" if consumer.team else ""
    return f"{consumer.id}{team} reads {reads}{assumed}, {where}"


def _schema(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise SettingsError(f"{path} is no JSON: {error}") from error
