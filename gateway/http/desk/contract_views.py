"""What the page of a contract shows."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import NotFoundError
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.layout import Line, lay_out
from tidegate.gateway.registry.publication import LATEST, Registry
from tidegate.gateway.storage.agreements import Proposal
from tidegate.gateway.storage.sql import ContractVersion

MOST_LINES = 2000


@dataclass(frozen=True, slots=True)
class ContractView:
    """One version of a contract among its versions; `read_by` are those who still read a deprecated one, else None."""

    shown: ContractVersion
    versions: tuple[ContractVersion, ...]
    contract: DataContract
    lines: tuple[Line, ...]
    read_by: tuple[str, ...] | None
    proposals: tuple[Proposal, ...]
    """The changes that weaken what is enforced now, oldest first."""


def contract_view(factory: Factory, contract_id: str, version: str | None) -> ContractView:
    """Return a contract's page: the version named, else the enforced one, else the highest. Raises NotFoundError."""
    registry = factory.registry()
    versions = registry.versions(contract_id)
    shown = registry.version(contract_id, version) if version else _current(registry, versions)
    contract = DataContract.model_validate_json(shown.document)
    lines = tuple(lay_out(shown.document, head_lines=MOST_LINES))
    read_by = factory.consumers().readers((shown,)).get(shown.registry_id)
    proposals = factory.approvals().proposals(contract_id)
    return ContractView(shown, versions, contract, lines, read_by, proposals)


def _current(registry: Registry, versions: tuple[ContractVersion, ...]) -> ContractVersion:
    try:
        return registry.version(versions[0].contract_id, LATEST)
    except NotFoundError:
        return versions[0]
