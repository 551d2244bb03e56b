"""Size limits of the messages from jobs to the gateway: no field of a report, trip, event or result is unbounded.

A job builds the same models that the gateway reads, so each limit is above what a real stream can reach.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from tidegate.contracts.stream.counts import Count

MOST_RECORDS: Final = 10**10
"""Maximum number of records in one batch: the sum over all batches that a database can hold stays below 2^63."""
MOST_OFFSETS: Final = 10_000_000
"""Maximum number of offsets that a job may be configured to take in one batch."""
MOST_SLOTS: Final = 64
"""Maximum number of transactional producers of a stream's job; commands use the slots from this number on."""
MOST_RULES: Final = 2_000
"""Maximum number of rules in one report; a job leaves out those that were violated least."""
MOST_EXPECTATIONS: Final = 1_000
MOST_COLUMNS: Final = 2_000
MOST_STEPS: Final = 40
MOST_PARTITIONS: Final = 50_000
MOST_PLACES: Final = 10_000
"""Maximum number of records that one finding of a reconciliation names."""
LONGEST_POINTER: Final = 8 * 1024

StreamText = Annotated[str, Field(max_length=200)]
"""Id of a contract."""
TopicText = Annotated[str, Field(max_length=260)]
"""Name of a topic: at most 249 characters in Kafka, plus the suffix of an output topic."""
LedgerText = Annotated[str, Field(max_length=1_000)]
"""Name of a ledger."""
VersionText = Annotated[str, Field(max_length=1_000)]
"""Version of a contract, or `id@version`."""
PointerText = Annotated[str, Field(max_length=LONGEST_POINTER)]
LineText = Annotated[str, Field(max_length=1_000)]
TableText = Annotated[str, Field(min_length=1, max_length=5_000)]
"""Name of a table, or the path of its folder: at most 4,096 bytes in Linux."""
StepText = Annotated[str, Field(max_length=40)]
StepMilliseconds = Annotated[int, Field(ge=0, le=10**10)]

Instant = Annotated[
    AwareDatetime,
    Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(9999, 1, 1, tzinfo=UTC)),
]
"""Time that every time zone and database can represent: conversions to UTC overflow near the calendar's ends."""

Offsets = Annotated[dict[Count, Count], Field(max_length=MOST_PARTITIONS)]
"""Source partition to offset."""
