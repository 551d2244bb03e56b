"""`tidegate shadow` and `tidegate promote`: try a version on live records, then have it enforced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from tidegate.contracts.stream.counts import RuleCount
from tidegate.contracts.stream.shadow import ShadowFindings
from tidegate.gateway.cli.streams import DEFAULT_URL, RegistryUrl, Stream
from tidegate.gateway.cli.terminal import out
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode

_MOST_SHOWN = 5

Contract = Annotated[str, typer.Argument(metavar="CONTRACT", help="Id of the contract.")]


def shadow(
    stream: Stream,
    version: Annotated[
        str | None,
        typer.Argument(
            metavar="[VERSION]", help="A published version, usually a draft.", show_default="show results"
        ),
    ] = None,
    *,
    off: Annotated[bool, typer.Option("--off", help="End the shadow; its results are kept.")] = False,
    registry: RegistryUrl = DEFAULT_URL,
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
    version, no results yet, or no permission; 3 the registry does not answer.
    """
    if off and version is not None:
        raise typer.BadParameter("give a VERSION or --off", param_hint="--off")
    with RegistryClient(registry) as client:
        if off or version is not None:
            declared = client.declare_shadow(stream, version).shadow
            _print(
                f"{stream} is judged by {declared} too" if declared else f"{stream} has no shadow any more"
            )
            return
        for line in _findings(client.shadow(stream)):
            _print(line)


def promote(
    contract: Contract,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="The draft to enforce.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Enforce the draft instead of only showing it.")] = False,
    registry: RegistryUrl = DEFAULT_URL,
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
    contract or version, or no permission; 3 the registry does not answer.
    """
    with RegistryClient(registry) as client:
        found = client.promotion(contract, version)
        for line in _changes(found):
            _print(line)
        if found["shadow"] is None:
            _print(f"it was not tried on live records; tidegate shadow {contract} {version} does that")
        else:
            for line in _findings(ShadowFindings.model_validate(found["shadow"])):
                _print(line)
        if yes:
            client.promote(contract, version)
            _print(f"{contract} {version} is enforced from the next batch on")
        elif not found["change"]["is_publishable"]:
            raise typer.Exit(ExitCode.FINDINGS)
        else:
            _print("nothing was changed; --yes promotes it")


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


def _print(line: str) -> None:
    out.print(line, markup=False, highlight=False, soft_wrap=True)
