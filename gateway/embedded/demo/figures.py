"""The figures of a finished demo, and the checks of its counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.verdict import Severity
from tidegate.gateway.embedded.demo.outcome import DemoRefusal, StreamOutcome
from tidegate.gateway.embedded.demo.stream import PARTITIONS, DemoStream


class CorruptionFigures(BaseModel):
    """Number of records that were corrupted in one way, and how many of them were refused for that reason."""

    model_config = ConfigDict(frozen=True)

    planted: int
    caught: int


class StreamFigures(BaseModel):
    """The figures of one stream. `in` counts the records of its topic."""

    model_config = ConfigDict(frozen=True, serialize_by_alias=True)

    received: int = Field(serialization_alias="in")
    accepted: int
    quarantined: int
    dropped: int
    refused_by_rule: dict[str, int]
    corruptions: dict[str, CorruptionFigures]
    wrongly_refused: int
    records_per_second: int


class DemoReport(BaseModel):
    """The report of `tidegate demo --report`. Seconds count from the start of the command."""

    model_config = ConfigDict(frozen=True, serialize_by_alias=True)

    streams: dict[str, StreamFigures]
    seconds_to_first_verdict: float
    seconds: float


@dataclass(frozen=True, slots=True)
class StreamResult:
    """The figures of a stream, and a sentence for each count that is wrong.

    `reasons` has a sentence for each code of `refused_by_rule`; `warned_by_rule` counts records with warnings.
    """

    figures: StreamFigures
    reasons: dict[str, str]
    warned_by_rule: dict[str, int]
    problems: tuple[str, ...]


def settle(stream: DemoStream, outcome: StreamOutcome, batches: Sequence[BatchReport]) -> StreamResult:
    """Compare the sent records with the outputs, and with the reports of the job."""
    # By index: a duplicate counts once here, and `_unsettled` reports it.
    found = {stream.index(record.evidence.source): record for record in outcome.refused}
    caught = Counter(
        stream.marks[index].kind for index, record in found.items() if _is_caught(stream, record)
    )
    expected = Counter(mark.kind for mark in stream.marks.values())
    refused_by_rule = Counter(code for record in outcome.refused for code in _broken_rules(record))
    marks = {kind: CorruptionFigures(planted=count, caught=caught[kind]) for kind, count in expected.items()}
    figures = StreamFigures(
        received=outcome.received,
        accepted=outcome.table.num_rows,
        quarantined=len(outcome.refused),
        dropped=outcome.ledger.totals.dropped,
        refused_by_rule=dict(refused_by_rule.most_common()),
        corruptions=marks if stream.is_corrupted else {},
        wrongly_refused=len(found.keys() - stream.marks.keys()),
        records_per_second=_rate(batches),
    )
    problems = (
        *_unsettled(stream, outcome, figures),
        *_misjudged(marks, figures),
        *_contradictions(figures, batches),
    )
    return StreamResult(figures, _reasons(outcome.refused), _by_rule(batches, Severity.WARNING), problems)


def _is_caught(stream: DemoStream, record: DemoRefusal) -> bool:
    """Return whether a record was marked, and was refused for the expected reason."""
    mark = stream.marks.get(stream.index(record.evidence.source))
    return mark is not None and any(
        (violation.stage, violation.code) == (mark.stage, mark.code)
        for violation in record.evidence.violations
    )


def _broken_rules(record: DemoRefusal) -> set[str]:
    return {
        violation.code for violation in record.evidence.violations if violation.severity is Severity.ERROR
    }


def _reasons(refused: Sequence[DemoRefusal]) -> dict[str, str]:
    """Return the most frequent sentence for each code."""
    sentences = Counter(
        (violation.code, violation.message) for record in refused for violation in record.evidence.violations
    )
    # From the rarest to the most frequent sentence, because the last one of a code is kept.
    return {code: message for (code, message), _ in reversed(sentences.most_common())}


def _unsettled(stream: DemoStream, outcome: StreamOutcome, figures: StreamFigures) -> Iterator[str]:
    """Yield a sentence for each kind of sent records that are lost, duplicated or changed."""
    sent = stream.records.num_rows
    if figures.received != sent:
        yield f"{sent:,} records were sent, the topic holds {figures.received:,}"
    settled = figures.accepted + figures.quarantined + figures.dropped
    if settled != figures.received:
        yield f"{figures.received:,} records in, but {settled:,} accepted, quarantined or dropped"
    twice, nowhere = _repeated_and_lost(stream, outcome)
    if twice:
        yield f"{twice:,} records are in the outputs more than once"
    if nowhere != figures.dropped:
        yield f"{nowhere:,} records are in no output, and {figures.dropped:,} were dropped"
    altered = sum(not _is_as_sent(stream, record) for record in outcome.refused)
    if altered:
        yield f"{altered:,} quarantined records are not byte for byte what was sent"


def _misjudged(marks: Mapping[str, CorruptionFigures], figures: StreamFigures) -> Iterator[str]:
    """Yield a sentence for corrupted records that were not refused, and for refused records that were not corrupted."""
    for kind, count in marks.items():
        if count.caught != count.planted:
            yield f"{kind}: {count.planted:,} records must be refused for it, {count.caught:,} were"
    if figures.wrongly_refused:
        yield f"{figures.wrongly_refused:,} records were refused that are right"


def _contradictions(figures: StreamFigures, batches: Sequence[BatchReport]) -> Iterator[str]:
    """Yield a sentence for each count that differs from the job's reports, which the desk shows."""
    reported = {
        "records": (sum(batch.records for batch in batches), figures.received),
        "accepted": (sum(batch.written for batch in batches), figures.accepted),
        "quarantined": (sum(batch.quarantined for batch in batches), figures.quarantined),
        "dropped": (sum(batch.dropped for batch in batches), figures.dropped),
    }
    for what, (said, found) in reported.items():
        if said != found:
            yield f"the job reported {said:,} {what}, and there are {found:,}"
    # The reports count dropped records by rule too, but no topic has them for a second count.
    if not figures.dropped and _by_rule(batches, Severity.ERROR) != figures.refused_by_rule:
        yield "the job's counts by rule are not those of the quarantine topic"


