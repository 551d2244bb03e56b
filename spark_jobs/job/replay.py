"""Replay refused records in chunks, between the batches of a stream: read by position, fix, judge, publish.

A chunk is judged beside the batches, and published by the thread that writes them. Nothing that a request asks for can
stop its stream: a request that cannot be processed is stopped, with the reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

import httpx
import pyarrow as pa
import structlog
from pydantic import ValidationError

from tidegate.contracts.errors import ConflictError, ContractError, Unavailable
from tidegate.contracts.fix.apply import CompiledFix
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import send
from tidegate.contracts.stream.counts import RuleKey, rule_counts
from tidegate.contracts.stream.evidence import Original, headers_of, read_evidence, read_original
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    ReplayedChunk,
    ReplayReport,
    ReplayRequest,
    ReplayState,
    Untouched,
    is_over_budget,
    why_untouched,
)
from tidegate.contracts.stream.replay_progress import ReplayProgress
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.replayed import require_replayed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks.sink import JudgedBatch, MicroBatch, Replay, Sink
from tidegate.spark_jobs.steps import ReplayStep, Stopwatch
from tidegate.spark_jobs.worker.judge import worker_errors
from tidegate.spark_jobs.worker.records import count_reasons
from tidegate.spark_jobs.worker.request import JUDGED_AT, WorkerRequest

if TYPE_CHECKING:
    from confluent_kafka import Message
    from pyspark.sql import SparkSession

log = structlog.get_logger()

CHUNK_RECORDS: Final = 5_000
"""Most records of a chunk: its commit must not keep a batch waiting for long."""
CHUNK_BYTES: Final = 32 * 1024 * 1024
_MOST_REASONS: Final = 100
_TRIES: Final = 3

_ROWS: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        (JUDGED_AT, pa.int64()),
    ]
)
"""Records as Spark's Kafka source returns them, by their source position, and when they were judged first."""


class Replays(Protocol):
    """The replay requests of one stream, as the job uses them."""

    def current(self) -> ReplayRequest | None:
        """Return the request to process now; None without one. Raises Unavailable."""
        ...

    def report(self, report: ReplayReport) -> bool:
        """Report how far a request is; return whether it was delivered."""
        ...


class NoReplays:
    """The requests of a stream without a registry: none."""

    def current(self) -> None:
        """Return no request."""

    def report(self, report: ReplayReport) -> bool:  # noqa: ARG002 - of all
        """Deliver nothing."""
        return True


class RegistryReplays:
    """The requests that the registry stores. A heartbeat's answer names the open one; it is fetched once."""

    def __init__(self, client: httpx.Client, stream: str) -> None:
        self._client = client
        self._stream = stream
        self._named: UUID | None = None
        self._known: ReplayRequest | None = None

    def name(self, request: UUID | None) -> None:
        """Note which request the registry has open. Called from the thread of the heartbeats."""
        self._named = request

    def current(self) -> ReplayRequest | None:
        """Fetch the open request, if it is not known yet. Raises Unavailable."""
        named = self._named
        if named is None:
            return None
        if self._known is None or self._known.id != named:
            try:
                answer = send(self._client, requests.replay(self._stream, named))
                if answer.is_missing:
                    self._named = None
                    return None
                if not answer.is_ok:
                    raise Unavailable(f"the registry answered {answer.status} when asked for a replay")
                self._known = answer.read(ReplayRequest)
            except (httpx.HTTPError, ValidationError) as error:
                raise Unavailable(
                    f"the registry does not tell of a replay: {type(error).__name__}"
                ) from error
        return self._known

    def report(self, report: ReplayReport) -> bool:
        """Send a report, up to three times; one that ends the request forgets it."""
        for _ in range(_TRIES):
            try:
                answer = send(self._client, requests.replayed(report))
            except httpx.HTTPError:
                continue
            if answer.is_passing:
                continue
            if answer.document.get("state") != ReplayState.OPEN:
                self._named = None  # ended, or cancelled meanwhile: the next heartbeat names another
            return answer.is_success
        return False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A judged chunk that waits for its commit."""

    request: ReplayRequest
    plan: EnforcementPlan
    judged: JudgedBatch[Any]
    replay: Replay
    reasons: Counter[RuleKey]
    untouched: Counter[Untouched]

    def release(self) -> None:
        """Release its records, unless they were published."""
        self.judged.release()


@dataclass(slots=True)
class _Chunk:
    """What was read for a chunk."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    sources: Positions = field(default_factory=Positions)
    untouched: Counter[Untouched] = field(default_factory=Counter)
    taken: int = 0
    has_keys: bool = False
    size: int = 0

    def add(self, message: Message, original: Original, partition: int, offset: int) -> None:
        """Add a record to be judged."""
        key, value = message.key(), message.value()
        at = original.timestamp_ms if original.timestamp_ms is not None else message.timestamp()[1]
        judged_at = original.judged_at if original.judged_at is not None else at * 1_000_000
        headers = [{"key": name, "value": each} for name, each in original.headers] or None
        self.rows.append((partition, offset, at * 1000, key, value, headers, judged_at))
        self.sources.add(partition, offset)
        self.has_keys |= key is not None
        self.size += len(key or b"") + len(value or b"")

    def leave(self, why: Untouched) -> None:
        """Count a record that is left as it is."""
        self.untouched[why] += 1

    def table(self) -> pa.Table:
        """Return the rows."""
        columns = list(zip(*self.rows, strict=True)) or [()] * len(_ROWS)
        arrays = [pa.array(column, each.type) for column, each in zip(columns, _ROWS, strict=True)]
        return pa.Table.from_arrays(arrays, schema=_ROWS)


