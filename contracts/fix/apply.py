"""Apply a fix to the bytes of JSON records. Values that it does not change keep their text, including numbers.

A record that cannot be read, or a value that a step does not fit, is left unchanged. The contract then refuses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from itertools import zip_longest
from typing import Any, Final, Protocol

from tidegate.contracts.document.fields import tokens
from tidegate.contracts.document.rule_model import Condition
from tidegate.contracts.fix.model import (
    DATE_PARTS,
    AnyStep,
    Cast,
    Date,
    Default,
    Drop,
    Fix,
    Map,
    Rename,
    Set,
    Trim,
    date_parts,
)
from tidegate.contracts.rules.places import EACH, Path, located, places, read

_PREFIX_BYTES: Final = 5
_MAGIC: Final = b"\0"
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_INDEX: Final = re.compile(r"[0-9]{1,9}")
_MOST_DIGITS: Final = 400
"""Maximum number of digits in a number, also when it is written without an exponent."""
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a record, as its original text."""

    text: str


class RecordFix(Protocol):
    """A compiled fix for records of one format."""

    def apply(self, value: bytes | None) -> bytes | None:
        """Return a record after all steps; the same object if nothing changes or it cannot be read."""
        ...


class CompiledFix:
    """A compiled fix for records with a JSON payload."""

    def __init__(self, fix: Fix) -> None:
        self.fingerprint = fix.fingerprint
        self._text = fix.text
        self._steps = [_compiled(step) for step in fix.steps]

    def change(self, record: Any) -> bool:
        """Apply all steps to a decoded record, whose numbers are `Number`s; return whether any has changed it."""
        return sum(step(record) for step in self._steps) > 0  # unlike `any`, this runs all steps

    def __reduce__(self) -> tuple[Callable[[str], CompiledFix], tuple[str]]:
        """Pickle the text of the fix, because the compiled steps are functions."""
        return _recompiled, (self._text,)

    def apply(self, value: bytes | None) -> bytes | None:
        """Return a record after all steps; the same object if nothing changes or it is not JSON.

        A five-byte Confluent prefix before the payload is kept.
        """
        if not value:
            return value
        prefix, payload = (
            (value[:_PREFIX_BYTES], value[_PREFIX_BYTES:]) if value[:1] == _MAGIC else (b"", value)
        )
        try:
            record = json.loads(
                payload.decode(),
                parse_int=Number,
                parse_float=Number,
                parse_constant=_refuse,
                object_pairs_hook=_object,
            )
            if not self.change(record):
                return value
            return prefix + _written(record).encode()
        except (ValueError, RecursionError):  # not JSON, or nested too deeply; UnicodeError is a ValueError
            return value


def _recompiled(text: str) -> CompiledFix:
    return CompiledFix(Fix.model_validate_json(text, strict=True))


Change = Callable[[Any, str | int], bool]
"""Changes a member of an object or an item of an array, by parent and key; returns whether anything changed."""


def _compiled(step: AnyStep) -> Callable[[Any], bool]:
    """Return a function that applies a step to a record in place, and returns whether anything changed."""
    change, path = _change(step), tokens(step.field)
    condition = step.when
    paths = (path,) if condition is None else (path, tokens(condition.field))

    def run(record: Any) -> bool:
        found = [
            located(path, elements)
            for elements, values in list(places(record, paths))
            if condition is None or _holds(condition, values[1])
        ]
        # A `*` that is left stands for no element: the value there is not an array.
        return sum(_at(record, concrete, change) for concrete in found if EACH not in concrete) > 0

    return run


def _at(record: Any, path: Path, change: Change) -> bool:
    *parents, last = path
    parent = read(record, tuple(parents))
    if type(parent) is dict:
        return change(parent, last)
    if type(parent) is list and _INDEX.fullmatch(last) and int(last) < len(parent):
        return change(parent, int(last))
    return False


def _change(step: AnyStep) -> Change:  # noqa: PLR0911 - one for each action
    match step:
        case Set():
            new = _new(step.value)
            return lambda parent, key: _put(parent, key, new)
        case Default():
            new = _new(step.value)
            return lambda parent, key: _is_missing(_value(parent, key)) and _put(parent, key, new)
        case Map():
            changes = {_comparable(_new(each.value_from)): _new(each.to) for each in step.values}
            return lambda parent, key: _replaced(
                parent, key, lambda value: changes.get(_comparable(value), value)
            )
        case Cast():
            cast = _CASTS[step.to]
            return lambda parent, key: _replaced(parent, key, cast)
        case Trim():
            return lambda parent, key: _replaced(parent, key, _trimmed)
        case Date():
            reform = _reformed(step)
            return lambda parent, key: _replaced(parent, key, reform)
        case Drop():
            return _dropped
        case Rename():
            name = step.to
            return lambda parent, key: _renamed(parent, key, name)


