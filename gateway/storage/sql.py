"""The queries of the registry. Stores keep and find rows; what a row means is decided in `gateway.services`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, ColumnElement, Row, Select, case, func, insert, select, type_coerce
from sqlalchemy.orm import Session

from contracts.report import BatchReport
from contracts.verdict import Severity, Stage
from gateway.storage.access import KeyStore, begins_with
from gateway.storage.audit import AuditStore
from gateway.storage.consumers import ConsumerStore
from gateway.storage.controls import ControlStore
from gateway.storage.expectations import ExpectationStore
from gateway.storage.lifecycle import LifecycleStore
from gateway.storage.ordering import ByCodePoint
from gateway.storage.stream_sums import StreamSumStore
from gateway.storage.subject_settings import AssociationStore, SettingStore
from gateway.storage.subjects import SubjectStore
from gateway.storage.tables import BatchRow, BatchRuleRow, ContractRow, StreamRow, VersionRow, to_microseconds

_MICROSECOND = timedelta(microseconds=1)
_HIGHEST_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ContractVersion:
    """One published version as it is kept. `document` is canonical JSON; `number` counts from 1 per contract.

    `status` is what the version is now; the document says what it was when it was published. A deleted version is
    read by its registry id only; a purged one not at all. `note` says what of it is not enforced, and why.
    """

    registry_id: int
    contract_id: str
    number: int
    version: str
    precedence: bytes
    topic: str
    status: str
    domain: str | None
    fingerprint: str
    document: bytes
    published_at: datetime
    note: str | None = None
    deleted_at: datetime | None = None
    is_purged: bool = False


@dataclass(frozen=True, slots=True)
class VersionFilter:
    """Which contracts to list: None in a field lets every value through.

    `prefixes` are those that the subject may begin with, character by character.
    """

    status: str | None = None
    topic: str | None = None
    domain: str | None = None
    prefixes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StreamSums:
    """What one stream has done since its first batch; the `epoch_` fields since its job last started."""

    stream: str
    first_started_at: datetime
    epoch: int
    epoch_started_at: datetime
    epoch_records: int
    batches: int
    records: int
    written: int
    warned: int
    alerted: int
    quarantined: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal slices of the time from `since` on; `count` of them, each `width` long."""

    since: datetime
    width: timedelta
    count: int

    @property
    def until(self) -> datetime:
        """The first instant past the last bucket."""
        return self.since + self.width * self.count

    def starts(self) -> tuple[datetime, ...]:
        """Give the first instant of each bucket."""
        return tuple(self.since + self.width * index for index in range(self.count))


class Stores:
    """Everything that one transaction can reach."""

    def __init__(self, session: Session) -> None:
        self.contracts = ContractStore(session)
        self.reports = ReportStore(session)
        self.audit = AuditStore(session)
        self.keys = KeyStore(session)
        self.lifecycle = LifecycleStore(session)
        self.subjects = SubjectStore(session)
        self.settings = SettingStore(session)
        self.associations = AssociationStore(session)
        self.consumers = ConsumerStore(session)
        self.controls = ControlStore(session)
        self.expectations = ExpectationStore(session)
        self.sums = StreamSumStore(session)


