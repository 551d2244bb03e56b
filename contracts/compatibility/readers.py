"""Comparisons in which those take part who read a contract's records and stand in none of its documents."""

from __future__ import annotations

from dataclasses import replace

from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.finding import Comparison, Finding
from tidegate.contracts.document.model import Compatibility, Consumer, DataContract


def compare_for(
    apart: tuple[Consumer, ...], base: DataContract, candidate: DataContract, level: Compatibility
) -> Comparison:
    """Compare two versions for those who are registered apart as well: they came and went with neither document.

    Pointers of findings lead into both documents as they are written. Raises ContractError for an invalid schema.
    """
    found = compare(_with_consumers(base, apart), _with_consumers(candidate, apart), level=level)
    ends = len(candidate.consumers), len(base.consumers)
    return replace(found, findings=tuple(_in_documents(finding, *ends) for finding in found.findings))


def _with_consumers(contract: DataContract, apart: tuple[Consumer, ...]) -> DataContract:
    """Return a contract as if its document named those who are registered apart too, perhaps a second time."""
    return contract.model_copy(update={"consumers": (*contract.consumers, *apart)})


def _in_documents(finding: Finding, end: int, base_end: int) -> Finding:
    """Point to no consumer that the documents do not hold."""
    return replace(
        finding,
        pointer=_before(finding.pointer, end),
        base_pointer=_before(finding.base_pointer, base_end),
    )


def _before(pointer: str, end: int) -> str:
    head, _, index = pointer.rpartition("/")
    if head != "/consumers" or not index.isdecimal() or int(index) < end:
        return pointer
    return head if end else ""
