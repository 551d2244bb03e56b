"""The interface of a kind of sink. The module that `settings.SINKS` names for a kind declares one `KIND`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate.contracts.document.model import Retention
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.spark_jobs.kafka.dropped import DroppedTopic
from tidegate.spark_jobs.kafka.marks import MarksTopic
from tidegate.spark_jobs.kafka.replayed import ReplayedTopic
from tidegate.spark_jobs.kafka.topics import TopicDescription, Topics
from tidegate.spark_jobs.session import active_session
from tidegate.spark_jobs.settings import JobSettings, SinkSettings
from tidegate.spark_jobs.sinks.adoption import AdoptableSink, AdoptableTable
from tidegate.spark_jobs.sinks.outputs import ReadOutputs
from tidegate.spark_jobs.sinks.quarantine_table import SUFFIX, QuarantineTable
from tidegate.spark_jobs.sinks.sink import Sink
from tidegate.spark_jobs.sinks.staged import StagedSink
from tidegate.spark_jobs.sinks.store import LedgerStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SinkContext:
    """The stream for which a sink is opened, with its shared clients and output topics."""

    spark: SparkSession
    settings: JobSettings
    topics: Topics
    contract_id: str
    source: TopicDescription
    retention: Retention

    def accepted(self) -> TopicDescription:
        """Return the accepted topic, created if it does not exist. Raises Unavailable or StreamStopped."""
        name = accepted_topic(self.source.name)
        self.topics.ensure_accepted(name, self.source, self.retention.accepted_days)
        return self._described(name)

    def _described(self, name: str) -> TopicDescription:
        output = self.topics.describe(name)
        if output is None:
            raise Unavailable(f"topic {name} was created but is not there yet")
        return output

    def quarantine(self) -> TopicDescription:
        """Return the quarantine topic, created if it does not exist. Raises Unavailable or StreamStopped."""
        name = quarantine_topic(self.source.name)
        self.topics.ensure_quarantine(name, self.source, self.retention.quarantine_days)
        return self._described(name)

    def dropped(self) -> DroppedTopic:
        """Return the topic of dropped positions."""
        return DroppedTopic(self.topics, self.source)

    def replayed(self) -> ReplayedTopic:
        """Return the topic of replayed positions."""
        return ReplayedTopic(self.topics, self.source)

    def marks(self) -> MarksTopic:
        """Return the topic of marks of deleted keys."""
        return MarksTopic(self.topics, self.source, self.retention.quarantine_days)


@dataclass(frozen=True, slots=True)
class SinkKind:
    """A kind of sink: functions that open it for the job, `tidegate adopt`, a reconciliation and maintenance."""

    open: Callable[[SinkContext], Sink[Any]]
    adoptable: Callable[[JobSettings, EnforcementPlan], AdoptableSink]
    read_outputs: ReadOutputs
    open_store: Callable[[JobSettings, str], LedgerStore] | None = None
    """Opens the table of a contract id without a running stream; None if the sink has no table."""


def kind_of(settings: SinkSettings) -> SinkKind:
    """Return the kind of sink that the settings name."""
    found = import_module(settings.rules.module).KIND
    assert isinstance(found, SinkKind)  # noqa: S101 - narrows for the type checker
    return found


OpenStore = Callable[["Callable[[], SparkSession]", JobSettings, str], LedgerStore]
"""Opens the table of a contract id, which may not exist yet. Only Spark tables call the session function."""


def table_kind(open_store: OpenStore, read_outputs: ReadOutputs) -> SinkKind:
    """Return the kind of a sink whose table holds its ledger (`LedgerStore`)."""

    def open_sink(context: SinkContext) -> StagedSink:
        settings, quarantine = context.settings, context.quarantine()
        store = open_store(lambda: context.spark, settings, context.contract_id)
        refusals = None
        if settings.quarantine_table:
            beside = open_store(lambda: context.spark, settings.appending, context.contract_id + SUFFIX)
            refusals = QuarantineTable(settings.kafka, beside, quarantine.name)
        return StagedSink(
            settings, store, quarantine, context.dropped(), context.replayed(), context.marks(), refusals
        )

    def adoptable(settings: JobSettings, plan: EnforcementPlan) -> AdoptableTable:
        stream = plan.contract.id
        store = open_store(lambda: active_session(settings), settings, stream)
        beside = open_store(lambda: active_session(settings), settings.appending, stream + SUFFIX)
        return AdoptableTable(settings, store, plan, beside)

    def store_alone(settings: JobSettings, contract_id: str) -> LedgerStore:
        return open_store(lambda: active_session(settings), settings, contract_id)

    return SinkKind(open_sink, adoptable, read_outputs, store_alone)
