"""Compatibility of schemas in the seven levels; only what is proven is compatible.

Source: Confluent Schema Registry, `CompatibilityLevel`: BACKWARD is a new reader of old data, FORWARD an old reader of
new data; without TRANSITIVE only the newest version counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from contracts.compatibility.avro import includes as avro_includes
from contracts.compatibility.finding import Direction
from contracts.compatibility.inclusion import Difference, Inclusion, Outcome
from contracts.compatibility.json_schema import Pair
from gateway.confluent.entities import AVRO, JSON, Config
from gateway.confluent.json_text import json_text
from gateway.confluent.parsing import ParsedSchema
from gateway.services.leniency import closed, opened
from gateway.services.subject_scope import DEFAULT_LEVEL

_REMEMBERED = 512
LENIENT = "LENIENT"
"""The policy under which a property that was undeclared may be declared: counterexamples are warnings then."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A version to compare with: its name for messages, and its schema."""

    name: str
    schema: ParsedSchema


@dataclass(frozen=True, slots=True)
class CompatibilityAnswer:
    """Why a schema is not compatible, a sentence each; `warnings` are what a lenient policy let pass."""

    messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_compatible(self) -> bool:
        """Whether nothing speaks against the schema."""
        return not self.messages


def check_compatibility(new: ParsedSchema, config: Config, history: Iterable[Earlier]) -> CompatibilityAnswer:
    """Compare a schema with earlier ones, newest first, as the level says; stop at the first that does not fit."""
    level = config.level or DEFAULT_LEVEL
    if level == "NONE":
        return CompatibilityAnswer()
    warnings: tuple[str, ...] = ()
    for earlier in history:
        messages = _compare(earlier, new, level)
        if messages and config.policy == LENIENT and _passes_leniently(earlier.schema, new, level):
            warnings += messages
        elif messages:
            return CompatibilityAnswer((*messages, f"{{compatibility: '{level}'}}"), warnings)
        if not level.endswith("_TRANSITIVE"):
            break
    return CompatibilityAnswer((), warnings)


def inclusion(old: ParsedSchema, new: ParsedSchema) -> Inclusion:
    """Say whether all that `old` accepts is accepted by `new`; the schemas are of one type."""
    return _answer(old, new, Direction.BACKWARD)


def _answer(old: ParsedSchema, new: ParsedSchema, direction: Direction) -> Inclusion:
    """Say whether `new` accepts what `old` does, or forward the reverse; told from the old schema to the new one."""
    if old.text == new.text and old.definition == new.definition:
        return Inclusion(Outcome.PROVEN)
    return _included(old.schema_type, json_text(old.definition), json_text(new.definition), direction)


@lru_cache(maxsize=_REMEMBERED)
def _included(schema_type: str, old: str, new: str, direction: Direction) -> Inclusion:
    """Decide inclusion, once: the same schemas are compared before the writers' turn and in it."""
    before, after = json.loads(old), json.loads(new)
    is_forward = direction is Direction.FORWARD
    if schema_type == AVRO:
        return avro_includes(after, before) if is_forward else avro_includes(before, after)
    pair = Pair(before, after, formats_asserted=True)
    return pair.back() if is_forward else pair.forth()


def _compare(earlier: Earlier, new: ParsedSchema, level: str) -> tuple[str, ...]:
    if earlier.schema.schema_type != new.schema_type:
        told = f"{earlier.name} is of type {earlier.schema.schema_type}, the new schema of type {new.schema_type}"
        return (f"{{errorType:'SCHEMA_TYPE_CHANGED', description:'{told}'}}",)
    messages: tuple[str, ...] = ()
    for direction, what in (
        (Direction.BACKWARD, f"data of {earlier.name} under the new schema"),
        (Direction.FORWARD, f"data of the new schema under {earlier.name}"),
    ):
        if level.startswith((direction.name, "FULL")):
            messages += _messages(_answer(earlier.schema, new, direction), what, direction)
    return messages


def _messages(found: Inclusion, what: str, direction: Direction) -> tuple[str, ...]:
    if found.outcome is Outcome.PROVEN:
        return ()
    return tuple(_message(difference, what, direction) for difference in found.differences) or (
        f"{{errorType:'{found.outcome.value}', description:'it cannot be shown that {what} is valid'}}",
    )


def _message(difference: Difference, what: str, direction: Direction) -> str:
    places = difference.new_pointer, difference.old_pointer
    new, old = places if direction is Direction.BACKWARD else places[::-1]
    shown = (
        f", counterexample:{difference.counterexample.text}" if difference.counterexample is not None else ""
    )
    return (
        f"{{errorType:'{difference.code}', outcome:'{difference.outcome.value}', description:'{what}: "
        f"{difference.sentence}', path:'{new}', oldPath:'{old}', "
        f"field:'{difference.field}'{shown}}}"
    )


def _passes_leniently(old: ParsedSchema, new: ParsedSchema, level: str) -> bool:
    """Whether a change is harmless to all who use declared properties only: the lenient policy's question."""
    if old.schema_type != new.schema_type or old.schema_type == AVRO:
        return False
    pairs = []
    if level.startswith(("BACKWARD", "FULL")):
        pairs.append((old, new))
    if level.startswith(("FORWARD", "FULL")):
        pairs.append((new, old))
    asked = [(json_text(closed(one.definition)), json_text(opened(other.definition))) for one, other in pairs]
    return all(
        _included(JSON, writer, reader, Direction.BACKWARD).outcome is Outcome.PROVEN
        for writer, reader in asked
    )
