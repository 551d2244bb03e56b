"""`tidegate approve`: see and approve changes that weaken what is enforced."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.api.change_models import ProposalInfo
from gateway.cli.publish import RegistryUrl
from gateway.consumer_client import ConsumerClient


def approve(
    contract: Annotated[str, typer.Argument(metavar="CONTRACT", help="Id of the contract.")],
    candidate: Annotated[
        str | None,
        typer.Argument(
            metavar="[CANDIDATE]", help="Fingerprint of the change; left out, the changes are listed."
        ),
    ] = None,
    *,
    registry: RegistryUrl = "http://127.0.0.1:8081",
) -> None:
    """Approve a change that weakens an enforced contract, or list those that wait.

    Another person than the author approves, with the role approver. The author then
    makes the same request again, such as `tidegate publish contract.yaml`.

    Examples:
      tidegate approve hospital.admissions
      tidegate approve hospital.admissions 9b0c1d2e...

    Exit codes: 0 approved or listed, 2 no such contract, candidate or right, 3 no registry answers.
    """
    with ConsumerClient(registry) as client:
        if candidate is not None:
            _show(client.approve(contract, candidate))
            return
        found = client.proposals(contract)
    if not found:
        typer.echo(f"no change of {contract} waits for an approver")
    for each in found:
        _show(each)


def _show(proposal: ProposalInfo) -> None:
    what = f"{proposal.contract} {proposal.version}" if proposal.version else f"{proposal.contract}, deleted"
    typer.echo(f"{what}, candidate {proposal.candidate}, proposed by {proposal.proposed_by}")
    for each in proposal.weakenings:
        typer.echo(f"  {each.sentence}")
    if proposal.approved_by is None:
        typer.echo(f"  {proposal.next_step}")
    else:
        typer.echo(
            f"  approved by {proposal.approved_by}; {proposal.proposed_by} makes the same request again"
        )
