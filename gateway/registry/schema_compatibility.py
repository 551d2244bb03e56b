"""Compatibility of schemas at the seven levels; only proven compatibility counts.

Source: Confluent Schema Registry, `CompatibilityLevel`. BACKWARD means that a new reader reads old data, FORWARD that
an old reader reads new data. Without TRANSITIVE only the newest version is compared.

A JSON Schema that names no draft is draft 7 for some clients and 2020-12 for others. It must be compatible as both,
and for the records that the stream accepts.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tidegate.contracts.compatibility.advice import advice_about
from tidegate.contracts.compatibility.finding import Direction, directions_of, is_transitive
from tidegate.contracts.document.model import Compatibility
from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.inclusion.answer import Difference, Inclusion, Outcome
from tidegate.contracts.inclusion.avro import includes as avro_includes
from tidegate.contracts.inclusion.json_schema import SchemaPair
from tidegate.gateway.registry.proofs import proven
from tidegate.gateway.registry.schemas.entities import AVRO, JSON, Config
from tidegate.gateway.registry.schemas.json_schema import NAMES, NEWEST, READINGS, closed, json_text, opened
from tidegate.gateway.registry.schemas.parsing import ParsedSchema, is_json_schema
from tidegate.gateway.registry.subject_scope import DEFAULT_LEVEL

Directions = frozenset[Direction]
_NOT_READABLE: Final = "schema.not-readable"
_ONE_DRAFT: Final = (
    "{reading:'a schema that names no draft is draft 7 for some clients and 2020-12 for others: name its draft in "
    "`$schema` to have it compared in that one alone'}"
)
LENIENT = "LENIENT"
"""The policy that allows declaring a property that was undeclared; counterexamples become warnings."""


Key = tuple[str, bytes, str]


def key_of(
    schema_type: str, text: str, dialect: str | None, references: Iterable[tuple[str, Key]] = ()
) -> Key:
    """Return a key that is equal only for schemas that accept the same records: type, content and dialect.

    `references` are the names by which the schema refers to others, and the keys of those.
    """
    others = [(name, other_type, digest.hex(), draft) for name, (other_type, digest, draft) in references]
    content = json.dumps([text, others])
    return schema_type, hashlib.sha256(content.encode()).digest(), dialect or NEWEST


@dataclass(frozen=True, slots=True)
class Earlier:
    """A version to compare with: its name for messages, and its schema, which `read` parses when it is needed.

    `key` is the schema's `key_of`; a version without one is always compared.
    """

    name: str
    read: Callable[[], ParsedSchema]
    key: Key | None = None

    @classmethod
    def of(cls, name: str, schema: ParsedSchema) -> Earlier:
        """Return a version whose schema is already parsed."""
        return cls(name, lambda: schema)


class ProvenPairs:
    """A thread-safe cache of compatible pairs of JSON Schemas, an earlier one and a later one; it keeps the newest.

    Inclusion is transitive: if A is compatible with B, and B with C, then A is compatible with C. Avro is left out
    because its compatibility is not transitive: a field may be dropped, and added again with another type.
    """

    def __init__(self, limit: int = 16_384) -> None:
        self._limit = limit
        self._pairs: OrderedDict[tuple[Key, Key, Directions], None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, earlier: Key | None, later: Key | None, directions: Directions) -> None:
        """Record a pair; pairs of Avro schemas, or without a key, are ignored."""
        if earlier is None or later is None or earlier[0] != JSON:
            return
        with self._lock:
            self._pairs[earlier, later, directions] = None
            self._pairs.move_to_end((earlier, later, directions))
            if len(self._pairs) > self._limit:
                self._pairs.popitem(last=False)

    def has(self, earlier: Key | None, later: Key | None, directions: Directions) -> bool:
        """Return whether a pair is recorded."""
        if earlier is None or later is None:
            return False
        with self._lock:
            return (earlier, later, directions) in self._pairs


_PROVEN = ProvenPairs()


@dataclass(frozen=True, slots=True)
class CompatibilityAnswer:
    """The reasons why a schema is incompatible, a sentence each; the lenient policy accepts the `warnings`."""

    messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_compatible(self) -> bool:
        """Return whether the schema is compatible: there is no message."""
        return not self.messages


def check_compatibility(
    new: ParsedSchema, config: Config, history: Iterable[Earlier], key: Key | None = None
) -> CompatibilityAnswer:
    """Compare a schema with earlier ones, newest first, as the level requires; stop at the first incompatible one.

    `key` is that of the new schema, under which compatible versions are cached. A version is not compared if it is
    cached as compatible with the newest compatible version, or with the last one known to be compatible.
    """
    level = Compatibility(config.level or DEFAULT_LEVEL)
    directions = directions_of(level)
    if not directions:
        return CompatibilityAnswer()
    warnings: tuple[str, ...] = ()
    links: list[Key | None] = []  # the newest compatible version, and the last one known to be compatible
    for earlier in history:
        if any(_PROVEN.has(earlier.key, link, directions) for link in links):
            links[1:] = [earlier.key]
            continue
        schema = earlier.read()
        readings = _readings(schema, new)
        messages = _compare(earlier.name, schema, new, directions, readings)
        if not messages:
            _PROVEN.add(earlier.key, key, directions)
            links[1 if links else 0 :] = [earlier.key]
        if messages and config.policy == LENIENT and _passes_leniently(readings, directions):
            warnings += messages
        elif messages:
            return CompatibilityAnswer((*messages, f"{{compatibility: '{level}'}}"), warnings)
        if not is_transitive(level):
            break
    return CompatibilityAnswer((), warnings)


def inclusion(old: ParsedSchema, new: ParsedSchema) -> Inclusion:
    """Return whether `new` accepts everything that `old` accepts; both schemas have the same type."""
    return _answer(old, new, Direction.BACKWARD)


def _answer(old: ParsedSchema, new: ParsedSchema, direction: Direction) -> Inclusion:
    """Return whether `new` accepts everything that `old` accepts; for FORWARD, the reverse.

    In both cases, the sentences describe the change from the old schema to the new one.
    """
    if old.text == new.text and old.definition == new.definition:
        return Inclusion(Outcome.PROVEN)
    texts = json_text(old.definition), json_text(new.definition)
    return proven(_included, old.schema_type, *texts, direction)


def _included(schema_type: str, old: str, new: str, direction: Direction) -> Inclusion:
    before, after = json.loads(old), json.loads(new)
    is_forward = direction is Direction.FORWARD
    if schema_type == AVRO:
        return avro_includes(after, before) if is_forward else avro_includes(before, after)
    pair = SchemaPair(before, after, formats_asserted=(True, True))
    return pair.back() if is_forward else pair.forth()


@dataclass(frozen=True, slots=True)
class _Reading:
    """Two schemas as a reader with one default draft reads them."""

    old: ParsedSchema
    new: ParsedSchema

    @property
    def is_meant(self) -> bool:
        """Return whether data of the old schema can exist: it is a valid schema in this reading."""
        return _is_readable(self.old)

    @property
    def is_broken(self) -> bool:
        """Return whether the new schema is invalid in this reading."""
        return not _is_readable(self.new)


def _is_readable(schema: ParsedSchema) -> bool:
    return schema.dialect is None or is_json_schema(json_text(schema.definition))


def _readings(old: ParsedSchema, new: ParsedSchema) -> tuple[_Reading, ...]:
    """Return two schemas as they are read here, and as each kind of client reads them if one names no draft."""
    found = {(old.dialect, new.dialect): _Reading(old, new)}
    if old.dialect or new.dialect:
        for dialect in READINGS:
            reading = _Reading(old.read_as(dialect), new.read_as(dialect))
            found.setdefault((reading.old.dialect, reading.new.dialect), reading)
    return tuple(found.values())


def _compare(
    name: str, old: ParsedSchema, new: ParsedSchema, directions: Directions, readings: tuple[_Reading, ...]
) -> tuple[str, ...]:
    """Return why a schema is incompatible; a reason that holds in some readings only names the reading."""
    if old.schema_type != new.schema_type:
        text = f"{name} is of type {old.schema_type}, the new schema of type {new.schema_type}"
        return (f"{{errorType:'SCHEMA_TYPE_CHANGED', description:'{text}'}}",)
    found = [_broken_directions(name, reading, directions) for reading in readings]
    everywhere = set.intersection(*({plain for plain, _ in each} for each in found))
    messages = (plain if plain in everywhere else named for each in found for plain, named in each)
    distinct = tuple(dict.fromkeys(messages))
    return distinct if everywhere.issuperset(distinct) else (*distinct, _ONE_DRAFT)


def _broken_directions(name: str, reading: _Reading, directions: Directions) -> list[tuple[str, str]]:
    """Return why the new schema is incompatible in one reading: each message without and with the reading's name."""
    if not reading.is_meant:
        return []
    old_as, new_as = _named(reading.old), _named(reading.new)
    messages: list[tuple[str, str]] = []
    for direction in sorted(directions):
        is_back = direction is Direction.BACKWARD
        if reading.is_broken:
            messages += [(_broken(new_as), _broken(new_as))] if is_back else []
            continue
        answer = _answer(reading.old, reading.new, direction)
        plain = f"data of {name} under the new schema" if is_back else f"data of the new schema under {name}"
        named = (
            f"data of {name}{old_as}{',' * bool(old_as)} under the new schema{new_as}"
            if is_back
            else f"data of the new schema{new_as}{',' * bool(new_as)} under {name}{old_as}"
        )
        pairs = (_messages(answer, what, direction, reading) for what in (plain, named))
        messages += zip(*pairs, strict=True)
    return messages


