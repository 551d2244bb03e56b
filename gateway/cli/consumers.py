"""`tidegate consumers`: the consumers of a contract, breaking changes, and acknowledgements."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.lint.lint import lint
from tidegate.gateway.cli.options import DEFAULT_REGISTRY, ContractId, OutputFormat, RegistryUrl, subcommands
from tidegate.gateway.cli.terminal import say
from tidegate.gateway.client.consumers import ConsumerClient
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.http.models.changes import ChangeInfo, ConsumerInfo

_FINGERPRINT = re.compile("[0-9a-f]{64}")

app = subcommands()

ConsumerId = Annotated[str, typer.Argument(metavar="CONSUMER", help="Id of the consumer.")]


@app.callback()
def consumers() -> None:
    """Manage the consumers of a contract, and acknowledge breaking changes.

    A change that breaks consumers is published after all of them have
    acknowledged it, or as a new major version.
    """


@app.command("list")
def list_consumers(
    contract: ContractId, *, registry: RegistryUrl = DEFAULT_REGISTRY, output_format: OutputFormat = "text"
) -> None:
    """List the consumers of a contract, and the readers of deprecated versions.

    Examples:
      tidegate consumers list hospital.admissions
      tidegate consumers list hospital.admissions --format json

    Exit codes: 0 listed; 2 unknown contract; 3 the registry does not answer; 7
    the credentials are rejected.
    """
    with ConsumerClient(registry) as client:
        found = client.consumers(contract)
        versions = client.contract(contract).versions
    if output_format == "json":
        for one in found:
            typer.echo(one.model_dump_json())
        return
    for one in found:
        say(_line(one))
    for version in versions:
        if version.read_by is not None:
            readers = ", ".join(version.read_by) or "no registered consumer"
            say(f"{version.version} is {version.status} and still read by {readers}")


@app.command()
def register(
    contract: ContractId,
    consumer: ConsumerId,
    *,
    reads: Annotated[
        list[str] | None,
        typer.Option(
            "--reads",
            metavar="POINTER",
            help="JSON Pointer of a field that it reads; can be repeated.",
            show_default="all",
        ),
    ] = None,
    team: Annotated[str | None, typer.Option(help="Team that is responsible for the consumer.")] = None,
    assumes: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="File with a JSON Schema of its assumptions."),
    ] = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
) -> None:
    """Register a consumer, or change what it reads.

    Without --reads, the consumer may read every field. A change deletes the
    acknowledgements of the consumer.

    Examples:
      tidegate consumers register hospital.admissions los-report --reads /age

    Exit codes: 0 registered; 1 unknown field, or invalid --assumes; 2 unknown
    contract; 3 the registry does not answer; 7 no permission.
    """
    wanted: dict[str, Any] = {"reads": list(reads or ()), "team": team}
    if assumes is not None:
        wanted["assumes"] = _schema(assumes)
    with ConsumerClient(registry) as client:
        kept, is_new = client.register(contract, consumer, wanted)
    say(f"{kept.id} {'registered' if is_new else 'kept'}: {_line(kept)}")


@app.command()
def remove(contract: ContractId, consumer: ConsumerId, *, registry: RegistryUrl = DEFAULT_REGISTRY) -> None:
    """Remove a registered consumer and its acknowledgements.

    Examples:
      tidegate consumers remove hospital.admissions los-report

    Exit codes: 0 removed; 1 the contract's document declares the consumer; 2
    unknown consumer; 3 the registry does not answer; 7 no permission.
    """
    with ConsumerClient(registry) as client:
        gone = client.remove(contract, consumer)
    say(f"{gone.id} removed")


@app.command()
def acknowledge(
    contract: ContractId,
    consumer: Annotated[
        str | None,
        typer.Argument(metavar="[CONSUMER]", help="The consumer that acknowledges; omit it with --breaking."),
    ] = None,
    *,
    to: Annotated[
        str,
        typer.Option(metavar="CHANGE", help="Fingerprint of the candidate, or the version of a draft."),
    ],
    breaking: Annotated[
        bool, typer.Option("--breaking", help="Acknowledge a change that affects no registered consumer.")
    ] = False,
    by: Annotated[str | None, typer.Option(help="Name of the person who acknowledges.")] = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
) -> None:
    """Acknowledge one breaking change on behalf of a consumer.

    The acknowledgement is for one candidate; another change needs another one.
    `tidegate consumers blocks` and the refusal of `tidegate publish` name the
    candidate.

    Examples:
      tidegate consumers acknowledge hospital.admissions los-report --to 1.3.0
      tidegate consumers acknowledge hospital.admissions --breaking --to 1.3.0
      tidegate consumers acknowledge vitals report --to 1.3.0 --by "Ada Lovelace"

    Exit codes: 0 recorded; 1 the version needs no acknowledgement; 2 unknown
    consumer or version; 3 the registry does not answer; 7 no permission.
    """
    if (consumer is None) is not breaking:
        raise typer.BadParameter("name the consumer that acknowledges, or use --breaking")
    named = {"candidate": to} if _FINGERPRINT.fullmatch(to) else {"version": to}
    wanted = {"consumer": consumer, **named, "breaking": breaking, "by": by}
    with ConsumerClient(registry) as client:
        made, is_new = client.acknowledge(contract, wanted)
    who = made.consumer or "an approver"
    say(f"{who} {'agrees' if is_new else 'agreed before'} to {made.candidate}")


@app.command()
def blocks(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="Contract document, YAML or JSON.")
    ],
    *,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    output_format: OutputFormat = "text",
) -> None:
    """Show what blocks the publication of a document; store nothing.

    Lists the breaking changes, the affected consumers, and the missing
    acknowledgements.

    Examples:
      tidegate consumers blocks contract.yaml

    Exit codes: 0 it can be published; 1 acknowledgements are missing, or a
    document is invalid; 3 the registry does not answer; 7 no permission.
    """
    with ConsumerClient(registry) as client:
        change = client.what_breaks(lint(file))
    if output_format == "json":
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
                say(f"{finding.code} {finding.field or '-'}: {finding.sentence}{whom}")
    if not change.is_breaking:
        say(f"{change.contract} {change.version} breaks nothing ({change.level.value})")
        return
    say(f"affected: {', '.join(change.affected) or 'no registered consumer'}")
    say(f"not affected: {', '.join(change.unaffected) or 'none'}")
    if change.is_new_major:
        say(f"{change.version} is a new major version, which needs no agreement")
    elif change.is_publishable:
        say("everybody who is affected agreed")
    else:
        missing = ", ".join(change.unacknowledged) or "an approver, with --breaking"
        say(f"to agree: {missing}\ncandidate: {change.candidate}")


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
        raise SettingsError(f"{path} is not valid JSON: {error}") from error
