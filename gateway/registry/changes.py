"""Breaking changes of a candidate: the affected consumers, and those that have not agreed yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.contracts.compatibility.compare import compare_for, suggested_version
from tidegate.contracts.compatibility.consumers import unacknowledged
from tidegate.contracts.compatibility.finding import Comparison, Finding, FindingSeverity, is_transitive
from tidegate.contracts.document.fingerprint import fingerprint
from tidegate.contracts.document.load import dump_contract
from tidegate.contracts.document.model import Compatibility, Consumer, DataContract
from tidegate.contracts.document.semver import major_of, next_major, precedence
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ConflictError
from tidegate.gateway.registry.proofs import proven
from tidegate.gateway.registry.schema_compatibility import LENIENT, Earlier, check_compatibility
from tidegate.gateway.registry.schemas.entities import Config
from tidegate.gateway.registry.subject_contracts import parsed_contract_schema
from tidegate.gateway.registry.subject_scope import ENFORCED, config_of
from tidegate.gateway.storage.sql import Stores

_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Review:
    """The changes of a candidate against the version that is enforced before it.

    `candidate` is its fingerprint, which agreements name. `comparisons` has one for each version that the level
    requires, the newest first. These have the candidate's major version; a new major version (`is_new_major`) is
    compared with the newest version before it. It is empty for the first version. `acknowledged` are the consumers
    that agreed to this candidate; `is_break_acknowledged` is True if someone agreed to a break that touches no
    registered consumer.
    """

    contract_id: str
    version: str
    candidate: str
    level: Compatibility
    comparisons: tuple[Comparison, ...]
    is_new_major: bool
    acknowledged: tuple[str, ...]
    is_break_acknowledged: bool

    @property
    def breaking(self) -> tuple[Finding, ...]:
        """Return the findings that the level forbids, those of the newest version first."""
        found = (finding for comparison in self.comparisons for finding in comparison.findings)
        return tuple(each for each in found if each.severity is FindingSeverity.BREAKING)

    @property
    def affected(self) -> tuple[str, ...]:
        """Return the consumers that a breaking finding touches, sorted."""
        return tuple(sorted({consumer for finding in self.breaking for consumer in finding.consumers}))

    @property
    def unaffected(self) -> tuple[str, ...]:
        """Return the other registered consumers, sorted."""
        known = {name for one in self.comparisons for name in (*one.affected, *one.unaffected)}
        return tuple(sorted(known - set(self.affected)))

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the consumers that still have to agree, sorted; empty for a new major version."""
        if self.is_new_major:
            return ()
        agreed = self.acknowledged
        asked = (unacknowledged(one, agreed, version=one.against) for one in self.comparisons)
        return tuple(sorted({consumer for consumers in asked for consumer in consumers}))

    @property
    def needs_break_acknowledged(self) -> bool:
        """Return whether a person must confirm a break that affects no registered consumer."""
        is_break = bool(self.breaking) and not self.is_new_major and not self.affected
        return is_break and not self.is_break_acknowledged

    @property
    def is_publishable(self) -> bool:
        """Return whether the change is compatible, agreed to, or a new major version."""
        return not self.missing and not self.needs_break_acknowledged


class BreakingChange(ConflictError):  # noqa: N818 - named for what was asked
    """A candidate that breaks the enforced version without all required agreements; `review` has the details."""

    def __init__(self, message: str, review: Review) -> None:
        super().__init__(message, review)
        self.review = review


def check_publication(stores: Stores, contract: DataContract) -> None:
    """Refuse a version that is to be enforced and breaks the enforced one. Raises BreakingChange."""
    found = review(stores, contract)
    if not found.is_publishable:
        raise BreakingChange(_sentence(stores, found), found)


