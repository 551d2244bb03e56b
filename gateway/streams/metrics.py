"""The Prometheus metrics of the streams, from the stored reports, so that a restart of the gateway loses nothing.

A stream has at most `_MOST_RULES` series of rules and `_MOST_PARTITIONS` of partitions. The rules that were violated
first keep their series, and all later ones share one, so that no counter decreases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.stream.control import Condition, StreamControl, StreamEvent, condition_of
from tidegate.contracts.stream.reconciliation import Findings, ReconciliationAnswer, ReconciliationResult
from tidegate.contracts.stream.report import BatchReport, TableMaintenance, TableSize
from tidegate.contracts.stream.shadow import ShadowFindings
from tidegate.gateway.access.principal import Principal
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.reports import RuleSum
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.stream_control import HeartbeatRow
from tidegate.gateway.storage.tables import StreamRow
from tidegate.gateway.streams.summaries import lag_of

_MOST_RULES = 200
_MOST_STEPS = 20
# An alert on 0 fires only for faults, one on < 1 also for unproven answers; the minimum of several is the worst.
_ANSWERS = {
    ReconciliationAnswer.HOLDS: 1.0,
    ReconciliationAnswer.UNPROVEN: 0.5,
    ReconciliationAnswer.LOST: 0.0,
}
_MOST_PARTITIONS = 500
_OTHER = "other"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """The figures of one stream; `last` and `sums` are None before its first report.

    `reconciled` is the last result with findings, None before the first.
    """

    stream: str
    control: StreamControl
    event: StreamEvent | None
    sums: StreamRow | None = None
    last: BatchReport | None = None
    topic: str = ""
    rules: Sequence[RuleSum] = ()
    step_milliseconds: Mapping[str, int] = field(default_factory=dict)
    shadow: ShadowFindings | None = None
    heard: HeartbeatRow | None = None
    reconciled: ReconciliationResult | None = None
    index_lag: int | None = None
    problems: Mapping[str, int] = field(default_factory=dict)


Sample = tuple[tuple[str, ...], float]
"""The values of a metric's labels after `stream`, and the value of the sample."""


@dataclass(frozen=True, slots=True)
class StreamMetric:
    """One metric of each stream: its kind, its help text, its labels after `stream`, its samples."""

    kind: type[CounterMetricFamily | GaugeMetricFamily]
    name: str
    help: str
    labels: tuple[str, ...]
    samples: Callable[[StreamFacts], Iterable[Sample]]

    def family(self, facts: Sequence[StreamFacts]) -> Metric:
        """Return the metric with the samples of all streams."""
        found = self.kind(self.name, self.help, labels=["stream", *self.labels])
        for each in facts:
            for labels, value in self.samples(each):
                found.add_metric([each.stream, *labels], value)
        return found


