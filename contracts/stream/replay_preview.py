"""Previews of replays: which refused records would pass, and why the others would fail. No value is kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

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
from tidegate.contracts.stream.evidence import Original
from tidegate.contracts.stream.replay import Untouched
from tidegate.contracts.verdict import Verdict


def fix_for(fix: Fix, plan: EnforcementPlan) -> RecordFix:
    """Return the compiled fix for the records of a plan. Raises ConflictError if a fix cannot change such records."""
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
    """A refused record as it was in its source; `judged_at` is in nanoseconds since 1970 UTC."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    judged_at: int

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None, original: Original, kafka_ms: int) -> Self:
        """Return a record of the quarantine topic; `kafka_ms` is its timestamp there.

        Older records lack headers. The source time then defaults to `kafka_ms`, and the moment of judging to the source
        time.
        """
        at = kafka_ms if original.timestamp_ms is None else original.timestamp_ms
        judged_at = at * 1_000_000 if original.judged_at is None else original.judged_at
        return cls(key, value, original.headers, at, judged_at)


@dataclass(slots=True)
class ReplayPreview:
    """The number of records that would be written or discarded, and of those that would stay refused, by reason.

    `changed` counts the records that the fix changes. A record counts once under each of its reasons. `present` counts
    the passing records whose primary key is already in the table; None if it was not looked up.
    """

    passing: int = 0
    failing: int = 0
    changed: int = 0
    present: int | None = None
    reasons: Counter[RuleKey] = field(default_factory=Counter)
    untouched: Counter[Untouched] = field(default_factory=Counter)

    @property
    def judged(self) -> int:
        """Return the number of records that would be judged."""
        return self.passing + self.failing

    def add(
        self, records: Iterable[RefusedRecord], plan: EnforcementPlan, fix: RecordFix | None
    ) -> list[JudgedAgain]:
        """Fix and judge records, and count them; return those that pass."""
        passing = []
        for each in judged_again(records, plan, fix):
            self.changed += each.value is not each.record.value
            if each.verdict.disposition.is_written:
                passing.append(each)
                continue
            self.failing += 1
            for reason in rule_keys(each.verdict.violations):
                self.reasons[reason] += 1
        self.passing += len(passing)
        return passing


@dataclass(frozen=True, slots=True)
class JudgedAgain:
    """A refused record, its value after the fix (the same object if unchanged), and its new verdict."""

    record: RefusedRecord
    value: bytes | None
    verdict: Verdict


def judged_again(
    records: Iterable[RefusedRecord], plan: EnforcementPlan, fix: RecordFix | None
) -> Iterator[JudgedAgain]:
    """Yield fixed and judged records in no particular order; those with equal `judged_at` are judged together."""
    for moment, together in _by_moment(records):
        values = [each.value if fix is None else fix.apply(each.value) for each in together]
        *judged, keys = _arrays(together, values, plan)
        verdicts = plan.with_now(moment).explain_each(*judged, typed=True, keys=keys)
        yield from map(JudgedAgain, together, values, verdicts)


def primary_keys(passing: Iterable[JudgedAgain], plan: EnforcementPlan) -> pa.Table:
    """Return the primary keys of passing records in any order, typed and masked as in the contract's table."""
    names = plan.contract.primary_key
    value_of = {id(each.record): each.value for each in passing}
    found = []
    for moment, together in _by_moment(each.record for each in passing):
        arrays = _arrays(together, [value_of[id(each)] for each in together], plan)
        columns = plan.with_now(moment).judge_typed(*arrays).field(2)
        found.append(pa.table([pc.struct_field(columns, name) for name in names], names=[*names]))
    return pa.concat_tables(found)


def _by_moment(records: Iterable[RefusedRecord]) -> Iterable[tuple[int, list[RefusedRecord]]]:
    by_moment: dict[int, list[RefusedRecord]] = {}
    for record in records:
        by_moment.setdefault(record.judged_at, []).append(record)
    return by_moment.items()


def _arrays(
    records: list[RefusedRecord], values: list[bytes | None], plan: EnforcementPlan
) -> tuple[pa.Array, Moments, pa.Array | None, pa.Array]:
    """Return the arguments of a plan: values, moments, schema headers (None if unused) and keys."""
    headers = None
    if plan.reads_headers:
        headers = pa.array([schema_header(each.headers) for each in records], pa.binary())
    moments = Moments(records=pa.array([each.timestamp_ms for each in records], pa.timestamp("ms")))
    return (
        pa.array(values, pa.binary()),
        moments,
        headers,
        pa.array([each.key for each in records], pa.binary()),
    )