def review(stores: Stores, contract: DataContract) -> Review:
    """Compare a contract that compiles with the enforced versions that come before it.

    The level is the subject's own, or else the one that the version before promises. Consumers are those of both
    documents and those registered separately.
    """
    before = _before(stores, contract)
    line = tuple(base for base in before if major_of(base.version) == major_of(contract.version))
    bases = line or before[:1]
    own = config_of(stores, subject_of(contract.topic))
    promised = bases[0].compatibility if bases else contract.compatibility
    level = Compatibility(own.level) if own is not None and own.level else promised
    asked = bases if line and is_transitive(level) else bases[:1]
    apart = tuple(each.consumer for each in stores.consumers.of_contracts((contract.id,)))
    comparisons = compare_with(asked, contract, Terms(level, own.policy if own else None), apart)
    return reviewed(stores, contract, level, comparisons, is_new_major=bool(before) and not line)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a comparison: the level, and the policy; None if none is set."""

    level: Compatibility
    policy: str | None


def compare_with(
    bases: Sequence[DataContract], contract: DataContract, terms: Terms, apart: tuple[Consumer, ...]
) -> tuple[Comparison, ...]:
    """Compare a contract with each of `bases`, also for the consumers `apart`, which are registered separately.

    Under the lenient policy, findings that it accepts become warnings.
    """
    comparisons = tuple(_compared(base, contract, terms.level, apart) for base in bases)
    if terms.policy != LENIENT:
        return comparisons
    config = Config(level=terms.level.value, policy=terms.policy)
    return tuple(
        _leniently(comparison, base, contract, config)
        for comparison, base in zip(comparisons, bases, strict=True)
    )


def reviewed(
    stores: Stores,
    contract: DataContract,
    level: Compatibility,
    comparisons: tuple[Comparison, ...],
    *,
    is_new_major: bool,
) -> Review:
    """Return a review: the comparisons, and who agreed to the candidate."""
    candidate = fingerprint(contract)
    agreements = stores.consumers.acknowledgements(contract.id, candidate)
    return Review(
        contract.id,
        contract.version,
        candidate,
        level,
        comparisons,
        is_new_major=is_new_major,
        acknowledged=tuple(sorted(each.consumer for each in agreements if each.consumer is not None)),
        is_break_acknowledged=any(each.consumer is None for each in agreements),
    )


def _before(stores: Stores, contract: DataContract) -> tuple[DataContract, ...]:
    """Return the enforced versions of a contract that come before one, highest first."""
    limit = precedence(contract.version)
    return tuple(
        version.contract
        for version in stores.contracts.versions(contract.id)
        if version.precedence < limit and version.status in ENFORCED
    )


def _compared(
    base: DataContract, candidate: DataContract, level: Compatibility, apart: tuple[Consumer, ...]
) -> Comparison:
    readers = tuple(each.model_dump_json(by_alias=True) for each in apart)
    return proven(_compare_documents, dump_contract(base), dump_contract(candidate), level, readers)


def _compare_documents(
    base: bytes, candidate: bytes, level: Compatibility, apart: tuple[str, ...]
) -> Comparison:
    readers = tuple(Consumer.model_validate_json(each) for each in apart)
    before, after = (DataContract.model_validate_json(one) for one in (base, candidate))
    return compare_for(readers, before, after, level)


def _leniently(
    comparison: Comparison, base: DataContract, candidate: DataContract, config: Config
) -> Comparison:
    """Convert findings that the lenient policy accepts, such as a newly declared property, to warnings."""
    earlier = Earlier.of(f"version {base.version}", parsed_contract_schema(base))
    if not check_compatibility(parsed_contract_schema(candidate), config, (earlier,)).is_compatible:
        return comparison
    findings = tuple(
        replace(each, severity=FindingSeverity.WARNING)
        if each.severity is FindingSeverity.BREAKING and each.code.startswith("schema.")
        else each
        for each in comparison.findings
    )
    version = suggested_version(comparison.against, findings)
    return replace(comparison, findings=findings, suggested_version=version)


def _sentence(stores: Stores, found: Review) -> str:
    """Return a sentence about what breaks, for which consumers, and what to do."""
    sentences = [_finding_sentence(finding) for finding in found.breaking]
    if len(sentences) > _MOST_SHOWN:
        sentences = [*sentences[:_MOST_SHOWN], f"and {len(sentences) - _MOST_SHOWN} more"]
    highest = stores.contracts.highest_name(found.contract_id) or found.version
    if found.missing:
        agreement = f"have {', '.join(found.missing)} acknowledge the candidate {found.candidate}"
        who = ""
    else:
        agreement = f"have an approver acknowledge the candidate {found.candidate} as breaking"
        who = "No registered consumer is affected. "
    return (
        f"{found.contract_id} {found.version} is not compatible ({found.level.value}) with what is enforced: "
        f"{'; '.join(sentences)}. {who}Publish it as {next_major(highest)}, change it back, or {agreement}"
    )


def _finding_sentence(finding: Finding) -> str:
    shown = f", counterexample: {finding.counterexample.text}" if finding.counterexample else ""
    touching = f", affecting {', '.join(finding.consumers)}" if finding.consumers else ""
    field = f"{finding.field}: " if finding.field else ""
    return f"{field}{finding.sentence}{touching}{shown}"
