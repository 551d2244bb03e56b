"""Framing: the schema id in front of the payload in a record's value, or in a record header.

Source: Confluent wire format: a zero byte and a big-endian schema id of four bytes; or a header, see `writers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.formats.writers import GUID_BYTES, SCHEMA_HEADER, WriterSchema, WriterSchemas
from tidegate.contracts.verdict import Severity, Stage, Violation

Framing = Literal["none", "confluent-prefix", "confluent-header", "auto"]
SchemaType = Literal["avro", "json-schema"]

PREFIX_BYTES: Final = 5
"""A zero byte and a schema id."""
NO_ID: Final = -1
"""Instead of a schema id: the value is null, or ends within its prefix."""
BARE: Final = -2
"""Instead of a schema id: the value has no prefix."""
_MAGIC: Final = b"\0"
_INLINE_BYTES: Final = 12
"""Arrow stores values up to this length inside the view."""
_MOST_VIEWED_BYTES: Final = 2**31 - 1


def _violation(code: str, message: str) -> Violation:
    return Violation(Stage.FRAME, code, "", Severity.ERROR, message)


_MISSING: Final = _violation("frame.missing", "does not begin with the zero byte of a schema id")
_TRUNCATED: Final = _violation("frame.truncated", "ends within its schema id (5 bytes are needed)")
_NO_HEADER: Final = _violation("frame.missing", f"has no header `{SCHEMA_HEADER}` that names its schema")
_BAD_HEADER: Final = _violation(
    "frame.invalid", f"has a header `{SCHEMA_HEADER}` that is not one byte 01 and a GUID of 16 bytes"
)
_UNKNOWN: Final = _violation(
    "frame.unknown-schema", "names a schema that the registry does not have among the versions of its subject"
)
_OTHER_TYPE: Final = _violation(
    "frame.schema-type", "was written with a schema of another type than the contract's"
)


def byte_offsets(values: pa.Array) -> npt.NDArray[Any]:
    """Return the offset of each value of a (large_)binary array in its data buffer, and the end of the last one."""
    width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    offsets: npt.NDArray[Any] = np.frombuffer(values.buffers()[1], width)
    return offsets[values.offset : values.offset + len(values) + 1]


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """The writer's schema of each record: `of` has its index in `schemas`, or -1 for a record that names none.

    A schema that was refused is None in `schemas`.
    """

    schemas: tuple[WriterSchema | None, ...]
    of: npt.NDArray[np.int32]


@dataclass(slots=True)
class Framed:
    """Values with their framing removed. `payloads` has a null for a refused frame and for a tombstone.

    `refusals` maps the index of a record to the error of its frame. `written_by` is None for JSON, without framing and
    without a registry.
    """

    payloads: pa.Array
    refusals: dict[int, Violation] = field(default_factory=dict)
    written_by: WrittenBy | None = None


@dataclass(frozen=True, slots=True)
class Frames:
    """The framing of a contract's values, and the schemas that they may name.

    Without `writers` (no registry is available), schema ids are removed but not looked up.
    """

    framing: Framing
    type: SchemaType
    writers: WriterSchemas | None = None

    def open(self, values: pa.Array, headers: pa.Array | None = None) -> Framed:
        """Remove the framing of each value. `headers` are the schema headers of the records, for confluent-header.

        Raises Unavailable for an unknown schema if the list of schemas is not current.
        """
        match self.framing:
            case "none":
                return Framed(values)
            case "confluent-header":
                return Framed(values) if headers is None else self._by_header(values, headers)
            case "auto" if not pc.any(pc.starts_with(values, _MAGIC)).as_py():
                return Framed(values)
        return self._by_prefix(values)

    def _by_prefix(self, values: pa.Array) -> Framed:
        prefixes = _Prefixes(values)
        bare = prefixes.bare if self.framing == "auto" else np.zeros(len(values), bool)
        framed = Framed(prefixes.payloads(bare))
        for index in np.flatnonzero(~(prefixes.framed | bare | prefixes.null)).tolist():
            framed.refusals[index] = _MISSING if prefixes.bare[index] else _TRUNCATED
        if self.writers is not None:
            by_id = self.writers.by_id
            names = pa.array(prefixes.ids, mask=~prefixes.framed)
            self._look_up(framed, names, lambda number: self._known(by_id.get(number)))
        return framed

    def _by_header(self, values: pa.Array, headers: pa.Array) -> Framed:
        framed = Framed(values)
        for index in np.flatnonzero(pc.and_(headers.is_null(), values.is_valid())).tolist():
            framed.refusals[index] = _NO_HEADER
        self._look_up(framed, headers, self._of_header)
        return framed

    def _look_up(
        self, framed: Framed, names: pa.Array, known: Callable[[Any], WriterSchema | Violation | None]
    ) -> None:
        """Look up the schema that each record names, and refuse the records whose schema is not in the subject.

        `known` returns the schema for a name, the error, or None without a registry. Updates `framed` in place.
        """
        encoded = names.dictionary_encode()
        found = [known(name) for name in encoded.dictionary.to_pylist()]
        of = np.asarray(encoded.indices.fill_null(-1))
        refused = [isinstance(each, Violation) for each in found]
        if any(refused):
            is_refused = np.array([*refused, False])[of] & np.asarray(framed.payloads.is_valid())
            for index in np.flatnonzero(is_refused).tolist():
                framed.refusals[index] = found[of[index]]
        if framed.refusals:
            framed.payloads = _without(framed.payloads, framed.refusals)
        if self.writers is not None and self.type == "avro":  # JSON is decoded without the writer's schema
            framed.written_by = WrittenBy(
                tuple(None if isinstance(each, Violation) else each for each in found), of
            )

    def _of_header(self, header: bytes) -> WriterSchema | Violation | None:
        if len(header) != GUID_BYTES or header[0] != 1:
            return _BAD_HEADER
        return None if self.writers is None else self._known(self.writers.by_header.get(header))

    def _known(self, writer: WriterSchema | None) -> WriterSchema | Violation:
        """Return the schema that a record names, or the error. Raises Unavailable if the list is not current."""
        if writer is not None:
            return writer if writer.type == self.type else _OTHER_TYPE
        if self.writers is not None and not self.writers.is_current:
            raise Unavailable(
                "a record names a schema that was not registered when the registry last answered; it must answer before "
                "anybody can say whether there is such a schema"
            )
        return _UNKNOWN


def prefixed_ids(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return the schema id in front of each value; BARE for one that does not start with a zero byte, else NO_ID."""
    prefixes = _Prefixes(values)
    return np.where(prefixes.bare, BARE, prefixes.ids)


