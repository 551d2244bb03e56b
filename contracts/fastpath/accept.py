"""Accept most good records of a block in bulk, and hand over the others for a strict check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import re2  # type: ignore[import-untyped] # it publishes no types

from tidegate.contracts.columns.rows import Suspect
from tidegate.contracts.fastpath.json_values import FLAT_BYTES, decode_value, may_change_numbers
from tidegate.contracts.fastpath.rows import NotExpressibleError
from tidegate.contracts.formats.framing import byte_offsets
from tidegate.contracts.formats.json_records import MAX_DEPTH

BLOCK_RECORDS: Final = 1_000
"""Few enough that a block stays in the CPU cache, and enough to make the fixed cost of a block negligible."""

_SEPARATOR_ESCAPE: Final = b"\\u001"
"""Start of the JSON escape of every separator. It also matches other characters, which are then checked strictly."""
_BRACKET_BIT: Final = np.uint8(0x20)
"""Setting this bit turns a square bracket into a curly one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The functions generated for a contract that check a record and extract its stored values.

    `text_of` returns the text of a row (see `patterns`): `strings` strings, then the strings of `lists` lists. It returns
    None for a row that is not accepted. For a row that only breaks rules it also returns their bit set, where known.
    `expression` matches the texts of good rows. `also_of` returns the `also` other stored values of a row. `loop` decodes
    many values and does both, see `CodeWriter.loop`.
    """

    loop: Callable[..., None]
    text_of: Callable[[Any], str | tuple[int, str] | None]
    also_of: Callable[[Any], tuple[Any, ...]]
    also: int
    expression: str
    strings: int
    lists: int


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive records, beginning with record `start` of the batch.

    `text` is the text of all accepted records. `also` has a list for each other stored value, with None for a record
    that is not accepted. `others` are records with an unknown verdict: position in the block, value, and whether its
    numbers need a check. `broken` are records that fit the schema but break rules: position, and the bit set of the
    rules. Their text and values are stored like those of accepted records.
    """

    start: int
    text: bytes
    also: list[list[Any]]
    others: list[tuple[int, bytes | None, bool]]
    broken: list[tuple[int, int]]

    def suspects(self, at: Callable[[int], None] | None) -> Iterator[Suspect]:
        """Yield the records that are not accepted, each as a `Suspect`; `at` is as for `Acceptance.blocks`."""
        for position, rules in self.broken:
            yield self.start + position, None, rules
        for position, value, may_change in self.others:
            if at is not None:
                at(self.start + position)
            yield self.start + position, decode_value(value, may_change=may_change), None


