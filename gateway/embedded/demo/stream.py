"""The records of the demo, with their positions in the topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tidegate import schemas
from tidegate.contracts.stream.evidence import EventPointer
from tidegate.contracts.verdict import Stage

PARTITIONS = 4
"""Partitions of each topic of the demo. Record i is at offset i div 4 of partition i mod 4."""

RECORDS = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])

EXAMPLES = Path(schemas.__path__[0]) / "examples"


@dataclass(frozen=True, slots=True)
class ExpectedRefusal:
    """The expected refusal of one record: the kind of its corruption, and the expected violation."""

    kind: str
    stage: Stage
    code: str


@dataclass(frozen=True, slots=True)
class DemoStream:
    """One stream of the demo, with all its records.

    `name` is the id of its contract and its topic. `records` are in the order of sending, with the columns of RECORDS.
    `marks` maps the index of every record that must be refused to the reason; all others must be accepted.
    `is_corrupted`: the demo corrupted these records; otherwise the errors are in the data set.
    """

    name: str
    records: pa.Table
    marks: Mapping[int, ExpectedRefusal] = field(default_factory=dict)
    is_corrupted: bool = False

    def pointer(self, index: int) -> EventPointer:
        """Return the position of record `index` in the topic, which must have been empty before."""
        return EventPointer(self.name, index % PARTITIONS, index // PARTITIONS)

    def index(self, pointer: EventPointer) -> int:
        """Return the index of the record at a position; the inverse of the method `pointer`."""
        return pointer.offset * PARTITIONS + pointer.partition