class _Prefixes:
    """The prefixes of all values of a binary array, read together."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values
        self._offsets = byte_offsets(values).astype(np.int64)
        count = len(values)
        self._lengths: npt.NDArray[np.int64] = np.diff(self._offsets)
        buffer = values.buffers()[2]
        self._data = np.frombuffer(buffer if buffer is not None and buffer.size else b"\0", np.uint8)
        self.null: npt.NDArray[np.bool_] = (
            np.asarray(values.is_null()) if values.null_count else np.zeros(count, bool)
        )
        """Whether a value is null."""
        first = self._bytes_at(self._offsets[:-1])
        self.bare: npt.NDArray[np.bool_] = ~self.null & ((self._lengths == 0) | (first != 0))
        """Whether a value does not start with the zero byte."""
        self.framed: npt.NDArray[np.bool_] = ~self.null & ~self.bare & (self._lengths >= PREFIX_BYTES)
        """Whether a value starts with a complete prefix."""
        ids = np.zeros(count, np.int64)
        for place in range(1, PREFIX_BYTES):
            ids = ids << 8 | self._bytes_at(self._offsets[:-1] + place)
        self.ids: npt.NDArray[np.int64] = np.where(self.framed, ids, -1)
        """The schema ids; NO_ID where there is none."""

    def payloads(self, bare: npt.NDArray[np.bool_]) -> pa.Array:
        """Return framed values without their prefixes and `bare` values unchanged; null for all others."""
        kept = self.framed | bare
        starts = self._offsets[:-1] + np.where(self.framed, PREFIX_BYTES, 0)
        lengths = np.where(kept, self._lengths - np.where(self.framed, PREFIX_BYTES, 0), 0)
        first = int(self._offsets[0]) if len(self._values) else 0
        if len(self._values) and int(self._offsets[-1]) - first > _MOST_VIEWED_BYTES:
            cut = zip(starts.tolist(), lengths.tolist(), kept.tolist(), strict=True)
            data = self._data
            return pa.array(
                [data[start : start + length].tobytes() if keep else None for start, length, keep in cut],
                self._values.type,
            )
        views = np.zeros((len(self._values), 4), np.int32)
        views[:, 0] = lengths
        views[:, 3] = starts - first
        for place in range(4):
            views.view(np.uint8)[:, 4 + place] = self._bytes_at(starts + place)
        self._put_inline(views, starts, lengths)
        # Views can start at any byte of the buffer, and casting them is the fastest way to copy.
        validity = pa.py_buffer(np.packbits(kept, bitorder="little"))
        buffers = [validity, pa.py_buffer(views), pa.py_buffer(self._data[first:])]
        return pa.Array.from_buffers(pa.binary_view(), len(self._values), buffers).cast(self._values.type)

    def _put_inline(
        self, views: npt.NDArray[np.int32], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> None:
        rows = np.flatnonzero(lengths <= _INLINE_BYTES)
        if len(rows):
            places = np.arange(_INLINE_BYTES)
            shown = self._bytes_at(starts[rows, None] + places)
            views.view(np.uint8)[rows, 4:] = np.where(places < lengths[rows, None], shown, 0)

    def _bytes_at(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        """Return the bytes at some offsets; an arbitrary byte for an offset beyond the end."""
        if places.size and int(places.max()) >= len(self._data):
            places = np.minimum(places, len(self._data) - 1)
        return self._data[places]


def _without(payloads: pa.Array, refusals: Mapping[int, Violation]) -> pa.Array:
    """Return the payloads with null for those of refused frames."""
    is_refused = np.zeros(len(payloads), bool)
    is_refused[list(refusals)] = True
    return pc.if_else(pa.array(is_refused), pa.scalar(None, payloads.type), payloads)


def schema_header(headers: Sequence[tuple[str, bytes | None]] | None) -> bytes | None:
    """Return the value of the schema header of a record; None if it has none.

    Consumers disagree on whether the first or the last of several schema headers applies. Different values are
    therefore concatenated, which matches no schema.
    """
    found = dict.fromkeys(value or b"" for name, value in headers or () if name == SCHEMA_HEADER)
    return b"".join(found) if found else None
