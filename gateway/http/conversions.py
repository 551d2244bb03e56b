"""Conversions of domain objects to the response models of the native API.

The models in `models` do not import domain services, so that clients can use them too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from tidegate.contracts.document.terms import subject_of
from tidegate.gateway.http.models.answers import (
    CompatibilityGroupInfo,
    CompatibilityGroupList,
    ContractDetail,
    ContractList,
    EnforcementInfo,
    JudgementInfo,
    ProblemPlace,
    PublicationReceipt,
    PublishedContract,
    RefusalCount,
    RefusalSlice,
    StreamInfo,
    VerdictInfo,
    VersionInfo,
    ViolationInfo,
)
from tidegate.gateway.http.models.changes import (
    ChangeInfo,
    ComparisonInfo,
    ConsumerInfo,
    ProposalInfo,
    WeakeningInfo,
)
from tidegate.gateway.registry.approvals import next_step
from tidegate.gateway.registry.changes import Review
from tidegate.gateway.registry.compatibility_groups import CompatibilityGroups
from tidegate.gateway.registry.consumers import KnownConsumer
from tidegate.gateway.registry.judging import JudgedRecords
from tidegate.gateway.registry.publication import Publication, PublishedContracts
from tidegate.gateway.storage.agreements import WeakeningProposal
from tidegate.gateway.storage.sql import ContractVersion
from tidegate.gateway.streams.reports import Enforcement, RefusalBucket
from tidegate.gateway.streams.status import status_of
from tidegate.gateway.streams.summaries import StreamSummary

Readers = Mapping[int, tuple[str, ...]]
"""The ids of the consumers that still read a deprecated version, by the version's registry id."""


def version_info(version: ContractVersion, readers: Readers) -> VersionInfo:
    """Convert a stored version; a deprecated one lists the consumers that still read it."""
    info = VersionInfo.model_validate(version)
    return info.model_copy(update={"read_by": readers.get(version.registry_id)})


def published_contract(version: ContractVersion, readers: Readers) -> PublishedContract:
    """Convert a stored version, with the id and topic of its contract."""
    info = version_info(version, readers).model_dump()
    return PublishedContract(id=version.contract_id, topic=version.topic, **info)


def compatibility_groups(found: CompatibilityGroups) -> CompatibilityGroupList:
    """Convert the compatibility groups of a contract."""
    groups = tuple(
        CompatibilityGroupInfo(group=each.name, version=each.version, schemas=each.schemas)
        for each in found.groups
    )
    return CompatibilityGroupList(setting=found.setting, newest=found.newest, groups=groups)


def publication_receipt(
    publication: Publication, readers: Readers, enforcement: Enforcement
) -> PublicationReceipt:
    """Convert a publication: the stored version, whether a job enforces the contract, and warnings."""
    published = published_contract(publication.version, readers).model_dump()
    return PublicationReceipt(
        **published,
        enforcement=EnforcementInfo.model_validate(enforcement),
        warnings=tuple(map(ProblemPlace.model_validate, publication.warnings)),
    )


def contract_list(page: PublishedContracts, readers: Readers, offset: int, limit: int) -> ContractList:
    """Convert one page of the list of contracts."""
    contracts = tuple(published_contract(version, readers) for version in page.contracts)
    return ContractList(contracts=contracts, total=page.total, offset=offset, limit=limit)


def contract_detail(
    versions: tuple[ContractVersion, ...], readers: Readers, enforcement: Enforcement
) -> ContractDetail:
    """Convert the versions of one contract (at least one), with whether a job enforces it."""
    return ContractDetail(
        id=versions[0].contract_id,
        topic=versions[0].topic,
        subject=subject_of(versions[0].topic),
        enforcement=EnforcementInfo.model_validate(enforcement),
        versions=tuple(version_info(version, readers) for version in versions),
    )


def judgement_info(judgement: JudgedRecords) -> JudgementInfo:
    """Convert a judgement: its verdicts, and the number of records by disposition."""
    verdicts = tuple(
        VerdictInfo(
            disposition=verdict.disposition.name.lower(),
            violations=tuple(
                ViolationInfo(
                    stage=each.violation.stage,
                    code=each.violation.code,
                    pointer=each.violation.pointer,
                    severity=each.violation.severity,
                    message=each.violation.message,
                    sentence=each.sentence,
                    description=each.description,
                    passes=each.passes,
                )
                for each in explanations
            ),
        )
        for verdict, explanations in zip(judgement.verdicts, judgement.explanations, strict=True)
    )
    version = judgement.version
    return JudgementInfo(
        contract=f"{version.contract_id}@{version.version}",
        fingerprint=version.fingerprint,
        counts=Counter(verdict.disposition for verdict in verdicts),
        verdicts=verdicts,
    )


def stream_info(summary: StreamSummary, now: datetime) -> StreamInfo:
    """Convert the summary of a stream, with its status at the time `now`."""
    shown = {name: getattr(summary, name) for name in StreamInfo.model_fields.keys() - {"status"}}
    return StreamInfo.model_validate(shown | {"status": status_of(summary, now)}, from_attributes=True)


def refusal_slice(bucket: RefusalBucket) -> RefusalSlice:
    """Convert the refusals of one time slice, most frequent violations first."""
    counts = (
        RefusalCount(stage=stage, code=code, records=records)
        for (stage, code), records in bucket.counts.items()
    )
    ordered = tuple(sorted(counts, key=lambda count: (-count.records, count.stage, count.code)))
    return RefusalSlice(start=bucket.start, end=bucket.end, counts=ordered)


def change_info(review: Review) -> ChangeInfo:
    """Convert a review: what a candidate version breaks, for which consumers, and which have not agreed yet."""
    return ChangeInfo(
        contract=review.contract_id,
        version=review.version,
        candidate=review.candidate,
        level=review.level,
        is_publishable=review.is_publishable,
        is_breaking=bool(review.breaking),
        is_new_major=review.is_new_major,
        affected=review.affected,
        unaffected=review.unaffected,
        acknowledged=review.acknowledged,
        unacknowledged=review.missing,
        needs_break_acknowledged=review.needs_break_acknowledged,
        comparisons=tuple(map(ComparisonInfo.model_validate, review.comparisons)),
    )


def consumer_info(known: KnownConsumer) -> ConsumerInfo:
    """Convert a consumer. `registered_by` is None for one that is only named in a contract document."""
    registered = known.registered
    return ConsumerInfo(
        **known.consumer.model_dump(include={"id", "team", "reads", "assumes"}),
        registered_by=registered.registered_by if registered else None,
        registered_at=registered.registered_at if registered else None,
    )


def proposal_info(proposal: WeakeningProposal) -> ProposalInfo:
    """Convert a change that needs an approval, with the next step towards it."""
    return ProposalInfo(
        contract=proposal.contract_id,
        version=proposal.version,
        base=proposal.base,
        candidate=proposal.candidate,
        weakenings=tuple(map(WeakeningInfo.model_validate, proposal.weakenings)),
        proposed_by=proposal.proposed_by,
        proposed_at=proposal.proposed_at,
        approved_by=proposal.approved_by,
        approved_at=proposal.approved_at,
        next_step=next_step(proposal),
    )