def _repeated_and_lost(stream: DemoStream, outcome: StreamOutcome) -> tuple[int, int]:
    """Return the number of repeated records in the outputs, and of records in no output."""
    source = outcome.table["_source"]
    offsets, partitions = (
        pc.cast(pc.struct_field(source, name), pa.int64()) for name in ("offset", "partition")
    )
    accepted = pc.add(pc.multiply(offsets, PARTITIONS), partitions)
    refused = pa.array([stream.index(record.evidence.source) for record in outcome.refused], pa.int64())
    places = pa.chunked_array([*accepted.chunks, refused])
    distinct = len(places.unique())
    return len(places) - distinct, stream.records.num_rows - distinct


def _is_as_sent(stream: DemoStream, record: DemoRefusal) -> bool:
    index = stream.index(record.evidence.source)
    if index >= stream.records.num_rows:
        return False
    sent = {name: stream.records[name][index].as_py() for name in ("key", "value")}
    return sent == {"key": record.key, "value": record.value}


def _by_rule(batches: Sequence[BatchReport], severity: Severity) -> dict[str, int]:
    """Return the number of records by rule, most frequent first."""
    counts: Counter[str] = Counter()
    for batch in batches:
        counts.update({rule.code: rule.records for rule in batch.rules if rule.severity is severity})
    return dict(counts.most_common())


def _rate(batches: Sequence[BatchReport]) -> int:
    """Return the records per second from the start of the first batch to the end of the last."""
    begun = min(batch.started_at for batch in batches)
    ended = max(batch.committed_at for batch in batches)
    return round(sum(batch.records for batch in batches) / (ended - begun).total_seconds())
