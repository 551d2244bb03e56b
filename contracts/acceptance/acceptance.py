"""Accept most good records of a block at once, and hand over the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import msgspec
import orjson
import pyarrow as pa
import re2  # type: ignore[import-untyped] # it publishes no types

from contracts.acceptance.rows import Member, Row
from contracts.number_scan import byte_offsets
from contracts.record import FLAT_BYTES, MAX_DEPTH, may_change_numbers
from contracts.rules.compiled import Path, read

BLOCK_RECORDS: Final = 1_000
"""Few enough that a block stays in the processor's cache, many enough that what is done once a block is nothing."""

_SEPARATOR_ESCAPE: Final = b"\\u001"
"""Begins the escape of every separator; of other characters too, which then are looked at by others."""
_REFUSALS: Final = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)
"""What the decoder raises for what is no such record: a null and nesting without end among it."""

Reader = Callable[[list[Any]], list[Any]]
"""Gives the value of one column for each row."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some records in a row, beginning with record `start` of the batch.

    `rows` has a row for each, if rows are asked for: its own, if the record is accepted, else one of nulls. `others` are those that are not
    accepted, and of which nothing is known: position in the block, value, and whether its numbers need a look.
    `broken` are those that fit the schema and break rules: position, and the bit set of the rules. They have a row.
    """

    start: int
    rows: list[Any]
    others: list[tuple[int, bytes | None, bool]]
    broken: list[tuple[int, int]]


class Acceptance:
    """Decodes, and accepts what is known to fit the schema and to break no rule."""

    def __init__(
        self,
        row: Row,
        text_of: Callable[[Any], str | tuple[int, str] | None],
        expression: str,
        whole_hold: Callable[[Any], bool] | None,
    ) -> None:
        """Take the type of rows, the function that gives the texts of a good row, and their expression.

        `text_of` gives None for a row that is not accepted, and of one that breaks rules and nothing else the bit set of
        them too, where that is known. `whole_hold` is asked of the record as it is decoded.
        """
        self._row = row
        self._whole_hold = whole_hold
        self._decode = msgspec.json.Decoder(row.type).decode
        self._text_of = text_of
        self._match = re2.compile(f"(?:{expression})*".encode()).fullmatch if expression else None
        self.nulls = row.type(**{member.attribute: None for member in row.members.values()})

    def blocks(
        self, values: pa.Array, *, with_rows: bool, at: Callable[[int], None] | None = None
    ) -> Iterator[Block]:
        """Take the values, an array of binary or large_binary, block by block. Never raises on any value.

        `at`, if there is one, is called with the index of each value before it is looked at.
        """
        may_change = may_change_numbers(values)
        for start in range(0, len(values), BLOCK_RECORDS):
            part = values.slice(start, BLOCK_RECORDS)
            rows: list[Any] | None = [] if with_rows else None
            yield self._block(start, part, may_change[start : start + BLOCK_RECORDS], rows, at)

    def reader(self, path: Path) -> Reader:
        """Make the function that reads the values at a path from rows, null where there is none."""
        getters: list[Callable[[Any], Any]] = []
        rest = path
        row: Row | None = self._row
        while row is not None and rest:
            member = row.members.get(rest[0])
            if member is None:
                return lambda rows: [None] * len(rows)
            getters.append(_getter(member))
            row, rest = member.value.row, rest[1:]
        first, *deeper = getters

        def read_all(rows: list[Any]) -> list[Any]:
            values = list(map(first, rows))
            for get in deeper:
                values = [None if value is None else get(value) for value in values]
            return [read(value, rest) for value in values] if rest else values

        return read_all

    def _block(
        self,
        start: int,
        part: pa.Array,
        may_change: list[bool],
        rows: list[Any] | None,
        at: Callable[[int], None] | None,
    ) -> Block:
        values = part.to_pylist()
        looked_at = values if at is None else _each(values, start, at)
        found = self._texts(looked_at) if rows is None else self._texts_and_rows(looked_at, rows)
        bits = {at: each[0] for at, each in enumerate(found) if type(each) is tuple}
        texts = [each[1] if type(each) is tuple else each for each in found] if bits else found
        for position in _doubtful(part, values, may_change):
            texts[position] = None
        for position in self._misfits(texts, 0):
            texts[position] = None
        if self._whole_hold is not None:
            for position, value in enumerate(values):
                if texts[position] is not None and not self._holds(value):
                    texts[position] = None
        others = [(at, values[at], may_change[at]) for at, text in enumerate(texts) if text is None]
        if rows is not None:
            for position, _, _ in others:
                rows[position] = self.nulls
        # The quick tests of some rules refuse what breaks none.
        broken = [(at, rules) for at, rules in bits.items() if rules and texts[at] is not None]
        return Block(start, rows or [], others, broken)

    def _texts(self, values: Iterable[bytes | None]) -> list[Any]:
        """Give the texts of each value, None for what is not accepted.

        The loop that nearly all records pass: what can be asked of a whole block is asked afterwards.
        """
        decode, text_of = self._decode, self._text_of
        texts: list[Any] = []
        for value in values:
            try:
                texts.append(text_of(decode(value)))  # type: ignore[arg-type] # a null raises
            except _REFUSALS:
                texts.append(None)
        return texts

    def _texts_and_rows(self, values: Iterable[bytes | None], rows: list[Any]) -> list[Any]:
        """Give the same, and add the row of each to `rows`, None where there is none."""
        decode, text_of = self._decode, self._text_of
        texts: list[Any] = []
        for value in values:
            try:
                row = decode(value)  # type: ignore[arg-type] # the same
                texts.append(text_of(row))
                rows.append(row)
            except _REFUSALS:
                texts.append(None)
                rows.append(None)
        return texts

    def _holds(self, value: bytes) -> bool:
        """Ask the rules about whole records, which want the record as it is decoded."""
        assert self._whole_hold is not None  # noqa: S101 - narrows for the type checker
        try:
            return self._whole_hold(orjson.loads(value))
        except orjson.JSONDecodeError:
            return False

    def _misfits(self, texts: list[str | None], start: int) -> Iterator[int]:
        """Find the records whose texts do not match: all at once, and if they do not, each half."""
        if self._match is None or self._match("".join(filter(None, texts)).encode()) is not None:
            return
        if len(texts) == 1:
            yield start
            return
        half = len(texts) // 2
        yield from self._misfits(texts[:half], start)
        yield from self._misfits(texts[half:], start + half)


