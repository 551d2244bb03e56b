"""The result of a table audit, as `tidegate audit-table` sends it to the registry: counts, never a value."""

from __future__ import annotations

from typing import Annotated, Self
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field, model_validator

from tidegate.contracts.stream.bounds import (
    MOST_EXPECTATIONS,
    MOST_RULES,
    LineText,
    TableText,
    VersionText,
)
from tidegate.contracts.stream.counts import Count, RuleCount
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.contracts.stream.versions import MESSAGE

_NO_FINDING = frozenset({ExpectationOutcome.MET, ExpectationOutcome.SKIPPED, ExpectationOutcome.WARNED})


class DispositionCounts(BaseModel):
    """Number of rows by disposition, as a job would decide about such a record."""

    model_config = MESSAGE

    accepted: Count = 0
    warned: Count = 0
    alerted: Count = 0
    dropped: Count = 0
    quarantined: Count = 0
    failed: Count = 0

    @property
    def refused(self) -> int:
        """Return the number of rows that would not be written."""
        return self.dropped + self.quarantined + self.failed

    @property
    def noted(self) -> int:
        """Return the number of rows that would be written although they violate a rule."""
        return self.warned + self.alerted


class TableAudit(BaseModel):
    """One audit of one table by one version of a contract. `id` is new for each audit.

    `rows` have a verdict; nothing is written or quarantined. `violations` count a row once under each rule that it violates, most frequent first. Expectations are
    judged on the rows that are not refused, as on a batch.
    """

    model_config = MESSAGE

    id: UUID
    contract: VersionText = Field(description="id@version of the contract that judged the rows.")
    fingerprint: LineText
    table: TableText = Field(description="The table as the audit named it.")
    is_whole: bool = Field(
        description="Whether all rows were judged; false: those that were added since the last audit."
    )
    since: LineText | None = Field(
        default=None, description="Version of the table whose rows are left out; null for PostgreSQL."
    )
    version: LineText | None = Field(
        default=None,
        description="Snapshot or version of the table that was judged; null for PostgreSQL, where it is a value of a row.",
    )
    reason: LineText | None = Field(
        default=None, description="Why all rows were judged, if fewer were asked for."
    )
    rows: Count
    refused: Count
    unreadable: Count = Field(
        description="Rows that the schema of an Avro contract cannot hold; not in `rows`."
    )
    dispositions: DispositionCounts
    violations: Annotated[tuple[RuleCount, ...], Field(max_length=MOST_RULES)] = ()
    expectations: Annotated[tuple[ExpectationResult, ...], Field(max_length=MOST_EXPECTATIONS)] = ()

    @property
    def contract_id(self) -> str:
        """Return the id of the contract."""
        return self.contract.rpartition("@")[0]

    @property
    def contract_version(self) -> str:
        """Return the version of the contract."""
        return self.contract.rpartition("@")[2]

    @property
    def unmet(self) -> int:
        """Return the number of expectations that are not met; warnings do not count."""
        return sum(each.outcome not in _NO_FINDING for each in self.expectations)

    @property
    def has_findings(self) -> bool:
        """Return whether a row is refused or unreadable, or an expectation is not met."""
        return bool(self.refused or self.unreadable or self.unmet)

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        counts = self.dispositions
        if self.rows != counts.accepted + counts.noted + counts.refused:
            raise ValueError("rows is not the sum of dispositions")
        if self.refused != counts.refused:
            raise ValueError("refused is not the sum of the dropped, quarantined and failed rows")
        if max((count.records for count in self.violations), default=0) > self.rows:
            raise ValueError("a rule is violated by more rows than there are")
        if len({(count.stage, count.code, count.severity) for count in self.violations}) < len(
            self.violations
        ):
            raise ValueError("a rule is counted twice in violations")
        if len({result.id for result in self.expectations}) < len(self.expectations):
            raise ValueError("an expectation stands twice in expectations")
        return self


class KeptTableAudit(BaseModel):
    """An audit that the registry keeps: who sent it, and when it arrived."""

    model_config = MESSAGE

    by: str
    at: AwareDatetime
    audit: TableAudit
