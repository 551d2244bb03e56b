"""The output of a stream, read for a reconciliation by other means than the job writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.contracts.errors import NotFoundError
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.evidence import Provenance, headers_of, read_provenance
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger, Position
from tidegate.contracts.stream.positions import Sightings
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.settings import SinkSettings
from tidegate.spark_jobs.sinks.record_keys import KeyFields

if TYPE_CHECKING:
    from confluent_kafka import Message


@dataclass(frozen=True, slots=True)
class Keys:
    """Readers of primary keys: `plan` for source records, `rows` for table rows with given keys, as of the ledger."""

    plan: EnforcementPlan
    fields: KeyFields
    rows: Callable[[pa.Table], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Outputs:
    """The ledger, and the source position of every accepted row or record.

    With `later` None, both are of the same moment. Otherwise the positions were read later, and `later` is the ledger
    read after them.
    """

    ledger: Ledger
    written: Sightings
    later: Ledger | None = None
    is_ahead: bool = False
    """Whether accepted records are written before the ledger is updated, by the tasks of a batch in progress."""
    is_whole: bool = True
    """Whether the written records are complete: False if a topic's retention may have deleted some."""
    keys: Keys | None = None
    """Key readers for a table with upserts; None if keys are not needed or cannot be compared."""


FindPlan = Callable[[], EnforcementPlan | None]
"""Finds the contract of a stream; called only if its table is written with upserts."""

ReadOutputs = Callable[[SinkSettings, str, FindPlan, ExitStack], Outputs]
"""Reads the output of a contract id; resources that must stay open are entered into the stack."""


def keyed(
    find_plan: FindPlan,
    key: Sequence[str],
    ledger: Ledger,
    rows: Callable[[KeyFields, pa.Table], Iterable[pa.RecordBatch]],
) -> Keys | None:
    """Return the key readers; None unless the contract has the table's key and its values can be compared.

    The key of a replayed record may come from a fix. Only the digest in its mark tells that key, so keys are then
    compared by digest.
    """
    plan = find_plan() if key else None
    fields = None if plan is None or {*plan.contract.primary_key} != {*key} else KeyFields.of(plan)
    if fields is not None and ledger.replayed:
        fields = replace(fields, is_digested=True)
    return None if plan is None or fields is None else Keys(plan, fields, partial(rows, fields))


def unclaimed(name: str) -> NotFoundError:
    """Return the error for a sink that no stream has claimed."""
    return NotFoundError(f"{name} has no ledger: no stream has claimed it; enforce the contract first")


def output_positions(kafka: KafkaConnection, topic: str, ledger: str, source: str) -> Iterator[Position]:
    """Yield the source position of every committed record of a ledger in an output topic, with duplicates."""
    for found, _ in provenances(kafka, topic, source):
        if found.ledger == ledger:
            yield found.source.partition, found.source.offset


def refusals(kafka: KafkaConnection, topic: str, ledger: Ledger) -> Iterator[tuple[Position, Message]]:
    """Yield source position and message of every refused record that counts in the ledger.

    A refused record no longer counts if a rewind has overruled it.
    """
    for found, message in provenances(kafka, topic, ledger.topic):
        source = found.source
        if found.ledger == ledger.name and ledger.counts(source.partition, source.offset, found.generation):
            yield (source.partition, source.offset), message


def provenances(kafka: KafkaConnection, topic: str, source: str) -> Iterator[tuple[Provenance, Message]]:
    """Yield the records of an output topic that came from a source topic, of any ledger."""
    topics = Topics(kafka)
    if topics.identity(topic) is None:
        return
    for message in read_committed(kafka, topic, topics.earliest(topic), topics.latest(topic)):
        found = read_provenance(headers_of(message))
        if found is not None and found.source.topic == source:
            yield found, message
