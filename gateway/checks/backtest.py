"""Compare two versions of a contract on the same records: which records only one of them refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.formats.writers import WriterSchemas
from tidegate.contracts.infer.values import Occurrences
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.registry_client.subject_schemas import SubjectSchemas
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation

Positions = npt.NDArray[np.int64]
T = TypeVar("T")
COLUMNS_NOTE: Final = "The job judges columns for tables, and for topics if the contract has expectations."
"""Printed where columns have refused records: a stream into a topic may write these."""
_INDEX = re.compile(r"/[0-9]+(?=/|$)")


@dataclass(frozen=True, slots=True)
class Records:
    """A block of records: values (large_binary), positions in the source, moments, and schema headers if any."""

    values: pa.Array
    positions: Positions
    moments: Moments
    headers: pa.Array | None = None

    def filter(self, mask: npt.NDArray[np.bool_]) -> Records:
        """Return the records where `mask` is true."""
        wanted = pa.array(mask)
        headers = None if self.headers is None else self.headers.filter(wanted)
        return replace(
            self,
            values=self.values.filter(wanted),
            positions=self.positions[mask],
            moments=self.moments.filter(wanted),
            headers=headers,
        )


class Version:
    """A contract version that judges records, also by its columns.

    `schemas` are the writer schemas of a registry; `writers` returns those of the files that are read, or None.
    """

    def __init__(
        self,
        plan: EnforcementPlan,
        schemas: SubjectSchemas | None = None,
        writers: Callable[[], WriterSchemas | None] = lambda: None,
    ) -> None:
        self.plan = plan
        self._schemas = schemas
        self._writers = writers
        self._refusing = _refusing_rules(plan.contract)

    def refused(self, records: Records) -> npt.NDArray[np.bool_]:
        """Return for each record whether it is refused. Raises Unavailable for a writer schema that cannot be looked up."""

        def judge(plan: EnforcementPlan) -> pa.StructArray:
            return plan.judge_typed(records.values, records.moments, self._headers(plan, records))

        dispositions = self._with_schemas(judge).field("disposition").to_numpy(zero_copy_only=False)
        found: npt.NDArray[np.bool_] = dispositions > int(Disposition.ALERTED)
        return found

    def verdicts(self, records: Records) -> list[Verdict]:
        """Return the verdicts with their violations. Raises Unavailable as `refused` does."""

        def explain(plan: EnforcementPlan) -> list[Verdict]:
            headers = self._headers(plan, records)
            return list(plan.explain_each(records.values, records.moments, headers, typed=True))

        return self._with_schemas(explain)

    def causes(self, verdict: Verdict) -> frozenset[tuple[Stage, str, str]]:
        """Return the causes of a refusal: stage, code, and pointer with `*` for array indices."""
        return frozenset(
            (each.stage, each.code, _INDEX.sub("/*", each.pointer))
            for each in verdict.violations
            if self._refuses(each)
        )

    def _refuses(self, violation: Violation) -> bool:
        if violation.stage is Stage.RULE:
            return violation.code in self._refusing
        return violation.severity is Severity.ERROR

    def _with_schemas(self, ask: Callable[[EnforcementPlan], T]) -> T:
        if self._schemas is None:
            return ask(self.plan.with_writers(self._writers()))
        try:
            return ask(self.plan.with_writers(self._schemas.known()))
        except Unavailable:
            # The records exist already, so an id that the registry does not list now is not a schema of theirs.
            return ask(self.plan.with_writers(self._schemas.current()))

    @staticmethod
    def _headers(plan: EnforcementPlan, records: Records) -> pa.Array | None:
        return None if plan.writers is None else records.headers


def _refusing_rules(contract: DataContract) -> frozenset[str]:
    """Return the ids of the rules that refuse a record."""
    return frozenset(
        rule.id
        for rule in contract.rules
        if rule.severity is Severity.ERROR
        and (rule.on_violation or contract.on_violation) != OnViolation.ALERT
    )


@dataclass(slots=True)
class ChangedVerdicts:
    """The records whose verdict differs: their total, and their number by cause."""

    records: Occurrences = field(default_factory=Occurrences)
    causes: dict[tuple[Stage, str, str], Occurrences] = field(default_factory=dict)

    def add(self, version: Version, records: Records) -> None:
        """Count records that only `version` refuses."""
        self.records.add_counted(len(records.positions), records.positions.tolist())
        for verdict, position in zip(version.verdicts(records), records.positions.tolist(), strict=True):
            for cause in version.causes(verdict):
                self.causes.setdefault(cause, Occurrences()).add_counted(1, [position])


@dataclass(slots=True)
class Backtest:
    """A comparison of two versions: it judges records by both, and counts the differences."""

    candidate: Version
    base: Version
    records: int = 0
    refused_by_candidate: int = 0
    refused_by_base: int = 0
    newly_refused: ChangedVerdicts = field(default_factory=ChangedVerdicts)
    newly_passing: ChangedVerdicts = field(default_factory=ChangedVerdicts)

    def add(self, records: Records) -> None:
        """Judge records by both versions, and count the differences."""
        new, old = self.candidate.refused(records), self.base.refused(records)
        self.records += len(records.positions)
        self.refused_by_candidate += int(new.sum())
        self.refused_by_base += int(old.sum())
        if (mask := new & ~old).any():
            self.newly_refused.add(self.candidate, records.filter(mask))
        if (mask := old & ~new).any():
            self.newly_passing.add(self.base, records.filter(mask))


@dataclass(frozen=True, slots=True)
class ChangeCause:
    """One cause of a change, with the number of records and the places of the first ones."""

    stage: str
    code: str
    pointer: str
    records: int
    first: str


@dataclass(frozen=True, slots=True)
class BacktestReport:
    """The result of a backtest. `unread` says why some records were not judged; None if all were.

    With `may_be_empty`, a backtest without records does not fail.
    """

    candidate: str
    base: str
    source: str
    backtest: Backtest
    newly_refused: tuple[ChangeCause, ...]
    newly_passing: tuple[ChangeCause, ...]
    max_newly_refused: float | None
    unread: str | None = None
    may_be_empty: bool = False

    @property
    def newly_refused_share(self) -> float:
        """Return the share of records, 0 to 1, that only the candidate refuses."""
        return self.backtest.newly_refused.records.count / max(self.backtest.records, 1)

    @property
    def has_column_causes(self) -> bool:
        """Return whether columns changed a verdict."""
        return any(each.stage == Stage.COLUMN for each in (*self.newly_refused, *self.newly_passing))

    @property
    def failed(self) -> bool:
        """Return whether the backtest fails: no records were judged, or the candidate refuses too many."""
        return self.is_empty or self.refuses_too_many

    @property
    def is_empty(self) -> bool:
        """Return whether no record was judged and this is a failure."""
        return not self.backtest.records and not self.may_be_empty

    @property
    def refuses_too_many(self) -> bool:
        """Return whether the share of newly refused records is above `max_newly_refused`."""
        return self.max_newly_refused is not None and self.newly_refused_share > self.max_newly_refused


def differences(change: ChangedVerdicts, places: Callable[[Sequence[int]], str]) -> Iterator[ChangeCause]:
    """Yield the causes of a change, the most frequent first; `places` names positions."""
    for cause, tally in sorted(change.causes.items(), key=lambda pair: (-pair[1].count, pair[0])):
        stage, code, pointer = cause
        yield ChangeCause(stage.value, code, pointer, tally.count, places(tally.first))
