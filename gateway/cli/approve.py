"""`tidegate approve`: list, approve and reject changes that weaken an enforced contract."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.cli.options import DEFAULT_REGISTRY, ContractId, OutputFormat, RegistryUrl
from tidegate.gateway.cli.terminal import say
from tidegate.gateway.client.consumers import ConsumerClient
from tidegate.gateway.http.models.changes import ProposalInfo


def approve(
    contract: ContractId,
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
    registry: RegistryUrl = DEFAULT_REGISTRY,
    output_format: OutputFormat = "text",
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

    Exit codes: 0 approved, rejected or listed; 2 unknown contract or candidate;
    3 the registry does not answer; 7 no permission.
    """
    if reject and candidate is None:
        raise SettingsError(
            "--reject needs the fingerprint of one change: tidegate approve CONTRACT CANDIDATE --reject"
        )
    with ConsumerClient(registry) as client:
        if candidate is None:
            found = client.proposals(contract)
        elif reject:
            found = (client.reject(contract, candidate),)
        else:
            found = (client.approve(contract, candidate),)
    if output_format == "json":
        for each in found:
            typer.echo(each.model_dump_json())
        return
    if reject:
        say(f"{_title(found[0])} is rejected")
        return
    if not found:
        say(f"no change of {contract} waits for an approver")
    for each in found:
        _show(each)


def _show(proposal: ProposalInfo) -> None:
    say(_title(proposal))
    for each in proposal.weakenings:
        say(f"  {each.sentence}")
    if proposal.approved_by is None:
        say(f"  {proposal.next_step}")
    else:
        say(f"  approved by {proposal.approved_by}; {proposal.proposed_by} makes the same request again")


def _title(proposal: ProposalInfo) -> str:
    what = f"{proposal.contract} {proposal.version}" if proposal.version else f"{proposal.contract}, deleted"
    return f"{what}, candidate {proposal.candidate}, proposed by {proposal.proposed_by}"
