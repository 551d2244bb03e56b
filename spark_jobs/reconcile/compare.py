"""Reconciliation of a stream: verify that every offset was written, quarantined or dropped exactly once.

The proof is independent of the job: topics are read with a plain read_committed consumer, tables with PyIceberg, SQL or
Delta's reader in Spark. The result is exact even while the stream runs, because of the order of reading:

1. The ledger, with the table's rows of the same moment: one metadata file of Iceberg, one version of Delta, one
transaction of PostgreSQL. Kafka has no such snapshot: the ledger, then the accepted records, then the ledger again.
2. The topics, up to their current ends: everything that the ledger covers was committed before it. Later records are
in flight. The copy of the history never changes.
3. The first offsets of the topics: records that were deleted during the read are past retention, and not missing.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa

from tidegate.contracts.errors import NotFoundError, StreamStopped
from tidegate.contracts.stream.history import HISTORY_PARTITION, of_topic
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.positions import Positions, Sightings
from tidegate.contracts.stream.reconcile import (
    RECORDS,
    Reconciliation,
    Retained,
    Upserts,
    Written,
    find_replaced,
    positions_of_records,
    reconcile,
)
from tidegate.spark_jobs.history.folder import HistoryFolder
from tidegate.spark_jobs.kafka.dropped import read_dropped
from tidegate.spark_jobs.kafka.marks import read_marks
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.replayed import read_closed, read_replayed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.settings import SinkSettings
from tidegate.spark_jobs.sinks.kind import kind_of
from tidegate.spark_jobs.sinks.outputs import FindPlan, Keys, Outputs, refusals
from tidegate.spark_jobs.sinks.quarantine_table import SUFFIX
from tidegate.spark_jobs.sinks.record_keys import RecordKeys


def reconcile_stream(
    settings: SinkSettings, contract_id: str, find_plan: FindPlan = lambda: None
) -> Reconciliation:
    """Reconcile a stream of any sink, running or not.

    `find_plan` is called only for a table with upserts. If it returns None, replaced records cannot be proven. Raises
    NotFoundError if no stream has claimed the sink, SettingsError for an Iceberg catalog that PyIceberg cannot open,
    StreamStopped if the topic was recreated, Unavailable.
    """
    with ExitStack() as resources:
        outputs = kind_of(settings).read_outputs(settings, contract_id, find_plan, resources)
        kept = _kept_refusals(settings, contract_id, outputs.ledger, resources)
        return _reconcile(settings, outputs, kept)


def _kept_refusals(
    settings: SinkSettings, contract_id: str, ledger: Ledger, resources: ExitStack
) -> Outputs | None:
    """Read the quarantine table; return None if there is none, or it does not follow this ledger yet."""
    if not settings.rules.is_table:
        return None
    try:
        kept = kind_of(settings).read_outputs(settings, contract_id + SUFFIX, lambda: None, resources)
    except NotFoundError:
        return None
    return kept if kept.ledger.stream == contract_id and kept.ledger.name == ledger.name else None


def _reconcile(settings: SinkSettings, outputs: Outputs, kept: Outputs | None) -> Reconciliation:
    kafka, ledger = settings.kafka, outputs.ledger
    topics = Topics(kafka)
    quarantine = quarantine_topic(ledger.topic)
    identity = topics.identity(ledger.topic)
    if identity is None or identity[0] != ledger.topic_id:
        raise StreamStopped(
            f"topic {ledger.topic} was deleted or created again since: its offsets say nothing about the ledger's"
        )
    source, written = Positions(), outputs.written
    # Only upserts remove rows: a record without a row is then explained only by a later record of the same key.
    has_removed_rows = ledger.totals.superseded or ledger.totals.deleted
    keys = outputs.keys if has_removed_rows else None
    records = None if keys is None else RecordKeys(keys.plan, keys.fields)
    for message in read_committed(kafka, ledger.topic, ledger.begin, of_topic(ledger.end)):
        position = message.partition() or 0, message.offset() or 0  # never None in a message that was read
        source.add(*position)
        if records is not None and position not in written.seen:
            records.add(message)
    replayed, closed = read_replayed(kafka, ledger), read_closed(kafka, ledger)
    copied = HistoryFolder(settings, ledger.stream)
    history_begin, of_history = copied.held(ledger.history, ledger.end.get(HISTORY_PARTITION, 0))
    source.add_all(of_history)
    quarantined, to_keep = Sightings(), Positions()
    mark = kept.ledger.scan_from.get(quarantine, {}) if kept is not None else {}
    for position, message in refusals(kafka, quarantine, ledger):
        if position not in replayed:
            quarantined.add(*position)
        if (message.offset() or 0) < mark.get(message.partition() or 0, 0):
            to_keep.add(*position)
    if outputs.later is not None:
        # Records written by a replay after the first ledger was read; that ledger counts them as refused.
        fresh = read_replayed(kafka, outputs.later) - replayed
        written.seen = written.seen - fresh
    retained = Retained(
        # Deleted parts of the copy count like records that a topic has deleted.
        source={**topics.earliest(ledger.topic), HISTORY_PARTITION: history_begin},
        is_source_compacted=topics.is_compacted(ledger.topic),
        is_quarantine_whole=not any(topics.earliest(quarantine).values()),
        is_written_ahead=outputs.is_ahead,
        is_written_whole=outputs.is_whole,
        unknown_replays=ledger.replayed - len(replayed),
        unknown_closed=sum(each.records for each in ledger.closed.values()) - sum(map(len, closed.values())),
    )
    dropped = read_dropped(kafka, ledger)
    upserts = None
    if keys is not None and records is not None:
        rowless = replayed - written.seen
        marked = read_marks(kafka, ledger).records(rowless) if rowless else RECORDS.empty_table()
        refused = quarantined.seen | dropped
        upserts = _upserts(keys, records.table(refused | rowless), marked, rowless)
    found = reconcile(
        ledger, source, Written(written, outputs.later, upserts, dropped), quarantined, retained
    )
    discarded, resent = closed.values()
    found = replace(found, closed=len((discarded | resent) & quarantined.seen))
    if kept is None:
        return found
    return replace(found, not_kept=to_keep - kept.written.seen, kept_twice=kept.written.again)


def _upserts(keys: Keys, records: pa.Table, marked: pa.Table, rowless: Positions) -> Upserts:
    """Return which records without a row were replaced by a newer one of their key.

    `rowless` are replayed records without a row. The source has them as they were refused, without the fix: their keys
    come from their marks, the records `marked`.
    """
    found = pa.concat_tables([records, marked])
    upserts = find_replaced(found, keys.rows(found) if found.num_rows else ())
    return replace(upserts, unclear=upserts.unclear | (rowless - positions_of_records(marked)))