class Replayer:
    """Processes the replay requests of one attempt of one stream."""

    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaConnection,
        topics: Topics,
        sink: Sink[Any],
        most_bytes: int,
        watch: Stopwatch,
    ) -> None:
        """`most_bytes` is the longest value that a fix may make."""
        self._spark = spark
        self._most_bytes = most_bytes
        self._kafka = kafka
        self._topics = topics
        self._sink = sink
        self._watch = watch
        self._replayed: Positions | None = None
        self._refusals: tuple[UUID, Positions] | None = None
        self._reasons: Counter[RuleKey] = Counter()
        self._untouched: Counter[Untouched] = Counter()

    def prepare(self, request: ReplayRequest, plan: EnforcementPlan, held: Ledger) -> Prepared | None:
        """Read and judge the next chunk of a request; None when all of it is processed.

        Raises ConflictError when the request cannot be processed, Unavailable.
        """
        progress = request.begun(held)
        if progress.is_finished:
            return None
        fix = _compiled(request, plan)
        with self._watch(ReplayStep.READ):
            chunk = self._read(request, progress, held)
        self._sink.require_replayable(has_keys=chunk.has_keys, append_late=request.append_late)
        with self._watch(ReplayStep.JUDGE), worker_errors():
            rows = self._spark.createDataFrame(chunk.table())
            asked = WorkerRequest(is_replay=True, fix=fix, most_bytes=self._most_bytes)
            batch = MicroBatch(rows, {}, {}, plan.with_now(time.time_ns()), {}, self._watch, asked)
            judged = self._sink.judge(batch)
        try:
            found = self._outcome(chunk, judged)
            replay = Replay(found, progress)
            replay.ledger(held, "")  # whether the ledger can count it
            _require_budget(request, progress, found)
            reasons = count_reasons(judged.results.refused.batches(), judged.batch.plan)
        except BaseException:
            judged.release()
            raise
        return Prepared(request, plan, judged, replay, reasons, chunk.untouched)

    def published(self, prepared: Prepared, ledger: Ledger) -> ReplayReport:
        """Note that a chunk was published, and return the report of its request, with all that this attempt knows."""
        if self._replayed is not None:
            self._replayed.add_all(prepared.replay.chunk.written)
        self._reasons.update(prepared.reasons)
        self._untouched.update(prepared.untouched)
        progress = prepared.request.begun(ledger)
        state = ReplayState.DONE if progress.is_finished else ReplayState.OPEN
        return report_of(prepared.request, progress, state).model_copy(
            update={
                "reasons": rule_counts(self._reasons)[:_MOST_REASONS],
                "untouched": dict(self._untouched),
            }
        )

    def _read(self, request: ReplayRequest, progress: ReplayProgress, held: Ledger) -> _Chunk:
        """Read the next refusals of one partition of the quarantine topic, as many as a chunk may have."""
        identity = self._topics.identity(request.topic)
        if identity is None or identity[0] != request.topic_id:
            raise ConflictError(
                f"{request.topic} was created again since the replay was requested: its records are others. Request it again"
            )
        replayed = self._known_replayed(held)
        limit = min(CHUNK_RECORDS, request.rate or CHUNK_RECORDS)
        wanted = self._positions(request).chunk(progress.done, limit)
        chunk, due = _Chunk(), iter(wanted)
        for message in self._messages(request.topic, wanted):
            for position in due:  # those before it have no record any more
                chunk.taken += 1
                if position[1] == message.offset():
                    break
                chunk.leave(Untouched.MISSING)
            headers = headers_of(message)
            found, original = read_evidence(headers), read_original(headers)
            why = why_untouched(
                found, held, replayed, is_omitted=original.is_omitted, accepts_batches=request.accept_batches
            )
            if why is not None or found is None:
                chunk.leave(why or Untouched.FOREIGN)
            elif (source := (found.source.partition, found.source.offset)) in chunk.sources:
                chunk.leave(Untouched.REPLAYED)
            else:
                chunk.add(message, original, *source)
            if chunk.size > CHUNK_BYTES:
                return chunk
        for _ in due:
            chunk.taken += 1
            chunk.leave(Untouched.MISSING)
        return chunk

    def _messages(self, topic: str, wanted: Positions) -> Iterator[Message]:
        """Yield the committed records at these positions of one partition, in order."""
        ((partition, bitmap),) = wanted.bitmaps().items()
        end = min(bitmap.max() + 1, self._topics.latest(topic).get(partition, 0))
        for message in read_committed(self._kafka, topic, {partition: bitmap.min()}, {partition: end}):
            offset = message.offset()
            if offset is not None and offset in bitmap:
                yield message

    def _positions(self, request: ReplayRequest) -> Positions:
        if self._refusals is None or self._refusals[0] != request.id:
            try:
                self._refusals = request.id, request.refusals()
                self._reasons.clear()
                self._untouched.clear()
            except ValueError as error:
                raise ConflictError(f"replay {request.id}: {error}") from error
        return self._refusals[1]

    def _known_replayed(self, held: Ledger) -> Positions:
        if self._replayed is None:
            self._replayed = require_replayed(self._kafka, held)
        return self._replayed

    def _outcome(self, chunk: _Chunk, judged: JudgedBatch[Any]) -> ReplayedChunk:
        refused = Positions()
        for rows in judged.results.refused.batches():
            columns = (rows.column(name).to_pylist() for name in ("partition", "offset"))
            for position in zip(*columns, strict=True):
                refused.add(*position)
        return ReplayedChunk(chunk.sources - refused, len(refused), chunk.taken - len(chunk.sources))