def _value(parent: Any, key: str | int) -> Any:
    return parent.get(key, _ABSENT) if type(parent) is dict else parent[key]


def _is_missing(value: Any) -> bool:
    return value is None or value is _ABSENT


def _put(parent: Any, key: str | int, new: Any) -> bool:
    before = _value(parent, key)
    if type(before) is type(new) and before == new:  # numbers are compared by their text
        return False
    parent[key] = new
    return True


def _replaced(parent: Any, key: str | int, function: Callable[[Any], Any]) -> bool:
    before = _value(parent, key)
    if before is _ABSENT or isinstance(before, dict | list):
        return False
    return _put(parent, key, function(before))


def _dropped(parent: Any, key: str | int) -> bool:
    return type(parent) is dict and parent.pop(key, _ABSENT) is not _ABSENT


def _renamed(parent: Any, key: str | int, name: str) -> bool:
    if type(parent) is not dict or key not in parent or name in parent:
        return False
    # Rebuild the object to keep the order of its members.
    members = [(name if each == key else each, value) for each, value in parent.items()]
    parent.clear()
    parent.update(members)
    return True


def _trimmed(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _integer(value: Any) -> Any:
    match value:
        case str() if _INTEGER.fullmatch(value) and len(value) <= _MOST_DIGITS:
            return Number(value)
        case Number(text) if not _INTEGER.fullmatch(text):
            number = _decimal(text)
            if number is not None and number == number.to_integral_value():
                return Number(str(int(number)))
    return value


def _number(value: Any) -> Any:
    if isinstance(value, str) and _NUMBER.fullmatch(value) and len(value) <= _MOST_DIGITS:
        return Number(value)
    return value


def _string(value: Any) -> Any:
    match value:
        case Number(text):
            return text
        case bool():
            return str(value).lower()
    return value


def _boolean(value: Any) -> Any:
    match value:
        case str() if value.lower() in {"true", "false"}:
            return value.lower() == "true"
        case Number("0" | "1" as text):
            return text == "1"
    return value


_CASTS: Final[dict[str, Callable[[Any], Any]]] = {
    "integer": _integer,
    "number": _number,
    "string": _string,
    "boolean": _boolean,
}


def _reformed(step: Date) -> Callable[[Any], Any]:
    """Return a function that converts a text of the step's form to a date, or with a time of day to a timestamp."""
    between = re.split("|".join(DATE_PARTS), step.form)
    parts = date_parts(step.form)
    pieces = [
        re.escape(text) + (f"(?P<{part}>[0-9]{{{DATE_PARTS[part]}}})" if part else "")
        for text, part in zip_longest(between, parts, fillvalue="")
    ]
    pattern = re.compile("".join(pieces))

    def reform(value: Any) -> Any:
        found = pattern.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return value
        of = {part: int(digits) for part, digits in found.groupdict().items()}
        try:
            at = datetime(of["YYYY"], of["MM"], of["DD"], of.get("HH", 0), of.get("mm", 0), of.get("ss", 0))  # noqa: DTZ001 - the zone is written after it
        except ValueError:
            return value
        return f"{at.isoformat()}{step.zone}" if "HH" in of else at.date().isoformat()

    return reform


def _holds(condition: Condition, value: Any) -> bool:
    values = condition.values
    if values is None:
        return value is not None
    is_listed = any(_is_same(value, _new(each)) for each in values)
    return (value is not None and not is_listed) if condition.is_negated else is_listed


def _is_same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and _comparable(value) == _comparable(other)


def _comparable(value: Any) -> Any:
    """Return a key that is equal for equal scalars. Numbers compare by value, and never equal a boolean."""
    match value:
        case Number(text):
            number = _decimal(text)
            return ("number", text if number is None else number)
        case dict() | list():
            return ("other", id(value))
        case _:
            return (type(value).__name__, value)


def _decimal(text: str) -> Decimal | None:
    """Return a number exactly; None if it is not finite, or has more than 400 digits without an exponent."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    is_short = len(text) <= _MOST_DIGITS and abs(number.adjusted()) <= _MOST_DIGITS
    return number if number.is_finite() and is_short else None


def _new(value: Any) -> Any:
    """Return a value of a fix in the form of a decoded record, in which numbers are `Number`s."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return Number(repr(value))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member is there twice")
    return members


def _written(value: Any) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_text(name)}:{_written(each)}" for name, each in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
        case Number(text):
            return text
        case str():
            return _text(value)
        case None:
            return "null"
    return "true" if value else "false"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
