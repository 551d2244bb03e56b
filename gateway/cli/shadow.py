"""`tidegate shadow` and `tidegate promote`: try a version on live records, then enforce it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from tidegate.contracts.stream.counts import RuleCount
from tidegate.contracts.stream.shadow import ShadowFindings
from tidegate.gateway.cli.options import DEFAULT_REGISTRY, ContractId, OutputFormat, RegistryUrl, StreamId
from tidegate.gateway.cli.terminal import say
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode

_MOST_SHOWN = 5


def shadow(
    stream: StreamId,
    version: Annotated[
        str | None,
        typer.Argument(
            metavar="[VERSION]", help="A published version, usually a draft.", show_default="show results"
        ),
    ] = None,
    *,
    off: Annotated[bool, typer.Option("--off", help="End the shadow; its results are kept.")] = False,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    output_format: OutputFormat = "text",
) -> None:
    """Judge records also by another version, and only report its verdicts.

    From the next batch on, both versions judge each record in the same pass. The
    shadow has no effect on the outputs and never stops the stream. Without
    VERSION, shows the results so far: the number of records that the shadow
    would refuse or newly accept, by rule, with the positions of some of them.

    Examples:
      tidegate shadow hospital.admissions 1.3.0
      tidegate shadow hospital.admissions
      tidegate shadow hospital.admissions --off

    Exit codes: 0 done; 1 the version cannot be a shadow; 2 unknown stream or
    version, no results yet; 3 the registry does not answer; 7 no permission.
    """
    if off and version is not None:
        raise typer.BadParameter("give a VERSION or --off", param_hint="--off")
    with RegistryClient(registry) as client:
        if off or version is not None:
            control = client.declare_shadow(stream, version)
            if output_format == "json":
                typer.echo(control.model_dump_json())
            elif control.shadow:
                say(f"{stream} is judged by {control.shadow} too")
            else:
                say(f"{stream} has no shadow any more")
            return
        findings = client.shadow(stream)
    if output_format == "json":
        typer.echo(findings.model_dump_json())
        return
    for line in _findings(findings):
        say(line)


def promote(
    contract: ContractId,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="The draft to enforce.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Enforce the draft instead of only showing it.")] = False,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    output_format: OutputFormat = "text",
) -> None:
    """Show what a draft would change; with --yes, enforce it.

    Shows the differences from the enforced version, the affected consumers, and
    the draft's verdicts on live records as a shadow (tidegate shadow). With
    --yes, the draft is enforced from the next batch on, unless it affects
    consumers that have not acknowledged the change.

    Examples:
      tidegate promote hospital.admissions 1.3.0
      tidegate promote hospital.admissions 1.3.0 --yes

    Exit codes: 0 shown, or promoted; 1 the draft cannot be promoted; 2 unknown
    contract or version; 3 the registry does not answer; 7 no permission.
    """
    with RegistryClient(registry) as client:
        found = client.promotion(contract, version)
        is_text = output_format == "text"
        if is_text:
            _show(found)
        else:
            typer.echo(json.dumps(found))
        if yes:
            client.promote(contract, version)
            outcome = f"{contract} {version} is enforced from the next batch on"
        elif not found["change"]["is_publishable"]:
            raise typer.Exit(ExitCode.FINDINGS)
        else:
            outcome = "nothing was changed; --yes promotes it"
    if is_text:
        say(outcome)


def _show(found: dict[str, Any]) -> None:
    for line in _changes(found):
        say(line)
    if found["shadow"] is None:
        say(
            f"it was not tried on live records; tidegate shadow {found['contract']} {found['version']} does that"
        )
        return
    for line in _findings(ShadowFindings.model_validate(found["shadow"])):
        say(line)


def _changes(found: dict[str, Any]) -> Iterator[str]:
    yield f"{found['contract']} {found['version']} ({found['status']}); enforced is {found['enforced'] or 'nothing yet'}"
    change = found["change"]
    for comparison in change["comparisons"]:
        for finding in comparison["findings"]:
            yield f"  {finding['severity']}  {finding['sentence']}  [{finding['code']}]"
    if change["unacknowledged"]:
        yield f"have still to agree: {', '.join(change['unacknowledged'])}"
    if change["needs_break_acknowledged"]:
        yield "it breaks the enforced version, and the break was not acknowledged"


def _findings(findings: ShadowFindings) -> Iterator[str]:
    found = findings.result
    yield (
        f"shadow {found.version} against {findings.against}: {found.compared:,} records in {findings.batches:,} batches "
        f"since {findings.since:%Y-%m-%d %H:%M:%S} UTC"
    )
    yield from _counted("would refuse", found.would_refuse, found.refused_by)
    yield from _counted("would newly accept", found.would_accept, found.accepted_by)
    if found.would_stop:
        yield f"{found.would_stop:>10,}  would stop the stream"
    for sample in found.samples[:_MOST_SHOWN]:
        reasons = ", ".join(f"{each.code} {each.pointer}".strip() for each in sample.reasons)
        yield f"            {sample.change} {sample.partition}/{sample.offset}: {reasons}"
    if found.failure is not None:
        yield f"not all could be compared: {found.failure}"


def _counted(what: str, records: int, rules: Iterable[RuleCount]) -> Iterator[str]:
    yield f"{records:>10,}  {what}"
    for rule in rules:
        yield f"{rule.records:>16,}  {rule.stage} {rule.code}"
