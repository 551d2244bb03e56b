"""What the demo sends: records whose place in the topic is known before they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tidegate import schemas
from tidegate.contracts.stream.evidence import EventPointer
from tidegate.contracts.verdict import Stage

PARTITIONS = 4
"""Of every topic of the demo: record i goes to partition i mod 4, so that its offset there is i div 4."""

RECORDS = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])

EXAMPLES = Path(schemas.__path__[0]) / "examples"


@dataclass(frozen=True, slots=True)
class Mark:
    """What one record must be refused for: the kind of its corruption, and the violation that shows it."""

    kind: str
    stage: Stage
    code: str


@dataclass(frozen=True, slots=True)
class DemoStream:
    """One stream of the demo, ready to be sent.

    `name` is the id of its contract, and its topic too. `records` are in the order of sending, with the columns of
    RECORDS. `marks` maps the index of every record that must be refused to the reason; all others must be accepted.
    `is_corrupted` says that they were corrupted on purpose, not found so.
    """

    name: str
    contract_file: Path
    records: pa.Table
    marks: Mapping[int, Mark] = field(default_factory=dict)
    is_corrupted: bool = False

    def pointer(self, index: int) -> EventPointer:
        """Return where record `index` lies in the topic, given that the topic was empty."""
        return EventPointer(self.name, index % PARTITIONS, index // PARTITIONS)

    def index(self, pointer: EventPointer) -> int:
        """Return which record lies at `pointer`; the inverse of `pointer`."""
        return pointer.offset * PARTITIONS + pointer.partition