class Acceptance:
    """The bulk check: decodes records, and accepts those that certainly fit the schema and all rules."""

    def __init__(self, reading: Reading, whole_hold: Callable[[Any], bool] | None) -> None:
        """Initialise from a reading; `whole_hold` checks the decoded record.

        Raises NotExpressibleError for an expression that exceeds the memory limit of the regular expression engine.
        """
        self.reading = reading
        self._whole_hold = whole_hold
        expression = reading.expression
        self._of_one = f"^(?:{expression})*$"
        try:
            self._match = re2.compile(f"(?:{expression})*".encode()).fullmatch if expression else None
            self._misfits(
                [""]
            )  # Arrow compiles the expression itself; find out now whether it can, not at the first misfit
        except (re2.error, pa.ArrowInvalid) as error:
            raise NotExpressibleError from error

    def blocks(self, values: pa.Array, at: Callable[[int], None] | None = None) -> Iterator[Block]:
        """Process the values, an array of binary or large_binary, block by block. Never raises on any value.

        `at`, if given, is called with the index of each value before the value is checked.
        """
        may_change = may_change_numbers(values)
        for start in range(0, len(values), BLOCK_RECORDS):
            part = values.slice(start, BLOCK_RECORDS)
            yield self._block(start, part, may_change[start : start + BLOCK_RECORDS], at)

    def _block(
        self, start: int, part: pa.Array, may_change: list[bool], at: Callable[[int], None] | None
    ) -> Block:
        values = part.to_pylist()
        texts: list[str] = []
        left: list[tuple[int, Any]] = []
        raised: list[int] = []
        also: list[list[Any]] = [[] for _ in range(self.reading.also)]
        self.reading.loop(values if at is None else _each(values, start, at), texts, left, raised, *also)
        broken: dict[int, int] = {}
        unknown = {*raised, *_doubtful(part, values, may_change)}
        for position, row in left:
            if at is not None:
                at(start + position)
            rules = self._again(row, position, texts, also)
            if rules is None:
                unknown.add(position)
            elif rules:  # 0 is possible: some quick tests reject records that break no rule
                broken[position] = rules
        if self._whole_hold is not None:
            asked = (position for position in range(len(values)) if position not in unknown)
            unknown.update(
                [position for position in asked if not self._holds(values[position], start + position, at)]
            )
        text = self._matched(texts, unknown)
        for kept in also:
            for position in unknown:
                kept[position] = None
        others = [(position, values[position], may_change[position]) for position in sorted(unknown)]
        return Block(start, text, also, others, [each for each in broken.items() if each[0] not in unknown])

    def _matched(self, texts: list[str], unknown: set[int]) -> bytes:
        """Return the matching texts concatenated, and add the positions of the others to `unknown`."""
        for position in unknown:
            texts[position] = ""
        text = "".join(texts).encode()
        if self._match is None or self._match(text) is not None:
            return text
        misfits = self._misfits(texts)
        unknown.update(misfits)
        for position in misfits:
            texts[position] = ""
        return "".join(texts).encode()

    def _again(self, row: Any, position: int, texts: list[str], also: list[list[Any]]) -> int | None:
        """Check one row that the loop did not accept; return the bit set of broken rules, None if unknown."""
        found = self.reading.text_of(row)
        if found is None:
            return None
        rules, texts[position] = (0, found) if isinstance(found, str) else found
        if also:
            for kept, each in zip(also, self.reading.also_of(row), strict=True):
                kept[position] = each
        return rules

    def _holds(self, value: bytes | None, index: int, at: Callable[[int], None] | None) -> bool:
        """Return whether the rules about whole records hold for value `index`; they need the decoded record."""
        if at is not None:
            at(index)
        assert self._whole_hold is not None  # noqa: S101 - narrows for the type checker
        try:
            return self._whole_hold(orjson.loads(value))  # type: ignore[arg-type] # a null raises
        except orjson.JSONDecodeError:
            return False

    def _misfits(self, texts: list[str]) -> list[int]:
        """Return the positions of the texts that do not match on their own."""
        # One call of Arrow. Bisecting the block took five times as long when half of it did not match, and is better only
        # for a single misfit.
        matches = pc.match_substring_regex(pa.array(texts, pa.binary()), self._of_one)
        misfits: list[int] = np.flatnonzero(~matches.to_numpy(zero_copy_only=False)).tolist()
        return misfits


def _each(values: list[bytes | None], start: int, at: Callable[[int], None]) -> Iterator[bytes | None]:
    for index, value in enumerate(values, start):
        at(index)
        yield value


def _doubtful(part: pa.Array, values: list[bytes | None], may_change: list[bool]) -> Iterator[int]:
    """Yield the positions of the values that the decoder may have changed or not fully checked."""
    offsets, data = byte_offsets(part), part.buffers()[2]
    if data is None:
        return
    first, end = int(offsets[0]), int(offsets[-1])
    if any(may_change):
        yield from (position for position, is_suspect in enumerate(may_change) if is_suspect)
    text = data.slice(first, end - first).to_pybytes()
    if not text.isascii() and not _is_text(part):
        yield from _positions(values, lambda value: not _is_utf8(value))
    if b"\\" in text:
        yield from _positions(values, lambda value: _SEPARATOR_ESCAPE in value)
    if (offsets[1:] - offsets[:-1]).max() > FLAT_BYTES:
        yield from _positions(values, _is_too_deep)


def _positions(values: list[bytes | None], test: Callable[[bytes], bool]) -> Iterator[int]:
    return (position for position, value in enumerate(values) if value is not None and test(value))


def _is_text(part: pa.Array) -> bool:
    """Return whether all values are UTF-8; the decoder does not check strings that it skips."""
    try:
        part.cast(pa.large_string() if pa.types.is_large_binary(part.type) else pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _is_too_deep(value: bytes) -> bool:
    """Return whether valid JSON is nested deeper than MAX_DEPTH."""
    if len(value) <= FLAT_BYTES:
        return False
    if b"\\" in value:  # an escaped quote does not end a string
        value = value.replace(b"\\\\", b"").replace(b'\\"', b"")
    folded = np.frombuffer(value, np.uint8) | _BRACKET_BIT
    opens = folded == ord("{")
    if np.count_nonzero(opens) <= MAX_DEPTH:
        return False
    marks = folded[np.flatnonzero(opens | (folded == ord("}")) | (folded == ord('"')))]
    is_outside = (np.cumsum(marks == ord('"'), dtype=np.int32) & 1) == 0
    steps = ((marks == ord("{")) & is_outside).astype(np.int32) - ((marks == ord("}")) & is_outside)
    return int(np.cumsum(steps).max()) > MAX_DEPTH


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
