"""Read records from files and pipes: lines of text, or unchanged records of a topic."""

from __future__ import annotations

import base64
import binascii
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Final

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.sources.source import Unreadable

_BLOCK_BYTES: Final = 256 * 1024
_SIZE: Final = struct.Struct(">i")
_MOST_BYTES: Final = 1 << 30
"""Maximum size of a record; brokers do not accept records of this size."""
_NULL: Final = b"-"


class RecordForm(StrEnum):
    """The encoding of unchanged topic records in a file."""

    SIZED = "sized"
    BASE64 = "base64"

    @property
    def noun(self) -> str:
        """Return the noun for one record, in messages."""
        return "record" if self is RecordForm.SIZED else "line"


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Consecutive records: their values (None for a tombstone), schema headers and positions.

    `unreadable` are the unreadable records between and after them.
    """

    values: list[bytes | None]
    headers: list[bytes | None]
    positions: Sequence[int]
    unreadable: tuple[Unreadable, ...] = ()

    def __len__(self) -> int:
        return len(self.values)


def record_blocks(stream: BinaryIO, form: RecordForm) -> Iterator[RecordBlock]:
    """Yield records in blocks of one read each, so that records of a slow pipe are not held back.

    Records are numbered from 1. Memory is bounded by one block and the longest record. Raises SettingsError for data
    that does not have the form.
    """
    first = 1
    match form:
        case RecordForm.BASE64:
            for lines in line_batches(stream):
                # Without a limit, no line is None.
                read = [_decoded(line or b"", number) for number, line in enumerate(lines, first)]
                numbers = range(first, first + len(lines))
                yield RecordBlock([value for value, _ in read], [header for _, header in read], numbers)
                first += len(lines)
        case RecordForm.SIZED:
            for values in _sized_batches(stream):
                yield RecordBlock(values, [None] * len(values), range(first, first + len(values)))
                first += len(values)


def line_batches(stream: BinaryIO, longest: int = sys.maxsize) -> Iterator[list[bytes | None]]:
    """Yield the lines of a stream, without the LF that ends them. The last line needs no LF.

    A line of more than `longest` bytes (plus at most one read) becomes None, and is not kept in memory. It is the first
    of its list.
    """
    parts: list[bytes] = []
    size = 0
    while block := _read(stream):
        head, found, rest = block.rpartition(b"\n")
        if not found:
            size += len(block)
            if size <= longest:
                parts.append(block)
            else:
                parts.clear()
            continue
        lines: list[bytes | None] = [*(b"".join(parts) + head).split(b"\n")]
        if size > longest:
            lines[0] = None
        parts = [rest] if rest else []
        size = len(rest)
        yield lines
    if size:
        yield [b"".join(parts) if size <= longest else None]


def _sized_batches(stream: BinaryIO) -> Iterator[list[bytes | None]]:
    """Yield records, each preceded by its length in four big-endian bytes; -1 means null. Raises SettingsError."""
    rest = bytearray()
    number = 0
    while block := _read(stream):
        rest += block
        values: list[bytes | None] = []
        at = 0
        while len(rest) - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(rest, at)
            if not -1 <= size <= _MOST_BYTES:
                raise SettingsError(
                    f"record {number + len(values) + 1} has a length of {size} bytes: these are no records after their "
                    "lengths, as `kcat -f '%R%s'` writes them"
                )
            end = at + _SIZE.size + max(size, 0)
            if end > len(rest):
                break
            values.append(None if size < 0 else bytes(rest[at + _SIZE.size : end]))
            at = end
        del rest[:at]
        number += len(values)
        if values:
            yield values
    if rest:
        raise SettingsError(f"the data ends within record {number + 1}")


def _decoded(line: bytes, number: int) -> tuple[bytes | None, bytes | None]:
    value, _, header = line.partition(b" ")
    try:
        read = None if value == _NULL else base64.b64decode(value, validate=True)
        return read, base64.b64decode(header, validate=True) if header else None
    except (binascii.Error, ValueError):
        raise SettingsError(
            f"line {number} is not a record in base64, with its header __value_schema_id in base64 after a space if it has "
            "one; - is a null"
        ) from None


def _read(stream: BinaryIO) -> bytes:
    found: bytes = stream.read1(_BLOCK_BYTES)  # type: ignore[attr-defined]  # every buffered reader has it
    return found