class StreamMetrics(Collector):
    """A collector of the metrics of the streams that a principal may see; each collection is one transaction."""

    def __init__(self, database: Database, by: Principal) -> None:
        self._database = database
        self._by = by

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. Raises Unavailable."""
        facts = self._database.read(lambda stores: _facts(stores, self._by))
        for metric in METRICS:
            yield metric.family(facts)


def _facts(stores: Stores, by: Principal) -> list[StreamFacts]:
    """Return the figures of the visible streams by name, in as many queries for a thousand streams as for one."""
    controls, events = stores.controls.all(), stores.controls.last_events()
    heartbeats = stores.controls.heartbeats()
    sums = {each.stream: each for each in stores.reports.sums()}
    topics = stores.contracts.topics()
    lags, problems = stores.quarantine.lags(), stores.problems.state_counts()
    known = topics.keys() & (sums.keys() | controls.keys() | events.keys() | heartbeats.keys() | lags.keys())
    streams = [stream for stream in sorted(known) if by.sees(subject_of(topics[stream]))]
    last, rules = stores.reports.last_reports(streams), stores.sums.rules(streams)
    milliseconds = stores.sums.milliseconds(streams)
    reconciled, shadows = stores.reconciliations.last_findings(), stores.shadows.all()
    facts = []
    for stream in streams:
        control = controls.get(stream, StreamControl(stream=stream))
        found = StreamFacts(
            stream,
            control,
            events.get(stream),
            heard=heartbeats.get(stream),
            reconciled=reconciled.get(stream),
            index_lag=lags.get(stream),
            problems=problems.get(stream, {}),
        )
        if stream in sums:
            found = replace(
                found,
                sums=sums[stream],
                last=last.get(stream),
                topic=topics[stream],
                rules=rules.get(stream, ()),
                step_milliseconds=milliseconds.get(stream, {}),
                shadow=_shadow(shadows.get(stream), control),
            )
        facts.append(found)
    return facts


def _shadow(found: ShadowFindings | None, control: StreamControl) -> ShadowFindings | None:
    """Return what the shadow of now has found; one that was ended has no series any more."""
    return found if found is not None and found.result.version == control.shadow else None


def _condition(facts: StreamFacts) -> Condition:
    """Return the condition of a stream without pauses, which have a metric."""
    committed_at = facts.last.committed_at if facts.last else None
    return condition_of(StreamControl(stream=facts.stream), facts.event, committed_at).condition


def _is(condition: Condition) -> Callable[[StreamFacts], float]:
    """Return a function: 1.0 if a stream is in this condition, else 0.0."""
    return lambda facts: float(_condition(facts) is condition)


def _running_seconds(facts: StreamFacts) -> Iterator[Sample]:
    if facts.heard is None:
        return
    # A job that ends sends an event, and no heartbeat that takes the seconds back.
    is_over = _condition(facts) in {Condition.STOPPED, Condition.ENDED}
    heard = None if is_over else _newer_heartbeat(facts)
    yield (), (heard.busy_seconds or 0.0) if heard else 0.0


def _sums(facts: StreamFacts) -> StreamRow | None:
    return facts.sums if facts.last else None


def _last(facts: StreamFacts) -> BatchReport | None:
    return facts.last


def _newer_heartbeat(facts: StreamFacts) -> HeartbeatRow | None:
    """Return the last heartbeat; None if the last report is newer."""
    heard, last = facts.heard, facts.last
    return heard if heard is not None and (last is None or heard.at > last.committed_at) else None


def _table(facts: StreamFacts) -> TableSize | None:
    heard = _newer_heartbeat(facts)
    if heard is not None and heard.table_size is not None:
        return TableSize.model_validate_json(heard.table_size)
    return facts.last.table if facts.last else None


def _maintenance(facts: StreamFacts) -> TableMaintenance | None:
    heard = _newer_heartbeat(facts)
    if heard is not None and heard.maintenance is not None:
        return TableMaintenance.model_validate_json(heard.maintenance)
    return facts.last.maintenance if facts.last else None


def _findings(facts: StreamFacts) -> Findings | None:
    return facts.reconciled.findings if facts.reconciled else None


def _one(
    source: Callable[[StreamFacts], T | None], value: Callable[[T], float | None]
) -> Callable[[StreamFacts], Iterator[Sample]]:
    """Return a function that yields one sample without further labels, unless the source or its value is None."""

    def samples(facts: StreamFacts) -> Iterator[Sample]:
        found = source(facts)
        sample = None if found is None else value(found)
        if sample is not None:
            yield (), sample

    return samples


def _each(*names: str) -> Callable[[StreamFacts], Iterator[Sample]]:
    """Return a function that yields a sample for each of these sums of a stream."""

    def samples(facts: StreamFacts) -> Iterator[Sample]:
        if facts.last:
            yield from (((name,), getattr(facts.sums, name)) for name in names)

    return samples


def _violations(facts: StreamFacts) -> Iterator[Sample]:
    if not facts.last:
        return
    for rule in facts.rules[:_MOST_RULES]:
        yield (rule.stage.value, rule.code, rule.severity.value), rule.records
    rest: Counter[str] = Counter()
    for rule in facts.rules[_MOST_RULES:]:
        rest[rule.severity.value] += rule.records
    for severity, count in sorted(rest.items()):
        yield (_OTHER, _OTHER, severity), count


def _info(facts: StreamFacts) -> Iterator[Sample]:
    if facts.last:
        yield (facts.last.contract.rpartition("@")[2], facts.last.sink), 1.0


def _offsets(facts: StreamFacts) -> Iterator[Sample]:
    if facts.last:
        for partition, end in sorted(facts.last.end.items())[:_MOST_PARTITIONS]:
            yield (facts.topic, str(partition)), end


def _shadow_records(facts: StreamFacts) -> Iterator[Sample]:
    if facts.shadow:
        for outcome in ("compared", "would_refuse", "would_accept", "would_stop"):
            yield (facts.shadow.result.version, outcome), getattr(facts.shadow.result, outcome)


def _shadow_violations(facts: StreamFacts) -> Iterator[Sample]:
    if not facts.shadow:
        return
    result = facts.shadow.result
    for change, rules in (("refuse", result.refused_by), ("accept", result.accepted_by)):
        for rule in sorted(rules, key=lambda rule: (rule.stage, rule.code, rule.severity))[:_MOST_RULES]:
            yield (result.version, change, rule.stage.value, rule.code, rule.severity.value), rule.records


def _shadow_failed(facts: StreamFacts) -> Iterator[Sample]:
    if facts.shadow:
        yield (facts.shadow.result.version,), float(facts.shadow.result.failure is not None)


def _seconds(milliseconds: Mapping[str, int]) -> Iterator[Sample]:
    for step, spent in sorted(milliseconds.items())[:_MOST_STEPS]:
        yield (step,), spent / 1000


def _last_seconds(facts: StreamFacts) -> Iterator[Sample]:
    return _seconds(facts.last.timings_ms if facts.last else {})


def _all_seconds(facts: StreamFacts) -> Iterator[Sample]:
    return _seconds(facts.step_milliseconds if facts.last else {})


def _problems(facts: StreamFacts) -> Iterator[Sample]:
    yield from (((state,), count) for state, count in sorted(facts.problems.items()))


def _self(facts: StreamFacts) -> StreamFacts:
    return facts


_COUNTER, _GAUGE = CounterMetricFamily, GaugeMetricFamily
_RULE = ("stage", "code", "severity")

# To add a metric, add its line: Prometheus sees them in this order.
METRICS = (
    StreamMetric(_GAUGE, "tidegate_stream_paused", "1 while a stream is paused, else 0.", (), _one(_self, lambda it: float(it.control.is_paused))),
    StreamMetric(_GAUGE, "tidegate_stream_stopped", "1 when a stream's job has stopped or failed, else 0.", (), _one(_self, _is(Condition.STOPPED))),
    StreamMetric(_GAUGE, "tidegate_stream_ended", "1 when a person stopped a stream's job, or it had read everything, else 0.", (), _one(_self, _is(Condition.ENDED))),
    StreamMetric(_GAUGE, "tidegate_stream_info", "1; the labels have the contract version that judged the last batch, and the sink.", ("version", "sink"), _info),
    StreamMetric(_GAUGE, "tidegate_stream_heartbeat_timestamp_seconds", "When the job of a stream said last that it lives, in seconds since 1970 UTC.", (), _one(lambda it: it.heard, lambda it: it.at.timestamp())),
    StreamMetric(_GAUGE, "tidegate_batch_running_seconds", "How long the oldest batch in hand had taken at the last heartbeat; 0 when none was in hand, or the job has ended.", (), _running_seconds),
    StreamMetric(_COUNTER, "tidegate_records", "Records by what became of them.", ("disposition",), _each("written", "quarantined", "dropped")),
    StreamMetric(_COUNTER, "tidegate_flagged_records", "Written records that violate a warning, or a rule that alerts.", ("flag",), _each("warned", "alerted")),
    StreamMetric(_COUNTER, "tidegate_violations", "Records that violate a rule, schema keyword or column; one may count under several.", _RULE, _violations),
    StreamMetric(_COUNTER, "tidegate_batches", "Published batches.", (), _one(_sums, lambda it: it.batches)),
    StreamMetric(_GAUGE, "tidegate_lag_records", "Records in the topic past the last batch, at the last heartbeat or commit.", (), _one(_self, lambda it: lag_of(it.last, it.heard))),
    StreamMetric(_GAUGE, "tidegate_quarantine_index_lag", "Offsets of the quarantine topic that the registry's index has not read, as of the last look at its end.", (), _one(_self, lambda it: it.index_lag)),
    StreamMetric(_GAUGE, "tidegate_problems", "Problems of refused records by state.", ("state",), _problems),
    StreamMetric(_GAUGE, "tidegate_ledger_offset", "First offset that the ledger does not cover.", ("topic", "partition"), _offsets),
    StreamMetric(_GAUGE, "tidegate_ledger_epoch", "Claims of the ledger.", (), _one(_last, lambda it: it.epoch)),
    StreamMetric(_GAUGE, "tidegate_ledger_batch", "Number of the last batch.", (), _one(_last, lambda it: it.n)),
    StreamMetric(_GAUGE, "tidegate_table_snapshots", "Snapshots in the metadata of the stream's table, or versions in the log of its Delta table.", (), _one(_table, lambda it: it.snapshots)),
    StreamMetric(_GAUGE, "tidegate_table_metadata_bytes", "Size of the table's metadata, which every commit writes as a whole.", (), _one(_table, lambda it: it.metadata_bytes)),
    StreamMetric(_GAUGE, "tidegate_table_data_files", "Data files of the table.", (), _one(_table, lambda it: it.data_files)),
    StreamMetric(_COUNTER, "tidegate_table_expired_snapshots", "Snapshots, or versions of a Delta log, that maintenance has expired since the job took the stream.", (), _one(_maintenance, lambda it: it.snapshots_expired)),
    StreamMetric(_COUNTER, "tidegate_table_compacted_files", "Small files that maintenance has replaced since then.", (), _one(_maintenance, lambda it: it.files_compacted)),
    StreamMetric(_COUNTER, "tidegate_table_compacted_bytes", "Bytes of the small files that maintenance has replaced since then.", (), _one(_maintenance, lambda it: it.bytes_compacted)),
    StreamMetric(_COUNTER, "tidegate_table_rewritten_manifests", "Manifests that maintenance has merged since then.", (), _one(_maintenance, lambda it: it.manifests_rewritten)),
    StreamMetric(_COUNTER, "tidegate_table_orphans_removed", "Files of crashed attempts that maintenance has removed since then.", (), _one(_maintenance, lambda it: it.orphans_removed)),
    StreamMetric(_COUNTER, "tidegate_table_orphan_bytes_removed", "Bytes of the files of crashed attempts that it has removed.", (), _one(_maintenance, lambda it: it.orphan_bytes)),
    StreamMetric(_COUNTER, "tidegate_table_replaced_files_removed", "Files that a Delta table had replaced, and that it has removed after the table's retention.", (), _one(_maintenance, lambda it: it.replaced_removed)),
    StreamMetric(_COUNTER, "tidegate_table_replaced_bytes_removed", "Bytes of the replaced files that it has removed.", (), _one(_maintenance, lambda it: it.replaced_bytes)),
    StreamMetric(_COUNTER, "tidegate_table_maintenance_failures", "Parts of maintenance rounds that have failed since then.", (), _one(_maintenance, lambda it: it.failures)),
    StreamMetric(_GAUGE, "tidegate_table_maintenance_seconds", "Duration of the last round of maintenance.", (), _one(_maintenance, lambda it: it.seconds)),
    StreamMetric(_COUNTER, "tidegate_shadow_records", "Records that a shadow version was judged on, and those that it would refuse or accept otherwise.", ("version", "outcome"), _shadow_records),
    StreamMetric(_COUNTER, "tidegate_shadow_violations", "Records that a shadow version would treat otherwise, by the rule that refuses them.", ("version", "change", *_RULE), _shadow_violations),
    StreamMetric(_GAUGE, "tidegate_shadow_failed", "1 when records could not be judged by a shadow version, else 0.", ("version",), _shadow_failed),
    StreamMetric(_GAUGE, "tidegate_last_batch_seconds", "Duration of the last batch, by step.", ("step",), _last_seconds),
    StreamMetric(_COUNTER, "tidegate_batch_seconds", "What all batches took, by step.", ("step",), _all_seconds),
    StreamMetric(_GAUGE, "tidegate_last_commit_timestamp_seconds", "When the last reported batch was committed, in seconds since 1970 UTC.", (), _one(_last, lambda it: it.committed_at.timestamp())),
    StreamMetric(_GAUGE, "tidegate_reconciliation_lost_records", "Records without a fate that the last reconciliation found.", (), _one(_findings, lambda it: it.lost)),
    StreamMetric(_GAUGE, "tidegate_reconciliation_doubled_records", "Records that the last reconciliation found in more than one place, or twice in one.", (), _one(_findings, lambda it: it.twice)),
    StreamMetric(_GAUGE, "tidegate_reconciliation_holds", "Answer of the last reconciliation: 1 holds, 0.5 cannot be proven, 0 lost.", (), _one(_findings, lambda it: _ANSWERS[it.answer])),
    StreamMetric(_GAUGE, "tidegate_reconciliation_unverifiable_offsets", "Offsets that the last reconciliation could not show to have one fate.", (), _one(_findings, lambda it: it.unverifiable)),
    StreamMetric(_GAUGE, "tidegate_last_reconciliation_timestamp_seconds", "When the last reconciliation that has findings was over, in seconds since 1970 UTC.", (), _one(lambda it: it.reconciled, lambda it: it.at.timestamp())),
)  # fmt: skip
