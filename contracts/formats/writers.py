"""The schemas that records may have been written with: the versions of the contract's subject, as a registry lists them.

The list is fixed for a batch, so that a batch that is judged again gets the same verdicts. It is fetched after the
records were read, and a producer registers a schema before it writes with it. So a schema that is not in the list is
not one of the subject. An older list, used while the registry is unavailable, does not prove that.

Source: Confluent wire format; the names and bytes are those of confluent-kafka 2.16 (`schema_registry.serde`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal
from uuid import UUID

SCHEMA_HEADER: Final = "__value_schema_id"
"""Name of the header that holds the schema of a record's value: a byte 01 and a GUID."""
GUID_BYTES: Final = 17


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A version of the subject. `type` is that of a contract's schema; None for one that no contract can have."""

    id: int
    guid: UUID
    type: Literal["avro", "json-schema"] | None
    text: str

    @property
    def header(self) -> bytes:
        """Return the value of a header that names this schema."""
        return b"\x01" + self.guid.bytes


@dataclass(frozen=True)
class WriterSchemas:
    """All versions of one subject. `is_current` says whether the list was asked for after the records were there."""

    schemas: tuple[WriterSchema, ...]
    is_current: bool
    by_id: dict[int, WriterSchema] = field(init=False, repr=False, compare=False)
    by_header: dict[bytes, WriterSchema] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {each.id: each for each in self.schemas})
        object.__setattr__(self, "by_header", {each.header: each for each in self.schemas})

    def __reduce__(self) -> tuple[type[WriterSchemas], tuple[tuple[WriterSchema, ...], bool]]:
        return WriterSchemas, (self.schemas, self.is_current)