def report_of(
    request: ReplayRequest, progress: ReplayProgress, state: ReplayState, message: str | None = None
) -> ReplayReport:
    """Return the report of a request: its counts by the ledger."""
    return ReplayReport(
        request=request.id,
        stream=request.stream,
        at=datetime.now(UTC),
        state=state,
        records=progress.records,
        written=progress.written,
        refused=progress.refused,
        left=progress.left,
        message=None if message is None else message[:2000],
    )


@contextmanager
def refusing_mistakes() -> Iterator[None]:
    """Raise ConflictError for a fix that cannot be used."""
    try:
        yield
    except ContractError as error:
        raise ConflictError(f"the fix cannot be used: {error}") from error


def _compiled(request: ReplayRequest, plan: EnforcementPlan) -> CompiledFix | None:
    if request.fix is None:
        return None
    if any(each.contract.schema_.type != "json-schema" for each in plan.plans):
        raise ConflictError(
            "a fix changes JSON records, and the contract describes Avro: replay without a fix"
        )
    with refusing_mistakes():
        fix = parse_fix(request.fix, name="fix.json")
    if fix.fingerprint != request.fingerprint:
        raise ConflictError("the fix does not have the fingerprint of the request")
    return CompiledFix(fix)


def _require_budget(request: ReplayRequest, progress: ReplayProgress, found: ReplayedChunk) -> None:
    if not is_over_budget(progress, found, request.allowed):
        return
    refused = progress.refused + found.refused
    judged = progress.written + len(found.written) + refused
    raise ConflictError(
        f"{refused:,} of {judged:,} replayed records fail again, {request.allowed:.1%} allowed; the last chunk was not "
        "written. Look at the reasons with --dry-run, correct the fix, and request the replay again"
    )
