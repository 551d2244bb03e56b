"""The streams' state as Prometheus takes it: from the stored reports, so that a restart of the gateway loses nothing.

A stream has at most `_MOST_RULES` series of rules and `_MOST_PARTITIONS` of partitions, whatever its contract and its
topic are: the rules that were violated first keep their series, all later ones share one, so that no counter falls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.stream.control import StreamControl, StreamEvent
from tidegate.contracts.stream.reconciliation import Answer, ReconciliationResult
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.stream.shadow import ShadowFindings
from tidegate.gateway.access.principal import Principal
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.reports import StreamSums
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.stream_sums import RuleSum
from tidegate.gateway.streams.conditions import Condition, condition_of

_MOST_RULES = 200
_MOST_STEPS = 20
# An alert on 0 fires for faults alone, one on less than 1 also for what cannot be proven; the least of several is the worst.
_ANSWERS = {Answer.HOLDS: 1.0, Answer.UNPROVEN: 0.5, Answer.LOST: 0.0}
_MOST_PARTITIONS = 500
_OTHER = "other"


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What is known of one stream; `last` and `sums` are None before its first report.

    `reconciled` is the last result with findings, None before the first.
    """

    stream: str
    control: StreamControl
    event: StreamEvent | None
    sums: StreamSums | None = None
    last: BatchReport | None = None
    topic: str = ""
    rules: Sequence[RuleSum] = ()
    step_milliseconds: dict[str, int] | None = None
    shadow: ShadowFindings | None = None
    seen_at: datetime | None = None
    reconciled: ReconciliationResult | None = None


