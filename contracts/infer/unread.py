"""Unreadable records: how many, for which reasons, and where the first ones are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.contracts.formats.json_records import decode_exactly
from tidegate.contracts.infer.values import MOST_POSITIONS, Occurrences
from tidegate.contracts.verdict import Violation
from tidegate.contracts.words import counted

_MOST_REASONS: Final = 20
_OTHER: Final = "other reasons"
_NO_OBJECT: Final = "not a JSON object"
_TOO_LARGE: Final = "a number beyond the range of a double, such as 1e400"
_NOT_OF_SCHEMA: Final = "not of the Avro schema"
NO_VALUE: Final = "no value in any cell"
_REASONS: Final = {
    "json.invalid": "not JSON",
    "json.invalid-utf8": "not UTF-8",
    "json.not-finite": "NaN or Infinity, which JSON does not have",
    "json.empty": "empty",
    "json.too-deep": "nested too deep",
    "json.lone-surrogate": "half of a surrogate pair, which is no character",
    "json.number-range": _TOO_LARGE,
}
"""Reasons by the code of the violation that the judge would report."""
_ADVICE: Final = {
    "not JSON": "correct these records, join those of several lines with jq -c ., or name the format: --input-format",
    "not UTF-8": "write the file as UTF-8, for example with iconv -f latin1 -t utf-8",
    "NaN or Infinity, which JSON does not have": "write null, or leave the field out",
    "empty": "remove empty lines, and records of more than 64 MiB",
    "nested too deep": "nest a record at most 254 levels deep",
    "half of a surrogate pair, which is no character": "write whole characters",
    _TOO_LARGE: "write numbers of at most 1.7e308, or text",
    _NO_OBJECT: 'a record is one object, such as {"id": 1}; a file that is not JSON Lines needs --input-format',
    NO_VALUE: "remove empty rows",
    _NOT_OF_SCHEMA: "name the schema that they were written with: --schema, or --registry for frames",
}  # fmt: skip
"""What to do about each reason."""
_CELLS: Final = "quote a cell that holds the separator, and give each row all cells"


@dataclass(slots=True)
class Unread:
    """The unreadable records: a tally for each reason, and details of its first record."""

    reasons: dict[str, Occurrences] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of unreadable records."""
        return sum(tally.count for tally in self.reasons.values())

    @property
    def first(self) -> list[int]:
        """Return the positions of the first unreadable records."""
        return sorted(each for tally in self.reasons.values() for each in tally.first)[:MOST_POSITIONS]

    def add(self, reason: str, position: int, detail: Callable[[], str] = str) -> None:
        """Add a record. `detail` returns what is wrong in it, and is called only for the first record of a reason."""
        known = self._tally(reason)
        known.add_counted(1, (position,))
        if known.first[0] == position and (found := detail()):
            self.details[reason] = found

    def add_row(self, position: int, reason: str, pointer: str) -> None:
        """Add a record that its source cannot read; `pointer` is the place in the record."""
        self.add(reason.removeprefix("is "), position, lambda: pointer)

    def add_value(self, value: bytes | None, position: int, *, is_avro: bool) -> None:
        """Add a record whose bytes cannot be decoded."""
        if is_avro:
            self.add(_NOT_OF_SCHEMA, position)
            return
        found = decode_exactly(value or b"")
        if isinstance(found, Violation):
            self.add(_REASONS.get(found.code, found.message), position, lambda: _flaw(value) if value else "")
        elif isinstance(found, dict):
            self.add(_TOO_LARGE, position)
        else:
            self.add(_NO_OBJECT, position, lambda: _kind(found))

    def merge(self, other: Unread) -> None:
        """Add the unreadable records of another part."""
        for reason, tally in other.reasons.items():
            known = self._tally(reason)
            known.merge(tally)
            if reason in other.details and known.first[0] == tally.first[0]:
                self.details[reason] = other.details[reason]

    def lines(self, places: Callable[[list[int]], str]) -> Iterator[tuple[str, str]]:
        """Yield (description, advice) for each reason, the most frequent one first; `places` describes positions."""
        for reason, tally in sorted(self.reasons.items(), key=lambda each: -each[1].count):
            detail = f" (the first one: {self.details[reason]})" if reason in self.details else ""
            records = counted(tally.count, "record")
            advice = _ADVICE.get(reason) or (_CELLS if " cells, " in reason else "")
            yield f"{reason}: {records}, {places(tally.first)}{detail}", advice

    def _tally(self, reason: str) -> Occurrences:
        is_one_more = reason not in self.reasons and len(self.reasons) >= _MOST_REASONS
        return self.reasons.setdefault(_OTHER if is_one_more else reason, Occurrences())


def _flaw(value: bytes) -> str:
    """Return what is wrong in text that is not JSON, and where, without its values; "" if unknown."""
    try:
        json.loads(value)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno} of the record, " if error.lineno > 1 else ""
        return f"{line}column {error.colno}: {error.msg}"
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1}"
    except (ValueError, RecursionError):
        pass
    return ""


def _kind(value: Any) -> str:
    names = {
        list: "it is an array",
        str: "it is a text",
        bool: "it is true or false",
        type(None): "it is null",
    }
    return names.get(type(value), "it is a number")
