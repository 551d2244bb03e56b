"""`tidegate publish`: hand contract versions to a registry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.contracts.errors import ConflictError, ContractError
from tidegate.contracts.lint.lint import lint
from tidegate.gateway.cli.terminal import err, out, show_error, show_warnings
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Contract documents, YAML or JSON."),
]
RegistryUrl = Annotated[str, typer.Option(envvar="TIDEGATE_REGISTRY_URL", help="Address of the registry.")]


def publish(files: Files, registry: RegistryUrl = "http://127.0.0.1:8081") -> None:
    """Publish contract versions; a schema file travels inside its contract.

    A version never changes: the same content again is no change, and another
    content under a used version is refused.

    Examples:
      tidegate publish contract.yaml
      tidegate publish contracts/*.yaml --registry http://registry:8081

    Exit codes: 0 all are published, 1 a document is wrong or contradicts the registry, 3 no registry answers.
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
                err.print(f"[bold]{file}[/]: {error}")
                refused += 1
            else:
                state = (
                    f"published (registry id {published.registry_id})" if published.is_new else "unchanged"
                )
                out.print(f"{published.contract_id} {published.version} {state}")
    if refused:
        raise typer.Exit(ExitCode.FINDINGS)
