"""Storage of the consumers of contracts, their agreements, and proposed changes with their approvals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ForeignKey, Text, delete, func, insert, select
from sqlalchemy.orm import Mapped, mapped_column

from tidegate.contracts.compatibility.weakening import Weakening
from tidegate.contracts.document.model import Consumer
from tidegate.gateway.storage.tables import ByCodePoint, Instant, Store, Table, fields_of

_NOBODY = ""  # of an agreement to a break that touches no registered consumer; no consumer has this id

MOST_AGREEMENTS: Final = 1_000
"""Maximum agreements that are kept for one consumer of a contract; the audit log has the older ones, too."""


class ConsumerRow(Table):
    """One consumer of a contract that is registered outside of its document. `consumer` is JSON."""

    __tablename__ = "consumers"

    contract_id: Mapped[str] = mapped_column(ForeignKey("contracts.id"), primary_key=True)
    id: Mapped[str] = mapped_column(Text, primary_key=True)
    consumer: Mapped[str] = mapped_column(Text)
    registered_by: Mapped[str] = mapped_column(Text)
    registered_at: Mapped[datetime] = mapped_column(Instant)


class AcknowledgementRow(Table):
    """The agreement of one consumer to a candidate, by its fingerprint; `consumer` is "" for no consumer."""

    __tablename__ = "acknowledgements"

    contract_id: Mapped[str] = mapped_column(ForeignKey("contracts.id"), primary_key=True)
    candidate: Mapped[str] = mapped_column(Text, primary_key=True)
    consumer: Mapped[str] = mapped_column(Text, primary_key=True)
    agreed_by: Mapped[str | None] = mapped_column(Text)
    who: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime] = mapped_column(Instant)


@dataclass(frozen=True, slots=True)
class StoredConsumer:
    """A registered consumer. `registered_by` is the name of a principal."""

    contract_id: str
    consumer: Consumer
    registered_by: str
    registered_at: datetime


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The agreement of a consumer to one candidate, by the candidate's fingerprint.

    `consumer` is None for the agreement to a break that touches no registered consumer. `agreed_by` is the name of the
    person who agreed, as entered by the principal `who` that recorded it.
    """

    contract_id: str
    candidate: str
    consumer: str | None
    agreed_by: str | None
    who: str
    at: datetime


class ConsumerStore(Store):
    """Consumers and their agreements, as `stores.consumers`."""

    def find(self, contract_id: str, consumer_id: str) -> StoredConsumer | None:
        """Find one consumer of a contract; None if it is not registered."""
        row = self._session.get(ConsumerRow, (contract_id, consumer_id))
        return None if row is None else _stored(row)

    def of_contracts(self, contract_ids: Sequence[str]) -> tuple[StoredConsumer, ...]:
        """List the consumers of some contracts, by contract and id."""
        query = select(ConsumerRow).where(ConsumerRow.contract_id.in_(contract_ids))
        rows = self._session.scalars(
            query.order_by(ByCodePoint(ConsumerRow.contract_id), ByCodePoint(ConsumerRow.id))
        )
        return tuple(_stored(row) for row in rows)

    def count(self, contract_id: str) -> int:
        """Return how many consumers of a contract are stored."""
        query = select(func.count()).select_from(ConsumerRow).where(ConsumerRow.contract_id == contract_id)
        return self._session.scalar(query) or 0

    def put(self, stored: StoredConsumer) -> None:
        """Store a consumer, replacing the one with its id."""
        consumer = stored.consumer.model_dump_json(by_alias=True)
        self._session.merge(
            ConsumerRow(id=stored.consumer.id, **fields_of(stored, StoredConsumer, consumer=consumer))
        )

    def remove(self, contract_id: str, consumer_id: str) -> None:
        """Delete a consumer."""
        self._session.execute(
            delete(ConsumerRow).where(ConsumerRow.contract_id == contract_id, ConsumerRow.id == consumer_id)
        )

    def acknowledge(self, agreement: Acknowledgement) -> None:
        """Store a new agreement; keep the newest MOST_AGREEMENTS of its consumer and contract."""
        consumer = agreement.consumer or _NOBODY
        own = (AcknowledgementRow.contract_id == agreement.contract_id) & (
            AcknowledgementRow.consumer == consumer
        )
        newest = select(AcknowledgementRow.candidate).where(own).order_by(AcknowledgementRow.at.desc())
        old = self._session.scalars(newest.offset(MOST_AGREEMENTS - 1)).all()
        self._session.execute(delete(AcknowledgementRow).where(own, AcknowledgementRow.candidate.in_(old)))
        self._session.execute(
            insert(AcknowledgementRow).values(fields_of(agreement, Acknowledgement, consumer=consumer))
        )

    def acknowledgements(self, contract_id: str, candidate: str | None = None) -> tuple[Acknowledgement, ...]:
        """List the agreements to changes of a contract, oldest first; only those to `candidate`, if given."""
        query = select(AcknowledgementRow).where(AcknowledgementRow.contract_id == contract_id)
        if candidate is not None:
            query = query.where(AcknowledgementRow.candidate == candidate)
        rows = self._session.scalars(
            query.order_by(AcknowledgementRow.at, ByCodePoint(AcknowledgementRow.consumer))
        )
        return tuple(
            Acknowledgement(**fields_of(row, Acknowledgement, consumer=row.consumer or None)) for row in rows
        )

    def withdraw(self, contract_id: str, consumer_id: str) -> None:
        """Delete the agreements of a consumer, because its declaration has changed."""
        self._session.execute(
            delete(AcknowledgementRow).where(
                AcknowledgementRow.contract_id == contract_id, AcknowledgementRow.consumer == consumer_id
            )
        )