class ContractStore:
    """Contracts and their versions."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def contract_of_topic(self, topic: str) -> str | None:
        """Give the id of the contract that owns a topic."""
        return self._session.scalar(select(ContractRow.id).where(ContractRow.topic == topic))

    def topic_of(self, contract_id: str) -> str | None:
        """Give the topic that a contract owns, None for an unknown contract."""
        return self._session.scalar(select(ContractRow.topic).where(ContractRow.id == contract_id))

    def add_contract(self, contract_id: str, topic: str, created_at: datetime) -> None:
        """Keep a new contract."""
        self._session.execute(
            insert(ContractRow).values(
                id=contract_id, topic=topic, subject=f"{topic}-value", created_at=created_at
            )
        )

    def highest_number(self, contract_id: str) -> int:
        """Give the highest number that a version of a contract has, 0 for none."""
        query = select(func.max(VersionRow.number)).where(VersionRow.contract_id == contract_id)
        return max(self._session.scalar(query) or 0, 0)

    def add_version(self, version: ContractVersion) -> ContractVersion:
        """Keep a new version under the `number` that it has; its `registry_id` is given here."""
        row = VersionRow(
            contract_id=version.contract_id,
            number=version.number,
            version=version.version,
            precedence=version.precedence,
            status=version.status,
            domain=version.domain,
            fingerprint=version.fingerprint,
            document=version.document,
            published_at=version.published_at,
            is_purged=False,
            note=version.note,
        )
        self._session.add(row)
        self._session.flush()
        return replace(version, registry_id=row.registry_id)

    def version(self, contract_id: str, version: str) -> ContractVersion | None:
        """Find one version by its name, deleted or not."""
        return self._one(
            _versions().where(VersionRow.contract_id == contract_id, VersionRow.version == version)
        )

    def by_registry_id(self, registry_id: int) -> ContractVersion | None:
        """Find one version by its global number."""
        if registry_id > _HIGHEST_ID:
            return None  # PostgreSQL would take the question for a mistake
        return self._one(_versions().where(VersionRow.registry_id == registry_id))

    def highest(self, contract_id: str, statuses: Sequence[str] | None = None) -> ContractVersion | None:
        """Find the version of highest precedence that is not deleted, among those of `statuses` (None: of any)."""
        query = _versions().where(VersionRow.contract_id == contract_id, VersionRow.deleted_at.is_(None))
        if statuses is not None:
            query = query.where(VersionRow.status.in_(statuses))
        return self._one(query.order_by(VersionRow.precedence.desc()).limit(1))

    def highest_name(self, contract_id: str, below: bytes | None = None) -> str | None:
        """Give the version of highest precedence that was ever published, deleted or not; of those below a precedence."""
        query = select(VersionRow.version).where(VersionRow.contract_id == contract_id)
        if below is not None:
            query = query.where(VersionRow.precedence < below)
        return self._session.scalar(query.order_by(VersionRow.precedence.desc()).limit(1))

    def versions(self, contract_id: str, *, deleted: bool = False) -> tuple[ContractVersion, ...]:
        """List the versions of one contract, highest precedence first; with `deleted` the soft-deleted ones too."""
        query = _versions().where(VersionRow.contract_id == contract_id, VersionRow.is_purged.is_(False))
        if not deleted:
            query = query.where(VersionRow.deleted_at.is_(None))
        return self._all(query.order_by(VersionRow.precedence.desc()))

    def page(
        self, wanted: VersionFilter, enforced: Sequence[str], offset: int, limit: int
    ) -> tuple[tuple[ContractVersion, ...], int]:
        """List contracts by id, each as its current version, and how many there are in all.

        Current is the highest version of a status in `enforced`, or without such a one the highest of any.
        """
        rank = (
            func.row_number()
            .over(
                partition_by=VersionRow.contract_id,
                order_by=(
                    case((VersionRow.status.in_(enforced), 0), else_=1),
                    VersionRow.precedence.desc(),
                ),
            )
            .label("rank")
        )
        alive = VersionRow.deleted_at.is_(None)
        ranked = select(VersionRow.registry_id, rank).where(alive).subquery()
        current = select(ranked.c.registry_id).where(ranked.c.rank == 1)
        matches = _versions().where(VersionRow.registry_id.in_(current), *_conditions(wanted))
        total = self._session.scalar(select(func.count()).select_from(matches.subquery())) or 0
        return self._all(
            matches.order_by(ByCodePoint(VersionRow.contract_id)).offset(offset).limit(limit)
        ), total

    def _one(self, query: Select[VersionRow, str]) -> ContractVersion | None:
        row = self._session.execute(query).first()
        return None if row is None else _contract_version(row)

    def _all(self, query: Select[VersionRow, str]) -> tuple[ContractVersion, ...]:
        return tuple(_contract_version(row) for row in self._session.execute(query))


class ReportStore:
    """Streams and their batch reports."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def report(self, stream: str, epoch: int, n: int) -> BatchReport | None:
        """Find one report by its identity."""
        query = select(BatchRow.report).where(
            BatchRow.stream == stream, BatchRow.epoch == epoch, BatchRow.n == n
        )
        found = self._session.scalar(query)
        return None if found is None else BatchReport.model_validate_json(found)

    def add_report(self, report: BatchReport) -> None:
        """Keep a report and add it to the sums of its stream."""
        self._add_to_sums(report)
        StreamSumStore(self._session).add(report)
        row = BatchRow(
            stream=report.stream,
            epoch=report.epoch,
            n=report.n,
            committed_at=report.committed_at,
            records=report.records,
            quarantined=report.quarantined,
            dropped=report.dropped,
            report=report.model_dump_json().encode(),
        )
        self._session.add(row)
        self._session.flush()
        ExpectationStore(self._session).add(row.id, report)
        if report.rules:
            self._session.execute(
                insert(BatchRuleRow),
                [{"batch_id": row.id, **count.model_dump(mode="json")} for count in report.rules],
            )

    def sums(self) -> tuple[StreamSums, ...]:
        """Give the sums of every stream, by name."""
        rows = self._session.scalars(select(StreamRow).order_by(ByCodePoint(StreamRow.stream)))
        return tuple(_stream_sums(row) for row in rows)

    def sums_of(self, stream: str) -> StreamSums | None:
        """Give the sums of one stream, None for a stream that never reported."""
        row = self._session.get(StreamRow, stream)
        return None if row is None else _stream_sums(row)

    def last_report(self, stream: str) -> BatchReport:
        """Give the report of the batch that the ledger reached last, in whatever order they came.

        The stream has sums, so it has a report.
        """
        newest = select(BatchRow.report).where(BatchRow.stream == stream)
        query = newest.order_by(BatchRow.epoch.desc(), BatchRow.n.desc()).limit(1)
        return BatchReport.model_validate_json(self._session.scalars(query).one())

    def reports(self, stream: str, since: datetime, until: datetime, limit: int) -> tuple[BatchReport, ...]:
        """List the reports committed in [since, until), newest first, at most `limit`."""
        query = (
            select(BatchRow.report)
            .where(BatchRow.stream == stream, *_committed_in(since, until))
            .order_by(BatchRow.committed_at.desc(), BatchRow.id.desc())
            .limit(limit)
        )
        return tuple(BatchReport.model_validate_json(found) for (found,) in self._session.execute(query))

    def records_between(self, stream: str, since: datetime, until: datetime) -> int:
        """Sum the records of the batches committed in [since, until)."""
        query = select(func.sum(BatchRow.records)).where(
            BatchRow.stream == stream, *_committed_in(since, until)
        )
        return int(self._session.scalar(query) or 0)

    def records_by_bucket(self, stream: str, buckets: Buckets) -> dict[int, tuple[int, int]]:
        """Sum records and refused records by index of the bucket; empty buckets are left out."""
        bucket = _bucket_of(buckets)
        query = (
            select(bucket, func.sum(BatchRow.records), func.sum(BatchRow.quarantined + BatchRow.dropped))
            .where(BatchRow.stream == stream, *_committed_in(buckets.since, buckets.until))
            .group_by(bucket)
        )
        return {
            index: (int(records), int(refused)) for index, records, refused in self._session.execute(query)
        }

    def violations_by_bucket(
        self, stream: str, buckets: Buckets, severity: Severity
    ) -> dict[int, dict[tuple[Stage, str], int]]:
        """Count records by index of the bucket and by (stage, code), for one severity."""
        bucket = _bucket_of(buckets)
        query = (
            select(bucket, BatchRuleRow.stage, BatchRuleRow.code, func.sum(BatchRuleRow.records))
            .join(BatchRuleRow, BatchRuleRow.batch_id == BatchRow.id)
            .where(
                BatchRow.stream == stream,
                BatchRuleRow.severity == severity.value,
                *_committed_in(buckets.since, buckets.until),
            )
            .group_by(bucket, BatchRuleRow.stage, BatchRuleRow.code)
        )
        counts: dict[int, dict[tuple[Stage, str], int]] = {}
        for index, stage, code, records in self._session.execute(query):
            counts.setdefault(index, {})[Stage(stage), code] = int(records)
        return counts

    def _add_to_sums(self, report: BatchReport) -> None:
        """Add a report to its stream's row. Reports may arrive late: an older epoch changes no `epoch_` field."""
        row = self._session.get(StreamRow, report.stream, with_for_update=True)
        if row is None:
            row = StreamRow(
                stream=report.stream,
                first_started_at=report.started_at,
                epoch=report.epoch,
                epoch_started_at=report.started_at,
                **dict.fromkeys(("epoch_records", "batches", *_SUMMED), 0),
            )
            self._session.add(row)
        row.batches += 1
        row.first_started_at = min(row.first_started_at, report.started_at)
        for name in _SUMMED:
            setattr(row, name, getattr(row, name) + getattr(report, name))
        if report.epoch > row.epoch:
            row.epoch, row.epoch_started_at, row.epoch_records = report.epoch, report.started_at, 0
        if report.epoch == row.epoch:
            row.epoch_started_at = min(row.epoch_started_at, report.started_at)
            row.epoch_records += report.records
        self._session.flush()


