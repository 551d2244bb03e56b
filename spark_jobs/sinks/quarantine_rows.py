"""The rows of a quarantine table: refused records with their reasons, as stored in the quarantine topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.stream.evidence import Evidence, Provenance, headers_of, read_evidence, read_original
from tidegate.contracts.stream.generations import Rewinds
from tidegate.contracts.stream.ledger import Vector

if TYPE_CHECKING:
    from confluent_kafka import Message

_REASON: Final = pa.struct(
    [(name, pa.string()) for name in ("stage", "code", "pointer", "severity", "message")]
)
COLUMNS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))),
        ("is_omitted", pa.bool_()),
        ("reasons", pa.list_(pa.field("element", _REASON))),
        ("reasons_left_out", pa.int32()),
        ("judged_at", pa.timestamp("us", "UTC")),
        ("quarantined_at", pa.timestamp("us", "UTC")),
        ("quarantine_partition", pa.int32()),
        ("quarantine_offset", pa.int64()),
        ("generation", pa.int64()),
    ]
)
"""The columns before those of the source.

`key`, `value` and `headers` are the record's own bytes; null with `is_omitted`, if the topic could not hold the record.
`reasons` is null if their header has an unknown format; `reasons_left_out` counts those that did not fit into it.
`quarantined_at` is null for a topic without log append time. `generation` counts the rewinds before the refusal.
"""

_PROVENANCE: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("value", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class QuarantineRows:
    """The contents of a quarantine table, in the form that `LedgerStore` expects (`TableContents`)."""

    contract: DataContract

    columns: ClassVar[pa.Schema] = COLUMNS

    @classmethod
    def of(cls, contract: DataContract) -> QuarantineRows:
        """Return the rows of a stream. Each refusal is one row, so the contract's primary key does not apply."""
        return cls(contract.model_copy(update={"primary_key": (), "tombstones": "pass"}))


@dataclass(frozen=True, slots=True)
class Outdated:
    """The rows that no longer count: their record has left the quarantine topic, or a rewind has overruled it.

    `earliest` holds the first offsets of the quarantine topic's partitions, without those at 0.
    """

    earliest: Vector
    rewinds: Rewinds

    def __bool__(self) -> bool:
        return bool(self.earliest or self.rewinds)

    def condition(self, partition: str, offset: str) -> str:
        """Return the SQL condition for these rows; the arguments name the columns of the source position."""
        return " OR ".join(self._places(partition, offset))

    def _places(self, partition: str, offset: str) -> Iterator[str]:
        for number, first in sorted(self.earliest.items()):
            yield f"(quarantine_partition = {number} AND quarantine_offset < {first})"
        for number, rewinds in sorted(self.rewinds.items()):
            for each in rewinds:
                yield (
                    f"({partition} = {number} AND {offset} >= {each.first} AND generation < {each.generation})"
                )


class RefusedRows:
    """Refused records that are collected until they are written."""

    def __init__(self) -> None:
        self._columns: list[tuple[Any, ...]] = []
        self._sources: list[tuple[Any, ...]] = []
        self._contracts: list[str] = []
        self.size = 0
        """Bytes of keys and values."""

    def __len__(self) -> int:
        return len(self._columns)

    def add(self, message: Message, found: Provenance) -> None:
        """Add a record of the quarantine topic."""
        headers = headers_of(message)
        original, evidence = read_original(headers), read_evidence(headers)
        kind, milliseconds = message.timestamp()
        key, value = message.key(), message.value()
        at = milliseconds if original.timestamp_ms is None else original.timestamp_ms
        self._columns.append(
            (
                key,
                value,
                None if original.is_omitted else [{"key": n, "value": v} for n, v in original.headers],
                original.is_omitted,
                None if evidence is None else _reasons(evidence),
                None if evidence is None else evidence.left_out,
                None if original.judged_at is None else original.judged_at // 1000,
                milliseconds * 1000 if kind == TIMESTAMP_LOG_APPEND_TIME else None,
                message.partition(),
                message.offset(),
                found.generation,
            )
        )
        self._sources.append((found.source.partition, found.source.offset, at * 1000, value))
        self._contracts.append(found.contract)
        self.size += len(key or b"") + len(value or b"")

    def arrays(self) -> tuple[pa.StructArray, pa.RecordBatch, pa.Array]:
        """Return the columns, the sources and the contract versions, as the writer of a part expects them."""
        columns = pa.StructArray.from_arrays(_arrays(self._columns, COLUMNS), fields=list(COLUMNS))
        sources = pa.RecordBatch.from_arrays(_arrays(self._sources, _PROVENANCE), schema=_PROVENANCE)
        return columns, sources, pa.array(self._contracts, pa.string())


def _arrays(rows: list[tuple[Any, ...]], schema: pa.Schema) -> list[pa.Array]:
    return [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]


def _reasons(evidence: Evidence) -> list[dict[str, str]]:
    return [
        {
            "stage": str(each.stage),
            "code": each.code,
            "pointer": each.pointer,
            "severity": str(each.severity),
            "message": each.message,
        }
        for each in evidence.violations
    ]