def _each(values: list[bytes | None], start: int, at: Callable[[int], None]) -> Iterator[bytes | None]:
    for index, value in enumerate(values, start):
        at(index)
        yield value


def _getter(member: Member) -> Callable[[Any], Any]:
    get = attrgetter(member.attribute)
    if not member.may_be_unset:
        return get
    return lambda row: None if (value := get(row)) is msgspec.UNSET else value


def _doubtful(part: pa.Array, values: list[bytes | None], may_change: list[bool]) -> Iterator[int]:
    """Find the values of which the decoder may have seen less, or something else, than is there."""
    offsets, data = byte_offsets(part), part.buffers()[2]
    if data is None:
        return
    first, end = int(offsets[0]), int(offsets[-1])
    if any(may_change):
        yield from (position for position, is_suspect in enumerate(may_change) if is_suspect)
    if not _is_text(part):
        yield from _positions(values, lambda value: not _is_utf8(value))
    if b"\\" in data.slice(first, end - first).to_pybytes():
        yield from _positions(values, lambda value: _SEPARATOR_ESCAPE in value)
    if (offsets[1:] - offsets[:-1]).max() > FLAT_BYTES:
        yield from _positions(values, _may_be_too_deep)


def _positions(values: list[bytes | None], test: Callable[[bytes], bool]) -> Iterator[int]:
    return (position for position, value in enumerate(values) if value is not None and test(value))


def _is_text(part: pa.Array) -> bool:
    """Whether all values are UTF-8: the decoder does not look at the strings that it skips."""
    try:
        part.cast(pa.large_string() if pa.types.is_large_binary(part.type) else pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _may_be_too_deep(value: bytes) -> bool:
    return len(value) > FLAT_BYTES and value.count(b"[") + value.count(b"{") > MAX_DEPTH


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