_SUMMED = ("records", "written", "warned", "alerted", "quarantined", "dropped")


def _versions() -> Select[VersionRow, str]:
    return select(VersionRow, ContractRow.topic).join(ContractRow, ContractRow.id == VersionRow.contract_id)


def _conditions(wanted: VersionFilter) -> list[ColumnElement[bool]]:
    columns = (
        (VersionRow.status, wanted.status),
        (ContractRow.topic, wanted.topic),
        (VersionRow.domain, wanted.domain),
    )
    conditions = [column == value for column, value in columns if value is not None]
    if wanted.prefixes is not None:
        conditions.append(begins_with(ContractRow.subject, wanted.prefixes))
    return conditions


def _contract_version(found: Row[VersionRow, str]) -> ContractVersion:
    row, topic = found
    return ContractVersion(
        registry_id=row.registry_id,
        contract_id=row.contract_id,
        number=row.number,
        version=row.version,
        precedence=row.precedence,
        topic=topic,
        status=row.status,
        domain=row.domain,
        fingerprint=row.fingerprint,
        document=row.document,
        published_at=row.published_at,
        note=row.note,
        deleted_at=row.deleted_at,
        is_purged=row.is_purged,
    )


def _stream_sums(row: StreamRow) -> StreamSums:
    return StreamSums(**{name: getattr(row, name) for name in StreamSums.__slots__})


def _committed_in(since: datetime, until: datetime) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return BatchRow.committed_at >= since, BatchRow.committed_at < until


def _bucket_of(buckets: Buckets) -> ColumnElement[int]:
    since = to_microseconds(buckets.since)
    bucket: ColumnElement[int] = (type_coerce(BatchRow.committed_at, BigInteger) - since) // (
        buckets.width // _MICROSECOND
    )
    return bucket
