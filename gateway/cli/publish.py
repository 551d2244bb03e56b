"""`tidegate publish`: publish contract versions to a registry."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidegate.contracts.document.model import Status
from tidegate.contracts.errors import ConflictError, ContractError
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.words import counted, seen
from tidegate.gateway.cli.options import DEFAULT_REGISTRY, RegistryUrl
from tidegate.gateway.cli.terminal import err, out, show_error, show_warnings
from tidegate.gateway.client.registry import PublicationAnswer, RegistryClient
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.registry.unjudged_rules import count_of, noted_in

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Contract documents, YAML or JSON."),
]


def publish(files: Files, registry: RegistryUrl = DEFAULT_REGISTRY) -> None:
    """Publish contract versions to the registry, with their schema files.

    A version never changes: publishing the same content again has no effect, and
    different content under a published version is refused. Also shows whether a
    job enforces the contract, according to the job's last heartbeat, and which
    rules of its subject are kept for clients and not judged.

    Examples:
      tidegate publish contract.yaml
      tidegate publish contracts/*.yaml --registry http://registry:8081

    Exit codes: 0 all are published; 1 a document is invalid, or conflicts with
    the registry; 3 the registry does not answer; 7 the credentials are
    rejected.
    """
    refused = 0
    with RegistryClient(registry) as client:
        for file in files:
            try:
                loaded = lint(file)
                show_warnings(loaded)
                published = client.publish(loaded)
            except ContractError as error:
                show_error(error)
                refused += 1
            except ConflictError as error:
                err.print(Text.assemble((seen(str(file)), "bold"), f": {seen(str(error))}"))
                refused += 1
            else:
                state = (
                    f"published (registry id {published.registry_id})" if published.is_new else "unchanged"
                )
                unjudged = count_of(noted_in(published.note))
                more = f" · {counted(unjudged, 'rule')} of the subject not judged" if unjudged else ""
                out.print(f"{published.contract_id} {published.version} {state}{more}")
                for line in (*_notes(published), _enforcement(published)):
                    if line:
                        out.print(line)
    if refused:
        raise typer.Exit(ExitCode.FINDINGS)


def _notes(published: PublicationAnswer) -> list[str]:
    """Return a line for each part of the version that is not enforced, with the reason."""
    return [f"  note: {seen(line)}" for line in (published.note or "").splitlines()]


def _enforcement(published: PublicationAnswer) -> str | None:
    """Return a line on whether a job enforces the contract; None for a retired version, or an older registry."""
    if published.status == Status.DRAFT:
        return (
            f"  it is a draft: no job judges by it; `tidegate promote {published.contract_id} {published.version}` shows "
            "what it would change, and with --yes enforces it"
        )
    enforcement = published.enforcement
    if enforcement is None or published.status not in {Status.ACTIVE, Status.DEPRECATED}:
        return None
    seen_at = enforcement["seen_at"] and datetime.fromisoformat(enforcement["seen_at"]).astimezone(UTC)
    heartbeat = f"last heartbeat {seen_at:%Y-%m-%d %H:%M:%S} UTC" if seen_at else "no heartbeat yet"
    if enforcement["is_enforced"]:
        return f"  a job enforces it ({heartbeat})"
    return (
        f"  no job enforces it ({heartbeat}): run `tidegate enforce {published.contract_id}`; "
        "a job with --all, or with a --prefix or --domain that fits, starts its stream by itself"
    )
