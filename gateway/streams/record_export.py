"""Downloads of refused records as CSV, JSON Lines or Parquet: masked, audited, bounded in number, and streamed."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any, Final
from weakref import WeakSet

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.access.limits import WorkSlots
from tidegate.gateway.access.principal import Principal
from tidegate.gateway.registry.subject_scope import topic_of_contract
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Database
from tidegate.gateway.streams.quarantine import Origin, QuarantineReader
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.quarantine_index.positions import FrozenPositions
from tidegate.gateway.streams.quarantine_index.reading import QuarantineIndex
from tidegate.gateway.streams.quarantine_records import MaskedRecord, RecordMasking

MOST_RECORDS: Final = 1_000_000
MOST_AT_ONCE: Final = 2
"""Maximum downloads that one process runs at the same time."""
STALLED_AFTER: Final = timedelta(minutes=1)
_AT_ONCE = 200
_PATIENCE = timedelta(seconds=60)
"""Maximum time to read a part, whose records may be far apart in the topic."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of texts that spreadsheets run as formulas. Source: OWASP, "CSV Injection"."""


class ExportFormat(StrEnum):
    """The formats of a download."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


MEDIA_TYPES: Final = {
    ExportFormat.CSV: "text/csv; charset=utf-8",
    ExportFormat.JSONL: "application/x-ndjson",
    ExportFormat.PARQUET: "application/vnd.apache.parquet",
}
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("position", "source")),
        *((name, pa.timestamp("ms", tz="UTC")) for name in ("at", "refused_at")),
        ("contract", pa.string()),
        ("rules", pa.list_(pa.string())),
        ("fields", pa.list_(pa.string())),
        ("sentences", pa.list_(pa.string())),
        *((name, pa.string()) for name in ("key", "value")),
        ("hidden", pa.list_(pa.string())),
        ("size", pa.int64()),
    ]
)
COLUMNS: Final[tuple[str, ...]] = tuple(_SCHEMA.names)


class RecordExports:
    """The downloads of one process."""

    def __init__(self, database: Database, kafka: KafkaConnection, now: Callable[[], datetime]) -> None:
        self._database = database
        self._kafka = kafka
        self._now = now
        self._places = WorkSlots(MOST_AT_ONCE, "downloads")
        self._running: WeakSet[_Download] = WeakSet()

    def begin(
        self, stream: str, wanted: QuarantineFilter, form: ExportFormat, limit: int, masking: RecordMasking, by: Principal
    ) -> Iterator[bytes]:  # fmt: skip
        """Return the parts of a download of at most `limit` records, by partition and offset.

        The audit log records the download before the first part. Raises NotFoundError; TooManyRequests if a download of
        this principal, or MOST_AT_ONCE downloads, are running; Unavailable, also between two parts.
        """
        positions = QuarantineIndex(self._database, self._now).positions(stream, wanted)
        for each in tuple(self._running):
            each.end_if_stalled()
        self._places.take(by)
        reader = QuarantineReader(self._kafka)  # a separate reader, so that pages do not wait for a download

        def end() -> None:
            reader.close()
            self._places.leave(by)

        try:
            origin = self._audited(stream, wanted, form, positions, by)
        except BaseException:
            end()
            raise
        places = islice(positions.places(), limit)
        records = _records(reader, origin, places, masking)
        download = _Download(_WRITERS[form](records), end, self._now)
        self._running.add(download)
        return download

    def _audited(
        self, stream: str, wanted: QuarantineFilter, form: ExportFormat, positions: FrozenPositions, by: Principal
    ) -> Origin:  # fmt: skip
        what = {"filter": json.loads(json.dumps(asdict(wanted), default=str)), "digest": positions.digest}
        with self._database.writing() as stores:
            topic = topic_of_contract(stores, stream)
            stores.audit.append(
                AuditedAction(
                    self._now(),
                    by.name,
                    "quarantine.exported",
                    f"{subject_of(topic)}#{form.value}",
                    None,
                    content_hash(what),
                )
            )
            return Origin(stream, topic)


def _records(
    reader: QuarantineReader, origin: Origin, places: Iterator[tuple[int, int]], masking: RecordMasking
) -> Iterator[list[MaskedRecord]]:
    while part := tuple(islice(places, _AT_ONCE)):
        yield masking.in_order(reader.records(origin, part, _PATIENCE), part)


class _Download(Iterator[bytes]):
    """The parts of a download; `ended` is called once, also when the reader disconnects."""

    def __init__(
        self, parts: Iterator[bytes], ended: Callable[[], None], now: Callable[[], datetime]
    ) -> None:
        self._parts = parts
        self._ended: Callable[[], None] | None = ended
        self._now = now
        self._given_at: datetime | None = now()
        """Time of the last returned part; None while the next one is built."""
        self._is_stalled = False
        self._lock = threading.Lock()

    def __next__(self) -> bytes:
        self._given_at = None
        if self._is_stalled:
            raise Unavailable(
                "this download was not read for a minute, and another took its place; begin it again"
            )
        try:
            part = next(self._parts)
        except BaseException:
            self.close()
            raise
        self._given_at = self._now()
        return part

    def end_if_stalled(self) -> None:
        """End a download if its client has read no part for STALLED_AFTER, so that others can start."""
        given_at = self._given_at
        if given_at is not None and self._now() - given_at > STALLED_AFTER:
            self._is_stalled = True
            self.close()

    def close(self) -> None:
        """End the download."""
        with self._lock:
            ended, self._ended = self._ended, None
        if ended is not None:
            ended()

    def __del__(self) -> None:
        self.close()


def _jsonl(records: Iterator[list[MaskedRecord]]) -> Iterator[bytes]:
    for part in records:
        lines = (json.dumps(_row(each), ensure_ascii=False, default=_instant) for each in part)
        yield "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _csv(records: Iterator[list[MaskedRecord]]) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for part in records:
        writer.writerows([_cell(value) for value in _row(each).values()] for each in part)
        yield text.getvalue().encode("utf-8", "replace")
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()


def _parquet(records: Iterator[list[MaskedRecord]]) -> Iterator[bytes]:
    sink = _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), _SCHEMA, compression="zstd") as writer:
        for part in records:
            writer.write_table(pa.Table.from_pylist([_row(each) for each in part], _SCHEMA))
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """A file for ParquetWriter. `taken` removes the written bytes, so it never has more than one part in memory."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._written

    def write(self, data: Any, /) -> int:
        """Append bytes."""
        part = bytes(data)
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def taken(self) -> bytes:
        """Return and remove the bytes that were written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


_WRITERS: Final = {ExportFormat.CSV: _csv, ExportFormat.JSONL: _jsonl, ExportFormat.PARQUET: _parquet}


def _row(record: MaskedRecord) -> dict[str, Any]:
    violations = [each.violation for each in record.explanations]
    return {
        "position": record.position,
        "source": record.source,
        "at": record.at,
        "refused_at": record.refused_at,
        "contract": record.contract,
        "rules": [each.code for each in violations],
        "fields": [each.pointer for each in violations],
        "sentences": [each.sentence for each in record.explanations],
        "key": record.key,
        "value": record.value_text,
        "hidden": list(record.hidden),
        "size": record.size,
    }


def _cell(value: Any) -> str:
    """Return the text of a cell. A text that a spreadsheet would run as a formula gets an apostrophe before it."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return _instant(value)
    text = " ; ".join(value) if isinstance(value, list) else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _instant(value: Any) -> str:
    return str(value.isoformat())
