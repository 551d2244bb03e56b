"""Writer's schemas: the versions of the contract's subject, as a schema registry lists them.

The list is fixed for a batch, so that judging a batch again gives the same verdicts. It is fetched after the records
were read, and producers register a schema before they write with it. So a schema that is missing in the list is not
a version of the subject. A cached list, used while the registry is unavailable, does not prove this.

Source: Confluent wire format; header name and bytes as in confluent-kafka 2.16 (`schema_registry.serde`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal
from uuid import UUID

SCHEMA_HEADER: Final = "__value_schema_id"
"""The name of the record header that identifies the schema of the value: a byte 01 and a GUID."""
GUID_BYTES: Final = 17


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A version of the subject. `type` is None for a schema type that contracts do not support."""

    id: int
    guid: UUID
    type: Literal["avro", "json-schema"] | None
    text: str

    @property
    def header(self) -> bytes:
        """Return the value of the record header that identifies this schema."""
        return b"\x01" + self.guid.bytes


@dataclass(frozen=True)
class WriterSchemas:
    """All versions of one subject, the oldest first.

    `is_current` says whether the list was fetched after the records were read.
    """

    schemas: tuple[WriterSchema, ...]
    is_current: bool
    by_id: dict[int, WriterSchema] = field(init=False, repr=False, compare=False)
    by_header: dict[bytes, WriterSchema] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {each.id: each for each in self.schemas})
        object.__setattr__(self, "by_header", {each.header: each for each in self.schemas})

    def __reduce__(self) -> tuple[type[WriterSchemas], tuple[tuple[WriterSchema, ...], bool]]:
        return WriterSchemas, (self.schemas, self.is_current)
