"""Where changes that weaken an enforced contract are kept until they take effect, with who approved them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import ForeignKey, Text, delete, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tidegate.contracts.compatibility.weakening import Weakening
from tidegate.gateway.storage.ordering import ByCodePoint
from tidegate.gateway.storage.tables import Instant, Table, fields_of

MOST_PROPOSALS = 20
"""Most proposals that are kept for one contract; a new one takes the place of the oldest."""


class ProposalRow(Table):
    """One proposed change of what is enforced. `weakenings` is a JSON list."""

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
class Proposal:
    """A change that gives up something of what is enforced.

    `base` and `candidate` are the fingerprints of what is enforced and of what would be; `version` is the candidate's,
    "" when no version would be left. `proposed_by` and `approved_by` are names of principals, always two.
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


class ProposalStore:
    """Proposals, as `stores.proposals`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find(self, contract_id: str, base: str, candidate: str) -> Proposal | None:
        """Find one proposal."""
        row = self._session.get(ProposalRow, (contract_id, base, candidate))
        return None if row is None else _proposal(row)

    def of_contract(self, contract_id: str) -> tuple[Proposal, ...]:
        """List the proposals of a contract, oldest first."""
        query = select(ProposalRow).where(ProposalRow.contract_id == contract_id)
        rows = self._session.scalars(
            query.order_by(ProposalRow.proposed_at, ByCodePoint(ProposalRow.candidate))
        )
        return tuple(_proposal(row) for row in rows)

    def put(self, proposal: Proposal) -> None:
        """Keep a proposal, and forget those of another base and the oldest above `MOST_PROPOSALS`."""
        told = json.dumps([asdict(each) for each in proposal.weakenings])
        self._session.merge(ProposalRow(**fields_of(proposal, Proposal, weakenings=told)))
        self._session.flush()
        kept = [each for each in self.of_contract(proposal.contract_id) if each.base == proposal.base]
        self._session.execute(
            delete(ProposalRow).where(
                ProposalRow.contract_id == proposal.contract_id, ProposalRow.base != proposal.base
            )
        )
        for old in kept[:-MOST_PROPOSALS]:
            self.remove(old)

    def remove(self, proposal: Proposal) -> None:
        """Forget a proposal."""
        key = (proposal.contract_id, proposal.base, proposal.candidate)
        self._session.delete(self._session.get_one(ProposalRow, key))
        self._session.flush()


def _proposal(row: ProposalRow) -> Proposal:
    told = tuple(Weakening(**each) for each in json.loads(row.weakenings))
    return Proposal(**fields_of(row, Proposal, weakenings=told))
