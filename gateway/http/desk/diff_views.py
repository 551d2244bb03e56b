"""The page with the changes between two versions of a contract, like the output of `tidegate diff`."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.finding import Comparison, Finding, FindingSeverity, example_label
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import NotFoundError
from tidegate.gateway.factory import Factory
from tidegate.gateway.storage.sql import ContractVersion

_LONGEST_EXAMPLE = 400


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One change. `style` is a CSS class. `example` is a record that demonstrates the change; None without one.

    `introduction` says what the example demonstrates.
    """

    finding: Finding
    style: str
    example: str | None
    introduction: str


@dataclass(frozen=True, slots=True)
class DiffView:
    """All changes from `base` to `candidate`, breaking ones first. `names` are all versions, highest first."""

    contract_id: str
    base: str
    candidate: str
    names: tuple[str, ...]
    rows: tuple[DiffRow, ...]
    comparison: Comparison
    breaking: int


_STYLES = {FindingSeverity.BREAKING: "refused", FindingSeverity.WARNING: "warned", FindingSeverity.INFO: ""}


def diff_view(factory: Factory, contract_id: str, base: str | None, candidate: str | None) -> DiffView:
    """Compare two versions; by default, `candidate` is the highest version, and `base` the one before it.

    Raises NotFoundError, ContractError.
    """
    registry = factory.registry()
    versions = registry.versions(contract_id)
    names = tuple(each.version for each in versions)
    new = registry.version(contract_id, candidate) if candidate else versions[0]
    old = registry.version(contract_id, base) if base else _before(versions, new)
    found = compare(_contract(old), _contract(new))
    rows = tuple(diff_row(finding) for finding in found.findings)
    breaking = sum(row.finding.severity is FindingSeverity.BREAKING for row in rows)
    return DiffView(contract_id, old.version, new.version, names, rows, found, breaking)


def _before(versions: tuple[ContractVersion, ...], version: ContractVersion) -> ContractVersion:
    lower = [each for each in versions if each.precedence < version.precedence]
    if not lower:
        raise NotFoundError(f"{version.contract_id} has no version before {version.version}")
    return lower[0]


def _contract(version: ContractVersion) -> DataContract:
    return version.contract


def diff_row(finding: Finding) -> DiffRow:
    """Return the row of one change."""
    example = finding.counterexample
    if example is None:
        return DiffRow(finding, _STYLES[finding.severity], None, "")
    more = "…" if len(example.text) > _LONGEST_EXAMPLE else ""
    text = f"{example.text[:_LONGEST_EXAMPLE]}{more}"
    introduction = example_label(finding.outcome, finding.direction).capitalize()
    return DiffRow(finding, _STYLES[finding.severity], text, introduction)