def _named(schema: ParsedSchema) -> str:
    return "" if schema.dialect is None else f", read as {NAMES[schema.dialect]}"


def _broken(new_as: str) -> str:
    return (
        f"{{errorType:'{_NOT_READABLE}', outcome:'refuted', description:'the new schema{new_as}, is no JSON Schema, "
        "and that before is one: clients that read it so refuse all data'}"
    )


def _messages(found: Inclusion, what: str, direction: Direction, reading: _Reading) -> tuple[str, ...]:
    if found.outcome is Outcome.PROVEN:
        return ()
    is_advised = direction is Direction.BACKWARD and reading.old.schema_type == JSON
    fields = JsonFields(reading.old.definition) if is_advised else None
    return tuple(
        _message(difference, what, direction, reading, fields) for difference in found.differences
    ) or (f"{{errorType:'{found.outcome.value}', description:'it cannot be shown that {what} is valid'}}",)


def _message(
    difference: Difference, what: str, direction: Direction, reading: _Reading, fields: JsonFields | None
) -> str:
    """Return one reason; with `fields`, those of the old schema, it has advice."""
    places = difference.new_pointer, difference.old_pointer
    new, old = places if direction is Direction.BACKWARD else places[::-1]
    shown = (
        f", counterexample:{difference.counterexample.text}" if difference.counterexample is not None else ""
    )
    advice = None if fields is None else advice_about(difference, fields, reading.new.definition)
    remedy = f", remedy:'{advice}'" if advice else ""
    return (
        f"{{errorType:'{difference.code}', outcome:'{difference.outcome.value}', description:'{what}: "
        f"{difference.sentence}', path:'{new}', oldPath:'{old}', "
        f"field:'{difference.field}'{remedy}{shown}}}"
    )


def _passes_leniently(readings: tuple[_Reading, ...], directions: Directions) -> bool:
    """Return whether the lenient policy accepts a change: it is safe for all who use declared properties only."""
    return all(_is_lenient(reading, directions) for reading in readings if reading.is_meant)


def _is_lenient(reading: _Reading, directions: Directions) -> bool:
    old, new = reading.old, reading.new
    if old.schema_type != new.schema_type or old.schema_type == AVRO or reading.is_broken:
        return False
    pairs = [(old, new) if each is Direction.BACKWARD else (new, old) for each in sorted(directions)]
    asked = [(json_text(closed(one.definition)), json_text(opened(other.definition))) for one, other in pairs]
    return all(
        proven(_included, JSON, writer, reader, Direction.BACKWARD).outcome is Outcome.PROVEN
        for writer, reader in asked
    )