def _stored(row: ConsumerRow) -> StoredConsumer:
    consumer = Consumer.model_validate_json(row.consumer)
    return StoredConsumer(**fields_of(row, StoredConsumer, consumer=consumer))


MOST_PROPOSALS = 20
"""Maximum proposals that are kept for one contract; a new one replaces the oldest."""


class ProposalRow(Table):
    """One proposed change of the enforced contract. `weakenings` is a JSON list."""

    __tablename__ = "proposals"

    contract_id: Mapped[str] = mapped_column(ForeignKey("contracts.id"), primary_key=True)
    base: Mapped[str] = mapped_column(Text, primary_key=True)
    candidate: Mapped[str] = mapped_column(Text, primary_key=True)
    version: Mapped[str] = mapped_column(Text)
    weakenings: Mapped[str] = mapped_column(Text)
    proposed_by: Mapped[str] = mapped_column(Text)
    proposed_at: Mapped[datetime] = mapped_column(Instant)
    approved_by: Mapped[str | None] = mapped_column(Text)
    approved_at: Mapped[datetime | None] = mapped_column(Instant)


@dataclass(frozen=True, slots=True)
class WeakeningProposal:
    """A proposed change that weakens the enforced contract.

    `base` and `candidate` are the fingerprints of the enforced version and of the one that would be. `version` is the
    candidate's, "" if no version would be left. `proposed_by` and `approved_by` are the names of two principals.
    """

    contract_id: str
    base: str
    candidate: str
    version: str
    weakenings: tuple[Weakening, ...]
    proposed_by: str
    proposed_at: datetime
    approved_by: str | None = None
    approved_at: datetime | None = None


class ProposalStore(Store):
    """Proposals, as `stores.proposals`."""

    def find(self, contract_id: str, base: str, candidate: str) -> WeakeningProposal | None:
        """Find one proposal by its key."""
        row = self._session.get(ProposalRow, (contract_id, base, candidate))
        return None if row is None else _proposal(row)

    def of_contract(self, contract_id: str) -> tuple[WeakeningProposal, ...]:
        """List the proposals of a contract, oldest first."""
        query = select(ProposalRow).where(ProposalRow.contract_id == contract_id)
        rows = self._session.scalars(
            query.order_by(ProposalRow.proposed_at, ByCodePoint(ProposalRow.candidate))
        )
        return tuple(_proposal(row) for row in rows)

    def put(self, proposal: WeakeningProposal) -> None:
        """Store a proposal; delete those with another base, and the oldest above `MOST_PROPOSALS`."""
        serialized = json.dumps([asdict(each) for each in proposal.weakenings])
        self._session.merge(ProposalRow(**fields_of(proposal, WeakeningProposal, weakenings=serialized)))
        self._session.flush()
        kept = [each for each in self.of_contract(proposal.contract_id) if each.base == proposal.base]
        self._session.execute(
            delete(ProposalRow).where(
                ProposalRow.contract_id == proposal.contract_id, ProposalRow.base != proposal.base
            )
        )
        for old in kept[:-MOST_PROPOSALS]:
            self.remove(old)

    def remove(self, proposal: WeakeningProposal) -> None:
        """Delete a proposal."""
        key = (proposal.contract_id, proposal.base, proposal.candidate)
        self._session.delete(self._session.get_one(ProposalRow, key))
        self._session.flush()


def _proposal(row: ProposalRow) -> WeakeningProposal:
    weakenings = tuple(Weakening(**each) for each in json.loads(row.weakenings))
    return WeakeningProposal(**fields_of(row, WeakeningProposal, weakenings=weakenings))
