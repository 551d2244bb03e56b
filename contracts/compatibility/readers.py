"""Comparisons in which those take part who read a contract's records and stand in none of its documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.finding import Comparison, Finding
from tidegate.contracts.document.model import Compatibility, Consumer, DataContract


def all_consumers(document: Iterable[Consumer], apart: Iterable[Consumer]) -> tuple[Consumer, ...]:
    """Return the consumers of a document and those registered apart; who is both reads and assumes what either says."""
    consumers = {each.id: each for each in document}
    for each in apart:
        known = consumers.get(each.id)
        consumers[each.id] = each if known is None else _both(known, each)
    return tuple(consumers.values())


def with_consumers(contract: DataContract, apart: Iterable[Consumer]) -> DataContract:
    """Return a contract as if its document named those who are registered apart too."""
    return contract.model_copy(update={"consumers": all_consumers(contract.consumers, apart)})


def compare_for(
    apart: tuple[Consumer, ...], base: DataContract, candidate: DataContract, level: Compatibility
) -> Comparison:
    """Compare two versions for those who are registered apart as well: they came and went with neither document.

    Pointers of findings lead into both documents as they are written. Raises ContractError for a schema that is none.
    """
    found = compare(with_consumers(base, apart), with_consumers(candidate, apart), level=level)
    ends = len(candidate.consumers), len(base.consumers)
    return replace(found, findings=tuple(_in_documents(finding, *ends) for finding in found.findings))


def _both(one: Consumer, other: Consumer) -> Consumer:
    # Who does not say what it reads may read anything.
    reads = tuple(dict.fromkeys([*one.reads, *other.reads])) if one.reads and other.reads else ()
    assumed = [each.assumes for each in (one, other) if each.assumes is not None]
    assumes = (
        {"allOf": assumed} if len(assumed) > 1 and assumed[0] != assumed[1] else next(iter(assumed), None)
    )
    return one.model_copy(update={"reads": reads, "assumes": assumes})


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
