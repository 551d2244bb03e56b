"""`tidegate approve`: see, approve and reject changes that weaken what is enforced."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.cli.publish import RegistryUrl
from tidegate.gateway.client.consumers import ConsumerClient
from tidegate.gateway.http.models.changes import ProposalInfo


def approve(
    contract: Annotated[str, typer.Argument(metavar="CONTRACT", help="Id of the contract.")],
    candidate: Annotated[
        str | None,
        typer.Argument(
            metavar="[CANDIDATE]", help="Fingerprint of the change.", show_default="list all changes"
        ),
    ] = None,
    *,
    reject: Annotated[
        bool, typer.Option("--reject", help="Delete the proposed change and its approval.")
    ] = False,
    registry: RegistryUrl = "http://127.0.0.1:8081",
) -> None:
    """Approve a change that weakens an enforced contract, or list pending ones.

    The approver needs the role approver, and must not be the author. After the
    approval, the author sends the same request again, such as
    `tidegate publish contract.yaml`. --reject deletes the proposed change, also
    an approved one that has not taken effect. Its author may propose it again.

    Examples:
      tidegate approve hospital.admissions
      tidegate approve hospital.admissions 9b0c1d2e...
      tidegate approve hospital.admissions 9b0c1d2e... --reject

    Exit codes: 0 approved, rejected or listed; 2 unknown contract or candidate,
    or no permission; 3 the registry does not answer.
    """
    if reject and candidate is None:
        raise SettingsError(
            "--reject needs the fingerprint of one change: tidegate approve CONTRACT CANDIDATE --reject"
        )
    with ConsumerClient(registry) as client:
        if reject and candidate is not None:
            rejected = client.reject(contract, candidate)
            typer.echo(f"{_title(rejected)} is rejected")
            return
        if candidate is not None:
            _show(client.approve(contract, candidate))
            return
        found = client.proposals(contract)
    if not found:
        typer.echo(f"no change of {contract} waits for an approver")
    for each in found:
        _show(each)


def _show(proposal: ProposalInfo) -> None:
    typer.echo(_title(proposal))
    for each in proposal.weakenings:
        typer.echo(f"  {each.sentence}")
    if proposal.approved_by is None:
        typer.echo(f"  {proposal.next_step}")
    else:
        typer.echo(
            f"  approved by {proposal.approved_by}; {proposal.proposed_by} makes the same request again"
        )


def _title(proposal: ProposalInfo) -> str:
    what = f"{proposal.contract} {proposal.version}" if proposal.version else f"{proposal.contract}, deleted"
    return f"{what}, candidate {proposal.candidate}, proposed by {proposal.proposed_by}"
