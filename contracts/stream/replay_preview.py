"""Previews of replays: which refused records would pass, and why the others would fail. No value is kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.contracts.document.model import AvroSchema, JsonSchema
from tidegate.contracts.errors import ConflictError
from tidegate.contracts.fix.apply import CompiledFix, RecordFix
from tidegate.contracts.fix.model import Fix
from tidegate.contracts.formats.framing import schema_header
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.stream.avro_fix import AvroFix
from tidegate.contracts.stream.counts import RuleKey
from tidegate.contracts.stream.decide import rule_keys
from tidegate.contracts.stream.replay import Untouched
from tidegate.contracts.verdict import Verdict


def fix_for(fix: Fix, plan: EnforcementPlan) -> RecordFix:
    """Return a fix that is ready for the records of a contract. Raises ConflictError for one whose records it cannot change."""
    contracts = [each.contract for each in plan.plans]
    if all(isinstance(each.schema_, JsonSchema) for each in contracts):
        return CompiledFix(fix)
    first, *others = contracts
    if others or not isinstance(first.schema_, AvroSchema):
        raise ConflictError(
            "a fix cannot change Avro records of several compatibility groups: replay without a fix, or send corrected records"
        )
    if first.framing not in {"none", "confluent-prefix"}:
        raise ConflictError(
            "a fix cannot change Avro records whose schema a header names: replay without a fix, or send corrected records"
        )
    own = json.dumps(first.schema_.definition)
    if first.framing == "none":
        return AvroFix(fix, own, None)
    if plan.writers is None:
        raise ConflictError(
            "the schemas that the records were written with are not known: no registry is at hand"
        )
    writers = {each.id: each.text for each in plan.writers.schemas if each.type == "avro"}
    return AvroFix(fix, own, writers)


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A refused record as it was in its source; `judged_at` counts nanoseconds since 1970."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    judged_at: int


@dataclass(slots=True)
class ReplayPreview:
    """The records that would be written, and those that would stay refused, by reason.

    `changed` records are changed by the fix. A record counts once under each of its reasons.
    """

    passing: int = 0
    failing: int = 0
    changed: int = 0
    reasons: Counter[RuleKey] = field(default_factory=Counter)
    untouched: Counter[Untouched] = field(default_factory=Counter)

    @property
    def judged(self) -> int:
        """Number of records that would be judged."""
        return self.passing + self.failing

    def add(self, records: Iterable[RefusedRecord], plan: EnforcementPlan, fix: RecordFix | None) -> None:
        """Fix and judge some records."""
        for each in judged_again(records, plan, fix):
            self.changed += each.value is not each.record.value
            if each.verdict.disposition.is_written:
                self.passing += 1
                continue
            self.failing += 1
            for reason in rule_keys(each.verdict.violations):
                self.reasons[reason] += 1


@dataclass(frozen=True, slots=True)
class JudgedAgain:
    """A refused record, its value after the fix (the same object when nothing changes), and its verdict."""

    record: RefusedRecord
    value: bytes | None
    verdict: Verdict


def judged_again(
    records: Iterable[RefusedRecord], plan: EnforcementPlan, fix: RecordFix | None
) -> Iterator[JudgedAgain]:
    """Fix and judge records; those with one moment of judging are judged together. In no order."""
    by_moment: dict[int, list[RefusedRecord]] = {}
    for record in records:
        by_moment.setdefault(record.judged_at, []).append(record)
    for moment, together in by_moment.items():
        yield from _judged(together, plan.with_now(moment), fix)


def _judged(
    records: list[RefusedRecord], plan: EnforcementPlan, fix: RecordFix | None
) -> Iterator[JudgedAgain]:
    values = [each.value if fix is None else fix.apply(each.value) for each in records]
    headers = None
    if plan.reads_headers:
        headers = pa.array([schema_header(each.headers) for each in records], pa.binary())
    verdicts = plan.explain_each(
        pa.array(values, pa.binary()),
        Moments(records=pa.array([each.timestamp_ms for each in records], pa.timestamp("ms"))),
        headers,
        typed=True,
        keys=pa.array([each.key for each in records], pa.binary()),
    )
    return map(JudgedAgain, records, values, verdicts)