class StreamMetrics(Collector):
    """Collects the metrics of the streams that a principal may see; one state of the database a collection."""

    def __init__(self, database: Database, by: Principal) -> None:
        self._database = database
        self._by = by

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. Raises Unavailable."""
        facts = self._database.read(lambda stores: _facts(stores, self._by))
        reported = [(each, each.sums, each.last) for each in facts if each.sums and each.last]
        yield from _states(facts)
        yield from _counts([(each, sums) for each, sums, _ in reported])
        yield from _positions([(each, last) for each, _, last in reported])
        yield from _tables([last for _, _, last in reported])
        yield from _shadows([each.shadow for each in facts if each.shadow])
        yield from _times([(each, last) for each, _, last in reported])
        yield from _reconciliations([each.reconciled for each in facts if each.reconciled])


def _facts(stores: Stores, by: Principal) -> list[StreamFacts]:
    controls, events = stores.controls.all(), stores.controls.last_events()
    heartbeats = stores.controls.heartbeats()
    topics = {
        stream: topic for stream, topic in stores.contracts.topics().items() if by.sees(subject_of(topic))
    }
    facts = {}
    for sums in stores.reports.sums():
        stream = sums.stream
        if stream in topics:
            facts[stream] = StreamFacts(
                stream,
                controls.get(stream, StreamControl(stream=stream)),
                events.get(stream),
                sums,
                stores.reports.last_report(stream),
                topics[stream],
                stores.sums.rules(stream),
                stores.sums.milliseconds(stream),
                _shadow(stores, controls.get(stream)),
                heartbeats.get(stream),
                stores.reconciliations.last_findings(stream),
            )
    for stream in controls.keys() | events.keys() | heartbeats.keys():
        if stream in topics and stream not in facts:
            control = controls.get(stream, StreamControl(stream=stream))
            facts[stream] = StreamFacts(
                stream,
                control,
                events.get(stream),
                seen_at=heartbeats.get(stream),
                reconciled=stores.reconciliations.last_findings(stream),
            )
    return [facts[stream] for stream in sorted(facts)]


def _states(facts: Sequence[StreamFacts]) -> Iterator[Metric]:
    paused = GaugeMetricFamily(
        "tidegate_stream_paused", "1 while a stream is paused, else 0.", labels=["stream"]
    )
    stopped = GaugeMetricFamily(
        "tidegate_stream_stopped", "1 when a stream's job has stopped or failed, else 0.", labels=["stream"]
    )
    seen = GaugeMetricFamily(
        "tidegate_stream_heartbeat_timestamp_seconds",
        "When the job of a stream said last that it lives, in seconds since 1970 UTC.",
        labels=["stream"],
    )
    for each in facts:
        if each.seen_at is not None:
            seen.add_metric([each.stream], each.seen_at.timestamp())
        paused.add_metric([each.stream], float(each.control.is_paused))
        committed_at = each.last.committed_at if each.last else None
        condition = condition_of(StreamControl(stream=each.stream), each.event, committed_at).condition
        stopped.add_metric([each.stream], float(condition is Condition.STOPPED))
    yield from (paused, stopped, seen)


def _shadow(stores: Stores, control: StreamControl | None) -> ShadowFindings | None:
    """Return what the shadow of now has found; one that was ended has no series any more."""
    if control is None or control.shadow is None:
        return None
    found = stores.shadows.find(control.stream)
    return found if found is not None and found.result.version == control.shadow else None


def _shadows(found: Sequence[ShadowFindings]) -> Iterator[Metric]:
    records = CounterMetricFamily(
        "tidegate_shadow_records",
        "Records that a shadow version was judged on, and those that it would refuse or accept otherwise.",
        labels=["stream", "version", "outcome"],
    )
    violations = CounterMetricFamily(
        "tidegate_shadow_violations",
        "Records that a shadow version would treat otherwise, by the rule that refuses them.",
        labels=["stream", "version", "change", "stage", "code", "severity"],
    )
    failed = GaugeMetricFamily(
        "tidegate_shadow_failed",
        "1 when records could not be judged by a shadow version, else 0.",
        labels=["stream", "version"],
    )
    for each in found:
        labels = [each.stream, each.result.version]
        for outcome in ("compared", "would_refuse", "would_accept", "would_stop"):
            records.add_metric([*labels, outcome], getattr(each.result, outcome))
        for change, rules in (("refuse", each.result.refused_by), ("accept", each.result.accepted_by)):
            for rule in sorted(rules, key=lambda rule: (rule.stage, rule.code, rule.severity))[:_MOST_RULES]:
                violations.add_metric(
                    [*labels, change, rule.stage.value, rule.code, rule.severity.value], rule.records
                )
        failed.add_metric(labels, float(each.result.failure is not None))
    yield from (records, violations, failed)


def _counts(reported: Sequence[tuple[StreamFacts, StreamSums]]) -> Iterator[Metric]:
    records = CounterMetricFamily(
        "tidegate_records", "Records by what became of them.", labels=["stream", "disposition"]
    )
    flagged = CounterMetricFamily(
        "tidegate_flagged_records",
        "Written records that violate a warning, or a rule that alerts.",
        labels=["stream", "flag"],
    )
    violations = CounterMetricFamily(
        "tidegate_violations",
        "Records that violate a rule, schema keyword or column; one may count under several.",
        labels=["stream", "stage", "code", "severity"],
    )
    batches = CounterMetricFamily("tidegate_batches", "Published batches.", labels=["stream"])
    for each, sums in reported:
        for disposition in ("written", "quarantined", "dropped"):
            records.add_metric([each.stream, disposition], getattr(sums, disposition))
        for flag in ("warned", "alerted"):
            flagged.add_metric([each.stream, flag], getattr(sums, flag))
        for labels, count in _bounded(each.rules):
            violations.add_metric([each.stream, *labels], count)
        batches.add_metric([each.stream], sums.batches)
    yield from (records, flagged, violations, batches)


def _bounded(rules: Sequence[RuleSum]) -> Iterator[tuple[list[str], int]]:
    for rule in rules[:_MOST_RULES]:
        yield [rule.stage.value, rule.code, rule.severity.value], rule.records
    rest: Counter[str] = Counter()
    for rule in rules[_MOST_RULES:]:
        rest[rule.severity.value] += rule.records
    for severity, count in sorted(rest.items()):
        yield [_OTHER, _OTHER, severity], count


def _positions(reported: Sequence[tuple[StreamFacts, BatchReport]]) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "tidegate_lag_records",
        "Records in the topic past the last batch, when it was committed.",
        labels=["stream"],
    )
    offset = GaugeMetricFamily(
        "tidegate_ledger_offset",
        "First offset that the ledger does not cover.",
        labels=["stream", "topic", "partition"],
    )
    epoch = GaugeMetricFamily("tidegate_ledger_epoch", "Claims of the ledger.", labels=["stream"])
    number = GaugeMetricFamily("tidegate_ledger_batch", "Number of the last batch.", labels=["stream"])
    for each, report in reported:
        if report.lag_records is not None:
            lag.add_metric([report.stream], report.lag_records)
        for partition, end in sorted(report.end.items())[:_MOST_PARTITIONS]:
            offset.add_metric([report.stream, each.topic, str(partition)], end)
        epoch.add_metric([report.stream], report.epoch)
        number.add_metric([report.stream], report.n)
    yield from (lag, offset, epoch, number)


def _tables(last: Sequence[BatchReport]) -> Iterator[Metric]:
    snapshots = GaugeMetricFamily(
        "tidegate_table_snapshots", "Snapshots in the metadata of the stream's table.", labels=["stream"]
    )
    metadata = GaugeMetricFamily(
        "tidegate_table_metadata_bytes",
        "Size of the table's metadata, which every commit writes as a whole.",
        labels=["stream"],
    )
    files = GaugeMetricFamily("tidegate_table_data_files", "Data files of the table.", labels=["stream"])
    for report in last:
        if (size := report.table) is None:
            continue
        snapshots.add_metric([report.stream], size.snapshots)
        if size.metadata_bytes is not None:
            metadata.add_metric([report.stream], size.metadata_bytes)
        if size.data_files is not None:
            files.add_metric([report.stream], size.data_files)
    yield from (snapshots, metadata, files)


def _times(reported: Sequence[tuple[StreamFacts, BatchReport]]) -> Iterator[Metric]:
    latest = GaugeMetricFamily(
        "tidegate_last_batch_seconds", "What the last batch took, by step.", labels=["stream", "step"]
    )
    total = CounterMetricFamily(
        "tidegate_batch_seconds", "What all batches took, by step.", labels=["stream", "step"]
    )
    committed = GaugeMetricFamily(
        "tidegate_last_commit_timestamp_seconds",
        "When the last reported batch was committed, in seconds since 1970 UTC.",
        labels=["stream"],
    )
    for each, report in reported:
        for step, milliseconds in sorted(report.timings_ms.items())[:_MOST_STEPS]:
            latest.add_metric([each.stream, step], milliseconds / 1000)
        for step, milliseconds in sorted((each.step_milliseconds or {}).items())[:_MOST_STEPS]:
            total.add_metric([each.stream, step], milliseconds / 1000)
        committed.add_metric([each.stream], report.committed_at.timestamp())
    yield from (latest, total, committed)


def _reconciliations(results: Sequence[ReconciliationResult]) -> Iterator[Metric]:
    lost = GaugeMetricFamily(
        "tidegate_reconciliation_lost_records",
        "Records without a fate that the last reconciliation found.",
        labels=["stream"],
    )
    doubled = GaugeMetricFamily(
        "tidegate_reconciliation_doubled_records",
        "Records that the last reconciliation found in more than one place, or twice in one.",
        labels=["stream"],
    )
    holds = GaugeMetricFamily(
        "tidegate_reconciliation_holds",
        "What the last reconciliation answered: 1 holds, 0.5 cannot be proven, 0 lost.",
        labels=["stream"],
    )
    unverifiable = GaugeMetricFamily(
        "tidegate_reconciliation_unverifiable_offsets",
        "Offsets that the last reconciliation could not show to have one fate.",
        labels=["stream"],
    )
    at = GaugeMetricFamily(
        "tidegate_last_reconciliation_timestamp_seconds",
        "When the last reconciliation that has findings was over, in seconds since 1970 UTC.",
        labels=["stream"],
    )
    for each in results:
        if (found := each.findings) is not None:
            lost.add_metric([found.stream], found.lost)
            doubled.add_metric([found.stream], found.twice)
            holds.add_metric([found.stream], _ANSWERS[found.answer])
            unverifiable.add_metric([found.stream], found.unverifiable)
            at.add_metric([found.stream], each.at.timestamp())
    yield from (lost, doubled, holds, unverifiable, at)
